//! From a file's nodes to drafts: one for each `module.function` under an id, with its items as they were written.

use crate::diagnostics::Diagnostics;
use crate::exclude::{self, Exclusion};
use crate::load::File;
use crate::manifest;
use crate::requisite::{Relation, relation};
use crate::salt_kinds;
use std::collections::HashSet;
use std::sync::Arc;
use zester_model::catalog::{Catalog, Kind as CatalogKind};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::{Node, ScalarType, Value};
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;

/// `- key: value` of a state.
#[derive(Clone, Debug)]
pub struct Item {
    pub key: Arc<str>,
    pub at: Span,
    pub value: Node,
    /// Index of the file that says so: with `extend`, another one than that of the state. How it is read is for that file
    /// to decide (S-49).
    pub file: usize,
}

/// Lays items over others: what means the same parameter, by whichever of its names, gives way; requisites are added.
/// What the new ones say twice among themselves stays, for whoever checks them to report.
pub fn lay_over(items: &mut Vec<Item>, new: Vec<Item>, kind: Option<&CatalogKind>) {
    let meant = |item: &Item| kind.map_or(&*item.key, |kind| kind.canonical_name(&item.key)).to_string();
    let replaced: HashSet<String> =
        new.iter().filter(|item| relation(&item.key).is_none()).map(meant).collect();
    items.retain(|old| !replaced.contains(&meant(old)));
    items.extend(new);
}

/// A state before anything about it was resolved.
#[derive(Clone, Debug)]
pub struct Draft {
    pub id: Arc<str>,
    /// The id as it stands in the file, where `names` made several states of it.
    pub declared: Arc<str>,
    pub kind: Arc<str>,
    /// The `module.function` key.
    pub span: Span,
    pub sls: Arc<str>,
    /// Index of its file.
    pub file: usize,
    pub ordered: bool,
    pub items: Vec<Item>,
    /// Something about it was reported already: nothing that follows from that is.
    pub broken: bool,
    /// Nobody knows its kind, which was reported; its requisites hold all the same.
    pub foreign: bool,
    /// Further ids that mean it, of declarations that it was united with.
    pub also: Vec<Arc<str>>,
    /// One of several that `names` made of one declaration.
    pub by_names: bool,
    /// It was declared in an `.sls` file, which is read as Salt reads it (S-49).
    pub lenient: bool,
}

/// An entry of `extend:`.
#[derive(Debug)]
pub struct Extension {
    pub id: Arc<str>,
    pub kind: Arc<str>,
    pub span: Span,
    pub items: Vec<Item>,
    /// It stands in an `.sls` file.
    pub lenient: bool,
}

#[derive(Debug, Default)]
pub struct Declared {
    pub drafts: Vec<Draft>,
    pub extensions: Vec<Extension>,
    pub exclusions: Vec<Exclusion>,
}

/// Where drafts come from and what they are checked against.
pub struct Place<'a> {
    pub catalog: &'a Catalog,
    pub file: &'a File,
    pub index: usize,
}

impl Place<'_> {
    pub fn draft(&self, id: &str, kind: &str, span: Span, items: Vec<Item>) -> Draft {
        let id: Arc<str> = id.into();
        Draft {
            declared: id.clone(),
            id,
            kind: kind.into(),
            span,
            sls: self.file.sls.clone(),
            file: self.index,
            ordered: self.file.ordered,
            items,
            broken: false,
            foreign: false,
            by_names: false,
            also: Vec::new(),
            lenient: self.file.is_salt(),
        }
    }
}

fn wrong(at: Span, message: String) -> Diagnostic {
    Diagnostic::new(Kind::State, message).at(at)
}

/// Declares the states of one file.
pub fn declare(place: &Place<'_>, declared: &mut Declared, diagnostics: &mut Diagnostics) {
    let root = &place.file.root;
    match &root.value {
        _ if root.is_null() => {}
        Value::Map(entries) => {
            for (key, value) in entries.iter() {
                top_level(place, key, value, declared, diagnostics);
            }
        }
        Value::List(items) => manifest::declare(place, items, declared, diagnostics),
        Value::Scalar(_) => {
            let message = format!("a state file holds states, not {}", root.describe());
            diagnostics.push(wrong(root.span, message).hint("write `id:`, and below it `module.function:`"));
        }
    }
}

fn top_level(
    place: &Place<'_>,
    key: &Node,
    value: &Node,
    declared: &mut Declared,
    diagnostics: &mut Diagnostics,
) {
    match key.as_text() {
        Some("include") => {}
        Some("exclude") => exclude::read(place, value, declared, diagnostics),
        Some("extend") => extensions(place, value, declared, diagnostics),
        Some(id) => {
            for draft in states(place, id, key.span, value, diagnostics) {
                declared.drafts.push(draft);
            }
        }
        None => diagnostics.push(wrong(key.span, "a state needs an id".into())),
    }
}

/// The states under one id: a map of `module.function`, or the short form `id: module.function`.
fn states(place: &Place<'_>, id: &str, at: Span, value: &Node, diagnostics: &mut Diagnostics) -> Vec<Draft> {
    match &value.value {
        Value::Map(entries) => {
            let mut drafts = Vec::new();
            for (kind, items) in entries.iter() {
                let Some(name) = kind.as_text() else {
                    diagnostics.push(wrong(kind.span, "a state needs a `module.function`".into()));
                    continue;
                };
                // Editors and generators leave marks like `__sls__`; Salt passes over them.
                if name.starts_with("__") {
                    continue;
                }
                let (name, mut items) =
                    function(name, &without_noise(items, place, diagnostics), place, diagnostics);
                if place.file.is_salt() {
                    keep_last_requisites(&mut items, diagnostics);
                }
                drafts.push(place.draft(id, &name, kind.span, items));
            }
            drafts
        }
        Value::Scalar(_) if value.as_text().is_some_and(|text| is_kind(text, place)) => {
            vec![place.draft(id, value.as_text().unwrap_or_default(), value.span, Vec::new())]
        }
        _ => {
            let mut diagnostic = wrong(at, format!("`{id}` holds no state, but {}", value.describe()));
            if place.catalog.get(id).is_some() {
                diagnostic = diagnostic.hint(format!("a state needs an id above `{id}`"));
            } else {
                diagnostic = diagnostic.hint("write `module.function:` below it, as in `file.managed:`");
            }
            diagnostics.push(diagnostic);
            // It stays as a name, so that what requires it makes no second error.
            vec![Draft { broken: true, ..place.draft(id, "", at, Vec::new()) }]
        }
    }
}

/// The list of a state without numbers and truth values that stand in it by themselves: in a file for Salt nobody looks at
/// them.
fn without_noise(value: &Node, place: &Place<'_>, diagnostics: &mut Diagnostics) -> Node {
    let is_noise = |node: &Node| {
        let Value::Scalar(scalar) = &node.value else { return false };
        !matches!(scalar.scalar_type, ScalarType::Text | ScalarType::Null)
    };
    let list = value.as_list().filter(|list| place.file.is_salt() && list.iter().any(is_noise));
    let Some(list) = list else { return value.clone() };
    for node in list.iter().filter(|node| is_noise(node)) {
        let message = format!("{} stands where `name: value` does: it is passed over", node.describe());
        let advice = Diagnostic::new(Kind::Lint, message).at(node.span);
        diagnostics.advise(advice.hint("name the parameter that is meant").code("stray_parameter"));
    }
    Node::list(value.span, list.iter().filter(|node| !is_noise(node)).cloned().collect())
}

/// A requisite that one declaration of Salt's gives twice counts as it is given last; what it gives others (`require_in`, and
/// `use`) is handed out one by one, and all of it counts.
fn keep_last_requisites(items: &mut Vec<Item>, diagnostics: &mut Diagnostics) {
    let mut at = 0;
    while let Some(item) = items.get(at) {
        let later = items.iter().skip(at + 1).find(|other| other.key == item.key);
        let counts_once = matches!(relation(&item.key), Some((relation, false)) if relation != Relation::Use);
        let Some(later) = later.filter(|_| counts_once) else {
            at += 1;
            continue;
        };
        let message = format!("`{}` is given twice: the last one counts", item.key);
        let advice = Diagnostic::new(Kind::Lint, message).at(later.at).code("parameter_twice");
        diagnostics.advise(advice.label(item.at, "passed over").hint("join the two lists"));
        items.remove(at);
    }
}

/// Whether a text is a kind: one that there is, or in a file for Salt what could be one.
fn is_kind(text: &str, place: &Place<'_>) -> bool {
    let word =
        |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_');
    let pair = text.split_once('.').is_some_and(|(module, function)| word(module) && word(function));
    place.catalog.get(text).is_some() || place.file.is_salt() && pair
}

/// The kind and items of one state. Salt's old form names the function among the items: `pkg: [installed]`.
fn function(
    name: &str,
    value: &Node,
    place: &Place<'_>,
    diagnostics: &mut Diagnostics,
) -> (String, Vec<Item>) {
    if name.contains('.') {
        return (name.to_string(), items(value, place.index, diagnostics));
    }
    let list = value.as_list().unwrap_or(std::slice::from_ref(value));
    let full = |node: &Node| node.as_text().map(|function| format!("{name}.{function}"));
    let known = list.iter().position(|node| full(node).is_some_and(|kind| is_kind(&kind, place)));
    match known.and_then(|at| list.get(at).and_then(full).map(|kind| (at, kind))) {
        Some((at, kind)) => {
            let rest: Vec<Node> = list
                .iter()
                .enumerate()
                .filter(|(index, _)| *index != at)
                .map(|(_, node)| node.clone())
                .collect();
            (kind, items(&Node::list(value.span, rest), place.index, diagnostics))
        }
        None => (name.to_string(), items(value, place.index, diagnostics)),
    }
}

/// The items of a state, in all forms of S-1: a list of maps, a map, an empty list, nothing.
pub fn items(value: &Node, file: usize, diagnostics: &mut Diagnostics) -> Vec<Item> {
    let mut found = Vec::new();
    let mut item = |key: &Node, value: &Node, diagnostics: &mut Diagnostics| match key.as_text() {
        Some(name) => found.push(Item { key: name.into(), at: key.span, value: value.clone(), file }),
        None => diagnostics.push(wrong(key.span, "a parameter needs a name".into())),
    };
    match &value.value {
        Value::Map(entries) => entries.iter().for_each(|(key, value)| item(key, value, diagnostics)),
        Value::List(list) => {
            for node in list.iter() {
                match node.as_map() {
                    Some(entries) => {
                        entries.iter().for_each(|(key, value)| item(key, value, diagnostics));
                    }
                    None => diagnostics.push(loose(node)),
                }
            }
        }
        Value::Scalar(_) if value.is_null() => {}
        Value::Scalar(_) => diagnostics.push(loose(value)),
    }
    found
}

fn loose(node: &Node) -> Diagnostic {
    let diagnostic = wrong(node.span, format!("expected `name: value`, found {}", node.describe()));
    match node.as_text().and_then(|text| text.split_once(':')) {
        Some((name, _)) if !name.contains(' ') => diagnostic.hint("put a blank behind the colon"),
        _ => diagnostic,
    }
}

fn extensions(place: &Place<'_>, value: &Node, declared: &mut Declared, diagnostics: &mut Diagnostics) {
    let Some(entries) = value.as_map() else {
        if !value.is_null() {
            diagnostics.push(wrong(value.span, format!("`extend` holds states, not {}", value.describe())));
        }
        return;
    };
    for (key, value) in entries {
        let Some(id) = key.as_text() else { continue };
        for draft in states(place, id, key.span, value, diagnostics).into_iter().filter(|draft| !draft.broken)
        {
            declared.extensions.push(Extension {
                id: draft.id,
                kind: draft.kind,
                span: draft.span,
                items: draft.items,
                lenient: draft.lenient,
            });
        }
    }
}

/// Reports a draft whose kind nobody knows.
pub fn check_kind(draft: &mut Draft, catalog: &Catalog, diagnostics: &mut Diagnostics) {
    if catalog.get(&draft.kind).is_some() {
        return;
    }
    draft.foreign = true;
    let module = draft.kind.split('.').next().unwrap_or_default();
    let prefix = format!("{module}.");
    let functions: Vec<&str> = catalog.names().filter(|name| name.starts_with(&prefix)).collect();
    let function = draft.kind.strip_prefix(&prefix);
    let diagnostic = match (function, functions.is_empty()) {
        (None, false) => {
            let some: Vec<&str> = functions.into_iter().take(6).collect();
            wrong(draft.span, format!("unknown module `{}`", draft.kind))
                .hint(format!("name a function: {}", some.join(", ")))
        }
        (Some(function), false) => wrong(draft.span, format!("unknown function `{function}` of {module}"))
            .maybe_hint(instead(&draft.kind, catalog))
            .note(format!("`zester doc {module}` lists its functions")),
        (_, true) => wrong(draft.span, format!("unknown module `{}`", draft.kind))
            .maybe_hint(instead(&draft.kind, catalog))
            .note("`zester doc` lists the modules"),
    };
    diagnostics.push(diagnostic.code("unknown_kind"));
}

/// What was meant, or what does the same.
fn instead(kind: &str, catalog: &Catalog) -> Option<String> {
    let known = salt_kinds::advice(kind).map(|advice| format!("there is no {kind} yet: {advice}"));
    known.or_else(|| did_you_mean(kind, catalog.names()))
}
