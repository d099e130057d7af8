//! The command line: one file a command, one place that prints, one list of exit codes.
//!
//! A command returns an [`Answer`](answer::Answer); [`output`] alone turns it into text, JSON or YAML. Answers go to
//! stdout, everything else (progress, notices, problems in text mode) to stderr.

mod answer;
mod app;
mod arguments;
mod bench;
mod bug;
mod commands;
mod config;
mod connection;
mod daemon;
mod exit;
mod fleet;
mod output;
mod signals;
mod target_first;
mod up;
mod up_url;

use clap::Parser;
use exit::Exit;
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs one command line and returns its exit code.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    bug::keep_quiet();
    let words = words.collect();
    bug::told(|| run(words)).into()
}

fn run(words: Vec<OsString>) -> Exit {
    let signals = match signals::Signals::hear() {
        Ok(signals) => signals,
        Err(error) => {
            output::to_stderr(&format!("error: signals cannot be heard: {error}\n"));
            return Exit::Usage;
        }
    };
    let words = target_first::rewrite(words, &command());
    match words.and_then(arguments::Zester::try_parse_from) {
        Ok(arguments) => app::App::run(arguments, signals),
        Err(error) => {
            let asked_for = !error.use_stderr();
            output::after(error.print(), if asked_for { Exit::Good } else { Exit::Usage })
        }
    }
}

/// The command as `completions` and `man` describe it.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    arguments::Zester::command()
}
