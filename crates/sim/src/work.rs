//! What a simulated peel does when it executes: it takes its time, and is written down.

use crate::dice::Dice;
use crate::disk::Disk;
use crate::journal::Journal;
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_jobs::dedup::Dispatch;
use zester_peel::store::Later;
use zester_peel::work::{Outcome, Tell, Work};
use zester_wire::{ExecRequest, PeelId};

pub struct Labour {
    pub seed: u64,
    /// None: the dice say.
    pub takes: Option<Duration>,
    pub peel: PeelId,
    pub disk: Disk,
    pub journal: Journal,
}

impl Labour {
    fn note_start(&self, dispatch: &Dispatch) {
        if let Some(why) = self.disk.forbids(dispatch) {
            let what = format!("{} began {} although {why}", self.peel, dispatch.jid);
            self.journal.wrong("J-7: nothing starts that is not on disk, or was over", what);
        }
        *self.journal.lock().starts.entry((self.peel.clone(), dispatch.clone())).or_insert(0) += 1;
    }
}

impl Work for Labour {
    fn execute(&self, request: ExecRequest, tell: Tell, cancel: CancellationToken) -> Later<'_, Outcome> {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let dice = Dice::new(self.seed, &format!("{}{}", request.jid, self.peel));
        Box::pin(async move {
            self.note_start(&dispatch);
            let by_dice = if dice.happens(300) { Duration::ZERO } else { dice.between(100, 20_000) };
            let long = self.takes.unwrap_or(by_dice);
            let success = dice.happens(800) || self.takes.is_some();
            tell(1, json!({ "name": "work" }));
            tokio::select! {
                biased;
                () = cancel.cancelled() => {
                    tokio::time::sleep(dice.between(0, 300)).await;
                    Outcome { success: false, error: "canceled".into(), answer: Value::Null, canceled: true }
                }
                () = tokio::time::sleep(long) => {
                    let error = if success { String::new() } else { "it failed".into() };
                    Outcome { success, error, answer: json!(true), canceled: false }
                }
            }
        })
    }

    fn kill_leftovers(&self) -> Later<'_, ()> {
        Box::pin(tokio::time::sleep(Duration::from_millis(50)))
    }

    fn facts(&self) -> Later<'_, Map<String, Value>> {
        let mut facts = Map::new();
        facts.insert("id".into(), json!(self.peel.as_str()));
        facts.insert("os".into(), json!("Debian"));
        Box::pin(std::future::ready(facts))
    }
}
