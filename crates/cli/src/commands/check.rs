//! `zester check`

use crate::answer::{self, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use crate::commands::apply;
use zester_converge::call::dry_run;
use zester_converge::raw_arguments::truth;

/// Show what apply would change, and change nothing
///
/// Requisites, guards and conditions are followed as a real run would follow them, with "would change" standing for
/// "changed". Guard commands (`onlyif`, `unless`) do run; nothing else does.
#[derive(clap::Args, Debug)]
pub struct Check {
    /// What to check: `web`, `web.config`, or a path to a state file
    #[arg(value_name = "REF")]
    pub references: Vec<String>,
    /// What it does anyway
    #[arg(long, hide = true)]
    pub test: bool,
    #[command(flatten)]
    pub running: Running,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Check, app: &mut App) -> answer::Result {
    let Check { references, test: _, running, mut inputs } = args;
    let (files, words) = apply::apart("check", references, &mut inputs)?;
    if words.iter().any(|word| truth(word) == Some(false)) {
        let why = "check never applies, and test=false asks it to; `zester apply` applies";
        return Err(Failure::usage(why));
    }
    let test = dry_run(true, words).map_err(Failure::usage)?;
    apply::converge(files, test, &running, &inputs, app)
}
