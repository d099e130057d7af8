//! A thousand jobs, one after the other: how many in a second, and what the master keeps of them.

use super::up::Up;
use crate::report::Report;
use serde_json::json;
use tokio::time::Instant;
use zester_client::{Client, JobUpdate};
use zester_wire::job::TIMEOUT_DEFAULT;
use zester_wire::{DispatchRequest, PeelId, VERSION};

/// After so many jobs everything that is kept between jobs is there.
const WARM: usize = 100;
const JOBS: usize = 1_000;

pub async fn claim(client: &Client, up: &Up, report: &mut Report) -> Result<(), String> {
    run(client, WARM).await?;
    let before = up.memory_of("master")?.resident_mb;
    let began = Instant::now();
    run(client, JOBS - WARM).await?;
    let seconds = began.elapsed().as_secs_f64();
    let after = up.memory_of("master")?.resident_mb;
    let notes = json!({ "mb_after_100": before, "mb_after_1000": after, "jobs_per_s": (JOBS - WARM) as f64 / seconds });
    let at_most = (before * 10.0).round() / 100.0 + 2.0;
    report.claim("master's memory, 1,000 jobs over 100 jobs", after - before, "MB", at_most, notes);
    Ok(())
}

async fn run(client: &Client, count: usize) -> Result<(), String> {
    for _ in 0..count {
        let mut follow =
            client.dispatch(ping(client, "peel-1")?).await.map_err(|error| error.to_string())?.follow;
        let mut good = false;
        while let Some(update) = follow.next().await.map_err(|error| error.to_string())? {
            if let JobUpdate::Ended(ended) = update {
                good = ended.returns.values().any(|ret| ret.success);
            }
        }
        if !good {
            return Err("a test.ping did not succeed".into());
        }
    }
    Ok(())
}

/// `test.ping` of one peel, by its name.
pub fn ping(client: &Client, peel: &str) -> Result<DispatchRequest, String> {
    Ok(DispatchRequest {
        v: VERSION,
        jid: client.link().new_jid(),
        function: "test.ping".into(),
        args: Default::default(),
        state_id: String::new(),
        targets: vec![PeelId::parse(peel).map_err(|error| error.to_string())?],
        target_expr: peel.to_string(),
        timeout: TIMEOUT_DEFAULT,
        user: "bench".into(),
        metadata: Default::default(),
        positionals: Vec::new(),
        test: false,
        wait: None,
        target_digest: None,
    })
}
