//! `zester apply`

use crate::answer;
use crate::app::App;
use crate::arguments::{Inputs, Running};
use zester_converge::functions::Access;
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
    let mut test = args.test;
    let mut references = Vec::new();
    for word in args.references {
        // Salt's habit (C-5): `zester apply web test=True`.
        match word.strip_prefix("test=") {
            Some(value) => test = is_true(value),
            None => references.push(word),
        }
    }
    let mode = if test { Mode::Check } else { Mode::Apply };
    let plan = app.plan(&app.request(references, &args.inputs, Access::Command))?;
    app.execute(Some(plan), &app.options(mode, &args.inputs, &args.running))
}

/// `test=` takes true/yes/1/on.
pub fn is_true(value: &str) -> bool {
    ["true", "yes", "1", "on"].contains(&value.to_ascii_lowercase().as_str())
}
