//! What a child does between fork and exec. The only unsafe code of the workspace beside `heap`.

#![allow(unsafe_code, reason = "`pre_exec` and the calls inside it have no safe form")]

use std::io::{Error, Result};
use tokio::process::Command;

/// Whom the child becomes.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) uid: u32,
    pub(super) gid: u32,
    pub(super) groups: Vec<u32>,
}

/// What std cannot set by itself. Each costs the fast `posix_spawn` path, so none is set without need.
#[derive(Clone, Debug, Default)]
pub(super) struct Setup {
    pub(super) identity: Option<Identity>,
    pub(super) umask: Option<u32>,
    /// The soft limit of open files the child is to have.
    pub(super) open_files: Option<(u64, u64)>,
}

impl Setup {
    pub(super) fn install(self, command: &mut Command) {
        if self.identity.is_none() && self.umask.is_none() && self.open_files.is_none() {
            return;
        }
        // SAFETY: the closure runs in the forked child, where only async-signal-safe calls are allowed. It
        // makes plain system calls on data that was allocated before the fork, and builds errors from errno
        // without allocating.
        unsafe {
            command.pre_exec(move || self.carry_out());
        }
    }

    fn carry_out(&self) -> Result<()> {
        if let Some((soft, hard)) = self.open_files {
            let limit = libc::rlimit { rlim_cur: soft, rlim_max: hard };
            // SAFETY: `limit` lives across the call.
            check(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) })?;
        }
        if let Some(identity) = &self.identity {
            leave_terminal()?;
            // Groups first: once the user is changed, we may not change them any more.
            // SAFETY: pointer and length are those of one vector.
            check(unsafe { libc::setgroups(identity.groups.len(), identity.groups.as_ptr()) })?;
            // SAFETY: takes and returns plain numbers.
            check(unsafe { libc::setgid(identity.gid) })?;
            // SAFETY: takes and returns plain numbers.
            check(unsafe { libc::setuid(identity.uid) })?;
        }
        if let Some(umask) = self.umask {
            // SAFETY: takes and returns plain numbers, cannot fail.
            unsafe { libc::umask(umask) };
        }
        Ok(())
    }
}

/// Gives up the terminal of whoever started us: through it, another user could type into their shell. The session stays, and
/// with it what tells a command from a service that it left behind; who does not lead it gets no terminal again.
fn leave_terminal() -> Result<()> {
    // SAFETY: the path ends with NUL and is static.
    let terminal =
        unsafe { libc::open(c"/dev/tty".as_ptr(), libc::O_RDWR | libc::O_NOCTTY | libc::O_CLOEXEC) };
    if terminal >= 0 {
        // SAFETY: the descriptor is open and ours.
        let left = check(unsafe { libc::ioctl(terminal, libc::TIOCNOTTY) });
        // SAFETY: the same, and nobody uses it afterwards.
        unsafe { libc::close(terminal) };
        return left;
    }
    match Error::last_os_error().raw_os_error() {
        // There is none.
        Some(libc::ENXIO) => Ok(()),
        // A root directory without devices cannot tell: then a session of its own, which has none either. Nobody who leads
        // a group can begin one.
        _ => {
            // SAFETY: takes and returns plain numbers.
            check(unsafe { libc::setpgid(0, libc::getpgid(libc::getppid())) })?;
            // SAFETY: the same.
            check(unsafe { libc::setsid() })
        }
    }
}

fn check(answer: libc::c_int) -> Result<()> {
    if answer >= 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
