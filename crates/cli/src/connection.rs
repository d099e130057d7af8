//! How a command reaches the bus: flag > environment > configuration > a running `zester up` > this machine's port 4222.

use crate::answer::Failure;
use crate::app::App;
use crate::auth::directory::key_beside;
use crate::auth::operators;
use crate::up_url;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::nats::{self, Credentials, Options, Reads};
use zester_bus::{Bus, Kind};
use zester_client::Client;
use zester_identity::{Credentials as Identity, credentials};
use zester_jobs::Timing;
use zester_link::Link;

/// Where a server is when nobody says.
const DEFAULT_URL: &str = "nats://127.0.0.1:4222";

/// What the client of the bus calls its inbox where nobody says.
const DEFAULT_INBOX: &str = "_INBOX";

/// What finishing takes beyond the timings: a cluster that elects a leader, a busy machine.
const FINISH_ROOM: Duration = Duration::from_secs(45);

/// The words that say where the bus is.
#[derive(clap::Args, Debug, Clone, Default)]
pub struct Connect {
    /// Servers of the bus, with commas between [default: nats://127.0.0.1:4222]
    #[arg(long, value_name = "URL", env = "ZESTER_NATS_URL", hide_env_values = true, help_heading = "Bus")]
    pub nats: Option<String>,
    /// Credentials file for the bus
    #[arg(long, value_name = "FILE", env = "ZESTER_CREDS", hide_env_values = true, help_heading = "Bus")]
    pub creds: Option<PathBuf>,
    /// Certificate of the CA that the servers are signed by; TLS is required then
    #[arg(long, value_name = "FILE", env = "ZESTER_CA", hide_env_values = true, help_heading = "Bus")]
    pub ca: Option<PathBuf>,
    /// Talk to another host without TLS, and unsigned with credentials of plain NATS: whoever is on the way reads and changes everything
    #[arg(long, help_heading = "Bus")]
    pub insecure: bool,
}

/// Where to connect, and who says so.
#[derive(Debug, PartialEq, Eq)]
pub struct Servers {
    pub urls: Vec<String>,
    /// Nobody named a server, and a `zester up` runs here.
    pub from_up: bool,
}

impl Servers {
    fn choose(flag: Option<&str>, config: Option<&str>, up: impl FnOnce() -> Option<String>) -> Servers {
        let named = flag.or(config).map(split).filter(|urls| !urls.is_empty());
        match named {
            Some(urls) => Servers { urls, from_up: false },
            None => match up() {
                Some(url) => Servers { urls: vec![url], from_up: true },
                None => Servers { urls: vec![DEFAULT_URL.into()], from_up: false },
            },
        }
    }

    /// The addresses without what is secret in them.
    pub fn shown(&self) -> String {
        self.urls.iter().map(|url| without_secrets(url)).collect::<Vec<_>>().join(", ")
    }
}

/// An address without its token or password.
pub fn without_secrets(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (None, Some((_, host))) => host.to_string(),
        _ => url.to_string(),
    }
}

/// Without TLS only this machine is talked to (I-3).
fn refuse_plaintext(urls: &[String]) -> Result<(), String> {
    for url in urls {
        let bare = without_secrets(url);
        let (scheme, address) = bare.split_once("://").unwrap_or(("nats", &bare));
        if scheme != "tls" && !is_this_machine(host_of(address)) {
            return Err(format!(
                "{bare} is another host, and nothing would be encrypted; use tls://, name the CA with --ca, or say --insecure"
            ));
        }
    }
    Ok(())
}

/// Whose credentials these are. Those of plain NATS name nobody whom to believe, so everybody would be: that has to be asked
/// for (I-8).
fn identity_in(text: &str, insecure: bool) -> Result<Option<Identity>, Failure> {
    let identity = Identity::parse(text).map_err(|bad| Failure::usage(bad.to_string()))?;
    match identity {
        None if !insecure => Err(Failure::usage(
            "the section ZESTER ANCHOR is missing from the credentials: nothing would be signed, and everybody be believed; get whole ones from `zester auth issue` for a peel or `zester auth init` for masters and admins, or say --insecure",
        )),
        identity => Ok(identity),
    }
}

fn host_of(address: &str) -> &str {
    match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => address.split([':', '/']).next().unwrap_or_default(),
    }
}

fn is_this_machine(host: &str) -> bool {
    let loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    host.eq_ignore_ascii_case("localhost") || loopback
}

fn split(urls: &str) -> Vec<String> {
    urls.split(',').map(str::trim).filter(|url| !url.is_empty()).map(String::from).collect()
}

impl Connect {
    /// For daemons, which never join a `zester up` by accident.
    pub fn servers_of_daemon(&self, app: &App) -> Servers {
        Servers::choose(self.nats.as_deref(), app.config.nats.url.as_deref(), || None)
    }

    /// The text of the credentials file, if one is named.
    fn credentials_text(&self, app: &App) -> Result<Option<String>, Failure> {
        let Some(path) = self.creds.as_ref().or(app.config.nats.creds.as_ref()) else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .map_err(|error| zester_converge::Error::io("read the credentials", path, error))?;
        if credentials::has_seed(&text) {
            return Ok(Some(text));
        }
        // Its holder made the key itself, and keeps it beside.
        let pair = key_beside(path)?;
        let seed = pair.seed().map_err(|bad| Failure::usage(bad.to_string()))?;
        Ok(Some(credentials::with_seed(&text, &seed)))
    }

    /// Who we are: none without credentials.
    pub fn identity(&self, app: &App) -> Result<Option<Identity>, Failure> {
        let Some(text) = self.credentials_text(app)? else { return Ok(None) };
        identity_in(&text, self.insecure)
    }

    /// How to connect to these servers.
    fn options_for(&self, app: &App, servers: &Servers, name: String) -> Result<Options, Failure> {
        let ca = self.ca_file(app);
        if ca.is_none() && !self.insecure {
            refuse_plaintext(&servers.urls).map_err(Failure::usage)?;
        }
        let credentials = self.credentials_text(app)?.map_or(Credentials::None, Credentials::Text);
        let mut options = Options { credentials, ..Options::new(servers.urls.clone(), name) };
        options.require_tls = ca.is_some();
        options.root_certificates = ca.into_iter().collect();
        // Whoever has a name answers to it, and hears nobody else's answers.
        if let Some(identity) = self.identity(app)? {
            options.inbox_prefix = zester_identity::grants::inbox_prefix(&identity.name);
            // Peels have no JetStream either, and read nothing but keys, by name.
            if operators::has_own_account(&identity) {
                options.reads = Reads::Single;
            }
        }
        Ok(options)
    }

    /// How a single command connects.
    pub fn options(&self, app: &App, name: &str) -> Result<Options, Failure> {
        let servers = Servers::choose(self.nats.as_deref(), app.config.nats.url.as_deref(), up_url::alive);
        self.options_for(app, &servers, name.to_string())
    }

    /// How a daemon makes a connection of its own for a moment.
    pub fn options_of_daemon(&self, app: &App, name: &str) -> Result<Options, Failure> {
        self.options_for(app, &self.servers_of_daemon(app), name.to_string())
    }

    /// The CA that the servers are signed by, where one is named.
    pub fn ca_file(&self, app: &App) -> Option<PathBuf> {
        self.ca.clone().or(app.config.nats.ca.clone())
    }

    /// How a daemon connects: it goes on trying, for its server may start after it.
    pub fn daemon(&self, app: &App, name: String, inbox_prefix: String) -> Result<Options, Failure> {
        let options = self.options_for(app, &self.servers_of_daemon(app), name)?;
        let inbox_prefix = match options.inbox_prefix.as_str() {
            DEFAULT_INBOX => inbox_prefix,
            own => own.to_string(),
        };
        Ok(Options { inbox_prefix, keep_trying: true, ..options })
    }

    /// A link over a connection of these options, which signs where there are credentials.
    pub fn link(&self, app: &App, bus: Arc<dyn Bus>) -> Result<Link, Failure> {
        match self.identity(app)? {
            None => Ok(Link::new(bus)),
            Some(identity) => Link::new(bus).signed(identity).map_err(|bad| Failure::usage(bad.to_string())),
        }
    }

    /// A client for one command; it fails at once where there is no server.
    pub async fn client(&self, app: &App) -> Result<Client, Failure> {
        let config = app.config.nats.url.as_deref();
        let servers = Servers::choose(self.nats.as_deref(), config, up_url::alive);
        if servers.from_up {
            app.output.notice("asking the fleet of the `zester up` that runs here");
        }
        let options = self.options_for(app, &servers, "zester".to_string())?;
        let identity = self.identity(app)?;
        let bus = nats::connect(options).await;
        let bus = bus.map_err(|error| explain(&error, &servers, identity.as_ref()))?;
        let bus: Arc<dyn Bus> = Arc::new(bus);
        let link = self.link(app, bus)?;
        if link.trust().is_some() {
            // Who counts may have changed since these credentials were made; a bus without a store says nothing.
            let _kept_as_it_was = link.refresh_trust().await;
        }
        Ok(Client::new(link).with_finish_grace(finish_grace(&app.config.timing.over_defaults())))
    }
}

/// What a client suggests where no master is connected.
const START_A_MASTER: &str = "start one with `zester master run`";

impl Connect {
    /// A failure with a hint that fits: a master of a `zester up` is told its address.
    pub fn explained(&self, app: &App, failure: Failure) -> Failure {
        let words = failure.error.to_string();
        let servers = || Servers::choose(self.nats.as_deref(), app.config.nats.url.as_deref(), up_url::alive);
        match (words.contains(START_A_MASTER) && servers().from_up, up_url::address_file()) {
            (true, Some(file)) => {
                let words = words.replace(START_A_MASTER, &start_for_up(&file.display().to_string()));
                Failure { error: zester_converge::Error::other(words), ..failure }
            }
            _ => failure,
        }
    }
}

/// The address holds a token, so it is named by where it stands.
fn start_for_up(file: &str) -> String {
    let file = crate::output::shell::quoted(file);
    format!("start `zester up` again, or a master for it: zester master run --nats \"$(cat {file})\"")
}

/// How long after its deadline a job may still be finished: a dead master's heartbeat ends, the scans miss it, another
/// one takes over.
fn finish_grace(timing: &Timing) -> Duration {
    let scans = timing.orphan_scan.saturating_mul(timing.orphan_misses.saturating_add(1));
    scans.saturating_add(timing.master_ttl).saturating_add(FINISH_ROOM)
}

fn explain(error: &zester_bus::Error, servers: &Servers, who: Option<&Identity>) -> Failure {
    let shown = servers.shown();
    let in_core = who.filter(|who| operators::is_in_core(who));
    Failure::usage(match (error.kind(), in_core) {
        (Kind::Refused, Some(who)) => operators::refused(&who.name, &shown),
        (Kind::Refused, None) => format!(
            "the bus at {shown} does not let us in; name credentials with --creds, or put the token in the address: nats://TOKEN@host:port"
        ),
        (Kind::Disconnected | Kind::Timeout, _) => format!(
            "there is no bus at {shown}; name one with --nats or ZESTER_NATS_URL, or start one with `zester up`"
        ),
        _ => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("C-8")]
    fn c8_a_flag_beats_the_configuration_and_a_running_up_only_the_default() {
        let up = || Some("nats://t@up:1".to_string());
        let chosen = Servers::choose(Some("a:1, b:2"), Some("c:3"), up);
        assert_eq!((chosen.urls, chosen.from_up), (vec!["a:1".to_string(), "b:2".to_string()], false));
        assert_eq!(Servers::choose(None, Some("c:3"), up).urls, ["c:3"]);
        assert!(Servers::choose(None, None, up).from_up);
        assert_eq!(Servers::choose(None, None, || None).urls, [DEFAULT_URL]);
    }

    #[test]
    #[rule("C-10")]
    fn c10_a_job_is_followed_as_long_as_a_failover_takes() {
        assert_eq!(finish_grace(&Timing::default()), zester_client::limits::FINISH_GRACE);
        let second = Duration::from_secs(1);
        let quick = Timing { orphan_scan: second, master_ttl: second, ..Timing::default() };
        assert_eq!(finish_grace(&quick), second * 4 + FINISH_ROOM);
        let slow = Timing { orphan_misses: u32::MAX, orphan_scan: Duration::MAX, ..Timing::default() };
        assert_eq!(finish_grace(&slow), Duration::MAX);
    }

    #[test]
    fn the_hint_for_a_master_is_one_that_can_be_replaced() {
        let (waited, last) = (Duration::from_secs(15), "none is connected".to_string());
        let error = zester_client::Error::NoMaster { waited, last };
        assert!(error.to_string().contains(START_A_MASTER), "{error}");
        assert!(start_for_up("/run/my dir/up.url").ends_with("--nats \"$(cat '/run/my dir/up.url')\""));
    }

    #[test]
    #[rule("I-3")]
    fn i3_another_host_is_not_talked_to_in_plaintext() {
        for good in [
            "nats://127.0.0.1:4222",
            "nats://t@localhost:1",
            "[::1]:4222",
            "tls://bus.example:4222",
            "127.0.0.1",
        ] {
            assert_eq!(refuse_plaintext(&[good.to_string()]), Ok(()), "{good}");
        }
        for bad in [
            "nats://bus.example:4222",
            "10.0.0.1:4222",
            "nats://localhost.evil:1",
            "ws://bus:1",
            "nats://me:pw@bus:1",
        ] {
            let words = refuse_plaintext(&["nats://127.0.0.1:1".to_string(), bad.to_string()]).unwrap_err();
            assert!(words.contains("--insecure") && !words.contains("pw"), "{words}");
        }
    }

    #[test]
    #[rule("I-8")]
    fn i8_credentials_without_an_anchor_are_refused_unless_insecure_allows_them() {
        let plain = "-----BEGIN NATS USER JWT-----\nx\n------END NATS USER JWT------\n";
        let words = identity_in(plain, false).unwrap_err().error.to_string();
        for said in ["ZESTER ANCHOR", "zester auth issue", "--insecure"] {
            assert!(words.contains(said), "{words}");
        }
        assert!(identity_in(plain, true).unwrap().is_none());
        // What was cut from the file of a member is never allowed.
        let cut = format!("{plain}-----BEGIN ZESTER ROSTER-----\nx\n------END ZESTER ROSTER------\n");
        assert!(identity_in(&cut, true).is_err());
    }

    #[test]
    fn what_is_secret_is_not_shown() {
        let servers = Servers { urls: split("nats://token@a:1,b:2,me:word@c:3"), from_up: false };
        assert_eq!(servers.shown(), "nats://a:1, b:2, c:3");
    }
}
