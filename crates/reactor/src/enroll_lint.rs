//! Rules that let machines in are looked at when they are loaded, before any event renders them.
//!
//! What a template will render to is not known then, so the words of the file decide: an action that is named, and what stands
//! beside it up to the next block.

use crate::rules::problem;
use zester_model::diagnostic::Diagnostic;
use zester_model::source::{FileId, Span};
use zester_model::target::glob::Glob;

const ACTIONS: [&str; 3] = ["enroll.approve", "enroll.reject", "enroll.revoke"];
const APPROVE: &str = "enroll.approve";

/// What was found in one reaction file.
#[derive(Debug, Default)]
pub struct Found {
    pub errors: Vec<Diagnostic>,
    pub warnings: Vec<Diagnostic>,
}

/// One action of a file and the lines that belong to it.
struct Enrolling<'t> {
    action: &'static str,
    span: Span,
    lines: Vec<(Span, &'t str)>,
}

/// Looks at a file and at the globs that lead to it.
pub fn look<'g>(text: &str, globs: impl Iterator<Item = &'g Glob>) -> Found {
    let mut found = Found::default();
    let bare_star = globs.into_iter().any(Glob::is_every);
    for enrolling in enrollings(text) {
        let Enrolling { action, span, lines } = &enrolling;
        let says = |word: &str| lines.iter().find(|(_, line)| value_of(line, word).is_some());
        if bare_star {
            let why = format!("{action} for every event; narrow the glob, as to `_master/enroll/*`");
            found.warnings.push(problem(*span, &why));
        }
        match says("require_peel") {
            None => {
                let why =
                    format!("{action} needs `require_peel`; name the peels, as `require_peel: 'web-*'`");
                found.errors.push(problem(*span, &why));
            }
            Some((at, line)) => {
                let value = value_of(line, "require_peel").unwrap_or_default();
                if Glob::parse(value).is_ok_and(|glob| glob.is_every()) {
                    let why = "`require_peel` allows every peel; name those that are meant";
                    found.warnings.push(problem(*at, why));
                }
            }
        }
        if *action == APPROVE && says("require_token").is_none() && says("require_ip").is_none() {
            let why = format!("{APPROVE} asks for no proof; add `require_token` or `require_ip`");
            found.warnings.push(problem(*span, &why));
        }
    }
    found
}

fn enrollings(text: &str) -> Vec<Enrolling<'_>> {
    let mut found: Vec<Enrolling<'_>> = Vec::new();
    let mut under_way = false;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let indent = line.len() - trimmed.len();
        let (line_number, column) = (u32::try_from(number + 1).unwrap_or(u32::MAX), indent as u32 + 1);
        let span = Span::new(FileId(0), line_number, column, trimmed.chars().count() as u32);
        if trimmed.is_empty() || trimmed.starts_with('#') || trimmed.starts_with("{%") {
            continue;
        }
        // A block begins at the margin.
        under_way &= indent > 0;
        let named = ACTIONS.into_iter().find(|action| {
            trimmed.trim_start_matches("- ").trim_start_matches(['"', '\'']).starts_with(action)
        });
        if let Some(action) = named {
            found.push(Enrolling { action, span, lines: vec![(span, trimmed)] });
            under_way = true;
        } else if let (true, Some(last)) = (under_way, found.last_mut()) {
            last.lines.push((span, trimmed));
        }
    }
    found
}

/// The value of a word in a line, also inside `{…}`.
fn value_of<'t>(line: &'t str, word: &str) -> Option<&'t str> {
    let (before, after) = line.split_once(word)?;
    let stands_alone = before.is_empty() || before.ends_with([' ', '{', ',', '-', '"', '\'']);
    let value = after.trim_start_matches(['"', '\'']).trim_start().strip_prefix(':')?.trim();
    let end = value.find([',', '}']).unwrap_or(value.len());
    stands_alone.then(|| value[..end].trim().trim_matches(['"', '\'']))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn found(text: &str, glob: &str) -> (Vec<String>, Vec<String>) {
        let glob = Glob::parse(glob).unwrap();
        let found = look(text, std::iter::once(&glob));
        let words = |told: Vec<Diagnostic>| told.into_iter().map(|one| one.message).collect();
        (words(found.errors), words(found.warnings))
    }

    #[test]
    #[rule("R-7")]
    fn r7_an_enroll_action_without_require_peel_is_refused_at_load() {
        let (errors, _) = found("ok:\n  enroll.reject:\n    id: x\n", "_master/enroll/*");
        assert_eq!(errors, ["enroll.reject needs `require_peel`"]);
        let (errors, _) = found("ok:\n  enroll.reject: {id: x, require_peel: 'web-*'}\n", "_master/enroll/*");
        assert!(errors.is_empty());
        // What stands in another block does not count.
        let text = "a:\n  enroll.reject:\n    id: x\nb:\n  log: {message: 'require_peel: x'}\n";
        assert_eq!(found(text, "_master/enroll/*").0.len(), 1);
    }

    #[test]
    #[rule("R-7")]
    fn r7_the_loader_warns_of_stars_and_of_approval_without_proof() {
        let safe = "a:\n  enroll.approve:\n    - id: x\n    - require_peel: web-*\n    - require_token: t\n";
        assert_eq!(found(safe, "_master/enroll/pending/*"), (vec![], vec![]));
        assert_eq!(found(safe, "*").1, ["enroll.approve for every event"]);
        let open = "a:\n  enroll.approve: {id: x, require_peel: '*'}\n";
        let (errors, warnings) = found(open, "_master/enroll/*");
        assert!(errors.is_empty());
        assert_eq!(warnings, ["`require_peel` allows every peel", "enroll.approve asks for no proof"]);
        assert_eq!(found("a:\n  log: {message: hi}\n", "*"), (vec![], vec![]));
    }
}
