//! `zester call`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::arguments::{Inputs, Running};
use crate::commands::apply::{self, in_environment};
use crate::commands::{graph, revert};
use crate::exit::Exit;
use serde_json::Value as Json;
use zester_converge::call::{self, Asked};
use zester_converge::document;
use zester_converge::functions::{self, Access, Arguments, Function};
use zester_converge::inputs::{self as converge_inputs, CompileRequest};
use zester_converge::raw_arguments::RawArguments;
use zester_converge::settings::Override;
use zester_converge::tree_functions::FilesAsked;
use zester_model::outcome::Mode;
use zester_model::suggest::did_you_mean;

/// Run one function on this machine
///
/// MOD.FN is a kind of state, run with check and apply and all its attributes (zester call file.managed /etc/motd
/// content=hello), or an execution function with a plain answer (zester call facts.items). `zester doc` lists both.
#[derive(clap::Args, Debug)]
pub struct Call {
    /// The function: `file.managed`, `cmd.run`, `facts.items`, `state.apply`, `state.show_top` …
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
    let Call { function, words, test, running, mut inputs } = args;
    let mut words = RawArguments::parse(&words);
    inputs.setting.extend(Override::take(&function, &mut words).map_err(Failure::usage)?);
    match Asked::read(&function, words, test).map_err(Failure::usage)?.as_run(false) {
        Asked::Apply { files, test } => apply::converge(files, test, &running, &inputs, app),
        Asked::Revert { files: FilesAsked { references, environment, .. }, run, force } => {
            let inputs = in_environment(&inputs, environment.as_ref())?;
            revert::run(revert::Revert { references, run, force, running, inputs }, app)
        }
        Asked::Graph(FilesAsked { references, environment, .. }) => {
            let inputs = in_environment(&inputs, environment.as_ref())?;
            graph::run(graph::Graph { references, run: None, inputs }, app)
        }
        Asked::ShowStates(FilesAsked { references, environment, .. }) => {
            let inputs = in_environment(&inputs, environment.as_ref())?;
            let plan = app.plan(&app.request(references, &inputs, Access::ReadOnly))?;
            Ok(told(document::states(&plan)))
        }
        Asked::ShowTop { environment } => {
            let environment = in_environment(&inputs, environment.as_ref())?.env;
            // Every environment, unless one is named: that of the configuration would hide the others.
            let request =
                CompileRequest { environment, ..app.request(Vec::new(), &inputs, Access::ReadOnly) };
            let top = app.blocking(move |local_host, cancel| {
                converge_inputs::Inputs::environments(&request, local_host, cancel)
            })?;
            Ok(told(document::top(&top)))
        }
        Asked::State { kind, words, test } => {
            let request = app.request(Vec::new(), &inputs, Access::Command);
            let plan = app
                .blocking(move |local_host, cancel| call::plan(kind, &words, &request, local_host, cancel))?;
            let mode = if test { Mode::Check } else { Mode::Apply };
            app.execute_showing(Some(plan), &app.options(mode, &inputs, &running)?, true)
        }
        Asked::Function { function, arguments } => {
            let request = app.request(Vec::new(), &inputs, Access::Command);
            let (json, nothing) = app.blocking(move |local_host, cancel| {
                let answer = call::answer(function, &arguments, &request, local_host, cancel)?;
                let all = everything(function.name).filter(|_| answer.is_null());
                let all = all
                    .map(|(all, _)| call::answer(all, &Arguments::default(), &request, local_host, cancel));
                let key = arguments.positional.first().and_then(Json::as_str).map(String::from);
                let nothing = key.zip(all.transpose()?).map(|(key, all)| no_such(function.name, &key, &all));
                Ok((answer, nothing))
            })?;
            if let Some(nothing) = nothing {
                app.output.notice(&nothing);
            }
            Ok(told(json))
        }
        Asked::Unknown => Err(Failure::usage(call::unknown(&function))),
    }
}

fn told(json: Json) -> (Answer, Exit) {
    let text = crate::output::plain(&json);
    (Answer::Document { json, text }, Exit::Good)
}

/// For a function that looks one thing up: that which has all of them, and what one is called.
fn everything(function: &str) -> Option<(&'static Function, &'static str)> {
    let (all, noun) = match function {
        "facts.get" => ("facts.items", "fact"),
        "settings.get" => ("settings.items", "setting"),
        _ => return None,
    };
    Some((functions::find(all)?, noun))
}

/// That nothing is there, and what may have been meant.
fn no_such(function: &str, key: &str, all: &Json) -> String {
    let noun = everything(function).map_or("value", |(_, noun)| noun);
    let names = all.as_object().into_iter().flat_map(|map| map.keys().map(String::as_str));
    match did_you_mean(key, names) {
        Some(hint) => format!("there is no {noun} `{key}`; {hint}"),
        None => format!("there is no {noun} `{key}`; `zester call {noun}s.items` shows all of them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_there_is_told_with_the_nearest() {
        let all = json!({ "os": "Debian", "id": "web-1" });
        assert_eq!(no_such("facts.get", "oss", &all), "there is no fact `oss`; did you mean `os`?");
        let told = no_such("settings.get", "zzzzzz", &all);
        assert_eq!(told, "there is no setting `zzzzzz`; `zester call settings.items` shows all of them");
    }
}
