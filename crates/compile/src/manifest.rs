//! Ordered manifests (S-38): a list at the top of a file, of `- <type>: …` with named entries.

use crate::declare::{Declared, Draft, Item, Place, items};
use crate::diagnostics::Diagnostics;
use crate::exclude;
use zester_model::catalog::Catalog;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::keywords::MANIFEST_TYPES as TYPES;
use zester_model::node::{Node, Value};
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;

fn wrong(at: Span, message: String) -> Diagnostic {
    Diagnostic::new(Kind::State, message).at(at)
}

/// Declares the states of a manifest, in the order of the list.
pub fn declare(place: &Place<'_>, list: &[Node], declared: &mut Declared, diagnostics: &mut Diagnostics) {
    for node in list {
        let Some(entries) = node.as_map() else {
            let message = format!("an ordered manifest lists `- type:` entries, not {}", node.describe());
            diagnostics.push(wrong(node.span, message));
            continue;
        };
        for (kind, value) in entries {
            match kind.as_text() {
                Some("include") => {}
                Some("exclude") => exclude::read(place, value, declared, diagnostics),
                Some(name) => resources(place, name, kind.span, value, declared, diagnostics),
                None => diagnostics.push(wrong(kind.span, "an entry needs a type".into())),
            }
        }
    }
}

/// `<type>: [ {<name>: {…}} ]`, `<type>: {<name>: {…}}`, or just names.
fn resources(
    place: &Place<'_>,
    kind: &str,
    at: Span,
    value: &Node,
    declared: &mut Declared,
    diagnostics: &mut Diagnostics,
) {
    let nodes = match &value.value {
        Value::List(list) => list.as_slice(),
        _ => std::slice::from_ref(value),
    };
    let first = declared.drafts.len();
    for node in nodes {
        match &node.value {
            Value::Map(entries) => {
                for (name, properties) in entries.iter() {
                    match name.as_text() {
                        Some(id) => {
                            declared.drafts.push(state(
                                place,
                                kind,
                                (id, name.span),
                                properties,
                                diagnostics,
                            ));
                        }
                        None => diagnostics.push(wrong(name.span, "an entry needs a name".into())),
                    }
                }
            }
            Value::Scalar(_) if !node.is_null() => {
                let id = node.as_text().unwrap_or_default();
                declared.drafts.push(state(
                    place,
                    kind,
                    (id, node.span),
                    &Node::null(node.span),
                    diagnostics,
                ));
            }
            _ => diagnostics.push(wrong(at, format!("`{kind}` names nothing"))),
        }
    }
    if !TYPES.contains(&kind) && place.catalog.get(kind).is_none() {
        let known = TYPES.into_iter().chain(place.catalog.names());
        let hint = did_you_mean(kind, known);
        diagnostics.push(wrong(at, format!("unknown type `{kind}`")).hint(
            hint.unwrap_or_else(|| format!("the types are {}, and any `module.function`", TYPES.join(", "))),
        ));
        declared.drafts.iter_mut().skip(first).for_each(|draft| draft.broken = true);
    }
}

fn state(
    place: &Place<'_>,
    kind: &str,
    (id, at): (&str, Span),
    properties: &Node,
    diagnostics: &mut Diagnostics,
) -> Draft {
    let mut items = items(properties, place.index, diagnostics);
    let ensure = items.iter().position(|item| &*item.key == "ensure").map(|index| items.remove(index));
    let (kind, broken) = match function(kind, ensure.as_ref(), &mut items, place.catalog) {
        Ok(kind) => (kind, false),
        Err(diagnostic) => {
            diagnostics.push(diagnostic);
            (kind.to_string(), true)
        }
    };
    let mut draft = place.draft(id, &kind, at, items);
    draft.ordered = true;
    draft.broken = broken;
    draft
}

/// The `module.function` of a type, as its `ensure` decides.
fn function(
    kind: &str,
    ensure: Option<&Item>,
    items: &mut Vec<Item>,
    catalog: &Catalog,
) -> Result<String, Diagnostic> {
    let wanted = ensure.and_then(|item| item.value.as_text());
    let first_known = |names: [&str; 2]| {
        let known = names.iter().find(|name| catalog.get(name).is_some());
        known.unwrap_or(&names[0]).to_string()
    };
    let unknown = |choices: &str| match ensure {
        Some(item) => {
            let message = format!("`ensure` of {kind} is one of {choices}, not {}", item.value.describe());
            Err(wrong(item.value.span, message))
        }
        None => Ok(kind.to_string()),
    };
    Ok(match (kind, wanted) {
        ("exec", None | Some("present")) => "exec.run".into(),
        ("file", None | Some("present" | "file")) => "file.managed".into(),
        ("file", Some("absent")) => "file.absent".into(),
        ("file", Some("directory")) => "file.directory".into(),
        ("file", _) => return unknown("present, absent, directory"),
        ("package", None | Some("present" | "installed")) => "pkg.installed".into(),
        ("package", Some("absent" | "removed")) => "pkg.removed".into(),
        ("package", Some("purged")) => "pkg.purged".into(),
        ("package", Some("latest")) => "pkg.latest".into(),
        ("package", Some(_)) => {
            // Anything else is the version to have.
            items.extend(ensure.map(|item| Item {
                key: "version".into(),
                at: item.at,
                value: item.value.clone(),
                file: item.file,
            }));
            "pkg.installed".into()
        }
        ("service", None | Some("running" | "present")) => "service.running".into(),
        ("service", Some("stopped" | "dead" | "absent")) => first_known(["service.dead", "service.stopped"]),
        ("service", _) => return unknown("running, stopped"),
        (kind, _) => {
            // A type of its own may have a parameter of this name.
            items.extend(ensure.cloned());
            kind.into()
        }
    })
}
