//! The command line: one file a command, one place that prints, one list of exit codes.
//!
//! A command returns an [`Answer`](answer::Answer); [`output`] alone turns it into text, JSON or YAML. Answers go to
//! stdout, everything else (progress, notices, problems in text mode) to stderr.

mod answer;
mod app;
mod arguments;
mod auth;
mod bench;
mod bug;
mod commands;
mod config;
mod connection;
mod daemon;
mod exit;
mod fleet;
mod output;
mod secret;
mod signals;
mod target_first;
mod up;
mod up_url;

use clap::FromArgMatches;
use clap::error::{ContextKind, ContextValue};
use exit::Exit;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs one command line and returns its exit code.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    let words: Vec<OsString> = words.collect();
    if !serves_many(&words) {
        zester_host::heap::share_among_threads();
    }
    if is_command(&words, &["apply", "check"]) {
        zester_host::heap::use_large_pages();
        // Without it, the run looks for itself.
        let _without =
            std::thread::Builder::new().name("facts".into()).spawn(zester_converge::inputs::look_ahead);
    }
    ended(|| run(words))
}

/// Who works for many at once, on as many threads. A peel does not: its runs, one after the other, each on new threads, would
/// leave a heap behind for each. Known before anything is parsed, because the heap is set up before the first thread.
fn serves_many(words: &[OsString]) -> bool {
    is_command(words, &["master", "up", "bench"])
}

fn is_command(words: &[OsString], commands: &[&str]) -> bool {
    let command = words.get(1).and_then(|word| word.to_str());
    command.is_some_and(|command| commands.contains(&command))
}

/// How the process ends: as the work says, or with a word about the bug that stopped it.
fn ended(work: impl FnOnce() -> Exit) -> ExitCode {
    bug::keep_quiet();
    bug::told(work).into()
}

fn run(words: Vec<OsString>) -> Exit {
    let signals = match signals::Signals::hear() {
        Ok(signals) => signals,
        Err(error) => {
            output::to_stderr(&format!("error: signals cannot be heard: {error}\n"));
            return Exit::Usage;
        }
    };
    let mut command = command();
    let parsed = target_first::rewrite(words, &command).and_then(|words| {
        let parsed = parse(&words, &mut command);
        parsed.map_err(|error| {
            target_first::quote_command(with_plain_usage(error, &words), &words, &self::command())
        })
    });
    // Kept to the end of the process: taking all commands with all their flags apart is time for nothing.
    std::mem::forget(command);
    match parsed {
        Ok(arguments) => app::App::run(arguments, signals),
        Err(error) => {
            let asked_for = !error.use_stderr();
            output::after(error.print(), if asked_for { Exit::Good } else { Exit::Usage })
        }
    }
}

fn parse(words: &[OsString], command: &mut clap::Command) -> Result<arguments::Zester, clap::Error> {
    let mut matches = command.try_get_matches_from_mut(words)?;
    arguments::Zester::from_arg_matches_mut(&mut matches).map_err(|error| error.format(command))
}

/// Clap would show the flags that the environment gives as if somebody had typed them.
fn with_plain_usage(mut error: clap::Error, words: &[OsString]) -> clap::Error {
    if error.get(ContextKind::Usage).is_some() {
        let mut command = command();
        command.build();
        for word in words.iter().skip(1) {
            if let Some(inner) = word.to_str().and_then(|word| command.find_subcommand(word)).cloned() {
                command = inner;
            }
        }
        error.insert(ContextKind::Usage, ContextValue::StyledStr(command.render_usage()));
    }
    error
}

/// The command as `completions` and `man` describe it.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    arguments::Zester::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_ends_as_its_work_says_and_well_told_where_that_panics() {
        assert_eq!(ended(|| Exit::Good), ExitCode::SUCCESS);
        assert_eq!(ended(|| panic!("index 7 of 3")), ExitCode::from(1));
        let _ = std::panic::take_hook();
    }
}
