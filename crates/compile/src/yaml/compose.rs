//! Builds [`Node`]s from YAML events. The only module that knows the event parser.
//!
//! The stack is our own, never the machine's, so that nesting cannot overflow it. Aliases share what they name: sizes
//! are counted as if they were expanded, nothing is.

use super::fill::{self, Filling};
use super::scalar::scalar_type;
use crate::position::Positions;
use crate::secrets;
use crate::template::fills::Fill;
use granit_parser::{ErrorKind, Event, Parser, ScalarStyle, ScanError, Tag};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::node::{Node, Scalar, ScalarType, Value};
use zester_model::source::Span;

/// From how many entries on a map looks for duplicate keys with a table.
const TABLE_FROM: usize = 12;
/// PyYAML's 1024 letters is too short for a command used as a state id.
const KEY_LETTERS_MAX: usize = 64 * 1024;

/// Composes the one document of a text. An empty text is null. No secret may stand in it.
pub fn compose(text: &str, positions: &mut Positions<'_>) -> Result<Node, Vec<Diagnostic>> {
    let Composed { root, mut diagnostics, sealed } = compose_all(text, positions);
    diagnostics.extend(sealed.into_iter().map(secrets::misplaced));
    match root {
        Some(node) if diagnostics.is_empty() => Ok(node),
        _ => Err(diagnostics),
    }
}

/// Composes a reaction: its structure is that of the text, and the values that its tags yielded are put into scalars.
pub fn compose_filled(
    text: &str,
    positions: &mut Positions<'_>,
    fills: &[Fill],
) -> Result<Node, Vec<Diagnostic>> {
    let Composed { root, mut diagnostics, sealed } =
        compose_with(text, positions, Filling { fills, merges: true });
    diagnostics.extend(sealed.into_iter().map(secrets::misplaced));
    match root {
        Some(node) if diagnostics.is_empty() => Ok(node),
        _ => Err(fill::without_placeholders(diagnostics)),
    }
}

/// What came of a text.
pub struct Composed {
    pub root: Option<Node>,
    pub diagnostics: Vec<Diagnostic>,
    /// Where `!secret` stands.
    pub sealed: Vec<Span>,
}

/// The same, with the document also where keys stand twice: of those inside it the first counts, of those at its top
/// both do, so that whoever goes on sees all of it.
pub fn compose_all(text: &str, positions: &mut Positions<'_>) -> Composed {
    compose_with(text, positions, Filling::NOTHING)
}

/// The same, with what is put into its scalars.
pub fn compose_with(text: &str, positions: &mut Positions<'_>, filling: Filling<'_>) -> Composed {
    let options = granit_parser::options! {
        simple_key_max_lookahead: KEY_LETTERS_MAX,
        flow_nesting_limit: limits::YAML_DEPTH_MAX,
        block_nesting_limit: limits::YAML_DEPTH_MAX,
    };
    let mut composer = Composer {
        text,
        positions,
        filling,
        stack: Vec::new(),
        anchors: HashMap::new(),
        root: None,
        nodes: 0,
        documents: 0,
        diagnostics: Vec::new(),
        sealed: Vec::new(),
    };
    for event in Parser::new_from_str_with_options(text, options) {
        let step = match event {
            Ok((event, span)) => composer.take(event, &span),
            Err(error) => Err(composer.explain(&error)),
        };
        if let Err(diagnostic) = step {
            composer.diagnostics.push(diagnostic);
            return Composed { root: None, diagnostics: composer.diagnostics, sealed: composer.sealed };
        }
    }
    let Composer { root, diagnostics, positions, sealed, .. } = composer;
    let root = Some(root.unwrap_or_else(|| Node::null(positions.span(0, 1))));
    Composed { root, diagnostics, sealed }
}

/// A finished node with what an alias to it would add.
#[derive(Clone)]
pub struct Built {
    pub node: Node,
    /// Nodes in it, aliases expanded.
    pub weight: usize,
    /// Levels below it.
    pub depth: usize,
    /// A list or map in it, or itself, is a value of a tag.
    pub filled: bool,
    /// A value of a tag in it has letters that mean something in a target.
    pub wild: bool,
}

struct Open {
    span: Span,
    anchor: usize,
    weight: usize,
    depth: usize,
    filled: bool,
    wild: bool,
    content: Content,
}

struct Key {
    node: Node,
    /// A value of a tag is a part of it, which means nothing but its letters.
    filled: bool,
}

enum Content {
    List(Vec<Node>),
    Map { entries: Vec<(Node, Node)>, key: Option<Key>, merges: Vec<(Span, Node)> },
}

struct Composer<'a, 'p, 'l> {
    text: &'a str,
    positions: &'p mut Positions<'l>,
    filling: Filling<'a>,
    stack: Vec<Open>,
    anchors: HashMap<usize, Built>,
    root: Option<Node>,
    nodes: usize,
    documents: usize,
    diagnostics: Vec<Diagnostic>,
    sealed: Vec<Span>,
}

impl Composer<'_, '_, '_> {
    fn take(&mut self, event: Event<'_>, span: &granit_parser::Span) -> Result<(), Diagnostic> {
        match event {
            Event::DocumentStart(..) => {
                self.documents += 1;
                if self.documents > 1 {
                    let diagnostic = Diagnostic::new(Kind::Yaml, "a second document begins here");
                    let at = self.place(span);
                    return Err(diagnostic.at(at).hint("a file holds one document; remove the `---`"));
                }
                Ok(())
            }
            Event::Scalar(text, style, anchor, tag) => {
                let at = match &tag {
                    Some(tag) if secrets::is_tag(tag.original()) => self.tag_place(span, tag),
                    _ => self.place(span),
                };
                let plain = style == ScalarStyle::Plain && tag.is_none();
                let built = match self.filling.holds(&text) {
                    true => {
                        self.scalar(at, text.clone(), style, tag)?;
                        let place = self.fill_place();
                        self.filling.fill(at, &text, plain, place)?
                    }
                    false => {
                        let node = self.scalar(at, text, style, tag)?;
                        Built { node, weight: 1, depth: 0, filled: false, wild: false }
                    }
                };
                self.finish(built, anchor)
            }
            Event::SequenceStart(_, anchor, tag) => self.open(span, anchor, tag, Content::List(Vec::new())),
            Event::MappingStart(_, anchor, tag) => {
                // Most maps of a state file are `- name: value`.
                let content = Content::Map { entries: Vec::with_capacity(1), key: None, merges: Vec::new() };
                self.open(span, anchor, tag, content)
            }
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(id) => {
                let at = self.place(span);
                let Some(mut built) = self.anchors.get(&id).cloned() else {
                    return Err(Diagnostic::new(Kind::Yaml, "an alias stands inside what it names").at(at));
                };
                built.node.span = at;
                let place = self.fill_place();
                if built.filled && place.is_structure() {
                    return Err(fill::no_structure(at));
                }
                if built.wild && place.target {
                    return Err(fill::no_target(at));
                }
                if self.stack.len() + built.depth > limits::YAML_DEPTH_MAX {
                    return Err(too_deep(at));
                }
                self.finish(built, 0)
            }
            _ => Ok(()),
        }
    }

    /// What a node that begins now is a part of.
    fn fill_place(&self) -> fill::Place {
        let (key, item) = match self.stack.last().map(|open| &open.content) {
            Some(Content::Map { key: None, .. }) => (true, false),
            Some(Content::List(_)) => (false, true),
            _ => (false, false),
        };
        let is_target = |open: &Open| match &open.content {
            Content::Map { key: Some(key), .. } => {
                key.node.as_text().is_some_and(|name| fill::TARGETS.contains(&name))
            }
            _ => false,
        };
        let target = self.stack.iter().skip(fill::FIELDS_LEVEL).any(is_target);
        fill::Place { level: self.stack.len(), key, item, target }
    }

    fn place(&mut self, span: &granit_parser::Span) -> Span {
        let at = span.start.byte_offset().unwrap_or(0);
        let len = if span.start.line() == span.end.line() {
            span.end.index().saturating_sub(span.start.index())
        } else {
            let rest = self.text.get(at..).unwrap_or("");
            rest.lines().next().unwrap_or("").chars().count()
        };
        self.positions.span(at, len as u32)
    }

    /// Where the tag of an event stands, which begins behind it.
    fn tag_place(&mut self, span: &granit_parser::Span, tag: &Tag) -> Span {
        let behind = span.start.byte_offset().unwrap_or(0);
        let written = tag.original().to_string();
        let tag_at = self.text.get(..behind).and_then(|before| before.rfind(&written)).unwrap_or(behind);
        self.positions.span(tag_at, written.chars().count() as u32)
    }

    fn scalar(
        &mut self,
        at: Span,
        text: Cow<'_, str>,
        style: ScalarStyle,
        tag: Option<Cow<'_, Tag>>,
    ) -> Result<Node, Diagnostic> {
        let plain = style == ScalarStyle::Plain;
        let found = match tag.as_deref() {
            None if plain => scalar_type(&text),
            None => ScalarType::Text,
            Some(tag) => match tag.core_suffix() {
                Some("str" | "binary" | "timestamp") => ScalarType::Text,
                Some(_) => scalar_type(&text),
                None if tag.suffix().is_empty() => ScalarType::Text,
                None if secrets::is_tag(tag.original()) => {
                    self.sealed.push(at);
                    ScalarType::Sealed
                }
                None => return Err(unknown_tag(tag, at)),
            },
        };
        Ok(Node { span: at, value: Value::Scalar(Scalar { text: Arc::from(&*text), scalar_type: found }) })
    }

    fn open(
        &mut self,
        span: &granit_parser::Span,
        anchor: usize,
        tag: Option<Cow<'_, Tag>>,
        content: Content,
    ) -> Result<(), Diagnostic> {
        let at = self.place(span);
        if let Some(tag) = tag.filter(|tag| tag.core_suffix().is_none() && !tag.suffix().is_empty()) {
            let at = self.tag_place(span, &tag);
            if secrets::is_tag(tag.original()) {
                return Err(secrets::not_a_text(at));
            }
            return Err(unknown_tag(&tag, at));
        }
        if self.stack.len() >= limits::YAML_DEPTH_MAX {
            return Err(too_deep(at));
        }
        let (weight, depth, filled, wild) = (1, 0, false, false);
        self.stack.push(Open { span: at, anchor, weight, depth, filled, wild, content });
        Ok(())
    }

    fn close(&mut self) -> Result<(), Diagnostic> {
        let Some(open) = self.stack.pop() else { return Ok(()) };
        let node = match open.content {
            Content::List(items) => Node::list(open.span, items),
            Content::Map { mut entries, merges, .. } => {
                let again = self.duplicates(&entries);
                if !self.stack.is_empty() && !again.is_empty() {
                    let mut index = 0..;
                    entries.retain(|_| index.next().is_none_or(|at: usize| !again.contains(&at)));
                }
                Node::map(open.span, merged(entries, merges)?)
            }
        };
        let Open { weight, depth, filled, wild, .. } = open;
        self.finish(Built { node, weight, depth: depth + 1, filled, wild }, open.anchor)
    }

    fn finish(&mut self, built: Built, anchor: usize) -> Result<(), Diagnostic> {
        let Built { node, weight, depth, filled, wild } = built;
        self.nodes += 1;
        if anchor != 0 {
            self.anchors.insert(anchor, Built { node: node.clone(), weight, depth, filled, wild });
        }
        let Some(open) = self.stack.last_mut() else {
            self.root = Some(node);
            return Ok(());
        };
        open.weight = open.weight.saturating_add(weight);
        open.depth = open.depth.max(depth);
        open.filled |= filled;
        open.wild |= wild;
        if open.weight > limits::YAML_NODES_MAX {
            let message =
                format!("more than {} values, aliases counted as often as used", limits::YAML_NODES_MAX);
            return Err(Diagnostic::new(Kind::Yaml, message).at(node.span));
        }
        match &mut open.content {
            Content::List(items) => items.push(node),
            Content::Map { entries, key, merges } => match key.take() {
                None if matches!(node.value, Value::Scalar(_)) => *key = Some(Key { node, filled }),
                None => return Err(complex_key(&node)),
                Some(name) if is_merge(&name.node) && self.filling.merges && !name.filled => {
                    if filled {
                        return Err(fill::no_merge(node.span));
                    }
                    merges.push((name.node.span, node));
                }
                Some(name) => entries.push((name.node, node)),
            },
        }
        Ok(())
    }

    /// Reports every key that stands twice, and says which do; composing goes on, so that all of them are shown.
    fn duplicates(&mut self, entries: &[(Node, Node)]) -> Vec<usize> {
        let mut again = Vec::new();
        if entries.len() < TABLE_FROM {
            for (index, (key, _)) in entries.iter().enumerate() {
                let before = entries.get(..index).unwrap_or(&[]);
                if let Some((first, _)) = before.iter().find(|(other, _)| letters(other) == letters(key)) {
                    self.diagnostics.push(duplicate(first, key));
                    again.push(index);
                }
            }
            return again;
        }
        let mut seen: HashMap<&str, &Node> = HashMap::with_capacity(entries.len());
        for (index, (key, _)) in entries.iter().enumerate() {
            match seen.get(letters(key)) {
                Some(first) => {
                    self.diagnostics.push(duplicate(first, key));
                    again.push(index);
                }
                None => {
                    seen.insert(letters(key), key);
                }
            }
        }
        again
    }

    /// Says what is wrong in words for whoever wrote the file.
    fn explain(&mut self, error: &ScanError) -> Diagnostic {
        let at = error.marker().byte_offset().unwrap_or(self.text.len()).min(self.text.len());
        let span = self.positions.span(at, 1);
        let before = self.text.get(..at).unwrap_or("");
        let line = before.rsplit('\n').next().unwrap_or("");
        let after = self.text.get(at..).unwrap_or("");
        let indented_by_tab =
            line.chars().all(char::is_whitespace) && (line.contains('\t') || after.starts_with('\t'));
        let tab = matches!(
            error.kind(),
            ErrorKind::TabNotAllowed | ErrorKind::TabInBlockIndentation | ErrorKind::TabInIndentation
        );
        if tab || indented_by_tab {
            // The parser stops behind the tab; the caret belongs under it.
            let start = at - line.len();
            let tab_at = line.find('\t').map_or(at, |offset| start + offset);
            let span = self.positions.span(tab_at, 1);
            return Diagnostic::new(Kind::Yaml, "a tab cannot indent YAML")
                .at(span)
                .hint("replace it by spaces");
        }
        if let Some(opening) = open_quote(error.kind(), self.text, at) {
            let span = self.positions.span(opening, 1);
            return Diagnostic::new(Kind::Yaml, "a quote is never closed").at(span).hint("it opens here");
        }
        let diagnostic = Diagnostic::new(Kind::Yaml, format!("not YAML: {}", error.info())).at(span);
        let whole_line = format!("{line}{}", after.lines().next().unwrap_or(""));
        match error.kind() {
            ErrorKind::RecursionLimitExceeded => too_deep(span),
            ErrorKind::MappingValueNotAllowed if self.positions.is_from_a_tag(at) => {
                diagnostic.hint("what it yields holds `: `: put quotes around the whole value")
            }
            ErrorKind::MappingValueNotAllowed => diagnostic
                .hint("a value that holds `: ` needs quotes, or the line above is indented differently"),
            ErrorKind::UnclosedFlowCollection { open } => {
                let open = *open;
                Diagnostic::new(Kind::Yaml, format!("a `{open}` is never closed"))
                    .at(span)
                    .hint("it opens here")
            }
            ErrorKind::ExpectedBlockMappingKey => {
                Diagnostic::new(Kind::Yaml, "this line is indented differently from its neighbours")
                    .at(span)
                    .hint("line it up with the keys above it")
            }
            ErrorKind::InvalidColonPlacement => {
                diagnostic.hint("is a `[`, a `{` or a quote above still open?")
            }
            ErrorKind::UnknownAnchor => {
                diagnostic.hint("this alias names an anchor that no line above defines")
            }
            _ if whole_line.contains("{{") => diagnostic.hint("a value that begins with `{{` needs quotes"),
            _ if whole_line.contains(": %") || whole_line.contains("- %") => {
                diagnostic.hint("a value that begins with `%` needs quotes")
            }
            _ if whole_line.contains(": @") || whole_line.contains(": `") => {
                diagnostic.hint("a value that begins with this character needs quotes")
            }
            _ => diagnostic,
        }
    }
}

/// Where the quote opens that runs into what stopped the parser.
fn open_quote(kind: &ErrorKind, text: &str, at: usize) -> Option<usize> {
    let unclosed = matches!(
        kind,
        ErrorKind::UnclosedQuotedScalar
            | ErrorKind::InvalidQuotedScalarIndent
            | ErrorKind::DocumentIndicatorInQuotedScalar
    );
    let before = text.get(..at).filter(|_| unclosed)?;
    // A quote opens behind a blank or a bracket; the last one that does is the one still open.
    let opens = |(index, letter): &(usize, char)| {
        let earlier = before.get(..*index).and_then(|part| part.chars().next_back());
        matches!(letter, '"' | '\'') && earlier.is_none_or(|it| it.is_whitespace() || "[{,(".contains(it))
    };
    before.char_indices().rfind(opens).map(|(index, _)| index)
}

fn letters(key: &Node) -> &str {
    key.as_text().unwrap_or("null")
}

fn is_merge(key: &Node) -> bool {
    // A quoted "<<" is told apart nowhere in the field; neither is it here.
    key.as_text() == Some("<<")
}

fn duplicate(first: &Node, second: &Node) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, format!("duplicate key `{}`", letters(second)))
        .at(second.span)
        .hint("rename it, or join the two")
        .label(first.span, "first defined here")
}

fn complex_key(node: &Node) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, format!("{} cannot be a key", node.describe()))
        .at(node.span)
        .hint("a value that begins with `{` or `[` needs quotes")
}

fn unknown_tag(tag: &Tag, at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, format!("unknown tag `{}`", tag.original())).at(at).hint("remove it")
}

fn too_deep(at: Span) -> Diagnostic {
    Diagnostic::new(Kind::Yaml, format!("nested more than {} levels deep", limits::YAML_DEPTH_MAX)).at(at)
}

/// Puts merged keys before the own ones, which win; of several merges the first wins.
fn merged(own: Vec<(Node, Node)>, merges: Vec<(Span, Node)>) -> Result<Vec<(Node, Node)>, Diagnostic> {
    if merges.is_empty() {
        return Ok(own);
    }
    let mut taken: std::collections::HashSet<String> =
        own.iter().map(|(key, _)| letters(key).to_string()).collect();
    let mut entries: Vec<(Node, Node)> = Vec::new();
    for (at, source) in merges {
        let maps: Vec<&Node> = match &source.value {
            Value::Map(_) => vec![&source],
            Value::List(items) => items.iter().collect(),
            Value::Scalar(_) => Vec::new(),
        };
        if maps.is_empty() || maps.iter().any(|map| map.as_map().is_none()) {
            let message = format!("`<<` merges a map or a list of maps, not {}", source.describe());
            return Err(Diagnostic::new(Kind::Yaml, message).at(at));
        }
        for (key, value) in maps.iter().flat_map(|map| map.as_map().unwrap_or(&[])) {
            if taken.insert(letters(key).to_string()) {
                entries.push((key.clone(), value.clone()));
            }
        }
    }
    entries.extend(own);
    Ok(entries)
}
