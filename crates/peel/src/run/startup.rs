//! What a peel does at its start, unasked (`startup_states`): by the way of a direct request that nobody waits for, so that it has
//! its place in the queue, is written down before it begins and is ended by a stop like any other.

use super::actor::Actor;
use super::limits::STARTUP_BUDGET;
use super::presence::BackgroundDone;
use super::tasks::Done;
use crate::work::{FunctionAsked, StartupFailure};
use serde_json::{Map, Value};
use zester_jobs::peel::{Event, Terms};
use zester_wire::{ExecRequest, Return, VERSION};

/// Who asks, in the log.
const USER: &str = "startup_states";

impl Actor {
    /// Bus or no bus.
    pub(super) fn await_startup(&mut self) {
        let Some(asked) = self.work.startup() else { return };
        let work = self.work.clone();
        self.background.spawn(async move {
            work.states_appear().await;
            BackgroundDone::Startup(asked)
        });
    }

    pub(super) fn begin_startup(&mut self, asked: FunctionAsked) {
        if self.stopping {
            return;
        }
        let FunctionAsked { function, words } = asked;
        let mut words = words.into_iter();
        let state_id = words.next().as_ref().and_then(Value::as_str).unwrap_or_default().to_string();
        let request = ExecRequest {
            v: VERSION,
            jid: self.link.new_jid(),
            function: function.to_string(),
            args: Map::new(),
            state_id,
            dispatch_epoch: 1,
            budget: STARTUP_BUDGET,
            user: USER.into(),
            rdepth: 0,
            positionals: words.collect(),
            test: false,
            direct: true,
            request: Vec::new(),
            proof: None,
        };
        self.startup = Some((request.jid.clone(), request.function.clone()));
        let signed = self.link.now();
        self.feed(Event::Exec { request: Box::new(request), signed, terms: Terms::default() });
    }

    /// Nobody waits for it: the log tells, and the machine itself to whoever asks there.
    pub(super) fn startup_ended(&mut self, ret: &Return) {
        let Some((jid, function)) = self.startup.take_if(|(jid, _)| *jid == ret.jid) else { return };
        if ret.success {
            return;
        }
        tracing::warn!(%jid, "{USER} failed: {}; `zester status` on this machine shows it", ret.error);
        let error = ret.error.clone();
        let failure = StartupFailure { function, jid: Some(jid), ended: self.link.now(), error };
        let work = self.work.clone();
        self.tasks.spawn(async move {
            work.startup_failed(failure).await;
            Done::StartupNoted
        });
    }
}
