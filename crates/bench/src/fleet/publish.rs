//! From a changed file to a thousand peels that have it, and what a state run over the bus costs.

use super::up::Up;
use crate::bare;
use crate::measure;
use crate::report::Report;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use zester_bus::Bus;
use zester_bus::nats::{Options, connect};
use zester_health::Health;
use zester_link::Link;
use zester_peel::published::follow;
use zester_publish::{About, Cache, Fence, MemoryCache, Outcome, Publisher, Tree, TreePath, file_of};
use zester_wire::{MasterId, Published};

/// What of the tree is measured with: nobody else publishes it here.
const WHAT: Published = Published::Reactor;
const FILES: usize = 500;
const FILE_BYTES: usize = 2_000;
/// Peels, few and many.
const FEW: usize = 100;
const MANY: usize = 1_000;
/// Changes of one file; the median counts.
const CHANGES: usize = 5;
/// How long all peels may take before it counts as never.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whether all have it.
const LOOK: Duration = Duration::from_millis(5);
/// Runs of the command line; the median counts.
const CALLS: usize = 11;

/// One file of the tree is new: what it took until everybody had it.
struct Spread {
    seconds: f64,
    server_cpu_ms: f64,
    bytes_up: u64,
}

pub async fn claim(up: &Up, report: &mut Report) -> Result<(), String> {
    let few = spread(up, FEW).await?;
    let many = spread(up, MANY).await?;
    let notes = json!({
        "few_s": few.seconds, "bytes_published": many.bytes_up,
        "server_cpu_ms": many.server_cpu_ms, "few_server_cpu_ms": few.server_cpu_ms,
    });
    let name = format!("one of {FILES} files published, {MANY} peels have it");
    report.claim(&name, many.seconds, "s", 5.0, notes.clone());
    let growth = many.seconds / few.seconds;
    report.claim(&format!("the same, {MANY} peels / {FEW} peels"), growth, "x", 10.0, notes);
    Ok(())
}

/// A run over the bus in which nothing differs, against the same run on the machine and one job.
pub fn state_run(zester: &Path, up: &Up, scratch: &Path, report: &mut Report) -> Result<(), String> {
    let (files, states) = (scratch.join("fleet-files"), scratch.join("states"));
    for directory in [&files, &states] {
        std::fs::create_dir_all(directory).map_err(|error| error.to_string())?;
    }
    let mut text = String::new();
    for index in 0..200 {
        let content = serde_json::Value::String(bare::content(index));
        let path = files.join(format!("file-{index}"));
        let wrote = writeln!(text, "{}:\n  file.managed:\n    - content: {content}", path.display());
        wrote.map_err(|error| error.to_string())?;
    }
    let file = states.join("fleet-files.zy");
    std::fs::write(&file, text).map_err(|error| error.to_string())?;
    let bus = [("ZESTER_NATS_URL", up.url.as_str())];
    let on_peel = ["peel-1", "state.apply", "fleet-files"];
    let began = Instant::now();
    // Until the files are there, which the master publishes by itself.
    while let Err(error) = measure::median_with(1, zester, &on_peel, &bus) {
        if began.elapsed() > PATIENCE {
            return Err(error);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    let data = scratch.join("data-fleet-files").display().to_string();
    let states = states.display().to_string();
    let here = ["apply", "fleet-files", "--states", &states, "--data-dir", &data];
    let fleet = measure::median_with(CALLS, zester, &on_peel, &bus)?;
    let local = measure::median(CALLS, zester, &here)?;
    let job = measure::median_with(CALLS, zester, &["peel-1", "test.ping"], &bus)?;
    let allowed = 1.3 * local.wall_ms + job.wall_ms;
    let notes = json!({ "fleet_ms": fleet.wall_ms, "local_ms": local.wall_ms, "job_ms": job.wall_ms });
    let name = "no-op state.apply on a peel / (1.3 x local + a job)";
    report.claim(name, fleet.wall_ms / allowed, "x", 1.0, notes);
    Ok(())
}

/// Always allowed: nobody else publishes here.
struct Alone;

impl Fence for Alone {
    fn holds(&self) -> bool {
        true
    }
}

type Files = BTreeMap<TreePath, Vec<u8>>;

fn tree_of(files: &Files) -> Tree {
    Tree { files: files.iter().map(|(path, bytes)| (path.clone(), file_of(bytes, 0o644))).collect() }
}

async fn link(up: &Up, name: &str) -> Result<Link, String> {
    let bus = connect(Options::new(vec![up.url.clone()], name)).await.map_err(|error| error.to_string())?;
    let bus: Arc<dyn Bus> = Arc::new(bus);
    Ok(Link::new(bus))
}

async fn spread(up: &Up, peels: usize) -> Result<Spread, String> {
    let publishing = link(up, "bench-publisher").await?;
    let mut files = Files::new();
    for number in 0..FILES {
        let path = TreePath::parse(&format!("{peels}/file-{number}")).map_err(|error| error.to_string())?;
        files.insert(path, vec![b'a' + (number % 26) as u8; FILE_BYTES]);
    }
    let (mut revision, _) = publish(&publishing, &files).await?;
    let mut following = JoinSet::new();
    let mut caches: Vec<Arc<MemoryCache>> = Vec::new();
    for number in 0..peels {
        let cache = Arc::new(MemoryCache::default());
        let link = link(up, &format!("bench-{number}")).await?;
        following.spawn(follow(link, WHAT, cache.clone(), Arc::new(Health::new())));
        caches.push(cache);
    }
    all_hold(&caches, revision).await?;
    let mut found: Vec<Spread> = Vec::new();
    for change in 0..CHANGES {
        if let Some((_, bytes)) = files.iter_mut().nth(change) {
            *bytes = format!("change {change} for {peels}").into_bytes();
        }
        let (cpu, began) = (up.server_cpu_ms()?, Instant::now());
        let published = publish(&publishing, &files).await?;
        revision = published.0;
        all_hold(&caches, revision).await?;
        let seconds = began.elapsed().as_secs_f64();
        found.push(Spread { seconds, server_cpu_ms: up.server_cpu_ms()? - cpu, bytes_up: published.1 });
    }
    following.shutdown().await;
    found.sort_by(|one, other| one.seconds.total_cmp(&other.seconds));
    let middle = found.len() / 2;
    found.into_iter().nth(middle).ok_or_else(|| "nothing was measured".to_string())
}

async fn publish(link: &Link, files: &Files) -> Result<(u64, u64), String> {
    let about = About {
        master: MasterId::parse("bench.boot").map_err(|error| error.to_string())?,
        user: String::new(),
        source: "bench".into(),
        commit: String::new(),
        allow_empty: false,
        uploaded: false,
    };
    let publisher = Publisher { link, published: WHAT, fence: &Alone };
    match publisher.publish(&tree_of(files), files, &about).await.map_err(|error| error.to_string())? {
        Outcome::Published { revision, bytes, .. } => Ok((revision, bytes)),
        other => Err(format!("nothing was published: {other:?}")),
    }
}

async fn all_hold(caches: &[Arc<MemoryCache>], revision: u64) -> Result<(), String> {
    let began = Instant::now();
    let holds = |cache: &Arc<MemoryCache>| cache.current().is_some_and(|held| held.revision >= revision);
    while !caches.iter().all(holds) {
        if began.elapsed() > PATIENCE {
            let lacking = caches.iter().filter(|cache| !holds(cache)).count();
            return Err(format!("{lacking} of {} peels do not have revision {revision}", caches.len()));
        }
        tokio::time::sleep(LOOK).await;
    }
    Ok(())
}
