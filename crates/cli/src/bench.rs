//! How many peels one server and one master can serve, measured on this machine.

mod cpu;
mod fleet;
mod measure;
mod memory;
mod report;

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::commands::bench::{Peels, Swarm};
use crate::daemon::{self, DaemonContext, Flags};
use crate::exit::Exit;
use crate::output::to_stdout;
use crate::signals;
use fleet::Fleet;
use measure::Measured;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a process has open beside its connections.
const OTHER_FILES: u64 = 256;

/// Measures one count after the other.
pub fn peels(args: Peels, app: &mut App) -> answer::Result {
    let app = &*app;
    let mut counts = args.count.clone();
    counts.sort_unstable();
    counts.dedup();
    // The server has the most: one connection a peel.
    raise_file_limit(u64::from(counts.last().copied().unwrap_or_default()) + OTHER_FILES)?;
    app.block_on(async {
        let mut signals = app.signals.listen();
        let mut fleet = Fleet::prepare()?;
        let ended = tokio::select! {
            biased;
            exit = signals.next() => Err(exit),
            measured = measure_all(&mut fleet, app, &counts, args.processes) => Ok(measured),
        };
        tokio::select! {
            biased;
            exit = signals.next() => signals::leave(exit),
            () = fleet.take_down() => {}
        }
        let measured = match ended {
            Ok(measured) => measured?,
            Err(exit) => return Ok((Answer::Text(String::new()), exit)),
        };
        let exit = if measured.iter().all(|one| one.missing == 0) { Exit::Good } else { Exit::Failed };
        let json = report::document(&measured);
        Ok((
            Answer::Document { json, text: report::growth_text(&measured) + &report::idle_text(&measured) },
            exit,
        ))
    })
}

async fn measure_all(
    fleet: &mut Fleet,
    app: &App,
    counts: &[u32],
    processes: u16,
) -> Result<Vec<Measured>, Failure> {
    fleet.start().await?;
    let tell = |text: String| {
        if app.output.is_text() {
            to_stdout(&text);
        }
    };
    tell(report::heading());
    let mut all = Vec::new();
    for count in counts {
        let measured = measure::at(fleet, *count, processes).await?;
        tell(report::line(&measured));
        all.push(measured);
    }
    Ok(all)
}

/// Children inherit it, so once is enough for all.
fn raise_file_limit(needed: u64) -> Result<(), Failure> {
    let limit = getrlimit(Resource::Nofile);
    if let Some(most) = limit.maximum.filter(|most| *most < needed) {
        return Err(Failure::usage(format!(
            "so many peels need {needed} open files in the server, and the hard limit is {most}, which is enough for {}; raise it (ulimit -Hn {needed})",
            most.saturating_sub(OTHER_FILES)
        )));
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })
        .map_err(|error| Failure::usage(format!("cannot raise the limit of open files: {error}")))
}

/// Some of the peels, until told to stop.
pub fn swarm(args: &Swarm, app: &mut App) -> answer::Result {
    let app = &*app;
    let index = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let numbers = index(args.from)..index(args.from.saturating_add(args.count));
    let urls = args.connect.servers_of_daemon(app).urls;
    let timing = app.config.timing.over_defaults();
    // A line for each of thousands of peels would be the largest part of the work.
    let flags = Flags { health: None, log: Some("warn".into()) };
    app.block_on(daemon::run_daemon(app, &flags, |context: DaemonContext| async {
        let connected = || tracing::info!("all are connected");
        zester_swarm::run(urls, numbers, timing, connected, context.stop)
            .await
            .map_err(|error| Failure::usage(error.to_string()))
    }))
}
