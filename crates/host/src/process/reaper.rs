//! Reaping the orphans that we adopted.
//!
//! As subreaper we inherit what commands leave in the background. When such a process dies it stays a
//! zombie until we wait for it. Its number is learned by a peek that takes nothing (`WNOWAIT`), because
//! direct children belong to tokio: one wait for "any child" would steal an exit code. While there are
//! children at all, the peek is repeated now and then; with none left the task ends, so an idle process wakes
//! up for nothing.

use super::runner::Shared;
use super::table;
use nix::errno::Errno;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid, waitpid};
use nix::unistd::Pid;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const INTERVAL: Duration = Duration::from_secs(1);

enum Peek {
    NoChildren,
    NothingDead,
    Dead(u32),
}

fn peek() -> Peek {
    match waitid(Id::All, WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT) {
        Err(Errno::ECHILD) => Peek::NoChildren,
        Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) => Peek::Dead(pid.as_raw() as u32),
        Ok(_) | Err(_) => Peek::NothingDead,
    }
}

/// Waits for one dead process, if it is an adopted one: not started by us, and not in our own group, where
/// children live that other code of this process started without us.
pub(super) fn reap(shared: &Shared, pid: u32) -> bool {
    let adopted =
        table::read(pid, u64::MAX).is_some_and(|dead| dead.zombie && dead.group != shared.own_group);
    if !adopted || !shared.commands.is_not_our_child(pid) {
        return false;
    }
    waitpid(Pid::from_raw(pid as i32), Some(WaitPidFlag::WNOHANG)).is_ok()
}

/// Reaps all that can be seen. Returns whether children remain.
fn reap_all(shared: &Shared) -> bool {
    loop {
        match peek() {
            Peek::NoChildren => return false,
            Peek::NothingDead => return true,
            Peek::Dead(pid) if reap(shared, pid) => {}
            // Tokio's own, about to be taken.
            Peek::Dead(_) => return true,
        }
    }
}

struct ClearOnDrop<'a>(&'a Shared);

impl Drop for ClearOnDrop<'_> {
    fn drop(&mut self) {
        self.0.reaping.store(false, Ordering::SeqCst);
    }
}

/// Called when a command has ended: one system call, unless something was left behind.
pub(super) fn after_command(shared: &Arc<Shared>) {
    if !reap_all(shared) || shared.reaping.swap(true, Ordering::SeqCst) {
        return;
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        // Also when the runtime ends under us: the next command starts a new reaper.
        let _clear = ClearOnDrop(&shared);
        loop {
            tokio::time::sleep(INTERVAL).await;
            if !reap_all(&shared) {
                return;
            }
        }
    });
}
