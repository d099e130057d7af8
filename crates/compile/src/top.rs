//! `top.zy` (S-8, S-48): which references this peel gets, of states or of settings.

use crate::load::Loader;
use crate::{Inputs, Tree};
use zester_model::node::Node;
use zester_model::problem::{Kind, Problem};
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
        Err(problems) => {
            loader.problems.extend(problems);
            return Vec::new();
        }
    };
    let mut found: Vec<(String, Option<Span>)> = Vec::new();
    let mut problems = Vec::new();
    for (target, list) in entries(&root, &mut problems) {
        let (method, references) = split(list, &mut problems);
        let parsed = parse(target, method, &mut problems);
        if purpose == Purpose::Settings && parsed.as_ref().is_some_and(Target::needs_settings) {
            let message = "settings cannot be assigned by settings: there are none yet";
            let problem = Problem::new(Kind::Target, message).at(target.span);
            problems.push(problem.hint("use the id of the machine or its facts, such as `G@role:web`"));
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
    loader.problems.extend(problems);
    found
}

fn find(tree: &dyn Tree, loader: &mut Loader<'_, '_, '_>) -> Option<&'static str> {
    match (tree.exists("top.zy"), tree.exists("top.sls")) {
        (true, false) => Some("top.zy"),
        (false, true) => Some("top.sls"),
        (true, true) => {
            let problem = Problem::new(Kind::Reference, "both `top.zy` and `top.sls` exist");
            loader.problems.push(problem.hint("keep one of them"));
            None
        }
        (false, false) => {
            let message = format!("there is no `top.zy` in the {}", tree.called());
            let problem = Problem::new(Kind::Reference, message);
            loader.problems.push(problem.hint("name what to apply, or write `top.zy`"));
            None
        }
    }
}

/// Pairs of target and references; a level `base:` above them is passed through.
fn entries<'n>(root: &'n Node, problems: &mut Vec<Problem>) -> Vec<(&'n Node, &'n Node)> {
    let mut found = Vec::new();
    let wrong = |node: &Node, message: String| Problem::new(Kind::State, message).at(node.span);
    let Some(map) = root.as_map() else {
        if !root.is_null() {
            problems.push(wrong(
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
                problems.push(
                    wrong(key, message).hint("there is one environment, `base`; its level may be left out"),
                );
            }
            (None, _) => problems.push(wrong(key, "a target is missing".into())),
            _ => found.push((key, value)),
        }
    }
    found
}

/// The references of an entry, and Salt's `- match: grain`.
fn split<'n>(list: &'n Node, problems: &mut Vec<Problem>) -> (Option<&'n Node>, Vec<(String, Span)>) {
    let mut method = None;
    let mut references = Vec::new();
    let items = list.as_list().unwrap_or(std::slice::from_ref(list));
    for item in items.iter().filter(|item| !item.is_null()) {
        match (item.as_text(), item.as_map()) {
            (Some(text), _) => references.push((text.to_string(), item.span)),
            (_, Some([(key, value)])) if key.as_text() == Some("match") => method = Some(value),
            _ => {
                let message = format!("expected a reference, found {}", item.describe());
                problems.push(Problem::new(Kind::State, message).at(item.span));
            }
        }
    }
    (method, references)
}

fn parse(target: &Node, method: Option<&Node>, problems: &mut Vec<Problem>) -> Option<Target> {
    let text = target.as_text().unwrap_or_default();
    let expression = match method.map(|node| node.as_text().unwrap_or_default()) {
        None | Some("glob" | "compound") => text.to_string(),
        Some("grain") => format!("G@{text}"),
        Some("pillar") => format!("I@{text}"),
        Some("pcre") => format!("E@{text}"),
        Some("list") => format!("L@{text}"),
        Some(other) => {
            let at = method.map_or(target.span, |node| node.span);
            let problem = Problem::new(Kind::Target, format!("unknown match `{other}`")).at(at);
            problems.push(problem.hint("write a target expression, such as `G@os:Debian and web*`"));
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
            problems.push(Problem::new(Kind::Target, error.message).at(span).maybe_hint(error.hint));
            None
        }
    }
}

fn matches(target: &Target, inputs: &Inputs<'_>) -> bool {
    target.matches(&Subject { id: inputs.id, facts: inputs.facts, settings: inputs.settings })
}
