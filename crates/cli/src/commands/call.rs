//! `zester call`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use crate::commands::{apply, graph, revert};
use crate::exit::Exit;
use zester_converge::call::{self, Asked};
use zester_converge::functions::Access;
use zester_converge::raw_arguments::RawArguments;
use zester_model::outcome::Mode;

/// Run one function on this machine
///
/// MOD.FN is a kind of state, run with check and apply and all its attributes (zester call file.managed /etc/motd
/// content=hello), or an execution function with a plain answer (zester call facts.items). `zester doc` lists both.
#[derive(clap::Args, Debug)]
pub struct Call {
    /// The function: `file.managed`, `cmd.run`, `facts.items`, `state.apply` …
    #[arg(value_name = "MOD.FN")]
    pub function: String,
    /// The primary parameter, and further ones as k=v; a text keeps its letters, and lists and maps read [a, b] and {a: 1}
    #[arg(value_name = "ID|k=v")]
    pub words: Vec<String>,
    /// Only show what would change
    #[arg(long)]
    pub test: bool,
    #[command(flatten)]
    pub running: Running,
    #[command(flatten)]
    pub inputs: Inputs,
}

pub fn run(args: Call, app: &mut App) -> answer::Result {
    let Call { function, words, test, running, inputs } = args;
    match Asked::read(&function, RawArguments::parse(&words), test).map_err(Failure::usage)? {
        Asked::Apply { references, test } => apply::converge(references, test, &running, &inputs, app),
        Asked::Revert { references, run, force } => {
            revert::run(revert::Revert { references, run, force, running, inputs }, app)
        }
        Asked::Graph { references } => graph::run(graph::Graph { references, run: None, inputs }, app),
        Asked::State { kind, words, test } => {
            let request = app.request(Vec::new(), &inputs, Access::Command);
            let plan = app
                .blocking(move |local_host, cancel| call::plan(kind, &words, &request, local_host, cancel))?;
            let mode = if test { Mode::Check } else { Mode::Apply };
            app.execute_showing(Some(plan), &app.options(mode, &inputs, &running)?, true)
        }
        Asked::Function { function, arguments } => {
            let request = app.request(Vec::new(), &inputs, Access::Command);
            let json = app.blocking(move |local_host, cancel| {
                call::answer(function, &arguments, &request, local_host, cancel)
            })?;
            let text = crate::output::plain(&json);
            Ok((Answer::Document { json, text }, Exit::Good))
        }
        Asked::Unknown => Err(Failure::usage(call::unknown(&function))),
    }
}
