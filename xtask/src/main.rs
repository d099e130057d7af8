//! Chores of the workspace.
//!
//! `cargo xtask tidy` checks the rules about the code itself: walls between crates, names, sizes, formats, licences.

mod licences;
mod tidy;
mod tree;
mod walls;

use std::process::ExitCode;

fn main() -> ExitCode {
    let task = std::env::args().nth(1).unwrap_or_default();
    match task.as_str() {
        "tidy" => tidy::run(),
        _ => {
            eprintln!("usage: cargo xtask tidy");
            ExitCode::FAILURE
        }
    }
}
