//! Execution functions: plain questions with a plain answer, for `zester call` and for `salt[…]` in templates.
//!
//! One table. What a template may call depends on the command (S-10): `lint`, `graph` and `doc` get the read-only ones,
//! `check` and `apply` the `cmd` family too. Each function names what it takes, so that no word is ever ignored.

pub mod acting;
mod asked;
mod books;
mod by_template;
mod files;
mod kernel;
mod networks;
mod packages;
mod processes;
mod reference;
mod services;
mod status;
#[cfg(test)]
mod try_function;

use crate::local_host::LocalHost;
use crate::settings::{self, Origin};
use serde_json::{Map, Value as Json, json};
use std::path::Path;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zester_compile::CallError;
use zester_host::{Captured, Exit, HostRead, Launch, Processes};
use zester_model::limits;
use zester_model::suggest::did_you_mean;

/// What calling a function may do to the machine.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Nothing of the machine: only what is given with the call, facts and settings.
    Told,
    ReadOnly,
    Command,
}

/// Everything a function may ask.
pub struct CallContext<'a> {
    pub host: &'a dyn HostRead,
    pub processes: &'a dyn Processes,
    pub handle: &'a Handle,
    pub facts: &'a Json,
    pub settings: &'a Json,
    /// Where each setting comes from, for whoever asks that.
    pub origins: &'a [Origin],
    pub cancel: &'a CancellationToken,
    /// Head and tail of a long output are an answer, to somebody who reads them. Otherwise it counts only whole: a template
    /// would write the rest down as if it were all.
    pub cut_output: bool,
}

impl<'a> CallContext<'a> {
    /// On this very host, for a template.
    pub fn here(
        local_host: &'a LocalHost,
        facts: &'a Json,
        settings: &'a Json,
        cancel: &'a CancellationToken,
    ) -> CallContext<'a> {
        let (host, processes) = (local_host.files.as_ref(), local_host.processes.as_ref());
        let handle = &local_host.handle;
        CallContext { host, processes, handle, facts, settings, origins: &[], cancel, cut_output: false }
    }
}

/// The arguments of one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arguments {
    pub positional: Vec<Json>,
    pub named: Map<String, Json>,
}

impl Arguments {
    /// The argument at a position, or under its name.
    fn get(&self, position: usize, name: &str) -> Option<&Json> {
        self.positional.get(position).or_else(|| self.named.get(name))
    }

    fn text(&self, position: usize, name: &str) -> Result<String, String> {
        match self.get(position, name) {
            Some(Json::String(text)) => Ok(text.clone()),
            Some(Json::Null) | None => Err(format!("`{name}` is missing")),
            Some(other @ (Json::Number(_) | Json::Bool(_))) => Ok(other.to_string()),
            Some(_) => Err(format!("`{name}` must be a text")),
        }
    }
}

/// One parameter of a function.
#[derive(Debug)]
pub struct Takes {
    pub name: &'static str,
    pub required: bool,
    /// A text, which keeps its letters; anything else is a value (C-15).
    pub text: bool,
    /// Only ever given as `name=value`.
    pub by_name: bool,
}

/// A text that must be given.
const fn text(name: &'static str) -> Takes {
    Takes { name, required: true, text: true, by_name: false }
}

/// A text that may be given.
const fn maybe(name: &'static str) -> Takes {
    Takes { required: false, ..text(name) }
}

/// A value that may be given.
const fn value(name: &'static str) -> Takes {
    Takes { name, required: false, text: false, by_name: false }
}

const fn by_name(name: &'static str, text: bool) -> Takes {
    Takes { name, required: false, text, by_name: true }
}

/// What each of the `cmd` family takes. The last ones are Salt's and say what is so here anyway: a shell runs it, the
/// exit code is no error, and nothing is logged.
const COMMAND: &[Takes] = &[
    text("cmd"),
    by_name("cwd", true),
    by_name("runas", true),
    by_name("env", false),
    by_name("python_shell", false),
    by_name("ignore_retcode", false),
    by_name("output_loglevel", true),
];

type Call = fn(&CallContext<'_>, &Arguments) -> Result<Json, String>;

/// One execution function.
#[derive(Copy, Clone, Debug)]
pub struct Function {
    pub name: &'static str,
    pub access: Access,
    /// In the order of the bare words.
    pub takes: &'static [Takes],
    /// One line, with the arguments.
    pub doc: &'static str,
    call: Call,
}

impl Function {
    /// Answers, if the arguments are such as it takes.
    pub fn answer(&self, place: &CallContext<'_>, arguments: &Arguments) -> Result<Json, String> {
        self.check(arguments)?;
        (self.call)(place, arguments)
    }

    /// Whether it changes the machine by itself: a call of it is a run, with the lock and the journal of one. What a command
    /// does is for whoever wrote it to know.
    pub fn acts(&self) -> bool {
        let tries = ["network.connect", "network.ping"];
        self.access == Access::Command && !self.name.starts_with("cmd.") && !tries.contains(&self.name)
    }

    /// The answer to a call by itself, beside the files of this machine's states.
    pub fn answer_beside_files(
        &self,
        place: &CallContext<'_>,
        arguments: &Arguments,
        files: (&crate::inputs::Inputs, &LocalHost),
    ) -> Result<Json, String> {
        match by_template::is_of_templates(self) {
            true => by_template::answer(self, arguments, files.0, files.1, place.cancel),
            false => self.answer(place, arguments),
        }
    }

    /// The same for words of a command line, of which `A=b` may have been meant as a text.
    pub fn check_typed(&self, arguments: &Arguments) -> Result<(), String> {
        let strange = arguments.named.iter().find(|(name, _)| self.is_strange(name));
        let (Some(first), Some((name, given))) = (self.takes.first(), strange) else {
            return self.check(arguments);
        };
        let given = given.as_str().map_or_else(|| given.to_string(), str::to_string);
        self.check(arguments).map_err(|_| {
            let first = first.name;
            format!("there is no parameter `{name}`; if `{name}={given}` is its {first}, write {first}='{name}={given}'")
        })
    }

    /// Whether a name is no parameter, and not a slip of the pen either.
    fn is_strange(&self, name: &str) -> bool {
        let mut names = self.takes.iter().map(|takes| takes.name);
        !names.clone().any(|takes| takes == name) && did_you_mean(name, &mut names).is_none()
    }

    /// Says what it does not take, and what is missing.
    pub fn check(&self, arguments: &Arguments) -> Result<(), String> {
        let ordered = || self.takes.iter().filter(|takes| !takes.by_name);
        if let Some(extra) = arguments.positional.get(ordered().count()) {
            let extra = extra.as_str().map_or_else(|| extra.to_string(), str::to_string);
            return Err(match ordered().map(|takes| takes.name).collect::<Vec<_>>().join(", ") {
                none if none.is_empty() => format!("it takes no bare word; `{extra}` is one"),
                names => format!("`{extra}` is one word too many; it takes {names}"),
            });
        }
        for (name, given) in &arguments.named {
            let Some(place) = self.takes.iter().position(|takes| takes.name == name) else {
                return Err(self.unknown(name, given));
            };
            if !self.takes[place].by_name && place < arguments.positional.len() {
                return Err(format!("`{name}` is given twice, as a bare word and by name"));
            }
        }
        let missing = ordered().enumerate().find(|(place, takes)| {
            takes.required && arguments.get(*place, takes.name).is_none_or(Json::is_null)
        });
        match missing {
            Some((_, takes)) => Err(format!("`{}` is missing", takes.name)),
            None => Ok(()),
        }
    }

    fn unknown(&self, name: &str, given: &Json) -> String {
        let names: Vec<&str> = self.takes.iter().map(|takes| takes.name).collect();
        if let Some(hint) = did_you_mean(name, names.iter().copied()) {
            return format!("there is no parameter `{name}`; {hint}");
        }
        if names.is_empty() {
            let given = given.as_str().map_or_else(|| given.to_string(), str::to_string);
            return format!("it takes no parameters; `{name}={given}` is one");
        }
        format!("there is no parameter `{name}`; it takes {}", names.join(", "))
    }
}

const fn read_only(name: &'static str, takes: &'static [Takes], doc: &'static str, call: Call) -> Function {
    Function { name, access: Access::ReadOnly, takes, doc, call }
}

const fn told(name: &'static str, takes: &'static [Takes], doc: &'static str, call: Call) -> Function {
    Function { name, access: Access::Told, takes, doc, call }
}

const fn command(name: &'static str, doc: &'static str, call: Call) -> Function {
    Function { name, access: Access::Command, takes: COMMAND, doc, call }
}

/// Every function there is.
pub static FUNCTIONS: &[Function] = &joined::<COUNT>();

/// One table a room.
const TABLES: &[&[Function]] = &[
    GENERAL,
    books::TABLE,
    by_template::TABLE,
    files::TABLE,
    kernel::TABLE,
    networks::TABLE,
    packages::TABLE,
    processes::TABLE,
    reference::TABLE,
    services::TABLE,
];

const COUNT: usize = {
    let (mut count, mut table) = (0, 0);
    while table < TABLES.len() {
        count += TABLES[table].len();
        table += 1;
    }
    count
};

const fn joined<const N: usize>() -> [Function; N] {
    let mut all = [GENERAL[0]; N];
    let (mut at, mut table) = (0, 0);
    while table < TABLES.len() {
        let mut row = 0;
        while row < TABLES[table].len() {
            all[at] = TABLES[table][row];
            at += 1;
            row += 1;
        }
        table += 1;
    }
    all
}

const GENERAL: &[Function] = &[
    read_only(
        "beacons.list",
        &[value("name")],
        "beacons.list [NAME]: what a peel watches, and what it saw last",
        by_peel_itself,
    ),
    asked::ALTERNATIVES,
    read_only(
        "cmd.has_exec",
        &[text("cmd")],
        "cmd.has_exec PROGRAM: whether a program is in PATH",
        |place, args| Ok(json!(find_program(place, &args.text(0, "cmd")?).is_some())),
    ),
    read_only(
        "cmd.which",
        &[text("cmd")],
        "cmd.which PROGRAM: where a program is, or nothing",
        |place, args| Ok(find_program(place, &args.text(0, "cmd")?).map_or(Json::Null, Json::String)),
    ),
    command("cmd.retcode", "cmd.retcode COMMAND: the exit code of a shell command", |place, args| {
        Ok(json!(run(place, args)?.code))
    }),
    command(
        "cmd.run_all",
        "cmd.run_all COMMAND: exit code, stdout and stderr of a shell command",
        |place, args| {
            let exit = run(place, args)?;
            let (stdout, stderr) = (printed(place, &exit.stdout)?, printed(place, &exit.stderr)?);
            Ok(json!({ "pid": exit.pid, "retcode": exit.code, "stdout": stdout, "stderr": stderr }))
        },
    ),
    command("cmd.run_stdout", "cmd.run_stdout COMMAND: what a shell command prints", |place, args| {
        Ok(json!(printed(place, &run(place, args)?.stdout)?))
    }),
    command(
        "cmd.run_stderr",
        "cmd.run_stderr COMMAND: what a shell command prints as its errors",
        |place, args| Ok(json!(printed(place, &run(place, args)?.stderr)?)),
    ),
    command("cmd.shell", "cmd.shell COMMAND: what a shell command prints", |place, args| {
        Ok(json!(printed(place, &run(place, args)?.stdout)?))
    }),
    status::USAGE,
    read_only(
        "environ.get",
        &[text("key"), value("default")],
        "environ.get NAME [DEFAULT]: a variable of the environment",
        |_, args| {
            let value = std::env::var(args.text(0, "key")?).ok().map(Json::String);
            Ok(value.or_else(|| args.get(1, "default").cloned()).unwrap_or(json!("")))
        },
    ),
    told(
        "facts.get",
        &[text("key"), value("default")],
        "facts.get KEY [DEFAULT]: one fact, `a:b` goes deeper",
        |place, args| lookup(place.facts, args),
    ),
    told("facts.items", &[], "facts.items: everything this machine says of itself", |place, _| {
        Ok(place.facts.clone())
    }),
    told("facts.keys", &[], "facts.keys: the names of all facts", |place, _| {
        Ok(json!(place.facts.as_object().map(|map| map.keys().collect::<Vec<_>>())))
    }),
    asked::FILE_CONTAINS,
    read_only(
        "file.directory_exists",
        &[text("path")],
        "file.directory_exists PATH: whether a directory is there",
        |place, args| exists(place, args, |sort| sort == zester_host::files::FileKind::Directory),
    ),
    read_only(
        "file.file_exists",
        &[text("path")],
        "file.file_exists PATH: whether a file is there",
        |place, args| exists(place, args, |sort| sort == zester_host::files::FileKind::File),
    ),
    read_only(
        "file.path_exists",
        &[text("path")],
        "file.path_exists PATH: whether anything is there",
        |place, args| exists(place, args, |_| true),
    ),
    read_only("file.read", &[text("path")], "file.read PATH: the text of a file", |place, args| {
        let path = args.text(0, "path")?;
        let bytes = place
            .host
            .read(Path::new(&path), limits::RENDER_VALUE_BYTES_MAX as u64)
            .map_err(|fault| fault.to_string())?;
        String::from_utf8(bytes).map(Json::String).map_err(|_| format!("{path} is not UTF-8 text"))
    }),
    asked::FILE_READDIR,
    asked::GROUP_INFO,
    asked::HOSTS,
    asked::LOG_CRITICAL,
    asked::LOG_DEBUG,
    asked::LOG_ERROR,
    asked::LOG_INFO,
    asked::LOG_WARNING,
    asked::MINE_GET,
    asked::NETWORK_ADDRS,
    asked::NETWORK_HOSTNAME,
    asked::NETWORK_ADDRS6,
    asked::PKG_VERSION_CMP,
    read_only(
        "schedule.list",
        &[],
        "schedule.list: what the schedule of a peel runs next, and ran last",
        by_peel,
    ),
    read_only(
        "schedule.run",
        &[text("name")],
        "schedule.run NAME: runs an entry of a peel's schedule now",
        by_peel,
    ),
    read_only(
        "schedule.show",
        &[value("name")],
        "schedule.show [NAME]: entries of a peel's schedule with their last results",
        by_peel,
    ),
    told(
        SYNC_ALL,
        &[value("saltenv"), by_name("refresh", false), by_name("async", false)],
        "saltutil.sync_all [SALTENV]: true; nothing is loaded while a machine runs",
        |_, _| Ok(json!(true)),
    ),
    told(
        "settings.get",
        &[text("key"), value("default")],
        "settings.get KEY [DEFAULT]: one setting, `a:b` goes deeper",
        |place, args| lookup(place.settings, args),
    ),
    told("settings.item", &[text("key")], "settings.item KEY: one setting under its name", |place, args| {
        let key = args.text(0, "key")?;
        let found = settings::walk(place.settings, &key).cloned().unwrap_or(json!(""));
        Ok(Json::Object(Map::from_iter([(key, found)])))
    }),
    told("settings.items", &[], "settings.items: all settings of this machine", |place, _| {
        Ok(place.settings.clone())
    }),
    told("settings.keys", &[], "settings.keys: the names of all settings", |place, _| {
        Ok(json!(place.settings.as_object().map(|map| map.keys().collect::<Vec<_>>())))
    }),
    told(
        "settings.show",
        &[maybe("key")],
        "settings.show [KEY]: settings, and the file and line that each comes from",
        |place, args| {
            let key = args.get(0, "key").map(|_| args.text(0, "key")).transpose()?;
            Ok(settings::document(place.settings, place.origins, key.as_deref()))
        },
    ),
    status::CPUINFO,
    status::LOADAVG,
    status::MEMINFO,
    status::UPTIME,
    told("test.echo", &[text("text")], "test.echo TEXT: the text", |_, args| {
        Ok(json!(args.text(0, "text")?))
    }),
    told("test.false", &[], "test.false: false", |_, _| Ok(json!(false))),
    told("test.ping", &[], "test.ping: true", |_, _| Ok(json!(true))),
    told("test.true", &[], "test.true: true", |_, _| Ok(json!(true))),
    told("test.version", &[], "test.version: the version of this zester", |_, _| {
        Ok(json!(env!("CARGO_PKG_VERSION")))
    }),
    asked::USER_INFO,
];

/// Salt's way to hand modules, facts and settings to a minion that runs.
const SYNC_ALL: &str = "saltutil.sync_all";

/// Other names of functions. `cmd.run`, a state module on the command line, is the plain command in a template.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("cmd.run", "cmd.run_stdout"),
    ("file.contains_regex", "file.search"),
    ("file.get_sum", "file.get_hash"),
    ("grains.fetch", "facts.get"),
    ("grains.get", "facts.get"),
    ("grains.has_value", "facts.has_value"),
    ("grains.item", "facts.item"),
    ("grains.items", "facts.items"),
    ("grains.keys", "facts.keys"),
    ("grains.ls", "facts.keys"),
    ("network.fqdn", "network.get_hostname"),
    ("network.get_fqdn", "network.get_hostname"),
    ("network.hwaddr", "network.hw_addr"),
    ("network.ipaddrs", "network.ip_addrs"),
    ("network.ipaddrs6", "network.ip_addrs6"),
    ("pillar.fetch", "settings.get"),
    ("pillar.get", "settings.get"),
    ("pillar.item", "settings.item"),
    ("pillar.items", "settings.items"),
    ("pillar.keys", "settings.keys"),
    ("pillar.ls", "settings.keys"),
    ("pkg.available_version", "pkg.latest_version"),
    ("saltutil.clear_cache", SYNC_ALL),
    ("saltutil.refresh_beacons", SYNC_ALL),
    ("saltutil.refresh_grains", SYNC_ALL),
    ("saltutil.refresh_modules", SYNC_ALL),
    ("saltutil.refresh_pillar", SYNC_ALL),
    ("saltutil.sync_grains", SYNC_ALL),
    ("saltutil.sync_modules", SYNC_ALL),
    ("saltutil.sync_pillar", SYNC_ALL),
    ("saltutil.sync_states", SYNC_ALL),
    ("saltutil.sync_utils", SYNC_ALL),
    ("status.diskusage", "disk.usage"),
    ("systemd.systemctl_reload", "service.systemctl_reload"),
];

/// Finds a function, by whichever of its names.
pub fn find(name: &str) -> Option<&'static Function> {
    let own = OTHER_NAMES.iter().find(|(other, _)| *other == name).map_or(name, |(_, own)| *own);
    FUNCTIONS.iter().find(|function| function.name == own)
}

/// The same, of its beacons.
fn by_peel_itself(_: &CallContext<'_>, _: &Arguments) -> Result<Json, String> {
    Err("a peel that runs answers this; `zester PEEL beacons.list` asks it".into())
}

/// What only a peel that runs can answer.
fn by_peel(_: &CallContext<'_>, _: &Arguments) -> Result<Json, String> {
    Err("a peel that runs answers this; `zester schedule list` asks the peels".into())
}

fn lookup(root: &Json, args: &Arguments) -> Result<Json, String> {
    let key = args.text(0, "key")?;
    let found = settings::walk(root, &key).cloned();
    Ok(found.or_else(|| args.get(1, "default").cloned()).unwrap_or(Json::Null))
}

fn exists(
    place: &CallContext<'_>,
    args: &Arguments,
    fits: fn(zester_host::files::FileKind) -> bool,
) -> Result<Json, String> {
    let path = args.text(0, "path")?;
    let found = place.host.stat_followed(Path::new(&path)).map_err(|fault| fault.to_string())?;
    Ok(json!(found.is_some_and(|meta| fits(meta.kind))))
}

fn find_program(place: &CallContext<'_>, name: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(name)).find_map(|candidate| {
        let meta = place.host.stat_followed(&candidate).ok()??;
        (meta.kind == zester_host::files::FileKind::File && meta.mode & 0o111 != 0)
            .then(|| candidate.display().to_string())
    })
}

fn run(place: &CallContext<'_>, args: &Arguments) -> Result<Exit, String> {
    let mut launch = Launch::shell(args.text(0, "cmd")?);
    launch.cwd = args.named.get("cwd").and_then(Json::as_str).map(Into::into);
    launch.user = args.named.get("runas").and_then(Json::as_str).map(str::to_string);
    launch.timeout = Some(limits::TEMPLATE_COMMAND_TIMEOUT);
    if !place.cut_output {
        launch.output_kept = limits::RENDER_VALUE_BYTES_MAX;
    }
    if let Some(Json::Object(env)) = args.named.get("env") {
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        launch.environment = env.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    }
    let exit = place
        .handle
        .block_on(place.processes.run(&launch, None, place.cancel))
        .map_err(|fault| fault.to_string())?;
    if exit.canceled {
        return Err("canceled".to_string());
    }
    if exit.timed_out {
        return Err(format!("the command did not end in {} s", limits::TEMPLATE_COMMAND_TIMEOUT.as_secs()));
    }
    Ok(exit)
}

/// What a command printed, without the line ends at its end.
fn printed<'a>(place: &CallContext<'_>, output: &'a Captured) -> Result<&'a str, String> {
    if output.truncated && !place.cut_output {
        let most = limits::RENDER_VALUE_BYTES_MAX >> 20;
        return Err(format!("the command printed more than {most} MiB; let it print less, or read a file"));
    }
    Ok(output.text.trim_end_matches('\n'))
}

/// The functions as templates call them.
pub struct TemplateFunctions<'a> {
    pub place: CallContext<'a>,
    pub allowed: Access,
    pub renderers: crate::inputs::Renderers,
}

impl zester_compile::Functions for TemplateFunctions<'_> {
    fn call(&self, name: &str, positional: Vec<Json>, named: Map<String, Json>) -> Result<Json, CallError> {
        let function = find(name).ok_or_else(|| format!("there is no function `{name}`"))?;
        if function.access > self.allowed && self.allowed == Access::Told {
            let message = format!("`{name}` looks at the machine that it runs on, which is another one");
            return Err(CallError::Elsewhere(message));
        }
        if function.access > self.allowed {
            let message =
                format!("`{name}` runs a command; this subcommand only looks, so templates may not call it");
            return Err(message.into());
        }
        Ok(function.answer(&self.place, &Arguments { positional, named })?)
    }

    fn python(
        &self,
        program: &zester_compile::PythonFile<'_>,
        call: zester_compile::PythonCall<'_>,
    ) -> Result<Json, CallError> {
        if self.allowed == Access::Told {
            let message = "`#!py` runs on the machine that it is for, which is another one";
            return Err(CallError::Elsewhere(message.into()));
        }
        if !self.renderers.python {
            let message = "`#!py` runs a program whenever the file is read, so it is off; `renderers: {py: true}` in the configuration switches it on";
            return Err(message.to_string().into());
        }
        Ok(crate::python_program::run(program, call, &self.place)?)
    }

    fn names(&self) -> Vec<String> {
        let names = FUNCTIONS.iter().map(|function| function.name);
        names.chain(OTHER_NAMES.iter().map(|(other, _)| *other)).map(String::from).collect()
    }
}

#[cfg(test)]
mod tests;
