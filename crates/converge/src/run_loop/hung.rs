//! Which tasks hang in a call to the system that does not return.
//!
//! A task that waits for a command or a timer is asleep and can be told to stop. One that is in the middle of a step, and
//! stays there, cannot: all that is left is to say so and to go on without it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use zester_host::process::BoxFuture;

/// How long states have to end after a cancel: longer than a command that has to be killed needs (S-32).
pub(super) const GRACE: Duration = Duration::from_secs(7);

/// A step that takes this long after the grace hangs.
const STEP_MAX: Duration = Duration::from_secs(1);

/// How often it is looked at.
pub(super) const LOOKED_AT_EVERY: Duration = Duration::from_millis(250);

/// Until it is time to look again: by the clock, should the runtime that the timer belongs to be stuck itself.
pub(super) async fn wait(time: Duration) {
    let end = Instant::now() + time;
    let timer = tokio::time::sleep(time);
    tokio::pin!(timer);
    let rung = |cx: &mut Context<'_>| match timer.as_mut().poll(cx) {
        Poll::Pending if Instant::now() < end => Poll::Pending,
        _ => Poll::Ready(()),
    };
    std::future::poll_fn(rung).await;
}

/// When a task began the step that it is in; 0 while it sleeps.
#[derive(Clone)]
pub(super) struct PollTimer {
    born: Instant,
    step: Arc<AtomicU64>,
}

impl PollTimer {
    pub(super) fn new() -> PollTimer {
        PollTimer { born: Instant::now(), step: Arc::new(AtomicU64::new(0)) }
    }

    pub(super) fn hangs(&self) -> bool {
        let began = self.step.load(Ordering::Relaxed);
        began > 0 && self.born.elapsed() >= Duration::from_nanos(began) + STEP_MAX
    }

    fn now(&self) -> u64 {
        u64::try_from(self.born.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
    }
}

/// A task with a pulse.
pub(super) struct TimedTask<T> {
    pub(super) work: BoxFuture<'static, T>,
    pub(super) poll_timer: PollTimer,
}

impl<T> Future for TimedTask<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        self.poll_timer.step.store(self.poll_timer.now(), Ordering::Relaxed);
        let polled = self.work.as_mut().poll(cx);
        self.poll_timer.step.store(0, Ordering::Relaxed);
        polled
    }
}
