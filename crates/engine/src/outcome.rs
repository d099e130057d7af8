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
    /// The last try was reported as failed.
    Failed,
    /// Failed, and nobody reported it: cancellation came between two of its steps or ended its wait for a retry.
    Interrupted,
    Skipped(SkipReason),
}

impl Outcome {
    /// In check mode: would change.
    pub fn changed(self) -> bool {
        self == Outcome::Changed
    }

    /// Ended with an error: what `onfail` looks for (S-13).
    pub fn failed(self) -> bool {
        matches!(self, Outcome::Failed | Outcome::Interrupted)
    }

    /// Counts as failed for `require`, `watch` and `onchanges`: skipping is transitive (S-13).
    pub fn blocks(self) -> bool {
        match self {
            Outcome::Failed | Outcome::Interrupted => true,
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
            (Outcome::Failed, true, true),
            (Outcome::Interrupted, true, true),
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
}
