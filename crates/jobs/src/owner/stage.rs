//! Where a job stands at its owner.

/// How the job came to this master.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Path {
    Dispatch,
    Resume,
    Adopt,
}

/// How a job ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran, and its status follows from the returns. `cut_short`: it was canceled before all had returned.
    Ran { cut_short: bool },
    /// It was canceled, or its time was over, before it was sent to anybody.
    NotSent { cut_short: bool },
    /// It was not recorded as running while its client waited, so it must not run any more (J-28).
    NeverRan,
    /// It changed owners too often (J-13).
    GivenUp,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    New(Path),
    /// `unsure`: the answer to a create was lost, so that the record may be there, or may yet come.
    Claiming {
        unsure: bool,
    },
    /// The client no longer waits, and nobody knows whether the claim was written: a terminal record takes its place, so that a
    /// write that arrives late loses. `marked`: it was marked active for that.
    Withdrawing {
        marked: bool,
    },
    Marking,
    Announcing,
    Starting,
    Adopting,
    Recalling,
    Loading,
    Replaying,
    Watching,
    /// The master stops. `answer_due`: the answer to a read is still to come. `informed`: all that had happened was known.
    Detaching {
        answer_due: bool,
        informed: bool,
    },
    Checking,
    Flushing(End),
    Finalizing(End),
    Reporting,
    Purging,
    Done,
    Detached,
    Lost,
}

impl Stage {
    /// For logs.
    pub fn name(self) -> &'static str {
        match self {
            Stage::New(_) => "new",
            Stage::Claiming { .. } => "claiming",
            Stage::Withdrawing { .. } => "withdrawing",
            Stage::Marking => "marking",
            Stage::Announcing => "announcing",
            Stage::Starting => "starting",
            Stage::Adopting => "adopting",
            Stage::Recalling => "recalling",
            Stage::Loading => "loading",
            Stage::Replaying => "replaying",
            Stage::Watching => "watching",
            Stage::Detaching { .. } => "detaching",
            Stage::Checking => "checking",
            Stage::Flushing(_) => "flushing",
            Stage::Finalizing(_) => "finalizing",
            Stage::Reporting => "reporting",
            Stage::Purging => "purging",
            Stage::Done => "done",
            Stage::Detached => "detached",
            Stage::Lost => "lost",
        }
    }

    /// This machine has nothing more to say about the job.
    pub fn is_gone(self) -> bool {
        matches!(self, Stage::Detached | Stage::Lost)
    }

    /// The end is decided.
    pub fn is_over(self) -> bool {
        matches!(
            self,
            Stage::Withdrawing { .. }
                | Stage::Finalizing(_)
                | Stage::Reporting
                | Stage::Purging
                | Stage::Done
        )
    }

    /// The end is written.
    pub(super) fn is_written(self) -> bool {
        matches!(self, Stage::Reporting | Stage::Purging | Stage::Done)
    }

    /// An adopter still learns what happened before it.
    pub(super) fn reads_history(self) -> bool {
        matches!(self, Stage::Recalling | Stage::Loading | Stage::Replaying)
    }

    /// The work may be with the peels, and the end is not decided.
    pub(super) fn is_out(self) -> bool {
        matches!(
            self,
            Stage::Loading
                | Stage::Replaying
                | Stage::Watching
                | Stage::Detaching { .. }
                | Stage::Checking
                | Stage::Flushing(_)
        )
    }
}
