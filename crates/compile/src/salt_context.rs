//! Keys beside `template:` that are no parameters (S-53).
//!
//! In Salt they reach the template as variables of their own, which is how a `context:` whose keys stand one level too far to
//! the left still works. Files for Salt are read alike; `lint` shows what was probably meant.

use crate::attributes;
use crate::declare::{Draft, Item};
use crate::diagnostics::Diagnostics;
use crate::requisite::relation;
use zester_model::catalog::Kind;
use zester_model::diagnostic::{Diagnostic, Kind as DiagnosticKind};
use zester_model::node::{Node, Value};
use zester_model::program::{Param, State};

/// Whether a key of an `.sls` file goes to the template: the kind renders one, the state asks for it, and the key is nothing
/// else.
pub fn is_extra(item: &Item, draft: &Draft, kind: &Kind) -> bool {
    let renders = kind.parameter("template").is_some() && kind.parameter("context").is_some();
    renders
        && kind.parameter(&item.key).is_none()
        && relation(&item.key).is_none()
        && !attributes::is_one(&item.key)
        && attributes::needless(item).is_none()
        && draft.items.iter().any(|other| &*other.key == "template" && !other.value.is_null())
}

/// Puts the extra keys into the context; what stands there already wins, as in Salt.
pub fn hand_over(extra: &[&Item], kind: &Kind, state: &mut State, diagnostics: &mut Diagnostics) {
    let Some(first) = extra.first() else { return };
    for item in extra {
        let message = format!("`{}` is no parameter of {}: it goes to the template", item.key, kind.name);
        let advice = Diagnostic::new(DiagnosticKind::Lint, message).at(item.at).code("context_keys");
        diagnostics
            .advise(advice.hint("indent it below `context:`, which is probably where it was meant to stand"));
    }
    let name = kind.canonical_name("context").to_string();
    let given = state.params.iter().position(|param| param.name == name);
    let (at, mut entries) = match given.and_then(|at| state.params.get(at).map(|param| (at, param))) {
        Some((at, param)) => match &param.value.value {
            Value::Map(entries) => (Some(at), entries.to_vec()),
            Value::Scalar(_) if param.value.is_null() => (Some(at), Vec::new()),
            // Whoever binds it will say that it is no map.
            _ => return,
        },
        None => (None, Vec::new()),
    };
    for item in extra {
        if !entries.iter().any(|(key, _)| key.as_text() == Some(&item.key)) {
            entries.push((Node::text(item.at, item.key.clone()), item.value.clone()));
        }
    }
    let value = Node::map(first.at, entries);
    match at.and_then(|at| state.params.get_mut(at)) {
        Some(param) => param.value = value,
        None => state.params.push(Param::new(&name, first.at, value)),
    }
}
