//! The private server, the master and the processes full of peels. All of them end with us.

use crate::answer::Failure;
use crate::up::child::{self, Child};
use crate::up::server;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::nats::{self, Options};
use zester_client::Client;
use zester_link::Link;

/// How long a count of peels may take to be known to the master. Generous: this machine does the work of a whole fleet.
const KNOWN_WAIT: Duration = Duration::from_secs(300);
/// Between two looks. The answer names every peel, so looking is not free.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
/// How long the server may take to answer us while everybody connects.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);

pub struct Fleet {
    /// Declared before the place, so that whatever is left ends before its directory goes.
    pub swarms: Vec<Child>,
    pub master: Option<Child>,
    pub server: Option<Child>,
    client: Option<Client>,
    url: String,
    /// Peels that were started.
    started: u32,
    binary: PathBuf,
    nats_server: PathBuf,
    place: tempfile::TempDir,
}

impl Fleet {
    /// Finds everything that is needed; starts nothing.
    pub fn prepare() -> Result<Fleet, Failure> {
        let binary = std::env::current_exe()
            .map_err(|error| Failure::usage(format!("cannot find this very program: {error}")))?;
        let place = tempfile::Builder::new().prefix("zester-bench-").tempdir();
        Ok(Fleet {
            swarms: Vec::new(),
            master: None,
            server: None,
            client: None,
            url: String::new(),
            started: 0,
            binary,
            nats_server: server::find().map_err(Failure::usage)?,
            place: place.map_err(|error| Failure::usage(format!("no directory for the fleet: {error}")))?,
        })
    }

    /// The server and the master.
    pub async fn start(&mut self) -> Result<(), Failure> {
        let place = self.place.path().to_path_buf();
        let (server, url) = server::start(&self.binary, &self.nats_server, &place, server::Entry::Token)
            .await
            .map_err(Failure::usage)?;
        self.server = Some(server);
        self.url = url;
        let mut options = Options::new(vec![self.url.clone()], "zester bench");
        options.answer_timeout = ANSWER_TIMEOUT;
        let bus = nats::connect(options).await.map_err(|error| Failure::usage(error.to_string()))?;
        self.client = Some(Client::new(Link::new(Arc::new(bus))));
        let data = place.join("master").into_os_string();
        let words = ["master", "run", "--id", "bench", "--log", "warn", "--data-dir"].map(OsString::from);
        let words: Vec<OsString> = words.into_iter().chain([data]).collect();
        self.master = Some(self.child("master", &words)?);
        // The master makes the buckets: peels that found none would try again only with their next heartbeat.
        self.known(0).await
    }

    /// Adds peels until there are so many, and waits until the master knows them.
    pub async fn grow(&mut self, count: u32, processes: u16) -> Result<(), Failure> {
        let more = count.saturating_sub(self.started);
        let processes = u32::from(processes).min(more.max(1));
        for process in 0..processes {
            let share = more / processes + u32::from(process < more % processes);
            let name = format!("peels-{}", self.swarms.len() + 1);
            let (from, size) = (self.started.to_string(), share.to_string());
            let words = ["bench", "swarm", "--from", &from, "--count", &size].map(OsString::from);
            let swarm = self.child(&name, &words)?;
            self.swarms.push(swarm);
            self.started += share;
        }
        self.known(usize::try_from(count).unwrap_or(usize::MAX)).await
    }

    pub fn started(&self) -> u32 {
        self.started
    }

    pub fn client(&self) -> Result<&Client, Failure> {
        self.client.as_ref().ok_or_else(|| Failure::usage("the fleet has not been started"))
    }

    fn child(&self, name: &str, words: &[OsString]) -> Result<Child, Failure> {
        // The address holds the token: everybody can read the words of a process, only its owner the environment.
        let environment = [("ZESTER_NATS_URL", self.url.as_str())];
        let log = self.place.path().join(format!("{name}.log"));
        Child::start(name, &self.binary, &self.binary, words, &environment, &log, false)
            .map_err(Failure::usage)
    }

    async fn known(&mut self, wanted: usize) -> Result<(), Failure> {
        let client = self.client()?.clone();
        let end = Instant::now() + KNOWN_WAIT;
        loop {
            let known = client.resolve("*").await.map(|peels| peels.len());
            if known.as_ref().is_ok_and(|known| *known >= wanted) {
                return Ok(());
            }
            self.all_alive()?;
            if Instant::now() >= end {
                let known = known.map_or_else(|error| error.to_string(), |known| format!("{known} are"));
                return Err(Failure::usage(format!(
                    "the master does not know {wanted} peels after {} s: {known}",
                    KNOWN_WAIT.as_secs()
                )));
            }
            tokio::time::sleep(LOOK_PAUSE).await;
        }
    }

    /// Whoever ended will not come back, so neither will what is waited for.
    pub fn all_alive(&mut self) -> Result<(), Failure> {
        for child in self.swarms.iter_mut().chain(&mut self.master).chain(&mut self.server) {
            if let Some(how) = child.ended() {
                return Err(Failure::usage(child.exit_message(&how)));
            }
        }
        Ok(())
    }

    /// In order: who needs the others goes first.
    pub async fn take_down(&mut self) {
        if let Some(client) = self.client.take() {
            let _closed = client.link().bus().close().await;
        }
        child::stop(&mut self.swarms).await;
        child::stop(self.master.as_mut_slice()).await;
        child::stop(self.server.as_mut_slice()).await;
    }
}
