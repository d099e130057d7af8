//! A million events of a hundred thousand sources: what a master keeps of them.

use super::{send, tag, until_done};
use crate::fleet::up::Up;
use crate::report::Report;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use zester_link::Link;
use zester_wire::{EventSubject, PeelId};

const EVENTS: usize = 1_000_000;
const SOURCES: usize = 100_000;
/// After so many everything is there that is kept at all.
const WARM: usize = 200_000;
const IN_FLIGHT: usize = 256;
/// The reactor gets its turn before the next of them are sent.
const AT_A_TIME: usize = 50_000;

pub async fn claim(link: &Link, up: &Up, report: &mut Report) -> Result<(), String> {
    let mut before = 0.0;
    for from in (0..EVENTS).step_by(AT_A_TIME) {
        if from == WARM {
            before = up.memory_of("master")?.resident_mb;
        }
        let one = |number: usize| async move {
            let source =
                PeelId::parse(&format!("source-{}", number % SOURCES)).map_err(|bad| bad.to_string())?;
            send(link, EventSubject::Send { peel: source, tag: tag("bench/none")? }, number).await
        };
        let events = stream::iter(from..from + AT_A_TIME).map(one);
        events.buffer_unordered(IN_FLIGHT).try_collect::<()>().await?;
        until_done(link).await?;
    }
    let after = up.memory_of("master")?.resident_mb;
    let notes = json!({ "mb_after_200_000": before, "mb_after_1_000_000": after });
    report.claim("master's memory, a million events of 100,000 sources", after - before, "MB", 8.0, notes);
    Ok(())
}
