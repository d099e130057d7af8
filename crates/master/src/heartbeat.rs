//! The sign of life of this master (J-13).

use crate::core::Core;
use crate::limits::FAREWELL_LIMIT;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use zester_wire::{Key, MasterHeartbeat, VERSION};

/// When this master's heartbeat was written. Where it was not for as long as one lives, those of others could not be either, and
/// everybody looks dead (J-13).
#[derive(Default)]
pub struct Beats {
    state: Mutex<Option<State>>,
}

struct State {
    last: Instant,
    /// When the first of them came after a gap; none where there was no gap.
    after_gap: Option<Instant>,
}

impl Beats {
    /// Whether it had not been for so long that others may have taken this master for dead.
    pub fn written(&self, ttl: Duration) -> bool {
        let now = Instant::now();
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let after_gap = match state.as_ref() {
            Some(before) if now - before.last >= ttl => Some(now),
            Some(before) => before.after_gap,
            None => None,
        };
        *state = Some(State { last: now, after_gap });
        after_gap == Some(now)
    }

    /// Whether a missing heartbeat of another says anything: ours stands, and has since everybody could write theirs.
    pub fn are_steady(&self, ttl: Duration) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.as_ref().is_some_and(|state| {
            state.last.elapsed() < ttl && state.after_gap.is_none_or(|since| since.elapsed() >= ttl)
        })
    }
}

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
    core.audit.roster(core.link.trust().map(|trust| trust.serial()));
    let heartbeat = MasterHeartbeat {
        v: VERSION,
        master: core.id.clone(),
        ts: core.link.now(),
        version: core.version.clone(),
        active_jobs: core.running.len() as u64,
        audit: core.audit.head(),
    };
    match core.link.put(key, &heartbeat).await {
        Ok(_) => {
            if core.beats.written(core.timing.master_ttl) {
                core.losses.disconnected();
            }
            core.stores.wrote(key.bucket().as_str());
            sleep(core.timing.master_heartbeat).await;
        }
        Err(error) => {
            tracing::debug!("the heartbeat was not written: {error}");
            let _known = core.stores.refused(key.bucket().as_str(), &error);
            sleep(core.timing.retry_pause.min(core.timing.master_heartbeat)).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;
    use zester_rule::rule;

    const TTL: Duration = Duration::from_secs(6);

    #[tokio::test(start_paused = true)]
    #[rule("J-13")]
    async fn j13_after_an_outage_nobody_is_judged_before_all_could_write() {
        let beats = Beats::default();
        assert!(!beats.are_steady(TTL), "nothing is known before the first");
        assert!(!beats.written(TTL));
        assert!(beats.are_steady(TTL), "a start is no outage");
        advance(TTL).await;
        assert!(!beats.are_steady(TTL));
        assert!(beats.written(TTL), "others may have taken it for dead");
        assert!(!beats.are_steady(TTL), "others may not have written theirs yet");
        for _ in 0..3 {
            advance(TTL / 3).await;
            assert!(!beats.written(TTL));
        }
        assert!(beats.are_steady(TTL));
    }
}
