//! What every command needs: how to print, where things are, the machine.

use crate::answer::{self, Failure};
use crate::arguments::{Command, Format, Global, Inputs, Running, Zester};
use crate::config::{self, Config};
use crate::exit::Exit;
use crate::output::{Output, live};
use crate::signals::Signals;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use zester_converge::Error;
use zester_converge::data_dir::DataDir;
use zester_converge::deadline::Deadline;
use zester_converge::functions::Access;
use zester_converge::inputs::CompileRequest;
use zester_converge::journal;
use zester_converge::local_host::LocalHost;
use zester_converge::plan::Plan;
use zester_converge::run::{self, Options};
use zester_converge::run_loop::Observer;
use zester_converge::settings::SettingsRequest;
use zester_host::process::Runner;
use zester_model::limits;
use zester_model::outcome::{Mode, RunResult};

pub struct App {
    pub output: Output,
    pub config: Config,
    runtime: tokio::runtime::Runtime,
    runner: Runner,
    pub local_host: LocalHost,
    pub signals: Signals,
    /// Fires at the first signal, and when the time is over.
    pub cancel: CancellationToken,
    deadline: Deadline,
    /// What the command line said of the configuration, for those who start daemons.
    pub sets: Vec<String>,
    pub config_file: Option<PathBuf>,
}

/// Threads that talk to the bus and wait. A daemon must be small, and a client waits most of the time; what holds a
/// thread, a run does on threads of its own.
const THREADS: usize = 2;

impl App {
    /// Runs one command from its words to its exit code.
    pub fn run(arguments: Zester, signals: Signals) -> Exit {
        let output = Output::new(arguments.global.format, arguments.global.no_color);
        match App::new(&arguments.global, output, signals) {
            Ok(mut app) => {
                let exit = match app.dispatch(arguments.command) {
                    Ok((answer, exit)) => app.output.answer(answer, exit),
                    Err(failure) => app.output.failure(&failure),
                };
                // What hangs in a read of a dead file system ends with the process; nobody waits for it.
                app.runtime.shutdown_background();
                exit
            }
            Err((output, failure)) => output.failure(&failure),
        }
    }

    fn new(global: &Global, mut output: Output, signals: Signals) -> Result<App, (Output, Failure)> {
        let config = match Config::read(global.config.as_deref(), &global.set) {
            Ok(config) => config,
            Err(error) => return Err((output, error.into())),
        };
        if let Err(message) = output.configure(&config) {
            return Err((output, Failure::usage(message)));
        }
        match config.service_provider.as_deref().map(str::parse).transpose() {
            Ok(provider) => provider.into_iter().for_each(zester_host::services::configure),
            Err(why) => return Err((output, Failure::usage(format!("service_provider: {why}")))),
        }
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return Err((output, Failure::usage(format!("cannot start the runtime: {error}")))),
        };
        let runner = Runner::new();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(runner.clone()),
            handle: runtime.handle().clone(),
            events: None,
        };
        let (sets, config_file) = (global.set.clone(), global.config.clone());
        let cancel = signals.token().clone();
        let deadline = Deadline::none();
        Ok(App { output, config, runtime, runner, local_host, signals, cancel, deadline, sets, config_file })
    }

    fn dispatch(&mut self, command: Command) -> answer::Result {
        use crate::commands as on;
        self.deadline = Deadline::start(command.timeout(), self.runtime.handle(), &self.cancel);
        let draws = matches!(&command, Command::Graph(_))
            || matches!(&command, Command::Call(call) if call.function == "state.graph");
        let pages = matches!(&command, Command::Migrate(_)) && self.format() == Format::Html;
        if matches!(self.format(), Format::Dot | Format::Svg | Format::Html) && !draws && !pages {
            return Err(Failure::usage(
                "dot, svg and html are formats of `zester graph`, html is one of `zester migrate`; elsewhere there are text, json and yaml",
            ));
        }
        match command {
            Command::Apply(args) => on::apply::run(args, self),
            Command::Check(args) => on::check::run(args, self),
            Command::Revert(args) => on::revert::run(args, self),
            Command::Graph(args) => on::graph::run(args, self),
            Command::Call(args) => on::call::run(args, self),
            Command::Lint(args) => on::lint::run(args, self),
            Command::Migrate(args) => on::migrate::run(args, self),
            Command::Status(args) => on::status::run(args, self),
            Command::Doc(args) => on::doc::run(args, self),
            Command::Schema(args) => on::schema::run(args, self),
            Command::Completions(args) => on::completions::run(args, self),
            Command::Man(args) => on::man::run(args, self),
            Command::Version(args) => on::version::run(args, self),
            Command::OnFleet(args) => on::on_fleet::run(args, self),
            Command::Job(args) => on::job::run(args, self),
            Command::Event(args) => on::event::run(args, self),
            Command::Reactor(args) => on::reactor::run(args, self),
            Command::Schedule(args) => on::schedule::run(args, self),
            Command::Peel(args) => on::peel::run(args, self),
            Command::Target(args) => on::target::run(args, self),
            Command::Settings(args) => on::settings::run(args, self),
            Command::Master(args) => on::master::run(args, self),
            Command::Publish(args) => on::publish::run(args, self),
            Command::Secret(args) => on::secret::run(args, self),
            Command::Auth(args) => on::auth::run(args, self),
            Command::Enroll(args) => on::enroll::run(args, self),
            Command::Policy(args) => on::policy::run(args, self),
            Command::Audit(args) => on::audit::run(args, self),
            Command::Up(args) => on::up::run(args, self),
            Command::Bench(args) => on::bench::run(args, self),
            Command::WithParent(args) => on::with_parent::run(args, self),
        }
    }

    /// Waits for what talks to the bus, or for a signal that nobody listens to.
    pub fn block_on<T>(&self, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let _stop = self.signals.stop_orderly();
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                done = work => done,
                () = self.cancel.cancelled() => Err(self.canceled()),
            }
        })
    }

    /// Does what may block: reads files, runs programs of facts and templates. A signal or the deadline ends those with all that they
    /// started, and then the command, even if a read hangs (S-46).
    pub fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&LocalHost, &CancellationToken) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Failure> {
        let _stop = self.signals.stop_orderly();
        let (local_host, cancel) = (self.local_host.clone(), self.cancel.clone());
        let working = self.runtime.spawn_blocking(move || work(&local_host, &cancel));
        self.runtime.block_on(async {
            let done = tokio::select! {
                biased;
                () = self.cancel.cancelled() => None,
                done = working => Some(done),
            };
            match done {
                Some(done) if !self.cancel.is_cancelled() => Ok(joined(done)?),
                _ => {
                    let left: Vec<String> = self.runner.stop().await.iter().map(u32::to_string).collect();
                    if !left.is_empty() {
                        self.output
                            .notice(&format!("these processes could not be ended: {}", left.join(", ")));
                    }
                    Err(self.canceled())
                }
            }
        })
    }

    /// The failure of a command that a signal or its deadline ended.
    fn canceled(&self) -> Failure {
        match (self.signals.exit(), self.deadline.passed()) {
            (Some(exit), _) => Failure { error: Error::Canceled, exit },
            (None, Some(after)) => Error::TimedOut { after, waiting_for: String::new() }.into(),
            (None, None) => Error::Canceled.into(),
        }
    }

    /// Inputs of the command line over those of the configuration.
    pub fn request(&self, references: Vec<String>, inputs: &Inputs, access: Access) -> CompileRequest {
        let config = &self.config;
        CompileRequest {
            references,
            states: inputs.states.clone().or_else(|| config.states.clone()),
            settings: SettingsRequest {
                path: inputs.settings.clone().or_else(|| config.settings.clone()),
                merge: inputs.settings_merge.or(config.settings_merge).unwrap_or_default(),
                overrides: inputs.setting.clone(),
                ..SettingsRequest::default()
            },
            facts: inputs.facts.clone().or_else(|| config.facts.clone()),
            id: inputs.id.clone().or_else(|| config.id.clone()),
            ordered: inputs.ordered,
            environment: inputs.env.clone().or_else(|| config.env.clone()),
            only: None,
            access,
            renderers: config.renderers(),
            // Who only looks at files needs no secret.
            data_dir: if access == Access::ReadOnly { None } else { self.data_dir(inputs).ok() },
        }
    }

    pub fn data_dir(&self, inputs: &Inputs) -> Result<PathBuf, Error> {
        let named = inputs.data_dir.clone().or_else(|| self.config.data_dir.clone());
        named.map_or_else(|| config::default_data_dir(self.local_host.files.me().uid == 0), Ok)
    }

    pub fn plan(&self, request: &CompileRequest) -> Result<Plan, Failure> {
        let request = request.clone();
        let plan = self.blocking(move |local_host, cancel| Plan::make(&request, local_host, cancel))?;
        for warning in &plan.inputs.warnings {
            self.output.notice(warning);
        }
        Ok(plan)
    }

    pub fn options(&self, mode: Mode, inputs: &Inputs, running: &Running) -> Result<Options, Error> {
        let concurrency = running.concurrency.or(self.config.concurrency).map(|n| n as usize);
        Ok(Options {
            mode,
            data_dir: self.data_dir(inputs)?,
            concurrency: concurrency.unwrap_or(limits::CONCURRENCY_DEFAULT),
            deadline: self.deadline.clone(),
            no_wait: running.no_wait,
            force: false,
            run: None,
            turns: None,
        })
    }

    /// Runs a plan with the live view, and judges it.
    pub fn execute(&self, plan: Option<Plan>, options: &Options) -> answer::Result {
        self.execute_showing(plan, options, false)
    }

    /// The same, with what commands printed where `show_output` asks for it.
    pub fn execute_showing(
        &self,
        plan: Option<Plan>,
        options: &Options,
        show_output: bool,
    ) -> answer::Result {
        // Before anything is said about the run.
        match options.mode {
            Mode::Check => drop(DataDir::existing(&options.data_dir)?),
            Mode::Apply | Mode::Revert => drop(DataDir::open(&options.data_dir)?),
        }
        let plan = plan.map(Arc::new);
        // Kept to the end of the process, which is near: taking thousands of states apart one by one is time for nothing.
        std::mem::forget(plan.clone());
        let view = live::View::new(&self.output, plan.clone(), options.mode, show_output);
        let observer: Arc<live::View> = Arc::new(view);
        let _stop = self.signals.stop_orderly();
        let told = observer.clone();
        // Who only waits has nothing to stop: how that ends is told below.
        self.signals.tell_by(Some(Arc::new(move |text: &str| {
            if !told.waits_for_lock() {
                told.notice(text);
            }
        })));
        let ran = self.run_loop(plan.clone(), options.clone(), observer.clone());
        self.signals.tell_by(None);
        observer.finish();
        let result = match ran {
            Ok(result) => result,
            Err(error) => {
                let error = match error {
                    Error::Canceled if observer.waits_for_lock() => {
                        Error::other("canceled while waiting for the lock; nothing was run")
                    }
                    error => error,
                };
                let failure = Failure::from(error);
                let exit = self.signals.exit().unwrap_or(failure.exit);
                return Err(Failure { exit, ..failure });
            }
        };
        let exit = match self.signals.exit() {
            Some(exit) if result.canceled => exit,
            _ => Exit::of_run(&result),
        };
        let undoable = result.mode == Mode::Apply && self.is_undoable(options, &result.run_id);
        Ok((answer::Answer::Run { result: Box::new(result), plan, undoable }, exit))
    }

    /// By the records that a revert would use; what they say cannot be promised if they cannot be read.
    fn is_undoable(&self, options: &Options, run_id: &str) -> bool {
        let left = DataDir::existing(&options.data_dir).and_then(|data_dir| {
            data_dir.map_or(Ok(false), |data_dir| journal::is_undoable(&data_dir, run_id))
        });
        self.output.is_text() && left.unwrap_or(false)
    }

    /// Waits for a run, which works on threads of its own.
    fn run_loop(
        &self,
        plan: Option<Arc<Plan>>,
        options: Options,
        observer: Arc<live::View>,
    ) -> Result<RunResult, Error> {
        self.runtime.block_on(run::run(plan, &options, &self.local_host, observer, &self.cancel))
    }

    pub fn format(&self) -> Format {
        self.output.format()
    }
}

/// What a task came back with. Its panic is ours.
fn joined<T>(ended: Result<Result<T, Error>, JoinError>) -> Result<T, Error> {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(done) => done,
        Err(Ok(panic)) => std::panic::resume_unwind(panic),
        Err(Err(error)) => Err(Error::other(format!("it ended unexpectedly: {error}"))),
    }
}
