//! Time as a value.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Where the memory bus gets its time from.
pub trait Timer: Send + Sync {
    /// Time since 1970, or since whatever the clock counts from.
    fn now(&self) -> Duration;

    /// Ends when `now` has reached `at`.
    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>>;
}

/// Tokio's time, which tests may pause. What the server stores has the time of a wall clock, as on a real one: whoever compares
/// it with its own must not find that everything is decades old.
pub struct TokioClock {
    start: tokio::time::Instant,
    epoch: Duration,
}

impl TokioClock {
    /// Goes on from the time of this machine. Belongs to the runtime it was made in.
    #[allow(clippy::new_without_default)]
    pub fn new() -> TokioClock {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        TokioClock::starting_at(wall.unwrap_or_default())
    }

    /// Goes on from that time since 1970.
    pub fn starting_at(epoch: Duration) -> TokioClock {
        TokioClock { start: tokio::time::Instant::now(), epoch }
    }
}

impl Timer for TokioClock {
    fn now(&self) -> Duration {
        self.epoch + self.start.elapsed()
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(tokio::time::sleep_until(self.start + at.saturating_sub(self.epoch)))
    }
}

/// Time that passes when it is told to.
#[derive(Clone, Default)]
pub struct ManualClock {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Default)]
struct Inner {
    now: Duration,
    next: u64,
    sleepers: BTreeMap<(Duration, u64), Waker>,
}

impl ManualClock {
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    /// When the next sleeper wants to wake.
    pub fn next_wake(&self) -> Option<Duration> {
        self.lock().sleepers.keys().next().map(|(at, _)| *at)
    }

    /// Lets time pass and wakes whoever slept until then, earliest first.
    pub fn advance(&self, by: Duration) {
        let mut due = Vec::new();
        {
            let mut inner = self.lock();
            inner.now += by;
            let now = inner.now;
            while let Some(first) = inner.sleepers.first_entry()
                && first.key().0 <= now
            {
                due.push(first.remove());
            }
        }
        due.into_iter().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Timer for ManualClock {
    fn now(&self) -> Duration {
        self.lock().now
    }

    fn sleep_until(&self, at: Duration) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(Sleep { clock: self.clone(), at, place: None })
    }
}

struct Sleep {
    clock: ManualClock,
    at: Duration,
    place: Option<u64>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let clock = self.clock.clone();
        let mut inner = clock.lock();
        if inner.now >= self.at {
            return Poll::Ready(());
        }
        let place = *self.place.get_or_insert_with(|| {
            inner.next += 1;
            inner.next
        });
        inner.sleepers.insert((self.at, place), context.waker().clone());
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            self.clock.lock().sleepers.remove(&(self.at, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn manual_time_passes_only_when_told() {
        let clock = ManualClock::new();
        let mut sleep = clock.sleep_until(Duration::from_secs(2));
        let pending = std::future::poll_fn(|context| Poll::Ready(sleep.as_mut().poll(context).is_pending()));
        assert!(pending.await);
        assert_eq!(clock.next_wake(), Some(Duration::from_secs(2)));
        clock.advance(Duration::from_secs(2));
        sleep.await;
        assert_eq!(clock.now(), Duration::from_secs(2));
        assert_eq!(clock.next_wake(), None);
    }
}
