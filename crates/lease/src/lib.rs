//! Who may do what only one master does at a time, as a pure state machine: time and answers go in, writes come out.
//!
//! ```text
//! free -> acquiring -> held -> renewing -> held
//!   ^________|___________|________|            (another has it, or too long without an answer)
//! ```
//!
//! A lease is a key of the bucket `leases`, whose values expire. It is taken by creating the key and kept by replacing one's own
//! revision of it: the revision fences, because whoever was too slow finds another one there. The holder counts its time from
//! before it asked, so that it stops before the key can expire. A write without an answer may have been taken; the next try
//! then meets its own name, and goes on with the revision that it finds.
//!
//! What is deliberately not here: a clock, a bus, a task. Time is whatever passes on the holder's monotonic clock.

use std::time::Duration;
use zester_wire::MasterId;

/// What is to be done outside. Each is answered by [`LeaseClient::answer`].
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Create the key, only if it is not there.
    Create,
    /// Replace the key, only if it has this revision.
    Renew { revision: u64 },
}

/// How a write ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Written {
        revision: u64,
    },
    /// Another revision is there: whose, as the leader of the bucket has it; none if the key is gone.
    Conflict {
        found: Option<(MasterId, u64)>,
    },
    /// Nobody knows whether it was written.
    Failed,
}

/// How long a lease lasts, and how often it is renewed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct LeaseTiming {
    pub ttl: Duration,
    pub renew: Duration,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum State {
    /// Not ours. When to try to get it.
    Free { try_at: Duration },
    /// Asked for at `since`.
    Acquiring { since: Duration },
    /// Ours until `until`, if it is not renewed at `renew_at`.
    Held { revision: u64, renew_at: Duration, until: Duration },
    /// Renewal asked for at `since`.
    Renewing { revision: u64, since: Duration, until: Duration },
}

/// One lease, as one master sees it.
#[derive(Clone, Debug)]
pub struct LeaseClient {
    me: MasterId,
    timing: LeaseTiming,
    state: State,
}

impl LeaseClient {
    pub fn new(me: MasterId, timing: LeaseTiming) -> LeaseClient {
        LeaseClient { me, timing, state: State::Free { try_at: Duration::ZERO } }
    }

    /// Whether this master may act now. What it begins must end, or be harmless, after [`LeaseClient::until`].
    pub fn is_held(&self, now: Duration) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// Until when it is held without another answer.
    pub fn until(&self) -> Option<Duration> {
        match self.state {
            State::Held { until, .. } | State::Renewing { until, .. } => Some(until),
            State::Free { .. } | State::Acquiring { .. } => None,
        }
    }

    /// The revision that fences what is done under it.
    pub fn revision(&self, now: Duration) -> Option<u64> {
        match self.state {
            State::Held { revision, .. } | State::Renewing { revision, .. } if self.is_held(now) => {
                Some(revision)
            }
            _ => None,
        }
    }

    /// When [`LeaseClient::tick`] has something to do; none while an answer is awaited.
    pub fn next_wake(&self) -> Option<Duration> {
        match self.state {
            State::Free { try_at } => Some(try_at),
            State::Held { renew_at, .. } => Some(renew_at),
            State::Acquiring { .. } | State::Renewing { .. } => None,
        }
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Duration) -> Option<Command> {
        match self.state {
            State::Free { try_at } if now >= try_at => {
                self.state = State::Acquiring { since: now };
                Some(Command::Create)
            }
            // Also when it is not held any more: as long as nobody else has taken it, the revision is the one that stands.
            State::Held { revision, renew_at, until } if now >= renew_at => {
                self.state = State::Renewing { revision, since: now, until };
                Some(Command::Renew { revision })
            }
            _ => None,
        }
    }

    /// The answer to what was asked last; one that nobody waits for changes nothing.
    pub fn answer(&mut self, answer: Answer, now: Duration) {
        let since = match self.state {
            State::Acquiring { since } | State::Renewing { since, .. } => since,
            State::Free { .. } | State::Held { .. } => return,
        };
        match answer {
            Answer::Written { revision } => self.hold(revision, since),
            // A write of ours whose answer was lost: held no longer than before, and renewed at once.
            Answer::Conflict { found: Some((holder, revision)) } if holder == self.me => {
                let until = self.until().unwrap_or(now);
                self.state = State::Held { revision, renew_at: now, until };
            }
            Answer::Conflict { .. } => self.lose(now),
            Answer::Failed => match self.state {
                State::Renewing { revision, until, .. } => {
                    let renew_at = now + self.timing.renew / 5;
                    self.state = State::Held { revision, renew_at, until };
                }
                _ => self.lose(now),
            },
        }
    }

    fn hold(&mut self, revision: u64, since: Duration) {
        // A fifth of its life is kept back for clocks that run at another pace, and for what is under way when it ends.
        let until = since + self.timing.ttl - self.timing.ttl / 5;
        self.state = State::Held { revision, renew_at: since + self.timing.renew, until };
    }

    fn lose(&mut self, now: Duration) {
        self.state = State::Free { try_at: now + self.timing.renew };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn master(name: &str) -> MasterId {
        MasterId::new(name, "boot").unwrap_or_else(|bad| panic!("{bad}"))
    }

    fn lease() -> LeaseClient {
        LeaseClient::new(master("m1"), LeaseTiming { ttl: seconds(15), renew: seconds(5) })
    }

    fn held() -> LeaseClient {
        let mut lease = lease();
        assert_eq!(lease.tick(seconds(0)), Some(Command::Create));
        lease.answer(Answer::Written { revision: 7 }, seconds(1));
        lease
    }

    #[test]
    #[rule("J-23")]
    fn a_lease_is_taken_renewed_and_fenced_by_its_revision() {
        let mut lease = held();
        assert_eq!((lease.is_held(seconds(1)), lease.revision(seconds(1))), (true, Some(7)));
        assert_eq!((lease.next_wake(), lease.tick(seconds(4))), (Some(seconds(5)), None));
        assert_eq!(lease.tick(seconds(5)), Some(Command::Renew { revision: 7 }));
        lease.answer(Answer::Written { revision: 9 }, seconds(6));
        assert_eq!(lease.revision(seconds(16)), Some(9));
        // Counted from before it asked, and less than the key lives.
        assert_eq!(lease.until(), Some(seconds(17)));
    }

    #[test]
    #[rule("J-23")]
    fn what_another_holds_is_tried_again_later() {
        let mut lease = lease();
        lease.tick(seconds(0));
        lease.answer(Answer::Conflict { found: Some((master("m2"), 3)) }, seconds(1));
        assert!(!lease.is_held(seconds(1)) && lease.tick(seconds(5)).is_none());
        assert_eq!(lease.tick(seconds(6)), Some(Command::Create));
    }

    #[test]
    #[rule("J-23")]
    fn a_holder_that_hears_nothing_stops_before_the_key_expires() {
        let mut lease = held();
        assert!(lease.tick(seconds(5)).is_some());
        lease.answer(Answer::Failed, seconds(10));
        assert!(lease.is_held(seconds(11)), "it is not over yet");
        assert_eq!(lease.tick(seconds(11)), Some(Command::Renew { revision: 7 }));
        assert!(!lease.is_held(seconds(12)), "the key may be another's from 15 on");
        lease.answer(Answer::Conflict { found: Some((master("m2"), 9)) }, seconds(16));
        assert!(!lease.is_held(seconds(16)));
        assert_eq!(lease.tick(seconds(21)), Some(Command::Create));
    }

    #[test]
    #[rule("J-23")]
    fn a_write_of_its_own_that_went_unanswered_is_found_again() {
        let mut lease = held();
        lease.tick(seconds(5));
        lease.answer(Answer::Failed, seconds(6));
        assert_eq!(lease.tick(seconds(7)), Some(Command::Renew { revision: 7 }));
        lease.answer(Answer::Conflict { found: Some((master("m1"), 8)) }, seconds(8));
        assert_eq!(lease.tick(seconds(8)), Some(Command::Renew { revision: 8 }));
        lease.answer(Answer::Written { revision: 10 }, seconds(9));
        assert_eq!((lease.revision(seconds(9)), lease.until()), (Some(10), Some(seconds(20))));
        // The same for the very first one: nothing is held until a renewal is answered.
        let mut lease = self::lease();
        lease.tick(seconds(0));
        lease.answer(Answer::Failed, seconds(5));
        assert_eq!(lease.tick(seconds(10)), Some(Command::Create));
        lease.answer(Answer::Conflict { found: Some((master("m1"), 4)) }, seconds(11));
        assert!(!lease.is_held(seconds(11)));
        assert_eq!(lease.tick(seconds(11)), Some(Command::Renew { revision: 4 }));
        lease.answer(Answer::Written { revision: 5 }, seconds(12));
        assert!(lease.is_held(seconds(12)));
    }

    #[test]
    #[rule("J-23")]
    fn a_key_that_is_gone_is_taken_anew() {
        let mut lease = held();
        lease.tick(seconds(5));
        lease.answer(Answer::Conflict { found: None }, seconds(6));
        assert!(!lease.is_held(seconds(6)));
        assert_eq!(lease.tick(seconds(11)), Some(Command::Create));
        lease.answer(Answer::Written { revision: 20 }, seconds(12));
        lease.answer(Answer::Failed, seconds(13));
        assert!(lease.is_held(seconds(13)), "an answer that nobody waits for changes nothing");
    }
}
