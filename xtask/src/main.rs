//! Chores of the workspace.
//!
//! `cargo xtask tidy` checks the rules about the code itself: walls between crates, names, sizes, formats, licences,
//! and that every rule of the spec that is built has a test that states it. `cargo xtask rules` prints the rules and their tests.

mod licences;
mod rules;
mod stated;
mod tidy;
mod tree;
mod walls;

use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    match task.as_str() {
        "tidy" => tidy::run(),
        "rules" => rules::print(),
        _ => {
            eprintln!("usage: cargo xtask tidy|rules");
            ExitCode::FAILURE
        }
    }
}
