//! `zester apply`

use crate::answer::{self, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use zester_converge::call::dry_run;
use zester_converge::functions::Access;
use zester_converge::raw_arguments::{RawArguments, RawValue};
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
    let (references, words) = apart("apply", references)?;
    let test = dry_run(test, words).map_err(Failure::usage)?;
    converge(references, test, &running, &inputs, app)
}

/// References, and what stands behind each `test=`: Salt's habit (C-5) is `zester apply web test=True`. Any other `k=v`
/// means something that nobody would do.
pub fn apart(command: &str, words: Vec<String>) -> Result<(Vec<String>, Vec<RawValue>), Failure> {
    let mut named = RawArguments::parse(&words);
    let tests = named.take("test");
    if let Some((key, value)) = named.named.first() {
        let also = if command == "check" { " and nothing else" } else { ", and --test" };
        return Err(Failure::usage(format!(
            "`{key}={}` is no reference; {command} takes references{also}",
            value.shown()
        )));
    }
    Ok((named.positional.iter().map(RawValue::shown).collect(), tests))
}

/// For commands that have no dry run: words that are references and nothing else.
pub fn only_references(command: &str, words: &[String]) -> Result<(), Failure> {
    match RawArguments::parse(words).named.first() {
        Some((key, value)) => Err(Failure::usage(format!(
            "`{key}={}` is no reference; {command} takes references and nothing else",
            value.shown()
        ))),
        None => Ok(()),
    }
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
