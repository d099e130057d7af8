//! The work is with the peels: what they say, what the stream kept of it, and who is asked again.

use super::{End, Owner, Stage};
use crate::command::{Command, Failed, History, Note};
use std::time::Duration;
use zester_wire::{PeelId, Return, UnixMillis};

impl Owner {
    pub(super) fn loaded(
        &mut self,
        result: Result<Vec<Return>, Failed>,
        now: UnixMillis,
        out: &mut Vec<Command>,
    ) {
        let Ok(returns) = result else { return self.fail(now) };
        for ret in returns.into_iter().filter(|ret| ret.dispatch_epoch == self.job.dispatch_epoch) {
            if self.targets.take(&ret) && ret.late {
                // Its owner had decided the end, and did not write it: the job runs, so this is in time.
                self.unpersisted += 1;
                out.push(Command::Persist {
                    ret: Box::new(Return { late: false, ..ret }),
                    pause: Duration::ZERO,
                });
            }
        }
        self.enter(Stage::Replaying, out);
    }

    pub(super) fn replayed(
        &mut self,
        result: Result<History, Failed>,
        now: UnixMillis,
        out: &mut Vec<Command>,
    ) {
        let Ok(history) = result else { return self.fail(now) };
        self.learn(history, now, out);
        self.enter(Stage::Watching, out);
        out.push(Command::Accept);
        if self.canceled.is_some() {
            self.send_cancel(out);
        }
        self.advance(now, true, out);
        if self.stage == Stage::Watching {
            self.send_to_silent(now, out);
        }
    }

    /// Nobody had the work, so acks and returns of it would be forged; but it may have been canceled.
    pub(super) fn recalled(
        &mut self,
        result: Result<History, Failed>,
        now: UnixMillis,
        out: &mut Vec<Command>,
    ) {
        let Ok(history) = result else { return self.fail(now) };
        if self.canceled.is_none() {
            self.canceled = history.canceled;
        }
        self.recalled = true;
        self.go_on(Stage::Marking, now, out);
    }

    /// The last look before a job ends without all returns.
    pub(super) fn checked(
        &mut self,
        result: Result<History, Failed>,
        now: UnixMillis,
        out: &mut Vec<Command>,
    ) {
        let Ok(history) = result else { return self.fail(now) };
        self.learn(history, now, out);
        if self.is_to_go_on(now) {
            return self.watch_again(now, out);
        }
        self.flush(End::Ran { cut_short: self.is_cut_short() }, now, out);
    }

    /// Whether somebody is awaited, and there is time.
    pub(super) fn is_to_go_on(&self, now: UnixMillis) -> bool {
        self.canceled.is_none() && now < self.job.deadline() && !self.targets.is_settled()
    }

    /// It seemed to end, and somebody who was given up is there (J-8): whoever may not have the work gets it.
    pub(super) fn watch_again(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.enter(Stage::Watching, out);
        if self.stopping {
            return self.detach(now, out);
        }
        self.send_to_silent(now, out);
    }

    pub(super) fn learn(&mut self, history: History, now: UnixMillis, out: &mut Vec<Command>) {
        history.acks.iter().for_each(|peel| self.targets.acked_before(peel, now));
        for ret in history.returns {
            // What the disk had is met again here; only what is new is worth a note elsewhere.
            if !self.targets.has_returned(&ret.peel) {
                self.returned(ret, now, out);
            }
        }
        if self.canceled.is_none() {
            self.canceled = history.canceled;
        }
    }

    /// Sends the work to all who neither acked nor returned, and arms the ack window.
    pub(super) fn send_to_silent(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        self.resend_at = Some(now.plus(self.timing.ack_window));
        self.send_exec(self.targets.silent(), now, out);
    }

    pub(super) fn send_exec(&mut self, peels: Vec<PeelId>, now: UnixMillis, out: &mut Vec<Command>) {
        if peels.is_empty() {
            return;
        }
        self.targets.ask(&peels, now);
        out.push(Command::SendExec { peels, budget: self.time_left(now) });
    }

    /// Never more than the whole time, also where a clock was set back.
    fn time_left(&self, now: UnixMillis) -> Duration {
        self.job.deadline().since(now).min(self.job.timeout())
    }

    pub(super) fn send_cancel(&mut self, out: &mut Vec<Command>) {
        let peels = self.targets.without_return();
        if !peels.is_empty() {
            out.push(Command::SendCancel { peels });
        }
    }

    /// Asks the silent once more. That does not prolong how long the absent are waited for.
    pub(super) fn ask_again(&mut self, now: UnixMillis, out: &mut Vec<Command>) {
        if self.stage != Stage::Watching || now >= self.job.deadline() {
            return;
        }
        let peels = self.targets.silent();
        if !peels.is_empty() {
            out.push(Command::SendExec { peels, budget: self.time_left(now) });
        }
    }

    pub(super) fn acked(&mut self, peel: PeelId, dispatch_epoch: u64, out: &mut Vec<Command>) {
        if !self.targets.contains(&peel) {
            out.push(Command::Note(Note::NotATarget(peel)));
        } else if dispatch_epoch != self.job.dispatch_epoch {
            out.push(Command::Note(Note::OtherEpoch { peel, dispatch_epoch }));
        } else if self.stage.is_out() {
            self.targets.ack(&peel);
        }
    }

    /// A return counts only for a target and for this dispatch; after the end it is late (J-9).
    pub(super) fn returned(&mut self, ret: Return, now: UnixMillis, out: &mut Vec<Command>) {
        let (peel, dispatch_epoch) = (ret.peel.clone(), ret.dispatch_epoch);
        let late = self.stage.is_over();
        if !self.targets.contains(&peel) {
            return out.push(Command::Note(Note::NotATarget(peel)));
        }
        if dispatch_epoch != self.job.dispatch_epoch {
            return out.push(Command::Note(Note::OtherEpoch { peel, dispatch_epoch }));
        }
        if !late && !self.stage.is_out() {
            // Nothing of this dispatch is out, or the job is not ours yet and its events will be replayed.
            return out.push(Command::Note(Note::TooEarly(peel)));
        }
        if !self.targets.take(&ret) {
            return out.push(Command::Note(Note::Duplicate(peel)));
        }
        self.unpersisted += 1;
        out.push(Command::Persist { ret: Box::new(Return { late, ..ret }), pause: Duration::ZERO });
        self.advance(now, false, out);
    }

    pub(super) fn connected(&mut self, peel: PeelId, now: UnixMillis, out: &mut Vec<Command>) {
        if self.stage == Stage::Watching && now < self.job.deadline() {
            if self.targets.came_back(&peel) {
                self.send_exec(vec![peel], now, out);
                // That may be lost as well as the first: whoever is silent after the window is asked once more.
                self.resend_at.get_or_insert(now.plus(self.timing.ack_window));
            }
        } else if self.canceled.is_some() && self.stage.is_over() {
            // It may still work on it: the cancel that it missed is told again.
            if self.targets.contains(&peel) && !self.targets.has_returned(&peel) {
                out.push(Command::SendCancel { peels: vec![peel] });
            }
        } else if matches!(self.stage, Stage::Checking | Stage::Flushing(_)) {
            // Where it was given up, the job goes on, and it gets the work with that.
            self.targets.came_back(&peel);
        } else if !self.stage.is_over() {
            self.targets.is_present(&peel);
        }
    }
}
