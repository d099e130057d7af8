//! The exit codes (C-3), in one place.

use std::process::ExitCode;
use zester_model::outcome::RunResult;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Exit {
    Good,
    /// Usage, compile or infrastructure.
    Usage,
    /// Something failed, or the deadline passed.
    Failed,
    /// On the fleet: some target was unreachable or did not return.
    Missing,
    /// Both.
    FailedAndMissing,
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Good => 0,
            Exit::Usage => 1,
            Exit::Failed => 2,
            Exit::Missing => 3,
            Exit::FailedAndMissing => 4,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }

    pub fn of_fleet(failed: bool, missing: bool) -> Exit {
        match (failed, missing) {
            (false, false) => Exit::Good,
            (true, false) => Exit::Failed,
            (false, true) => Exit::Missing,
            (true, true) => Exit::FailedAndMissing,
        }
    }

    pub fn of_run(result: &RunResult) -> Exit {
        if result.success && result.error.is_empty() { Exit::Good } else { Exit::Failed }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}
