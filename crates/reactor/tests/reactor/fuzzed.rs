//! Garbage by the hundred thousand: nothing panics, and each is counted. `ZESTER_SOAK=1` is a million.

use super::double::{NOW, rules};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;
use zester_reactor::{Delivered, Gates, Guards, Payload, subject_of_key};
use zester_rule::rule;
use zester_wire::{Envelope, Event, Origin, Subject, Tag, UnixMillis, decode, encode};

/// Numbers that are the same in every run (xorshift).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

const WORDS: &[&str] = &[
    "zester", "event", "_master", "_admin", "_other", "web-1", "send", "beacon", "deploy", "*", ">", "",
    "a b", "ü", "..", "\0", "x/y", "service", "reaction", "$JS",
];

/// A subject of ours of each shape, and one in two that is anything.
fn subject(dice: &mut Dice) -> String {
    let peel = ["web-1", "web-2", "db_3"][dice.below(3)];
    match dice.below(10) {
        0 => format!("zester.event.{peel}.send.deploy.now"),
        1 => format!("zester.event.{peel}.send.x"),
        2 => format!("zester.event.{peel}.beacon.service"),
        3 => "zester.event._master.job.done".into(),
        4 => "zester.event._admin.send.deploy".into(),
        _ => anything(dice),
    }
}

fn anything(dice: &mut Dice) -> String {
    let mut tokens = vec!["zester", "event"];
    if dice.below(10) == 0 {
        tokens.clear();
    }
    for _ in 0..dice.below(7) {
        tokens.push(WORDS[dice.below(WORDS.len())]);
    }
    if dice.below(50) == 0 {
        tokens.resize(400, "abcdef");
    }
    tokens.join(".")
}

/// An event in its envelope, and then what a stranger makes of it.
fn payload(dice: &mut Dice, subject: &str, now: UnixMillis) -> Vec<u8> {
    let lie = Tag::parse("deploy/lie").unwrap();
    let tag = match Subject::parse(subject) {
        Ok(Subject::Event(subject)) if dice.below(4) > 0 => subject.tag(),
        _ => lie,
    };
    let data = json!({"a": dice.next(), "b": [null, "é", {"c": "{{ x }}"}]});
    let event = Event {
        id: if dice.below(20) == 0 { String::new() } else { dice.next().to_string() },
        tag,
        data: data.as_object().cloned().unwrap(),
        ts: NOW,
        v: 1,
        origin: String::new(),
        depth: dice.below(5) as u32,
    };
    let ahead = [0, 0, 0, 0, 0, 400_000][dice.below(6)];
    let envelope = Envelope {
        v: 1,
        id: zester_wire::MessageId::parse("m").unwrap(),
        ts: now.plus(Duration::from_millis(ahead)),
        key: String::new(),
        sig: Vec::new(),
        payload: encode(&event).unwrap(),
        beside: Vec::new(),
        cert: Vec::new(),
    };
    let mut bytes = encode(&envelope).unwrap();
    for _ in 0..[0, 0, 0, 0, 1, 5][dice.below(6)] {
        let at = dice.below(bytes.len());
        bytes[at] = dice.next() as u8;
    }
    if dice.below(8) == 0 {
        bytes.truncate(dice.below(bytes.len()));
    }
    bytes
}

fn open(bytes: &[u8]) -> Payload {
    let opened = decode::<Envelope>(bytes).and_then(|envelope| Ok((envelope.open::<Event>()?, envelope.ts)));
    match opened {
        Ok((event, signed)) => Payload::Read { event, signed },
        Err(error) => Payload::Unreadable(error.to_string()),
    }
}

#[test]
#[rule("R-2", "R-3")]
fn r3_garbage_is_counted_and_never_panics() {
    let count = if std::env::var_os("ZESTER_SOAK").is_some() { 1_000_000 } else { 100_000 };
    let set = rules(&[("top.zy", json!([{"*": ["reactor.a"]}])), ("a.zy", json!({"b": {"log": "x"}}))]);
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let mut gates = Gates::new(Guards::default());
    let mut counted: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for sequence in 0..count {
        // Time goes on, so that some get past the limit of their source.
        let now = NOW.plus(Duration::from_millis(sequence * 4));
        let subject = subject(&mut dice);
        let bytes = payload(&mut dice, &subject, now);
        let stored = UnixMillis(now.0 - [0, 0, 0, 7_200_000][dice.below(4)]);
        let deliveries = [1, 1, 1, 2][dice.below(4)];
        let delivered = Delivered { subject: &subject, sequence, stored, deliveries };
        let (sort, word) = match gates.judge(&delivered, |_| open(&bytes), now) {
            Ok(passed) => {
                assert!(!set.matching(&passed.key).is_empty());
                assert_eq!(subject_of_key(&passed.key).map(|of| of.match_key()), Some(passed.key.clone()));
                (sort(Some(&passed.origin), &passed.event.tag), "passed")
            }
            Err(dropped) => {
                let tag = dropped.tag.clone().unwrap_or_else(|| Tag::parse("none").unwrap());
                (sort(dropped.origin.as_ref(), &tag), dropped.reason.as_str())
            }
        };
        *counted.entry((sort, word)).or_default() += 1;
    }
    assert_eq!(counted.values().sum::<u64>(), count);
    // Each outcome is reached often, by everybody who can: one in five hundred at least.
    let mut rare = Vec::new();
    for sort in ["peel", "beacon", "master", "admin"] {
        for word in ["passed", "malformed", "decode", "spoof", "depth", "ratelimit", "stale"] {
            let times = counted.get(&(sort, word)).copied().unwrap_or(0);
            match (sort, word) {
                ("master", "ratelimit") => assert_eq!(times, 0, "masters are exempt"),
                _ if times < count / 1_000 => rare.push((sort, word, times)),
                _ => {}
            }
        }
    }
    assert_eq!(rare, [], "{counted:?}");
    let nobody = counted.iter().filter(|((sort, _), _)| *sort == "nobody");
    let words: Vec<&str> = nobody.map(|((_, word), _)| *word).collect();
    assert_eq!(words, ["malformed"], "what names nobody is opened by nobody");
}

/// Who speaks, as far as the gates could tell.
fn sort(origin: Option<&Origin>, tag: &Tag) -> &'static str {
    match origin {
        None => "nobody",
        Some(Origin::Master) => "master",
        Some(Origin::Admin) => "admin",
        Some(Origin::Peel(_)) if tag.as_str().starts_with("beacon/") => "beacon",
        Some(Origin::Peel(_)) => "peel",
    }
}
