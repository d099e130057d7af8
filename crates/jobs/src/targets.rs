//! What the owner knows of each target.

use crate::status::Tally;
use crate::timing::Timing;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use zester_wire::{Cause, Missing, PeelId, Return, UnixMillis};

/// What the job needs to remember of a return; the return itself is persisted, not kept.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Answer {
    counts: bool,
    success: bool,
    interrupted: bool,
}

#[derive(Clone, Debug, Default)]
struct Target {
    /// It has no heartbeat: none when the work went out, or none any more.
    absent: bool,
    /// Its heartbeat ended without a word: it may have lost no more than its server.
    lost: bool,
    acked: bool,
    unreachable: bool,
    /// Since when a sign of it is awaited: since the work went out, since its heartbeat ended, or since this master hears again.
    asked: Option<UnixMillis>,
    answer: Option<Answer>,
}

impl Target {
    fn is_silent(&self) -> bool {
        !self.acked && self.answer.is_none()
    }

    fn is_awaited(&self) -> bool {
        self.answer.is_none() && !self.unreachable
    }

    /// Whether it was given up, and is no longer.
    fn return_to_life(&mut self) -> bool {
        std::mem::replace(&mut self.unreachable, false) && self.answer.is_none()
    }
}

/// All targets of one job. What every return asks is counted along, so that a job costs what it has targets, not their
/// square.
#[derive(Clone, Debug)]
pub(crate) struct Targets {
    all: BTreeMap<PeelId, Target>,
    /// How many may still answer.
    awaited: usize,
    /// How many have answered so that it counts.
    counted: usize,
    /// How many were reached by a cancel before they had ended.
    canceled: usize,
    /// No absent target is given up before this.
    give_up_at: Option<UnixMillis>,
    /// This master hears nobody, so that nobody's silence means anything.
    deaf: bool,
    /// How long whoever was not there is waited for.
    absent_patience: Duration,
    /// How long whoever was lost is waited for.
    lost_patience: Duration,
}

impl Targets {
    pub fn new(peels: &[PeelId], timing: &Timing) -> Targets {
        let all: BTreeMap<_, _> = peels.iter().map(|peel| (peel.clone(), Target::default())).collect();
        Targets {
            awaited: all.len(),
            all,
            counted: 0,
            canceled: 0,
            give_up_at: None,
            deaf: false,
            absent_patience: timing.absent_patience(),
            lost_patience: timing.lost_patience(),
        }
    }

    pub fn contains(&self, peel: &PeelId) -> bool {
        self.all.contains_key(peel)
    }

    pub fn set_absent(&mut self, absent: &BTreeSet<PeelId>) {
        for (peel, target) in &mut self.all {
            target.absent = absent.contains(peel);
        }
    }

    /// An ack overrides "unreachable" (J-8), and is a sign of life.
    pub fn ack(&mut self, peel: &PeelId) {
        if let Some(target) = self.all.get_mut(peel) {
            target.acked = true;
        }
        self.came_back(peel);
    }

    /// An ack that the stream kept says that the peel had the work, not that it is there now: one that was given up without it
    /// is waited for as if its heartbeat had ended now. The same ack again says nothing new.
    pub fn acked_before(&mut self, peel: &PeelId, now: UnixMillis) {
        let Some(target) = self.all.get_mut(peel) else { return };
        if std::mem::replace(&mut target.acked, true) || !target.return_to_life() {
            return;
        }
        self.awaited += 1;
        (target.lost, target.asked) = (true, Some(now));
        self.look_at(now.plus(self.lost_patience));
    }

    /// Takes the first return of a target; the same again, or another from a target that has answered, is refused.
    pub fn take(&mut self, ret: &Return) -> bool {
        match self.all.get_mut(&ret.peel) {
            Some(target) if target.answer.is_none() => {
                self.awaited -= usize::from(target.is_awaited());
                self.counted += usize::from(ret.counts());
                self.canceled += usize::from(ret.canceled);
                target.unreachable = false;
                target.answer = Some(Answer {
                    counts: ret.counts(),
                    success: ret.success,
                    interrupted: ret.cause == Cause::Interrupted,
                });
                true
            }
            _ => false,
        }
    }

    /// Whom the work went to at `now`; the absent among them are waited for from here on.
    pub fn ask(&mut self, peels: &[PeelId], now: UnixMillis) {
        for peel in peels {
            let Some(target) = self.all.get_mut(peel) else { continue };
            target.asked = Some(now);
            if target.absent {
                self.look_at(now.plus(self.absent_patience));
            }
        }
    }

    /// Somebody may have to be given up then.
    fn look_at(&mut self, at: UnixMillis) {
        self.give_up_at = Some(self.give_up_at.map_or(at, |sooner| sooner.min(at)));
    }

    /// A peel that came (back) is a target like any other again (J-6). Tells whether it may never have got the work.
    pub fn came_back(&mut self, peel: &PeelId) -> bool {
        let Some(target) = self.all.get_mut(peel) else { return false };
        (target.absent, target.lost) = (false, false);
        self.awaited += usize::from(target.return_to_life());
        target.is_silent()
    }

    /// The heartbeat of a peel ended. One that `stopped` is waited for as if it had had none when the work went out (J-8); of
    /// the others nobody knows whether they work on.
    pub fn went(&mut self, peel: &PeelId, stopped: bool, now: UnixMillis) {
        let Some(target) = self.all.get_mut(peel).filter(|target| target.answer.is_none()) else { return };
        if std::mem::replace(&mut target.absent, true) || target.asked.is_none() {
            return;
        }
        (target.lost, target.asked) = (!stopped, Some(now));
        self.look_at(now.plus(self.absent_patience));
    }

    /// Whether this master hears anybody. What it did not hear says nothing of the peels, so whoever is absent is waited for
    /// anew once it does, also where it was given up.
    pub fn set_hearing(&mut self, hears: bool, now: UnixMillis) {
        self.deaf = !hears;
        for target in self.all.values_mut().filter(|target| target.absent && target.asked.is_some()) {
            target.asked = Some(now);
            self.awaited += usize::from(target.return_to_life());
        }
        if self.all.values().any(|target| target.absent && target.is_awaited()) {
            self.look_at(now.plus(self.absent_patience));
        }
    }

    /// A sign of life.
    pub fn is_present(&mut self, peel: &PeelId) {
        if let Some(target) = self.all.get_mut(peel) {
            (target.absent, target.lost) = (false, false);
        }
    }

    /// Those who neither acked nor returned.
    pub fn silent(&self) -> Vec<PeelId> {
        self.all.iter().filter(|(_, target)| target.is_silent()).map(|(peel, _)| peel.clone()).collect()
    }

    pub fn without_return(&self) -> Vec<PeelId> {
        self.all.iter().filter(|(_, target)| target.answer.is_none()).map(|(peel, _)| peel.clone()).collect()
    }

    pub fn has_returned(&self, peel: &PeelId) -> bool {
        self.all.get(peel).is_some_and(|target| target.answer.is_some())
    }

    /// Gives up those without a heartbeat whose time is over (J-8).
    pub fn give_up_absent(&mut self, now: UnixMillis) {
        if self.next_given_up().is_none_or(|at| now < at) {
            return;
        }
        let mut next: Option<UnixMillis> = None;
        for target in self.all.values_mut().filter(|target| target.absent && target.is_awaited()) {
            let patience = if target.lost { self.lost_patience } else { self.absent_patience };
            match target.asked.map(|asked| asked.plus(patience)) {
                Some(at) if now >= at => {
                    self.awaited -= usize::from(target.is_awaited());
                    target.unreachable = true;
                }
                Some(at) => next = Some(next.map_or(at, |sooner| sooner.min(at))),
                None => {}
            }
        }
        self.give_up_at = next;
    }

    /// When [`Targets::give_up_absent`] may have something to do next.
    pub fn next_given_up(&self) -> Option<UnixMillis> {
        self.give_up_at.filter(|_| !self.deaf)
    }

    /// Whether nothing more is to be waited for.
    pub fn is_settled(&self) -> bool {
        self.awaited == 0
    }

    /// Every target has a return that counts.
    pub fn all_returned(&self) -> bool {
        self.counted == self.all.len()
    }

    /// Some return says that a cancel reached it before it had ended.
    pub fn any_canceled(&self) -> bool {
        self.canceled > 0
    }

    pub fn tally(&self, cut_short: bool) -> Tally {
        let mut tally = Tally { targets: self.all.len() as u64, cut_short, ..Tally::default() };
        for answer in self.all.values().filter_map(|target| target.answer).filter(|answer| answer.counts) {
            tally.returned += 1;
            tally.succeeded += u64::from(answer.success);
        }
        tally
    }

    /// Why each target without a usable return has none (J-17).
    pub fn missing(&self) -> BTreeMap<PeelId, Missing> {
        let why = |target: &Target| match target.answer {
            Some(answer) if answer.interrupted => Some(Missing::Interrupted),
            Some(answer) if !answer.counts => Some(Missing::Running),
            Some(_) => None,
            None if target.unreachable || target.absent => Some(Missing::Unreachable),
            None if target.acked => Some(Missing::Running),
            None => Some(Missing::NeverAcked),
        };
        self.all.iter().filter_map(|(peel, target)| Some((peel.clone(), why(target)?))).collect()
    }
}
