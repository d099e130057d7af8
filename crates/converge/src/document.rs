//! Documents for machines: what did not work (C-3), and what a plan looks like (C-2). The run itself is
//! [`RunResult`](zester_model::outcome::RunResult).

use crate::error::Error;
use crate::plan::Plan;
use serde_json::{Map, Value as Json, json};
use zester_compile::Environment;
use zester_model::diagnostic::{Diagnostic, Report};
use zester_model::outcome::{RunResult, StateResult};
use zester_model::program::{Attributes, State};
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

/// Every state of a plan by its name, in the order of the run: its place, its level, what it was given and what it waits for
/// (`state.show_sls`).
pub fn states(plan: &Plan) -> Json {
    let mut all = Map::new();
    for (level, nodes) in plan.graph.levels().enumerate() {
        for state in nodes.iter().filter_map(|node| plan.state(node.index())) {
            all.insert(state.name.to_string(), shown_state(state, level, plan));
        }
    }
    let mut all = Json::Object(all);
    plan.inputs.secrets.hide_in_json(&mut all);
    all
}

fn shown_state(state: &State, level: usize, plan: &Plan) -> Json {
    let name = |at: usize| plan.state(at).map_or("", |other| other.name.as_str());
    let mut waits: Map<String, Json> = Map::new();
    let edges = state.edges.iter().map(|edge| (edge.kind.as_str(), edge.target));
    for (word, target) in edges.chain(state.prereq.iter().map(|target| ("prereq", *target))) {
        let names = waits.entry(word).or_insert_with(|| json!([]));
        names.as_array_mut().into_iter().for_each(|names| names.push(json!(name(target))));
    }
    let params: Map<String, Json> =
        state.params.iter().map(|param| (param.name.clone(), param.value.to_json())).collect();
    let mut shown = json!({
        "sls": &*state.sls, "place": plan.sources.place(state.span), "level": level, "params": params,
    });
    let given = [("attributes", attributes(&state.attributes)), ("requisites", waits)];
    for (word, value) in given.into_iter().filter(|(_, value)| !value.is_empty()) {
        shown[word] = Json::Object(value);
    }
    shown
}

/// Those that are not as they are anyway.
fn attributes(attributes: &Attributes) -> Map<String, Json> {
    let mut given = Map::new();
    let lists = [
        ("onlyif", &attributes.onlyif),
        ("unless", &attributes.unless),
        ("check_cmd", &attributes.check_cmd),
    ];
    for (word, commands) in lists.into_iter().filter(|(_, commands)| !commands.is_empty()) {
        given.insert(word.into(), json!(commands));
    }
    for ask in &attributes.asks {
        let guards = given.entry(if ask.wanted { "onlyif" } else { "unless" }).or_insert_with(|| json!([]));
        let guard = json!({ "fun": ask.function, "args": ask.args, "kwargs": ask.named });
        guards.as_array_mut().into_iter().for_each(|guards| guards.push(guard.clone()));
    }
    if let Some(retry) = attributes.retry {
        let interval = retry.interval.as_secs_f64();
        given.insert("retry".into(), json!({ "attempts": retry.attempts, "interval": interval }));
    }
    let plain = Attributes::default();
    if attributes.order != plain.order {
        given.insert("order".into(), json!(attributes.order));
    }
    for (word, is, usual) in [
        ("failhard", attributes.failhard, plain.failhard),
        ("auto_order", attributes.auto_order, plain.auto_order),
    ] {
        if is != usual {
            given.insert(word.into(), json!(is));
        }
    }
    given
}

/// `{"base": ["web"], "prod": []}`: what each environment gives a machine (`state.show_top`).
pub fn top(environments: &[Environment]) -> Json {
    let references = |environment: &Environment| (environment.name.clone(), json!(environment.references));
    Json::Object(environments.iter().map(references).collect())
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
