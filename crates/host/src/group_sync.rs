//! One sync for all who wait for it.
//!
//! A sync costs about the same for one write and for a thousand. So those who have written wait for one another: the first
//! to arrive syncs for all that have written by then, and whoever comes while that lasts is in the next round. A sync that
//! fails has failed for everybody in its round.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a round waits for those who are still writing. Less than most disks need for a sync.
const GATHERS_FOR: Duration = Duration::from_millis(1);

/// Where writers meet before a sync. `T` is what came of it.
pub struct GroupSync<T> {
    state: Mutex<State<T>>,
    gathered: Condvar,
    synced: Condvar,
}

struct State<T> {
    /// Those who have entered, and have neither arrived nor left.
    writing: usize,
    /// What comes of the sync that has not begun yet.
    round: Arc<OnceLock<T>>,
    syncing: bool,
}

impl<T> Default for GroupSync<T> {
    fn default() -> GroupSync<T> {
        let state = State { writing: 0, round: Arc::default(), syncing: false };
        GroupSync { state: Mutex::new(state), gathered: Condvar::new(), synced: Condvar::new() }
    }
}

impl<T> GroupSync<T> {
    /// To be called before the write that a sync is to make safe: others who have written theirs wait a little for it.
    pub fn enter(self: &Arc<Self>) -> Visit<T> {
        self.lock().writing += 1;
        Visit(self.clone())
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Somebody who is writing. Dropping it is leaving without a sync.
pub struct Visit<T>(Arc<GroupSync<T>>);

impl<T> Drop for Visit<T> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.writing -= 1;
        if state.writing == 0 {
            self.0.gathered.notify_all();
        }
    }
}

impl<T: Clone> Visit<T> {
    /// Returns when a sync that began after the write of this visit has ended, and what came of it. `sync` is called by one
    /// of each round.
    pub fn sync(self, sync: impl FnOnce() -> T) -> T {
        let group = self.0.clone();
        let round = group.lock().round.clone();
        drop(self);
        let mut state = group.lock();
        loop {
            if let Some(outcome) = round.get() {
                return outcome.clone();
            }
            if !state.syncing {
                break;
            }
            state = group.synced.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.syncing = true;
        let _syncing = Syncing(&group);
        state = gather(&group, state);
        state.round = Arc::default();
        drop(state);
        let outcome = sync();
        round.get_or_init(|| outcome).clone()
    }
}

fn gather<'a, T>(group: &'a GroupSync<T>, mut state: MutexGuard<'a, State<T>>) -> MutexGuard<'a, State<T>> {
    let until = Instant::now() + GATHERS_FOR;
    while state.writing > 0 {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        (state, _) = group.gathered.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
    }
    state
}

/// Ends with the sync, also where that panics: then each of the others syncs for itself.
struct Syncing<'a, T>(&'a GroupSync<T>);

impl<T> Drop for Syncing<'_, T> {
    fn drop(&mut self) {
        self.0.lock().syncing = false;
        self.0.synced.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn who_comes_alone_does_not_wait_for_anybody() {
        let group: Arc<GroupSync<usize>> = Arc::default();
        assert_eq!(group.enter().sync(|| 1), 1);
        assert_eq!(group.enter().sync(|| 2), 2, "its own, not that of the round before");
    }

    #[test]
    fn one_sync_serves_all_who_wrote_before_it_began_and_nobody_is_served_by_an_earlier_one() {
        const THREADS: usize = 16;
        const WRITES: usize = 20;
        let group: Arc<GroupSync<usize>> = Arc::default();
        let (written, syncs) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let start = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    start.wait();
                    for _ in 0..WRITES {
                        let visit = group.enter();
                        let mine = written.fetch_add(1, Ordering::SeqCst) + 1;
                        let safe = visit.sync(|| {
                            syncs.fetch_add(1, Ordering::SeqCst);
                            let safe = written.load(Ordering::SeqCst);
                            // Long enough for others to write theirs meanwhile.
                            std::thread::sleep(3 * GATHERS_FOR);
                            safe
                        });
                        assert!(safe >= mine, "called safe by a sync that began before the write");
                    }
                });
            }
        });
        let syncs = syncs.into_inner();
        assert!(syncs <= THREADS * WRITES / 2, "{syncs} syncs for {} writes", THREADS * WRITES);
    }

    #[test]
    fn a_sync_that_fails_has_failed_for_everybody_in_its_round() {
        const THREADS: usize = 8;
        const DEADLINE: Duration = Duration::from_secs(30);
        let group: Arc<GroupSync<Result<(), &str>>> = Arc::default();
        let (calls, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            let (calls, failed) = (&calls, &failed);
            let before = group.enter().sync(|| {
                for _ in 0..THREADS {
                    let visit = group.enter();
                    scope.spawn(move || {
                        // Whoever synced for itself would succeed.
                        let outcome = visit.sync(|| match calls.fetch_add(1, Ordering::SeqCst) {
                            0 => Err("no space left"),
                            _ => Ok(()),
                        });
                        failed.fetch_add(usize::from(outcome.is_err()), Ordering::SeqCst);
                    });
                }
                // Until all of them wait for the round that has not begun.
                let begun = Instant::now();
                while group.lock().writing > 0 {
                    assert!(begun.elapsed() < DEADLINE, "they do not arrive");
                    std::thread::yield_now();
                }
                Ok(())
            });
            assert_eq!(before, Ok(()));
        });
        assert_eq!((calls.into_inner(), failed.into_inner()), (1, THREADS));
    }

    #[test]
    fn a_sync_that_panics_leaves_nobody_waiting() {
        let group: Arc<GroupSync<usize>> = Arc::default();
        let (first, second) = (group.enter(), group.enter());
        std::thread::scope(|scope| {
            let panics = scope.spawn(move || first.sync(|| panic!("a bug")));
            assert!(panics.join().is_err());
        });
        assert_eq!(second.sync(|| 7), 7);
    }
}
