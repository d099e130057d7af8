//! Target expressions (D-8): which peels are meant.
//!
//! ```text
//! web*                      glob over the id; `*` crosses everything
//! E@web[0-9]+               regular expression, anchored at the start
//! L@web1,db1                these ids
//! G@os:Debian               fact, compared without case; the value may be a glob; a list matches if one element does
//! G@mem_total>=4096         != > >= < <=, also as G@mem_total:>=4096; numbers compare as numbers
//! G@os.family:x G@a:b:x     both nest
//! I@role:web                the same over settings
//! not and or ( )            in this order of precedence
//! ```
//!
//! `G@key!=value` is exactly `not G@key:value`: it also holds where there is no such key.

mod explain;
pub mod glob;
mod parse;
mod value;

pub use explain::Decision;
use glob::Glob;
use regex::Regex;
use serde_json::Value;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

/// A parsed target expression.
#[derive(Clone, Debug)]
pub struct Target {
    text: Box<str>,
    expression: Expression,
    by_id_only: bool,
}

/// What a target is matched against: one peel.
#[derive(Copy, Clone, Debug)]
pub struct Subject<'a> {
    pub id: &'a str,
    pub facts: &'a Value,
    pub settings: &'a Value,
}

/// What is wrong with an expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetError {
    /// In bytes from the start of the expression.
    pub offset: usize,
    pub message: String,
    pub hint: Option<String>,
}

impl fmt::Display for TargetError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} (at byte {})", self.message, self.offset)?;
        match &self.hint {
            Some(hint) => write!(out, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for TargetError {}

/// `at` is where a part stands in the text.
#[derive(Clone, Debug)]
enum Expression {
    Not { inner: Box<Expression>, at: Range<usize> },
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Id { test: IdTest, at: Range<usize> },
    Data { of: Data, test: value::Test, at: Range<usize> },
}

/// A test that needs nothing but the id.
#[derive(Clone, Debug)]
enum IdTest {
    Every,
    Exact(String),
    Glob(Glob),
    /// Holds where the leftmost match begins at the start, which is what anchoring means.
    Regex(Regex),
    List(HashSet<String>),
}

/// Where a value is looked up.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Data {
    Facts,
    Settings,
}

impl Target {
    /// Reads an expression, or points at the character where it stops making sense.
    pub fn parse(text: &str) -> Result<Target, TargetError> {
        let expression = parse::expression(text)?;
        Ok(Target { by_id_only: expression.by_id_only(), text: text.into(), expression })
    }

    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        self.expression.matches(subject)
    }

    /// The same for a peel whose settings nobody can read: yes or no where they do not matter, and none where they do.
    pub fn matches_without_settings(&self, id: &str, facts: &Value) -> Option<bool> {
        self.expression.decided(&Subject { id, facts, settings: &Value::Null })
    }

    /// Whether the id alone decides: only such a target may assign secrets (D-6), and it needs no facts to resolve.
    pub fn by_id_only(&self) -> bool {
        self.by_id_only
    }

    /// The ids that lists name: whoever lists one believes that it exists. Those behind a `not` are left out.
    pub fn listed(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = Vec::new();
        self.expression.add_listed(&mut ids);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The ids that are meant, where the expression says them: ids and lists, joined with `or`. None where peels must be
    /// known to decide.
    pub fn exact_ids(&self) -> Option<Vec<&str>> {
        let mut ids: Vec<&str> = Vec::new();
        let exact = self.expression.add_exact(&mut ids);
        ids.sort_unstable();
        ids.dedup();
        exact.then_some(ids)
    }

    /// Whether settings decide: they must be rendered first, which only a master can.
    pub fn needs_settings(&self) -> bool {
        self.expression.needs_settings()
    }
}

impl Expression {
    /// The depth is bounded by the parser, so recursion is safe.
    fn matches(&self, subject: &Subject<'_>) -> bool {
        match self {
            Expression::Not { inner, .. } => !inner.matches(subject),
            Expression::All(parts) => parts.iter().all(|part| part.matches(subject)),
            Expression::Any(parts) => parts.iter().any(|part| part.matches(subject)),
            Expression::Id { test, .. } => test.matches(subject.id),
            Expression::Data { of: Data::Facts, test, .. } => test.matches(subject.facts),
            Expression::Data { of: Data::Settings, test, .. } => test.matches(subject.settings),
        }
    }

    /// With settings that are not known: one part that says no decides an `and`, one that says yes an `or`.
    fn decided(&self, subject: &Subject<'_>) -> Option<bool> {
        let all_say = |parts: &[Expression], what: bool| {
            let mut said = Some(what);
            for part in parts {
                match part.decided(subject) {
                    Some(one) if one == what => {}
                    Some(one) => return Some(one),
                    None => said = None,
                }
            }
            said
        };
        match self {
            Expression::Not { inner, .. } => inner.decided(subject).map(|said| !said),
            Expression::All(parts) => all_say(parts, true),
            Expression::Any(parts) => all_say(parts, false),
            Expression::Data { of: Data::Settings, .. } => None,
            Expression::Id { .. } | Expression::Data { of: Data::Facts, .. } => Some(self.matches(subject)),
        }
    }

    fn by_id_only(&self) -> bool {
        match self {
            Expression::Not { inner, .. } => inner.by_id_only(),
            Expression::All(parts) | Expression::Any(parts) => parts.iter().all(Expression::by_id_only),
            Expression::Id { .. } => true,
            Expression::Data { .. } => false,
        }
    }

    /// Whether all of it are ids, which then are added.
    fn add_exact<'a>(&'a self, ids: &mut Vec<&'a str>) -> bool {
        match self {
            Expression::Any(parts) => parts.iter().all(|part| part.add_exact(ids)),
            Expression::Id { test: IdTest::Exact(id), .. } => {
                ids.push(id);
                true
            }
            Expression::Id { test: IdTest::List(list), .. } => {
                ids.extend(list.iter().map(String::as_str));
                true
            }
            _ => false,
        }
    }

    fn add_listed<'a>(&'a self, ids: &mut Vec<&'a str>) {
        match self {
            Expression::All(parts) | Expression::Any(parts) => {
                parts.iter().for_each(|part| part.add_listed(ids));
            }
            Expression::Id { test: IdTest::List(list), .. } => ids.extend(list.iter().map(String::as_str)),
            Expression::Not { .. } | Expression::Id { .. } | Expression::Data { .. } => {}
        }
    }

    fn needs_settings(&self) -> bool {
        match self {
            Expression::Not { inner, .. } => inner.needs_settings(),
            Expression::All(parts) | Expression::Any(parts) => parts.iter().any(Expression::needs_settings),
            Expression::Id { .. } => false,
            Expression::Data { of, .. } => *of == Data::Settings,
        }
    }
}

impl IdTest {
    fn matches(&self, id: &str) -> bool {
        match self {
            IdTest::Every => true,
            IdTest::Exact(name) => name == id,
            IdTest::Glob(glob) => glob.matches(id),
            IdTest::Regex(regex) => regex.find(id).is_some_and(|found| found.start() == 0),
            IdTest::List(ids) => ids.contains(id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-8")]
    fn d8_the_ids_of_lists_are_known() {
        let target = Target::parse("L@b,a and (web* or L@a,c) and not L@d").unwrap();
        assert_eq!(target.listed(), ["a", "b", "c"]);
        assert!(Target::parse("a or b*").unwrap().listed().is_empty());
    }

    #[test]
    #[rule("D-8")]
    fn d8_what_does_not_hang_on_settings_is_known_without_them() {
        let facts = serde_json::json!({"os": "Debian"});
        for (text, said) in [
            ("I@role:db", None),
            ("not I@role:db", None),
            ("web-1 or I@role:db", Some(true)),
            ("I@role:db or web-1", Some(true)),
            ("web-2 or I@role:db", None),
            ("web-1 and I@role:db", None),
            ("I@role:db and web-2", Some(false)),
            ("not (web-1 or I@role:db)", Some(false)),
            ("not (web-2 and I@role:db)", Some(true)),
            ("G@os:Debian or I@role:db", Some(true)),
            ("I@a:b and I@c:d", None),
            ("web*", Some(true)),
        ] {
            let target = Target::parse(text).unwrap();
            assert_eq!(target.matches_without_settings("web-1", &facts), said, "{text}");
        }
    }

    #[test]
    #[rule("D-8")]
    fn d8_only_a_test_of_settings_needs_settings() {
        for (text, needs) in [
            ("I@role:web", true),
            ("web* or not ( G@os:Debian and I@role:web )", true),
            ("web*", false),
            // The text of another test that looks like one.
            ("G@note:I@x", false),
            ("E@I@", false),
        ] {
            assert_eq!(Target::parse(text).unwrap().needs_settings(), needs, "{text}");
        }
    }
}
