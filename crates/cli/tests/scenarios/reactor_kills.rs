//! Events become actions exactly once, whoever is killed meanwhile.

use crate::fleet::Fleet;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use zester_bus::nats::{Options, connect};
use zester_link::Link;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};
use zester_wire::{
    Cause, Event, EventSubject, Jid, Job, Key, MessageId, Missing, Origin, Subject, Tag, VERSION,
};

/// Who is killed is back soon, and nobody is given up before.
const TIMING: &[&str] = &[
    "timing.master_heartbeat=500ms",
    "timing.master_ttl=8s",
    "timing.orphan_scan=1s",
    "timing.ack_window=1s",
    "timing.unreachable_grace=40s",
    "timing.peel_heartbeat=1s",
    "timing.peel_ttl=4s",
    "timing.reconnect_spread=1s",
];
/// No guard is in the way, and an event of a master that died comes again soon.
const REACTING: &[&str] = &[
    "reactor.ack_wait=10s",
    "reactor.source_rate_limit=0",
    "reactor.storm_rate=0",
    "reactor.max_event_age=0",
];
const PEELS: usize = 2;
/// Everybody is killed at least once; then the dice say.
const FIRST: &[&str] = &["m1", "p2", "server", "m2", "p1"];
const PATIENCE: Duration = Duration::from_secs(100);
/// One event after the other, slower than two peels run a command each.
const PAUSE: Duration = Duration::from_millis(120);

/// SplitMix64: chance that a number repeats.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % sides
    }

    fn rest(&mut self, least_ms: u64, most_ms: u64) {
        std::thread::sleep(Duration::from_millis(least_ms + self.roll(most_ms - least_ms)));
    }
}

/// An operator with a connection of its own, which comes back by itself.
struct Operator {
    runtime: tokio::runtime::Runtime,
    link: Link,
}

impl Operator {
    fn new(url: &str) -> Operator {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let options = Options { keep_trying: true, ..Options::new(vec![url.to_string()], "operator") };
        let bus = runtime.block_on(connect(options)).unwrap();
        Operator { runtime, link: Link::new(Arc::new(bus)) }
    }

    /// Until it is stored. The same id is kept once.
    fn send(&self, number: usize) {
        let tag = Tag::parse("soak").unwrap();
        let mut data = serde_json::Map::new();
        data.insert("peel".into(), format!("p{}", 1 + number % PEELS).into());
        let event = Event {
            id: id_of(number),
            tag: tag.clone(),
            data,
            ts: self.link.now(),
            v: VERSION,
            origin: String::new(),
            depth: 0,
        };
        let subject = Subject::Event(EventSubject::Admin { tag });
        let id = MessageId::parse(&event.id).unwrap();
        wait_for("an event is stored", PATIENCE, || {
            self.runtime.block_on(self.link.publish_stored(&subject, &id, &event)).ok()
        });
    }

    /// Whether the job of an event is over, and says that its work was cut short by the end of its peel.
    fn is_interrupted(&self, number: usize) -> bool {
        let job = self.runtime.block_on(self.link.get::<Job>(&Key::Job(jid_of(number))));
        let Ok(Some(found)) = job else { return false };
        let returns = self.runtime.block_on(self.link.returns_of(&jid_of(number))).unwrap_or_default();
        let told = returns.iter().any(|ret| ret.cause == Cause::Interrupted)
            || found.value.missing.values().any(|missing| *missing == Missing::Interrupted);
        found.value.status.is_terminal() && told
    }
}

impl Operator {
    /// What is known of an event that nothing came of.
    fn story(&self, number: usize) -> String {
        let job = self.runtime.block_on(self.link.get::<Job>(&Key::Job(jid_of(number))));
        match job {
            Ok(Some(found)) => {
                let job = found.value;
                let words = (job.status.as_str(), &job.owner, job.reason, job.missing, job.return_count);
                format!("{} {}: {words:?}", id_of(number), job.jid)
            }
            other => format!("{}: no job: {other:?}", id_of(number)),
        }
    }
}

fn id_of(number: usize) -> String {
    format!("soak-{number}")
}

fn jid_of(number: usize) -> Jid {
    let (origin, id) = (Origin::Admin, id_of(number));
    zester_reactor::Cause { origin: &origin, event_id: &id, rule: "reactor.note", block: "note" }
        .jid()
        .unwrap()
}

fn write_rules(directory: &Path, lines: &Path) {
    std::fs::create_dir(directory).unwrap();
    std::fs::write(directory.join("top.zy"), "reactor:\n  - '_admin/soak': [reactor.note]\n").unwrap();
    let note = format!(
        "note:\n  dispatch.module:\n    target: {{{{ data.peel }}}}\n    function: cmd.run\n    args:\n      \
         name: echo {{{{ event.id }}}} >> {}\n",
        lines.display()
    );
    std::fs::write(directory.join("note.zy"), note).unwrap();
}

/// How often each event left its line.
fn lines(file: &Path) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in std::fs::read_to_string(file).unwrap_or_default().lines() {
        *counts.entry(line.to_string()).or_insert(0) += 1;
    }
    counts
}

/// Kills somebody and starts it again. Says whom.
fn kill_one(
    fleet: &mut Fleet,
    server: &mut Server,
    start: &mut dyn FnMut(&mut Fleet, &str),
    first: Option<&str>,
    dice: &mut Dice,
) -> String {
    let by_dice = match dice.roll(5) {
        0 | 1 => format!("m{}", 1 + dice.roll(2)),
        2 | 3 => format!("p{}", 1 + dice.roll(PEELS as u64)),
        _ => "server".to_string(),
    };
    let name = first.map_or(by_dice, ToString::to_string);
    if name == "server" {
        server.kill();
        dice.rest(100, 1_500);
        server.restart();
        return name;
    }
    let known = if name.starts_with('m') { &mut fleet.masters } else { &mut fleet.peels };
    known.get_mut(&name).unwrap().kill();
    dice.rest(50, 1_500);
    start(fleet, &name);
    name
}

#[test]
#[rule("R-10", "R-8")]
fn r10_every_event_is_done_exactly_once_while_everybody_is_killed() {
    let count = if std::env::var_os("ZESTER_SOAK").is_some() { 2_000 } else { 200 };
    let seed = std::env::var("ZESTER_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    let mut server = Server::start();
    let mut fleet = Fleet::with_timing(&server.url(), TIMING);
    let file: PathBuf = fleet.path("lines");
    let rules = fleet.path("reactor");
    write_rules(&rules, &file);
    let rules = rules.display().to_string();
    let mut start = |fleet: &mut Fleet, name: &str| {
        let mut more = vec!["--reactor", rules.as_str()];
        more.extend(REACTING.iter().flat_map(|set| ["--set", set]));
        match name.starts_with('m') {
            true => fleet.start_master_with(name, &more),
            false => fleet.start_peel(name),
        }
    };
    for name in ["m1", "m2", "p1", "p2"] {
        start(&mut fleet, name);
    }
    fleet.wait_online(PEELS);

    let operator = Operator::new(&server.url());
    // A master that starts anew knows the peels by what they have published.
    wait_for("the facts of all peels", PATIENCE, || {
        let keys = operator.runtime.block_on(operator.link.bus().keys("facts", "*")).ok()?;
        (keys.len() == PEELS).then_some(())
    });
    let (sent, done) = (AtomicUsize::new(0), AtomicBool::new(false));
    let mut dice = Dice(seed);
    let mut killed: BTreeMap<String, usize> = BTreeMap::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for number in 0..count {
                operator.send(number);
                sent.fetch_add(1, Ordering::Relaxed);
                std::thread::sleep(PAUSE);
            }
            done.store(true, Ordering::Release);
        });
        while !done.load(Ordering::Acquire) {
            dice.rest(300, 2_000);
            let first = FIRST.get(killed.len()).filter(|name| !killed.contains_key(**name)).copied();
            let whom = kill_one(&mut fleet, &mut server, &mut start, first, &mut dice);
            *killed.entry(whom).or_default() += 1;
        }
    });
    assert_eq!(sent.load(Ordering::Relaxed), count);
    assert_eq!(killed.len(), FIRST.len(), "{killed:?}");

    let mut open: Vec<usize> = (0..count).collect();
    let mut interrupted = 0;
    let began = Instant::now();
    wait_for("every event is done, or told as interrupted", PATIENCE * 2, || {
        let found = lines(&file);
        if began.elapsed() > PATIENCE {
            let stories: Vec<String> = open.iter().take(5).map(|number| operator.story(*number)).collect();
            let id = open.first().map(|number| id_of(*number)).unwrap_or_default();
            let told = fleet.zester(&["reactor", "history", "--event", &id]);
            let told = String::from_utf8_lossy(&told.stdout).into_owned();
            panic!("seed {seed}, killed {killed:?}: {} are open: {}\n{told}", open.len(), stories.join("\n"));
        }
        open.retain(|number| {
            let is_done = found.contains_key(&id_of(*number));
            let cut_short = !is_done && operator.is_interrupted(*number);
            interrupted += usize::from(cut_short);
            !is_done && !cut_short
        });
        open.is_empty().then_some(())
    });
    // Whatever is left to be given again has found its job by now.
    let reader = zester_bus::storage::reactor();
    wait_for("the stream has nothing left", PATIENCE, || {
        let pending = operator.runtime.block_on(operator.link.bus().pending(&reader)).ok()?;
        (pending.total() == 0).then_some(())
    });
    let found = lines(&file);
    let twice: Vec<&String> = found.iter().filter(|(_, times)| **times != 1).map(|(id, _)| id).collect();
    assert!(twice.is_empty(), "seed {seed}: not once: {twice:?}");
    eprintln!("seed {seed}: {} of {count} once, {interrupted} interrupted, killed {killed:?}", found.len());
    assert!(interrupted <= count / 4, "{interrupted} of {count} were cut short");
}
