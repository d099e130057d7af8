//! `#!py`: a state or settings file that is a program (S-54). Whoever compiles runs it; what its `__salt__` asks is answered as
//! for a template, with the same functions and the same bounds.

use crate::load::variables;
use crate::template::{Renderer, salt_function_names};
use crate::{CallError, Inputs, PythonFile};
use serde_json::Value as Json;
use std::sync::Arc;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::Node;
use zester_model::source::{FileId, Sources, Span};

/// The template that stands for one call.
const CALL: &str = "{{ salt[_function](*_bare, **_named) | json }}";

/// Runs it and gives what it answers. All of that stands at the first line.
pub fn run(
    inputs: &Inputs<'_>,
    renderer: &Renderer<'_, '_>,
    (path, file, text): (&str, FileId, &str),
) -> Result<Node, Vec<Diagnostic>> {
    let shown = renderer.shown(path);
    let variables = variables(path, renderer);
    let mut call = |name: &str, bare: Vec<Json>, named: serde_json::Map<String, Json>| {
        let mut sources = Sources::default();
        let template: Arc<str> = CALL.into();
        let place = sources.add("__salt__", template.clone());
        let mut context = variables.clone();
        context.insert("_function".into(), name.into());
        context.insert("_bare".into(), Json::Array(bare));
        context.insert("_named".into(), Json::Object(named));
        let told = |problems: Vec<Diagnostic>| {
            problems.first().map_or_else(|| format!("{name} failed"), |problem| problem.message.clone())
        };
        let answer = renderer.render(&mut sources, ("__salt__", place), &template, context).map_err(told)?;
        serde_json::from_str(&answer.text).map_err(|error| format!("{name}: {error}"))
    };
    let Inputs { facts, settings, functions, id, .. } = *inputs;
    let mut names = functions.names();
    names.extend(salt_function_names().map(String::from));
    let variables = variables.clone();
    let program = PythonFile { shown: &shown, text, variables, facts, settings, id, names };
    let at = Span::start_of(file);
    match functions.python(&program, &mut call) {
        Ok(answer) => Ok(Node::from_json(at, &answer)),
        Err(why) => {
            let kind = if matches!(why, CallError::Elsewhere(_)) { Kind::Elsewhere } else { Kind::Template };
            Err(vec![Diagnostic::new(kind, why.to_string()).at(at).code("python_renderer")])
        }
    }
}
