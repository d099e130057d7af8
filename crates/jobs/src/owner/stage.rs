//! Where a job stands at its owner.

/// How the job came to this master.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Path {
    Dispatch,
    Resume,
    Adopt,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Fresh(Path),
    Claiming,
    Marking,
    Announcing,
    Starting,
    Adopting,
    Recalling,
    Loading,
    Replaying,
    Watching,
    Detaching,
    Checking,
    Flushing,
    Finalizing,
    Reporting,
    Purging,
    Done,
    Detached,
    Lost,
}

impl Stage {
    pub fn name(self) -> &'static str {
        match self {
            Stage::Fresh(_) => "fresh",
            Stage::Claiming => "claiming",
            Stage::Marking => "marking",
            Stage::Announcing => "announcing",
            Stage::Starting => "starting",
            Stage::Adopting => "adopting",
            Stage::Recalling => "recalling",
            Stage::Loading => "loading",
            Stage::Replaying => "replaying",
            Stage::Watching => "watching",
            Stage::Detaching => "detaching",
            Stage::Checking => "checking",
            Stage::Flushing => "flushing",
            Stage::Finalizing => "finalizing",
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
        matches!(self, Stage::Finalizing | Stage::Reporting | Stage::Purging | Stage::Done)
    }

    /// An adopter still learns what happened before it.
    pub fn reads_history(self) -> bool {
        matches!(self, Stage::Recalling | Stage::Loading | Stage::Replaying)
    }

    /// The work may be with the peels, and the end is not decided.
    pub fn is_out(self) -> bool {
        matches!(
            self,
            Stage::Loading
                | Stage::Replaying
                | Stage::Watching
                | Stage::Detaching
                | Stage::Checking
                | Stage::Flushing
        )
    }
}
