//! A hundred thousand messages that make no sense, on every subject.

use crate::fleet::Fleet;
use std::io::{Read, Write};
use std::net::TcpStream;
use zester_bus::{Bus, Bytes};
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

const MESSAGES: usize = 100_000;

/// Everything that a master or a peel listens to.
fn subjects(jid: &str) -> Vec<String> {
    let mut subjects: Vec<String> = [
        "zester.dispatch",
        "zester.admin.kill",
        "zester.admin.retry",
        "zester.admin.nonsense",
        "zester.target.resolve",
    ]
    .map(String::from)
    .to_vec();
    subjects.push("zester.cmd.p1".into());
    for verb in ["ack.p1", "return.p1", "cancel", "ack.nobody", "return.nobody"] {
        subjects.push(format!("zester.job.{jid}.{verb}"));
        subjects.push(format!("zester.job.not-a-jid.{verb}"));
    }
    subjects
}

/// Truncated, oversized, of another version, and plain noise; all of it repeatable.
fn garbage(number: usize, sample: &[u8]) -> Bytes {
    let byte = |index: usize| (index.wrapping_mul(2_654_435_761) >> 7) as u8;
    match number % 5 {
        0 => Bytes::new(),
        1 => Bytes::copy_from_slice(&sample[..number % sample.len()]),
        2 => (0..number % 200).map(|index| byte(index + number)).collect::<Vec<u8>>().into(),
        // A map that promises four billion entries.
        3 => Bytes::from_static(&[0xdf, 0xff, 0xff, 0xff, 0xff, 0xa1, b'v', 0xcd]),
        _ => {
            let mut flipped = sample.to_vec();
            let at = number % flipped.len();
            flipped[at] ^= 1 << (number % 8);
            flipped.into()
        }
    }
}

/// The sum of all metrics whose names begin so.
/// The sum of a metric over its labels.
fn metric(port: u16, name: &str) -> Option<u64> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with(name)).collect();
    (!lines.is_empty())
        .then(|| lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum())
}

#[test]
#[rule("I-8")]
fn i8_a_hundred_thousand_senseless_messages_change_nothing() {
    let server = Server::start();
    let fleet = Fleet::start(&server.url(), 1, 1);
    fleet.open("gate");
    let jid = fleet.dispatch_gated("*", "gate");
    let before = fleet.wait_over(&jid);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = zester_bus::nats::Options::new(vec![server.url()], "noise");
        let bus = zester_bus::nats::connect(options).await.unwrap();
        // A real message to break: the ack of the job that is over.
        let kept = bus.replay("job-events", &format!("zester.job.{jid}.ack.*"), 0).await.unwrap();
        let sample = kept.items.first().unwrap().payload.clone();
        let subjects = subjects(&jid);
        for number in 0..MESSAGES {
            let subject = &subjects[(number / 5) % subjects.len()];
            bus.publish(subject, garbage(number, &sample)).await.unwrap();
            if number % 1_000 == 0 {
                bus.flush().await.unwrap();
            }
        }
        for subject in &subjects {
            bus.publish(subject, vec![0x93; 900_000].into()).await.unwrap();
        }
        bus.flush().await.unwrap();
        bus.close().await.unwrap();
    });
    // Still there, still working, and nothing has changed.
    fleet.wait_online(1);
    let after = fleet.job(&jid);
    assert_eq!(before, after);
    assert_eq!(fleet.begun("gate"), 1);
    for daemon in fleet.masters.values().chain(fleet.peels.values()) {
        assert!(!daemon.said().contains("panicked"), "{}", daemon.said());
        let lines = daemon.said().lines().count();
        assert!(lines < 500, "{lines} lines of log for messages that are only counted");
    }
}

/// The health port says how many there were.
#[test]
#[rule("D-11")]
fn d11_senseless_messages_are_counted() {
    let server = Server::start();
    let mut fleet = Fleet::start(&server.url(), 1, 0);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    fleet.start_master_with_health("m2", port);
    wait_for("the health port", crate::daemon::PATIENCE, || metric(port, "zester_messages_dropped"));
    let before = metric(port, "zester_messages_dropped").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = zester_bus::nats::Options::new(vec![server.url()], "noise");
        let bus = zester_bus::nats::connect(options).await.unwrap();
        for _ in 0..1_000 {
            // What belongs to no job of a master is not opened; what a peel says of itself is.
            bus.publish("zester.heartbeat.p1", Bytes::from_static(b"x")).await.unwrap();
        }
        bus.flush().await.unwrap();
    });
    wait_for("a thousand more", crate::daemon::PATIENCE, || {
        (metric(port, "zester_messages_dropped")? >= before + 1_000).then_some(())
    });
}
