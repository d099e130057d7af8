//! What a simulated peel does when it executes: it takes its time, and is written down.

use crate::dice::Dice;
use crate::disk::Disk;
use crate::judge::Invariant;
use crate::observed::{Execution, Observed};
use crate::script::LONG_JOB;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_jobs::dedup::Dispatch;
use zester_peel::store::BoxFuture;
use zester_peel::work::{Outcome, StateEnded, Tell, Work};
use zester_wire::{ExecRequest, PeelId};

#[derive(Clone)]
pub struct SimulatedWork {
    pub seed: u64,
    /// When the simulation began.
    pub begin: Instant,
    /// None: the dice say.
    pub takes: Option<Duration>,
    pub peel: PeelId,
    pub disk: Disk,
    pub observed: Observed,
}

/// Notes the end of an execution, however it ends.
struct Noted {
    observed: Observed,
    index: usize,
    finished: bool,
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(execution) = self.observed.lock().executions.get_mut(self.index) {
            execution.ended = Some(Instant::now());
            execution.crashed = !self.finished;
        }
    }
}

impl SimulatedWork {
    fn note_start(&self, dispatch: &Dispatch) -> Noted {
        if let Some(why) = self.disk.forbids(dispatch) {
            let what = format!("{} began {} although {why}", self.peel, dispatch.jid);
            self.observed.wrong(Invariant::OnDiskFirst, what);
        }
        let mut seen = self.observed.lock();
        let (peel, dispatch) = (self.peel.clone(), dispatch.clone());
        let index = seen.executions.len();
        seen.executions.push(Execution {
            peel,
            dispatch,
            began: Instant::now(),
            ended: None,
            crashed: false,
        });
        Noted { observed: self.observed.clone(), index, finished: false }
    }
}

impl Work for SimulatedWork {
    fn execute(&self, request: ExecRequest, tell: Tell, cancel: CancellationToken) -> BoxFuture<'_, Outcome> {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let dice = Dice::new(self.seed, &format!("{}{}", request.jid, self.peel));
        let is_long = request.budget + Duration::from_secs(1) > LONG_JOB;
        Box::pin(async move {
            let mut noted = self.note_start(&dispatch);
            let by_dice = match dice.roll(20) {
                0..6 => Duration::ZERO,
                6..8 => dice.between(20_000, 60_000),
                8..12 if is_long => dice.between(60_000, 200_000),
                _ => dice.between(100, 20_000),
            };
            let long = self.takes.unwrap_or(by_dice);
            let success = dice.happens(800) || self.takes.is_some();
            tell(StateEnded { ended: 1, total: 1, state: json!({ "name": "work" }) });
            let outcome = tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    tokio::time::sleep(dice.between(0, 300)).await;
                    Outcome { success: false, error: "canceled".into(), answer: Value::Null, canceled: true, revision: None }
                }
                () = tokio::time::sleep(long) => {
                    let error = if success { String::new() } else { "it failed".into() };
                    Outcome { success, error, answer: json!(true), canceled: false, revision: None }
                }
            };
            noted.finished = true;
            outcome
        })
    }

    fn kill_leftovers(&self) -> BoxFuture<'_, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(50)))
    }

    fn facts(&self) -> BoxFuture<'_, Map<String, Value>> {
        let mut facts = Map::new();
        facts.insert("id".into(), json!(self.peel.as_str()));
        facts.insert("os".into(), json!("Debian"));
        // They change, so that whoever watches them has something to miss.
        facts.insert("uptime".into(), json!(self.begin.elapsed().as_secs()));
        Box::pin(std::future::ready(facts))
    }
}
