//! The command line: one file a command, one place that prints, one list of exit codes.
//!
//! A command returns an [`Answer`](answer::Answer); [`output`] alone turns it into text, JSON or YAML. Answers go to
//! stdout, everything else (progress, notices, problems in text mode) to stderr.

mod answer;
mod app;
mod arguments;
mod bench;
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
use std::ffi::OsString;
use std::process::ExitCode;

/// Runs one command line and returns its exit code.
pub fn main(words: impl Iterator<Item = OsString>) -> ExitCode {
    quiet_panics();
    let words = target_first::rewrite(words.collect(), &command());
    let arguments = match words.and_then(arguments::Zester::try_parse_from) {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { exit::Exit::Usage } else { exit::Exit::Good };
            // Nothing is left to tell if even this cannot be printed.
            let _ = error.print();
            return code.into();
        }
    };
    app::App::run(arguments).into()
}

/// The command as `completions` and `man` describe it.
pub fn command() -> clap::Command {
    use clap::CommandFactory;
    arguments::Zester::command()
}

/// A panic in a module becomes that state's error (S-33); its default report would tear through the live view.
fn quiet_panics() {
    if std::env::var_os("RUST_BACKTRACE").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
}
