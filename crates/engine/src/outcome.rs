//! What became of a node, and what that means to the nodes that wait for it.

use zester_model::outcome::SkipReason;

/// How a node ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    Unchanged,
    /// In check mode: would change.
    Changed,
    /// `onlyif` or `unless` said no: neither changed nor failed nor skipped (S-16).
    GuardUnmet,
    /// The last try was reported as failed. `touched`: one of its tries altered the machine (S-43).
    Failed {
        touched: bool,
    },
    /// Failed, and nobody reported it: cancellation came between two of its steps or ended its wait for a retry.
    Interrupted {
        touched: bool,
    },
    Skipped(SkipReason),
}

impl Outcome {
    /// In check mode: would change.
    pub fn changed(self) -> bool {
        self == Outcome::Changed
    }

    /// The machine is not as it was: a change, or a failure that touched something. That is a change to its watchers
    /// (S-43).
    pub fn altered(self) -> bool {
        self.changed()
            || matches!(self, Outcome::Failed { touched: true } | Outcome::Interrupted { touched: true })
    }

    /// Ended with an error: what `onfail` looks for (S-13).
    pub fn failed(self) -> bool {
        matches!(self, Outcome::Failed { .. } | Outcome::Interrupted { .. })
    }

    /// Counts as failed for `require`, `watch` and `onchanges`: skipping is transitive (S-13).
    pub fn blocks(self) -> bool {
        match self {
            Outcome::Failed { .. } | Outcome::Interrupted { .. } => true,
            Outcome::Unchanged | Outcome::Changed | Outcome::GuardUnmet => false,
            Outcome::Skipped(reason) => match reason {
                SkipReason::RequireFailed | SkipReason::FailhardAbort | SkipReason::Canceled => true,
                SkipReason::OnchangesNotMet | SkipReason::OnfailNotMet | SkipReason::PrereqNotMet => false,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-13")]
    fn s13_what_counts_as_failed_for_whom() {
        // outcome, for `onfail`, for `require`, `watch` and `onchanges`
        let table = [
            (Outcome::Unchanged, false, false),
            (Outcome::Changed, false, false),
            (Outcome::GuardUnmet, false, false),
            (Outcome::Failed { touched: false }, true, true),
            (Outcome::Failed { touched: true }, true, true),
            (Outcome::Interrupted { touched: false }, true, true),
            (Outcome::Skipped(SkipReason::RequireFailed), false, true),
            (Outcome::Skipped(SkipReason::FailhardAbort), false, true),
            (Outcome::Skipped(SkipReason::Canceled), false, true),
            (Outcome::Skipped(SkipReason::OnchangesNotMet), false, false),
            (Outcome::Skipped(SkipReason::OnfailNotMet), false, false),
            (Outcome::Skipped(SkipReason::PrereqNotMet), false, false),
        ];
        for (outcome, failed, blocks) in table {
            assert_eq!((outcome.failed(), outcome.blocks()), (failed, blocks), "{outcome:?}");
        }
    }

    #[test]
    #[rule("S-43")]
    fn s43_a_failure_that_touched_something_is_an_alteration_and_no_change() {
        for outcome in [Outcome::Failed { touched: true }, Outcome::Interrupted { touched: true }] {
            assert!(outcome.altered() && outcome.failed() && !outcome.changed(), "{outcome:?}");
        }
        assert!(Outcome::Changed.altered());
        assert!(!Outcome::Failed { touched: false }.altered() && !Outcome::Unchanged.altered());
    }
}
