//! Jobs that ended here with every return that they asked for: whatever comes of them later needs nothing (J-9).

use crate::limits::ENDED_JOBS_KNOWN;
use std::collections::{HashSet, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zester_wire::{Jid, Job};

/// Remembers the last of them, so that nobody has to read the record of a job that ended here a moment ago.
#[derive(Default)]
pub struct EndedJobs {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    jids: HashSet<Jid>,
    /// The oldest first.
    order: VecDeque<Jid>,
}

impl EndedJobs {
    /// Takes note of a job whose end is written, if nobody is missing.
    pub fn note(&self, job: &Job) {
        if job.missing.is_empty() && job.return_count == job.target_count() {
            self.remember(&job.jid);
        }
    }

    fn remember(&self, jid: &Jid) {
        let mut known = self.known();
        if !known.jids.insert(jid.clone()) {
            return;
        }
        known.order.push_back(jid.clone());
        if known.order.len() > ENDED_JOBS_KNOWN
            && let Some(oldest) = known.order.pop_front()
        {
            known.jids.remove(&oldest);
        }
    }

    /// Whether all returns of this job are stored. Not known of most.
    pub fn has_all(&self, jid: &Jid) -> bool {
        self.known().jids.contains(jid)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::UnixMillis;

    #[test]
    #[rule("J-9")]
    fn j9_the_last_jobs_that_ended_whole_are_known_and_no_more() {
        let jid = |number: usize| Jid::new(UnixMillis(1_800_000_000_000 + number as u64 * 1_000), [7; 16]);
        let ended = EndedJobs::default();
        assert!(!ended.has_all(&jid(0)));
        ended.remember(&jid(0));
        // Another owner may end it too: it is remembered once.
        ended.remember(&jid(0));
        assert!(ended.has_all(&jid(0)));
        (1..ENDED_JOBS_KNOWN).for_each(|number| ended.remember(&jid(number)));
        assert!(ended.has_all(&jid(0)));
        ended.remember(&jid(ENDED_JOBS_KNOWN));
        assert!(!ended.has_all(&jid(0)), "the oldest gives way");
        assert!(ended.has_all(&jid(1)) && ended.has_all(&jid(ENDED_JOBS_KNOWN)));
        assert_eq!(ended.known().jids.len(), ENDED_JOBS_KNOWN);
    }
}
