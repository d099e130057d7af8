//! `zester with-parent`: becomes another program that ends when its parent does. Hidden: `zester up` starts its children so.

use crate::answer::{self, Failure};
use crate::app::App;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;

/// Become a program that ends with its parent
#[derive(clap::Args, Debug)]
pub struct WithParent {
    /// The parent; if it is another by now, it is gone
    #[arg(long, value_name = "PID")]
    pub parent: i32,
    /// Whether the end is SIGKILL instead of SIGTERM
    #[arg(long)]
    pub kill: bool,
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

pub fn run(args: WithParent, _: &mut App) -> answer::Result {
    use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
    let signal = if args.kill { Signal::KILL } else { Signal::TERM };
    set_parent_process_death_signal(Some(signal))
        .map_err(|error| Failure::usage(format!("cannot be bound to the parent: {error}")))?;
    if getppid() != Pid::from_raw(args.parent) {
        return Err(Failure::usage("the parent has gone"));
    }
    let Some((program, words)) = args.program.split_first() else {
        return Err(Failure::usage("no program"));
    };
    // Only comes back if there is no such program.
    let error = std::process::Command::new(program).args(words).exec();
    Err(Failure::usage(format!("cannot start {}: {error}", program.display())))
}
