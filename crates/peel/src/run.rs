//! The actor.

use crate::store::Store;
use crate::work::Work;
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_wire::{PeelId, Token};

pub struct Setup {
    pub id: PeelId,
    /// New at every start.
    pub boot: Token,
    pub timing: Timing,
    pub version: String,
}

/// Why a peel cannot go on.
#[derive(Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Lives until `stop`. Dropping the future is a crash: every task of it ends at once.
pub async fn run(
    _link: Link,
    _store: Arc<dyn Store>,
    _work: Arc<dyn Work>,
    _setup: Setup,
    _health: Arc<Health>,
    stop: CancellationToken,
) -> Result<(), Error> {
    stop.cancelled().await;
    Ok(())
}
