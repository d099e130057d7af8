//! Documents for machines: what did not work (C-3), and what a plan looks like (C-2). The run itself is
//! [`RunResult`](zester_model::outcome::RunResult).

use crate::error::Error;
use crate::plan::Plan;
use serde_json::{Value as Json, json};
use zester_model::diagnostic::{Diagnostic, Report};
use zester_model::outcome::{RunResult, StateResult};
use zester_model::source::Sources;

/// The error document of C-3.
pub fn of_error(error: &Error) -> Json {
    match error {
        Error::Diagnostics { diagnostics: found, sources } => diagnostics(found, sources),
        other => {
            let error = json!({
                "kind": "infrastructure", "message": other.to_string(),
                "file": null, "line": null, "column": null, "hint": null,
            });
            json!({ "error": error, "errors": [error] })
        }
    }
}

/// `{"error": the first, "errors": all}`; `lint` prints the same.
pub fn diagnostics(diagnostics: &[Diagnostic], sources: &Sources) -> Json {
    let reports: Vec<Report> = diagnostics.iter().map(|diagnostic| diagnostic.report(sources)).collect();
    json!({ "error": reports.first(), "errors": reports })
}

/// `{"levels": [[name, …], …], "edges": [{"from", "to", "kind"}]}`; an edge leads from what is waited for to what waits.
pub fn graph(plan: &Plan) -> Json {
    let graph = &plan.graph;
    let levels: Vec<Vec<&str>> =
        graph.levels().map(|level| level.iter().map(|node| graph.name(*node).as_str()).collect()).collect();
    let edges: Vec<_> = graph
        .ranked()
        .iter()
        .flat_map(|node| graph.needs(*node).iter().map(move |edge| (edge, *node)))
        .map(|(edge, node)| {
            json!({ "from": graph.name(edge.node).as_str(), "to": graph.name(node).as_str(), "kind": edge.kind.as_str() })
        })
        .collect();
    json!({ "levels": levels, "edges": edges })
}

/// An error in one sentence: of several problems the first, with its place.
pub fn error_sentence(error: &Error) -> String {
    let Error::Diagnostics { diagnostics, sources } = error else { return error.to_string() };
    let Some(first) = diagnostics.first() else { return error.to_string() };
    let message = first.report(sources).message;
    let placed = match first.span {
        Some(span) => format!("{}: {message}", sources.place(span)),
        None => message,
    };
    match diagnostics.len() {
        1 => placed,
        count => format!("{placed} (the first of {count} problems)"),
    }
}

/// Why a run did not succeed, in one sentence; empty when it did.
pub fn run_sentence(result: &RunResult) -> String {
    let total = result.states.len();
    let noun = if total == 1 { "state" } else { "states" };
    let mut parts = Vec::new();
    if !result.error.is_empty() {
        parts.push(result.error.clone());
    } else if result.canceled {
        parts.push("canceled".into());
    }
    if let Some(first) = result.states.values().find(|state| StateResult::failed(state)) {
        parts.push(format!("{} of {total} {noun} failed: {}: {}", result.failed, first.name, first.error));
    }
    parts.join("; ")
}
