//! From a launch to a running child.

use super::find;
use super::setup::{Identity, Setup};
use super::table::MARK;
use super::{Launch, Program};
use crate::accounts::look_up_user;
use crate::fault::{Fault, FaultKind};
use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;
use tokio::process::{Child, Command};
use zester_model::secret::holds_placeholder;
use zester_secret::{Damaged, Revealed};

type Variables = Vec<(&'static str, String)>;

const SHELL: &str = "/bin/sh";

/// Everything that can be known to be wrong is said here, before anything runs.
pub(super) fn prepare(launch: &Launch, mark: &str, open_files: Option<(u64, u64)>) -> Result<Command, Fault> {
    refuse_secret_words(launch)?;
    if let Some(cwd) = &launch.cwd {
        check_directory(cwd)?;
    }
    let identity = launch.user.as_deref().map(identity_of).transpose()?;
    let mut command = program(launch)?;
    if let Some(cwd) = &launch.cwd {
        command.current_dir(cwd);
    }
    if let Some((_, environment)) = &identity {
        command.envs(environment.iter().map(|(key, value)| (key, value)));
    }
    for (name, value) in &launch.environment {
        match revealed(launch, value.as_bytes())? {
            Some(revealed) => command.env(name, OsStr::from_bytes(revealed.bytes())),
            None => command.env(name, value),
        };
    }
    if let Some(path) = &launch.path {
        command.env("PATH", path);
    }
    command.env(MARK, mark);
    command.process_group(0);
    command.stdin(if launch.stdin.is_some() { Stdio::piped() } else { Stdio::null() });
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let identity = identity.map(|(identity, _)| identity);
    Setup { identity, umask: launch.umask, open_files }.install(&mut command);
    Ok(command)
}

/// What stands in its environment or comes in by its input, with the secrets that are meant for it; `None` as it is.
fn revealed(launch: &Launch, bytes: &[u8]) -> Result<Option<Revealed>, Fault> {
    let Some(secrets) = &launch.secrets else { return Ok(None) };
    let damaged = |why: Damaged| Fault::new(FaultKind::Unsupported, why.to_string());
    secrets.reveal(bytes.to_vec()).map(Some).map_err(damaged)
}

/// What the command reads.
pub(super) fn input(launch: &Launch) -> Result<Option<Revealed>, Fault> {
    let Some(bytes) = &launch.stdin else { return Ok(None) };
    Ok(Some(revealed(launch, bytes)?.unwrap_or_else(|| bytes.clone().into())))
}

/// The words of a command are for all to read, in `/proc` and with `ps`.
fn refuse_secret_words(launch: &Launch) -> Result<(), Fault> {
    let held = match &launch.program {
        Program::Shell(text) => holds_placeholder(text),
        Program::Argv(words) => words.iter().any(|word| holds_placeholder(word)),
    };
    match held && launch.secrets.is_some() {
        true => Err(Fault::new(
            FaultKind::Unsupported,
            "a secret cannot be part of a command: every user of the machine could read it there",
        )
        .hint("give it in `env:` and write \"$NAME\", or in `stdin:`")),
        false => Ok(()),
    }
}

/// Starts it. A script that lost its interpreter fails here and not earlier.
pub(super) fn start(launch: &Launch, command: &mut Command) -> Result<Child, Fault> {
    command.spawn().map_err(|error| {
        let name = match &launch.program {
            Program::Shell(_) => SHELL,
            Program::Argv(words) => words.first().map_or("", String::as_str),
        };
        let hint = match error.raw_os_error() {
            Some(libc::ENOEXEC) => Some("a script begins with a line like `#!/bin/sh`"),
            Some(libc::ENOENT) => Some("the interpreter in its first line does not exist"),
            Some(libc::EMFILE | libc::ENFILE) => {
                Some("too many open files; lower the concurrency or raise `ulimit -n`")
            }
            Some(libc::EAGAIN) => Some("the limit of processes is reached (`ulimit -u`)"),
            _ => None,
        };
        let mut fault = Fault::io("start", Path::new(name), error);
        fault.hint = hint.map(str::to_string);
        fault
    })
}

/// Whether somebody still has the program open for writing.
pub(super) fn is_busy(fault: &Fault) -> bool {
    fault.source.as_ref().is_some_and(|error| error.raw_os_error() == Some(libc::ETXTBSY))
}

fn check_directory(cwd: &Path) -> Result<(), Fault> {
    match std::fs::metadata(cwd) {
        Ok(meta) if meta.is_dir() => Ok(()),
        Ok(_) => Err(Fault::new(
            FaultKind::InTheWay,
            format!("working directory {} is not a directory", cwd.display()),
        )),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Fault::new(
            FaultKind::NotFound,
            format!("working directory {} does not exist", cwd.display()),
        )),
        Err(error) => Err(Fault::io("enter the working directory", cwd, error)),
    }
}

fn program(launch: &Launch) -> Result<Command, Fault> {
    let words = match &launch.program {
        Program::Shell(text) => {
            let mut command = Command::new(SHELL);
            command.arg("-c").arg(text);
            return Ok(command);
        }
        Program::Argv(words) => words,
    };
    let empty = || Fault::new(FaultKind::Unsupported, "the command is empty");
    let (first, rest) = words.split_first().filter(|(first, _)| !first.is_empty()).ok_or_else(empty)?;
    let path = find::search_path(launch.path.as_deref(), &launch.environment);
    let file = find::find(first, &path, launch.cwd.as_deref())?;
    // With its full path std need not search again, which also keeps the fast spawn path.
    let mut command = Command::new(file);
    command.arg0(first).args(rest);
    Ok(command)
}

/// The numbers of a user and what its environment says about it.
fn identity_of(name: &str) -> Result<(Identity, Variables), Fault> {
    let user = look_up_user(name)?;
    let user =
        user.ok_or_else(|| Fault::new(FaultKind::NotFound, format!("user `{name}` does not exist")))?;
    let failed =
        |why: String| Fault::new(FaultKind::Io, format!("cannot find the groups of user `{name}`: {why}"));
    let c_name = CString::new(user.name.as_str()).map_err(|error| failed(error.to_string()))?;
    let groups = nix::unistd::getgrouplist(&c_name, nix::unistd::Gid::from_raw(user.gid))
        .map_err(|error| failed(error.desc().to_string()))?;
    let groups = groups.into_iter().map(nix::unistd::Gid::as_raw).collect();
    let home = user.home.display().to_string();
    let environment = vec![("HOME", home), ("USER", user.name.clone()), ("LOGNAME", user.name)];
    Ok((Identity { uid: user.uid, gid: user.gid, groups }, environment))
}
