//! `roles.yaml` as the user wrote it: what goes into the roster.

use crate::limits::{ROLES_MAX, RULES_MAX};
use crate::rights::{NO_VERB, VERBS};
use crate::words::Reader;
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_model::source::Sources;
use zester_model::suggest::did_you_mean;
use zester_model::target::Target;
use zester_wire::{OperatorRole, RoleEffect, RoleRule, Token};

const WORDS: &[&str] = &["allow", "deny", "verbs", "targets", "environments", "test_only", "direct"];
/// The role of those who may do everything: it has no lines.
pub const ADMIN: &str = "admin";

/// Reads the roles: all of them, or everything that is wrong. Who has which is for the roster to say.
pub fn read(node: &Node, sources: &Sources) -> Result<Vec<OperatorRole>, Vec<Diagnostic>> {
    let mut reader = Reader::new(sources);
    let mut roles = Vec::new();
    let Some(map) = node.as_map() else {
        let why = format!("expected a map of roles by name, found {}; write `deployers:`", node.describe());
        reader.tell(node.span, &why);
        return Err(reader.problems);
    };
    if map.len() > ROLES_MAX {
        reader.tell(node.span, &format!("there are {} roles; {ROLES_MAX} are the most", map.len()));
        return Err(reader.problems);
    }
    for (key, value) in map {
        let text = key.as_text().unwrap_or_default();
        let name = match Token::parse(text) {
            Ok(_) if text == ADMIN => {
                reader.tell(key.span, "`admin` may do everything; its lines would say nothing");
                continue;
            }
            Ok(name) => name,
            Err(bad) => {
                reader.tell(key.span, &format!("the name of a role: `{text}` is {bad}"));
                continue;
            }
        };
        let Some(items) = value.as_list() else {
            let why = format!("expected the lines of a role, found {}; write a list", value.describe());
            reader.tell(value.span, &why);
            continue;
        };
        if items.len() > RULES_MAX {
            reader.tell(value.span, &format!("the role has {} lines; {RULES_MAX} are the most", items.len()));
            continue;
        }
        let rules = items.iter().filter_map(|item| rule(&mut reader, item)).collect();
        roles.push(OperatorRole { name, members: Vec::new(), rules });
    }
    if reader.problems.is_empty() { Ok(roles) } else { Err(reader.problems) }
}

fn rule(reader: &mut Reader<'_>, node: &Node) -> Option<RoleRule> {
    let before = reader.problems.len();
    let given = reader.words(node, WORDS, "a line of a role")?;
    let find = |word: &str| given.iter().find(|(one, ..)| *one == word).map(|(_, _, value)| *value);
    let texts = |reader: &mut Reader<'_>, word: &str| -> Vec<String> {
        find(word)
            .map(|value| reader.texts(value).into_iter().map(|(text, _)| text).collect())
            .unwrap_or_default()
    };
    let effect = match (find("allow"), find("deny"), find("verbs")) {
        (Some(_), Some(_), _) => {
            reader.tell(node.span, "a line either allows or denies; write two lines");
            return None;
        }
        (None, None, None) => {
            reader.tell(node.span, "the line allows nothing; write `allow`, `deny` or `verbs`");
            return None;
        }
        (_, Some(_), _) => RoleEffect::Deny,
        _ => RoleEffect::Allow,
    };
    let functions = find("allow").or(find("deny"));
    let functions: Vec<String> = functions
        .map(|value| reader.patterns(value).into_iter().map(|pattern| pattern.text).collect())
        .unwrap_or_default();
    let mut verbs = texts(reader, "verbs");
    verbs.retain(|verb| verb != NO_VERB);
    let says_nothing = find("verbs").is_some() && verbs.is_empty() && functions.is_empty();
    for (verb, span) in find("verbs").map(|value| reader.texts(value)).unwrap_or_default() {
        if verb != NO_VERB && !VERBS.contains(&verb.as_str()) {
            let known = || format!("the verbs are {}", VERBS.join(", "));
            let hint = did_you_mean(&verb, VERBS.iter().copied()).unwrap_or_else(known);
            reader.tell(span, &format!("`{verb}` is not a verb of a role; {hint}"));
        }
    }
    let targets = match find("targets") {
        Some(value) => target(reader, value)?,
        None => String::new(),
    };
    let environments = texts(reader, "environments");
    let mut truth = |word: &str| find(word).and_then(|value| reader.truth(value)).unwrap_or(false);
    let (test_only, direct) = (truth("test_only"), truth("direct"));
    if effect == RoleEffect::Deny && (test_only || direct) {
        reader.tell(
            node.span,
            "a line that denies takes neither `test_only` nor `direct`; it denies both ways",
        );
    }
    let line = reader.place(node.span);
    (reader.problems.len() == before && !says_nothing).then_some(RoleRule {
        effect,
        functions,
        verbs,
        targets,
        environments,
        test_only,
        direct,
        line,
    })
}

fn target(reader: &mut Reader<'_>, node: &Node) -> Option<String> {
    let text = reader.text(node)?;
    match Target::parse(&text) {
        Ok(target) if target.needs_settings() => {
            let why = "settings do not bound a role: masters publish them; name peels, or facts (G@)";
            reader.tell(node.span, why);
            None
        }
        Ok(_) => Some(text),
        Err(error) => {
            reader.tell(node.span, &format!("`{text}` is not a target: {error}"));
            None
        }
    }
}
