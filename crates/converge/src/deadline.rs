//! The time that a command has (`--timeout`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Past its time a command is canceled like any other. The clock starts with the command: reading, compiling and the wait
/// for the lock count.
#[derive(Clone, Debug, Default)]
pub struct Deadline {
    after: Option<Duration>,
    passed: Arc<AtomicBool>,
    _watch: Option<Arc<Watch>>,
}

impl Deadline {
    /// As long as it takes.
    pub fn none() -> Deadline {
        Deadline::default()
    }

    /// Counts from now on, on a runtime that goes on while others work.
    pub fn start(after: Option<Duration>, handle: &Handle, cancel: &CancellationToken) -> Deadline {
        let passed = Arc::new(AtomicBool::new(false));
        let watch = after.map(|after| {
            let (cancel, passed) = (cancel.clone(), passed.clone());
            Arc::new(Watch(handle.spawn(async move {
                tokio::time::sleep(after).await;
                if !cancel.is_cancelled() {
                    passed.store(true, Ordering::SeqCst);
                    cancel.cancel();
                }
            })))
        });
        Deadline { after, passed, _watch: watch }
    }

    /// How long there was, if that was not enough.
    pub fn passed(&self) -> Option<Duration> {
        self.after.filter(|_| self.passed.load(Ordering::SeqCst))
    }
}

/// Ends with the last who waits for it.
#[derive(Debug)]
struct Watch(JoinHandle<()>);

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}
