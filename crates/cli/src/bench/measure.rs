//! One count of peels: how long they take to come, how long to answer, and what everybody costs.

use super::fleet::Fleet;
use super::{cpu, memory};
use crate::answer::Failure;
use crate::fleet::ask;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::storage;
use zester_client::{Client, JobUpdate};
use zester_converge::raw_arguments::RawArguments;
use zester_jobs::Timing;
use zester_jobs::pace::heartbeat_every;

/// Times that all are asked; the median counts.
const ROUNDS: usize = 3;
/// How long an answer may take before it is missing.
const PING_TIMEOUT: Duration = Duration::from_secs(120);

/// First, what the questions left to do: peels that were asked beat as configured for a while.
const IDLE_REST: Duration = Duration::from_secs(15);

/// What everybody takes of one core while nothing happens but heartbeats: 1 is all of it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Idle {
    /// Heartbeats of all peels in a second.
    pub heartbeats: f64,
    pub server: f64,
    pub master: f64,
    pub peels: f64,
}

/// What was found at one count.
#[derive(Clone, Debug)]
pub struct Measured {
    pub peels: u32,
    /// From the start of those that were added until the master knew all.
    pub added: u32,
    pub connect: Duration,
    /// From the question to the return of the last, and to the end of the job.
    pub ping: Duration,
    pub ended: Duration,
    /// Peels that gave no good return, in the worst round.
    pub missing: u32,
    pub server_bytes: u64,
    pub master_bytes: u64,
    pub peels_bytes: u64,
    pub idle: Idle,
    /// JetStream consumers of all stores: the master's own watches, however many peels there are.
    pub consumers: usize,
}

pub async fn at(fleet: &mut Fleet, peels: u32, processes: u16) -> Result<Measured, Failure> {
    let (before, began) = (fleet.started(), Instant::now());
    fleet.grow(peels, processes).await?;
    let connect = began.elapsed();
    let client = fleet.client()?.clone();
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(ping(&client, peels).await?);
        fleet.all_alive()?;
    }
    let missing = rounds.iter().map(|round| round.missing).max().unwrap_or_default();
    rounds.sort_by_key(|round| round.last_return);
    let middle = rounds.get(rounds.len() / 2).copied().unwrap_or_default();
    Ok(Measured {
        peels,
        added: peels - before,
        connect,
        ping: middle.last_return,
        ended: middle.ended,
        missing,
        server_bytes: memory::resident(&fleet.server),
        master_bytes: memory::resident(&fleet.master),
        peels_bytes: memory::resident(&fleet.swarms),
        idle: idle(fleet, peels).await?,
        consumers: consumers(&client).await?,
    })
}

/// Watched for two heartbeats of each peel, however seldom they are in a fleet of this size.
async fn idle(fleet: &mut Fleet, peels: u32) -> Result<Idle, Failure> {
    let every = heartbeat_every(Timing::default().peel_heartbeat, peels as usize);
    tokio::time::sleep(IDLE_REST + every).await;
    let used = |fleet: &Fleet| [cpu::used(&fleet.server), cpu::used(&fleet.master), cpu::used(&fleet.swarms)];
    let (before, began) = (used(fleet), Instant::now());
    tokio::time::sleep(every * 2).await;
    let (after, window) = (used(fleet), began.elapsed());
    fleet.all_alive()?;
    let share = |which: usize| {
        let of = |all: &[Duration; 3]| all.get(which).copied().unwrap_or_default();
        of(&after).saturating_sub(of(&before)).as_secs_f64() / window.as_secs_f64()
    };
    let heartbeats = f64::from(peels) / every.as_secs_f64();
    Ok(Idle { heartbeats, server: share(0), master: share(1), peels: share(2) })
}

#[derive(Copy, Clone, Default)]
struct Round {
    last_return: Duration,
    ended: Duration,
    missing: u32,
}

async fn ping(client: &Client, peels: u32) -> Result<Round, Failure> {
    let fail = |error: zester_client::Error| Failure::usage(format!("test.ping of all: {error}"));
    let work = ask::work("test.ping", &RawArguments::default(), false, Some(PING_TIMEOUT))
        .map_err(Failure::usage)?;
    let began = Instant::now();
    let asked = client.dispatch(ask::request(client.link(), &work, "*", Vec::new())).await;
    let mut follow = asked.map_err(fail)?.follow;
    let mut round = Round { missing: peels, ..Round::default() };
    while let Some(update) = follow.next().await.map_err(fail)? {
        match update {
            JobUpdate::Return(_) => round.last_return = began.elapsed(),
            JobUpdate::Ended(ended) => {
                let good = ended.returns.values().filter(|ret| ret.counts() && ret.success).count();
                round.missing = peels.saturating_sub(u32::try_from(good).unwrap_or(u32::MAX));
                round.ended = began.elapsed();
            }
            _ => {}
        }
    }
    Ok(round)
}

async fn consumers(client: &Client) -> Result<usize, Failure> {
    let mut all = 0;
    for store in storage::table() {
        let usage = client.link().bus().usage(&store).await;
        all += usage.map_err(|error| Failure::usage(error.to_string()))?.consumers;
    }
    Ok(all)
}
