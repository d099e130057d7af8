//! All rules of one revision, ready to be asked: an immutable snapshot.

use crate::actions;
use crate::compiler::{EventContext, ReactionTemplate, RuleCompiler};
use crate::enroll_lint;
use crate::limits::PROBLEMS_MAX;
use crate::matcher::Matcher;
use crate::rules::{self, Rule, TOP, problem};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zester_model::suggest::nearest;

/// What templates call the facts of the peel that sent the event.
const FACTS: &str = "origin_facts";

/// The rules that count, with their reaction files.
pub struct RuleSet {
    pub revision: u64,
    rules: Vec<Rule>,
    matcher: Matcher,
    templates: BTreeMap<String, Arc<dyn ReactionTemplate>>,
    uses_facts: bool,
    /// What is allowed and hardly meant, in words with places.
    pub warnings: Vec<String>,
}

impl RuleSet {
    /// No rules at all.
    pub fn empty(revision: u64) -> RuleSet {
        RuleSet {
            revision,
            rules: Vec::new(),
            matcher: Matcher::new(Vec::new()),
            templates: BTreeMap::new(),
            uses_facts: false,
            warnings: Vec::new(),
        }
    }

    /// Reads all files of a reactor dir: the whole set, or everything that is wrong with it.
    pub fn load(
        revision: u64,
        files: &BTreeMap<String, String>,
        compiler: &dyn RuleCompiler,
    ) -> Result<RuleSet, Vec<String>> {
        let Some(top) = files.get(TOP) else {
            if files.is_empty() {
                return Ok(RuleSet::empty(revision));
            }
            return Err(vec![format!("{TOP} is missing; it says which events meet which reaction files")]);
        };
        let rules = rules::read(&compiler.yaml(TOP, top)?)
            .map_err(|problems| compiler.explain(TOP, top, &problems))?;
        let mut problems = Vec::new();
        let missing: Vec<_> = rules
            .iter()
            .filter(|rule| !files.contains_key(&rule.path))
            .map(|rule| lost(rule, files))
            .collect();
        if !missing.is_empty() {
            problems.extend(compiler.explain(TOP, top, &missing));
        }
        let mut templates: BTreeMap<String, Arc<dyn ReactionTemplate>> = BTreeMap::new();
        let mut warnings = Vec::new();
        let paths: BTreeSet<&String> = rules.iter().map(|rule| &rule.path).collect();
        for (path, text) in paths.into_iter().filter_map(|path| files.get_key_value(path)) {
            match compiler.template(path, text, files) {
                Ok(template) => {
                    // What no event changes is known to be wrong before one comes.
                    if template.is_plain()
                        && let Ok(node) = template.render(&EventContext::none())
                        && let Err(found) = actions::read(&node)
                    {
                        problems.extend(compiler.explain(path, text, &found));
                    }
                    templates.insert(path.clone(), template);
                }
                Err(found) => problems.extend(found),
            }
            let globs = rules.iter().filter(|rule| rule.path == *path).map(|rule| &rule.parsed);
            let found = enroll_lint::look(text, globs);
            problems.extend(compiler.explain(path, text, &found.errors));
            warnings.extend(compiler.explain(path, text, &found.warnings));
        }
        problems.truncate(PROBLEMS_MAX);
        if !problems.is_empty() {
            return Err(problems);
        }
        let matcher = Matcher::new(rules.iter().map(|rule| rule.parsed.clone()).collect());
        let uses_facts = files.values().any(|text| text.contains(FACTS));
        Ok(RuleSet { revision, rules, matcher, templates, uses_facts, warnings })
    }

    /// Whether any file speaks of the facts of the origin.
    pub fn uses_facts(&self) -> bool {
        self.uses_facts
    }

    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The places of the rules that match, in file order.
    pub fn matching(&self, key: &str) -> Vec<usize> {
        self.matcher.matching(key)
    }

    pub fn rule(&self, place: usize) -> Option<&Rule> {
        self.rules.get(place)
    }

    pub fn template(&self, place: usize) -> Option<Arc<dyn ReactionTemplate>> {
        self.templates.get(&self.rules.get(place)?.path).cloned()
    }
}

/// A rule whose file is not there.
fn lost(rule: &Rule, files: &BTreeMap<String, String>) -> zester_model::diagnostic::Diagnostic {
    let told = problem(rule.span, &format!("there is no file {}", rule.path));
    match nearest(&rule.path, files.keys().map(String::as_str), 1).first() {
        Some(near) => told.hint(format!("did you mean {near}?")),
        None => told,
    }
}
