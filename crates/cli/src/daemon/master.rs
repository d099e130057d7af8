//! `zester master run`

use super::{DaemonContext, Flags};
use crate::answer::{self, Failure};
use crate::app::App;
use crate::connection::Connect;
use crate::daemon;
use crate::daemon::master::settings::Rendered;
use std::path::PathBuf;
use std::sync::Arc;
use zester_bus::{Bus, Event, Events, nats};
use zester_converge::inputs::default_id;
use zester_link::Link;
use zester_master::{NoSettings, SettingsOf, Setup, Source};
use zester_wire::{MasterId, Published};

mod settings;

/// Dispatch jobs, watch them, and finish those of a master that died
///
/// Any number of masters may run at once; each takes what comes to it. SIGTERM detaches from running jobs, which another
/// master, or this one when it is back, takes over.
#[derive(clap::Args, Debug)]
pub struct MasterRun {
    /// Name of this master [default: the hostname, dots as -]
    #[arg(long, value_name = "ID")]
    pub id: Option<String>,
    /// Where the master keeps what it must remember [default: /var/lib/zester, or the user's state directory]
    #[arg(long, value_name = "DIR", env = "ZESTER_DATA_DIR", hide_env_values = true)]
    pub data_dir: Option<PathBuf>,
    /// Settings to publish to the peels, and for targets like I@role:db
    #[arg(long, value_name = "DIR", env = "ZESTER_SETTINGS", hide_env_values = true)]
    pub settings: Option<PathBuf>,
    /// States to publish to the peels
    #[arg(long, value_name = "DIR", env = "ZESTER_STATES", hide_env_values = true)]
    pub states: Option<PathBuf>,
    /// Rules of the reactor (not used yet)
    #[arg(long, value_name = "DIR", hide = true)]
    pub reactor: Option<PathBuf>,
    /// Where peels enroll (not used yet)
    #[arg(long, value_name = "ADDR", hide = true)]
    pub listen: Option<String>,
    #[command(flatten)]
    pub connect: Connect,
    #[command(flatten)]
    pub flags: Flags,
}

pub fn run(args: MasterRun, app: &App) -> answer::Result {
    let name = args.id.clone().or(app.config.id.clone()).unwrap_or_else(default_id);
    let settings: Arc<dyn SettingsOf> = match args.settings.clone().or(app.config.settings.clone()) {
        Some(path) => Arc::new(Rendered::new(path, app.local_host.clone())),
        None => Arc::new(NoSettings),
    };
    let sources = sources(&args, app);
    app.block_on(daemon::run_daemon(app, &args.flags, |context: DaemonContext| async {
        let shown = args.connect.servers_of_daemon(app).shown();
        tracing::info!(master = %name, bus = %shown, "starting");
        let options = args.connect.daemon(app, format!("zester master {name}"), "_INBOX".into())?;
        let bus = nats::connect(options).await.map_err(|error| Failure::usage(error.to_string()))?;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        let link = Link::new(bus.clone());
        let boot = link.new_token().map_err(|error| Failure::usage(error.to_string()))?;
        let id = MasterId::new(&name, boot.as_str())
            .map_err(|bad| Failure::usage(format!("`{name}` is {bad}; name the master with --id")))?;
        let setup = Setup {
            id,
            timing: app.config.timing.over_defaults(),
            replicas: app.config.nats.replicas,
            version: env!("CARGO_PKG_VERSION").to_string(),
            settings,
            sources,
        };
        let ended = tokio::select! {
            biased;
            ended = zester_master::run(link, setup, context.health, context.stop) => ended,
            () = tell_refusals(bus.events()) => Ok(()),
        };
        let _closed = bus.close().await;
        ended.map_err(|error| Failure::usage(error.to_string()))
    }))
}

/// What this master publishes. Settings in one file are for this machine alone.
fn sources(args: &MasterRun, app: &App) -> Vec<Source> {
    let states = args.states.clone().or(app.config.states.clone());
    let settings = args.settings.clone().or(app.config.settings.clone()).filter(|path| !path.is_file());
    let source = |published, path: Option<PathBuf>| path.map(|directory| Source { published, directory });
    let both = [source(Published::States, states), source(Published::Settings, settings)];
    both.into_iter().flatten().collect()
}

/// Says once what the server has against us: a wrong token, a subject that is not ours. Never ends.
async fn tell_refusals(mut events: Events) {
    let mut told = String::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Connected | Event::Reconnected => told.clear(),
            // That there is no server is told by who waits for it.
            Event::ServerSaid(words) if words != told && !words.ends_with("IO error") => {
                tracing::warn!("the bus says: {words}");
                told = words;
            }
            _ => {}
        }
    }
    std::future::pending().await
}
