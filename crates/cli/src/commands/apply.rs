//! `zester apply`

use crate::answer::{self, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use zester_converge::call::dry_run;
use zester_converge::functions::Access;
use zester_converge::words::Given;
use zester_model::outcome::Mode;

/// Converge this machine
///
/// Compiles the named state files (without a name: the highstate of top.zy), then checks every state and applies what
/// differs, level by level. What was changed can be undone with `zester revert`.
#[derive(clap::Args, Debug)]
pub struct Apply {
    /// What to apply: `web`, `web.config`, or a path to a state file
    #[arg(value_name = "REF")]
    pub references: Vec<String>,
    /// Only show what would change (as `zester check` does)
    #[arg(long)]
    pub test: bool,
    #[command(flatten)]
    pub running: Running,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Apply, app: &mut App) -> answer::Result {
    let Apply { references, test, running, inputs } = args;
    let (references, words) = apart(references);
    let test = dry_run(test, words).map_err(Failure::usage)?;
    converge(references, test, &running, &inputs, app)
}

/// Salt's habit (C-5): `zester apply web test=True`. Whatever stands behind a `test=` is no reference.
pub fn apart(words: Vec<String>) -> (Vec<String>, Vec<Given>) {
    let (tests, references): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| word.starts_with("test="));
    let value = |word: String| Given::Letters(word.trim_start_matches("test=").to_string());
    (references, tests.into_iter().map(value).collect())
}

/// Compiles and runs.
pub fn converge(
    references: Vec<String>,
    test: bool,
    running: &Running,
    inputs: &Inputs,
    app: &App,
) -> answer::Result {
    let mode = if test { Mode::Check } else { Mode::Apply };
    let plan = app.plan(&app.request(references, inputs, Access::Command))?;
    app.execute(Some(plan), &app.options(mode, inputs, running)?)
}
