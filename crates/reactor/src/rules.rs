//! `top.zy`: which events meet which reaction files.

use crate::limits::{GLOB_BYTES_MAX, REFERENCE_BYTES_MAX, RULES_MAX};
use std::sync::Arc;
use std::time::Duration;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::duration;
use zester_model::node::{Mismatch, Node};
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;
use zester_model::target::glob::Glob;

/// The file that says which events meet which rules.
pub const TOP: &str = "top.zy";
/// What stands before every reference.
const PREFIX: &str = "reactor.";
const WORDS: [&str; 2] = ["react", "throttle"];

/// One reaction file that is asked about the events of one glob.
#[derive(Clone, Debug)]
pub struct Rule {
    /// As it is written; what fires are counted by, and what jobs are named after.
    pub reference: Arc<str>,
    /// The file that it means, below the reactor dir.
    pub path: String,
    pub glob: String,
    pub parsed: Glob,
    /// None: what the configuration says.
    pub throttle: Option<Duration>,
    /// Of the reference in `top.zy`.
    pub span: Span,
}

/// Reads the rules in their order: all of them, or everything that is wrong.
pub fn read(top: &Node) -> Result<Vec<Rule>, Vec<Diagnostic>> {
    let mut reader = Reader::default();
    match entries(top) {
        Ok(entries) => entries.iter().for_each(|entry| reader.entry(entry)),
        Err(problem) => reader.problems.push(problem),
    }
    if reader.rules.len() > RULES_MAX {
        let why = format!("{} rules; a reactor has at most {RULES_MAX}", reader.rules.len());
        reader.tell(top.span, &why);
    }
    if reader.problems.is_empty() { Ok(reader.rules) } else { Err(reader.problems) }
}

/// The list under `reactor:`, or a bare one.
fn entries(top: &Node) -> Result<&[Node], Diagnostic> {
    let bad = |span, sentence: &str| problem(span, sentence);
    if top.is_null() {
        return Ok(&[]);
    }
    if let Some(list) = top.as_list() {
        return Ok(list);
    }
    let Some(map) = top.as_map() else {
        let found = top.describe();
        return Err(bad(top.span, &format!("expected `reactor:` with a list, found {found}")));
    };
    let is_reactor = |(key, _): &&(Node, Node)| key.as_text() == Some("reactor");
    if let Some((key, _)) = map.iter().find(|pair| !is_reactor(pair)) {
        let name = key.as_text().unwrap_or_default();
        let hint = did_you_mean(name, ["reactor"]);
        return Err(bad(key.span, &format!("unknown key `{name}`")).maybe_hint(hint));
    }
    match map.iter().find(is_reactor) {
        Some((_, list)) if list.is_null() => Ok(&[]),
        Some((_, list)) => list.as_list().ok_or_else(|| {
            bad(list.span, &format!("expected a list of rules, found {}; write `- GLOB:`", list.describe()))
        }),
        None => Ok(&[]),
    }
}

pub(crate) fn problem(span: Span, sentence: &str) -> Diagnostic {
    let Mismatch { message, hint, .. } = Mismatch::with_advice(sentence);
    Diagnostic::new(Kind::Config, message).at(span).maybe_hint(hint)
}

#[derive(Default)]
struct Reader {
    rules: Vec<Rule>,
    problems: Vec<Diagnostic>,
}

impl Reader {
    fn tell(&mut self, span: Span, sentence: &str) {
        self.problems.push(problem(span, sentence));
    }

    fn entry(&mut self, entry: &Node) {
        let Some(map) = entry.as_map() else {
            let found = entry.describe();
            return self.tell(entry.span, &format!("expected `GLOB: [references]`, found {found}"));
        };
        for (key, value) in map {
            let Some(glob) = key.as_text() else {
                self.tell(key.span, &format!("expected a glob, found {}", key.describe()));
                continue;
            };
            if glob.len() > GLOB_BYTES_MAX {
                self.tell(key.span, &format!("a glob has at most {GLOB_BYTES_MAX} bytes"));
                continue;
            }
            let parsed = match Glob::parse(glob) {
                Ok(parsed) => parsed,
                Err(mistake) => {
                    self.tell(key.span, &format!("`{glob}` is not a glob: {}", mistake.message));
                    continue;
                }
            };
            if !glob.contains(['/', '*']) {
                // A key always holds one: without either it can match nothing.
                let why = format!("`{glob}` matches no event; write `ORIGIN/TAG`, as in `*/{glob}`");
                self.tell(key.span, &why);
                continue;
            }
            self.rules_of(glob, &parsed, value);
        }
    }

    fn rules_of(&mut self, glob: &str, parsed: &Glob, value: &Node) {
        let (references, throttle) = match value.as_map() {
            Some(map) => self.words(value.span, map),
            None => (Some(value), None),
        };
        let Some(references) = references else { return };
        let one = std::slice::from_ref(references);
        for node in references.as_list().unwrap_or(one) {
            let Some(reference) = node.as_text() else {
                let found = node.describe();
                self.tell(node.span, &format!("expected a reference, found {found}; write `reactor.NAME`"));
                continue;
            };
            match path_of(reference) {
                Ok(path) => self.rules.push(Rule {
                    reference: reference.into(),
                    path,
                    glob: glob.to_string(),
                    parsed: parsed.clone(),
                    throttle,
                    span: node.span,
                }),
                Err(why) => self.tell(node.span, &why),
            }
        }
    }

    /// `react` and `throttle`.
    fn words<'n>(&mut self, span: Span, map: &'n [(Node, Node)]) -> (Option<&'n Node>, Option<Duration>) {
        let (mut references, mut throttle) = (None, None);
        for (key, value) in map {
            match key.as_text().unwrap_or_default() {
                "react" => references = Some(value),
                "throttle" => match value.as_text().map(duration::parse) {
                    Some(Ok(span)) => throttle = Some(span),
                    Some(Err(why)) => self.tell(value.span, &why),
                    None => {
                        let found = value.describe();
                        self.tell(value.span, &format!("expected a duration, found {found}; write `30s`"));
                    }
                },
                other => {
                    let hint = did_you_mean(other, WORDS);
                    let told = problem(key.span, &format!("unknown key `{other}`"));
                    let keys = || Some("the keys are `react` and `throttle`".to_string());
                    self.problems.push(told.maybe_hint(hint.or_else(keys)));
                }
            }
        }
        if references.is_none() {
            self.tell(span, "`react` is missing; it lists the reaction files");
        }
        (references, throttle)
    }
}

/// `reactor.a.b` is `a/b.zy`.
pub fn path_of(reference: &str) -> Result<String, String> {
    let shown = &reference[..reference.floor_char_boundary(REFERENCE_BYTES_MAX)];
    if reference.len() > REFERENCE_BYTES_MAX {
        return Err(format!("a reference has at most {REFERENCE_BYTES_MAX} bytes"));
    }
    if let Some(path) = reference.strip_prefix("salt://") {
        let name = path.trim_end_matches(".sls").trim_start_matches("reactor/").replace('/', ".");
        return Err(format!("`{shown}` is a path of Salt; write `{PREFIX}{name}`"));
    }
    let Some(rest) = reference.strip_prefix(PREFIX) else {
        return Err(format!("`{shown}` is no reference to a reaction file; write `{PREFIX}{shown}`"));
    };
    let is_name = |name: &str| {
        let good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
        !name.is_empty() && name.bytes().all(good)
    };
    if !rest.split('.').all(is_name) {
        return Err(format!("`{shown}` is no reference; its names are letters, digits, `_` and `-`"));
    }
    Ok(format!("{}.zy", rest.replace('.', "/")))
}
