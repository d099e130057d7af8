//! Threads of their own for the work of a run.
//!
//! Reading a file, asking the name service and syncing the journal hold a thread, for ever where a server is gone. So a
//! run works on a few threads that nobody else needs: signals, deadlines and a daemon's bus are served elsewhere. Who waits
//! for a sync says so ([`zester_host::blocking`]) and gets a thread for it, up to a limit, so that many wait for the same one.
//! Commands wait without a thread here as everywhere.
//!
//! The loop of a run lives beside its tasks, because a thousand small checks then cost few wake-ups. Should a cancel find
//! every thread stuck, the loop is carried on by whoever waits for the run, and ends it (see [`crate::run_loop`]).

use crate::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, TryLockError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;
use zester_model::limits;

/// A pool that has not taken up a small task after this time has no thread left.
const ANSWERS_WITHIN: Duration = Duration::from_secs(1);

/// How often work that was taken over is looked at.
const LOOKED_AT_EVERY: Duration = Duration::from_millis(100);

/// The threads of one run. Dropping it waits for nobody.
pub struct Pool {
    runtime: Option<Runtime>,
}

impl Pool {
    pub fn start() -> Result<Pool, Error> {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let threads = (cores * 2).min(limits::WORKER_THREADS_MAX);
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads).max_blocking_threads(limits::DISK_WAITERS_MAX).enable_all();
        let runtime = builder.build();
        let runtime =
            runtime.map_err(|error| Error::other(format!("cannot start the threads of the run: {error}")))?;
        Ok(Pool { runtime: Some(runtime) })
    }

    /// Carries work to its end on the threads of the pool; once it is cancelled and they are all stuck, here.
    pub async fn carry<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Error>> + Send + 'static,
        cancel: &CancellationToken,
    ) -> Result<T, Error> {
        let Some(runtime) = &self.runtime else { return work.await };
        let shared = Handed(Arc::new(Mutex::new(Some(Box::pin(work)))));
        let mut task = runtime.spawn(shared.clone());
        loop {
            tokio::select! {
                biased;
                done = &mut task => return done.unwrap_or_else(|error| match error.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(error) => Err(Error::other(format!("the run ended unexpectedly: {error}"))),
                }),
                () = hung(runtime, cancel) => {}
            }
            if let Some(work) = shared.take() {
                return carry_on(work).await;
            }
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// Returns when the run is cancelled and no thread of the pool takes up anything.
async fn hung(runtime: &Runtime, cancel: &CancellationToken) {
    cancel.cancelled().await;
    while tokio::time::timeout(ANSWERS_WITHIN, runtime.spawn(async {})).await.is_ok() {
        tokio::time::sleep(ANSWERS_WITHIN).await;
    }
}

/// Goes on with work whose timers may hang on threads that no longer serve them: it is looked at again and again.
async fn carry_on<F: Future>(mut work: Pin<Box<F>>) -> F::Output {
    loop {
        tokio::select! {
            biased;
            done = work.as_mut() => return done,
            () = tokio::time::sleep(LOOKED_AT_EVERY) => {}
        }
    }
}

/// Work that can be taken away from the task that carries it, between two of its steps.
struct Handed<F>(Arc<Mutex<Option<Pin<Box<F>>>>>);

impl<F> Clone for Handed<F> {
    fn clone(&self) -> Handed<F> {
        Handed(self.0.clone())
    }
}

impl<F> Handed<F> {
    /// `None` while it is in the middle of a step.
    fn take(&self) -> Option<Pin<Box<F>>> {
        match self.0.try_lock() {
            Ok(mut work) => work.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<F: Future> Future for Handed<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        match &mut *self.0.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(work) => work.as_mut().poll(cx),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;
    use zester_rule::rule;

    #[tokio::test]
    #[rule("S-32")]
    async fn s32_a_run_whose_threads_are_all_stuck_is_carried_on_by_who_waits_for_it() {
        let pool = Pool::start().unwrap();
        let cancel = CancellationToken::new();
        let (hang, hung) = mpsc::channel::<()>();
        let hung = Arc::new(Mutex::new(hung));
        let threads = pool.runtime.as_ref().unwrap().metrics().num_workers();
        let token = cancel.clone();
        let work = async move {
            for _ in 0..threads {
                let hung = hung.clone();
                tokio::spawn(async move { hung.lock().unwrap().recv() });
            }
            token.cancelled().await;
            Ok("ended")
        };
        let canceling = cancel.clone();
        std::thread::spawn(move || canceling.cancel());
        assert_eq!(pool.carry(work, &cancel).await.unwrap(), "ended");
        drop(hang);
    }

    #[tokio::test]
    #[rule("S-33")]
    async fn s33_a_panic_of_the_run_itself_is_not_swallowed() {
        let pool = Pool::start().unwrap();
        let cancel = CancellationToken::new();
        let waiting = tokio::spawn(async move {
            pool.carry(async { if true { panic!("a bug") } else { Ok(()) } }, &cancel).await
        });
        assert!(waiting.await.unwrap_err().is_panic());
    }
}
