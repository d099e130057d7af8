//! `top.zy` (S-8, S-48): which references this peel gets, of states or of settings.

use crate::load::Loader;
use crate::{Inputs, Tree};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::Node;
use zester_model::source::Span;
use zester_model::target::{Subject, Target};

/// What the references are for.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Purpose {
    States,
    /// Settings cannot decide which settings there are.
    Settings,
}

/// The references that match this peel, in the order of the file, each once.
pub fn references(
    inputs: &Inputs<'_>,
    loader: &mut Loader<'_, '_, '_>,
    purpose: Purpose,
) -> Vec<(String, Option<Span>)> {
    let Some(path) = find(inputs.tree, loader) else { return Vec::new() };
    let root = match loader.read(path) {
        Ok((root, _)) => root,
        Err(diagnostics) => {
            loader.diagnostics.extend(diagnostics);
            return Vec::new();
        }
    };
    let mut found: Vec<(String, Option<Span>)> = Vec::new();
    let mut diagnostics = Vec::new();
    for (target, list) in entries(&root, &mut diagnostics) {
        let (method, references) = split(list, &mut diagnostics);
        let parsed = parse(target, method, &mut diagnostics);
        if purpose == Purpose::Settings && parsed.as_ref().is_some_and(Target::needs_settings) {
            let message = "settings cannot be assigned by settings: there are none yet";
            let diagnostic = Diagnostic::new(Kind::Target, message).at(target.span);
            diagnostics.push(diagnostic.hint("use the id of the machine or its facts, such as `G@role:web`"));
            continue;
        }
        match parsed {
            Some(target) if matches(&target, inputs) => {
                for (reference, at) in references {
                    if !found.iter().any(|(other, _)| *other == reference) {
                        found.push((reference, Some(at)));
                    }
                }
            }
            _ => {}
        }
    }
    loader.diagnostics.extend(diagnostics);
    found
}

fn find(tree: &dyn Tree, loader: &mut Loader<'_, '_, '_>) -> Option<&'static str> {
    match (tree.exists("top.zy"), tree.exists("top.sls")) {
        (true, false) => Some("top.zy"),
        (false, true) => Some("top.sls"),
        (true, true) => {
            let diagnostic = Diagnostic::new(Kind::Reference, "both `top.zy` and `top.sls` exist");
            loader.diagnostics.push(diagnostic.hint("keep one of them"));
            None
        }
        (false, false) => {
            let message = format!("there is no `top.zy` in the {}", tree.called());
            let diagnostic = Diagnostic::new(Kind::Reference, message);
            loader.diagnostics.push(diagnostic.hint("name what to apply, or write `top.zy`"));
            None
        }
    }
}

/// Pairs of target and references; a level `base:` above them is passed through.
fn entries<'n>(root: &'n Node, diagnostics: &mut Vec<Diagnostic>) -> Vec<(&'n Node, &'n Node)> {
    let mut found = Vec::new();
    let wrong = |node: &Node, message: String| Diagnostic::new(Kind::State, message).at(node.span);
    let Some(map) = root.as_map() else {
        if !root.is_null() {
            diagnostics.push(wrong(
                root,
                format!("`top.zy` maps targets to references; it holds {}", root.describe()),
            ));
        }
        return found;
    };
    for (key, value) in map {
        match (key.as_text(), value.as_map()) {
            (Some("base"), Some(inner)) => found.extend(inner.iter().map(|(key, value)| (key, value))),
            (Some(name), Some(_)) => {
                let message = format!("unknown environment `{name}`");
                diagnostics.push(
                    wrong(key, message).hint("there is one environment, `base`; its level may be left out"),
                );
            }
            (None, _) => diagnostics.push(wrong(key, "a target is missing".into())),
            _ => found.push((key, value)),
        }
    }
    found
}

/// The references of an entry, and Salt's `- match: grain`.
fn split<'n>(list: &'n Node, diagnostics: &mut Vec<Diagnostic>) -> (Option<&'n Node>, Vec<(String, Span)>) {
    let mut method = None;
    let mut references = Vec::new();
    let items = list.as_list().unwrap_or(std::slice::from_ref(list));
    for item in items.iter().filter(|item| !item.is_null()) {
        match (item.as_text(), item.as_map()) {
            (Some(text), _) => references.push((text.to_string(), item.span)),
            (_, Some([(key, value)])) if key.as_text() == Some("match") => method = Some(value),
            _ => {
                let message = format!("expected a reference, found {}", item.describe());
                diagnostics.push(Diagnostic::new(Kind::State, message).at(item.span));
            }
        }
    }
    (method, references)
}

fn parse(target: &Node, method: Option<&Node>, diagnostics: &mut Vec<Diagnostic>) -> Option<Target> {
    let text = target.as_text().unwrap_or_default();
    let expression = match method.map(|node| node.as_text().unwrap_or_default()) {
        None | Some("glob" | "compound") => text.to_string(),
        Some("grain") => format!("G@{text}"),
        Some("pillar") => format!("I@{text}"),
        Some("pcre") => format!("E@{text}"),
        Some("list") => format!("L@{text}"),
        Some(other) => {
            let at = method.map_or(target.span, |node| node.span);
            let diagnostic = Diagnostic::new(Kind::Target, format!("unknown match `{other}`")).at(at);
            diagnostics.push(diagnostic.hint("write a target expression, such as `G@os:Debian and web*`"));
            return None;
        }
    };
    match Target::parse(&expression) {
        Ok(target) => Some(target),
        Err(error) => {
            let mut span = target.span;
            if expression == text {
                // Quotes around the expression are not part of it; without them the offset is exact.
                let quoted = span.len as usize == text.chars().count() + 2;
                let before = expression.get(..error.offset).map_or(0, |part| part.chars().count());
                span.column += before as u32 + u32::from(quoted);
                span.len = 1;
            }
            diagnostics.push(Diagnostic::new(Kind::Target, error.message).at(span).maybe_hint(error.hint));
            None
        }
    }
}

fn matches(target: &Target, inputs: &Inputs<'_>) -> bool {
    target.matches(&Subject { id: inputs.id, facts: inputs.facts, settings: inputs.settings })
}
