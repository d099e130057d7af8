//! `names:` (S-7): one declaration becomes a state per name.

use crate::declare::{Draft, Item, items, lay_over};
use crate::diagnostics::Diagnostics;
use crate::requisite::relation;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use zester_model::catalog::Catalog;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::node::Node;
use zester_model::source::Span;

pub fn expand(drafts: Vec<Draft>, catalog: &Catalog, diagnostics: &mut Diagnostics) -> Vec<Draft> {
    let mut expanded = Vec::with_capacity(drafts.len());
    for mut draft in drafts {
        match draft.items.iter().position(|item| &*item.key == "names") {
            None => expanded.push(draft),
            Some(index) => {
                let names = draft.items.remove(index);
                each(draft, &names, catalog, &mut expanded, diagnostics);
            }
        }
        if expanded.len() > limits::STATES_MAX {
            diagnostics
                .push(Diagnostic::new(Kind::State, format!("more than {} states", limits::STATES_MAX)));
            expanded.truncate(limits::STATES_MAX);
            break;
        }
    }
    expanded
}

/// States that `names` gave the same full name and the same parameters are one, with the requisites of both (S-52).
pub fn unite(drafts: &mut Vec<Draft>, catalog: &Catalog, diagnostics: &mut Diagnostics) {
    let mut seen: HashMap<(Arc<str>, Arc<str>), usize> = HashMap::new();
    let mut kept: Vec<Draft> = Vec::with_capacity(drafts.len());
    for draft in drafts.drain(..) {
        let key = (draft.kind.clone(), draft.id.clone());
        let first = seen.get(&key).and_then(|at| kept.get_mut(*at));
        match first {
            Some(first) if first.by_names && draft.by_names && same(first, &draft, catalog) => {
                if draft.lenient {
                    diagnostics.differs("names_same", draft.items.last().map_or(draft.span, |name| name.at));
                }
                first.also.push(draft.declared.clone());
                first.items.extend(draft.items.into_iter().filter(|item| relation(&item.key).is_some()));
            }
            _ => {
                seen.entry(key).or_insert(kept.len());
                kept.push(draft);
            }
        }
    }
    *drafts = kept;
}

/// Whether two states are given the same, requisites aside.
fn same(one: &Draft, other: &Draft, catalog: &Catalog) -> bool {
    let kind = catalog.get(&one.kind);
    let given = |draft: &Draft| -> BTreeMap<String, serde_json::Value> {
        let items = draft.items.iter().filter(|item| relation(&item.key).is_none());
        let name = |item: &Item| kind.map_or(&*item.key, |kind| kind.canonical_name(&item.key)).to_string();
        items.map(|item| (name(item), item.value.to_json())).collect()
    };
    given(one) == given(other)
}

fn each(
    draft: Draft,
    names: &Item,
    catalog: &Catalog,
    expanded: &mut Vec<Draft>,
    diagnostics: &mut Diagnostics,
) {
    let kind = catalog.get(&draft.kind);
    let primary = kind.map_or("name", |kind| kind.primary);
    let is_primary = |item: &&Item| {
        &*item.key == "name" || kind.is_some_and(|kind| kind.canonical_name(&item.key) == primary)
    };
    if let Some(clash) = draft.items.iter().find(is_primary) {
        let message = format!("`{}` and `names` cannot stand together", clash.key);
        diagnostics
            .push(Diagnostic::new(Kind::State, message).at(clash.at).label(names.at, "`names` is here"));
        return;
    }
    let list = match names.value.as_list() {
        Some(list) => list,
        None => std::slice::from_ref(&names.value),
    };
    for entry in list {
        if let Some((name, at, own)) = name_of(entry, names.file, diagnostics) {
            let mut state = draft.clone();
            state.id = name.into();
            state.by_names = true;
            lay_over(&mut state.items, own, kind);
            state.items.push(Item { key: primary.into(), at, value: Node::text(at, name), file: names.file });
            expanded.push(state);
        }
    }
}

/// A name, or a one-key map of a name with what differs for it.
fn name_of<'a>(
    entry: &'a Node,
    file: usize,
    diagnostics: &mut Diagnostics,
) -> Option<(&'a str, Span, Vec<Item>)> {
    if let Some(text) = entry.as_text() {
        return Some((text, entry.span, Vec::new()));
    }
    match entry.as_map() {
        Some([(name, own)]) if name.as_text().is_some() => {
            Some((name.as_text().unwrap_or_default(), name.span, items(own, file, diagnostics)))
        }
        _ => {
            let message =
                format!("`names` lists names, or a name with its own parameters, not {}", entry.describe());
            diagnostics.push(Diagnostic::new(Kind::State, message).at(entry.span));
            None
        }
    }
}
