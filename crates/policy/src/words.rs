//! Reading the words of a map one by one: what is wrong with any of them is told, with its place.

use crate::limits::LIST_MAX;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::{Mismatch, Node};
use zester_model::source::{Sources, Span};
use zester_model::suggest::did_you_mean;
use zester_model::target::glob::Glob;

/// A pattern of functions, and where it was written.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    pub(crate) text: String,
    pub(crate) at: String,
    glob: Glob,
}

impl Pattern {
    /// A pattern that was judged when it was written.
    pub(crate) fn parse(text: &str, at: &str) -> Option<Pattern> {
        let glob = Glob::parse(text).ok()?;
        Some(Pattern { text: text.to_string(), at: at.to_string(), glob })
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.glob.matches(name)
    }
}

/// Collects what is wrong while a document is read.
pub(crate) struct Reader<'s> {
    pub(crate) sources: &'s Sources,
    pub(crate) problems: Vec<Diagnostic>,
}

impl<'s> Reader<'s> {
    pub(crate) fn new(sources: &'s Sources) -> Reader<'s> {
        Reader { sources, problems: Vec::new() }
    }

    pub(crate) fn place(&self, span: Span) -> String {
        self.sources.place(span)
    }

    /// Tells a problem. What stands behind `; ` in the sentence is advice.
    pub(crate) fn tell(&mut self, span: Span, sentence: &str) {
        let Mismatch { message, hint, .. } = Mismatch::with_advice(sentence);
        self.problems.push(Diagnostic::new(Kind::Config, message).at(span).maybe_hint(hint));
    }

    fn mismatch(&mut self, span: Span, mismatch: Mismatch) {
        let Mismatch { span: own, message, hint } = mismatch;
        self.problems.push(Diagnostic::new(Kind::Config, message).at(own.unwrap_or(span)).maybe_hint(hint));
    }

    /// The values of a map by these words; any other word is told.
    pub(crate) fn words<'n>(
        &mut self,
        node: &'n Node,
        known: &'static [&'static str],
        what: &str,
    ) -> Option<Vec<(&'static str, &'n Node, &'n Node)>> {
        let Some(map) = node.as_map() else {
            self.tell(node.span, &format!("expected {what}, found {}; write a map", node.describe()));
            return None;
        };
        let mut given = Vec::new();
        for (key, value) in map {
            let word = key.as_text().unwrap_or_default();
            match known.iter().find(|known| **known == word) {
                Some(known) => given.push((*known, key, value)),
                None => {
                    let listed = || format!("the keys are {}", quoted(known));
                    let hint = did_you_mean(word, known.iter().copied()).unwrap_or_else(listed);
                    self.tell(key.span, &format!("unknown key `{word}`; {hint}"));
                }
            }
        }
        Some(given)
    }

    pub(crate) fn truth(&mut self, node: &Node) -> Option<bool> {
        node.read().map_err(|mismatch| self.mismatch(node.span, mismatch)).ok()
    }

    pub(crate) fn text(&mut self, node: &Node) -> Option<String> {
        let read = node.read::<String>().map_err(|mismatch| self.mismatch(node.span, mismatch)).ok();
        let text = read?;
        if text.trim().is_empty() {
            self.tell(node.span, "expected a text, found an empty one");
            return None;
        }
        Some(text)
    }

    /// Texts, each with its place. One text stands for a list of one.
    pub(crate) fn texts(&mut self, node: &Node) -> Vec<(String, Span)> {
        let items: Vec<&Node> = match node.as_list() {
            Some(items) => items.iter().collect(),
            None => vec![node],
        };
        if items.is_empty() {
            self.tell(node.span, "the list is empty; leave the key out, or name something");
        }
        if items.len() > LIST_MAX {
            self.tell(node.span, &format!("the list has {} entries; {LIST_MAX} are the most", items.len()));
            return Vec::new();
        }
        items.into_iter().filter_map(|item| Some((self.text(item)?, item.span))).collect()
    }

    pub(crate) fn patterns(&mut self, node: &Node) -> Vec<Pattern> {
        let mut patterns = Vec::new();
        for (text, span) in self.texts(node) {
            match Pattern::parse(&text, &self.place(span)) {
                Some(pattern) => patterns.push(pattern),
                None => self.tell(
                    span,
                    &format!("`{text}` is not a pattern of functions; write `state.*`, or `test.ping`"),
                ),
            }
        }
        patterns
    }
}

fn quoted(words: &[&str]) -> String {
    words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}
