//! Garbage by the hundred thousand: nothing panics, and each is counted. `ZESTER_SOAK=1` is a million.

use super::double::{NOW, rules};
use serde_json::json;
use std::collections::BTreeMap;
use zester_reactor::{Delivered, Gates, Guards, Payload};
use zester_rule::rule;
use zester_wire::{Envelope, Event, UnixMillis, decode, encode};

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

fn subject(dice: &mut Dice) -> String {
    if dice.below(3) == 0 {
        return "zester.event.web-1.send.deploy.now".into();
    }
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
fn payload(dice: &mut Dice, subject: &str) -> Vec<u8> {
    let tag = match dice.below(3) {
        0 => "deploy".to_string(),
        _ => subject.split('.').skip(4).collect::<Vec<_>>().join("/"),
    };
    let tag = zester_wire::Tag::parse(&tag).unwrap_or_else(|_| zester_wire::Tag::parse("x").unwrap());
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
    let ahead = [0, 0, 0, 400_000][dice.below(4)];
    let envelope = Envelope {
        v: 1,
        id: zester_wire::MessageId::parse("m").unwrap(),
        ts: UnixMillis(NOW.0 + ahead),
        key: String::new(),
        sig: Vec::new(),
        payload: encode(&event).unwrap(),
        beside: Vec::new(),
    };
    let mut bytes = encode(&envelope).unwrap();
    for _ in 0..[0, 0, 1, 5][dice.below(4)] {
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
    let mut counted: BTreeMap<&str, u64> = BTreeMap::new();
    for sequence in 0..count {
        let subject = subject(&mut dice);
        let bytes = payload(&mut dice, &subject);
        let stored = UnixMillis(NOW.0 - [0, 0, 0, 7_200_000][dice.below(4)]);
        let delivered = Delivered { subject: &subject, sequence, stored, deliveries: 1 };
        // Time goes on, so that some get past the limit of their source.
        let now = NOW.plus(std::time::Duration::from_millis(sequence / 10));
        let word = match gates.judge(&delivered, |_| open(&bytes), now) {
            Ok(passed) => {
                assert!(!set.matching(&passed.key).is_empty());
                "passed"
            }
            Err(dropped) => dropped.reason.as_str(),
        };
        *counted.entry(word).or_default() += 1;
    }
    assert_eq!(counted.values().sum::<u64>(), count);
    for word in ["passed", "malformed", "decode", "spoof", "depth", "ratelimit", "stale"] {
        assert!(counted.contains_key(word), "{word} never came: {counted:?}");
    }
}
