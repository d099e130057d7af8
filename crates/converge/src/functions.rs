//! Execution functions: plain questions with a plain answer, for `zester call` and for `salt[…]` in templates.
//!
//! One table. What a template may call depends on the command (S-10): `lint`, `graph` and `doc` get the read-only ones,
//! `check` and `apply` the `cmd` family too.

use serde_json::{Map, Value as Json, json};
use std::path::Path;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;
use zester_host::{Exit, Launch, Look, Processes};
use zester_model::limits;

/// What calling a function may do to the machine.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    ReadOnly,
    Command,
}

/// Everything a function may ask.
pub struct Place<'a> {
    pub look: &'a dyn Look,
    pub processes: &'a dyn Processes,
    pub handle: &'a Handle,
    pub facts: &'a Json,
    pub settings: &'a Json,
    pub cancel: &'a CancellationToken,
}

/// The arguments of one call.
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

type Call = fn(&Place<'_>, &Arguments) -> Result<Json, String>;

/// One execution function.
pub struct Function {
    pub name: &'static str,
    pub access: Access,
    /// One line, with the arguments.
    pub doc: &'static str,
    pub call: Call,
}

const fn read_only(name: &'static str, doc: &'static str, call: Call) -> Function {
    Function { name, access: Access::ReadOnly, doc, call }
}

const fn command(name: &'static str, doc: &'static str, call: Call) -> Function {
    Function { name, access: Access::Command, doc, call }
}

/// Every function there is.
pub static FUNCTIONS: &[Function] = &[
    read_only("cmd.has_exec", "cmd.has_exec PROGRAM: whether a program is in PATH", |place, args| {
        Ok(json!(find_program(place, &args.text(0, "cmd")?).is_some()))
    }),
    read_only("cmd.which", "cmd.which PROGRAM: where a program is, or nothing", |place, args| {
        Ok(find_program(place, &args.text(0, "cmd")?).map_or(Json::Null, Json::String))
    }),
    command("cmd.retcode", "cmd.retcode COMMAND: the exit code of a shell command", |place, args| {
        Ok(json!(run(place, args)?.code))
    }),
    command(
        "cmd.run_all",
        "cmd.run_all COMMAND: exit code, stdout and stderr of a shell command",
        |place, args| {
            let exit = run(place, args)?;
            Ok(
                json!({ "pid": exit.pid, "retcode": exit.code, "stdout": trimmed(&exit.stdout.text), "stderr": trimmed(&exit.stderr.text) }),
            )
        },
    ),
    command("cmd.run_stdout", "cmd.run_stdout COMMAND: what a shell command prints", |place, args| {
        Ok(json!(trimmed(&run(place, args)?.stdout.text)))
    }),
    command("cmd.shell", "cmd.shell COMMAND: what a shell command prints", |place, args| {
        Ok(json!(trimmed(&run(place, args)?.stdout.text)))
    }),
    read_only("environ.get", "environ.get NAME [DEFAULT]: a variable of the environment", |_, args| {
        let value = std::env::var(args.text(0, "key")?).ok().map(Json::String);
        Ok(value.or_else(|| args.get(1, "default").cloned()).unwrap_or(json!("")))
    }),
    read_only("facts.get", "facts.get KEY [DEFAULT]: one fact, `a:b` goes deeper", |place, args| {
        lookup(place.facts, args)
    }),
    read_only("facts.items", "facts.items: everything this machine says of itself", |place, _| {
        Ok(place.facts.clone())
    }),
    read_only("facts.keys", "facts.keys: the names of all facts", |place, _| {
        Ok(json!(place.facts.as_object().map(|map| map.keys().collect::<Vec<_>>())))
    }),
    read_only(
        "file.directory_exists",
        "file.directory_exists PATH: whether a directory is there",
        |place, args| exists(place, args, |sort| sort == zester_host::files::Sort::Directory),
    ),
    read_only("file.file_exists", "file.file_exists PATH: whether a file is there", |place, args| {
        exists(place, args, |sort| sort == zester_host::files::Sort::File)
    }),
    read_only("file.path_exists", "file.path_exists PATH: whether anything is there", |place, args| {
        exists(place, args, |_| true)
    }),
    read_only("file.read", "file.read PATH: the text of a file", |place, args| {
        let path = args.text(0, "path")?;
        let bytes = place
            .look
            .read(Path::new(&path), limits::RENDER_VALUE_BYTES_MAX as u64)
            .map_err(|fault| fault.to_string())?;
        String::from_utf8(bytes).map(Json::String).map_err(|_| format!("{path} is not UTF-8 text"))
    }),
    read_only("settings.get", "settings.get KEY [DEFAULT]: one setting, `a:b` goes deeper", |place, args| {
        lookup(place.settings, args)
    }),
    read_only("settings.items", "settings.items: all settings of this machine", |place, _| {
        Ok(place.settings.clone())
    }),
    read_only("sys.list_functions", "sys.list_functions: the names of all execution functions", |_, _| {
        Ok(json!(FUNCTIONS.iter().map(|function| function.name).collect::<Vec<_>>()))
    }),
    read_only(
        "sys.list_state_functions",
        "sys.list_state_functions: the names of all kinds of state",
        |_, _| Ok(json!(zester_resources::catalog().names().collect::<Vec<_>>())),
    ),
    read_only("test.echo", "test.echo TEXT: the text", |_, args| Ok(json!(args.text(0, "text")?))),
    read_only("test.version", "test.version: the version of this zester", |_, _| {
        Ok(json!(env!("CARGO_PKG_VERSION")))
    }),
];

/// Finds a function. `cmd.run`, a state module on the command line, is the plain command in a template.
pub fn find(name: &str) -> Option<&'static Function> {
    let name = match name {
        "cmd.run" => "cmd.run_stdout",
        "grains.get" => "facts.get",
        "grains.items" => "facts.items",
        "pillar.get" => "settings.get",
        "pillar.items" => "settings.items",
        other => other,
    };
    FUNCTIONS.iter().find(|function| function.name == name)
}

fn lookup(root: &Json, args: &Arguments) -> Result<Json, String> {
    let key = args.text(0, "key")?;
    let found = crate::settings::walk(root, &key).cloned();
    Ok(found.or_else(|| args.get(1, "default").cloned()).unwrap_or(Json::Null))
}

fn exists(
    place: &Place<'_>,
    args: &Arguments,
    fits: fn(zester_host::files::Sort) -> bool,
) -> Result<Json, String> {
    let path = args.text(0, "path")?;
    let found = place.look.stat_followed(Path::new(&path)).map_err(|fault| fault.to_string())?;
    Ok(json!(found.is_some_and(|meta| fits(meta.sort))))
}

fn find_program(place: &Place<'_>, name: &str) -> Option<String> {
    let path = std::env::var("PATH").unwrap_or_default();
    path.split(':').filter(|dir| !dir.is_empty()).map(|dir| Path::new(dir).join(name)).find_map(|candidate| {
        let meta = place.look.stat_followed(&candidate).ok()??;
        (meta.sort == zester_host::files::Sort::File && meta.mode & 0o111 != 0)
            .then(|| candidate.display().to_string())
    })
}

fn run(place: &Place<'_>, args: &Arguments) -> Result<Exit, String> {
    let mut launch = Launch::shell(args.text(0, "cmd")?);
    launch.cwd = args.named.get("cwd").and_then(Json::as_str).map(Into::into);
    launch.user = args.named.get("runas").and_then(Json::as_str).map(str::to_string);
    launch.timeout = Some(limits::TEMPLATE_COMMAND_TIMEOUT);
    if let Some(Json::Object(env)) = args.named.get("env") {
        let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        launch.environment = env.iter().map(|(key, value)| (key.clone(), text(value))).collect();
    }
    let exit = place
        .handle
        .block_on(place.processes.run(&launch, None, place.cancel))
        .map_err(|fault| fault.to_string())?;
    if exit.timed_out {
        return Err(format!("the command did not end in {} s", limits::TEMPLATE_COMMAND_TIMEOUT.as_secs()));
    }
    Ok(exit)
}

fn trimmed(output: &str) -> &str {
    output.trim_end_matches('\n')
}

/// The functions as templates call them.
pub struct TemplateFunctions<'a> {
    pub place: Place<'a>,
    pub allowed: Access,
}

impl zester_compile::Functions for TemplateFunctions<'_> {
    fn call(&self, name: &str, positional: Vec<Json>, named: Map<String, Json>) -> Result<Json, String> {
        let function = find(name).ok_or_else(|| format!("there is no function `{name}`"))?;
        if function.access > self.allowed {
            return Err(format!(
                "`{name}` runs a command; this subcommand only looks, so templates may not call it"
            ));
        }
        (function.call)(&self.place, &Arguments { positional, named })
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = FUNCTIONS.iter().map(|function| function.name.to_string()).collect();
        names.push("cmd.run".into());
        names
    }
}
