//! `zester up`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::exit::Exit;
use crate::output::to_stdout;
use crate::signals;
use crate::up::Fleet;
use std::path::PathBuf;

/// Start everything on this machine to try it: nats-server, a master and peels
///
/// The peels are processes of this machine and change it like any other: use --test, or a container, to only look. Ctrl-C
/// takes everything down again.
#[derive(clap::Args, Debug)]
pub struct Up {
    /// How many peels
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    pub peels: u16,
    /// States that the peels apply [default: ./states, if it exists]
    #[arg(long, value_name = "DIR", env = "ZESTER_STATES", hide_env_values = true)]
    pub states: Option<PathBuf>,
    /// Settings of the fleet
    #[arg(long, value_name = "DIR", env = "ZESTER_SETTINGS", hide_env_values = true)]
    pub settings: Option<PathBuf>,
    /// Rules of the reactor [default: ./reactor where there is one]
    #[arg(long, value_name = "DIR", env = "ZESTER_REACTOR", hide_env_values = true)]
    pub reactor: Option<PathBuf>,
    /// Start it beside another one, under this name
    #[arg(long, value_name = "NAME", value_parser = crate::arguments::name)]
    pub name: Option<String>,
    /// With keys for everybody, as in production: accounts, grants and signed messages. TLS is left out on this one machine
    #[arg(long)]
    pub secure: bool,
    /// Keep everything here instead of in a directory that goes with the fleet
    #[arg(long, value_name = "DIR")]
    pub data_dir: Option<PathBuf>,
}

pub fn run(args: Up, app: &mut App) -> answer::Result {
    let app = &*app;
    app.block_on(async {
        let mut signals = app.signals.listen();
        let mut fleet = Fleet::prepare(&args, app)?;
        let exit = tokio::select! {
            biased;
            exit = signals.next() => Ok(exit),
            lived = live(&mut fleet, app) => lived.map(|()| Exit::Usage),
        };
        if matches!(exit, Ok(Exit::Interrupted | Exit::Terminated)) {
            app.output.notice("taking the fleet down; once more to leave at once");
        }
        tokio::select! {
            biased;
            exit = signals.next() => signals::leave(exit),
            () = fleet.take_down() => {}
        }
        match exit? {
            // Asked for, and done.
            Exit::Interrupted | Exit::Terminated => Ok((Answer::Text(String::new()), Exit::Good)),
            exit => Ok((Answer::Text(String::new()), exit)),
        }
    })
}

/// Starts the fleet, says how to use it, and watches it until the server dies.
async fn live(fleet: &mut Fleet, app: &App) -> Result<(), Failure> {
    fleet.start(app).await?;
    let text = match app.output.is_text() {
        true => fleet.text(),
        false => format!("{}\n", fleet.document()),
    };
    to_stdout(&text);
    fleet.watch(app).await
}
