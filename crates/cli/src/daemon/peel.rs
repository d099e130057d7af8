//! `zester peel run`

mod enroll;
mod kept;

use super::{DaemonContext, Flags};
use crate::answer::{self, Failure};
use crate::app::App;
use crate::arguments::Inputs;
use crate::config;
use crate::connection::Connect;
use crate::daemon;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinSet;
use zester_beacons::Eyes;
use zester_bus::limits::PING_INTERVAL_OF_PEELS;
use zester_bus::{Bus, nats};
use zester_converge::data_dir::DataDir;
use zester_converge::inputs::default_id;
use zester_model::limits;
use zester_model::merge::Merge;
use zester_peel::events::EventOutlet;
use zester_peel::policy::PolicyFile;
use zester_peel::published::{DiskCache, Freshness};
use zester_peel::store::FileStore;
use zester_peel::work::{Local, Options, StartupStates};
use zester_peel::{OwnWork, Setup, beacons};
use zester_wire::{PeelId, Published};

/// Take jobs from the masters and run them on this machine
///
/// SIGTERM stops in order: what runs is ended and returned, and what no master has yet waits on disk for the next start.
#[derive(clap::Args, Debug)]
pub struct PeelRun {
    /// Name of this peel [default: the hostname, dots as -]
    #[arg(long, value_name = "ID", env = "ZESTER_ID", hide_env_values = true)]
    pub id: Option<String>,
    /// Where the peel keeps what it must remember [default: /var/lib/zester, or the user's state directory]
    #[arg(long, value_name = "DIR", env = "ZESTER_DATA_DIR", hide_env_values = true)]
    pub data_dir: Option<PathBuf>,
    /// Directory of the state files where none are published [default: ./states, else /srv/zester/states]
    #[arg(long, value_name = "DIR", env = "ZESTER_STATES", hide_env_values = true)]
    pub states: Option<PathBuf>,
    /// Settings for templates: a file, or a directory of files
    #[arg(long, value_name = "FILE|DIR", env = "ZESTER_SETTINGS", hide_env_values = true)]
    pub settings: Option<PathBuf>,
    /// How settings of several files become one: smart, recurse, aggregate, overwrite [default: smart]
    #[arg(long, value_name = "HOW")]
    pub settings_merge: Option<Merge>,
    /// Facts to lay over the collected ones
    #[arg(long, value_name = "FILE", env = "ZESTER_FACTS", hide_env_values = true)]
    pub facts: Option<PathBuf>,
    /// Where published states are kept [default: states below the data directory]
    #[arg(long, value_name = "DIR", env = "ZESTER_STATES_CACHE", hide_env_values = true)]
    pub states_cache: Option<PathBuf>,
    /// Environment of this machine where a call names none: which level of the top file counts [default: base]
    #[arg(long, value_name = "ENV", env = "ZESTER_ENV", hide_env_values = true)]
    pub env: Option<String>,
    /// Apply at the start, once, as soon as there are states: highstate (or top), or sls with --sls-list
    #[arg(long, value_name = "WHAT")]
    pub startup_states: Option<String>,
    /// What `--startup-states sls` applies: references with commas between
    #[arg(long, value_name = "REF,…", value_delimiter = ',')]
    pub sls_list: Option<Vec<String>>,
    /// What the peel does by itself and when [default: /etc/zester/schedule.yaml, or ~/.config/zester/schedule.yaml]
    #[arg(long, value_name = "FILE", env = "ZESTER_SCHEDULE", hide_env_values = true)]
    pub schedule: Option<PathBuf>,
    /// What the peel does for others, and for whom [default: /etc/zester/policy.yaml, or ~/.config/zester/policy.yaml]
    #[arg(long, value_name = "FILE", env = "ZESTER_POLICY", hide_env_values = true)]
    pub policy: Option<PathBuf>,
    /// Enroll at this master, and be let in by a token or an operator: https://HOST:PORT
    #[arg(
        long,
        value_name = "URL",
        env = "ZESTER_MASTER",
        hide_env_values = true,
        help_heading = "Enrollment"
    )]
    pub master: Option<String>,
    /// The CA of the fleet, as `zester auth init` printed it: sha256:…
    #[arg(long, value_name = "PIN", env = "ZESTER_PIN", hide_env_values = true, help_heading = "Enrollment")]
    pub pin: Option<String>,
    /// The word of a join token, which `zester enroll token` printed
    #[arg(
        long,
        value_name = "WORD",
        env = "ZESTER_JOIN_TOKEN",
        hide_env_values = true,
        help_heading = "Enrollment"
    )]
    pub token: Option<String>,
    /// A file that peels of one machine share: their states write in turns
    #[arg(long, value_name = "FILE", hide = true)]
    pub turns: Option<PathBuf>,
    #[command(flatten)]
    pub connect: Connect,
    #[command(flatten)]
    pub flags: Flags,
}

/// Makes the key that is to take the place of the one that a peel has.
pub fn next_key(data_dir: &std::path::Path) -> Result<zester_identity::PublicKey, Failure> {
    Ok(kept::Kept::make_next_key(data_dir)?.public().clone())
}

pub fn run(args: PeelRun, app: &App) -> answer::Result {
    let name = args.id.clone().or(app.config.id.clone()).unwrap_or_else(default_id);
    let id = PeelId::parse(&name)
        .map_err(|bad| Failure::usage(format!("`{name}` is {bad}; name the peel with --id")))?;
    let data_dir = app.data_dir(&Inputs { data_dir: args.data_dir.clone(), ..Inputs::default() })?;
    DataDir::open(&data_dir)?;
    let startup = args.startup_states.as_ref().or(app.config.startup_states.as_ref());
    let sls_list = args.sls_list.as_ref().or(app.config.sls_list.as_ref());
    let startup = StartupStates::read(startup.map(String::as_str), sls_list.map_or(&[], Vec::as_slice))
        .map_err(Failure::usage)?;
    let named = (
        args.master.as_deref().or(app.config.master.as_deref()),
        args.pin.as_deref().or(app.config.pin.as_deref()),
    );
    let wanted = enroll::Wanted::read(&id, named, args.token.as_deref(), data_dir.clone())?;
    // Whoever enrolls gets its credentials there, whatever others lie around on this machine.
    let given = if wanted.is_some() { None } else { args.connect.identity(app)? };
    if let Some(identity) = given.filter(|identity| identity.name != id.as_str()) {
        return Err(Failure::usage(format!(
            "the credentials are of `{}`, and this peel is `{id}`; name it with --id, or take its own",
            identity.name
        )));
    }
    app.block_on(daemon::run_daemon(app, &args.flags, |context: DaemonContext| async {
        let enrolled = match wanted {
            None => None,
            Some(wanted) => match enroll::get_in(wanted, &context.health, &context.stop).await? {
                Some(enrolled) => Some(enrolled),
                None => return Ok(()),
            },
        };
        let connect =
            enrolled.as_ref().map_or_else(|| args.connect.clone(), |one| one.connect(&args.connect));
        let shown = connect.servers_of_daemon(app).shown();
        tracing::info!(peel = %id, bus = %shown, data = %data_dir.display(), "starting");
        let store = FileStore::open(&data_dir).map_err(|error| Failure::usage(error.to_string()))?;
        let cache = |path: PathBuf| {
            let cache = DiskCache::open(&path).map_err(|error| Failure::usage(error.to_string()))?;
            Ok::<_, Failure>(Arc::new(cache))
        };
        let states_cache = cache(args.states_cache.clone().unwrap_or_else(|| data_dir.join("states")))?;
        let settings_cache = cache(data_dir.join("settings"))?;
        // An inbox of its own, or peels could read each other's answers (I-9).
        let inbox = format!("_INBOX_{id}");
        let mut options = connect.daemon(app, format!("zester peel {id}"), inbox)?;
        if let Some(enrolled) = &enrolled {
            options.credentials = nats::Credentials::Passport(enrolled.passport());
        }
        let timing = app.config.timing.over_defaults();
        options.reconnect_spread = timing.reconnect_spread;
        options.probe_every = PING_INTERVAL_OF_PEELS;
        let bus = nats::connect(options).await.map_err(|error| Failure::usage(error.to_string()))?;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        let (states_freshness, settings_freshness) =
            (Freshness::new(bus.clone()), Freshness::new(bus.clone()));
        let link = connect.link(app, bus.clone())?;
        super::trust::begin(&link, &data_dir)?;
        let work = Local::open(Options {
            id: id.to_string(),
            states: args.states.clone().or(app.config.states.clone()),
            settings: args.settings.clone().or(app.config.settings.clone()),
            settings_merge: args.settings_merge.or(app.config.settings_merge).unwrap_or_default(),
            renderers: app.config.renderers(),
            states_cache: Some(states_cache.clone()),
            settings_cache: Some(settings_cache.clone()),
            states_freshness: Some(states_freshness.clone()),
            settings_freshness: Some(settings_freshness.clone()),
            facts: args.facts.clone().or(app.config.facts.clone()),
            data_dir: data_dir.clone(),
            concurrency: app.config.concurrency.map_or(limits::CONCURRENCY_DEFAULT, |count| count as usize),
            turns: args.turns.clone(),
            environment: args.env.clone().or(app.config.env.clone()),
            startup: startup.clone(),
            events: Some(EventOutlet { link: link.clone(), peel: id.clone() }),
        })
        .map_err(|error| Failure::usage(error.to_string()))?;
        let boot = link.new_token().map_err(|error| Failure::usage(error.to_string()))?;
        let setup = Setup { id: id.clone(), boot, timing, version: env!("CARGO_PKG_VERSION").to_string() };
        let named = args.schedule.clone().or(app.config.schedule.clone());
        let is_root = app.local_host.files.me().uid == 0;
        let schedule = zester_peel::schedule::Options {
            file_named: named.is_some(),
            file: named.or_else(|| config::default_schedule(is_root)),
            settings_cache: Some(settings_cache.clone()),
            dir: data_dir.join("schedule"),
            local_zone: zester_peel::schedule::local_zone(),
        };
        let eyes = Eyes {
            files: app.local_host.files.clone(),
            processes: app.local_host.processes.clone(),
            root: "/".into(),
        };
        let beacons = beacons::Options { eyes, settings_cache: Some(settings_cache.clone()) };
        let policy_named = args.policy.clone().or(app.config.policy.clone());
        let (is_named, zone) = (policy_named.is_some(), schedule.local_zone.clone());
        let policy = policy_named.or_else(|| config::default_policy(is_root));
        let policy = policy.map(|path| PolicyFile::new(path, is_named, zone));
        let own = OwnWork { schedule: Some(schedule), beacons: Some(beacons), policy };
        // They end with this one.
        let mut followers = JoinSet::new();
        for (published, cache, freshness) in [
            (Published::States, states_cache, states_freshness),
            (Published::Settings, settings_cache, settings_freshness),
        ] {
            followers.spawn(freshness.follow(
                link.clone(),
                published,
                published.as_str(),
                cache,
                context.health.clone(),
            ));
        }
        followers.spawn(super::trust::follow(link.clone(), data_dir.clone()));
        if let Some(enrolled) = enrolled {
            followers.spawn(enrolled.stay_in(link.clone(), bus.clone(), context.health.clone()));
        }
        followers.spawn(work.clone().follow_settings(context.health.clone()));
        let (store, work) = (Arc::new(store), Arc::new(work));
        let ended = zester_peel::run_with(link, store, work, setup, own, context.health, context.stop).await;
        let _closed = bus.close().await;
        ended.map_err(|error| Failure::usage(error.to_string()))
    }))
}
