//! MessagePack in and out. Maps by name only; every error names the message and the field, and nothing here panics.

use crate::limits::{ERROR_WORDS_BYTES_MAX, MESSAGE_BYTES_MAX, NESTING_MAX};
use crate::subject::Subject;
use rmp_serde::decode::{Deserializer, ReadReader};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::Cursor;

/// A type that travels. The name is for errors and counters.
pub trait Message: Serialize + DeserializeOwned {
    const NAME: &'static str;

    /// What is signed and passed on, and what only travels beside it to whoever is asked. None: all is signed.
    fn detach(&self) -> Result<Option<(Self, Vec<u8>)>, EncodeError> {
        Ok(None)
    }

    /// Puts together what was detached. Fails where it is not what was signed.
    fn attach(&mut self, _beside: &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }

    /// Whether a record of it counts for nothing without the words of whom it is about (I-12).
    const OWN_WORDS: bool = false;

    /// What that one signed, and the subject that it was signed for, where the record keeps it.
    fn own_words(&self) -> Option<(Subject, Vec<u8>)> {
        None
    }

    /// Where a record stands in the life of its key. None: what stands under one key never changes, or its reader tells by itself.
    fn serial(&self) -> Option<Serial> {
        None
    }

    /// The same in those words, with what the record adds to them. None: they speak of something else.
    fn in_own_words(self, _own: Self) -> Option<Self> {
        Some(self)
    }
}

/// Tells an older record of a key from a newer one, whoever stored it last (I-12): it is signed with the record, while the revision of a
/// bucket is its server's word. Numbers are compared within one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serial {
    /// Whose count it is, where several count by themselves.
    pub line: String,
    pub number: [u64; 4],
    /// Every write has a number of its own: the same one, stored anew, was brought back.
    pub is_unique: bool,
}

impl Serial {
    /// One count for all who write.
    pub fn of(number: [u64; 4]) -> Serial {
        Serial { line: String::new(), number, is_unique: false }
    }
}

/// What kind of wrong, to count by.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub enum DecodeKind {
    TooLarge,
    Malformed,
    /// A whole message with something after it.
    Trailing,
}

impl DecodeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            DecodeKind::TooLarge => "too_large",
            DecodeKind::Malformed => "malformed",
            DecodeKind::Trailing => "trailing",
        }
    }
}

/// Why bytes are not the message they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeError {
    pub kind: DecodeKind,
    pub message: &'static str,
    /// The way to the field, `targets[3]`; empty where the message as a whole is wrong.
    pub field: String,
    pub why: String,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.field.as_str() {
            "" => write!(out, "not a readable {}: {}", self.message, self.why),
            field => write!(out, "not a readable {}: field {field}: {}", self.message, self.why),
        }
    }
}

impl std::error::Error for DecodeError {}

/// A message that cannot be written. With types of this crate that means it is too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    pub message: &'static str,
    pub why: String,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "cannot write a {}: {}", self.message, self.why)
    }
}

impl std::error::Error for EncodeError {}

pub fn encode<T: Message>(message: &T) -> Result<Vec<u8>, EncodeError> {
    let fail = |why: String| EncodeError { message: T::NAME, why };
    let bytes = rmp_serde::to_vec_named(message).map_err(|error| fail(tame(&error.to_string())))?;
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(fail(format!("{} bytes; at most {MESSAGE_BYTES_MAX} are read", bytes.len())));
    }
    Ok(bytes)
}

pub fn decode<T: Message>(bytes: &[u8]) -> Result<T, DecodeError> {
    let fail = |kind, field, why| DecodeError { kind, message: T::NAME, field, why };
    if bytes.len() > MESSAGE_BYTES_MAX {
        let why = format!("{} bytes; at most {MESSAGE_BYTES_MAX} are read", bytes.len());
        return Err(fail(DecodeKind::TooLarge, String::new(), why));
    }
    let mut reader = reader(bytes);
    match T::deserialize(&mut reader) {
        Ok(message) if reader.position() == bytes.len() as u64 => Ok(message),
        Ok(_) => {
            let why = format!("{} bytes follow it", bytes.len() as u64 - reader.position());
            Err(fail(DecodeKind::Trailing, String::new(), why))
        }
        Err(error) => {
            let (field, why) = locate::<T>(bytes).unwrap_or((String::new(), error.to_string()));
            Err(fail(DecodeKind::Malformed, tame(&field), tame(&why)))
        }
    }
}

fn reader(bytes: &[u8]) -> Deserializer<ReadReader<Cursor<&[u8]>>> {
    let mut reader = Deserializer::new(Cursor::new(bytes));
    reader.set_max_depth(NESTING_MAX);
    reader
}

/// Reads a second time, keeping track of the way: only what is already known to be wrong pays for it.
fn locate<T: Message>(bytes: &[u8]) -> Option<(String, String)> {
    let error = serde_path_to_error::deserialize::<_, T>(&mut reader(bytes)).err()?;
    let way = error.path().to_string();
    let field = if way == "." { String::new() } else { way };
    Some((field, error.into_inner().to_string()))
}

/// The decoder quotes what it met. It goes to logs and terminals, so it is short and holds no control characters.
fn tame(words: &str) -> String {
    let mut tamed = String::new();
    for part in words.chars().map(char::escape_debug) {
        if tamed.len() >= ERROR_WORDS_BYTES_MAX {
            tamed.push('…');
            break;
        }
        tamed.extend(part);
    }
    tamed
}
