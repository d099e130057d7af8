//! Processes that remember whether what a command needs was missing.
//!
//! A guard may ask a function that runs a command. In a dry run its program may come with an earlier state, and so may
//! its directory or user; what the function made of that is no answer (S-30, S-44).

use super::NO_SUCH_PROGRAM;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_util::sync::CancellationToken;
use zester_host::process::BoxFuture;
use zester_host::{Exit, Fault, FaultKind, Launch, OutputSink, Processes};

pub(super) struct LaunchTracker<'a> {
    processes: &'a dyn Processes,
    no_program: AtomicBool,
    no_place: AtomicBool,
}

impl<'a> LaunchTracker<'a> {
    pub(super) fn new(processes: &'a dyn Processes) -> LaunchTracker<'a> {
        LaunchTracker { processes, no_program: AtomicBool::new(false), no_place: AtomicBool::new(false) }
    }

    /// The shell found no such program.
    pub(super) fn lacked_program(&self) -> bool {
        self.no_program.load(Ordering::Relaxed)
    }

    /// The directory or the user it was to run in or as is not there.
    pub(super) fn lacked_place(&self) -> bool {
        self.no_place.load(Ordering::Relaxed)
    }
}

impl Processes for LaunchTracker<'_> {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        Box::pin(async move {
            let ended = self.processes.run(launch, live, cancel).await;
            match &ended {
                Ok(exit) if exit.code == Some(NO_SUCH_PROGRAM) => {
                    self.no_program.store(true, Ordering::Relaxed);
                }
                Err(fault) if fault.kind == FaultKind::NotFound => {
                    self.no_place.store(true, Ordering::Relaxed);
                }
                _ => {}
            }
            ended
        })
    }
}
