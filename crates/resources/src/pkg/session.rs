//! A turn at the package manager: nobody else of this process has one meanwhile.
//!
//! A transaction is never signalled: cutting it leaves a broken machine (S-32). One runs at a time in this process, and waits
//! for the lock of others. One that was cut by a crash is repaired before anything else.

use super::installed_packages::Installed;
use super::manager::{Call, Job, PackageManager, Refusal};
use crate::context::Applying;
use crate::scratch_path::unused_path;
use crate::state::Read;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;
use zester_host::{Exit, Fault, FaultKind, Launch, NewFile, Query, Question};

/// Two would only wait for each other's lock, and report what the other did as their own.
static MANAGER_LOCK: Mutex<()> = Mutex::const_new(());

pub(crate) struct Session<'a> {
    cx: &'a Applying<'a>,
    manager: &'a dyn PackageManager,
    /// A cancel came while a transaction ran; it was let finish.
    pub(crate) canceled: bool,
    /// The lists were fetched in this turn.
    refreshed: bool,
    /// Why some could not be, where nobody insisted on them.
    lists_missing: Option<String>,
    /// What transactions of this turn were going to move, where only now a plan could be made.
    pub(crate) planned: BTreeSet<String>,
    /// Never cancelled. Once a transaction ran, whoever asks what came of it gets an answer (S-43).
    until_told: CancellationToken,
    transacted: bool,
    _held: tokio::sync::MutexGuard<'static, ()>,
}

impl<'a> Session<'a> {
    /// Waits for its turn, and repairs what an interrupted transaction left.
    pub(crate) async fn take(
        cx: &'a Applying<'a>,
        manager: &'a dyn PackageManager,
    ) -> Result<Session<'a>, Fault> {
        let held = tokio::select! {
            held = MANAGER_LOCK.lock() => held,
            () = cx.cancel.cancelled() => return Err(Fault::canceled()),
        };
        let mut session = Session {
            cx,
            manager,
            canceled: false,
            refreshed: false,
            lists_missing: None,
            planned: BTreeSet::new(),
            until_told: CancellationToken::new(),
            transacted: false,
            _held: held,
        };
        if let Some(words) = manager.repair(cx.host)? {
            let exit = session.transact(words.clone()).await?;
            // Somebody else is at it: nothing was cut, and the manager waits for its lock.
            let under_way = exit.stderr.text.contains("locked by another process");
            if exit.code != Some(0) && !under_way {
                return Err(exit.failure(&words.join(" ")));
            }
        }
        Ok(session)
    }

    pub(crate) async fn installed(&self) -> Result<Installed, Fault> {
        self.manager.installed(self.read()).await
    }

    fn read(&self) -> Read<'_> {
        let cancel = if self.transacted { &self.until_told } else { self.cx.cancel };
        Read { host: self.cx.host, query: Query::through(self.cx.processes), cancel }
    }

    /// Runs to its end, whatever is cancelled meanwhile.
    async fn transact(&mut self, words: Vec<String>) -> Result<Exit, Fault> {
        if self.cx.cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        let mut launch = Launch::argv(words);
        launch.environment = self.manager.environment();
        launch.uninterruptible = true;
        self.transacted = true;
        let ran = self.cx.processes.run(&launch, self.cx.live.clone(), self.cx.cancel).await;
        let exit = ran.map_err(|fault| missing(self.manager, fault))?;
        self.canceled |= exit.canceled;
        Ok(exit)
    }

    /// Makes a transaction. Where a package is not known and `refresh` leaves it open, the lists are fetched once.
    /// With `plan` nobody has asked yet what it is going to move.
    pub(crate) async fn run(&mut self, job: &Job, refresh: Option<bool>, plan: bool) -> Result<(), Refusal> {
        if refresh == Some(true) {
            self.refresh().await.map_err(Refusal::of)?;
        } else if refresh.is_none() && self.wants_lists(job).map_err(Refusal::of)? {
            match self.refresh().await {
                Err(fault) if fault.kind == FaultKind::Canceled => return Err(Refusal::of(fault)),
                // A repository that cannot be reached keeps nobody from the others.
                ended => self.lists_missing = ended.err().map(|fault| fault.message),
            }
        }
        let ended = self.run_or_refresh(job, refresh, plan).await;
        ended.map_err(|refusal| match &self.lists_missing {
            Some(why) => {
                Refusal { fault: refusal.fault.hint(format!("lists could not be fetched: {why}")), ..refusal }
            }
            None => refusal,
        })
    }

    /// Whether something is to come from repositories of which not all were asked what they have.
    fn wants_lists(&self, job: &Job) -> Result<bool, Fault> {
        let from_lists = job.install.iter().any(|wanted| wanted.source.is_none());
        let comes = from_lists || !job.latest.is_empty() || job.everything.is_some();
        Ok(comes && !self.refreshed && self.manager.lacks_lists(self.cx.host)?)
    }

    async fn run_or_refresh(&mut self, job: &Job, refresh: Option<bool>, plan: bool) -> Result<(), Refusal> {
        match self.run_calls(job, plan).await {
            Err(refusal) if refresh.is_none() && !self.refreshed && self.manager.is_stale(&refusal.fault) => {
                self.refresh().await.map_err(Refusal::of)?;
                self.run_calls(job, plan).await
            }
            ended => ended,
        }
    }

    async fn run_calls(&mut self, job: &Job, plan: bool) -> Result<(), Refusal> {
        let now = self.installed().await.map_err(Refusal::of)?;
        for call in self.manager.calls(job, &now).map_err(Refusal::of)? {
            // Other lists make other plans.
            if plan || self.refreshed {
                self.plan(&call, &now).await.map_err(Refusal::of)?;
            }
            let name = format!("{} {}", call.act[0], verb_of(&call.act));
            let exit = self.transact(call.act).await.map_err(Refusal::of)?;
            if exit.code != Some(0) {
                let names = self.manager.refusal(&exit).names;
                return Err(Refusal { fault: exit.failure(&name), names });
            }
        }
        Ok(())
    }

    /// Notes what a call is going to move. Why it is refused, the call itself tells.
    async fn plan(&mut self, call: &Call, now: &Installed) -> Result<(), Fault> {
        let question = Question::Read { tool: call.tool, words: &call.question };
        let exit = self.read().query.ask(question, self.read().cancel).await?;
        let planned = self.manager.read_plan(call, &exit, now).unwrap_or_default();
        self.planned.extend(planned.into_iter().map(|planned| planned.name));
        Ok(())
    }

    /// Sets marks, or takes them off.
    pub(crate) async fn hold(&mut self, names: &[String], on: bool) -> Result<(), Fault> {
        if names.is_empty() {
            return Ok(());
        }
        let Some(words) = self.manager.hold(names, on) else { return Err(cannot_hold(self.manager)) };
        let exit = self.transact(words.clone()).await?;
        if exit.code == Some(0) { Ok(()) } else { Err(exit.failure(&words.join(" "))) }
    }

    /// Fetches the lists, once in a turn.
    async fn refresh(&mut self) -> Result<(), Fault> {
        if self.refreshed {
            return Ok(());
        }
        let words = self.manager.refresh();
        let name = format!("{} {}", words[0], verb_of(&words));
        let mut launch = Launch::argv(words);
        launch.environment = self.manager.environment();
        let ran = self.cx.processes.run(&launch, self.cx.live.clone(), self.cx.cancel).await;
        let exit = ran.map_err(|fault| missing(self.manager, fault))?;
        self.refreshed = true;
        match exit.code {
            _ if exit.canceled => Err(Fault::canceled()),
            Some(0) => Ok(()),
            _ => Err(exit.failure(&name)),
        }
    }

    /// Puts a file of the states tree where the manager can read it.
    pub(crate) fn put_scratch(&self, name: &str, content: &[u8]) -> Result<PathBuf, Fault> {
        let path = unused_path(self.cx.scratch, name)?;
        let file = NewFile { content, mode: 0o644, owner: self.cx.scratch.me() };
        self.cx.scratch.put_file(&path, &file)?;
        Ok(path)
    }

    pub(crate) fn drop_scratch(&self, path: &Path) {
        // If it stays, it goes with what is left of this process.
        let _left = self.cx.scratch.remove_file(path);
    }
}

/// The word that says what a call does: the first that is no option and no value of one.
fn verb_of(words: &[String]) -> String {
    let mut words = words.iter().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "-o" | "-t" | "--root" | "--config" => drop(words.next()),
            option if option.starts_with("--") => {}
            option if option.starts_with('-') && !option.starts_with("-S") && !option.starts_with("-R") => {}
            verb => return verb.to_string(),
        }
    }
    String::new()
}

/// The manager itself is not there.
pub(crate) fn missing(manager: &dyn PackageManager, fault: Fault) -> Fault {
    if fault.kind != FaultKind::NotFound {
        return fault;
    }
    let message = format!("packages cannot be managed here: {}", fault.message);
    Fault::new(FaultKind::Unsupported, message).hint(format!("this system is managed by {}", manager.name()))
}

pub(crate) fn cannot_hold(manager: &dyn PackageManager) -> Fault {
    let message = format!("{} has no way to hold a package in its version", manager.name());
    Fault::new(FaultKind::Unsupported, message).hint("leave out `hold`, or name the version")
}
