//! A whole fleet on this machine, as child processes that end with us: a private nats-server, a master, peels.

pub mod child;
pub mod secure;
pub mod server;

use crate::answer::Failure;
use crate::app::App;
use crate::auth::directory::Directory;
use crate::commands::up::Up;
use crate::up_url::{Claim, Refused};
use child::Child;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::nats::{self, Options};
use zester_client::Client;
use zester_link::Link;

/// How long the peels may take to come online. Generous: a busy machine is slow.
const ONLINE_WAIT: Duration = Duration::from_secs(60);
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// The peels of one machine write the same files: they take turns at this one.
const TURNS: &str = "turns";
/// Of its directory, its log and its credentials.
const MASTER: &str = "master";
/// A fleet on one machine need not come back one after the other. Whatever the user sets comes later and counts.
const SPREAD: &str = "timing.reconnect_spread=1s";

/// Where the fleet keeps its things.
enum FleetDir {
    /// Goes with the fleet.
    Own(tempfile::TempDir),
    Given(PathBuf),
}

impl FleetDir {
    fn path(&self) -> &Path {
        match self {
            FleetDir::Own(temp) => temp.path(),
            FleetDir::Given(path) => path,
        }
    }
}

pub struct Fleet {
    /// Declared before the place, so that whatever is left ends before its directory goes.
    peels: Vec<Child>,
    master: Option<Child>,
    server: Option<Child>,
    /// That this is the only one of its name; none where the user has no directory for it.
    claim: Option<Claim>,
    /// Other terminals find the address by themselves.
    is_found: bool,
    url: String,
    /// The keys of everybody; none: a token lets in, and nobody signs.
    is_secure: bool,
    keys: Option<Directory>,
    count: u16,
    states: Option<PathBuf>,
    settings: Option<PathBuf>,
    reactor: Option<PathBuf>,
    binary: PathBuf,
    nats_server: PathBuf,
    place: FleetDir,
}

impl Fleet {
    /// Finds everything that is needed; starts nothing.
    pub fn prepare(args: &Up, app: &App) -> Result<Fleet, Failure> {
        let fail = |error: std::io::Error| Failure::usage(format!("no directory for the fleet: {error}"));
        // A wrong path would be told only by every peel, and only when it is asked for states.
        if let Some(states) = args.states.as_deref().filter(|states| !states.is_dir()) {
            let words = format!("--states {}: there is no such directory", states.display());
            return Err(Failure::usage(words));
        }
        if let Some(settings) = args.settings.as_deref().filter(|settings| !settings.exists()) {
            let words = format!("--settings {}: there is no such file or directory", settings.display());
            return Err(Failure::usage(words));
        }
        if let Some(reactor) = args.reactor.as_deref().filter(|reactor| !reactor.is_dir()) {
            let words = format!("--reactor {}: there is no such directory", reactor.display());
            return Err(Failure::usage(words));
        }
        let nats_server = server::find().map_err(Failure::usage)?;
        let binary = std::env::current_exe()
            .map_err(|error| Failure::usage(format!("cannot find this very program: {error}")))?;
        let claim = match Claim::take(args.name.as_deref()) {
            Ok(claim) => Some(claim),
            Err(Refused::Runs { pid, url }) => return Err(runs(&pid, url, args.name.as_deref())),
            Err(Refused::Io(error)) => {
                app.output.notice(&format!("other terminals need the export line: {error}"));
                None
            }
        };
        let place = match &args.data_dir {
            Some(path) => {
                zester_converge::data_dir::DataDir::open(path)?;
                FleetDir::Given(std::path::absolute(path).map_err(fail)?)
            }
            None => FleetDir::Own(tempfile::Builder::new().prefix("zester-up-").tempdir().map_err(fail)?),
        };
        let absolute = |given: &Option<PathBuf>, beside: &str| {
            let beside = PathBuf::from(beside);
            let path = given.clone().or_else(|| beside.is_dir().then_some(beside));
            path.map(std::path::absolute).transpose().map_err(fail)
        };
        Ok(Fleet {
            peels: Vec::new(),
            master: None,
            server: None,
            claim,
            is_found: false,
            url: String::new(),
            is_secure: args.secure,
            keys: None,
            count: args.peels,
            states: absolute(&args.states.clone().or(app.config.states.clone()), "states")?,
            settings: absolute(&args.settings.clone().or(app.config.settings.clone()), "settings")?,
            reactor: absolute(&args.reactor.clone().or(app.config.reactor.dir.clone()), "reactor")?,
            binary,
            nats_server,
            place,
        })
    }

    pub async fn start(&mut self, app: &App) -> Result<(), Failure> {
        let place = self.place.path().to_path_buf();
        let entry = match self.is_secure {
            false => server::Entry::Token,
            true => {
                let keys = secure::keys(&place)?;
                let config = secure::server_config(&keys, &place, app)?;
                self.keys = Some(keys);
                server::Entry::Credentials(config)
            }
        };
        let (server, url) =
            server::start(&self.binary, &self.nats_server, &place, entry).await.map_err(Failure::usage)?;
        self.server = Some(server);
        self.url = url;
        let mut options = Options::new(vec![self.url.clone()], "zester up");
        let identity = self.keys.as_ref().map(|keys| secure::admin(keys, &mut options)).transpose()?;
        let bus = nats::connect(options).await.map_err(|error| Failure::usage(error.to_string()))?;
        let mut link = Link::new(Arc::new(bus));
        if let Some(identity) = identity {
            link = link.signed(identity).map_err(|bad| Failure::usage(bad.to_string()))?;
        }
        let client = Client::new(link);
        // The master makes the buckets; a peel that finds none tries again only with its next heartbeat.
        // What an earlier start said of its door is true no more.
        crate::daemon::master::door::forget_address(&place.join(MASTER));
        let mut words: Vec<String> = ["master", "run", "--id", "up"].map(String::from).to_vec();
        if let Some(keys) = &self.keys {
            words.extend(secure::door_words(keys)?);
        }
        self.master = Some(self.daemon(app, MASTER, &words, self.creds(MASTER)?.as_deref(), &[])?);
        self.online(&client, 0).await?;
        let entrance = self.entrance().await?;
        for number in 1..=self.count {
            let name = format!("peel-{number}");
            let told = match &entrance {
                Some(entrance) => entrance.told(&client, &name).await?.to_vec(),
                None => Vec::new(),
            };
            let turns = self.place.path().join(TURNS).display().to_string();
            let words = ["peel", "run", "--id", &name, "--turns", &turns].map(String::from);
            let peel = self.daemon(app, &name, &words, None, &told)?;
            self.peels.push(peel);
        }
        self.online(&client, usize::from(self.count)).await?;
        let _closed = client.link().bus().close().await;
        // Whoever finds the address needs credentials too, and has them from us.
        if let Some(claim) = self.claim.as_mut().filter(|_| !self.is_secure) {
            match claim.publish(&self.url) {
                Ok(is_found) => self.is_found = is_found,
                Err(error) => app.output.notice(&format!("other terminals need the export line: {error}")),
            }
        }
        Ok(())
    }

    /// Where the peels get in; none where they need no keys.
    async fn entrance(&mut self) -> Result<Option<secure::Entrance>, Failure> {
        let Some(keys) = &self.keys else { return Ok(None) };
        let (place, end) = (self.place.path().join(MASTER), Instant::now() + ONLINE_WAIT);
        loop {
            if let Some(entrance) = secure::Entrance::find(keys, &place)? {
                return Ok(Some(entrance));
            }
            if let Some(how) = self.master.as_mut().and_then(Child::ended) {
                let words = self.master.as_ref().map(|master| master.exit_message(&how));
                return Err(Failure::usage(words.unwrap_or_default()));
            }
            if Instant::now() >= end {
                return Err(Failure::usage("the master has not opened its door"));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    fn daemon(
        &self,
        app: &App,
        name: &str,
        words: &[String],
        creds: Option<&str>,
        told: &[(&str, String)],
    ) -> Result<Child, Failure> {
        let mut all: Vec<std::ffi::OsString> = words.iter().map(Into::into).collect();
        all.extend(["--data-dir".into(), self.place.path().join(name).into()]);
        for (flag, path) in [("--states", &self.states), ("--settings", &self.settings)] {
            if let Some(path) = path {
                all.extend([flag.into(), path.clone().into()]);
            }
        }
        if let (Some(reactor), true) = (&self.reactor, name == MASTER) {
            all.extend(["--reactor".into(), reactor.clone().into()]);
        }
        if app.config.timing.reconnect_spread.is_none() {
            all.extend(["--set".into(), SPREAD.into()]);
        }
        for set in &app.sets {
            all.extend(["--set".into(), set.into()]);
        }
        if let Some(path) = &app.config_file {
            all.extend(["--config".into(), path.clone().into()]);
        }
        // The address holds the token: everybody can read the words of a process, only its owner the environment.
        let mut environment = vec![("ZESTER_NATS_URL", self.url.as_str())];
        environment.extend(creds.map(|creds| ("ZESTER_CREDS", creds)));
        environment.extend(told.iter().map(|(name, value)| (*name, value.as_str())));
        let log = self.place.path().join(format!("{name}.log"));
        Child::start(name, &self.binary, &self.binary, &all, &environment, &log, false)
            .map_err(Failure::usage)
    }

    /// The credentials of a member, where there are any.
    fn creds(&self, name: &str) -> Result<Option<String>, Failure> {
        self.keys.as_ref().map(|keys| keys.absolute(&format!("creds/{name}.creds"))).transpose()
    }

    /// Waits until the buckets are there and so many peels have a heartbeat and facts in them.
    async fn online(&mut self, client: &Client, wanted: usize) -> Result<(), Failure> {
        let end = Instant::now() + ONLINE_WAIT;
        loop {
            let peels = client.peels().await.ok();
            let is_there = |peel: &&zester_client::Peel| peel.online && !peel.facts.is_empty();
            let online = peels.as_ref().map_or(0, |peels| peels.iter().filter(is_there).count());
            if peels.is_some() && online >= wanted {
                return Ok(());
            }
            for child in self.peels.iter_mut().chain(&mut self.master).chain(&mut self.server) {
                if let Some(how) = child.ended() {
                    return Err(Failure::usage(child.exit_message(&how)));
                }
            }
            if Instant::now() >= end {
                let logs = self.place.path().display();
                return Err(Failure::usage(format!(
                    "only {online} of {wanted} peels came online in {} s; their logs are in {logs}",
                    ONLINE_WAIT.as_secs()
                )));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Says when a child dies; comes back only when the server has.
    pub async fn watch(&mut self, app: &App) -> Result<(), Failure> {
        loop {
            tokio::time::sleep(LOOK_PAUSE).await;
            for child in self.peels.iter_mut().chain(&mut self.master) {
                if let Some(how) = child.ended() {
                    app.output.notice(&child.exit_message(&how));
                }
            }
            let server = self.server.as_mut();
            if let Some((server, how)) = server.and_then(|server| server.ended().map(|how| (server, how))) {
                return Err(Failure::usage(server.exit_message(&how)));
            }
        }
    }

    /// In order: who needs the others goes first.
    pub async fn take_down(&mut self) {
        child::stop(&mut self.peels).await;
        child::stop(self.master.as_mut_slice()).await;
        child::stop(self.server.as_mut_slice()).await;
        self.claim = None;
        // A directory that the user named stays.
        if let FleetDir::Own(temp) = &self.place {
            let _gone = std::fs::remove_dir_all(temp.path());
        }
    }

    pub fn document(&self) -> Json {
        let peels: Vec<&str> = self.peels.iter().map(Child::name).collect();
        json!({ "url": self.url, "peels": peels, "directory": self.place.path(), "creds": self.creds(secure::ADMIN).ok().flatten() })
    }

    pub fn text(&self) -> String {
        let count = self.count;
        let noun = if count == 1 { "peel" } else { "peels" };
        let states = match self.states.as_deref().and_then(something_to_apply) {
            Some(reference) => format!("  zester '*' state.apply {reference}--test\n"),
            None => "  zester '*' file.managed /tmp/hello content=hi --test\n".to_string(),
        };
        let known = match self.is_found {
            true => "in another terminal:",
            false => "in another terminal, after the export line:",
        };
        let (export, whose) = match self.creds(secure::ADMIN) {
            Ok(Some(creds)) => {
                (format!("export ZESTER_NATS_URL={} ZESTER_CREDS={creds}", self.url), "the export line")
            }
            _ => (format!("export ZESTER_NATS_URL={}", self.url), "as another user, or for other programs"),
        };
        format!(
            "a fleet of {count} {noun} is up; Ctrl-C takes it down\n\n{known}\n\n  zester '*' test.ping\n  zester peel-1 cmd.run 'uname -a'\n{states}  zester peel list\n  zester job list\n\n{whose}:\n\n  {export}\n\nlogs: {}/*.log\n",
            self.place.path().display()
        )
    }
}

/// Says who has the name, and what to do about it.
fn runs(pid: &str, url: Option<String>, name: Option<&str>) -> Failure {
    let address = match url {
        Some(url) => crate::connection::without_secrets(&url),
        None => "its address is in its own terminal".to_string(),
    };
    let (which, beside) = match name {
        Some(name) => (format!("a `zester up --name {name}`"), "another --name"),
        None => ("a `zester up` of yours".to_string(), "--name NAME"),
    };
    Failure::usage(format!(
        "{which} runs already (pid {pid}, {address}); use it, stop it with `kill {pid}`, or start this one beside it with {beside}"
    ))
}

/// What `state.apply` can be shown with: nothing more where there is a top file, else the first reference.
fn something_to_apply(states: &Path) -> Option<String> {
    if ["top.zy", "top.sls"].iter().any(|top| states.join(top).is_file()) {
        return Some(String::new());
    }
    let entries = std::fs::read_dir(states).ok()?.filter_map(|entry| Some(entry.ok()?.path()));
    let reference = |path: PathBuf| {
        let is_file =
            path.is_file() && path.extension().is_some_and(|ending| ending == "zy" || ending == "sls");
        let is_tree = path.join("init.zy").is_file();
        let name = path.file_stem()?.to_str()?.to_string();
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
        ((is_file || is_tree) && plain).then_some(name)
    };
    entries.filter_map(reference).min().map(|name| format!("{name} "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_there_is_suggested() {
        let temp = tempfile::tempdir().unwrap();
        let suggested = || something_to_apply(temp.path());
        assert_eq!(suggested(), None);
        std::fs::write(temp.path().join("notes.txt"), "").unwrap();
        std::fs::create_dir(temp.path().join("empty")).unwrap();
        assert_eq!(suggested(), None);
        std::fs::write(temp.path().join("web.zy"), "").unwrap();
        assert_eq!(suggested().as_deref(), Some("web "));
        std::fs::create_dir(temp.path().join("db")).unwrap();
        std::fs::write(temp.path().join("db/init.zy"), "").unwrap();
        assert_eq!(suggested().as_deref(), Some("db "));
        std::fs::write(temp.path().join("top.zy"), "").unwrap();
        assert_eq!(suggested().as_deref(), Some(""));
    }
}
