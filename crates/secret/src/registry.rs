//! The secrets of one run: what each placeholder stands for. In memory, for as long as the run lasts.

use crate::Chance;
use crate::encoded::{escaped, in_base64};
use crate::hide::Known;
use std::fmt;
use zeroize::Zeroizing;
use zester_model::secret::{CLOSE, OPEN};

/// Bytes of chance in a token.
const TOKEN_BYTES: usize = 16;
/// Begins every token: a filter that changes the case of letters damages it, and is noticed.
const TOKEN_START: &str = "zQ";

struct Entry {
    placeholder: String,
    /// None of one that was never opened.
    value: Option<SecretText>,
}

impl Entry {
    fn new(value: Option<SecretText>, chance: Chance<'_>) -> Entry {
        let mut token = [0; TOKEN_BYTES];
        chance(&mut token);
        let token: String = token.iter().map(|byte| format!("{byte:02x}")).collect();
        Entry { placeholder: format!("{OPEN}{TOKEN_START}{token}{CLOSE}"), value }
    }
}

/// What the placeholders of a run stand for.
#[derive(Default)]
pub struct Secrets {
    entries: Vec<Entry>,
    /// The secrets in base64: what a command encoded stays a secret.
    encoded: Vec<Entry>,
    known: Known,
}

/// A placeholder that is not whole any more: a filter took it apart.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(
            "a secret was changed on its way here; it can only be inserted as a whole, without a filter",
        )
    }
}

impl std::error::Error for Damaged {}

/// A secret that was opened. No Display, no Debug, no Serialize; gone from memory when dropped.
pub struct SecretText(Zeroizing<String>);

impl SecretText {
    /// For whoever seals it again.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl From<String> for SecretText {
    fn from(text: String) -> SecretText {
        SecretText(Zeroizing::new(text))
    }
}

/// Bytes that may hold a secret. No Display, no Debug, no Serialize; gone from memory when dropped.
#[derive(Clone)]
pub struct Revealed {
    bytes: Zeroizing<Vec<u8>>,
    secret: bool,
}

impl Revealed {
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether there is a secret in it.
    pub fn holds_secret(&self) -> bool {
        self.secret
    }
}

impl From<Vec<u8>> for Revealed {
    /// Bytes that hold none.
    fn from(bytes: Vec<u8>) -> Revealed {
        Revealed { bytes: Zeroizing::new(bytes), secret: false }
    }
}

impl Secrets {
    /// Takes a secret in and gives the text that stands for it from now on.
    pub fn add(&mut self, value: SecretText, chance: Chance<'_>) -> String {
        self.known.add(value.text());
        for encoded in in_base64(value.text()).into_iter().chain(escaped(value.text())) {
            self.known.add_one(&encoded);
            self.encoded.push(Entry::new(Some(SecretText(encoded)), chance));
        }
        self.enter(Some(value), chance)
    }

    /// A placeholder for one that stays closed: it can be shown, and never revealed.
    pub fn add_closed(&mut self, chance: Chance<'_>) -> String {
        self.enter(None, chance)
    }

    fn enter(&mut self, value: Option<SecretText>, chance: Chance<'_>) -> String {
        let entry = Entry::new(value, chance);
        let placeholder = entry.placeholder.clone();
        self.entries.push(entry);
        placeholder
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn all(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().chain(&self.encoded)
    }

    pub(crate) fn known(&self) -> &Known {
        &self.known
    }

    /// What stands for a secret that was found in a text, with or without the blanks around it.
    pub(crate) fn placeholder_of(&self, found: &[u8]) -> Option<&str> {
        let is = |entry: &&Entry| {
            let value = entry.value.as_ref().map(SecretText::text);
            value.is_some_and(|value| value.as_bytes() == found || value.trim().as_bytes() == found)
        };
        self.all().find(is).map(|entry| entry.placeholder.as_str())
    }

    /// The bytes that are meant. Only for what goes into a file, an environment or the input of a command.
    pub fn reveal(&self, bytes: Vec<u8>) -> Result<Revealed, Damaged> {
        if self.entries.is_empty() {
            return Ok(bytes.into());
        }
        let (mut open, mut close) = ([0; 4], [0; 4]);
        let (open, close) =
            (OPEN.encode_utf8(&mut open).as_bytes(), CLOSE.encode_utf8(&mut close).as_bytes());
        // Placed first, then written at once: a vector that grows would leave copies behind.
        let mut pieces: Vec<&[u8]> = Vec::new();
        let (mut rest, mut secret) = (bytes.as_slice(), false);
        while let Some(at) = find(rest, open) {
            let (before, behind) = rest.split_at(at);
            let end = find(behind, close).ok_or(Damaged)? + close.len();
            let (placeholder, after) = behind.split_at(end);
            let entry = self.all().find(|entry| entry.placeholder.as_bytes() == placeholder);
            let value = entry.and_then(|entry| entry.value.as_ref()).ok_or(Damaged)?;
            pieces.extend([before, value.text().as_bytes()]);
            (rest, secret) = (after, true);
            if find(before, close).is_some() {
                return Err(Damaged);
            }
        }
        if find(rest, close).is_some() {
            return Err(Damaged);
        }
        pieces.push(rest);
        let mut whole = Zeroizing::new(Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum()));
        pieces.iter().for_each(|piece| whole.extend_from_slice(piece));
        Ok(Revealed { bytes: whole, secret })
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

impl fmt::Debug for Secrets {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} secrets", self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::tests::chance;
    use zester_rule::rule;

    #[test]
    #[rule("D-15", "I-10")]
    fn d15_a_placeholder_says_nothing_and_only_reveal_gives_the_secret() {
        let mut secrets = Secrets::default();
        let placeholder = secrets.add(SecretText::from("hunter2".to_string()), &mut chance(1));
        assert!(!placeholder.contains("hunter2"));
        assert!(!format!("{secrets:?}").contains("hunter2"));
        let text = format!("a {placeholder} b {placeholder}");
        let revealed = secrets.reveal(text.into_bytes()).unwrap();
        assert_eq!(revealed.bytes(), b"a hunter2 b hunter2");
        assert!(revealed.holds_secret());
        let plain = secrets.reveal(b"\xff plain".to_vec()).unwrap();
        assert!(plain.bytes() == b"\xff plain" && !plain.holds_secret());
    }

    #[test]
    #[rule("D-15")]
    fn d15_what_a_filter_did_to_a_secret_is_noticed() {
        let mut secrets = Secrets::default();
        let whole = secrets.add(SecretText::from("hunter2".to_string()), &mut chance(1));
        let reversed: String = whole.chars().rev().collect();
        let short: String = whole.chars().take(6).collect();
        let tail: String = whole.chars().skip(6).collect();
        for damaged in [whole.to_uppercase(), whole.to_lowercase(), reversed, short, tail] {
            assert!(secrets.reveal(damaged.clone().into_bytes()).is_err(), "{damaged}");
        }
        // A file that holds such a character of its own is nobody's business where there is no secret.
        assert!(Secrets::default().reveal(whole.into_bytes()).is_ok());
    }
}
