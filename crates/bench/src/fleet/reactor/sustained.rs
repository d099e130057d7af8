//! A thousand events a second, each with a job, for a while: does the reactor keep up?

use super::{PEELS, peel, send, tag, until_done};
use crate::report::Report;
use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zester_link::Link;
use zester_wire::EventSubject;

const PER_SECOND: usize = 1_000;
const FOR: Duration = Duration::from_secs(30);
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
                if sent % (PER_SECOND * 10) == 0 {
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
    report.claim(
        "1,000 reactions with a job a second / what was kept up",
        PER_SECOND as f64 / rate,
        "x",
        1.1,
        notes,
    );
    Ok(())
}
