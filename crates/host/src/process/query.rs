//! The questions that a check may put to a program.
//!
//! A dry run must not be able to start just anything, so it is given this door and not the one of
//! [`Processes`]. Each question names the one program that answers it, and how it is called so that it can
//! only answer.

use super::read_tools::ReadTool;
use super::{Exit, Launch, Processes};
use crate::fault::{Fault, FaultKind};
use crate::services::SYSTEM_PATH;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// A question is answered from local files; longer means that something is stuck.
const TIMEOUT: Duration = Duration::from_secs(120);
/// An answer is read by us and counts only whole. The plan for a whole desktop is a quarter of a MiB.
const ANSWER_BYTES_MAX: usize = 8 * 1024 * 1024;

/// What is asked.
#[derive(Copy, Clone, Debug)]
pub enum Question<'a> {
    /// `dpkg-query -W`: which of these packages are known, one line each in this format.
    Packages { format: &'a str, names: &'a [String] },
    /// `apt-get --simulate`: what it would do if it were called with these words.
    Plan { words: &'a [String] },
    /// `systemctl show`: how a unit is.
    Unit { name: &'a str },
    /// `systemctl list-unit-files`: which services there are.
    UnitFiles,
    /// `rc-service NAME status`: how a service of OpenRC is.
    OpenRc { name: &'a str },
    /// `SCRIPT status`: how a service of an init script is, in an environment that is not ours.
    InitScript { script: &'a Path },
    /// `journalctl`: what the journal holds, with these words.
    Journal { words: &'a [String] },
    /// `git ls-remote`: what a repository offers, with the key of this file.
    GitRemote { url: &'a str, identity: Option<&'a str> },
    /// `pip list`: the packages of the environment that this program is of, asked as this user.
    Pip { program: &'a str, user: Option<&'a str>, words: &'a [String] },
    /// A program that can only tell, with these words behind its own.
    Read { tool: ReadTool, words: &'a [String] },
}

/// How git reaches a server by SSH: it never asks anybody, and with the key of this file if one is given.
pub fn git_ssh(identity: Option<&str>) -> String {
    let key = identity.map(|path| format!(" -i '{}' -o IdentitiesOnly=yes", path.replace('\'', "'\\''")));
    format!("ssh -o BatchMode=yes{}", key.unwrap_or_default())
}

/// What is asked of a unit.
const UNIT_PROPERTIES: &str = "--property=Id,LoadState,ActiveState,SubState,UnitFileState,NeedDaemonReload";

impl Question<'_> {
    fn program(&self) -> &str {
        match self {
            Question::Packages { .. } => "dpkg-query",
            Question::Plan { .. } => "apt-get",
            Question::Unit { .. } | Question::UnitFiles => "systemctl",
            Question::OpenRc { .. } => "rc-service",
            Question::InitScript { .. } => "env",
            Question::Journal { .. } => "journalctl",
            Question::GitRemote { .. } => "git",
            Question::Pip { program, .. } => program,
            Question::Read { tool, .. } => tool.program,
        }
    }

    fn user(&self) -> Option<String> {
        match self {
            Question::Pip { user, .. } => user.map(str::to_string),
            _ => None,
        }
    }

    fn words(&self) -> Vec<String> {
        let all = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let (fixed, words): (Vec<String>, &[String]) = match *self {
            Question::Packages { format, names } => (vec!["-W".into(), format!("-f={format}")], names),
            Question::Plan { words } => (vec!["--simulate".into()], words),
            Question::Unit { name } => (all(&["show", "--no-pager", UNIT_PROPERTIES, name]), &[]),
            Question::UnitFiles => {
                (all(&["list-unit-files", "--type=service", "--no-legend", "--no-pager", "--plain"]), &[])
            }
            Question::OpenRc { name } => (all(&[name, "status"]), &[]),
            Question::InitScript { script } => {
                let (path, script) = (format!("PATH={SYSTEM_PATH}"), script.display().to_string());
                (all(&["-i", &path, "TERM=dumb", &script, "status"]), &[])
            }
            Question::Journal { words } => (all(&["--no-pager", "--quiet"]), words),
            Question::GitRemote { url, identity } => {
                let ssh = format!("core.sshCommand={}", git_ssh(identity));
                (all(&["-c", &ssh, "-c", "credential.helper=", "ls-remote", "--", url]), &[])
            }
            Question::Pip { words, .. } => {
                let fixed = ["list", "--format=json", "--disable-pip-version-check", "--no-cache-dir"];
                (all(&fixed), words)
            }
            Question::Read { tool, words } => (all(tool.words), words),
        };
        let program = std::iter::once(self.program().to_string());
        program.chain(fixed).chain(words.iter().cloned()).collect()
    }
}

/// The door of a check to other programs.
#[derive(Copy, Clone)]
pub struct Query<'a>(&'a dyn Processes);

impl<'a> Query<'a> {
    pub fn through(processes: &'a dyn Processes) -> Query<'a> {
        Query(processes)
    }

    /// Whatever the answer is; that none came (cancelled, stuck, no such program) is a fault, and so is one that was
    /// cut: what is missing from it would be taken for what is not so.
    pub async fn ask(self, question: Question<'_>, cancel: &CancellationToken) -> Result<Exit, Fault> {
        let mut launch = Launch::argv(question.words());
        // Nobody is there to be asked for a password.
        let quiet = [("LC_ALL", "C"), ("GIT_TERMINAL_PROMPT", "0"), ("PYTHONDONTWRITEBYTECODE", "1")];
        launch.environment = quiet.map(|(name, value)| (name.to_string(), value.to_string())).to_vec();
        launch.user = question.user();
        launch.timeout = Some(TIMEOUT);
        launch.output_kept = ANSWER_BYTES_MAX;
        let exit = self.0.run(&launch, None, cancel).await?;
        if exit.canceled {
            return Err(Fault::canceled());
        }
        let program = question.program();
        if exit.timed_out {
            return Err(Fault::new(FaultKind::TimedOut, format!("{program} gave no answer in {TIMEOUT:?}")));
        }
        if exit.stdout.truncated || exit.stderr.truncated {
            let message = format!("{program} answered with more than {ANSWER_BYTES_MAX} bytes");
            return Err(Fault::new(FaultKind::CommandFailed, message).hint("ask for less at once"));
        }
        Ok(exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::fake::{Scripted, command_line, exit};
    use crate::process::read_tools::GETENT;

    #[tokio::test]
    async fn a_question_can_only_ask() {
        let processes = Scripted::new().with(|_| Some(Ok(exit(0, "", ""))));
        let cancel = CancellationToken::new();
        let words = ["-y".to_string(), "install".to_string(), "x".to_string()];
        let query = Query::through(&processes);
        query.ask(Question::Plan { words: &words }, &cancel).await.unwrap();
        query.ask(Question::Packages { format: "f", names: &words[2..] }, &cancel).await.unwrap();
        query.ask(Question::Read { tool: GETENT, words: &words[2..] }, &cancel).await.unwrap();
        assert_eq!(processes.ran(), ["apt-get --simulate -y install x", "dpkg-query -W -f=f x", "getent x"]);
    }

    #[tokio::test]
    async fn a_long_answer_is_kept_whole_and_one_that_was_cut_is_a_fault() {
        // Apt's plan for a whole desktop.
        let asked_for = 274_522;
        let processes = Scripted::new().with(move |launch| {
            let mut exit = exit(0, "Remv x [1]\n", "");
            exit.stdout.truncated =
                launch.output_kept < asked_for || command_line(launch).starts_with("dpkg-query");
            Some(Ok(exit))
        });
        let cancel = CancellationToken::new();
        let words = ["x".to_string()];
        let query = Query::through(&processes);
        assert!(query.ask(Question::Plan { words: &words }, &cancel).await.is_ok());
        let cut = query.ask(Question::Packages { format: "f", names: &words }, &cancel).await.unwrap_err();
        assert_eq!(cut.kind, FaultKind::CommandFailed);
        assert_eq!(cut.message, "dpkg-query answered with more than 8388608 bytes");
    }
}
