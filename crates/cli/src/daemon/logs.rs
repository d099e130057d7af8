//! Logs of a daemon: a line each, time first, to stderr.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;

/// Logs from now on. An unknown level is an error.
pub fn to_stderr(level: Option<&str>, colour: bool) -> Result<(), String> {
    let level = level.unwrap_or("info");
    let filter: LevelFilter =
        level.parse().map_err(|_| format!("--log {level}: one of error, warn, info, debug, trace"))?;
    // The client of the bus tells at every try what we tell once.
    let of_client = if filter <= LevelFilter::INFO { LevelFilter::OFF } else { filter };
    let targets = Targets::new().with_default(filter).with_target(zester_bus::nats::CLIENT_LOGS, of_client);
    let lines = tracing_subscriber::fmt()
        .compact()
        .with_writer(std::io::stderr)
        .with_max_level(filter)
        .with_target(false)
        .with_ansi(colour)
        // Told where, if stderr is gone? A daemon outlives its terminal.
        .log_internal_errors(false)
        .finish();
    tracing::subscriber::set_global_default(lines.with(targets))
        .map_err(|error| format!("cannot log: {error}"))?;
    // A run's panics are its states' errors; a daemon's belong into its log.
    std::panic::set_hook(Box::new(|panic| tracing::error!("a task panicked: {panic}")));
    Ok(())
}
