//! `zester lint`

use crate::answer::{self, Answer};
use crate::app::App;
use crate::arguments::Inputs;
use crate::exit::Exit;
use std::path::{Path, PathBuf};
use zester_converge::functions::Access;
use zester_converge::lint::{self, LintReport};

/// Compile everything and report every problem with its position
///
/// Each state file of the tree is compiled on its own, with what it includes; nothing is run. Advice is printed too, but
/// only problems make the exit code 1.
#[derive(clap::Args, Debug)]
pub struct Lint {
    /// State files or directories [default: the states directory]
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Lint, app: &mut App) -> answer::Result {
    let mut inputs = args.inputs;
    // A directory that begins the command line is a states directory of its own.
    if let (Some(directory), None) = (args.paths.first(), &inputs.states)
        && directory.is_dir()
    {
        inputs.states = Some(directory.clone());
    }
    let request = app.request(Vec::new(), &inputs, Access::ReadOnly);
    let LintReport { diagnostics, sources, checked } = app.blocking(move |local_host, cancel| {
        let files: Vec<&Path> = args.paths.iter().map(PathBuf::as_path).collect();
        lint::tree(&request, &files, local_host, cancel)
    })?;
    let broken = diagnostics.iter().any(|diagnostic| diagnostic.kind != zester_model::diagnostic::Kind::Lint);
    let exit = if broken { Exit::Usage } else { Exit::Good };
    Ok((Answer::Diagnostics { diagnostics, sources: Box::new(sources), checked }, exit))
}
