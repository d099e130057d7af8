//! Advice (S-40): what compiles but is seldom meant. Never stops a run.

use crate::Compiled;
use std::collections::HashMap;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::{Node, ScalarType, Value};
use zester_model::program::State;
use zester_model::source::{Sources, Span};

/// Everything worth saying about a compiled program.
pub fn lint(compiled: &Compiled) -> Vec<Diagnostic> {
    let mut advice = compiled.advice.clone();
    unconnected(compiled, &mut advice);
    for state in &compiled.program.states {
        truth_as_id(state, &compiled.sources, &mut advice);
        for param in &state.params {
            let place = Place { name: &param.name, sources: &compiled.sources };
            scalars(&param.value, &place, &mut advice);
        }
    }
    advice
}

fn advise(at: Span, message: String) -> Diagnostic {
    Diagnostic::new(Kind::Lint, message).at(at)
}

/// pkg, file and service states of one id that nothing connects run at the same time.
fn unconnected(compiled: &Compiled, advice: &mut Vec<Diagnostic>) {
    const STEPS: [&str; 3] = ["pkg", "file", "service"];
    let states = &compiled.program.states;
    let mut by_id: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    // What is broken is said once: its kind may not even exist.
    let broken = |state: &State| compiled.diagnostics.iter().any(|found| found.span == Some(state.span));
    for (index, state) in states.iter().enumerate().filter(|(_, state)| !broken(state)) {
        let module = state.name.kind().split('.').next().unwrap_or_default();
        if STEPS.contains(&module) {
            by_id.entry((&state.sls, state.name.id())).or_default().push(index);
        }
    }
    let mut groups: Vec<Vec<usize>> = by_id.into_values().filter(|group| group.len() > 1).collect();
    groups.sort();
    for group in groups {
        for later in &group {
            let Some(state) = states.get(*later) else { continue };
            let touches = |other: &usize| {
                let linked = |from: usize, to: usize| {
                    states.get(from).is_some_and(|state| state.edges.iter().any(|edge| edge.target == to))
                };
                linked(*later, *other) || linked(*other, *later)
            };
            let loose = group.iter().filter(|other| *other < later).find(|other| !touches(other));
            let any = group.iter().filter(|other| *other != later).any(touches);
            if let Some(other) = loose.filter(|_| !any).and_then(|at| states.get(*at)) {
                let message =
                    format!("nothing orders {} and {}: they run at the same time", other.name, state.name);
                let hint = format!("add `require: [{}]`, or begin the file with `#!ordered`", other.name);
                advice.push(advise(state.span, message).hint(hint).label(other.span, "declared here"));
            }
        }
    }
}

/// The letter at a place in the source.
fn letter_at(span: Span, sources: &Sources) -> Option<char> {
    sources.get(span.file)?.line(span.line).chars().nth(span.column.saturating_sub(1) as usize)
}

fn truth_as_id(state: &State, sources: &Sources, advice: &mut Vec<Diagnostic>) {
    let id = state.name.id();
    let truth = ["yes", "no", "on", "off", "true", "false"].contains(&id.to_lowercase().as_str());
    let line = sources.get(state.span.file).map_or("", |file| file.line(state.span.line.saturating_sub(1)));
    if truth && line.trim_start().starts_with(id) {
        advice.push(
            advise(state.span, format!("the id `{id}` reads as a truth value elsewhere"))
                .hint("put it in quotes"),
        );
    }
}

struct Place<'a> {
    name: &'a str,
    sources: &'a Sources,
}

fn scalars(node: &Node, place: &Place<'_>, advice: &mut Vec<Diagnostic>) {
    match &node.value {
        Value::List(items) => items.iter().for_each(|item| scalars(item, place, advice)),
        Value::Map(entries) => entries.iter().for_each(|(_, value)| scalars(value, place, advice)),
        Value::Scalar(scalar) => {
            let text = &*scalar.text;
            let mode = ["mode", "umask", "perms"].iter().any(|word| place.name.contains(word));
            let octal =
                text.len() > 1 && text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
            if matches!(scalar.scalar_type, ScalarType::Int(_)) && octal && !mode {
                let message = format!("`{text}` reads as the number {}", text.trim_start_matches('0'));
                advice.push(advise(node.span, message).hint("put it in quotes if it is a text"));
            }
            let quoted = matches!(letter_at(node.span, place.sources), Some('"' | '\''));
            if scalar.scalar_type == ScalarType::Text && sexagesimal(text) && !quoted {
                let message = format!("`{text}` is a number to base 60 for other YAML readers");
                advice.push(advise(node.span, message).hint("put it in quotes"));
            }
        }
    }
}

/// `22:22`: what PyYAML would read as 1342.
fn sexagesimal(text: &str) -> bool {
    let mut parts = text.split(':');
    let first =
        parts.next().is_some_and(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let rest: Vec<&str> = parts.collect();
    let small = |part: &&str| part.parse::<u8>().is_ok_and(|value| value < 60) && part.len() <= 2;
    first && !rest.is_empty() && rest.iter().all(small)
}
