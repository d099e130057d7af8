//! `zester migrate`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::{Format, Inputs};
use crate::exit::Exit;
use crate::output::migrate_report;
use std::path::PathBuf;
use zester_converge::functions::Access;
use zester_converge::migrate::{self, FileStatus, Layout};

/// Say what of a Salt tree works as it is, and what needs a hand
///
/// Reads states, pillar, top files, reactor and orchestration files and the Python of a tree, compiles every state file and
/// runs nothing. Each file is ready, ready with a difference, or needs a hand; each difference comes with its place, what
/// Salt does, what Zester does and what to write instead. `--format html` gives a page to hand around. The exit code is 1
/// while a file needs a hand.
#[derive(clap::Args, Debug)]
pub struct Migrate {
    /// The tree: the directory of the states, or one that holds `salt` and `pillar`, or a master's configuration
    #[arg(value_name = "DIR")]
    pub tree: PathBuf,
    /// Compare every file with what this salt-call makes of it
    #[arg(long, value_name = "PATH")]
    pub salt_call: Option<PathBuf>,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Migrate, app: &mut App) -> answer::Result {
    if !args.tree.is_dir() {
        return Err(Failure::usage(format!("{} is no directory", args.tree.display())));
    }
    let mut layout = Layout::of(&args.tree);
    if let Some(states) = &args.inputs.states {
        layout.states.clone_from(states);
    }
    let request = app.request(Vec::new(), &args.inputs, Access::ReadOnly);
    let salt_call = args.salt_call;
    let survey = app.blocking(move |local_host, cancel| {
        migrate::survey(&request, &layout, salt_call.as_deref(), local_host, cancel)
    })?;
    if survey.files.is_empty() {
        let message = format!("{} holds no state file, no pillar and no rule", args.tree.display());
        return Err(Failure::usage(message));
    }
    let exit = if survey.count(FileStatus::NeedsHand) > 0 { Exit::Usage } else { Exit::Good };
    let answer = match app.format() {
        Format::Html => Answer::Text(migrate_report::html(&survey)),
        _ => Answer::Document { json: survey.document(), text: migrate_report::text(&survey) },
    };
    Ok((answer, exit))
}
