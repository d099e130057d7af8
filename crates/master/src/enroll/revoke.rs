//! Telling the server whose credentials count no more, where this master may (I-5).

use crate::core::Core;
use crate::limits::{REVOKE_AGAIN, REVOKE_LOOK, REVOKE_WAIT};
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use zester_health::State;

/// What health calls it.
const NAME: &str = "revoker";

/// Has the server end the connections of keys, and keep them out.
pub trait Revokes: Send + Sync {
    /// All of these are out once this succeeds. Says how many were not before. Without any it finds out whether it could.
    fn revoke<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<usize, String>>;
}

/// How much the server knows.
#[derive(Clone, Debug, Default)]
struct Told {
    /// So many keys it keeps out.
    keys: usize,
    /// How often it was told.
    rounds: u64,
    /// Why it could not be told the last time.
    failed: Option<String>,
}

/// What became of telling the server, for whoever waits for it.
pub struct Telling(watch::Sender<Told>);

impl Telling {
    pub fn new() -> Telling {
        Telling(watch::Sender::default())
    }

    pub fn note(&self, keys: usize, failed: Option<String>) {
        self.0.send_modify(|told| {
            told.rounds += 1;
            told.keys = if failed.is_none() { keys } else { told.keys };
            told.failed = failed;
        });
    }

    /// Whether it keeps out so many keys: waits a moment for that.
    pub async fn knows(&self, keys: usize) -> Result<(), String> {
        let mut told = self.0.subscribe();
        let begun = told.borrow().rounds;
        let over = |told: &Told| told.keys >= keys || (told.rounds > begun && told.failed.is_some());
        drop(timeout(REVOKE_WAIT, told.wait_for(over)).await);
        let told = told.borrow();
        match &told.failed {
            _ if told.keys >= keys => Ok(()),
            Some(why) => Err(why.clone()),
            None => Err("it has not answered yet".into()),
        }
    }
}

/// Tells the server of every key that was ended, again until it knows; and looks now and then whether it would listen, before somebody
/// counts on it. Ends only with its task.
pub async fn run(core: Arc<Core>, revoker: Arc<dyn Revokes>) {
    let (mut known, mut looked, mut complaint) = (0, None::<Instant>, String::new());
    loop {
        let keys = core.enrollments.ended_keys(core.link.now());
        if keys.len() != known || looked.is_none_or(|at| at.elapsed() >= REVOKE_LOOK) {
            match revoker.revoke(&keys).await {
                Ok(count) => {
                    (known, looked) = (keys.len(), Some(Instant::now()));
                    complaint.clear();
                    core.health.set(NAME, State::Up);
                    core.enrollments.server_told(keys.len(), None);
                    if count > 0 {
                        tracing::info!(keys = count, "the server keeps out who was revoked");
                    }
                }
                Err(why) => {
                    // Again soon, also where all was well before.
                    looked = None;
                    if why != complaint {
                        tracing::warn!("the server cannot be told who was revoked: {why}");
                    }
                    core.health.set(NAME, State::Degraded(format!("the server was not told: {why}")));
                    core.enrollments.server_told(keys.len(), Some(why.clone()));
                    complaint = why;
                }
            }
        }
        let _nothing_new = timeout(REVOKE_AGAIN, core.enrollments.ended.notified()).await;
    }
}
