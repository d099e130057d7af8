//! How a job ended (J-5, J-8).

use zester_wire::JobStatus;

/// What is known of all targets when the watcher ends.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub targets: u64,
    /// Returns that count: not those that a deadline cut off, nor targets that were unreachable.
    pub returned: u64,
    pub succeeded: u64,
    /// It was canceled before all had returned.
    pub cut_short: bool,
}

/// The one place that names a terminal status.
pub fn conclude(tally: Tally) -> JobStatus {
    match tally {
        Tally { cut_short: true, .. } => JobStatus::Canceled,
        Tally { targets, returned, succeeded, .. } if returned >= targets => {
            if succeeded >= targets {
                JobStatus::Complete
            } else {
                JobStatus::Failed
            }
        }
        Tally { returned: 0, .. } => JobStatus::Timeout,
        Tally { .. } => JobStatus::Partial,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use JobStatus::{Canceled, Complete, Failed, Partial, Timeout};
    use zester_rule::rule;

    #[track_caller]
    fn check(targets: u64, returned: u64, succeeded: u64, cut_short: bool, status: JobStatus) {
        assert_eq!(conclude(Tally { targets, returned, succeeded, cut_short }), status);
    }

    #[test]
    #[rule("J-5")]
    fn j5_the_truth_table_of_the_status() {
        check(3, 3, 3, false, Complete);
        check(3, 3, 2, false, Failed);
        check(3, 3, 0, false, Failed);
        check(3, 2, 2, false, Partial);
        check(3, 1, 0, false, Partial);
        check(3, 0, 0, false, Timeout);
        check(1, 1, 1, false, Complete);
        check(1, 0, 0, false, Timeout);
        for returned in 0..=3 {
            for succeeded in 0..=returned {
                check(3, returned, succeeded, true, Canceled);
            }
        }
    }

    #[test]
    #[rule("J-5")]
    fn j5_every_tally_has_exactly_one_terminal_status() {
        for targets in 1..5 {
            for returned in 0..=targets {
                for succeeded in 0..=returned {
                    for cut_short in [false, true] {
                        let status = conclude(Tally { targets, returned, succeeded, cut_short });
                        assert!(status.is_terminal());
                        assert_eq!(status == Complete, !cut_short && succeeded == targets);
                        assert_eq!(status == Timeout, !cut_short && returned == 0);
                    }
                }
            }
        }
    }
}
