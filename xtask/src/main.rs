//! Chores of the workspace.
//!
//! `cargo xtask tidy` checks the rules about the code itself: walls between crates, names, sizes, the glossary, formats, licences, dependencies,
//! and that every rule of the spec that is built has a test that states it. `cargo xtask rules` prints the rules and their tests,
//! `cargo xtask tally` how a test run ended. `cargo xtask new-kind ntp.managed` begins a kind of state.

mod glossary;
mod licences;
mod new_kind;
mod rules;
mod source;
mod stated;
mod tally;
mod tidy;
mod tree;
mod unused;
mod walls;

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    match words.next().unwrap_or_default().as_str() {
        "tidy" => tidy::run(),
        "rules" => rules::print(),
        "new-kind" => new_kind::run(words.next()),
        "tally" => tally::run(words.next(), words.next()),
        _ => {
            eprintln!("usage: cargo xtask tidy|rules|tally|new-kind");
            ExitCode::FAILURE
        }
    }
}
