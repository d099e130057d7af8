//! Telling the server whose credentials count no more, where this master may (I-5).

use crate::core::Core;
use crate::limits::REVOKE_AGAIN;
use futures_util::future::BoxFuture;
use std::sync::Arc;
use tokio::time::timeout;

/// Has the server end the connections of keys, and keep them out.
pub trait Revokes: Send + Sync {
    /// All of these are out once this succeeds. Says how many were not before.
    fn revoke<'a>(&'a self, keys: &'a [String]) -> BoxFuture<'a, Result<usize, String>>;
}

/// Tells the server of every key that was ended, again until it knows. Ends only with its task.
pub async fn run(core: Arc<Core>, revoker: Arc<dyn Revokes>) {
    let (mut known, mut complaint) = (0, String::new());
    loop {
        let keys = core.enrollments.ended_keys(core.link.now());
        if keys.len() != known {
            match revoker.revoke(&keys).await {
                Ok(count) => {
                    known = keys.len();
                    complaint.clear();
                    if count > 0 {
                        tracing::info!(keys = count, "the server keeps out who was revoked");
                    }
                }
                Err(why) if why == complaint => {}
                Err(why) => {
                    tracing::warn!("the server does not know yet who was revoked: {why}");
                    complaint = why;
                }
            }
        }
        let _nothing_new = timeout(REVOKE_AGAIN, core.enrollments.ended.notified()).await;
    }
}
