//! `zester lint`

use crate::answer::{self, Answer};
use crate::app::App;
use crate::arguments::Inputs;
use crate::exit::Exit;
use std::path::{Path, PathBuf};
use zester_converge::functions::Access;
use zester_converge::lint::rules::is_rules;
use zester_converge::lint::{self, LintReport};

/// Compile everything and report every problem with its position
///
/// Each state file of the tree is compiled with what it includes and judged within those that include it; nothing is run. A directory of rules for the
/// reactor (its `top.zy` says `reactor:`) is read as the masters would. Advice is printed too, but only problems make the exit
/// code 1.
#[derive(clap::Args, Debug)]
pub struct Lint {
    /// State files or directories, or directories of rules [default: the states directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Lint, app: &mut App) -> answer::Result {
    let mut inputs = args.inputs;
    let (rules, paths): (Vec<PathBuf>, Vec<PathBuf>) =
        args.paths.into_iter().partition(|path| is_rules(path));
    let only_rules = paths.is_empty() && !rules.is_empty();
    // A directory that begins the command line is a states directory of its own.
    if let (Some(directory), None) = (paths.first(), &inputs.states)
        && directory.is_dir()
    {
        inputs.states = Some(directory.clone());
    }
    let request = app.request(Vec::new(), &inputs, Access::ReadOnly);
    let LintReport { diagnostics, sources, checked } = app.blocking(move |local_host, cancel| {
        let mut reports = Vec::new();
        if !only_rules {
            let files: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
            reports.push(lint::tree(&request, &files, local_host, cancel)?);
        }
        for root in &rules {
            reports.push(lint::rules::rules(root)?);
        }
        Ok(reports.into_iter().fold(LintReport::of(0), LintReport::and))
    })?;
    let broken = diagnostics.iter().any(|diagnostic| diagnostic.kind != zester_model::diagnostic::Kind::Lint);
    let exit = if broken { Exit::Usage } else { Exit::Good };
    Ok((Answer::Diagnostics { diagnostics, sources: Box::new(sources), checked }, exit))
}
