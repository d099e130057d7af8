//! Rules of the spec and the tests that state them. `rules.toml` says where each rule stands; the tests say as data what
//! they show: `#[rule("S-13")]`. A rule that stands only in a test's name counts for nothing.

use crate::{stated, tree};
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::str::FromStr;

const TABLE: &str = "rules.toml";
/// The spec, where it lies beside the project. Elsewhere the table stands alone.
const SPEC: &str = "../shared/spec";

/// `S-13`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rule {
    pub family: char,
    pub number: u16,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}-{}", self.family, self.number)
    }
}

impl FromStr for Rule {
    type Err = String;

    fn from_str(text: &str) -> Result<Rule, String> {
        let refused = || format!("{text:?} is no rule id");
        let (family, number) = text.split_once('-').ok_or_else(refused)?;
        let mut letters = family.chars();
        match (letters.next(), letters.next(), number.parse()) {
            (Some(family), None, Ok(number)) if family.is_ascii_uppercase() => Ok(Rule { family, number }),
            _ => Err(refused()),
        }
    }
}

/// Where a rule stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RuleStatus {
    Built,
    Bench,
    Later,
}

impl RuleStatus {
    const ALL: [(&str, RuleStatus); 3] =
        [("built", RuleStatus::Built), ("bench", RuleStatus::Bench), ("later", RuleStatus::Later)];

    fn word(self) -> &'static str {
        RuleStatus::ALL.iter().find(|(_, status)| *status == self).map_or("", |(word, _)| word)
    }
}

type Table = BTreeMap<Rule, RuleStatus>;

pub fn check(problems: &mut Vec<String>) {
    let table = match read_table(&tree::read(TABLE)) {
        Ok(table) => table,
        Err(why) => return problems.push(format!("{TABLE}: {why}")),
    };
    let tests: Vec<stated::Test> =
        tree::rust_files().iter().flat_map(|file| stated::tests(file, &tree::read(file))).collect();
    compare(&table, &tests, problems);
    if let Some(spec) = read_spec() {
        compare_spec(&table, &spec, problems);
    }
}

/// Prints every rule, where it stands and the tests that state it.
pub fn print() -> ExitCode {
    let table = match read_table(&tree::read(TABLE)) {
        Ok(table) => table,
        Err(why) => {
            eprintln!("{TABLE}: {why}");
            return ExitCode::FAILURE;
        }
    };
    let mut shown: BTreeMap<Rule, Vec<String>> = BTreeMap::new();
    for file in tree::rust_files() {
        for test in stated::tests(&file, &tree::read(&file)) {
            for rule in test.rules.iter().filter_map(|rule| rule.parse().ok()) {
                shown.entry(rule).or_default().push(format!("{file}::{}", test.name));
            }
        }
    }
    for (rule, status) in &table {
        println!("{rule} ({})", status.word());
        for test in shown.get(rule).into_iter().flatten() {
            println!("    {test}");
        }
    }
    ExitCode::SUCCESS
}

/// What the tests state against what the table promises.
fn compare(table: &Table, tests: &[stated::Test], problems: &mut Vec<String>) {
    let mut shown = BTreeSet::new();
    for test in tests {
        let mut say = |what: String| problems.push(format!("{}: {what}", test.place));
        for stated in &test.rules {
            match stated.parse::<Rule>() {
                Ok(rule) if table.contains_key(&rule) => {
                    shown.insert(rule);
                }
                Ok(rule) => say(format!("{} states {rule}, which {TABLE} does not know", test.name)),
                Err(why) => say(format!("{} states a rule that cannot be read: {why}", test.name)),
            }
        }
        if !test.is_test && !test.rules.is_empty() {
            say(format!("{} states a rule and is no test", test.name));
        }
        for rule in test.named().iter().filter(|rule| test.is_test && !test.states(**rule)) {
            say(format!("{} has {rule} in its name only; say #[rule(\"{rule}\")]", test.name));
        }
    }
    for (rule, _) in table.iter().filter(|(_, status)| **status == RuleStatus::Built) {
        if !shown.contains(rule) {
            problems.push(format!("{TABLE}: {rule} is built and no test states it (#[rule(\"{rule}\")])"));
        }
    }
}

/// The table and the spec know the same rules.
fn compare_spec(table: &Table, spec: &BTreeSet<Rule>, problems: &mut Vec<String>) {
    for rule in spec.iter().filter(|rule| !table.contains_key(rule)) {
        problems.push(format!("{TABLE}: the spec has {rule}, the table does not say where it stands"));
    }
    for rule in table.keys().filter(|rule| !spec.contains(rule)) {
        problems.push(format!("{TABLE}: the spec has no {rule}"));
    }
}

fn read_table(text: &str) -> Result<Table, String> {
    let families: toml::Table = text.parse().map_err(|error| format!("{error}"))?;
    let mut table = Table::new();
    for (family, lists) in &families {
        for (word, ranges) in lists.as_table().into_iter().flatten() {
            let status = RuleStatus::ALL.iter().find(|(known, _)| known == word);
            let (_, status) = status.ok_or_else(|| format!("[{family}] has no list {word:?}"))?;
            let ranges = ranges.as_array().ok_or_else(|| format!("{word} of [{family}] is no list"))?;
            for range in ranges {
                for rule in read_range(range.as_str().unwrap_or_default())? {
                    if table.insert(rule, *status).is_some() {
                        return Err(format!("{rule} stands there twice"));
                    }
                }
            }
        }
    }
    Ok(table)
}

/// `S-36`, or `S-1 … S-35`.
fn read_range(text: &str) -> Result<impl Iterator<Item = Rule> + use<>, String> {
    let (first, last) = text.split_once(" … ").unwrap_or((text, text));
    let (first, last) = (first.parse::<Rule>()?, last.parse::<Rule>()?);
    if first.family != last.family || first > last {
        return Err(format!("{text:?} is no range of rules"));
    }
    Ok((first.number..=last.number).map(move |number| Rule { family: first.family, number }))
}

/// Every rule that the spec names.
fn read_spec() -> Option<BTreeSet<Rule>> {
    let pages = std::fs::read_dir(tree::root().join(SPEC)).ok()?;
    let texts = pages.filter_map(|page| std::fs::read_to_string(page.ok()?.path()).ok());
    Some(texts.flat_map(|text| rules_in(&text)).collect())
}

fn rules_in(text: &str) -> Vec<Rule> {
    let words = text.split(|sign: char| !sign.is_ascii_alphanumeric() && sign != '-');
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "[states]\nbuilt = [\"S-1 … S-2\"]\nlater = [\"S-3\"]\n";

    fn problems(tests: &str) -> Vec<String> {
        let mut problems = Vec::new();
        compare(&read_table(TWO).unwrap(), &stated::tests("a.rs", tests), &mut problems);
        problems
    }

    #[test]
    fn a_built_rule_needs_a_test_and_a_later_one_does_not() {
        assert_eq!(problems("#[test]\n#[rule(\"S-1\", \"S-2\")]\nfn both() {}\n"), [""; 0]);
        let one = problems("#[test]\n#[rule(\"S-1\")]\nfn one() {}\n");
        assert_eq!(one, ["rules.toml: S-2 is built and no test states it (#[rule(\"S-2\")])"]);
    }

    #[test]
    fn a_rule_in_a_name_does_not_count() {
        let named = problems("#[test]\n#[rule(\"S-1\")]\nfn s1_s2_both() {}\n");
        assert_eq!(named.len(), 2, "{named:?}");
        assert_eq!(named[0], "a.rs:3: s1_s2_both has S-2 in its name only; say #[rule(\"S-2\")]");
    }

    #[test]
    fn a_rule_that_nobody_knows_and_one_on_no_test_are_told() {
        let found =
            problems("#[rule(\"S-1\", \"S-2\")]\nfn help() {}\n#[test]\n#[rule(\"S-9\")]\nfn x() {}\n");
        assert_eq!(
            found,
            [
                "a.rs:2: help states a rule and is no test",
                "a.rs:5: x states S-9, which rules.toml does not know"
            ]
        );
    }

    #[test]
    fn the_table_refuses_what_it_cannot_mean() {
        for (text, why) in [
            ("[s]\nbuilt = [\"S-2 … S-1\"]", "no range"),
            ("[s]\nbuilt = [\"S-1\"]\nlater = [\"S-1\"]", "twice"),
            ("[s]\nsoon = [\"S-1\"]", "no list"),
            ("[s]\nbuilt = [\"S1\"]", "no rule id"),
        ] {
            let refused = read_table(text).unwrap_err();
            assert!(refused.contains(why), "{text}: {refused}");
        }
    }

    #[test]
    fn the_spec_and_the_table_know_the_same_rules() {
        let spec: BTreeSet<Rule> = rules_in("- S-1 and SHA-256\n- S-2 · S-4 as (S-1)").into_iter().collect();
        let mut problems = Vec::new();
        compare_spec(&read_table(TWO).unwrap(), &spec, &mut problems);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].contains("the spec has S-4") && problems[1].contains("no S-3"), "{problems:?}");
    }
}
