//! `zester revert`

use crate::answer::{self, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use zester_converge::data_dir::DataDir;
use zester_converge::functions::Access;
use zester_converge::journal::Glance;
use zester_model::outcome::Mode;

/// Undo what apply did here
///
/// With a reference, takes the newest unused undo record of each of its states, one step back. With --run, undoes what
/// that run did, even if the state files have changed since. With neither, undoes the last run that can be undone.
#[derive(clap::Args, Debug)]
pub struct Revert {
    /// What to revert: `web`, `web.config`, or a path to a state file
    #[arg(value_name = "REF")]
    pub references: Vec<String>,
    /// Only what this run did (`zester status` lists the runs)
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
    let mut options = app.options(Mode::Revert, &args.inputs, &args.running);
    options.force = args.force;
    options.run = args.run;
    if !args.references.is_empty() {
        let plan = app.plan(&app.request(args.references, &args.inputs, Access::Command))?;
        return app.execute(Some(plan), &options);
    }
    if options.run.is_none() {
        let undos = Glance::read(&DataDir::open(&options.data_dir)?)?.undos;
        let newest = undos.first().map(|undo| undo.run_id.clone());
        options.run =
            Some(newest.ok_or_else(|| Failure::usage("nothing was applied here that could be reverted"))?);
    } else if let Some(run) = &options.run {
        options.run = Some(whole_id(run, &options.data_dir)?);
    }
    app.execute(None, &options)
}

/// A run may be named by the beginning of its id.
fn whole_id(given: &str, data_dir: &std::path::Path) -> Result<String, Failure> {
    let undos = Glance::read(&DataDir::open(data_dir)?)?.undos;
    let mut ids: Vec<&str> =
        undos.iter().map(|undo| undo.run_id.as_str()).filter(|id| id.starts_with(given)).collect();
    ids.dedup();
    match ids.as_slice() {
        [one] => Ok(one.to_string()),
        [] => Err(Failure::usage(format!(
            "run {given} has nothing to revert; `zester status` lists the runs that have"
        ))),
        many => Err(Failure::usage(format!("{given} may be any of {}", many.join(", ")))),
    }
}
