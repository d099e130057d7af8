//! `extend:` (S-5): requisite lists grow, every other key is replaced.

use crate::declare::{Draft, Extension, lay_over};
use crate::diagnostics::Diagnostics;
use std::collections::HashMap;
use zester_model::catalog::Catalog;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::suggest::did_you_mean;

pub fn apply(
    drafts: &mut Vec<Draft>,
    extensions: Vec<Extension>,
    catalog: &Catalog,
    diagnostics: &mut Diagnostics,
) {
    if extensions.is_empty() {
        return;
    }
    let mut by_id: HashMap<String, Vec<usize>> = HashMap::new();
    for (index, draft) in drafts.iter().enumerate() {
        by_id.entry(draft.id.to_string()).or_default().push(index);
    }
    for extension in extensions {
        let candidates = by_id.get(&*extension.id).map_or(&[][..], Vec::as_slice);
        match find(drafts, candidates, &extension.kind) {
            Some(index) => {
                if let Some(draft) = drafts.get_mut(index) {
                    lay_over(&mut draft.items, extension.items, catalog.get(&draft.kind));
                }
            }
            // In Salt an extension may bring a function that its id did not have.
            None if extension.kind.contains('.')
                && extension.lenient
                && !candidates.is_empty()
                && !same_module(drafts, candidates, &extension.kind) =>
            {
                let Some(of) = candidates.first().and_then(|at| drafts.get(*at)) else { continue };
                let Extension { kind, span, items, lenient, .. } = extension;
                let added = Draft { kind, span, items, lenient, ..of.clone() };
                drafts.push(added);
            }
            // A state of a kind that nobody knows is reported there; it may be the one that is meant.
            None if candidates
                .iter()
                .filter_map(|at| drafts.get(*at))
                .any(|it| catalog.get(&it.kind).is_none()) => {}
            None => diagnostics.push(unknown(drafts, candidates, &extension)),
        }
    }
}

fn same_module(drafts: &[Draft], candidates: &[usize], kind: &str) -> bool {
    let module = |kind: &str| kind.split('.').next().unwrap_or_default().to_string();
    let mut kinds = candidates.iter().filter_map(|at| drafts.get(*at)).map(|draft| &draft.kind);
    kinds.any(|other| module(other) == module(kind))
}

/// The state of exactly that kind, or the only one of the module: `extend` may say `service:` for `service.running:`.
fn find(drafts: &[Draft], candidates: &[usize], kind: &str) -> Option<usize> {
    let kind_of = |index: &usize| drafts.get(*index).map_or("", |draft| &draft.kind);
    if let Some(exact) = candidates.iter().find(|index| kind_of(index) == kind) {
        return Some(*exact);
    }
    if kind.contains('.') {
        return None;
    }
    let prefix = format!("{kind}.");
    let mut same_module = candidates.iter().filter(|index| kind_of(index).starts_with(&prefix));
    same_module.next().copied().filter(|_| same_module.next().is_none())
}

fn unknown(drafts: &[Draft], candidates: &[usize], extension: &Extension) -> Diagnostic {
    let message = format!("extend of unknown state \"{}:{}\"", extension.kind, extension.id);
    let diagnostic = Diagnostic::new(Kind::Dag, message).at(extension.span).code("unknown_state");
    let hint = match candidates.is_empty() {
        true => did_you_mean(&extension.id, drafts.iter().map(|draft| &*draft.id)),
        false => {
            let kinds = candidates.iter().filter_map(|index| drafts.get(*index)).map(|draft| &*draft.kind);
            did_you_mean(&extension.kind, kinds.clone())
                .or_else(|| Some(format!("`{}` is a {}", extension.id, kinds.collect::<Vec<_>>().join(", "))))
        }
    };
    let extended = diagnostic.maybe_hint(hint);
    extended.note("`extend` changes states of this file and of those that it includes")
}
