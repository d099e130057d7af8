//! The peel's own beacons: they are told when an execution changes the machine, and `beacons.list` tells of them.

use super::actor::{Actor, Running};
use super::schedule::names;
use super::tasks::{self, Done};
use crate::beacons::{self, Board, Options};
use crate::work::Outcome;
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_health::Health;
use zester_jobs::dedup::Dispatch;
use zester_wire::ExecRequest;

pub(super) struct Beacons {
    board: Arc<Board>,
    /// Whether an execution that may change the machine runs.
    busy: watch::Sender<bool>,
    /// Ends with the peel.
    _task: JoinSet<()>,
}

impl Actor {
    pub(super) fn begin_beacons(&mut self, options: Options, health: Arc<Health>) {
        let (board, (busy, seen)) = (Arc::<Board>::default(), watch::channel(false));
        let (link, peel, work) = (self.link.clone(), self.setup.id.clone(), self.work.clone());
        let mut task = JoinSet::new();
        task.spawn(beacons::run(options, link, peel, work, seen, board.clone(), health));
        self.beacons = Some(Beacons { board, busy, _task: task });
    }

    /// No beacon looks while the machine is being changed.
    pub(super) fn tell_beacons(&self) {
        let Some(beacons) = &self.beacons else { return };
        let is_busy = self.running.values().any(|running| running.mutating);
        beacons.busy.send_if_modified(|busy| std::mem::replace(busy, is_busy) != is_busy);
    }

    pub(super) fn is_about_beacons(&self, request: &ExecRequest) -> bool {
        self.beacons.is_some() && request.function == "beacons.list"
    }

    pub(super) fn beacons_asked(&mut self, request: &ExecRequest) {
        let Some(beacons) = &self.beacons else { return };
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let (success, error, answer) = match beacons.board.document(&names(request)) {
            Ok(answer) => (true, String::new(), answer),
            Err(why) => (false, why, Value::Null),
        };
        let outcome = Outcome { success, error, answer, canceled: false, revision: None };
        let (peel, now, asked) = (self.setup.id.clone(), self.link.now(), dispatch.clone());
        let ret = Box::new(tasks::returned(outcome, &asked, peel, Instant::now().elapsed(), now));
        let task = self.tasks.spawn(async move { Done::Ran { dispatch: asked, ret } });
        let (cancel, task) = (CancellationToken::new(), task.id());
        self.running.insert(dispatch, Running { cancel, task, aborted: None, mutating: false });
    }
}
