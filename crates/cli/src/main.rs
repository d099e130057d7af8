//! The `zester` binary: parse, run, turn the outcome into an exit code.

use std::process::ExitCode;

fn main() -> ExitCode {
    zester_cli::main(std::env::args_os())
}
