//! Executing for real, on this machine: what `zester call` does there, asked for over the bus (C-12).

use super::life::Lives;
use super::progress::ProgressObserver;
use super::{FunctionAsked, Outcome, StartupFailure, StartupStates, Tell, Work};
use crate::events::EventOutlet;
use crate::published::{Chosen, DiskCache, Freshness, Learned, NO_STATES, Pinned, StatesDirs};
use crate::store::{BoxFuture, StoreError};
use serde_json::{Map, Value};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use zester_converge::call::{self, Asked};
use zester_converge::data_dir::DataDir;
use zester_converge::deadline::Deadline;
use zester_converge::functions::{Access, Arguments, Function};
use zester_converge::inputs::{self, CompileRequest, Inputs, Renderers};
use zester_converge::local_host::LocalHost;
use zester_converge::plan::Plan;
use zester_converge::raw_arguments::RawArguments;
use zester_converge::settings::{Override, SNAPSHOT, SettingsRequest};
use zester_converge::tree_functions::{FilesAsked, SINGLE};
use zester_converge::{Error, document, run, secrets};
use zester_host::process::{Runner, kill_leftovers};
use zester_jobs::queue::Lane;
use zester_model::catalog::Kind;
use zester_model::merge::Merge;
use zester_model::outcome::{Mode, RunResult};
use zester_wire::{ExecRequest, RunRevision};

/// The fact that holds the key to seal secrets with (D-15).
pub const PUBLIC_KEY: &str = "public_key";

/// How long states wait at most to learn whether anything newer was published. What is here runs then.
const LOOK_LIMIT: Duration = Duration::from_secs(2);
/// The same before anything is known of what is published.
const FIRST_LOOK_LIMIT: Duration = Duration::from_secs(15);
/// How often startup states look whether there are settings now.
const SETTINGS_PAUSE: Duration = Duration::from_secs(1);

/// Where things are.
#[derive(Clone)]
pub struct Options {
    pub id: String,
    /// The baked-in directory: what the machine has where nothing was published (S-36).
    pub states: Option<PathBuf>,
    /// A file or a directory.
    pub settings: Option<PathBuf>,
    /// How settings of several files become one.
    pub settings_merge: Merge,
    /// Those that run only where this machine allows them.
    pub renderers: Renderers,
    /// Published states and settings; none where this peel follows no master.
    pub states_cache: Option<Arc<DiskCache>>,
    pub settings_cache: Option<Arc<DiskCache>>,
    /// What keeps each of them up to date, to be asked before states run.
    pub states_freshness: Option<Freshness>,
    pub settings_freshness: Option<Freshness>,
    /// A file that is laid over the collected facts.
    pub facts: Option<PathBuf>,
    pub data_dir: PathBuf,
    pub concurrency: usize,
    /// Shared with other peels of this machine, which write in turns (`zester up`).
    pub turns: Option<PathBuf>,
    /// The environment of this machine where a call names none; none: `base`.
    pub environment: Option<String>,
    /// What it does at its start, once.
    pub startup: Option<StartupStates>,
    /// Where events of jobs go; none where there is no bus.
    pub events: Option<EventOutlet>,
}

/// This machine. Needs a runtime of several threads.
#[derive(Clone)]
pub struct Local {
    options: Arc<Options>,
    local_host: LocalHost,
    lives: Arc<Lives>,
    states: StatesDirs,
    /// Settings for the one execution that this is for.
    overrides: Arc<[Override]>,
    /// What secrets for this machine are sealed to.
    public_key: String,
    /// One look at the settings at a time.
    settings_look: Arc<Semaphore>,
}

/// The files that one execution sees from its beginning to its end (D-13).
struct Files {
    states: Option<PathBuf>,
    settings: Option<PathBuf>,
    /// The settings are published ones.
    published: bool,
    /// Of states and settings.
    pinned: [Option<Pinned>; 2],
}

impl Files {
    /// What was published of them.
    fn revision(&self) -> Option<RunRevision> {
        let [states, settings] = &self.pinned;
        if states.is_none() && settings.is_none() {
            return None;
        }
        Some(RunRevision {
            states: states.as_ref().map(|pinned| pinned.revision),
            settings: settings.as_ref().map(|pinned| pinned.revision),
            commit: states.as_ref().map(|pinned| pinned.commit.clone()).unwrap_or_default(),
        })
    }
}

/// What came out, before it is told as an [`Outcome`].
pub(super) enum Answer {
    Run(Box<RunResult>),
    Plain(Value),
}

impl Local {
    /// Writes down which life this is, before it can start anything.
    pub fn open(options: Options) -> Result<Local, StoreError> {
        let handle = Handle::try_current().map_err(|error| StoreError(error.to_string()))?;
        let data_dir = DataDir::open(&options.data_dir).map_err(|error| StoreError(error.to_string()))?;
        let key = secrets::key_or_new(&data_dir).map_err(|error| StoreError(error.to_string()))?;
        StartupFailure::forget(&options.data_dir);
        let runner = Runner::new();
        let lives = Arc::new(Lives::begin(&options.data_dir, runner.life())?);
        let files = Arc::new(zester_host::real::Real::new());
        let local_host = LocalHost { files, processes: Arc::new(runner), handle, events: None };
        let baked = options.states.clone().or_else(inputs::default_states_dir);
        let states = StatesDirs { cache: options.states_cache.clone(), baked };
        states.tell_at_start();
        let (public_key, overrides) = (key.public().to_string(), Arc::new([]));
        let (options, settings_look) = (Arc::new(options), Arc::new(Semaphore::new(1)));
        Ok(Local { options, local_host, lives, states, overrides, public_key, settings_look })
    }

    /// Picks the files for an execution. Whoever needs states waits for a swap that may be under way.
    async fn files(&self, needs_states: bool) -> Files {
        let chosen = self.states.choose(needs_states).await;
        let (states, pinned) = match chosen {
            Some(Chosen { path, pinned }) => (Some(path), pinned),
            None => (None, None),
        };
        let settings = self.options.settings_cache.as_ref().and_then(|cache| cache.pin());
        Files {
            states,
            published: settings.is_some(),
            settings: settings.as_ref().map(|pinned| pinned.path.clone()).or(self.options.settings.clone()),
            pinned: [pinned, settings],
        }
    }

    /// Which published settings are here.
    pub(super) fn published_settings(&self) -> Option<PathBuf> {
        self.options.settings_cache.as_ref()?.pin().map(|pinned| pinned.path.clone())
    }

    /// Brings published trees up to date before states run. Without a bus what is here is good enough (D-9).
    async fn freshen(&self) -> Result<(), Error> {
        let Options { states_freshness, settings_freshness, .. } = self.options.as_ref();
        // A first look may hang until its answer is given up, where the stores are only just being made.
        let limit = if self.settings_missing().is_some() { FIRST_LOOK_LIMIT } else { LOOK_LIMIT };
        let look = async |freshness: &Option<Freshness>| {
            if let Some(freshness) = freshness {
                freshness.look_now(limit).await;
            }
        };
        tokio::join!(look(states_freshness), look(settings_freshness));
        self.settings_missing()
            .map_or(Ok(()), |why| Err(Error::other(format!("settings have not arrived yet: {why}; retry"))))
    }

    /// Why nobody knows yet which settings this machine has: it never had any, and a master may have published some (D-6).
    fn settings_missing(&self) -> Option<String> {
        let (freshness, cache) =
            (self.options.settings_freshness.as_ref()?, self.options.settings_cache.as_ref()?);
        let had = || cache.pin().is_some() || self.options.data_dir.join(SNAPSHOT).exists();
        if had() || !freshness.is_connected() {
            return None;
        }
        match freshness.learned() {
            Some(Learned::Nothing | Learned::InPlace) => None,
            Some(Learned::Failed(why)) => Some(why),
            None => Some("it was not yet seen whether any are published".into()),
        }
    }

    /// The same for what cannot do without states (S-37).
    async fn files_of_states(&self, ran: &OnceLock<RunRevision>) -> Result<Files, Error> {
        let arrived = self.freshen().await;
        let files = self.files(true).await;
        if let Some(revision) = files.revision() {
            ran.get_or_init(|| revision);
        }
        match files.states.is_none() {
            true => Err(Error::other(NO_STATES)),
            false => arrived.map(|()| files),
        }
    }

    async fn run_request(
        &self,
        request: ExecRequest,
        tell: Tell,
        cancel: CancellationToken,
        ran: &OnceLock<RunRevision>,
    ) -> Result<Answer, Error> {
        let mut words = RawArguments::of_values(first_word(&request), &request.positionals, &request.args);
        let overrides = Override::take(&request.function, &mut words).map_err(Error::Other)?;
        let events =
            self.options.events.as_ref().map(|outlet| outlet.of_job(request.jid.clone(), request.rdepth));
        let local_host = LocalHost { events, ..self.local_host.clone() };
        let this = Local { overrides: overrides.into(), local_host, ..self.clone() };
        this.carry_out(request, words, tell, cancel, ran).await
    }

    async fn carry_out(
        &self,
        request: ExecRequest,
        words: RawArguments,
        tell: Tell,
        cancel: CancellationToken,
        ran: &OnceLock<RunRevision>,
    ) -> Result<Answer, Error> {
        match Asked::read(&request.function, words, request.test).map_err(Error::Other)? {
            Asked::Apply { files: asked, test } => {
                let files = self.files_of_states(ran).await?;
                let plan = self.plan(&files, asked, Access::Command, &cancel).await?;
                self.run(Some(plan), self.run_options(mode(test)), tell, &cancel).await
            }
            Asked::Revert { files: asked, run, force } => {
                let options = run::Options { run, force, ..self.run_options(Mode::Revert) };
                self.revert(asked, options, tell, &cancel, ran).await
            }
            Asked::Graph(asked) => {
                let files = self.files_of_states(ran).await?;
                let plan = self.plan(&files, asked, Access::ReadOnly, &cancel).await?;
                Ok(Answer::Plain(document::graph(&plan)))
            }
            Asked::ShowStates(asked) => {
                let files = self.files_of_states(ran).await?;
                let plan = self.plan(&files, asked, Access::ReadOnly, &cancel).await?;
                Ok(Answer::Plain(document::states(&plan)))
            }
            Asked::ShowTop { environment } => {
                let files = self.files_of_states(ran).await?;
                // All of them, unless one is named: the one of this machine would hide the others.
                let request = self.request(&files, FilesAsked::default(), Access::ReadOnly);
                let request = CompileRequest { environment, ..request };
                let environments = self.blocking(&cancel, move |local_host, cancel| {
                    Inputs::environments(&request, local_host, cancel)
                });
                Ok(Answer::Plain(document::top(&environments.await?)))
            }
            Asked::State { kind, words, test } => {
                // A state that is called by its own name is as any other function.
                if request.function == SINGLE {
                    self.freshen().await?;
                }
                self.one_state(kind, words, mode(test), tell, &cancel).await
            }
            Asked::Function { function, arguments } => self.function(function, arguments, &cancel).await,
            Asked::Unknown => Err(Error::other(call::unknown(&request.function))),
        }
    }

    async fn plan(
        &self,
        files: &Files,
        asked: FilesAsked,
        access: Access,
        cancel: &CancellationToken,
    ) -> Result<Plan, Error> {
        let request = self.request(files, asked, access);
        let made = self.blocking(cancel, move |local_host, cancel| Plan::make(&request, local_host, cancel));
        let plan = made.await?;
        plan.inputs.warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
        Ok(plan)
    }

    async fn one_state(
        &self,
        kind: &'static Kind,
        words: RawArguments,
        mode: Mode,
        tell: Tell,
        cancel: &CancellationToken,
    ) -> Result<Answer, Error> {
        let files = self.files(false).await;
        let asked = self.request_of_one(&files, kind.name);
        // What only looks must not wait for a run that has the lock (J-15): checked, it does all that it can do.
        let beside = Lane::of(kind.name) == Lane::ReadOnly;
        let plan = self
            .blocking(cancel, move |local_host, cancel| call::plan(kind, &words, &asked, local_host, cancel));
        let plan = plan.await?;
        let options = self.run_options(if beside { Mode::Check } else { mode });
        let mut answer = self.run(Some(plan), options, tell, cancel).await?;
        if let Answer::Run(result) = &mut answer {
            (result.mode, result.test) = (mode, mode == Mode::Check);
        }
        Ok(answer)
    }

    pub(super) async fn function(
        &self,
        function: &'static Function,
        arguments: Arguments,
        cancel: &CancellationToken,
    ) -> Result<Answer, Error> {
        let files = self.files(false).await;
        let asked = self.request_of_one(&files, function.name);
        let call = move |local_host: &LocalHost, cancel: &CancellationToken| {
            call::answer(function, &arguments, &asked, local_host, cancel)
        };
        self.blocking(cancel, call).await.map(Answer::Plain)
    }

    /// Of what is named the newest step back; without a name, the last run that can be undone.
    async fn revert(
        &self,
        asked: FilesAsked,
        options: run::Options,
        tell: Tell,
        cancel: &CancellationToken,
        ran: &OnceLock<RunRevision>,
    ) -> Result<Answer, Error> {
        if !asked.references.is_empty() {
            let files = self.files_of_states(ran).await?;
            let plan = self.plan(&files, asked, Access::Command, cancel).await?;
            return self.run(Some(plan), options, tell, cancel).await;
        }
        self.run(None, options, tell, cancel).await
    }

    async fn run(
        &self,
        plan: Option<Plan>,
        options: run::Options,
        tell: Tell,
        cancel: &CancellationToken,
    ) -> Result<Answer, Error> {
        let total = plan.as_ref().map_or(0, |plan| plan.graph.len() as u64);
        let observer = Arc::new(ProgressObserver::new(total, tell));
        let result = run::run(plan.map(Arc::new), &options, &self.local_host, observer, cancel).await?;
        Ok(Answer::Run(Box::new(result)))
    }

    fn request(&self, files: &Files, asked: FilesAsked, access: Access) -> CompileRequest {
        let Options { id, facts, environment: usual, settings_merge, data_dir, .. } =
            self.options.as_ref().clone();
        let FilesAsked { references, environment, only } = asked;
        let settings = SettingsRequest {
            path: files.settings.clone(),
            merge: settings_merge,
            overrides: self.overrides.to_vec(),
            published: files.published,
            snapshot: Some(data_dir.join(SNAPSHOT)),
            unread: false,
        };
        CompileRequest {
            references,
            states: files.states.clone(),
            settings,
            facts,
            id: Some(id),
            ordered: false,
            environment: environment.or(usual),
            only,
            access,
            renderers: self.options.renderers,
            data_dir: Some(self.options.data_dir.clone()),
        }
    }

    /// For one function, which needs no states directory: a machine that has none yet must answer a ping all the same. What
    /// only looks, and not at the settings, does without those too, and so answers where they are wrong.
    fn request_of_one(&self, files: &Files, function: &str) -> CompileRequest {
        let mut request = self.request(files, FilesAsked::default(), Access::Command);
        request.settings.unread = Lane::of(function) == Lane::ReadOnly && !function.starts_with("settings.");
        request
    }

    fn run_options(&self, mode: Mode) -> run::Options {
        run::Options {
            mode,
            data_dir: self.options.data_dir.clone(),
            concurrency: self.options.concurrency,
            // The peel counts the time, and cancels.
            deadline: Deadline::none(),
            no_wait: false,
            force: false,
            run: None,
            turns: self.options.turns.clone(),
        }
    }

    /// Compiling may run commands and wait for them. When nobody waits for it any more, those end.
    async fn blocking<T: Send + 'static>(
        &self,
        cancel: &CancellationToken,
        work: impl FnOnce(&LocalHost, &CancellationToken) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (local_host, cancel) = (self.local_host.clone(), cancel.child_token());
        let _ends_with_us = cancel.clone().drop_guard();
        match tokio::task::spawn_blocking(move || work(&local_host, &cancel)).await {
            Ok(result) => result,
            Err(error) => match error.try_into_panic() {
                // It is this job's panic, and told as such.
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => Err(Error::other(format!("it ended unexpectedly: {error}"))),
            },
        }
    }
}

impl Work for Local {
    fn execute(&self, request: ExecRequest, tell: Tell, cancel: CancellationToken) -> BoxFuture<'_, Outcome> {
        Box::pin(async move {
            let ran = OnceLock::new();
            let answer = self.run_request(request, tell, cancel.clone(), &ran).await;
            Outcome { revision: ran.into_inner(), ..outcome(answer, cancel.is_cancelled()) }
        })
    }

    fn kill_leftovers(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            for life in self.lives.earlier() {
                let left = kill_leftovers(life).await;
                if !left.is_empty() {
                    tracing::error!(?left, "processes of an earlier life could not be ended");
                }
            }
            self.lives.settled();
        })
    }

    fn startup(&self) -> Option<FunctionAsked> {
        self.options.startup.as_ref().map(StartupStates::function)
    }

    fn startup_failed(&self, failure: StartupFailure) -> BoxFuture<'_, ()> {
        let options = self.options.clone();
        Box::pin(async move {
            let never = CancellationToken::new();
            let written = self.blocking(&never, move |_, _| failure.write(&options.data_dir));
            if let Err(error) = written.await {
                tracing::warn!("that the startup states failed is not written down: {error}");
            }
        })
    }

    fn states_appear(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {
            self.states.appear().await;
            while self.settings_missing().is_some() {
                tokio::time::sleep(SETTINGS_PAUSE).await;
            }
        })
    }

    fn settings(&self) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            // What is left of a look that nobody waits for any more ends before the next begins.
            let permit =
                self.settings_look.clone().acquire_owned().await.map_err(|error| error.to_string())?;
            let files = self.files(false).await;
            let asked = self.request_of_one(&files, "settings.items");
            let look = move |local_host: &LocalHost, cancel: &CancellationToken| {
                let _until_it_has_ended = permit;
                call::settings(&asked, local_host, cancel)
            };
            let looked = self.blocking(&CancellationToken::new(), look).await;
            looked.map_err(|error| document::error_sentence(&error))
        })
    }

    fn settings_are_known(&self) -> bool {
        let Options { settings, settings_freshness, settings_cache, .. } = self.options.as_ref();
        let (Some(freshness), Some(cache)) = (settings_freshness, settings_cache) else { return true };
        let learned = matches!(freshness.learned(), Some(Learned::Nothing | Learned::InPlace));
        // A machine that has settings of its own knows them, bus or no bus.
        learned || cache.pin().is_some() || settings.as_ref().is_some_and(|own| own.exists())
    }

    fn facts(&self) -> BoxFuture<'_, Map<String, Value>> {
        let options = self.options.clone();
        Box::pin(async move {
            let never = CancellationToken::new();
            let gather = move |local_host: &LocalHost, cancel: &CancellationToken| {
                inputs::facts(&options.id, options.facts.as_deref(), local_host, cancel)
            };
            let mut facts = match self.blocking(&never, gather).await {
                Ok((Value::Object(facts), warnings)) => {
                    warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
                    facts
                }
                Ok(_) => Map::new(),
                // What the machine shows by itself is still true.
                Err(error) => {
                    tracing::warn!("{}", document::error_sentence(&error));
                    zester_facts::built_in(&self.options.id)
                }
            };
            // Last: no custom fact takes its place.
            facts.insert(PUBLIC_KEY.into(), self.public_key.as_str().into());
            facts
        })
    }
}

fn outcome(answer: Result<Answer, Error>, canceled: bool) -> Outcome {
    match answer {
        Ok(Answer::Run(result)) => Outcome {
            success: result.success && result.error.is_empty(),
            error: document::run_sentence(&result),
            canceled: result.canceled,
            answer: serde_json::to_value(&result).unwrap_or_default(),
            revision: None,
        },
        Ok(Answer::Plain(answer)) => {
            Outcome { success: true, error: String::new(), answer, canceled: false, revision: None }
        }
        Err(error) => Outcome {
            success: false,
            error: document::error_sentence(&error),
            answer: document::of_error(&error),
            canceled,
            revision: None,
        },
    }
}

fn first_word(request: &ExecRequest) -> Option<&str> {
    Some(request.state_id.as_str()).filter(|word| !word.is_empty())
}

fn mode(test: bool) -> Mode {
    if test { Mode::Check } else { Mode::Apply }
}
