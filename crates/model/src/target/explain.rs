//! Why an expression does or does not hold: the smallest parts of it that decided.

use super::{Data, Expression, Subject, Target};

/// Parts that one answer names: of a long `or`, all say no.
const DECISIONS_MAX: usize = 4;
/// Letters of a part, and of what was found, that are told.
const LETTERS_MAX: usize = 80;

/// One part of an expression that decided, and what it met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// As it was written.
    pub part: String,
    /// What was found there: `os is Arch`. Empty where the id says it all.
    pub found: String,
}

impl Target {
    /// The parts that said no, if the subject does not match: the first of an `and`, all of an `or`, and what is behind a
    /// `not` where that holds. Empty if it matches.
    pub fn refusals(&self, subject: &Subject<'_>) -> Vec<Decision> {
        let mut found = Vec::new();
        if !self.expression.matches(subject) {
            self.decided(&self.expression, subject, &mut found);
        }
        found.truncate(DECISIONS_MAX);
        found
    }

    /// The parts that made an expression what it is, be that true or false.
    fn decided(&self, expression: &Expression, subject: &Subject<'_>, out: &mut Vec<Decision>) {
        match expression {
            Expression::All(parts) | Expression::Any(parts) => {
                let holds = expression.matches(subject);
                // One that does not hold ends an `and`, one that holds an `or`; otherwise all of them count.
                let ends = matches!(expression, Expression::Any(_)) == holds;
                let of_same = parts.iter().filter(|part| part.matches(subject) == holds);
                let count = if ends { 1 } else { DECISIONS_MAX };
                of_same.take(count).for_each(|part| self.decided(part, subject, out));
            }
            Expression::Not { inner, at } => {
                let mut inside = Vec::new();
                self.decided(inner, subject, &mut inside);
                let found: Vec<&str> =
                    inside.iter().map(|it| it.found.as_str()).filter(|it| !it.is_empty()).collect();
                out.push(self.decision(at, &found.join(", ")));
            }
            Expression::Id { at, .. } => out.push(self.decision(at, "")),
            Expression::Data { of, test, at } => {
                let found = match of {
                    Data::Facts => test.found(subject.facts, "fact"),
                    Data::Settings => test.found(subject.settings, "setting"),
                };
                out.push(self.decision(at, &found));
            }
        }
    }

    fn decision(&self, at: &std::ops::Range<usize>, found: &str) -> Decision {
        let part = self.text.get(at.clone()).unwrap_or_default();
        Decision { part: cut(part), found: cut(found) }
    }
}

/// What is long is cut, and nothing in it moves a cursor.
fn cut(text: &str) -> String {
    let mut letters = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut shown: String = letters.by_ref().take(LETTERS_MAX).collect();
    if letters.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    /// `part: found`, one for each part that said no.
    fn told(expression: &str) -> Vec<String> {
        let facts = json!({
            "os": "Arch", "mem_total": 2048, "roles": ["web", "db"], "net": {"ip": "10.0.0.1"}, "empty": "",
            "disks": [{"name": "sda"}, {"name": "sdb"}], "long": "x".repeat(500), "bell": "a\u{7}b",
        });
        let settings = json!({"role": "db"});
        let subject = Subject { id: "web-1", facts: &facts, settings: &settings };
        let target = Target::parse(expression).unwrap();
        let refusals = target.refusals(&subject);
        assert_eq!(refusals.is_empty(), target.matches(&subject), "{expression}");
        let line =
            |it: Decision| if it.found.is_empty() { it.part } else { format!("{}: {}", it.part, it.found) };
        refusals.into_iter().map(line).collect()
    }

    #[test]
    #[rule("D-8")]
    fn d8_the_smallest_part_that_said_no_is_named_with_what_it_met() {
        for (expression, wanted) in [
            ("web*", &[][..]),
            ("db*", &["db*"]),
            ("G@os:debian", &["G@os:debian: os is Arch"]),
            ("web* and G@os:debian and db*", &["G@os:debian: os is Arch"]),
            ("db* or G@os:debian", &["db*", "G@os:debian: os is Arch"]),
            ("web* and ( db* or L@a,b )", &["db*", "L@a,b"]),
            ("not G@os:Arch", &["not G@os:Arch: os is Arch"]),
            ("web* and not ( web* and G@os:Arch )", &["not ( web* and G@os:Arch ): os is Arch"]),
            ("not ( db* or web* )", &["not ( db* or web* )"]),
            ("not not db*", &["not not db*"]),
            ("G@mem_total>=4096", &["G@mem_total>=4096: mem_total is 2048"]),
            ("G@os!=arch", &["G@os!=arch: os is Arch"]),
            ("G@roles:cache", &["G@roles:cache: roles is [web, db]"]),
            ("G@net:ip:10.0.0.2", &["G@net:ip:10.0.0.2: net:ip is 10.0.0.1"]),
            ("G@net.ip:10.0.0.2", &["G@net.ip:10.0.0.2: net.ip is 10.0.0.1"]),
            ("G@net:mask:24", &["G@net:mask:24: there is no fact net:mask"]),
            ("G@net:x", &["G@net:x: net is a map"]),
            ("G@nope:x", &["G@nope:x: there is no fact nope"]),
            ("G@nope:fe80::1", &["G@nope:fe80::1: there is no fact nope"]),
            ("G@os:fe80::1", &["G@os:fe80::1: os is Arch"]),
            ("G@disks:name:sdc", &["G@disks:name:sdc: disks:name is sda, sdb"]),
            ("G@empty:x", &["G@empty:x: empty is empty"]),
            ("G@bell:x", &["G@bell:x: bell is a b"]),
            ("I@role:web", &["I@role:web: role is db"]),
            ("I@tier:web", &["I@tier:web: there is no setting tier"]),
        ] {
            assert_eq!(told(expression), wanted, "{expression}");
        }
    }

    #[test]
    #[rule("D-8")]
    fn d8_an_explanation_is_bounded() {
        let many: Vec<String> = (0..100).map(|number| format!("db-{number}")).collect();
        assert_eq!(told(&many.join(" or ")).len(), DECISIONS_MAX);
        let long = told("G@long:y");
        assert!(long[0].ends_with("xx…") && long[0].chars().count() < 2 * LETTERS_MAX, "{long:?}");
        assert!(told(&format!("L@{}", many.join(",")))[0].chars().count() == LETTERS_MAX + 1);
    }
}
