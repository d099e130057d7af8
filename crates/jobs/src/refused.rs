//! Which requests a master refused for good, for as long as their clients could still be waiting. A copy of one that comes when
//! the cause has gone must get the same answer: its client was told that nothing runs and nothing will (J-28).

use crate::limits::REFUSED_MAX;
use std::collections::BTreeMap;
use zester_wire::{Jid, Refusal, RefusalKind, UnixMillis};

/// In memory only: a master that starts again has heard of no copy.
#[derive(Debug, Default)]
pub struct RefusedRequests {
    known: BTreeMap<Jid, (Refusal, UnixMillis)>,
}

impl RefusedRequests {
    /// What this request was refused with, while its client may wait.
    pub fn get(&self, jid: &Jid, now: UnixMillis) -> Option<&Refusal> {
        self.known.get(jid).filter(|(_, until)| now < *until).map(|(refusal, _)| refusal)
    }

    /// Remembers a refusal of a request whose client waits until then, and says what to answer: where there is no room to remember
    /// it, the same as something that may change, so that nobody is promised what a copy could break.
    pub fn refuse(&mut self, jid: &Jid, refusal: Refusal, until: UnixMillis, now: UnixMillis) -> Refusal {
        if !may_change(refusal.kind) || until <= now {
            return refusal;
        }
        if let Some((known, _)) = self.known.get(jid).filter(|(_, until)| now < *until) {
            return known.clone();
        }
        if self.known.len() >= REFUSED_MAX {
            self.known.retain(|_, (_, until)| now < *until);
        }
        if self.known.len() >= REFUSED_MAX {
            return Refusal { kind: RefusalKind::Unavailable, ..refusal };
        }
        self.known.insert(jid.clone(), (refusal.clone(), until));
        refusal
    }
}

/// Whether a client takes it for the last word, although the same request could be granted a moment later. What is wrong with
/// the request itself is refused alike by everybody, and an end that is recorded stays.
fn may_change(kind: RefusalKind) -> bool {
    matches!(kind, RefusalKind::CannotWrite | RefusalKind::NoTargets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn jid(number: usize) -> Jid {
        Jid::new(UnixMillis(1_800_000_000_000 + number as u64 * 1_000), [7; 16])
    }

    #[test]
    #[rule("J-28")]
    fn j28_which_refusals_a_copy_of_the_request_meets_by_this_table() {
        use RefusalKind as Kind;
        let until = UnixMillis(15_000);
        let table = [
            (Kind::CannotWrite, true),
            (Kind::NoTargets, true),
            // Its client asks again, and may be granted.
            (Kind::Unavailable, false),
            (Kind::ClaimPending, false),
            (Kind::UnderWay, false),
            // Of the job that has the id, and no word about that one.
            (Kind::Conflict, false),
            (Kind::Invalid, false),
            (Kind::BadTarget, false),
            (Kind::Denied, false),
            (Kind::NeverRan, false),
        ];
        for (kind, is_remembered) in table {
            let mut refused = RefusedRequests::default();
            let refusal = Refusal::new(kind, "no");
            assert_eq!(refused.refuse(&jid(1), refusal.clone(), until, UnixMillis(10)), refusal);
            let copy = |at| refused.get(&jid(1), UnixMillis(at)).cloned();
            assert_eq!(copy(14_999), is_remembered.then_some(refusal), "{kind:?}");
            // Then no master claims it any more, whatever it says.
            assert_eq!((copy(15_000), refused.get(&jid(2), UnixMillis(11))), (None, None), "{kind:?}");
        }
    }

    #[test]
    #[rule("J-28")]
    fn j28_a_refusal_that_cannot_be_remembered_is_not_for_good() {
        let mut refused = RefusedRequests::default();
        let full = || Refusal::new(RefusalKind::CannotWrite, "jobs is full");
        let mut refuse =
            |number, now| refused.refuse(&jid(number), full(), UnixMillis(now + 1_000), UnixMillis(now)).kind;
        assert!((0..REFUSED_MAX).all(|number| refuse(number, 0) == RefusalKind::CannotWrite));
        assert_eq!(refuse(REFUSED_MAX, 0), RefusalKind::Unavailable);
        assert_eq!(refuse(0, 0), RefusalKind::CannotWrite, "it is remembered already");
        assert_eq!(refuse(REFUSED_MAX, 1_000), RefusalKind::CannotWrite, "the others are over");
    }
}
