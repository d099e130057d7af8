//! Carrying out what the machine wants, and telling it how that ended.

use super::actor::{Actor, Running};
use super::gauges::RETURNS;
use super::limits::SENDS_MAX;
use super::tasks::{self, Done, Execution, Write};
use std::collections::VecDeque;
use tokio_util::sync::CancellationToken;
use zester_jobs::command::Failed;
use zester_jobs::dedup::{Dispatch, DispatchState};
use zester_jobs::peel::{CANCELED, Command, DEADLINE, Event, Note};
use zester_jobs::queue::Lane;
use zester_wire::{Cause, ExecRequest, Return};

/// The words of an execution that a stop cut short.
const STOPPED: &str = "interrupted: the peel was stopped";

impl Actor {
    /// Tells the machine, and carries out what it wants; what comes up meanwhile follows in order.
    pub(super) fn feed(&mut self, event: Event) {
        self.pending.push_back(event);
        while let Some(event) = self.pending.pop_front() {
            let unstored_awaited = matches!(event, Event::ReturnStoreFailed { .. });
            match self.machine.step(event, self.moment()) {
                Ok(commands) => {
                    commands.into_iter().for_each(|command| self.carry(command, unstored_awaited));
                }
                Err(illegal) => tracing::error!("the peel is confused, and goes on: {illegal}"),
            }
        }
        self.gauges.work(self.machine.busy(), self.machine.undelivered());
        self.send_more();
    }

    fn carry(&mut self, command: Command, unstored_awaited: bool) {
        match command {
            Command::KillLeftovers { dispatches } => self.kill_leftovers(dispatches.len()),
            Command::StoreEntry(entry) => self.write(Write::Entry(entry)),
            Command::StoreReturn { ret, pause } => {
                self.gauges.refused(ret.cause);
                self.write(Write::Return { ret, pause });
            }
            Command::SendAck { dispatch, ahead } => self.ack(dispatch, ahead),
            Command::Execute { request } => self.execute(request),
            Command::Abort { dispatch, cause } => self.abort(&dispatch, cause),
            Command::SendReturn { dispatch } => {
                if !self.sending.contains(&dispatch) && !self.to_send.contains(&dispatch) {
                    self.to_send.push_back(dispatch);
                }
            }
            // While the disk is full, one copy is enough.
            Command::SendUnstored { ret } if self.handed_over.contains(&tasks::dispatch_of(&ret)) => {}
            Command::SendUnstored { ret } => {
                if !unstored_awaited {
                    self.gauges.refused(ret.cause);
                }
                self.tasks.spawn(tasks::send_unstored(self.link.clone(), *ret, unstored_awaited));
            }
            Command::Reply { ret } => self.reply(*ret),
            Command::ScheduleEnded { ret } => self.schedule_ended(*ret),
            Command::Forget { dispatches } => self.forget(dispatches),
            Command::Note(Note::LowerEpoch(dispatch)) => {
                self.gauges.refused(Cause::Refused);
                tracing::warn!(jid = %dispatch.jid, epoch = dispatch.epoch, "an older dispatch of a job was refused");
            }
            Command::Note(Note::Dropped(dispatch)) => {
                tracing::warn!(jid = %dispatch.jid, "a result of the schedule was dropped: too many wait for a server");
            }
            Command::Note(Note::Undelivered(dispatch)) => {
                tracing::error!(jid = %dispatch.jid, "no master took this return in all the time that jobs are kept");
            }
        }
    }

    /// In order for each dispatch: a later line of the ledger must not be overwritten by an earlier one.
    fn write(&mut self, write: Write) {
        let dispatch = write.dispatch();
        match self.writing.get_mut(&dispatch) {
            Some(behind) => behind.push_back(write),
            None => {
                self.writing.insert(dispatch, VecDeque::new());
                self.tasks.spawn(tasks::write(self.store.clone(), write));
            }
        }
    }

    fn ack(&mut self, dispatch: Dispatch, ahead: u32) {
        if self.acking.insert(dispatch.clone()) {
            let (peel, pause) = (self.setup.id.clone(), self.setup.timing.retry_pause);
            self.tasks.spawn(tasks::ack(self.link.clone(), peel, dispatch, ahead, pause));
        }
    }

    fn execute(&mut self, request: Box<ExecRequest>) {
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        if self.stopping {
            let peel = self.setup.id.clone();
            let ret =
                Return::refusing(request.jid, peel, request.dispatch_epoch, Cause::Interrupted, STOPPED);
            self.pending.push_back(Event::Finished { dispatch, ret: Box::new(ret) });
            return;
        }
        tracing::info!(jid = %request.jid, function = request.function, user = request.user, "executing");
        if self.answers_itself(&request) {
            return self.schedule_asked(*request);
        }
        if self.is_about_beacons(&request) {
            return self.beacons_asked(&request);
        }
        let mutating = Lane::of(&request.function) == Lane::Mutating;
        let cancel = CancellationToken::new();
        let execution = Execution {
            link: self.link.clone(),
            work: self.work.clone(),
            peel: self.setup.id.clone(),
            request,
            cancel: cancel.clone(),
            dropped: self.gauges.progress_dropped(),
        };
        let task = self.tasks.spawn(execution.run()).id();
        self.running.insert(dispatch, Running { cancel, task, aborted: None, mutating });
        self.tell_beacons();
    }

    /// The machine puts the cause into the return; the words for it are kept here.
    fn abort(&mut self, dispatch: &Dispatch, cause: Cause) {
        if let Some(running) = self.running.get_mut(dispatch) {
            tracing::info!(jid = %dispatch.jid, ?cause, "stopping an execution");
            running.aborted = Some(if cause == Cause::Deadline { DEADLINE } else { CANCELED });
            running.cancel.cancel();
        }
    }

    /// A request that is answered while it is looked at is answered where it came from: it may be a copy.
    fn reply(&mut self, ret: Return) {
        self.startup_ended(&ret);
        let dispatch = tasks::dispatch_of(&ret);
        let inbox = match self.asking.take_if(|(asked, _)| *asked == dispatch) {
            Some((_, inbox)) => {
                self.gauges.refused(ret.cause);
                inbox
            }
            None => self.inboxes.remove(&dispatch),
        };
        self.tasks.spawn(tasks::reply(self.link.clone(), inbox, ret));
    }

    fn forget(&mut self, dispatches: Vec<Dispatch>) {
        let store = self.store.clone();
        self.tasks.spawn(async move { Done::Forgot(store.forget(dispatches).await) });
    }

    fn send_more(&mut self) {
        while self.sending.len() < SENDS_MAX
            && let Some(dispatch) = self.to_send.pop_front()
        {
            let id = match self.return_ids.get(&dispatch) {
                Some(id) => id.clone(),
                None => match self.link.new_message_id() {
                    Ok(id) => id,
                    // The machine asks again.
                    Err(_) => continue,
                },
            };
            self.return_ids.insert(dispatch.clone(), id.clone());
            self.sending.insert(dispatch.clone());
            let (link, store, peel) = (self.link.clone(), self.store.clone(), self.setup.id.clone());
            self.tasks.spawn(tasks::send(link, store, peel, dispatch, id));
        }
    }

    pub(super) fn done(&mut self, done: Done) {
        match done {
            Done::Wrote { write, result } => self.wrote(write, result.map_err(|error| error.to_string())),
            Done::Forgot(result) => {
                self.gauges.store(result.as_ref().copied().map_err(|error| error.0.as_str()));
            }
            Done::Acked(dispatch) => {
                self.acking.remove(&dispatch);
            }
            Done::Sent { dispatch, delivered } => {
                self.sending.remove(&dispatch);
                self.gauges.kept(RETURNS, delivered.as_ref().copied().map_err(String::as_str));
                if delivered.is_ok() {
                    self.return_ids.remove(&dispatch);
                    self.feed(Event::Delivered { dispatch });
                } else {
                    self.send_more();
                }
            }
            Done::Unread { dispatch, error } => {
                self.sending.remove(&dispatch);
                self.gauges.unread(&error.0);
                self.send_more();
            }
            Done::SentUnstored { dispatch, delivered, awaited } => {
                self.gauges.kept(RETURNS, delivered.as_ref().copied().map_err(String::as_str));
                if delivered.is_ok() && awaited {
                    self.handed_over.insert(dispatch.clone());
                    self.feed(Event::Delivered { dispatch });
                }
            }
            Done::Replied | Done::StartupNoted => {}
            Done::ScheduleSaved(saved) => self.schedule_saved(saved),
            Done::Ran { dispatch, ret } => self.ran(dispatch, ret),
        }
    }

    fn wrote(&mut self, write: Write, result: Result<(), String>) {
        self.gauges.store(result.as_ref().copied().map_err(String::as_str));
        let dispatch = write.dispatch();
        match self.writing.get_mut(&dispatch).and_then(VecDeque::pop_front) {
            Some(next) => {
                self.tasks.spawn(tasks::write(self.store.clone(), next));
            }
            None => {
                self.writing.remove(&dispatch);
            }
        }
        let event = match (write, result) {
            (Write::Entry(entry), result) if entry.state == DispatchState::Accepted => {
                Event::Stored { dispatch, result: result.map_err(|_| Failed) }
            }
            (Write::Entry(_), _) => return,
            (Write::Return { .. }, Ok(())) => {
                self.handed_over.remove(&dispatch);
                Event::ReturnStored { dispatch }
            }
            (Write::Return { ret, .. }, Err(_)) => Event::ReturnStoreFailed { ret },
        };
        self.feed(event);
    }

    fn ran(&mut self, dispatch: Dispatch, mut ret: Box<Return>) {
        let aborted = self.running.remove(&dispatch).and_then(|running| running.aborted);
        self.tell_beacons();
        if let Some(words) = aborted.filter(|_| !ret.success) {
            let own = Some(ret.error.as_str()).filter(|own| !own.is_empty() && *own != CANCELED);
            ret.error = own.map_or_else(|| words.to_string(), |own| format!("{words}: {own}"));
        } else if self.stopping && !ret.success {
            ret.cause = Cause::Interrupted;
            ret.canceled = true;
            ret.error = STOPPED.into();
        }
        self.gauges.ended(&ret);
        let (jid, success, ms) = (&dispatch.jid, ret.success, ret.duration_ms);
        tracing::info!(%jid, success, duration_ms = ms, error = ret.error, "executed");
        self.feed(Event::Finished { dispatch, ret });
    }
}
