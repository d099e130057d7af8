//! What a run tells while it runs: who watches sees a line that changes a few times a second.

use super::{StateEnded, Tell};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use zester_converge::run_loop::Observer;
use zester_model::outcome::StateResult;

/// States that changed nothing are told this far apart: a thousand of them end within a few milliseconds, each a message of
/// its own.
const TOLD_EVERY: Duration = Duration::from_millis(50);

/// Passes on states as they end: all that matter, and now and then one of the others.
pub(super) struct ProgressObserver {
    total: u64,
    tell: Tell,
    so_far: Mutex<SoFar>,
}

#[derive(Default)]
struct SoFar {
    ended: u64,
    told_at: Option<Instant>,
}

impl ProgressObserver {
    pub(super) fn new(total: u64, tell: Tell) -> ProgressObserver {
        ProgressObserver { total, tell, so_far: Mutex::default() }
    }

    /// Which one it is, if it is to be told.
    fn count(&self, result: &StateResult) -> Option<u64> {
        let mut so_far = self.so_far.lock().unwrap_or_else(PoisonError::into_inner);
        so_far.ended += 1;
        let matters = result.changed || !result.error.is_empty();
        let now = Instant::now();
        if !matters && so_far.told_at.is_some_and(|at| now.duration_since(at) < TOLD_EVERY) {
            return None;
        }
        so_far.told_at = Some(now);
        Some(so_far.ended)
    }
}

impl Observer for ProgressObserver {
    fn ended(&self, result: &StateResult) {
        if let Some(ended) = self.count(result)
            && let Ok(state) = serde_json::to_value(result)
        {
            (self.tell)(StateEnded { ended, total: self.total, state });
        }
    }

    fn notice(&self, text: &str) {
        tracing::info!("{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[tokio::test(start_paused = true)]
    async fn of_states_that_changed_nothing_few_are_told_and_all_are_counted() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let telling = told.clone();
        let tell: Tell = Arc::new(move |state: StateEnded| telling.lock().unwrap().push(state.ended));
        let observer = ProgressObserver::new(1_000, tell);
        let unchanged = StateResult::default();
        (0..10).for_each(|_| observer.ended(&unchanged));
        assert_eq!(*told.lock().unwrap(), [1], "the others follow within the same moment");
        observer.ended(&StateResult { changed: true, ..StateResult::default() });
        observer.ended(&StateResult { error: "no".into(), ..StateResult::default() });
        assert_eq!(*told.lock().unwrap(), [1, 11, 12], "what matters is always told");
        tokio::time::advance(TOLD_EVERY).await;
        (0..10).for_each(|_| observer.ended(&unchanged));
        assert_eq!(*told.lock().unwrap(), [1, 11, 12, 13]);
    }
}
