//! The graph as something to look at: text, Graphviz, a drawing, a page.

mod census;
mod crossings;
mod drawing;
mod escape;
mod label;
mod layers;
mod layout;
mod page;
mod palette;
#[cfg(test)]
mod samples;
mod straighten;

use super::control::one_line;
use super::paint::Paint;
use serde_json::Value as Json;
use std::collections::HashMap;
use std::fmt::Write;
use zester_converge::plan::Plan;
use zester_model::outcome::RunResult;
use zester_model::requisite::EdgeKind;

pub use drawing::svg;
pub use page::html;

/// What became of a state, as a colour.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum StateOutcome {
    /// No run was given, or the state is not in it.
    Unknown,
    Changed,
    Unchanged,
    Failed,
    Skipped,
}

#[derive(Clone, Debug)]
pub struct PictureNode {
    pub name: String,
    pub level: usize,
    /// `states/web/init.zy:31`
    pub place: String,
    pub outcome: StateOutcome,
    /// The error, the reason of the skip or the diff of the run, for whoever points at it.
    pub remark: String,
}

/// From what is waited for to what waits, by index.
#[derive(Clone, Debug)]
pub struct PictureEdge {
    pub from: usize,
    pub to: usize,
    pub kind: EdgeKind,
}

/// Everything a picture shows; nodes by level, then in the order of the run.
#[derive(Clone, Debug)]
pub struct Picture {
    pub title: String,
    pub nodes: Vec<PictureNode>,
    pub edges: Vec<PictureEdge>,
}

impl Picture {
    pub fn of(plan: &Plan, result: Option<&RunResult>) -> Picture {
        let graph = &plan.graph;
        let mut place_of = vec![0; graph.len()];
        let mut nodes = Vec::with_capacity(graph.len());
        for (at, node) in graph.ranked().iter().enumerate() {
            if let Some(slot) = place_of.get_mut(node.index()) {
                *slot = at;
            }
            let span = plan.state(node.index()).map(|state| state.span);
            let name = graph.name(*node).to_string();
            let state = result.and_then(|result| result.states.get(&name));
            let outcome = state.map_or(StateOutcome::Unknown, |state| match () {
                () if state.failed() => StateOutcome::Failed,
                () if state.skipped => StateOutcome::Skipped,
                () if state.changed => StateOutcome::Changed,
                () => StateOutcome::Unchanged,
            });
            let remark = state.map_or(String::new(), |state| {
                [&state.error, &state.skip_reason, &state.diff]
                    .into_iter()
                    .find(|text| !text.is_empty())
                    .cloned()
                    .unwrap_or_default()
            });
            let place =
                span.map_or(String::new(), |span| format!("{}:{}", plan.sources.path(span.file), span.line));
            nodes.push(PictureNode { name, level: graph.level_of(*node), place, outcome, remark });
        }
        let at = |index: usize| place_of.get(index).copied().unwrap_or_default();
        let edges = graph
            .ranked()
            .iter()
            .flat_map(|node| graph.needs(*node).iter().map(move |edge| (edge, node)))
            .map(|(edge, node)| PictureEdge {
                from: at(edge.node.index()),
                to: at(node.index()),
                kind: edge.kind,
            })
            .collect();
        Picture { title: plan.asked.clone(), nodes, edges }
    }

    /// Of the document that `state.graph` answers with on the fleet: it has no places, and no run. None for anything else.
    pub fn of_document(document: &Json) -> Option<Picture> {
        let fields = document.as_object().filter(|fields| fields.len() == 2)?;
        let levels: Vec<Vec<String>> = serde_json::from_value(fields.get("levels")?.clone()).ok()?;
        let mut nodes = Vec::new();
        for (level, names) in levels.into_iter().enumerate() {
            nodes.extend(names.into_iter().map(|name| PictureNode {
                name,
                level,
                place: String::new(),
                outcome: StateOutcome::Unknown,
                remark: String::new(),
            }));
        }
        let place: HashMap<&str, usize> =
            nodes.iter().enumerate().map(|(at, node)| (node.name.as_str(), at)).collect();
        let edge = |edge: &Json| {
            let word = |key: &str| edge.get(key)?.as_str();
            let end = |key: &str| word(key).and_then(|name| place.get(name)).copied();
            Some(PictureEdge { from: end("from")?, to: end("to")?, kind: kind_of(word("kind")?)? })
        };
        let edges = fields.get("edges")?.as_array()?.iter().map(edge).collect::<Option<Vec<_>>>()?;
        Some(Picture { title: String::new(), nodes, edges })
    }
}

/// The kind of a word.
fn kind_of(word: &str) -> Option<EdgeKind> {
    use EdgeKind::{
        Auto, Onchanges, OnchangesAny, Onfail, OnfailAll, OnfailAny, Order, Require, RequireAny, Watch,
        WatchAny,
    };
    let kinds = [
        Require,
        Watch,
        Onchanges,
        Onfail,
        Order,
        Auto,
        RequireAny,
        WatchAny,
        OnchangesAny,
        OnfailAny,
        OnfailAll,
    ];
    kinds.into_iter().find(|kind| kind.as_str() == word)
}

/// Levels, and under each state what it waits for.
pub fn text(picture: &Picture, paint: Paint) -> String {
    let mut out = String::new();
    let mut needs: Vec<Vec<&PictureEdge>> = vec![Vec::new(); picture.nodes.len()];
    for edge in &picture.edges {
        if let Some(list) = needs.get_mut(edge.to) {
            list.push(edge);
        }
    }
    let mut level = None;
    for (node, needs) in picture.nodes.iter().zip(&needs) {
        if level != Some(node.level) {
            level = Some(node.level);
            let _ = writeln!(out, "{}", paint.bold(&format!("level {}", node.level)));
        }
        let name = one_line(&node.name);
        let name = match node.outcome {
            StateOutcome::Changed => paint.green(&name),
            StateOutcome::Failed => paint.red(&name),
            StateOutcome::Skipped => paint.yellow(&name),
            StateOutcome::Unknown | StateOutcome::Unchanged => name,
        };
        let _ = match node.place.is_empty() {
            true => writeln!(out, "  {name}"),
            false => writeln!(out, "  {name}  {}", paint.dim(&node.place)),
        };
        for edge in needs {
            let target = picture.nodes.get(edge.from).map_or(String::new(), |node| one_line(&node.name));
            let _ = writeln!(out, "      {} {target}", paint.cyan(edge.kind.as_str()));
        }
    }
    if picture.nodes.is_empty() {
        out.push_str("no states\n");
    }
    out
}

/// For Graphviz: levels as ranks, left to right.
pub fn dot(picture: &Picture) -> String {
    let quoted =
        |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"));
    let mut out = String::from(
        "digraph zester {\n  rankdir=LR;\n  node [shape=box, style=\"rounded,filled\", fontname=\"sans-serif\", fillcolor=white];\n",
    );
    for node in &picture.nodes {
        let fill = match node.outcome {
            StateOutcome::Unknown => "white",
            StateOutcome::Changed => "palegreen",
            StateOutcome::Unchanged => "gray92",
            StateOutcome::Failed => "salmon",
            StateOutcome::Skipped => "khaki",
        };
        let _ =
            writeln!(out, "  {} [fillcolor={fill}, tooltip={}];", quoted(&node.name), quoted(&node.place));
    }
    let mut start = 0;
    while let Some(first) = picture.nodes.get(start) {
        let level: Vec<&PictureNode> =
            picture.nodes.iter().skip(start).take_while(|node| node.level == first.level).collect();
        let names: Vec<String> = level.iter().map(|node| quoted(&node.name)).collect();
        let _ = writeln!(out, "  {{ rank=same; {}; }}", names.join("; "));
        start += level.len();
    }
    for edge in &picture.edges {
        if let (Some(from), Some(to)) = (picture.nodes.get(edge.from), picture.nodes.get(edge.to)) {
            let style = if edge.kind.only_sequences() { ", style=dashed" } else { "" };
            let _ = writeln!(
                out,
                "  {} -> {} [label={}{style}];",
                quoted(&from.name),
                quoted(&to.name),
                quoted(edge.kind.as_str())
            );
        }
    }
    out.push_str("}\n");
    out
}
