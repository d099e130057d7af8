//! One mutating run per data dir (S-42): a lock that dies with its holder.
//!
//! The lock is an advisory `flock`: the kernel drops it when the process ends, however it ends, so no stale lock can
//! keep a machine from converging. What stands in the file only says who holds it.

use crate::data_dir::DataDir;
use crate::error::Error;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often a waiting run asks again.
const POLL: Duration = Duration::from_millis(50);

/// Held for the length of a mutating run.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Takes the lock; waits for another holder, whom it names to `waiting` once, unless `no_wait`.
    pub async fn take(
        data_dir: &DataDir,
        purpose: &str,
        no_wait: bool,
        cancel: &CancellationToken,
        waiting: impl Fn(&str),
    ) -> Result<RunLock, Error> {
        let path = data_dir.path("lock");
        let mut file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(&path)
            .map_err(|error| Error::io("open the run lock", &path, error))?;
        let mut told = false;
        loop {
            match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(rustix::io::Errno::WOULDBLOCK) => {}
                Err(error) => return Err(Error::io("take the run lock", &path, error.into())),
            }
            let holder = holder_of(&mut file);
            if no_wait {
                return Err(Error::Locked { holder });
            }
            if !told {
                waiting(&holder);
                told = true;
            }
            tokio::select! {
                _ = cancel.cancelled() => return Err(Error::Canceled),
                _ = tokio::time::sleep(POLL) => {}
            }
        }
        let note = format!("pid {} ({purpose})", std::process::id());
        file.set_len(0)
            .and_then(|_| file.seek(SeekFrom::Start(0)))
            .and_then(|_| file.write_all(note.as_bytes()))
            .map_err(|error| Error::io("write the run lock", &path, error))?;
        Ok(RunLock { _file: file })
    }
}

fn holder_of(file: &mut File) -> String {
    let mut note = String::new();
    let read = file.seek(SeekFrom::Start(0)).and_then(|_| file.take(4096).read_to_string(&mut note));
    match read {
        Ok(_) if !note.trim().is_empty() => note.trim().to_string(),
        _ => "an unknown process".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    #[rule("S-42")]
    fn s42_a_second_run_is_refused_or_waits_and_learns_for_whom() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        runtime().block_on(async {
            let never = CancellationToken::new();
            let first = RunLock::take(&dir, "zester apply web", false, &never, |_| panic!("nobody holds it"))
                .await
                .unwrap();
            let refused = RunLock::take(&dir, "second", true, &never, |_| {}).await;
            assert!(matches!(refused, Err(Error::Locked { holder }) if holder.contains("zester apply web")));
            let told = std::cell::RefCell::new(String::new());
            let mut first = Some(first);
            let second = RunLock::take(&dir, "second", false, &never, |holder| {
                *told.borrow_mut() = holder.to_string();
            });
            tokio::pin!(second);
            // The waiter has been polled once it has told us; then the holder goes.
            let taken = std::future::poll_fn(|cx| {
                let polled = second.as_mut().poll(cx);
                if !told.borrow().is_empty() {
                    first.take();
                }
                polled
            })
            .await;
            assert!(taken.is_ok());
            assert!(told.borrow().contains("zester apply web"));
        });
    }

    #[test]
    #[rule("S-42")]
    fn s42_waiting_ends_at_once_when_cancelled() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        runtime().block_on(async {
            let cancel = CancellationToken::new();
            let _first = RunLock::take(&dir, "first", false, &cancel, |_| {}).await.unwrap();
            cancel.cancel();
            let second = RunLock::take(&dir, "second", false, &cancel, |_| {}).await;
            assert!(matches!(second, Err(Error::Canceled)));
        });
    }
}
