//! The requisite keys and the targets they name, as written.

use crate::diagnostics::Diagnostics;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::keywords;
use zester_model::node::{Node, Value};
use zester_model::source::Span;

pub use zester_model::keywords::Relation;

/// What a key means, and whether it is an `_in` form; `None` if it is no requisite.
pub fn relation(key: &str) -> Option<(Relation, bool)> {
    keywords::requisite(key).map(|requisite| (requisite.relation, requisite.inverse))
}

/// A target as written: with its module or without.
#[derive(Clone, Debug, PartialEq)]
pub struct RequisiteTarget {
    /// `file`, `file.managed`, `sls`; `None` for a bare id.
    pub module: Option<String>,
    pub id: String,
    /// The whole text where it was one: it may also be an id that holds a colon.
    pub whole: Option<String>,
}

fn is_name(text: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.split('.').all(|part| !part.is_empty() && part.bytes().all(letter)) && text.matches('.').count() < 3
}

/// Reads `module.function:id`, `type#id` or a bare id.
pub fn parse_target(text: &str) -> RequisiteTarget {
    let whole = Some(text.to_string());
    for separator in ['#', ':'] {
        if let Some((module, id)) = text.split_once(separator)
            && is_name(module)
            && !id.trim().is_empty()
        {
            return RequisiteTarget { module: Some(module.to_string()), id: id.trim().to_string(), whole };
        }
    }
    RequisiteTarget { module: None, id: text.to_string(), whole }
}

/// Reads the targets of one requisite: a list, a map, or a single one.
pub fn targets(key: &str, value: &Node, diagnostics: &mut Diagnostics) -> Vec<(RequisiteTarget, Span)> {
    let mut found = Vec::new();
    let nodes = match &value.value {
        Value::List(items) => items.as_slice(),
        _ => std::slice::from_ref(value),
    };
    for node in nodes.iter().filter(|node| !node.is_null()) {
        match &node.value {
            Value::Scalar(_) => {
                found.push((parse_target(node.as_text().unwrap_or_default().trim()), node.span));
            }
            Value::Map(entries) => {
                for (module, id) in entries.iter().filter(|(_, id)| !id.is_null()) {
                    match (module.as_text(), id.as_text()) {
                        (Some(name), Some(text)) => {
                            let target = RequisiteTarget {
                                module: Some(name.to_string()),
                                id: text.to_string(),
                                whole: None,
                            };
                            found.push((target, id.span));
                        }
                        _ => diagnostics.push(not_a_target(key, node)),
                    }
                }
            }
            Value::List(_) => diagnostics.push(not_a_target(key, node)),
        }
    }
    found
}

fn not_a_target(key: &str, node: &Node) -> Diagnostic {
    Diagnostic::new(Kind::State, format!("`{key}` names states, not {}", node.describe()))
        .at(node.span)
        .hint("write `- module.function:id` or `- module: id`")
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_model::requisite::EdgeKind;
    use zester_rule::rule;

    #[test]
    #[rule("S-11")]
    fn s11_every_key_has_its_meaning() {
        assert_eq!(relation("listen_in"), Some((Relation::Edge(EdgeKind::Watch), true)));
        assert_eq!(relation("subscribe"), Some((Relation::Edge(EdgeKind::Watch), false)));
        assert_eq!(relation("prereq_in"), Some((Relation::Prereq, true)));
        assert_eq!(relation("onfail_all"), Some((Relation::Edge(EdgeKind::OnfailAll), false)));
        assert_eq!(relation("require_any_in"), None);
        assert_eq!(relation("path"), None);
        for word in ["prereq_any", "listen_any", "use_any", "onfail_all_in", "order"] {
            assert_eq!(relation(word), None, "{word}");
        }
    }

    #[test]
    fn targets_split_where_a_module_name_ends() {
        let parts = |text: &str| {
            let target = parse_target(text);
            (target.module.unwrap_or_default(), target.id)
        };
        let pair = |module: &str, id: &str| (module.to_string(), id.to_string());
        assert_eq!(parts("file.managed:/etc/hosts"), pair("file.managed", "/etc/hosts"));
        assert_eq!(parts("file#/etc/hosts"), pair("file", "/etc/hosts"));
        assert_eq!(parts("cmd.run:echo a:b"), pair("cmd.run", "echo a:b"));
        assert_eq!(parts("nginx"), pair("", "nginx"));
        assert_eq!(parts("echo a: b"), pair("", "echo a: b"));
        assert_eq!(parts("/etc/x#y"), pair("", "/etc/x#y"));
        assert_eq!(parts("nginx:"), pair("", "nginx:"));
    }
}
