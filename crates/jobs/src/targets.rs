//! What the owner knows of each target.

use crate::status::Tally;
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
    acked: bool,
    unreachable: bool,
    /// Since when a sign of it is awaited: since the work went out, or since its heartbeat ended.
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
}

impl Targets {
    pub fn new(peels: &[PeelId]) -> Targets {
        let all: BTreeMap<_, _> = peels.iter().map(|peel| (peel.clone(), Target::default())).collect();
        Targets { awaited: all.len(), all, counted: 0, canceled: 0, give_up_at: None }
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
        self.acked_before(peel);
        self.is_present(peel);
    }

    /// An ack that the stream kept says that the peel had the work, not that it is there now.
    pub fn acked_before(&mut self, peel: &PeelId) {
        if let Some(target) = self.all.get_mut(peel) {
            target.acked = true;
            self.awaited += usize::from(target.return_to_life());
        }
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

    /// Whom the work went to at `now`; the absent among them are waited for that long.
    pub fn ask(&mut self, peels: &[PeelId], patience: Duration, now: UnixMillis) {
        for peel in peels {
            if let Some(target) = self.all.get_mut(peel) {
                target.asked = Some(now);
                if target.absent {
                    let at = now.plus(patience);
                    self.give_up_at = Some(self.give_up_at.map_or(at, |sooner| sooner.min(at)));
                }
            }
        }
    }

    /// A peel that came (back) is a target like any other again (J-6). Tells whether it may never have got the work.
    pub fn came_back(&mut self, peel: &PeelId) -> bool {
        let Some(target) = self.all.get_mut(peel) else { return false };
        target.absent = false;
        self.awaited += usize::from(target.return_to_life());
        target.is_silent()
    }

    /// The heartbeat of a peel ended: it is waited for that long, as if it had had none when the work went out (J-8).
    pub fn went(&mut self, peel: &PeelId, patience: Duration, now: UnixMillis) {
        let Some(target) = self.all.get_mut(peel).filter(|target| target.answer.is_none()) else { return };
        if std::mem::replace(&mut target.absent, true) || target.asked.is_none() {
            return;
        }
        target.asked = Some(now);
        let at = now.plus(patience);
        self.give_up_at = Some(self.give_up_at.map_or(at, |sooner| sooner.min(at)));
    }

    /// A sign of life.
    pub fn is_present(&mut self, peel: &PeelId) {
        if let Some(target) = self.all.get_mut(peel) {
            target.absent = false;
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
    pub fn give_up_absent(&mut self, patience: Duration, now: UnixMillis) {
        if self.give_up_at.is_none_or(|at| now < at) {
            return;
        }
        self.give_up_at = None;
        for target in self.all.values_mut().filter(|target| target.absent && target.is_awaited()) {
            match target.asked.map(|asked| asked.plus(patience)) {
                Some(at) if now >= at => {
                    self.awaited -= usize::from(target.is_awaited());
                    target.unreachable = true;
                }
                Some(at) => self.give_up_at = Some(self.give_up_at.map_or(at, |sooner| sooner.min(at))),
                None => {}
            }
        }
    }

    /// When [`Targets::give_up_absent`] may have something to do next.
    pub fn next_given_up(&self) -> Option<UnixMillis> {
        self.give_up_at
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
