//! The rules of the reactor, every file of them.

use super::LintReport;
use crate::error::Error;
use crate::reactions::{Reactions, files_of};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::source::Sources;
use zester_reactor::rules::TOP;
use zester_reactor::{RuleCompiler, RuleSet};

/// Whether a directory holds rules: its `top.zy` says `reactor:`, or is the list itself.
pub fn is_rules(root: &Path) -> bool {
    let top = std::fs::read_to_string(root.join(TOP)).unwrap_or_default();
    let lines = || top.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let begins = |word: &str| lines().next().is_some_and(|line| line.starts_with(word));
    begins("- ") || lines().any(|line| line.starts_with("reactor:"))
}

/// Reads all rules of a directory, and those files too that no rule leads to.
pub fn rules(root: &Path) -> Result<LintReport, Error> {
    let files = files_of(root)?;
    let found = Arc::new(Mutex::new(Vec::new()));
    let keep = found.clone();
    // A problem is kept as it is, and called by its number.
    let compiler = Reactions::new(move |diagnostics: &[Diagnostic], sources: &Sources| {
        let mut found = keep.lock().unwrap_or_else(PoisonError::into_inner);
        let begin = found.len();
        found.extend(diagnostics.iter().map(|one| (one.clone(), sources.clone())));
        (begin..found.len()).map(|number| number.to_string()).collect::<Vec<_>>().join(" ")
    });
    let mut problems = Vec::new();
    let mut loaded = Vec::new();
    match RuleSet::load(0, &files, &compiler) {
        Ok(set) => loaded.extend(set.rules().iter().map(|rule| rule.path.clone())),
        Err(told) => problems = told,
    }
    for (path, text) in files.iter().filter(|(path, _)| path.ends_with(".zy") && *path != TOP) {
        if !loaded.contains(path)
            && let Err(told) = compiler.template(path, text, &files)
        {
            problems.extend(told);
        }
    }
    let found = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    let mut report = LintReport::of(files.keys().filter(|path| path.ends_with(".zy")).count());
    for (number, (mut diagnostic, sources)) in found.into_iter().enumerate() {
        // What is no problem is advice.
        if !problems.contains(&number.to_string()) {
            diagnostic.kind = Kind::Lint;
        }
        report.adopt(vec![diagnostic], &below(root, &sources));
    }
    // What is said of the whole has no place.
    let whole = problems.into_iter().filter(|told| !told.bytes().all(|byte| byte.is_ascii_digit()));
    report.diagnostics.extend(whole.map(|told| Diagnostic::new(Kind::Reference, told)));
    report.diagnostics.sort_by_key(|one| one.span.map(|span| (span.file, span.line, span.column)));
    Ok(report)
}

/// The same files, called as whoever asked would call them.
fn below(root: &Path, sources: &Sources) -> Sources {
    let mut named = Sources::default();
    for file in sources.iter() {
        named.add(&root.join(&file.path).display().to_string(), file.text.clone());
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn told(files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        assert!(is_rules(dir.path()) || !files.iter().any(|(path, _)| *path == TOP));
        let report = rules(dir.path()).unwrap();
        let told = report.diagnostics.iter().map(|one| {
            let place = one.span.map_or(String::new(), |span| report.sources.place(span));
            let place = place.replace(&format!("{}/", dir.path().display()), "");
            format!("{place} {:?}: {}", one.kind, one.message)
        });
        told.collect()
    }

    #[test]
    #[rule("R-4", "R-5")]
    fn r4_every_file_is_looked_at_also_those_that_no_rule_leads_to() {
        let good = [("top.zy", "reactor:\n  - '*/x': [reactor.a]\n"), ("a.zy", "b:\n  log: {{ tag }}\n")];
        assert_eq!(told(&good), Vec::<String>::new());
        let bad = [
            ("top.zy", "reactor:\n  - '*/x': [reactor.a, reactor.none]\n"),
            ("a.zy", "b:\n  log: {{ tag }\n"),
            ("lib/c.zy", "b:\n\tlog: x\n"),
        ];
        let found = told(&bad);
        assert!(found.iter().any(|one| one.starts_with("top.zy:2:24 Config: there is no file")), "{found:?}");
        assert!(found.iter().any(|one| one.starts_with("a.zy:2:15 Template: ")), "{found:?}");
        assert!(found.iter().any(|one| one.starts_with("lib/c.zy:2:1 Yaml: a tab")), "{found:?}");
        assert!(told(&[("a.zy", "b: {log: x}\n")])[0].contains("top.zy is missing"));
    }

    #[test]
    #[rule("R-7")]
    fn r7_warnings_are_advice() {
        let found = told(&[
            ("top.zy", "- '*': [reactor.let_in]\n"),
            ("let_in.zy", "ok:\n  enroll.approve: {id: x}\n"),
            ("other.zy", "ok:\n  enroll.approve:\n    require_peel: 'web-*'\n"),
        ]);
        assert!(found.iter().any(|one| one.contains("Config: enroll.approve needs")), "{found:?}");
        assert!(found.iter().any(|one| one.contains("Lint: enroll.approve for every event")), "{found:?}");
    }
}
