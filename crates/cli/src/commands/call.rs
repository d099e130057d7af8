//! `zester call`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use crate::commands::{apply, graph, revert};
use crate::exit::Exit;
use zester_converge::call::{self, Words};
use zester_converge::functions::{self, Access, Arguments, Place};
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
    /// The primary parameter, and further ones as k=v; values are read as YAML
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
    let Call { function, words, mut test, running, inputs } = args;
    let (words, tests): (Vec<String>, Vec<String>) =
        words.into_iter().partition(|word| !word.starts_with("test="));
    test |= tests.iter().any(|word| apply::is_true(word.trim_start_matches("test=")));
    match function.as_str() {
        "state.apply" => return apply::run(apply::Apply { references: words, test, running, inputs }, app),
        "state.highstate" => {
            return apply::run(apply::Apply { references: vec![], test, running, inputs }, app);
        }
        "state.revert" => {
            let args = revert::Revert { references: words, run: None, force: false, running, inputs };
            return revert::run(args, app);
        }
        "state.graph" => return graph::run(graph::Graph { references: words, run: None, inputs }, app),
        _ => {}
    }
    let request = app.request(Vec::new(), &inputs, Access::Command);
    if zester_resources::catalog().get(&function).is_some() {
        let plan = call::plan(&function, &Words::parse(&words), &request, &app.machine, &app.cancel)?;
        let mode = if test { Mode::Check } else { Mode::Apply };
        return app.execute_showing(Some(plan), &app.options(mode, &inputs, &running), true);
    }
    let Some(known) = functions::find(&function) else {
        return Err(Failure::usage(call::unknown(&function)));
    };
    let facts_and_settings = call::surroundings(&request, &app.machine, &app.cancel)?;
    let place = Place {
        look: app.machine.files.as_ref(),
        processes: app.machine.processes.as_ref(),
        handle: &app.machine.handle,
        facts: &facts_and_settings.facts,
        settings: &facts_and_settings.settings,
        cancel: &app.cancel,
    };
    let words = Words::parse(&words);
    let arguments = Arguments { positional: words.positional_json(), named: words.named_json() };
    let json =
        (known.call)(&place, &arguments).map_err(|why| Failure::usage(format!("{function}: {why}")))?;
    let text = crate::output::plain(&json);
    Ok((Answer::Document { json, text }, Exit::Good))
}
