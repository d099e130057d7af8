//! Whether a directory rests. What is being written is no tree that anybody meant: nothing of it is published before nothing
//! changed for a moment, and one that never rests is told, not published (D-2).

use crate::limits::{PUBLISH_QUIET, PUBLISH_RESTLESS};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::Notify;
use tokio::time::Instant;

/// How often something changed, as whoever watches counts it.
pub type Changes = Arc<AtomicU64>;

/// What is known of the changes below a directory.
#[derive(Default)]
pub struct Rest {
    counted: u64,
    /// Since when it changes, and when it did last. None while it rests.
    restless: Option<(Instant, Instant)>,
}

/// How a directory is.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Calm {
    /// Nothing changed since it was last said to be settled.
    Rests,
    /// It changed, and rests now: it is to be looked at.
    Settled,
    Changes,
    /// For longer than a checkout takes.
    NeverRests,
}

impl Rest {
    /// So many changes were counted until now.
    pub fn look(&mut self, changes: u64, now: Instant) -> Calm {
        if changes != self.counted {
            self.counted = changes;
            let since = self.restless.map_or(now, |(since, _)| since);
            self.restless = Some((since, now));
        }
        match self.restless {
            None => Calm::Rests,
            Some((_, last)) if now.duration_since(last) >= PUBLISH_QUIET => {
                self.restless = None;
                Calm::Settled
            }
            Some((since, _)) if now.duration_since(since) >= PUBLISH_RESTLESS => Calm::NeverRests,
            Some(_) => Calm::Changes,
        }
    }
}

/// Counts changes below a directory, for as long as what it gives back lives. A directory that cannot be watched is looked
/// at all the same, only later.
pub fn watch(
    directory: &Path,
    changes: &Changes,
    changed: &Arc<Notify>,
) -> Option<notify::RecommendedWatcher> {
    use notify::{EventKind, RecursiveMode, Watcher};
    let (changes, changed) = (changes.clone(), changed.clone());
    let told = move |event: Result<notify::Event, notify::Error>| {
        // Reading is no change; who reads to publish would wake himself for ever.
        if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
            changes.fetch_add(1, Ordering::Relaxed);
            changed.notify_one();
        }
    };
    let watching = notify::recommended_watcher(told).and_then(|mut watcher| {
        watcher.watch(directory, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    watching
        .inspect_err(|error| tracing::warn!("{} is not watched for changes: {error}", directory.display()))
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use zester_rule::rule;

    #[test]
    #[rule("D-2")]
    fn d2_what_changes_is_looked_at_once_it_rests_and_never_before() {
        let (mut rest, begun) = (Rest::default(), Instant::now());
        let after = |elapsed: Duration| begun + elapsed;
        assert_eq!(rest.look(0, begun), Calm::Rests);
        assert_eq!(rest.look(3, begun), Calm::Changes);
        assert_eq!(rest.look(3, after(PUBLISH_QUIET / 2)), Calm::Changes);
        assert_eq!(rest.look(3, after(PUBLISH_QUIET)), Calm::Settled);
        assert_eq!(rest.look(3, after(PUBLISH_QUIET)), Calm::Rests, "once");
        // Something changes all the time.
        let step = PUBLISH_QUIET / 2;
        let begin = PUBLISH_QUIET * 2;
        let steps = (PUBLISH_RESTLESS.as_millis() / step.as_millis()) as u32;
        for at in 0..steps * 3 {
            let expected = if at < steps { Calm::Changes } else { Calm::NeverRests };
            assert_eq!(rest.look(4 + u64::from(at), after(begin + step * at)), expected, "{at}");
        }
        let last = begin + step * (steps * 3 - 1);
        assert_eq!(rest.look(3 + u64::from(steps * 3), after(last + PUBLISH_QUIET)), Calm::Settled);
        assert_eq!(rest.look(3 + u64::from(steps * 3), after(last + PUBLISH_QUIET * 2)), Calm::Rests);
    }
}
