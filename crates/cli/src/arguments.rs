//! The words of the command line.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;
use std::time::Duration;
use zester_converge::settings::Override;
use zester_model::merge::Merge;

/// What somebody new wants to type first.
const EXAMPLES: &str = "Examples:
  zester check web                 what states/web.zy would change
  zester apply web                 change it
  zester revert web                take it back
  zester graph web --format html   a picture of it
  zester doc file.managed          what a kind of state takes

On the fleet:
  zester up                                  a fleet on this machine, to try it
  zester '*' test.ping                       who is there
  zester 'web*' cmd.run 'uptime'             a command on some of them
  zester 'G@os:Debian' state.apply web       states on those with a fact
  zester job list                            what was asked of the fleet
  zester 'TARGET' MOD.FN --help              all about it";

/// Bring this machine, or a fleet, to its declared state
#[derive(Parser, Debug)]
#[command(
    name = "zester",
    version,
    propagate_version = true,
    max_term_width = 100,
    arg_required_else_help = true,
    override_usage = "zester [OPTIONS] <COMMAND>\n       zester [OPTIONS] 'TARGET' MOD.FN [ID] [k=v]...",
    after_help = EXAMPLES
)]
pub struct Zester {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Args, Debug, Clone)]
pub struct Global {
    /// How to print the answer
    #[arg(
        long,
        global = true,
        value_enum,
        env = "ZESTER_FORMAT",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub format: Option<Format>,
    /// Print without colour (as NO_COLOR does)
    #[arg(long, global = true, help_heading = "Everywhere")]
    pub no_color: bool,
    /// Read this configuration file instead of /etc/zester/*.yaml and the user's
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "ZESTER_CONFIG",
        hide_env_values = true,
        help_heading = "Everywhere"
    )]
    pub config: Option<PathBuf>,
    /// Override one key of the configuration
    #[arg(long, global = true, value_name = "KEY=VALUE", help_heading = "Everywhere")]
    pub set: Vec<String>,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    Text,
    Json,
    Yaml,
    /// A Graphviz file (`graph` only)
    Dot,
    /// A picture (`graph` only)
    Svg,
    /// A page with the picture (`graph` only)
    Html,
}

/// Where a run takes its inputs from and keeps its memory.
#[derive(Args, Debug, Clone, Default)]
pub struct Inputs {
    /// Directory of the state files [default: ./states, else /srv/zester/states]
    #[arg(long, value_name = "DIR", env = "ZESTER_STATES", hide_env_values = true, help_heading = "Inputs")]
    pub states: Option<PathBuf>,
    /// Settings for templates: a file, or a directory of files [default: ./settings beside ./states, else /srv/zester/settings]
    #[arg(
        long,
        value_name = "FILE|DIR",
        env = "ZESTER_SETTINGS",
        hide_env_values = true,
        help_heading = "Inputs"
    )]
    pub settings: Option<PathBuf>,
    /// One setting for this run, over all others: nginx:workers=4
    #[arg(long, value_name = "KEY=VALUE", value_parser = Override::parse, help_heading = "Inputs")]
    pub setting: Vec<Override>,
    /// How settings of several files become one: smart, recurse, aggregate, overwrite [default: smart]
    #[arg(long, value_name = "HOW", help_heading = "Inputs")]
    pub settings_merge: Option<Merge>,
    /// Facts to lay over the collected ones
    #[arg(long, value_name = "FILE", env = "ZESTER_FACTS", hide_env_values = true, help_heading = "Inputs")]
    pub facts: Option<PathBuf>,
    /// Name of this machine [default: the hostname, dots as -]
    #[arg(long, value_name = "ID", env = "ZESTER_ID", hide_env_values = true, help_heading = "Inputs")]
    pub id: Option<String>,
    /// Where runs, undo records and the lock are kept [default: /var/lib/zester, or the user's state directory]
    #[arg(
        long,
        value_name = "DIR",
        env = "ZESTER_DATA_DIR",
        hide_env_values = true,
        help_heading = "Inputs"
    )]
    pub data_dir: Option<PathBuf>,
    /// States of a file also wait for the one declared before them
    #[arg(long, help_heading = "Inputs")]
    pub ordered: bool,
    /// Environment: which level of the top file counts [default: base]
    #[arg(long, value_name = "ENV", env = "ZESTER_ENV", hide_env_values = true, help_heading = "Inputs")]
    pub env: Option<String>,
}

/// How a run is carried out.
#[derive(Args, Debug, Clone, Default)]
pub struct Running {
    /// Cancel when it has taken this long, compiling and the wait for another run included
    #[arg(long, value_name = "DURATION", value_parser = timeout)]
    pub timeout: Option<Duration>,
    /// How many states of a level run at once
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub concurrency: Option<u32>,
    /// Exit 1 at once when another run is under way, instead of waiting for it
    #[arg(long)]
    pub no_wait: bool,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    Apply(crate::commands::apply::Apply),
    Check(crate::commands::check::Check),
    Revert(crate::commands::revert::Revert),
    Graph(crate::commands::graph::Graph),
    Call(crate::commands::call::Call),
    Lint(crate::commands::lint::Lint),
    Migrate(crate::commands::migrate::Migrate),
    Status(crate::commands::status::Status),
    Doc(crate::commands::doc::Doc),
    Schema(crate::commands::schema::Schema),
    Job(crate::commands::job::Job),
    Event(crate::commands::event::Event),
    Reactor(crate::commands::reactor::Reactor),
    Schedule(crate::commands::schedule::Schedule),
    Peel(crate::commands::peel::Peel),
    Target(crate::commands::target::Target),
    Settings(crate::commands::settings::Settings),
    Master(crate::commands::master::Master),
    Publish(crate::commands::publish::Publish),
    Secret(crate::commands::secret::Secret),
    Auth(crate::commands::auth::Auth),
    Enroll(crate::commands::enroll::Enroll),
    Policy(crate::commands::policy::Policy),
    Audit(crate::commands::audit::Audit),
    Up(crate::commands::up::Up),
    Bench(crate::commands::bench::Bench),
    Completions(crate::commands::completions::Completions),
    Man(crate::commands::man::Man),
    Version(crate::commands::version::Version),
    #[command(hide = true, name = crate::target_first::COMMAND)]
    OnFleet(crate::commands::on_fleet::OnFleet),
    #[command(hide = true)]
    WithParent(crate::commands::with_parent::WithParent),
}

impl Command {
    /// How long it may take on this machine.
    pub fn timeout(&self) -> Option<Duration> {
        match self {
            Command::Apply(args) => args.running.timeout,
            Command::Check(args) => args.running.timeout,
            Command::Revert(args) => args.running.timeout,
            Command::Call(args) => args.running.timeout,
            _ => None,
        }
    }
}

/// No time at all is a mistake, not a bound (C-15).
pub fn timeout(text: &str) -> Result<Duration, String> {
    match zester_model::duration::parse(text)? {
        Duration::ZERO => Err("it must be longer than 0; without --timeout the default holds".into()),
        some => Ok(some),
    }
}

pub fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count @ 1..) => Ok(count),
        Ok(0) => Err("it must be at least 1".to_string()),
        _ => Err("it is not a number".to_string()),
    }
}

/// A word that may stand in the name of a file.
pub fn name(text: &str) -> Result<String, String> {
    zester_wire::Token::parse(text).map(|token| token.as_str().to_string()).map_err(|bad| bad.to_string())
}
