//! Turns among programs that share one machine without sharing a data dir, as the peels of one `zester up` do.
//!
//! Each of them takes the machine for its own: what a state found may be another's by the time it acts. So from its check to
//! its end a state holds a lock that all of them know. It is held once for all states of a run, which do not wait for one another.

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_engine::NodeId;
use zester_host::Fault;

/// How often one that waits asks again.
const POLL: Duration = Duration::from_millis(10);
/// Modules whose states only wait, or run what somebody wrote: nothing that they look at is kept, and they may last.
const BESIDE: &[&str] = &["cmd", "event", "exec", "module", "test"];

/// The turns of one run. Without a file there is nobody else, and nothing to wait for.
#[derive(Default)]
pub struct Turns {
    path: Option<PathBuf>,
    /// Whoever waits for the others does so for the whole run.
    waiting: tokio::sync::Mutex<()>,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// Closed, it is free.
    file: Option<File>,
    by: HashSet<NodeId>,
}

impl Turns {
    pub fn new(path: Option<PathBuf>) -> Turns {
        Turns { path, ..Turns::default() }
    }

    /// Waits until it is the turn of this run. A state that has it already keeps it.
    pub async fn take(&self, node: NodeId, kind: &str, cancel: &CancellationToken) -> Result<(), Fault> {
        let Some(path) = &self.path else { return Ok(()) };
        if kind.split_once('.').is_some_and(|(module, _)| BESIDE.contains(&module)) {
            return Ok(());
        }
        let _first = self.waiting.lock().await;
        if self.join(node) {
            return Ok(());
        }
        let file = lock(path, cancel).await?;
        let mut held = self.held();
        held.file = Some(file);
        held.by.insert(node);
        Ok(())
    }

    /// Whether the run has it.
    fn join(&self, node: NodeId) -> bool {
        let mut held = self.held();
        let has = held.file.is_some();
        if has {
            held.by.insert(node);
        }
        has
    }

    /// The last one that goes lets the others in.
    pub fn leave(&self, node: NodeId) {
        let mut held = self.held();
        if held.by.remove(&node) && held.by.is_empty() {
            held.file = None;
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn lock(path: &Path, cancel: &CancellationToken) -> Result<File, Fault> {
    let fail = |error| Fault::io("wait for other peels of this machine at", path, error);
    let file = File::options().create(true).append(true).open(path).map_err(fail)?;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(Errno::WOULDBLOCK) => {}
            Err(error) => return Err(fail(error.into())),
        }
        tokio::select! {
            _ = cancel.cancelled() => return Err(Fault::canceled()),
            _ = tokio::time::sleep(POLL) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_run_has_its_turn_until_its_last_state_leaves() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("turns");
        let (one, other) = (Turns::new(Some(path.clone())), Turns::new(Some(path)));
        let never = CancellationToken::new();
        one.take(NodeId(0), "file.managed", &never).await.unwrap();
        one.take(NodeId(1), "file.managed", &never).await.unwrap();
        other.take(NodeId(0), "cmd.run", &never).await.unwrap();
        one.leave(NodeId(0));
        let canceled = CancellationToken::new();
        canceled.cancel();
        let refused = other.take(NodeId(1), "file.managed", &canceled).await;
        assert!(refused.is_err(), "the second state is still at it");
        one.leave(NodeId(1));
        other.take(NodeId(1), "file.managed", &never).await.unwrap();
    }
}
