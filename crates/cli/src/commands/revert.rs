//! `zester revert`

use crate::answer;
use crate::app::App;
use crate::arguments::{Inputs, Running};
use crate::commands::apply;
use zester_converge::functions::Access;
use zester_model::outcome::Mode;

/// Undo what apply did here
///
/// With a reference, takes the newest unused undo record of each of its states, one step back. With --run, undoes what
/// that run did, even if the state files have changed since. With neither, undoes the last run that can be undone.
///
/// Commands that watch what was reverted run again if the reference holds them; otherwise the next run that holds them
/// runs them, and `zester status` shows it as pending.
#[derive(clap::Args, Debug)]
pub struct Revert {
    /// What to revert: `web`, `web.config`, or a path to a state file
    #[arg(value_name = "REF")]
    pub references: Vec<String>,
    /// Only what this run did (`zester status` lists the runs; the beginning of an id is enough)
    #[arg(long, value_name = "ID")]
    pub run: Option<String>,
    /// Overwrite what somebody changed since
    #[arg(long)]
    pub force: bool,
    #[command(flatten)]
    pub running: Running,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Revert, app: &mut App) -> answer::Result {
    apply::only_references("revert", &args.references)?;
    let mut options = app.options(Mode::Revert, &args.inputs, &args.running)?;
    options.force = args.force;
    options.run = args.run;
    let plan = match args.references.is_empty() {
        true => None,
        false => Some(app.plan(&app.request(args.references, &args.inputs, Access::Command))?),
    };
    app.execute(plan, &options)
}
