//! `!secret`: where it may stand, and to whom settings that hold one may be assigned (D-6).

use crate::load::{ByFacts, FactsIn, File, Loaded};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::{Node, Scalar, ScalarType, Value};
use zester_model::source::{Sources, Span};

/// Whether a tag, as it is written, marks a secret. `zester_secret` looks for the same two in texts.
pub fn is_tag(written: impl std::fmt::Display) -> bool {
    ["!secret", "!<!secret>"].contains(&written.to_string().as_str())
}

/// A secret outside of settings.
pub fn misplaced(at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, "`!secret` stands in settings only")
        .at(at)
        .hint("put it into a settings file, and use `{{ settings.NAME }}` here")
}

/// A secret that is a list or a map.
pub fn not_a_text(at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, "`!secret` marks a sealed text, not a list or a map")
        .at(at)
        .hint("`zester secret encrypt` makes one")
}

/// Every sealed value begins with a comment that says where it stands: whoever cannot open it, long after the files were
/// merged, says so there.
pub fn with_places(node: &Node, sources: &Sources) -> Node {
    let value = match &node.value {
        Value::Scalar(Scalar { text, scalar_type: ScalarType::Sealed }) => {
            let text = format!("# {}\n{text}", sources.place(node.span));
            Value::Scalar(Scalar { text: text.into(), scalar_type: ScalarType::Sealed })
        }
        Value::Scalar(_) => return node.clone(),
        Value::List(items) => {
            Value::List(Arc::new(items.iter().map(|item| with_places(item, sources)).collect()))
        }
        Value::Map(entries) => Value::Map(Arc::new(
            entries.iter().map(|(key, value)| (key.clone(), with_places(value, sources))).collect(),
        )),
    };
    Node { span: node.span, value }
}

/// Facts are what a peel says of itself: it must not get secrets by saying so.
pub fn refuse_by_facts(loaded: &mut Loaded) {
    let files: BTreeMap<&str, &File> = loaded.files.iter().map(|file| (file.path.as_str(), file)).collect();
    let mut found = Vec::new();
    for ByFacts { path, at, by } in &loaded.by_facts {
        let Some(holder) = with_secret(path, &files) else { continue };
        let templated = || {
            format!("`{holder}` holds a secret, and this line depends on facts that its template asks for")
        };
        let outside = "outside of every block, for ids by a glob, `E@` or `L@`";
        let (message, hint) = match by {
            FactsIn::Target => (
                format!("`{holder}` holds a secret, so it may be assigned by id only"),
                "a glob, `E@` or `L@`: facts are what a peel says of itself".to_string(),
            ),
            FactsIn::Template => {
                (templated(), format!("facts are what a peel says of itself: write the line {outside}"))
            }
            FactsIn::Include => {
                let name = crate::reference::name_of(holder);
                let hint =
                    format!("facts are what a peel says of itself: assign `{name}` in top.zy, {outside}");
                (templated(), hint)
            }
        };
        found.push(Diagnostic::new(Kind::Target, message).at(*at).hint(hint));
    }
    loaded.diagnostics.extend(found);
}

/// The first file with a secret among a file and what it includes.
fn with_secret<'f>(path: &str, files: &BTreeMap<&str, &'f File>) -> Option<&'f str> {
    let mut seen = BTreeSet::new();
    let mut rest: Vec<&File> = files.get(path).copied().into_iter().collect();
    while let Some(file) = rest.pop() {
        if file.sealed {
            return Some(&file.path);
        }
        if seen.insert(file.path.as_str()) {
            rest.extend(file.includes.iter().filter_map(|path| files.get(path.as_str())));
        }
    }
    None
}
