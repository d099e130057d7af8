//! What throttle and breaker remember of all fires. Asked before a rule fires, told after it has.

use crate::breaker::Breakers;
use crate::config::Guards;
use crate::gates::Place;
use crate::throttle::Throttle;
use std::sync::Arc;
use std::time::Duration;
use zester_wire::{Origin, UnixMillis};

pub struct GuardState {
    default_throttle: Duration,
    throttle: Throttle,
    pub breakers: Breakers,
}

/// Why a rule must not fire now.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// It rests for this source, for so long.
    Throttled(Duration),
    /// It fired too often and is stopped until then.
    BreakerOpen(UnixMillis),
}

/// One rule for one event.
#[derive(Copy, Clone, Debug)]
pub struct Fire<'a> {
    pub rule: &'a Arc<str>,
    pub origin: &'a Origin,
    pub place: Place,
    /// What the rule itself says.
    pub throttle: Option<Duration>,
}

impl GuardState {
    pub fn new(guards: &Guards) -> GuardState {
        GuardState {
            default_throttle: guards.default_throttle,
            throttle: Throttle::default(),
            breakers: Breakers::new(guards),
        }
    }

    pub fn holds(&self, fire: &Fire<'_>, now: UnixMillis) -> Option<Hold> {
        if let Some(until) = self.breakers.open_until(fire.rule, now) {
            return Some(Hold::BreakerOpen(until));
        }
        let period = fire.throttle.unwrap_or(self.default_throttle);
        let rests = self.throttle.rests(fire.rule, fire.origin, fire.place, period, now);
        rests.map(Hold::Throttled)
    }

    /// A fire completed or failed for good. `anew`: it was not only found to be done already. Whether its breaker opened.
    pub fn fired(&mut self, fire: &Fire<'_>, anew: bool, now: UnixMillis) -> bool {
        self.throttle.fired(fire.rule, fire.origin, fire.place, now);
        anew && self.breakers.fired(fire.rule, now)
    }
}
