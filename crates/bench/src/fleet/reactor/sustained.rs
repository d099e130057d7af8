//! A thousand events a second, each with a job, for a minute: does the reactor keep up?

use super::{PEELS, peel, send, tag, until_done};
use crate::report::Report;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zester_link::Link;
use zester_wire::EventSubject;

const PER_SECOND: usize = 1_000;
const FOR: Duration = Duration::from_secs(60);
/// Events between two looks at what waits: the server goes through its whole stream for one.
const LOOK_EVERY: usize = PER_SECOND * 10;
/// What may wait at any of them: that of a second. More, and what waits would grow.
const WAITING_MAX: f64 = PER_SECOND as f64;
const TICK: Duration = Duration::from_millis(10);

pub async fn claim(link: &Link, report: &mut Report) -> Result<(), String> {
    until_done(link).await?;
    let subjects = (0..PEELS)
        .map(|number| Ok::<_, String>(EventSubject::Send { peel: peel(number)?, tag: tag("bench/run")? }));
    let subjects = subjects.collect::<Result<Vec<_>, _>>()?;
    let reader = zester_bus::storage::reactor();
    let (began, mut sent, mut lags) = (Instant::now(), 0, Vec::new());
    let mut ticks = interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut sending = FuturesUnordered::new();
    while began.elapsed() < FOR {
        tokio::select! {
            Some(done) = sending.next() => { let () = done?; }
            _ = ticks.tick() => {
                for _ in 0..PER_SECOND / 100 {
                    sending.push(send(link, subjects[sent % PEELS].clone(), sent));
                    sent += 1;
                }
                if sent % LOOK_EVERY == 0 {
                    let pending = link.bus().pending(&reader).await.map_err(|error| error.to_string())?;
                    lags.push(pending.total());
                }
            }
        }
    }
    while let Some(done) = sending.next().await {
        done?;
    }
    until_done(link).await?;
    let rate = sent as f64 / began.elapsed().as_secs_f64();
    let notes = json!({ "reactions_per_s": rate, "reactions": sent, "lag_every_10_s": lags });
    let most = lags.iter().copied().max().unwrap_or_default() as f64;
    let claim = "1,000 reactions with a job a second / what was kept up";
    report.claim(claim, PER_SECOND as f64 / rate, "x", 1.1, notes.clone());
    report.claim("events that wait meanwhile, at most", most, "events", WAITING_MAX, notes);
    Ok(())
}
