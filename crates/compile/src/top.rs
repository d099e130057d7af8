//! `top.zy` (S-8, S-48): which references this peel gets, of states or of settings.
//!
//! A top file may have levels, one an environment. All environments share one tree: a level says which of its files a peel
//! gets there, and templates see the name as `saltenv`.

use crate::load::{ByFacts, FactsIn, Loaded, Loader};
use crate::template::with_renderer;
use crate::{Inputs, Tree, reference};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::Node;
use zester_model::source::{Sources, Span};
use zester_model::target::{Subject, Target};

/// What the references are for.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum Purpose {
    States,
    /// Settings cannot decide which settings there are.
    Settings,
}

/// The environment that counts where nobody names one. What stands outside of any level of a top file is of it.
pub const BASE: &str = "base";

/// One environment of a top file, and what it gives this peel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    pub name: String,
    pub references: Vec<String>,
}

/// A level of a top file: pairs of target and references.
struct Level<'n> {
    name: &'n str,
    entries: Vec<(&'n Node, &'n Node)>,
}

/// The references that match this peel in its environment, in the order of the file, each once.
pub fn references(
    inputs: &Inputs<'_>,
    loader: &mut Loader<'_, '_, '_>,
    purpose: Purpose,
) -> Vec<(String, Option<Span>)> {
    let Some(root) = read(inputs, loader) else { return Vec::new() };
    let mut diagnostics = Vec::new();
    let levels = levels(&root, purpose, inputs.environment, &mut diagnostics);
    let level = named(&levels, &root, inputs.environment, &mut diagnostics);
    let found = level.map(|level| assigned(level, inputs, purpose, &mut diagnostics));
    loader.diagnostics.extend(diagnostics);
    if levels.len() > 1 && purpose == Purpose::States {
        let other = |(key, _): &&(Node, Node)| key.as_text().is_some_and(|name| name != BASE);
        let at = root.as_map().and_then(|map| map.iter().find(other)).map_or(root.span, |(key, _)| key.span);
        loader.diagnostics.differs("environments", at);
    }
    let Assigned { references, given } = found.unwrap_or_default();
    if purpose == Purpose::Settings {
        let by_facts = given.into_iter().filter_map(|given| given.by_facts(inputs.tree, loader));
        let by_facts: Vec<ByFacts> = by_facts.collect();
        loader.by_facts.extend(by_facts);
    }
    references.into_iter().map(|(reference, at)| (reference, Some(at))).collect()
}

/// Whoever names files in an environment means one that there is, as far as a top file says which there are.
pub fn check_environment(inputs: &Inputs<'_>, loader: &mut Loader<'_, '_, '_>) {
    let has_top = ["top.zy", "top.sls"].iter().any(|name| inputs.tree.exists(name));
    if inputs.environment == BASE || !has_top {
        return;
    }
    let Some(root) = read(inputs, loader) else { return };
    let mut diagnostics = Vec::new();
    let levels = levels(&root, Purpose::States, inputs.environment, &mut diagnostics);
    named(&levels, &root, inputs.environment, &mut diagnostics);
    loader.diagnostics.extend(diagnostics);
}

/// What the top file gives this peel in each environment, or in the one that is named.
pub fn environments(
    inputs: &Inputs<'_>,
    only: Option<&str>,
) -> Result<Vec<Environment>, (Sources, Vec<Diagnostic>)> {
    with_renderer(inputs.surroundings(), |renderer| {
        let mut loader = Loader::new(inputs, renderer);
        let mut found = Vec::new();
        if let Some(root) = read(inputs, &mut loader) {
            let mut diagnostics = Vec::new();
            let levels = levels(&root, Purpose::States, only.unwrap_or(BASE), &mut diagnostics);
            let meant: Vec<&Level<'_>> = match only {
                Some(only) => named(&levels, &root, only, &mut diagnostics).into_iter().collect(),
                None => levels.iter().collect(),
            };
            for level in meant {
                let Assigned { references, .. } = assigned(level, inputs, Purpose::States, &mut diagnostics);
                let references = references.into_iter().map(|(reference, _)| reference).collect();
                found.push(Environment { name: level.name.to_string(), references });
            }
            loader.diagnostics.extend(diagnostics);
        }
        let Loaded { sources, diagnostics, .. } = loader.finish();
        if diagnostics.is_empty() { Ok(found) } else { Err((sources, diagnostics.finish())) }
    })
}

fn read(inputs: &Inputs<'_>, loader: &mut Loader<'_, '_, '_>) -> Option<Node> {
    let path = find(inputs.tree, loader)?;
    match loader.read(path) {
        Ok((root, _)) => Some(root),
        Err(diagnostics) => {
            loader.diagnostics.extend(diagnostics);
            None
        }
    }
}

/// The level of an environment, or the sentence that says which there are.
fn named<'l, 'n>(
    levels: &'l [Level<'n>],
    root: &Node,
    environment: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<&'l Level<'n>> {
    let found = levels.iter().find(|level| level.name == environment);
    if found.is_none() {
        let names: Vec<String> = levels.iter().map(|level| format!("`{}`", level.name)).collect();
        let message = format!("there is no environment `{environment}` in the top file");
        let diagnostic = Diagnostic::new(Kind::Reference, message).at(root.span);
        diagnostics.push(diagnostic.hint(format!("it has {}; choose with --env", names.join(", "))));
    }
    found
}

/// What a level gives a peel.
#[derive(Default)]
struct Assigned {
    references: Vec<(String, Span)>,
    /// How it gets each of them, also twice.
    given: Vec<Given>,
}

/// A reference that a target gives.
struct Given {
    reference: String,
    at: Span,
    target: Span,
    by_id_only: bool,
}

impl Given {
    /// Where what a peel says of itself decides: the target, or the template that wrote the line. A file that is missing is told
    /// elsewhere.
    fn by_facts(self, tree: &dyn Tree, loader: &Loader<'_, '_, '_>) -> Option<ByFacts> {
        let templated =
            || ["top.zy", "top.sls"].iter().any(|top| loader.is_by_facts(top, self.target, self.at));
        let (at, by) = match self.by_id_only {
            false => (self.target, FactsIn::Target),
            true if templated() => (self.at, FactsIn::Template),
            true => return None,
        };
        let path = reference::find(tree, &self.reference, None).ok()?;
        Some(ByFacts { path, at, by })
    }
}

/// What a level gives this peel.
fn assigned(
    level: &Level<'_>,
    inputs: &Inputs<'_>,
    purpose: Purpose,
    diagnostics: &mut Vec<Diagnostic>,
) -> Assigned {
    let mut found = Assigned::default();
    for (target, list) in &level.entries {
        let (method, references) = split(list, diagnostics);
        let parsed = parse(target, method, diagnostics);
        if purpose == Purpose::Settings && parsed.as_ref().is_some_and(Target::needs_settings) {
            let message = "settings cannot be assigned by settings: there are none yet";
            let diagnostic = Diagnostic::new(Kind::Target, message).at(target.span);
            diagnostics.push(diagnostic.hint("use the id of the machine or its facts, such as `G@role:web`"));
            continue;
        }
        match parsed {
            Some(parsed) if matches(&parsed, inputs) => {
                for (reference, at) in references {
                    found.given.push(Given {
                        reference: reference.clone(),
                        at,
                        target: target.span,
                        by_id_only: parsed.by_id_only(),
                    });
                    if !found.references.iter().any(|(other, _)| *other == reference) {
                        found.references.push((reference, at));
                    }
                }
            }
            _ => {}
        }
    }
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

/// The levels of a top file. What stands outside of any is of `base`, and where nothing else stands there is that one.
fn levels<'n>(
    root: &'n Node,
    purpose: Purpose,
    environment: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Vec<Level<'n>> {
    let wrong = |node: &Node, message: String| Diagnostic::new(Kind::State, message).at(node.span);
    let Some(map) = root.as_map() else {
        if !root.is_null() {
            let message = format!("`top.zy` maps targets to references; it holds {}", root.describe());
            diagnostics.push(wrong(root, message));
        }
        return vec![Level { name: BASE, entries: Vec::new() }];
    };
    let mut levels: Vec<Level<'n>> = Vec::new();
    let add = |levels: &mut Vec<Level<'n>>, name: &'n str, entries: Vec<(&'n Node, &'n Node)>| match levels
        .iter_mut()
        .find(|level| level.name == name)
    {
        Some(level) => level.entries.extend(entries),
        None => levels.push(Level { name, entries }),
    };
    for (key, value) in map {
        // An environment that nobody gets anything in may be left empty.
        let empty = |name: &str| value.is_null() && (name == BASE || name == environment);
        match (key.as_text(), value.as_map()) {
            (Some(name), Some(_)) if name != BASE && purpose == Purpose::Settings => {
                let diagnostic = wrong(key, format!("unknown environment `{name}`"));
                diagnostics.push(
                    diagnostic.hint("settings have one environment, `base`; its level may be left out"),
                );
            }
            (Some(name), Some(_)) if !is_name(name) => {
                let message = format!("`{name}` is no name of an environment, and a target takes a list");
                diagnostics.push(wrong(key, message).hint("write `- ` before each reference"));
            }
            (Some(name), Some(inner)) => {
                add(&mut levels, name, inner.iter().map(|(key, value)| (key, value)).collect());
            }
            (Some(name), None) if empty(name) => add(&mut levels, name, Vec::new()),
            (None, _) => diagnostics.push(wrong(key, "a target is missing".into())),
            (Some(_), None) => add(&mut levels, BASE, vec![(key, value)]),
        }
    }
    if levels.is_empty() {
        levels.push(Level { name: BASE, entries: Vec::new() });
    }
    levels
}

/// What an environment may be called: nothing that could be meant as a target expression.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter))
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
