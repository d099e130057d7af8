//! Ctrl-C and SIGTERM: once to cancel cleanly, twice to leave at once (C-6).

use crate::exit::Exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;

/// Which signal, if any, asked the run to stop.
#[derive(Clone, Default)]
pub struct Stopped {
    code: Arc<AtomicU8>,
}

impl Stopped {
    /// The exit code a signal asks for.
    pub fn exit(&self) -> Option<Exit> {
        match self.code.load(Ordering::SeqCst) {
            130 => Some(Exit::Interrupted),
            143 => Some(Exit::Terminated),
            _ => None,
        }
    }
}

/// Both signals, one after the other, for those who decide themselves what they mean.
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Belongs to the runtime it is made in.
    pub fn listen() -> std::io::Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// The next signal, as the exit code it asks for.
    pub async fn next(&mut self) -> Exit {
        tokio::select! {
            biased;
            Some(()) = self.terminate.recv() => Exit::Terminated,
            Some(()) = self.interrupt.recv() => Exit::Interrupted,
            else => std::future::pending().await,
        }
    }
}

/// Cancels the token at the first signal; the second one ends the process, and its commands with SIGKILL.
pub fn listen(cancel: CancellationToken, runner: Runner, notice: impl Fn(&str) + Send + 'static) -> Stopped {
    let stopped = Stopped::default();
    let code = stopped.code.clone();
    tokio::spawn(async move {
        let streams = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
        let (Ok(mut interrupt), Ok(mut terminate)) = streams else { return };
        loop {
            let exit = tokio::select! {
                _ = interrupt.recv() => Exit::Interrupted,
                _ = terminate.recv() => Exit::Terminated,
            };
            if code.swap(exit.code(), Ordering::SeqCst) != 0 {
                runner.kill_at_once();
                leave(exit);
            }
            notice("canceling: running commands are told to stop; once more to leave at once");
            cancel.cancel();
        }
    });
    stopped
}

#[allow(clippy::exit)] // the user asked twice
pub fn leave(exit: Exit) -> ! {
    std::process::exit(i32::from(exit.code()))
}
