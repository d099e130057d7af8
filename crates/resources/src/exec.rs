//! `exec.run`, `cmd.run`, `cmd.wait`, `cmd.script`: run a command. One implementation, four names.

mod judge;
mod script;
mod variant;

pub use variant::{CmdRun, CmdScript, CmdWait, ExecRun};

use crate::context::{Applying, Checking, Explanation, Forced, GuardSetting};
use crate::params::{Absolute, Environment, Invalid, Mode, Time, params};
use crate::shell_words;
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::PathBuf;
use zester_host::overlay::Overlay;
use zester_host::{Fault, FaultKind, HostRead, Launch, Processes, Program};
use zester_model::limits::ARGUMENT_BYTES_MAX;
use zester_model::outcome::Details;
use zester_secret::Revealed;

/// A command, and when it is to run.
#[params(kind = "exec.run", primary = "command", manual = "exec_run.md")]
pub struct Exec {
    /// What to run.
    command: String,
    /// With it, `command` is the program, these are its arguments, and no shell is used.
    #[param(list)]
    args: Option<Vec<String>>,
    /// `posix` splits the command into words with shell quoting and executes it directly; `shell` is `/bin/sh
    /// -c`.
    provider: Option<Provider>,
    /// The working directory. Missing is an error before anything runs.
    cwd: Option<Absolute>,
    /// Variables added to the environment: a list of `KEY=value`, or a map.
    #[param(alias = "env", secret, default)]
    environment: Environment,
    /// PATH, for finding the program and for the program itself. Every entry is absolute.
    path: Option<String>,
    /// Exit codes that count as success. Default: `[0]`.
    #[param(alias = "success_retcodes", list, default = vec![0])]
    returns: Vec<i64>,
    /// When it passes, the command and all it started are killed, and the state fails.
    timeout: Option<Time>,
    /// Files that show that it was done already: if all exist, it is not run.
    #[param(list, default)]
    creates: Vec<String>,
    /// Runs only when a state that it watches has changed.
    #[param(alias = "refreshonly", default)]
    refresh_only: bool,
    /// Shows each line of output while it runs, and logs it.
    #[param(default)]
    logoutput: bool,
    /// What the command reads.
    #[param(secret)]
    stdin: Option<String>,
    /// Permission bits that files it creates do not get.
    umask: Option<Mode>,
    /// The user to run as, with all of its groups.
    #[param(alias = "user")]
    runas: Option<String>,
    /// The script to run: `salt://…`, `zester://…` or a path below the states directory. Default: the first
    /// word of `command`.
    source: Option<String>,
    /// `jinja` renders the script first.
    template: Option<script::Template>,
    /// Variables for the template.
    #[param(secret, default)]
    context: Details,
}

/// What a file would have that a command creates, as far as anybody can tell.
const CREATED_MODE: u32 = 0o644;

fn too_long(what: &str) -> String {
    format!("{what} has {ARGUMENT_BYTES_MAX} bytes at most; a `cmd.script` or `stdin` may be longer")
}

/// How the command becomes a process.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    Posix,
    Shell,
}

/// That it is to run, and why.
pub struct Due {
    /// A watched state changed.
    via_subscribe: bool,
    script: Option<Revealed>,
}

impl Exec {
    /// X-1, after the guards: triggered, else `creates`, else `refresh_only`.
    async fn decide(&self, cx: &Checking<'_>, variant: &variant::VariantSpec) -> Result<Option<Due>, Fault> {
        let waits = self.refresh_only || variant.refresh_only;
        if cx.forced.is_none() && (waits || self.created(cx.host)?) {
            return Ok(None);
        }
        let script = if variant.script { Some(self.script(cx)?) } else { None };
        Ok(Some(Due { via_subscribe: cx.forced == Some(Forced::Watch), script }))
    }

    fn creates(&self) -> impl Iterator<Item = PathBuf> + '_ {
        let base = self.cwd.as_ref().map_or_else(|| PathBuf::from("/"), |cwd| cwd.0.clone());
        self.creates.iter().map(move |path| base.join(path))
    }

    /// There is a `creates`, and all of it exists.
    fn created(&self, host: &dyn HostRead) -> Result<bool, Fault> {
        for path in self.creates() {
            if host.stat_followed(&path)?.is_none() {
                return Ok(false);
            }
        }
        Ok(!self.creates.is_empty())
    }

    fn describe(&self, due: &Due, done: bool) -> Explanation {
        let verb = if done { "Executed" } else { "Would have executed" };
        let via = if due.via_subscribe { " via subscribe" } else { "" };
        let mut details = Details::new();
        details.insert("command".into(), self.shown().into());
        Explanation { diff: format!("{verb}{via}"), details }
    }

    /// The command as a user would type it.
    fn shown(&self) -> String {
        let args = self.args.iter().flatten().map(|word| shell_words::quoted(word));
        std::iter::once(self.command.clone()).chain(args).collect::<Vec<_>>().join(" ")
    }

    fn program(&self, provider: Provider) -> Result<Program, String> {
        if let Some(args) = &self.args {
            let words = std::iter::once(self.command.clone()).chain(args.iter().cloned());
            return Ok(Program::Argv(words.collect()));
        }
        match provider {
            Provider::Shell => Ok(Program::Shell(self.command.clone())),
            Provider::Posix => shell_words::split(&self.command).map(Program::Argv),
        }
    }

    fn launch(&self, program: Program) -> Launch {
        Launch {
            cwd: self.cwd.as_ref().map(|cwd| cwd.0.clone()),
            environment: self.environment.0.clone(),
            path: self.path.clone(),
            stdin: self.stdin.as_ref().map(|text| text.clone().into_bytes()),
            umask: self.umask.map(|umask| umask.0),
            user: self.runas.clone(),
            timeout: self.timeout.map(|time| time.0),
            ..Launch::new(program)
        }
    }

    async fn act(
        &self,
        due: &Due,
        cx: &Applying<'_>,
        variant: &variant::VariantSpec,
    ) -> Result<Explanation, Fault> {
        let provider = self.provider.unwrap_or(variant.provider);
        let (exit, left) = match &due.script {
            Some(script) => self.run_script(script.bytes(), cx).await?,
            None => {
                let program = self.program(provider).map_err(judge::malformed)?;
                (self.run(&self.launch(program), cx.processes, cx).await?, None)
            }
        };
        let mut details = judge::details(self.shown(), &exit);
        details.extend(left.clone().map(|left| ("warning".to_string(), left.into())));
        let created = self.created(cx.host)?;
        match judge::judge(&exit, &self.returns, created, self.timeout.map(|time| time.0)) {
            Ok(()) => match left {
                None => Ok(Explanation { diff: self.describe(due, true).diff, details }),
                Some(left) => {
                    let message = format!("it ran, but its script is left: {left}");
                    Err(Fault::new(FaultKind::Io, message).details(details).touched())
                }
            },
            // It ran: what it did until then only its author knows.
            Err(fault) => Err(fault.details(details).touched()),
        }
    }

    async fn run(
        &self,
        launch: &Launch,
        processes: &dyn Processes,
        cx: &Applying<'_>,
    ) -> Result<zester_host::Exit, Fault> {
        processes.run(launch, cx.output(self.logoutput), cx.cancel).await
    }

    /// What the command promises to create counts as there for later states of a dry run; what it holds is not known.
    fn predict(&self, overlay: &Overlay) -> Result<(), Fault> {
        for path in self.creates() {
            let parent = path.parent().unwrap_or(&path);
            let there = overlay.stat(&path)?.is_some();
            if !there
                && overlay
                    .stat_followed(parent)?
                    .is_some_and(|meta| meta.kind == zester_host::FileKind::Directory)
            {
                overlay.predict_file(&path, CREATED_MODE)?;
            }
        }
        Ok(())
    }

    fn validate(&self, variant: &variant::VariantSpec) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        let mut refuse =
            |parameter, message: String| invalid.push(Invalid { parameter, message, hint: None });
        let provider = self.provider.unwrap_or(variant.provider);
        if self.command.trim().is_empty() {
            refuse("command", "the command is empty".to_string());
        } else if self.command.contains('\0') {
            refuse("command", "a command cannot hold a NUL character".to_string());
        } else if self.args.is_none() && (provider == Provider::Posix || variant.script) {
            match shell_words::split(&self.command) {
                Err(why) => refuse("command", why),
                Ok(split) if split.first().is_none_or(String::is_empty) => {
                    refuse("command", "the command is empty".to_string());
                }
                Ok(_) => {}
            }
        }
        if let Ok(program) = self.program(provider) {
            let words = match program {
                Program::Shell(text) => vec![text],
                Program::Argv(words) => words,
            };
            if words.first().is_some_and(|first| first.len() > ARGUMENT_BYTES_MAX) {
                refuse("command", too_long("a command"));
            } else if words.iter().any(|word| word.len() > ARGUMENT_BYTES_MAX) {
                let parameter = if self.args.is_some() { "args" } else { "command" };
                refuse(parameter, too_long("an argument"));
            }
        }
        let variable = |(name, value): &(String, String)| name.len() + "=".len() + value.len();
        if self.environment.0.iter().any(|pair| variable(pair) > ARGUMENT_BYTES_MAX) {
            refuse("environment", too_long("a variable"));
        }
        if let Some(entry) =
            self.path.iter().flat_map(|path| path.split(':')).find(|entry| !entry.starts_with('/'))
        {
            refuse("path", format!("the entry `{entry}` is not absolute; every entry begins with `/`"));
        }
        if let Some(code) = self.returns.iter().find(|code| !(0..=255).contains(*code)) {
            refuse("returns", format!("`{code}` is not an exit code; those are 0 to 255"));
        }
        if self.returns.is_empty() {
            refuse("returns", "no exit code would be a success".to_string());
        }
        if self.timeout.is_some_and(|time| time.0.is_zero()) {
            refuse("timeout", "it would be over before it began".to_string());
        }
        if let Some(path) = self.creates.iter().find(|path| !path.starts_with('/') && self.cwd.is_none()) {
            refuse("creates", format!("`{path}` is not absolute, and there is no `cwd` it could belong to"));
        }
        if self.umask.is_some_and(|umask| umask.0 > 0o777) {
            refuse("umask", "a umask has three octal digits at most".to_string());
        }
        if let Some(diagnostic) = self.source.as_deref().and_then(crate::params::outside_states) {
            refuse("source", diagnostic);
        }
        let of_scripts = [("source", self.source.is_some()), ("template", self.template.is_some())];
        for (parameter, given) in of_scripts {
            if given && !variant.script {
                refuse(parameter, "only `cmd.script` has it".to_string());
            }
        }
        invalid
    }

    fn guard_setting(&self) -> GuardSetting {
        GuardSetting {
            cwd: self.cwd.as_ref().map(|cwd| cwd.0.clone()),
            environment: self.environment.0.clone(),
            path: self.path.clone(),
            timeout: self.timeout.map(|time| time.0),
            user: self.runas.clone(),
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
