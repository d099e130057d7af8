//! Ctrl-C, SIGTERM and a closed terminal, heard from the first instruction to the last (S-46): once to cancel cleanly,
//! twice to leave at once (C-6). Ctrl-\ (SIGQUIT) leaves at once, and takes the commands along as a second Ctrl-C does.
//!
//! One thread hears them, on a runtime of its own, so that it answers whatever the rest of the process waits for. What a
//! signal means depends on what is under way: while somebody *attends* to the token, the first one cancels it; a command
//! that *listens* is handed each and decides itself; with nothing under way that would have to end, we leave.

use crate::exit::Exit;
use std::io;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;

/// Signals that wait for a listener; nobody needs more than two.
const WAITING_MAX: usize = 8;

type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// What a signal asks for, and whether asking again means to leave at once. A terminal that closes tells us more than
/// once without meaning it.
#[derive(Copy, Clone)]
struct SignalAction {
    exit: Exit,
    insists: bool,
    /// It asks to leave at once, and for nothing else.
    at_once: bool,
}

/// The signals of this process.
#[derive(Clone)]
pub struct Signals {
    shared: Arc<Shared>,
}

struct Shared {
    cancel: CancellationToken,
    /// The exit code that the first signal asks for; 0 before it.
    code: AtomicU8,
    /// Signals that insist, so far.
    insisted: AtomicUsize,
    attending: AtomicUsize,
    listener: Mutex<Option<Sender<Exit>>>,
    notice: Mutex<Option<Notice>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signals {
    /// Hears signals from now on.
    pub fn hear() -> io::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let signals = Signals {
            shared: Arc::new(Shared {
                cancel: CancellationToken::new(),
                code: AtomicU8::new(0),
                insisted: AtomicUsize::new(0),
                attending: AtomicUsize::new(0),
                listener: Mutex::default(),
                notice: Mutex::default(),
            }),
        };
        let mut streams = {
            let _inside = runtime.enter();
            Streams::open()?
        };
        let theirs = signals.clone();
        std::thread::Builder::new().name("signals".into()).spawn(move || {
            runtime.block_on(async {
                loop {
                    theirs.action(streams.next().await);
                }
            });
        })?;
        Ok(signals)
    }

    /// Fires at the first signal that comes while somebody attends.
    pub fn token(&self) -> &CancellationToken {
        &self.shared.cancel
    }

    /// The exit code that a signal asks for, if one came.
    pub fn exit(&self) -> Option<Exit> {
        match self.shared.code.load(Ordering::SeqCst) {
            130 => Some(Exit::Interrupted),
            143 => Some(Exit::Terminated),
            _ => None,
        }
    }

    /// For as long as it is held, somebody ends in order when the token fires.
    pub fn stop_orderly(&self) -> OrderlyStop {
        self.shared.attending.fetch_add(1, Ordering::SeqCst);
        OrderlyStop(self.clone())
    }

    /// From now on, until it is dropped, whoever holds it is handed each signal and decides what it means.
    pub fn listen(&self) -> Listener {
        let (sender, waiting) = channel(WAITING_MAX);
        *lock(&self.shared.listener) = Some(sender);
        Listener { signals: self.clone(), waiting }
    }

    /// How a cancel is told: by a live view while there is one, else to stderr.
    pub fn tell_by(&self, notice: Option<Notice>) {
        *lock(&self.shared.notice) = notice;
    }

    fn action(&self, action: SignalAction) {
        let SignalAction { exit, insists, at_once } = action;
        let shared = &self.shared;
        if at_once {
            // A run that sees its commands end may be faster, and is to end as canceled.
            shared.code.store(exit.code(), Ordering::SeqCst);
            shared.cancel.cancel();
            Runner::new().kill_at_once();
            leave(exit);
        }
        let first = shared.code.swap(exit.code(), Ordering::SeqCst) == 0;
        if !first && !insists {
            return;
        }
        if let Some(listener) = &*lock(&shared.listener) {
            // Whoever does not take them has enough of them.
            let _full = listener.try_send(exit);
            return;
        }
        let insisted = shared.insisted.fetch_add(usize::from(insists), Ordering::SeqCst) > 0;
        if insists && insisted || shared.attending.load(Ordering::SeqCst) == 0 {
            Runner::new().kill_at_once();
            leave(exit);
        }
        if !shared.cancel.is_cancelled() {
            // First of all: telling goes to a terminal that may be gone.
            shared.cancel.cancel();
            let notice = lock(&shared.notice).clone();
            let words = "canceling: running commands are told to stop; once more to leave at once";
            match notice {
                Some(notice) => notice(words),
                None => crate::output::to_stderr(&format!("zester: {words}\n")),
            }
        }
    }
}

/// Held by whoever ends in order when the token fires.
pub struct OrderlyStop(Signals);

impl Drop for OrderlyStop {
    fn drop(&mut self) {
        self.0.shared.attending.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Is handed each signal.
pub struct Listener {
    signals: Signals,
    waiting: Receiver<Exit>,
}

impl Listener {
    /// The next signal, as the exit code it asks for.
    pub async fn next(&mut self) -> Exit {
        match self.waiting.recv().await {
            Some(exit) => exit,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        *lock(&self.signals.shared.listener) = None;
    }
}

/// The signals as they come.
struct Streams {
    interrupt: Signal,
    terminate: Signal,
    /// `None` for a process that was started to ignore it (behind `&` in a script).
    quit: Option<Signal>,
    /// `None` for a process that was started to outlive its terminal (`nohup`).
    hangup: Option<Signal>,
}

impl Streams {
    fn open() -> io::Result<Streams> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let unless_ignored = |kind| if is_ignored(kind, &status) { Ok(None) } else { signal(kind).map(Some) };
        Ok(Streams {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            quit: unless_ignored(SignalKind::quit())?,
            hangup: unless_ignored(SignalKind::hangup())?,
        })
    }

    async fn next(&mut self) -> SignalAction {
        let (quit, hangup) = (heard(&mut self.quit), heard(&mut self.hangup));
        tokio::select! {
            biased;
            Some(()) = quit => SignalAction { exit: Exit::Interrupted, insists: true, at_once: true },
            Some(()) = self.terminate.recv() => SignalAction { exit: Exit::Terminated, insists: true, at_once: false },
            Some(()) = self.interrupt.recv() => SignalAction { exit: Exit::Interrupted, insists: true, at_once: false },
            Some(()) = hangup => SignalAction { exit: Exit::Terminated, insists: false, at_once: false },
            else => std::future::pending().await,
        }
    }
}

/// The next of a signal, unless it is ignored.
async fn heard(signal: &mut Option<Signal>) -> Option<()> {
    match signal {
        Some(signal) => signal.recv().await,
        None => std::future::pending().await,
    }
}

/// Whether a process was started with this signal ignored, as its status in `/proc` says.
fn is_ignored(kind: SignalKind, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask >> (kind.as_raw_value() - 1) & 1 == 1
}

#[allow(clippy::exit)] // the user asked twice, or nothing is under way
pub fn leave(exit: Exit) -> ! {
    std::process::exit(i32::from(exit.code()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("C-14")]
    fn c14_a_hangup_that_was_ignored_at_the_start_stays_ignored() {
        let status = |mask: &str| format!("Name:\tzester\nSigBlk:\t0000000000000000\nSigIgn:\t{mask}\n");
        assert!(is_ignored(SignalKind::hangup(), &status("0000000000000001")));
        assert!(!is_ignored(SignalKind::hangup(), &status("0000000000001002")));
        assert!(is_ignored(SignalKind::interrupt(), &status("0000000000001002")));
        assert!(!is_ignored(SignalKind::hangup(), "nothing"));
    }
}
