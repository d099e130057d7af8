//! From an event to the request that its rule sends to the peel, against the two writes that no reactor can do without.

use super::{PATIENCE, REST, peel, send, tag};
use crate::report::Report;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use zester_bus::{Bytes, Delivery, Listen, Store};
use zester_link::Link;
use zester_wire::{EventSubject, PeelCommand, Subject};

const ROUNDS: usize = 200;
const WARM_UP: usize = 20;
const RECORD_BYTES: usize = 700;
const STORE_BYTES: u64 = 16 * 1024 * 1024;

pub async fn claim(link: &Link, report: &mut Report) -> Result<(), String> {
    let fail = |error: zester_bus::Error| error.to_string();
    let (stream, bucket) =
        (Store::stream("bench-one", &["bench.one"], STORE_BYTES), Store::bucket("bench-keys", STORE_BYTES));
    for store in [&stream, &bucket] {
        link.bus().ensure(store, 1).await.map_err(fail)?;
    }
    let payload = Bytes::from(vec![b'x'; RECORD_BYTES]);
    let source = peel(0)?;
    let commands = Subject::Command { peel: source.clone() }.to_string();
    let mut commands = link.bus().subscribe(&commands, Listen::alone(64)).await.map_err(fail)?;
    let subject = EventSubject::Send { peel: source, tag: tag("bench/run")? };
    let (mut ours, mut bare) = (Vec::new(), Vec::new());
    for round in 0..WARM_UP + ROUNDS {
        sleep(REST).await;
        let began = Instant::now();
        let id = format!("one-{round}");
        link.bus().publish_stored("bench.one", payload.clone(), Some(&id)).await.map_err(fail)?;
        link.bus().create(&bucket.name, &id, payload.clone()).await.map_err(fail)?;
        let writes = began.elapsed();
        while timeout(Duration::ZERO, commands.next()).await.is_ok() {}
        let began = Instant::now();
        send(link, subject.clone(), round).await?;
        let took = loop {
            let delivery = timeout(PATIENCE, commands.next()).await;
            let Ok(Some(Delivery::Message(message))) = delivery else {
                return Err("no request came to the peel".into());
            };
            let opened = link.open::<PeelCommand>(&message.subject, &message.payload);
            if opened.is_some_and(|opened| matches!(opened.message, PeelCommand::Exec(_))) {
                break began.elapsed();
            }
        };
        if round >= WARM_UP {
            ours.push(took);
            bare.push(writes);
        }
    }
    let (ours, bare) = (median(ours), median(bare));
    let notes = json!({ "reach_us": ours.as_micros() as f64, "two_writes_us": bare.as_micros() as f64 });
    let ratio = ours.as_secs_f64() / bare.as_secs_f64();
    report.claim("event to the request at the peel / two bare writes", ratio, "x", 5.0, notes);
    Ok(())
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
