//! Lines of a log that cannot be read any more (S-31). They are told, and never taken for lines that are not there: what was
//! done is then not all known.

use super::record::{Intent, Record};
use std::fmt;
use std::path::PathBuf;

/// What a log begins to say when it notes that a record was used up.
const REVERTED: &[u8] = br#"{"record":"reverted""#;

/// One line of a log.
#[derive(Debug, PartialEq)]
pub(super) enum Line {
    Record(Box<Record>),
    /// It was never whole: what it would have said was not relied on yet.
    Torn,
    /// Its checksum does not fit.
    Rotten,
    /// Its checksum fits, and it says something that this release does not know.
    Newer,
}

/// `<crc32 in hex> <json>\n`.
pub(super) fn decode(line: &[u8]) -> Line {
    let Some(body) = line.strip_suffix(b"\n") else { return Line::Torn };
    let json = body.get(9..).filter(|json| checksum(body) == Some(crc32fast::hash(json)));
    match json.map(serde_json::from_slice) {
        None => Line::Rotten,
        Some(Ok(record)) => Line::Record(Box::new(record)),
        Some(Err(_)) => Line::Newer,
    }
}

fn checksum(body: &[u8]) -> Option<u32> {
    u32::from_str_radix(std::str::from_utf8(body.get(..8)?).ok()?, 16).ok()
}

/// Whether the end of a log is a note of a revert that did not get to its end: the only thing that is written to a log which
/// was closed.
pub(super) fn is_torn_note(line: &[u8]) -> bool {
    let json = line.get(9..).unwrap_or_default();
    json.starts_with(REVERTED) || REVERTED.starts_with(json)
}

/// Who watches the state that a rotten line announces, if that can be made out. Good for a refresh, which may be given once too
/// often, and for nothing else.
pub(super) fn watchers_in(line: &[u8]) -> Option<(String, Vec<String>)> {
    if let Some(Ok(Record::Intent(Intent { state, watchers, .. }))) =
        line.get(9..).map(serde_json::from_slice::<Record>)
    {
        return Some((state, watchers));
    }
    let text = String::from_utf8_lossy(line);
    let value = |name: &str| {
        let behind = text.split_once(&format!("\"{name}\":"))?.1;
        serde_json::Deserializer::from_str(behind).into_iter::<serde_json::Value>().next()?.ok()
    };
    let watchers = serde_json::from_value(value("watchers")?).ok()?;
    let state = value("state").and_then(|state| state.as_str().map(str::to_string));
    Some((state.unwrap_or("a damaged record".into()), watchers))
}

/// The names of objects in a line that cannot be read: whole words of 64 hexadecimal digits.
pub(super) fn objects_in(line: &[u8]) -> Vec<String> {
    let words = line.split(|byte| !byte.is_ascii_hexdigit()).filter(|word| word.len() == 64);
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// What of one log cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    pub run_id: String,
    pub path: PathBuf,
    /// The first such line.
    pub line: usize,
    pub lines: usize,
    /// All of them were written by a newer release.
    pub newer: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Damage { run_id, path, line, lines, newer } = self;
        let why = match newer {
            true => "was written in part by a newer release",
            false => "is damaged",
        };
        write!(out, "the log of run {run_id} {why}: {} line {line}", path.display())?;
        if *lines > 1 {
            write!(out, " and {} more", lines - 1)?;
        }
        out.write_str("; what it says there was done is not known")
    }
}
