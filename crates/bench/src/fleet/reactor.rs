//! What events cost: through the gates, with many rules, from an event to the peel, and for a minute on end. A fleet of its
//! own, whose reactor has its guards off: they would stop what is measured here.

mod reach;
mod rules;
mod sources;
mod stream;
mod sustained;

use super::up::Up;
use crate::report::Report;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use zester_bus::Listen;
use zester_bus::nats::{Options, connect};
use zester_jobs::Timing;
use zester_link::Link;
use zester_wire::{Event, EventSubject, MessageId, PeelId, Subject, Tag, VERSION};

/// Peels that are simulated, each with a connection of its own.
const PEELS: usize = 50;
/// How long anything may take that must come.
const PATIENCE: Duration = Duration::from_secs(300);
const LOOK_PAUSE: Duration = Duration::from_millis(5);
/// After an event: its job ends meanwhile.
const REST: Duration = Duration::from_millis(20);
/// To say how much waits, the server goes through the whole stream and lets nobody write meanwhile: whoever asks again and
/// again measures the questions. So many times as long as a question took, nobody asks.
const LOOKS_APART: u32 = 25;

const TOP: &str = "\
reactor:
  - '_master/bench/log': [reactor.log]
  - '*/bench/run': [reactor.run]
";
const LOG: &str = "noted:\n  log: {message: seen, level: debug}\n";
const RUN: &str = "\
ping:
  dispatch.module:
    target: {{ event.peel }}
    function: test.ping
";

pub fn claims(zester: &Path, scratch: &Path, report: &mut Report) -> Result<(), String> {
    rules::claim(report)?;
    measure(zester, scratch, report, false)
}

/// Only the minute of reactions.
pub fn sustained(zester: &Path, scratch: &Path, report: &mut Report) -> Result<(), String> {
    measure(zester, scratch, report, true)
}

fn measure(zester: &Path, scratch: &Path, report: &mut Report, sustained_alone: bool) -> Result<(), String> {
    let scratch = scratch.join("reactor-fleet");
    let directory = scratch.join("reactor");
    let put = |name: &str, text: &str| std::fs::write(directory.join(name), text);
    std::fs::create_dir_all(&directory)
        .and_then(|()| put("top.zy", TOP))
        .and_then(|()| put("log.zy", LOG))
        .and_then(|()| put("run.zy", RUN))
        .map_err(|error| error.to_string())?;
    let off = ["storm_rate=0", "source_rate_limit=0", "max_event_age=0"];
    let words: Vec<String> = off.iter().flat_map(|key| ["--set".into(), format!("reactor.{key}")]).collect();
    let up = Up::start_with(zester, &scratch, &words)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    runtime.map_err(|error| error.to_string())?.block_on(async {
        let bus = connect(Options::new(vec![up.url.clone()], "bench")).await;
        let link = Link::new(Arc::new(bus.map_err(|error| error.to_string())?));
        if !sustained_alone {
            stream::claims(&link, report).await?;
        }
        let stop = CancellationToken::new();
        let (told, connected) = tokio::sync::oneshot::channel();
        let came = || told.send(()).unwrap_or_default();
        let swarm = zester_swarm::run(vec![up.url.clone()], 0..PEELS, Timing::default(), came, stop.clone());
        let swarm = tokio::spawn(swarm);
        connected.await.map_err(|_| "the peels did not connect".to_string())?;
        until_known(&link).await?;
        if !sustained_alone {
            reach::claim(&link, report).await?;
        }
        sustained::claim(&link, report).await?;
        stop.cancel();
        let _stopped = swarm.await;
        if !sustained_alone {
            sources::claim(&link, &up, report).await?;
        }
        let _closed = link.bus().close().await;
        Ok(())
    })
}

/// The name of one of the simulated peels.
fn peel(number: usize) -> Result<PeelId, String> {
    PeelId::parse(&zester_swarm::name(number % PEELS)).map_err(|bad| bad.to_string())
}

fn tag(text: &str) -> Result<Tag, String> {
    Tag::parse(text).map_err(|bad| bad.to_string())
}

/// Sends an event that the stream keeps.
async fn send(link: &Link, subject: EventSubject, number: usize) -> Result<(), String> {
    let id = link.new_message_id().map_err(|error| error.to_string())?;
    let event = event(&subject, &id, number, link);
    link.publish_stored(&Subject::Event(subject), &id, &event).await.map_err(|error| error.to_string())?;
    Ok(())
}

fn event(subject: &EventSubject, id: &MessageId, number: usize, link: &Link) -> Event {
    Event {
        id: id.to_string(),
        tag: subject.tag(),
        data: serde_json::Map::from_iter([("number".to_string(), number.into())]),
        ts: link.now(),
        v: VERSION,
        origin: String::new(),
        depth: 0,
    }
}

/// Waits until an event has work sent to its peel: a peel is meant once its facts are known.
async fn until_known(link: &Link) -> Result<(), String> {
    let source = peel(0)?;
    let commands = Subject::Command { peel: source.clone() }.to_string();
    let commands = link.bus().subscribe(&commands, Listen::alone(64)).await;
    let mut commands = commands.map_err(|error| error.to_string())?;
    let subject = EventSubject::Send { peel: source, tag: tag("bench/run")? };
    let known = async {
        loop {
            send(link, subject.clone(), 0).await?;
            until_done(link).await?;
            sleep(REST).await;
            if let Ok(Some(_)) = timeout(LOOK_PAUSE, commands.next()).await {
                return Ok::<(), String>(());
            }
        }
    };
    timeout(PATIENCE, known).await.map_err(|_| "no event reached the peel".to_string())?
}

/// Waits until the reactor has nothing before it.
async fn until_done(link: &Link) -> Result<(), String> {
    let reader = zester_bus::storage::reactor();
    let done = async {
        loop {
            let asked = Instant::now();
            let pending = link.bus().pending(&reader).await.map_err(|error| error.to_string())?;
            if pending.total() == 0 {
                return Ok(());
            }
            sleep(LOOK_PAUSE.max(asked.elapsed() * LOOKS_APART)).await;
        }
    };
    timeout(PATIENCE, done).await.map_err(|_| "the reactor did not come to an end".to_string())?
}
