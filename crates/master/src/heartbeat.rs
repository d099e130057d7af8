//! The sign of life of this master (J-13).

use crate::core::Core;
use crate::limits::FAREWELL_LIMIT;
use std::sync::Arc;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use zester_wire::{Key, MasterHeartbeat, VERSION};

/// Writes the heartbeat until `end`, then removes it: others need not wait until it expires.
pub async fn run(core: Arc<Core>, end: CancellationToken) {
    let key = Key::Master(core.id.clone());
    while end.run_until_cancelled(beat(&core, &key)).await.is_some() {}
    let farewell = async {
        while let Err(error) = core.link.purge(&key).await {
            tracing::debug!("the heartbeat was not removed: {error}");
            sleep(core.timing.retry_pause).await;
        }
    };
    let _expires_by_itself = timeout(FAREWELL_LIMIT, farewell).await;
}

/// One heartbeat, and the pause after it.
async fn beat(core: &Core, key: &Key) {
    let heartbeat = MasterHeartbeat {
        v: VERSION,
        master: core.id.clone(),
        ts: core.link.now(),
        version: core.version.clone(),
        active_jobs: core.roster.len() as u64,
    };
    match core.link.put(key, &heartbeat).await {
        Ok(_) => sleep(core.timing.master_heartbeat).await,
        Err(error) => {
            tracing::debug!("the heartbeat was not written: {error}");
            sleep(core.timing.retry_pause.min(core.timing.master_heartbeat)).await;
        }
    }
}
