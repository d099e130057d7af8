//! Claims about a fleet of real processes: what a job costs in time and memory.

mod dispatch;
mod index;
mod jobs;
mod publish;
mod reactor;
mod signatures;
mod up;

use crate::measure;
use crate::report::Report;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use up::Up;
use zester_bus::nats::{Options, connect};
use zester_client::Client;
use zester_link::Link;

/// How long the daemons sit before they count as idle.
const IDLE: Duration = Duration::from_secs(3);
/// Runs of the command line; the median counts.
const CALLS: usize = 21;

pub fn claims(zester: &Path, scratch: &Path, report: &mut Report) -> Result<(), String> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.map_err(|error| error.to_string())?;
    let up = Up::start(zester, scratch)?;
    std::thread::sleep(IDLE);
    idle(&up, report)?;
    command_line(zester, &up, report)?;
    publish::state_run(zester, &up, scratch, report)?;
    runtime.block_on(async {
        let bus = connect(Options::new(vec![up.url.clone()], "bench")).await;
        let client = Client::new(Link::new(Arc::new(bus.map_err(|error| error.to_string())?)));
        jobs::claim(&client, &up, report).await?;
        dispatch::claim(&client, report).await?;
        publish::claim(&up, report).await?;
        let _closed = client.link().bus().close().await;
        Ok::<(), String>(())
    })?;
    drop(up);
    index::claim(report)?;
    signatures::claim(report)?;
    reactor::claims(zester, scratch, report)
}

/// Only what events cost.
pub fn reactor(zester: &Path, scratch: &Path, report: &mut Report) -> Result<(), String> {
    reactor::claims(zester, scratch, report)
}

/// Only a minute of reactions.
pub fn sustained(zester: &Path, scratch: &Path, report: &mut Report) -> Result<(), String> {
    reactor::sustained(zester, scratch, report)
}

/// Daemons that were just started and have nothing to do.
fn idle(up: &Up, report: &mut Report) -> Result<(), String> {
    for (who, at_most) in [("peel", 20.0), ("master", 24.0)] {
        let memory = up.memory_of(who)?;
        let notes =
            json!({ "of_files_mb": memory.files_mb, "own_mb": memory.own_mb, "threads": memory.threads });
        report.claim(&format!("memory of an idle {who}"), memory.resident_mb, "MB", at_most, notes);
    }
    Ok(())
}

/// A person types it and waits: the start of the process, the question, the peel's work, the answer.
fn command_line(zester: &Path, up: &Up, report: &mut Report) -> Result<(), String> {
    let bus = [("ZESTER_NATS_URL", up.url.as_str())];
    let cost = measure::median_with(CALLS, zester, &["peel-1", "test.ping"], &bus)?;
    let notes = json!({ "cpu_ms": cost.cpu_ms, "peak_mb": cost.peak_mb });
    // Below a tenth of a second an answer seems to come at once.
    report.claim("zester peel-1 test.ping, end to end", cost.wall_ms, "ms", 100.0, notes);
    Ok(())
}
