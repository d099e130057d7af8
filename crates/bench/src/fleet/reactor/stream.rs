//! Events through the gates, against a bare consumer that takes and acknowledges as many messages of the same size.

use super::{PATIENCE, send, tag, until_done};
use crate::report::Report;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::{Acknowledge, Bus, Bytes, DurableReader, Store};
use zester_link::Link;
use zester_wire::EventSubject;

const EVENTS: usize = 20_000;
/// Messages on their way to the stream at once.
const IN_FLIGHT: usize = 256;
/// About what an event weighs in its envelope.
const EVENT_BYTES: usize = 400;
const STREAM: &str = "bench-gates";
const STREAM_BYTES: u64 = 64 * 1024 * 1024;
const TAKE_WAIT: Duration = Duration::from_secs(1);

pub async fn claims(link: &Link, report: &mut Report) -> Result<(), String> {
    let bare = bare(link.bus().as_ref()).await?;
    // A reactor that has just begun waits for its rules: that is not what is measured.
    through_the_gates(link, "bench/none", 1).await?;
    for (name, what) in [("bench/none", "no rule"), ("bench/log", "a rule that logs")] {
        let took = through_the_gates(link, name, EVENTS).await?;
        let rate = |time: Duration| EVENTS as f64 / time.as_secs_f64();
        let notes = json!({ "events_per_s": rate(took), "bare_per_s": rate(bare) });
        let claim = format!("bare take and acknowledge / the reactor, {what}");
        // At least half of what a bare consumer reaches.
        report.claim(&claim, took.as_secs_f64() / bare.as_secs_f64(), "x", 2.0, notes);
    }
    Ok(())
}

async fn through_the_gates(link: &Link, name: &str, events: usize) -> Result<Duration, String> {
    until_done(link).await?;
    let subject = EventSubject::Master { tag: tag(name)? };
    let began = Instant::now();
    stream::iter(0..events)
        .map(|number| send(link, subject.clone(), number))
        .buffer_unordered(IN_FLIGHT)
        .try_collect::<()>()
        .await?;
    until_done(link).await?;
    Ok(began.elapsed())
}

async fn bare(bus: &dyn Bus) -> Result<Duration, String> {
    let fail = |error: zester_bus::Error| error.to_string();
    let store = Store::stream(STREAM, &["bench.gates.>"], STREAM_BYTES);
    bus.ensure(&store, 1).await.map_err(fail)?;
    let reader = DurableReader {
        stream: STREAM.into(),
        name: "bench".into(),
        pattern: "bench.gates.>".into(),
        ..zester_bus::storage::reactor()
    };
    bus.ensure_reader(&reader).await.map_err(fail)?;
    let payload = Bytes::from(vec![b'x'; EVENT_BYTES]);
    let began = Instant::now();
    let publishing = async {
        let one = |number: usize| {
            let (payload, id) = (payload.clone(), format!("gates-{number}"));
            async move { bus.publish_stored("bench.gates.one", payload, Some(&id)).await.map(|_| ()) }
        };
        stream::iter(0..EVENTS).map(one).buffer_unordered(IN_FLIGHT).try_collect::<()>().await
    };
    let taking = async {
        let mut taken = 0;
        while taken < EVENTS {
            for one in bus.take(&reader, reader.unacked_max, TAKE_WAIT).await? {
                bus.acknowledge(&one, Acknowledge::Done).await?;
                taken += 1;
            }
        }
        bus.flush().await
    };
    let both = async { tokio::try_join!(publishing, taking) };
    tokio::time::timeout(PATIENCE, both).await.map_err(|_| "the bare consumer is stuck")?.map_err(fail)?;
    Ok(began.elapsed())
}
