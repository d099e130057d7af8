//! What both daemons share: logs, health, and how they stop.

pub mod logs;
pub mod master;
pub mod peel;
mod trust;

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::exit::Exit;
use crate::signals;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use zester_health::Health;
use zester_host::process::Runner;
use zester_model::limits::KILL_GRACE;

/// How long what a daemon had begun beside its jobs may take to end: a little more than commands are given.
const COMMANDS_WAIT: Duration = KILL_GRACE.saturating_add(Duration::from_secs(2));

/// A daemon that is this old has started.
const STARTED_AFTER: Duration = Duration::from_secs(2);
/// How often it gives back memory that it does not need: seldom enough that nobody notices.
const SMALL_EVERY: Duration = Duration::from_secs(600);

/// Words of both daemons.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct Flags {
    /// Serve /healthz, /readyz and /metrics here; a port alone is one of this machine
    #[arg(long, value_name = "ADDR", env = "ZESTER_HEALTH", hide_env_values = true, help_heading = "Daemon")]
    pub health: Option<String>,
    /// How much to log to stderr: error, warn, info, debug or trace [default: info]
    #[arg(long, value_name = "LEVEL", env = "ZESTER_LOG", hide_env_values = true, help_heading = "Daemon")]
    pub log: Option<String>,
}

/// What a daemon is given to live with.
pub struct DaemonContext {
    pub health: Arc<Health>,
    /// Fires when it should stop in order.
    pub stop: CancellationToken,
}

/// Runs a daemon: logs first, then health, then its own work until a signal. A second signal ends it at once.
pub async fn run_daemon<F>(app: &App, flags: &Flags, run: impl FnOnce(DaemonContext) -> F) -> answer::Result
where
    F: Future<Output = Result<(), Failure>>,
{
    logs::to_stderr(flags.log.as_deref().or(app.config.log.as_deref()), app.output.paint_stderr().is_on())
        .map_err(Failure::usage)?;
    let mut signals = app.signals.listen();
    let (health, stop) = (Arc::new(Health::new()), CancellationToken::new());
    let mut beside = JoinSet::new();
    if let Some(address) = flags.health.as_deref().or(app.config.health.as_deref()) {
        let address = listen_address("--health", address).map_err(Failure::usage)?;
        let serving = zester_health::serve(address, health.clone()).await;
        let serving =
            serving.map_err(|error| Failure::usage(format!("cannot serve health at {address}: {error}")))?;
        tracing::info!(address = %serving.address, "health is served");
        // Served to the very end, so that whoever watches sees the stop too.
        beside.spawn(serving.run(CancellationToken::new()));
    }
    beside.spawn(stay_small());
    let running = run(DaemonContext { health, stop: stop.clone() });
    tokio::pin!(running);
    loop {
        let exit = tokio::select! {
            biased;
            exit = signals.next() => exit,
            ended = &mut running => {
                // What facts or settings had begun ends with us.
                let _late = tokio::time::timeout(COMMANDS_WAIT, Runner::new().stop()).await;
                ended?;
                tracing::info!("stopped");
                return Ok((Answer::Text(String::new()), Exit::Good));
            }
        };
        if stop.is_cancelled() {
            signals::leave(exit);
        }
        tracing::info!("stopping; once more to end at once");
        stop.cancel();
    }
}

/// A daemon waits most of its life: what its start and its last work needed goes.
async fn stay_small() {
    tokio::time::sleep(STARTED_AFTER).await;
    loop {
        zester_host::heap::give_back();
        zester_host::program_text::let_go();
        tokio::time::sleep(SMALL_EVERY).await;
    }
}

/// `9100` and `:9100` are of this machine only; who means more says so.
pub fn listen_address(flag: &str, text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.replace("localhost:", "127.0.0.1:")
        .parse()
        .map_err(|_| format!("{flag} {text}: write a port like 9100, or an address like 127.0.0.1:9100"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("C-10")]
    fn c10_health_binds_to_loopback_unless_told_otherwise() {
        for text in ["9100", ":9100", "127.0.0.1:9100", "localhost:9100"] {
            assert_eq!(listen_address("--health", text).unwrap().to_string(), "127.0.0.1:9100", "{text}");
        }
        assert_eq!(listen_address("--health", "0.0.0.0:9100").unwrap().to_string(), "0.0.0.0:9100");
        assert!(listen_address("--health", "everywhere").is_err());
    }
}
