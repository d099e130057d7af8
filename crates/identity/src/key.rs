//! Keys: Ed25519 in the letters of NATS, whose first letter says what a key is for.

use std::fmt;

/// Letters of a public key; of a seed there are two more.
const PUBLIC_LETTERS: usize = 56;
const SEED_LETTERS: usize = 58;

/// What a key is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    Operator,
    Account,
    User,
}

impl KeyKind {
    fn letter(self) -> char {
        match self {
            KeyKind::Operator => 'O',
            KeyKind::Account => 'A',
            KeyKind::User => 'U',
        }
    }

    fn native(self) -> nkeys::KeyPairType {
        match self {
            KeyKind::Operator => nkeys::KeyPairType::Operator,
            KeyKind::Account => nkeys::KeyPairType::Account,
            KeyKind::User => nkeys::KeyPairType::User,
        }
    }

    fn word(self) -> &'static str {
        match self {
            KeyKind::Operator => "operator",
            KeyKind::Account => "account",
            KeyKind::User => "user",
        }
    }
}

/// A text that is no key of the wanted kind. The text itself is not repeated: it may be a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadKey {
    what: String,
}

impl BadKey {
    fn new(what: impl Into<String>) -> BadKey {
        BadKey { what: what.into() }
    }
}

impl fmt::Display for BadKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not a key: {}", self.what)
    }
}

impl std::error::Error for BadKey {}

/// A key that was checked: its letters, its checksum, its kind.
#[derive(Clone)]
pub struct PublicKey {
    text: String,
    kind: KeyKind,
    pair: nkeys::KeyPair,
}

impl PublicKey {
    pub fn parse(text: &str) -> Result<PublicKey, BadKey> {
        // Before the library sees it, which trusts the length.
        if text.len() != PUBLIC_LETTERS || !is_base32(text) {
            return Err(BadKey::new("a public key has 56 letters and digits"));
        }
        let kinds = [KeyKind::Operator, KeyKind::Account, KeyKind::User];
        let kind = kinds.into_iter().find(|kind| text.starts_with(kind.letter()));
        let kind =
            kind.ok_or_else(|| BadKey::new("it is neither an operator's nor an account's nor a user's"))?;
        let pair = nkeys::KeyPair::from_public_key(text)
            .map_err(|_| BadKey::new("its checksum does not fit its letters"))?;
        // The same bytes could be written in more than one way, and each would be another name.
        if pair.public_key() != text {
            return Err(BadKey::new("it is not written as NATS writes it"));
        }
        Ok(PublicKey { text: text.to_string(), kind, pair })
    }

    /// The same, of one kind.
    pub fn of_kind(text: &str, kind: KeyKind) -> Result<PublicKey, BadKey> {
        let key = PublicKey::parse(text)?;
        match key.kind == kind {
            true => Ok(key),
            false => Err(BadKey::new(format!("it is no {} key", kind.word()))),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    pub fn verifies(&self, bytes: &[u8], signature: &[u8]) -> bool {
        self.pair.verify(bytes, signature).is_ok()
    }
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &PublicKey) -> bool {
        self.text == other.text
    }
}

impl Eq for PublicKey {}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// A key that can sign. It shows its public half only.
#[derive(Clone)]
pub struct KeyPair {
    public: PublicKey,
    pair: nkeys::KeyPair,
}

impl KeyPair {
    /// From 32 bytes that nobody can guess.
    pub fn new(kind: KeyKind, random: [u8; 32]) -> Result<KeyPair, BadKey> {
        let pair = nkeys::KeyPair::new_from_raw(kind.native(), random)
            .map_err(|_| BadKey::new("these bytes make none"))?;
        KeyPair::of(pair)
    }

    /// From the text of a seed: `SO…`, `SA…` or `SU…`.
    pub fn from_seed(seed: &str) -> Result<KeyPair, BadKey> {
        if seed.len() != SEED_LETTERS || !is_base32(seed) {
            return Err(BadKey::new("a seed has 58 letters and digits and begins with S"));
        }
        KeyPair::of(nkeys::KeyPair::from_seed(seed).map_err(|_| BadKey::new("the seed is damaged"))?)
    }

    fn of(pair: nkeys::KeyPair) -> Result<KeyPair, BadKey> {
        Ok(KeyPair { public: PublicKey::parse(&pair.public_key())?, pair })
    }

    pub fn public(&self) -> &PublicKey {
        &self.public
    }

    pub fn kind(&self) -> KeyKind {
        self.public.kind
    }

    /// The secret half, for the file it is kept in.
    pub fn seed(&self) -> Result<String, BadKey> {
        self.pair.seed().map_err(|_| BadKey::new("it has no secret half"))
    }

    /// A pair that was made here has its secret half, so there is always a signature; an empty one verifies nowhere.
    pub fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes).unwrap_or_default()
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "KeyPair({})", self.public)
    }
}

fn is_base32(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_uppercase() || (b'2'..=b'7').contains(&byte))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use proptest::prelude::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-1")]
    fn i1_a_key_says_what_it_is_for_and_signs_only_as_itself() {
        for (kind, letter) in [(KeyKind::Operator, 'O'), (KeyKind::Account, 'A'), (KeyKind::User, 'U')] {
            let pair = KeyPair::new(kind, [7; 32]).unwrap();
            assert!(pair.public().as_str().starts_with(letter));
            assert_eq!(KeyPair::from_seed(&pair.seed().unwrap()).unwrap().public(), pair.public());
            assert!(PublicKey::of_kind(pair.public().as_str(), kind).is_ok());
            let signature = pair.sign(b"words");
            assert!(pair.public().verifies(b"words", &signature));
            assert!(!pair.public().verifies(b"other words", &signature));
            let other = KeyPair::new(kind, [8; 32]).unwrap();
            assert!(!other.public().verifies(b"words", &signature));
        }
        let user = KeyPair::new(KeyKind::User, [7; 32]).unwrap();
        assert!(PublicKey::of_kind(user.public().as_str(), KeyKind::Account).is_err());
    }

    #[test]
    #[rule("I-10")]
    fn i10_a_pair_shows_its_public_half_only() {
        let pair = KeyPair::new(KeyKind::User, [7; 32]).unwrap();
        assert!(!format!("{pair:?}").contains(&pair.seed().unwrap()));
    }

    proptest! {
        #[test]
        fn what_is_no_key_is_refused_and_never_panics(text in "\\PC{0,70}", letters in "[A-Z2-7]{54,60}") {
            for text in [text, letters] {
                prop_assert!(PublicKey::parse(&text).is_err());
                prop_assert!(KeyPair::from_seed(&text).is_err());
            }
        }

        #[test]
        fn a_changed_letter_is_noticed(at in 0usize..56, letter in "[A-Z2-7]") {
            let key = KeyPair::new(KeyKind::User, [7; 32]).unwrap().public().to_string();
            let mut changed = key.clone();
            changed.replace_range(at..=at, &letter);
            prop_assert!(changed == key || PublicKey::parse(&changed).is_err());
        }
    }
}
