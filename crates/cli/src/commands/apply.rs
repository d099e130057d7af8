//! `zester apply`

use crate::answer::{self, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use zester_converge::call::dry_run;
use zester_converge::functions::Access;
use zester_converge::inputs::CompileRequest;
use zester_converge::raw_arguments::{RawArguments, RawValue};
use zester_converge::settings::Override;
use zester_converge::tree_functions::{self, FilesAsked};
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
    let Apply { references, test, running, mut inputs } = args;
    let (files, words) = apart("apply", references, &mut inputs)?;
    let test = dry_run(test, words).map_err(Failure::usage)?;
    converge(files, test, &running, &inputs, app)
}

/// References and `saltenv=`, and what stands behind each `test=`: Salt's habit (C-5) is `zester apply web test=True`. So is
/// `pillar='{a: b}'`, which goes to the inputs. Any other `k=v` means something that nobody would do.
pub fn apart(
    command: &str,
    words: Vec<String>,
    inputs: &mut Inputs,
) -> Result<(FilesAsked, Vec<RawValue>), Failure> {
    let mut named = RawArguments::parse(&words);
    let tests = named.take("test");
    inputs.setting.extend(Override::take("state.apply", &mut named).map_err(Failure::usage)?);
    let environment = tree_functions::environment(&mut named).map_err(Failure::usage)?;
    if let Some((key, value)) = named.named.first() {
        let also = if command == "check" { " and nothing else" } else { ", and --test" };
        return Err(Failure::usage(format!(
            "`{key}={}` is no reference; {command} takes references{also}",
            value.shown()
        )));
    }
    let references = named.positional.iter().map(RawValue::shown).collect();
    Ok((FilesAsked { references, environment, only: None }, tests))
}

/// The inputs with the environment that the words name beside `--env`.
pub fn in_environment(inputs: &Inputs, words: Option<&String>) -> Result<Inputs, Failure> {
    match (&inputs.env, words) {
        (Some(flag), Some(word)) if flag != word => {
            Err(Failure::usage(format!("the environment is given twice: --env {flag}, and saltenv={word}")))
        }
        (flag, word) => Ok(Inputs { env: word.or(flag.as_ref()).cloned(), ..inputs.clone() }),
    }
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
    files: FilesAsked,
    test: bool,
    running: &Running,
    inputs: &Inputs,
    app: &App,
) -> answer::Result {
    let mode = if test { Mode::Check } else { Mode::Apply };
    let FilesAsked { references, environment, only } = files;
    let inputs = in_environment(inputs, environment.as_ref())?;
    let request = CompileRequest { only, ..app.request(references, &inputs, Access::Command) };
    let plan = app.plan(&request)?;
    app.execute(Some(plan), &app.options(mode, &inputs, running)?)
}
