//! Values that stay out of the text: a tag of a reaction writes a placeholder, and the composer puts the value
//! there when the structure is settled. So no value can be taken for YAML, whatever stands in it.
//!
//! A placeholder is a private character, an index, and another private character. Values never get into the text, and
//! a template that holds such characters itself is refused, so that nothing else can look like one.

use super::budget::Budget;
use minijinja::value::{Value, ValueKind};
use minijinja::{Error, ErrorKind, Output};
use serde_json::Value as Json;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// In plane 16, between the characters that marks are made of (see [`super::origin`]).
const OPEN: char = '\u{107ffe}';
const CLOSE: char = '\u{107fff}';
/// Tags that one render may print.
const FILLS_MAX: usize = 100_000;

/// What a tag yielded.
#[derive(Clone, Debug, PartialEq)]
pub enum Fill {
    Text(String),
    /// A value that is no text, and how it is written between other text.
    Typed {
        value: Json,
        text: String,
    },
    /// A value that a filter wrote down as JSON or YAML.
    Encoded(String),
}

impl Fill {
    /// Whether it could mean more than a name in a target: an operator of expressions, a glob, several names.
    pub fn is_wild(&self) -> bool {
        match self {
            Fill::Text(text) | Fill::Encoded(text) => !is_name(text),
            Fill::Typed { value, .. } => match value {
                Json::Array(items) => !items.iter().all(|item| item.as_str().is_some_and(is_name)),
                Json::Object(_) => true,
                Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => false,
            },
        }
    }

    /// The value as it is now: a list may change behind the tag that printed it.
    pub fn of(value: &Value, encoded: bool, budget: &Budget) -> Result<Fill, Error> {
        if let Some(text) = value.as_str() {
            budget.emit(text.len())?;
            let text = text.to_string();
            return Ok(if encoded { Fill::Encoded(text) } else { Fill::Text(text) });
        }
        let typed = match value.kind() {
            ValueKind::Undefined | ValueKind::None => Json::Null,
            ValueKind::Bytes => return Err(invalid("bytes are no text".into())),
            _ => serde_json::to_value(value)
                .map_err(|error| invalid(format!("this value has no JSON form: {error}")))?,
        };
        // Walking it may have passed a bound.
        budget.check()?;
        let text = value.to_string();
        budget.emit(text.len())?;
        Ok(Fill::Typed { value: typed, text })
    }

    /// How it is written between other text.
    pub fn text(&self) -> &str {
        match self {
            Fill::Text(text) | Fill::Encoded(text) | Fill::Typed { text, .. } => text,
        }
    }
}

fn invalid(message: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

/// The values of one render, and who is writing at the moment.
#[derive(Debug, Default)]
pub struct Fills {
    table: Mutex<Vec<Fill>>,
    /// An empty write came through to the output.
    probed: AtomicBool,
    /// Text of a value is being written, which belongs into a capture.
    as_text: AtomicBool,
}

impl Fills {
    /// Takes the values of the render that has ended.
    pub fn take(&self) -> Vec<Fill> {
        std::mem::take(&mut *self.table.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether what is written now goes to the output, and not into a capture (`set` blocks, macros, filters).
    ///
    /// The engine does not say; but an empty write changes no capture, and the output notices it.
    pub fn reaches_output(&self, out: &mut Output<'_>) -> Result<bool, Error> {
        self.probed.store(false, Ordering::Relaxed);
        out.write_str("")?;
        Ok(self.probed.load(Ordering::Relaxed))
    }

    /// Keeps a value and gives its placeholder.
    pub fn keep(&self, fill: Fill, budget: &Budget) -> Result<String, Error> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= FILLS_MAX {
            return Err(budget.pass(format!("the template prints more than {FILLS_MAX} values")));
        }
        table.push(fill);
        Ok(format!("{OPEN}{}{CLOSE}", table.len() - 1))
    }

    /// Writes the text of a value into a capture.
    pub fn as_text(&self, write: impl FnOnce() -> fmt::Result) -> fmt::Result {
        self.as_text.store(true, Ordering::Relaxed);
        let written = write();
        self.as_text.store(false, Ordering::Relaxed);
        written
    }

    /// The output is told of every write. `false`: text of a value has come here, which must never be.
    pub fn may_write(&self, bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            self.probed.store(true, Ordering::Relaxed);
        }
        bytes.is_empty() || !self.as_text.load(Ordering::Relaxed)
    }
}

/// A part of a scalar.
#[derive(Debug, PartialEq)]
pub enum Part<'t> {
    Written(&'t str),
    /// The value with this index.
    Filled(usize),
}

/// Whether a text may hold a placeholder.
pub fn may_hold(text: &str) -> bool {
    super::origin::is_foreign(text)
}

/// Splits a text at its placeholders.
pub fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(OPEN) {
        let Some((index, after)) = behind.split_once(CLOSE) else { break };
        let Ok(index) = index.parse() else { break };
        if !before.is_empty() {
            parts.push(Part::Written(before));
        }
        parts.push(Part::Filled(index));
        rest = after;
    }
    if !rest.is_empty() {
        parts.push(Part::Written(rest));
    }
    parts
}

/// A message without placeholders: they are called what the user wrote.
pub fn shown(message: &str) -> String {
    let shown = |part: Part<'_>| match part {
        Part::Written(text) => text.to_string(),
        Part::Filled(_) => "{{ … }}".to_string(),
    };
    parts(message).into_iter().map(shown).collect()
}

/// A text that is nothing but a name, wherever it stands in a target.
fn is_name(text: &str) -> bool {
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let operator = ["and", "or", "not"].iter().any(|word| text.eq_ignore_ascii_case(word));
    text.chars().all(letters) && !operator
}
