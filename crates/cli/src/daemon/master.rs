//! `zester master run`

use super::{DaemonContext, Flags};
use crate::answer::{self, Failure};
use crate::app::App;
use crate::config::{self, default_data_dir};
use crate::connection::Connect;
use crate::daemon;
use crate::daemon::master::external::External;
use crate::daemon::master::git::GitLayers;
use crate::daemon::master::lint::FleetLint;
use crate::daemon::master::settings::Rendered;
use crate::output::diagnostics;
use crate::output::paint::Paint;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zester_bus::{Bus, Event, Events, nats};
use zester_converge::data_dir::DataDir;
use zester_converge::inputs::default_id;
use zester_converge::reactions::Reactions;
use zester_master::{Publishing, Revokes, SettingsOf, Setup, Source};
use zester_model::merge::Merge;
use zester_peel::published::DiskCache;
use zester_wire::{MasterId, Published};

pub mod door;
mod external;
mod git;
mod lint;
mod revoker;
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
    /// How settings of several files become one: smart, recurse, aggregate, overwrite [default: smart]
    #[arg(long, value_name = "HOW")]
    pub settings_merge: Option<Merge>,
    /// A program, called with the id of a peel, or a directory with a file a peel: settings to lay over those of --settings
    #[arg(long, value_name = "FILE|DIR")]
    pub settings_ext: Option<PathBuf>,
    /// States to publish to the peels
    #[arg(long, value_name = "DIR", env = "ZESTER_STATES", hide_env_values = true)]
    pub states: Option<PathBuf>,
    /// Rules of the reactor, to publish to all masters
    #[arg(long, value_name = "DIR", env = "ZESTER_REACTOR", hide_env_values = true)]
    pub reactor: Option<PathBuf>,
    /// Let peels enroll here, by HTTPS; a port alone is one of this machine
    #[arg(long, value_name = "ADDR", help_heading = "Enrollment")]
    pub listen: Option<String>,
    /// What the door needs: the directory `door` that `zester auth init` wrote, with the key that issues peels
    #[arg(long, value_name = "DIR", help_heading = "Enrollment")]
    pub door: Option<PathBuf>,
    /// Address of the bus to give to peels, where it is not the one of --nats
    #[arg(long, value_name = "URL", help_heading = "Enrollment")]
    pub advertise: Option<String>,
    /// How long credentials of enrolled peels count; they renew them by themselves [default: 30d]
    #[arg(long, value_name = "TIME", value_parser = zester_model::duration::parse, help_heading = "Enrollment")]
    pub peel_life: Option<Duration>,
    /// Let this master have the server end connections of revoked peels: the directory `revoker` that `zester auth init` wrote
    #[arg(long, value_name = "DIR", help_heading = "Enrollment")]
    pub revoker: Option<PathBuf>,
    #[command(flatten)]
    pub connect: Connect,
    #[command(flatten)]
    pub flags: Flags,
}

pub fn run(args: MasterRun, app: &App) -> answer::Result {
    let name = args.id.clone().or(app.config.id.clone()).unwrap_or_else(default_id);
    let data_dir = data_dir(&args, app)?;
    let fetched = app
        .config
        .settings_git
        .as_ref()
        .map(|_| GitLayers::current(&git_place(&data_dir, Published::Settings)));
    let external = external(&args, app, &data_dir)?.map(Arc::new);
    let merge = args.settings_merge.or(app.config.settings_merge).unwrap_or_default();
    let counts = counting_settings(&data_dir);
    let own = fetched.or(args.settings.clone()).or(app.config.settings.clone());
    let rendered = Arc::new(Rendered::new(counts, own, merge, external.clone(), app.local_host.clone()));
    let settings: Arc<dyn SettingsOf> = rendered.clone();
    let publishing = publishing(&args, app, &data_dir, external, merge)?;
    let reacting = app.config.reactor.over_defaults(Arc::new(rule_compiler()));
    app.block_on(daemon::run_daemon(app, &args.flags, |context: DaemonContext| async {
        let shown = args.connect.servers_of_daemon(app).shown();
        tracing::info!(master = %name, bus = %shown, "starting");
        let options = args.connect.daemon(app, format!("zester master {name}"), "_INBOX".into())?;
        door::forget_address(&data_dir);
        let wanted = door::Wanted {
            listen: args.listen.as_deref().or(app.config.listen.as_deref()),
            door: args.door.as_deref().or(app.config.door.as_deref()),
            advertise: args.advertise.as_deref(),
            life: args.peel_life,
        };
        let door = door::bind(&wanted, &args.connect, app, &data_dir).await?;
        let revoker = args.revoker.as_deref().or(app.config.revoker.as_deref());
        let revoker = revoker.map(|dir| revoker::Revoker::open(dir, &args.connect, app)).transpose()?;
        let revoker = revoker.map(|revoker| Arc::new(revoker) as Arc<dyn Revokes>);
        let bus = nats::connect(options).await.map_err(|error| Failure::usage(error.to_string()))?;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        let link = args.connect.link(app, bus.clone())?;
        super::trust::begin(&link, &data_dir)?;
        let boot = link.new_token().map_err(|error| Failure::usage(error.to_string()))?;
        let id = MasterId::new(&name, boot.as_str())
            .map_err(|bad| Failure::usage(format!("`{name}` is {bad}; name the master with --id")))?;
        let setup = Setup {
            id,
            timing: app.config.timing.over_defaults(),
            replicas: app.config.nats.replicas,
            version: env!("CARGO_PKG_VERSION").to_string(),
            settings,
            publishing,
            reacting,
            door,
            revoker,
        };
        let ended = tokio::select! {
            biased;
            ended = zester_master::run(link.clone(), setup, context.health.clone(), context.stop) => ended,
            () = tell_refusals(bus.events()) => Ok(()),
            () = rendered.follow(link.clone(), context.health) => Ok(()),
            () = super::trust::follow(link, data_dir.clone()) => Ok(()),
        };
        let _closed = bus.close().await;
        ended.map_err(|error| Failure::usage(error.to_string()))
    }))
}

/// What rules are read with; its problems are shown as those of states.
pub fn rule_compiler() -> Reactions {
    Reactions::new(|found, sources| diagnostics::text(found, sources, Paint::new(false)))
}

/// Where the settings are kept that the peels have. A master that cannot keep them looks at its own.
fn counting_settings(data_dir: &Path) -> Option<Arc<DiskCache>> {
    let place = data_dir.join("published").join(Published::Settings.as_str());
    let opened = DataDir::open(data_dir).map_err(|error| error.to_string());
    let opened = opened.and_then(|_| DiskCache::open(&place).map_err(|error| error.to_string()));
    let told = |why: &String| tracing::warn!("targets with `I@` mean the settings of this master: {why}");
    opened.inspect_err(told).ok().map(Arc::new)
}

/// Settings from outside lie over those of a directory, so there must be one.
fn external(args: &MasterRun, app: &App, data_dir: &Path) -> Result<Option<External>, Failure> {
    let Some(from) = args.settings_ext.clone().or(app.config.settings_ext.clone()) else { return Ok(None) };
    let settings = args.settings.clone().or(app.config.settings.clone());
    if settings.is_none_or(|path| path.is_file()) && app.config.settings_git.is_none() {
        return Err(Failure::usage(
            "settings_ext lies over the settings of a directory; name it with --settings",
        ));
    }
    DataDir::open(data_dir)?;
    let external = External::open(from, data_dir, app.local_host.clone());
    external.map(Some).map_err(|why| Failure::usage(format!("settings_ext: {why}")))
}

fn data_dir(args: &MasterRun, app: &App) -> Result<PathBuf, Failure> {
    let named = args.data_dir.clone().or_else(|| app.config.data_dir.clone());
    Ok(named.map_or_else(|| default_data_dir(app.local_host.files.me().uid == 0), Ok)?)
}

/// Where repositories are fetched to.
fn git_place(data_dir: &Path, published: Published) -> PathBuf {
    data_dir.join("git").join(published.as_str())
}

/// What this master publishes, and with what. Settings in one file are for this machine alone.
fn publishing(
    args: &MasterRun,
    app: &App,
    data_dir: &Path,
    external: Option<Arc<External>>,
    merge: Merge,
) -> Result<Publishing, Failure> {
    let states = args.states.clone().or(app.config.states.clone());
    let settings = args.settings.clone().or(app.config.settings.clone()).filter(|path| !path.is_file());
    let trees = [
        // Settings first: states are written for those that come with them.
        (Published::Settings, &app.config.settings_git, settings),
        (Published::States, &app.config.states_git, states),
        (Published::Reactor, &None, args.reactor.clone().or(app.config.reactor.dir.clone())),
    ];
    let mut sources = Vec::new();
    for (published, layers, directory) in trees {
        let over = external.as_ref().filter(|_| published == Published::Settings);
        let over = over.map(|external| external.kept().to_path_buf());
        match (layers, directory) {
            (Some(config::GitLayers(layers)), directory) if !layers.is_empty() => {
                let place = git_place(data_dir, published);
                let every = app.config.git_poll.map_or(git::POLL, |every| every.0);
                let origin = GitLayers::new(layers, directory, place, every, app.local_host.clone());
                sources.push(Source { published, origin: Arc::new(origin.map_err(Failure::usage)?), over });
            }
            (_, Some(directory)) => {
                sources.push(Source { over, ..Source::directory(published, directory) });
            }
            (_, None) => {}
        }
    }
    let linter = Arc::new(FleetLint { local_host: app.local_host.clone(), merge, external });
    Ok(Publishing { sources, linter, staging: data_dir.join("uploads") })
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
