//! What a test says of itself: the attributes above a function, read from its text.

use crate::rules::Rule;

/// A function with attributes above it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Test {
    /// `crates/x/src/y.rs:12`, where its name stands.
    pub place: String,
    /// The name, or the variable of a macro that makes tests: `$law`.
    pub name: String,
    /// Whether an attribute makes it a test.
    pub is_test: bool,
    /// The rules it states, as written.
    pub rules: Vec<String>,
}

impl Test {
    /// The rules at the front of its name: `s27_s34_modes` has S-27 and S-34.
    pub fn named(&self) -> Vec<Rule> {
        let rule = |part: &str| {
            let (letter, number) = part.split_at_checked(1)?;
            let number = (!number.starts_with('+')).then(|| number.parse().ok())??;
            let family = letter.chars().next().filter(|letter| "sxjrdic".contains(*letter))?;
            Some(Rule { family: family.to_ascii_uppercase(), number })
        };
        self.name.split('_').map_while(rule).collect()
    }

    pub fn states(&self, rule: Rule) -> bool {
        self.rules.iter().any(|stated| stated.parse() == Ok(rule))
    }
}

/// The functions of a file that have attributes.
pub fn tests(file: &str, text: &str) -> Vec<Test> {
    let mut found = Vec::new();
    let mut above: Vec<String> = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim();
        // A macro that makes tests begins its repetition on the line of the attribute: `$(#[test]`.
        let line = line.strip_prefix("$(").unwrap_or(line);
        if line.starts_with("#[") {
            let mut attribute = line.to_string();
            while !closed(&attribute) {
                let Some((_, more)) = lines.next() else { break };
                attribute.push_str(more.trim());
            }
            above.push(attribute);
        } else if let Some(name) = function(line) {
            if !above.is_empty() {
                found.push(test(format!("{file}:{}", index + 1), name, &above));
            }
            above.clear();
        } else if !line.starts_with("//") {
            above.clear();
        }
    }
    found
}

fn test(place: String, name: &str, above: &[String]) -> Test {
    let is_test = above.iter().any(|attribute| path(attribute).rsplit("::").next() == Some("test"));
    let stating = above.iter().filter(|attribute| path(attribute).rsplit("::").next() == Some("rule"));
    let rules = stating.flat_map(|attribute| {
        let inside = attribute.split_once('(').map_or("", |(_, inside)| inside);
        let inside = inside.split(')').next().unwrap_or_default();
        inside
            .split(',')
            .map(|rule| rule.trim().trim_matches('"').to_string())
            .filter(|rule| !rule.is_empty())
    });
    Test { place, name: name.to_string(), is_test, rules: rules.collect() }
}

/// The path of an attribute: `tokio::test` of `#[tokio::test(start_paused = true)]`.
fn path(attribute: &str) -> &str {
    let inside = attribute.trim_start_matches("#[");
    inside.split(['(', ']', ' ', '=']).next().unwrap_or_default()
}

fn closed(attribute: &str) -> bool {
    attribute.matches('[').count() <= attribute.matches(']').count()
}

/// The name of the function that this line declares.
fn function(line: &str) -> Option<&str> {
    let declared = line.strip_prefix("pub ").unwrap_or(line);
    let declared = declared.strip_prefix("async ").unwrap_or(declared);
    declared.strip_prefix("fn ")?.split(['(', '<']).next()
}

#[cfg(test)]
mod checks {
    use super::*;

    fn one(text: &str) -> Test {
        let mut found = tests("f.rs", text);
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn attributes_over_several_lines_and_comments_belong_to_the_function_below() {
        let test = one(
            "#[rule(\n    \"S-1\",\n    \"S-2\",\n)]\n// why\n#[tokio::test(start_paused = true)]\nasync fn x() {}",
        );
        assert_eq!((test.name.as_str(), test.is_test), ("x", true));
        assert_eq!(test.rules, ["S-1", "S-2"]);
    }

    #[test]
    fn an_attribute_of_something_else_does_not_reach_a_function() {
        assert_eq!(tests("f.rs", "#[rule(\"S-1\")]\nstruct X;\nfn x() {}"), []);
    }

    #[test]
    fn a_test_that_a_macro_makes_is_one() {
        let test = one("    $(#[tokio::test]\n    #[zester_rule::rule(\"S-1\")]\n    async fn $law() {");
        assert_eq!((test.name.as_str(), test.is_test), ("$law", true));
        assert_eq!(test.rules, ["S-1"]);
    }

    #[test]
    fn the_rules_of_a_name_stand_at_its_front() {
        let named = |name: &str| -> Vec<String> {
            one(&format!("#[test]\nfn {name}() {{}}")).named().iter().map(Rule::to_string).collect()
        };
        assert_eq!(named("s27_s34_modes_of_c1"), ["S-27", "S-34"]);
        assert_eq!(named("salt_s1"), [""; 0]);
        assert_eq!(named("x_1"), [""; 0]);
    }
}
