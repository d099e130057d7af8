//! What a peel refused, so that a copy of the request gets the same answer and not another.

use crate::dedup::Dispatch;
use crate::limits::REFUSALS_MAX;
use std::collections::{BTreeMap, VecDeque};
use zester_wire::Cause;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub cause: Cause,
    pub why: String,
}

/// In memory only: a refusal is for good as long as this life of the peel lasts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusals {
    known: BTreeMap<Dispatch, Refusal>,
    oldest_first: VecDeque<Dispatch>,
}

impl Refusals {
    pub fn get(&self, dispatch: &Dispatch) -> Option<&Refusal> {
        self.known.get(dispatch)
    }

    pub fn insert(&mut self, dispatch: Dispatch, refusal: Refusal) {
        if self.known.insert(dispatch.clone(), refusal).is_some() {
            return;
        }
        self.oldest_first.push_back(dispatch);
        if self.oldest_first.len() > REFUSALS_MAX
            && let Some(oldest) = self.oldest_first.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_wire::{Jid, UnixMillis};

    #[test]
    fn the_oldest_refusals_are_forgotten_first() {
        let dispatch = |epoch| Dispatch { jid: Jid::new(UnixMillis(1), [1; 16]), epoch };
        let mut refusals = Refusals::default();
        for epoch in 0..=REFUSALS_MAX as u64 {
            refusals.insert(dispatch(epoch), Refusal { cause: Cause::Busy, why: String::new() });
        }
        assert_eq!((refusals.known.len(), refusals.oldest_first.len()), (REFUSALS_MAX, REFUSALS_MAX));
        assert!(refusals.get(&dispatch(0)).is_none() && refusals.get(&dispatch(1)).is_some());
    }
}
