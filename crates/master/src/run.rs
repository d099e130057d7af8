//! Start, life and stop of a master.

use serde_json::{Map, Value};
use std::fmt;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_health::Health;
use zester_jobs::Timing;
use zester_link::Link;
use zester_wire::{MasterId, PeelId};

/// The settings of a peel, secrets sealed, for `I@` targets (D-8).
pub trait SettingsOf: Send + Sync {
    fn settings(&self, peel: &PeelId, facts: &Value) -> Value;
}

/// A fleet without settings.
pub struct NoSettings;

impl SettingsOf for NoSettings {
    fn settings(&self, _: &PeelId, _: &Value) -> Value {
        Value::Object(Map::new())
    }
}

pub struct Setup {
    /// `<master id>.<boot id>`, new at every start (J-13).
    pub id: MasterId,
    pub timing: Timing,
    /// Copies of each stream; none: as many as the servers allow, up to three.
    pub replicas: Option<usize>,
    pub version: String,
    pub settings: Arc<dyn SettingsOf>,
}

/// Why a master cannot go on.
#[derive(Debug)]
pub struct Error(pub String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

/// Lives until `stop`, then detaches from its jobs (J-12). Dropping the future is a crash: every task of it ends at once.
pub async fn run(
    _link: Link,
    _setup: Setup,
    _health: Arc<Health>,
    stop: CancellationToken,
) -> Result<(), Error> {
    stop.cancelled().await;
    Ok(())
}
