//! Whom a reaction means: Salt's words for kinds of targets, as our target expressions.

use zester_model::suggest::did_you_mean;
use zester_model::target::Target;
use zester_wire::PeelId;

/// Kinds that are an expression of ours with something before it.
const KINDS: [(&str, &str); 10] = [
    ("glob", ""),
    ("list", "L@"),
    ("compound", ""),
    ("pcre", "E@"),
    ("regex", "E@"),
    ("grain", "G@"),
    ("fact", "G@"),
    ("pillar", "I@"),
    ("setting", "I@"),
    ("exact", "L@"),
];
/// Salt's kinds that mean nothing here.
const UNKNOWN_HERE: [&str; 7] =
    ["nodegroup", "range", "ipcidr", "grain_pcre", "pillar_pcre", "pillar_exact", "data"];

/// The expression that a target of this kind is, or a sentence that says why it is none.
///
/// Only a target that says `compound` may hold more than one test: the target of a rule is often made from what an event says, and
/// no event may widen it with an `or`.
pub fn expression(kind: Option<&str>, values: &[&str]) -> Result<String, String> {
    let kind = kind.unwrap_or("glob");
    let Some((word, before)) = KINDS.into_iter().find(|(word, _)| *word == kind) else {
        if UNKNOWN_HERE.contains(&kind) {
            return Err(format!("`{kind}` is a kind of target that only Salt has; write `compound`"));
        }
        let near = did_you_mean(kind, KINDS.iter().map(|(word, _)| *word));
        return Err(format!("`{kind}` is no kind of target; {}", near.unwrap_or("write `compound`".into())));
    };
    let text = match (word, values) {
        ("list" | "exact", values) => {
            let names = values.iter().flat_map(|value| value.split(',')).map(str::trim);
            let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
            if let Some(bad) = names.iter().find(|name| PeelId::parse(name).is_err()) {
                return Err(format!("`{bad}` is no peel id, and a list names peels"));
            }
            names.join(",")
        }
        (_, [one]) => (*one).to_string(),
        (_, _) => return Err("several targets; write `target_type: list`".into()),
    };
    if text.trim().is_empty() {
        return Err("the target is empty".into());
    }
    if word != "compound" && text.contains(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '@')) {
        return Err(format!("`{text}` is more than one {word}; write `target_type: compound`"));
    }
    let expression = format!("{before}{text}");
    match Target::parse(&expression) {
        Ok(_) => Ok(expression),
        Err(error) => Err(format!("`{expression}` is no target: {}", error.message)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("R-6")]
    fn r6_salts_kinds_of_targets_are_our_expressions() {
        for (kind, values, expected) in [
            (None, vec!["web-1"], "web-1"),
            (None, vec!["web*"], "web*"),
            (Some("glob"), vec!["*"], "*"),
            (Some("list"), vec!["a,b"], "L@a,b"),
            (Some("list"), vec!["a", "b"], "L@a,b"),
            (Some("pcre"), vec!["web[0-9]+"], "E@web[0-9]+"),
            (Some("grain"), vec!["os:Debian"], "G@os:Debian"),
            (Some("pillar"), vec!["role:web"], "I@role:web"),
            (Some("compound"), vec!["G@os:Debian and web*"], "G@os:Debian and web*"),
        ] {
            assert_eq!(expression(kind, &values).as_deref(), Ok(expected));
        }
    }

    #[test]
    #[rule("R-5", "R-6")]
    fn r5_what_an_event_says_cannot_add_a_target() {
        for (kind, said) in [
            (None, "web-1 or *"),
            (None, "web-1\nor *"),
            (None, "(*)"),
            (None, "G@os:*"),
            (Some("list"), "web-1,*"),
            (Some("list"), "web-1 or db-1"),
            (Some("grain"), "os:x or *"),
            (Some("pcre"), "web or *"),
        ] {
            assert!(expression(kind, &[said]).is_err(), "{kind:?} {said}");
        }
    }

    #[test]
    #[rule("R-6")]
    fn r6_what_is_no_target_is_told_with_a_way_out() {
        for (kind, values, words) in [
            (Some("nodegroup"), vec!["x"], "only Salt has"),
            (Some("lsit"), vec!["x"], "did you mean `list`?"),
            (None, vec![""], "empty"),
            (None, vec!["web["], "no target"),
            (None, vec!["a", "b"], "target_type: list"),
        ] {
            let told = expression(kind, &values).unwrap_err();
            assert!(told.contains(words), "{told}");
        }
    }
}
