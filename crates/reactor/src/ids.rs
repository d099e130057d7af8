//! Names that follow from what happened, so that doing it again is doing it once.

use sha2::{Digest, Sha256};
use zester_wire::{BadName, Jid, Origin};

/// Sets the two sorts of ids apart.
const OF_JOBS: &str = "zester.reaction.job.1";
const OF_EVENTS: &str = "zester.reaction.event.1";
const JID_DIGITS: usize = 32;

/// What one effect of a reaction is of.
#[derive(Copy, Clone, Debug)]
pub struct Cause<'a> {
    pub origin: &'a Origin,
    pub event_id: &'a str,
    /// The reference as the rules write it.
    pub rule: &'a str,
    pub block: &'a str,
}

impl Cause<'_> {
    /// The id of the job that this block starts.
    pub fn jid(&self) -> Result<Jid, BadName> {
        let digest = self.digest(OF_JOBS);
        Jid::parse(&format!("rxn-{}", digest.get(..JID_DIGITS).unwrap_or_default()))
    }

    /// The id of the event that this block sends.
    pub fn event(&self) -> String {
        self.digest(OF_EVENTS)
    }

    /// Each part with its length before it, so that no choice of one part can pass for another.
    fn digest(&self, sort: &str) -> String {
        let mut hash = Sha256::new();
        for part in [sort, &self.origin.to_string(), self.event_id, self.rule, self.block] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// The id that an event travels under where somebody else has taken this one: it follows from it, so that a second try finds
/// what the first has left.
pub fn next_id(id: &str) -> String {
    Sha256::digest(id).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zester_rule::rule;
    use zester_wire::PeelId;

    fn peel(name: &str) -> Origin {
        Origin::Peel(PeelId::parse(name).unwrap())
    }

    #[test]
    #[rule("R-8", "R-9")]
    fn r8_ids_are_the_same_for_the_same_cause_and_pinned() {
        let origin = peel("web-1");
        let cause = Cause { origin: &origin, event_id: "e1", rule: "reactor.a", block: "b" };
        assert_eq!(cause.jid().unwrap(), cause.jid().unwrap());
        assert_eq!(cause.jid().unwrap().as_str(), PINNED_JID);
        assert_eq!(cause.event(), PINNED_EVENT);
        assert_ne!(&cause.jid().unwrap().as_str()[4..], &cause.event()[..32], "a job is no event");
    }

    // Masters of two versions that share a fleet must name one effect alike. Computed once beside this code, from the lengths
    // as eight bytes, the highest first, and the parts.
    const PINNED_JID: &str = "rxn-32356d6e07280043ba86eeb13d25c4ee";
    const PINNED_EVENT: &str = "63a5bb4c7b305140d9b8c7938beda453e44e7cca0fc04fd1f2e7fa607e69a057";

    #[test]
    #[rule("R-8", "R-9")]
    fn r8_what_moves_from_one_part_to_the_next_makes_another_id() {
        let ids = |origin: &str, event_id, rule, block| {
            let origin = peel(origin);
            let cause = Cause { origin: &origin, event_id, rule, block };
            (cause.jid().unwrap(), cause.event())
        };
        let causes = [
            ids("ab", "cd", "ef", "gh"),
            ids("a", "bcd", "ef", "gh"),
            ids("abc", "d", "ef", "gh"),
            ids("ab", "c", "def", "gh"),
            ids("ab", "cde", "f", "gh"),
            ids("ab", "cd", "e", "fgh"),
            ids("ab", "cd", "efg", "h"),
            ids("ab", "cd", "efgh", ""),
            ids("ab", "", "cdef", "gh"),
        ];
        let jids: std::collections::BTreeSet<_> = causes.iter().map(|(jid, _)| jid.as_str()).collect();
        let events: std::collections::BTreeSet<_> = causes.iter().map(|(_, event)| event).collect();
        assert_eq!((jids.len(), events.len()), (causes.len(), causes.len()));
    }

    proptest! {
        #[test]
        #[rule("R-8", "R-9")]
        fn r8_no_choice_of_parts_passes_for_another(
            one in ("[a-b]{1,3}", "[a-b_/]{0,4}", "[a-b]{0,3}", "[a-b]{0,3}"),
            two in ("[a-b]{1,3}", "[a-b_/]{0,4}", "[a-b]{0,3}", "[a-b]{0,3}"),
        ) {
            let (first, second) = (peel(&one.0), peel(&two.0));
            let first = Cause { origin: &first, event_id: &one.1, rule: &one.2, block: &one.3 };
            let second = Cause { origin: &second, event_id: &two.1, rule: &two.2, block: &two.3 };
            prop_assert_eq!(one == two, first.jid() == second.jid());
            prop_assert_eq!(one == two, first.event() == second.event());
        }
    }
}
