//! Which globs match a key, at a cost that hardly grows with the globs.
//!
//! One automaton looks for a stretch of plain text of every glob at once; only the globs whose stretch it found are tried. Of the
//! stretches of a glob that one is chosen which the fewest others have.

use aho_corasick::AhoCorasick;
use std::collections::HashMap;
use zester_model::target::glob::Glob;

/// All globs of a rule set.
#[derive(Clone, Debug)]
pub struct Matcher {
    globs: Vec<Glob>,
    automaton: Option<AhoCorasick>,
    /// Of each pattern of the automaton: which globs it stands for.
    of_pattern: Vec<Vec<Anchored>>,
    /// Globs without any plain text.
    always: Vec<usize>,
}

#[derive(Clone, Debug)]
struct Anchored {
    glob: usize,
    at_start: bool,
    at_end: bool,
}

impl Matcher {
    pub fn new(globs: Vec<Glob>) -> Matcher {
        let stretches: Vec<Vec<(bool, String, bool)>> = globs.iter().map(Glob::stretches).collect();
        let mut shared: HashMap<&str, usize> = HashMap::new();
        for (_, text, _) in stretches.iter().flatten() {
            *shared.entry(text).or_default() += 1;
        }
        let mut always = Vec::new();
        let mut patterns: Vec<&str> = Vec::new();
        let mut of_pattern: Vec<Vec<Anchored>> = Vec::new();
        let mut known: HashMap<&str, usize> = HashMap::new();
        for (glob, own) in stretches.iter().enumerate() {
            let rarest = own.iter().min_by_key(|(start, text, end)| {
                (shared.get(text.as_str()), !(*start || *end), std::cmp::Reverse(text.len()))
            });
            let Some((at_start, text, at_end)) = rarest else {
                always.push(glob);
                continue;
            };
            let pattern = *known.entry(text).or_insert_with(|| {
                patterns.push(text);
                of_pattern.push(Vec::new());
                patterns.len() - 1
            });
            if let Some(globs) = of_pattern.get_mut(pattern) {
                globs.push(Anchored { glob, at_start: *at_start, at_end: *at_end });
            }
        }
        let automaton = AhoCorasick::new(&patterns).ok();
        if automaton.is_none() {
            // Patterns beyond what an automaton holds: every glob is tried.
            always = (0..globs.len()).collect();
            of_pattern.clear();
        }
        Matcher { globs, automaton, of_pattern, always }
    }

    /// The globs that match, in their order.
    pub fn matching(&self, key: &str) -> Vec<usize> {
        let mut candidates = self.always.clone();
        if let Some(automaton) = &self.automaton {
            for found in automaton.find_overlapping_iter(key) {
                let globs = self.of_pattern.get(found.pattern().as_usize());
                let fits = |one: &&Anchored| {
                    (!one.at_start || found.start() == 0) && (!one.at_end || found.end() == key.len())
                };
                candidates.extend(globs.into_iter().flatten().filter(fits).map(|one| one.glob));
            }
        }
        candidates.sort_unstable();
        candidates.dedup();
        candidates.retain(|glob| self.globs.get(*glob).is_some_and(|glob| glob.matches(key)));
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use zester_rule::rule;

    fn matcher(globs: &[&str]) -> Matcher {
        Matcher::new(globs.iter().map(|glob| Glob::parse(glob).unwrap()).collect())
    }

    #[test]
    #[rule("R-4")]
    fn r4_all_that_match_are_found_in_file_order() {
        let globs =
            ["*", "web-*/deploy/*", "*/beacon/*/service", "_master/*", "web-1/deploy/x", "?eb-[0-9]/*"];
        let found = |key: &str| matcher(&globs).matching(key);
        assert_eq!(found("web-1/deploy/x"), [0, 1, 4, 5]);
        assert_eq!(found("web-1/beacon/web-1/service"), [0, 2, 5]);
        assert_eq!(found("_master/job/a/finalized"), [0, 3]);
        assert_eq!(found("db/deploy/x"), [0]);
        assert_eq!(matcher(&[]).matching("a/b"), [0_usize; 0]);
    }

    #[test]
    #[rule("R-4")]
    fn r4_globs_are_fnmatch_where_a_star_crosses_slashes() {
        for (glob, key, matches) in [
            ("a*z", "a/b/c/z", true),
            ("a?c/x", "a/c/x", true),
            ("[ab]/x", "b/x", true),
            ("[!ab]/x", "b/x", false),
            ("[!ab]/x", "c/x", true),
            ("web", "web/x", false),
            ("web/x", "xweb/x", false),
            ("*.x", "a/x", false),
        ] {
            assert_eq!(!matcher(&[glob]).matching(key).is_empty(), matches, "{glob} {key}");
        }
    }

    proptest! {
        #[test]
        #[rule("R-4")]
        fn r4_the_automaton_finds_what_trying_every_glob_finds(
            globs in prop::collection::vec("[ab/*?]{0,6}", 0..30),
            key in "[ab/]{0,12}",
        ) {
            let globs: Vec<Glob> = globs.iter().map(|glob| Glob::parse(glob).unwrap()).collect();
            let tried = globs.iter().enumerate().filter(|(_, glob)| glob.matches(&key));
            let tried: Vec<usize> = tried.map(|(at, _)| at).collect();
            prop_assert_eq!(Matcher::new(globs).matching(&key), tried);
        }
    }
}
