//! The key pair of a peel, for secrets alone.

use crate::Chance;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use std::cmp::Ordering;
use std::fmt;
use zeroize::Zeroizing;

const PUBLIC: &str = "zester-public-1:";
const PRIVATE: &str = "zester-private-1:";
/// Bytes of the digest that name a key.
const FINGERPRINT_BYTES: usize = 8;
/// Letters of a key behind its beginning.
const LETTERS: usize = 43;

/// Anybody may know it: values are sealed to it.
#[derive(Clone, PartialEq, Eq)]
pub struct PublicKey(pub(crate) crypto_box::PublicKey);

impl PublicKey {
    pub fn parse(text: &str) -> Result<PublicKey, KeyError> {
        bytes_of(text, PUBLIC, "public").map(|bytes| PublicKey(crypto_box::PublicKey::from(*bytes)))
    }

    /// Sixteen digits that tell this key from others.
    pub fn fingerprint(&self) -> String {
        let digest = Sha256::digest(self.0.as_bytes());
        digest.iter().take(FINGERPRINT_BYTES).map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PUBLIC}{}", BASE64.encode(self.0.as_bytes()))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

/// What opens. Gone from memory when it is dropped; neither Display nor Debug, so that no message can hold it.
#[derive(Clone)]
pub struct PrivateKey(pub(crate) crypto_box::SecretKey);

impl PrivateKey {
    pub fn make(chance: Chance<'_>) -> PrivateKey {
        let mut bytes = Zeroizing::new([0; crypto_box::KEY_SIZE]);
        chance(&mut *bytes);
        PrivateKey(crypto_box::SecretKey::from(*bytes))
    }

    /// The text of a key file.
    pub fn parse(text: &str) -> Result<PrivateKey, KeyError> {
        bytes_of(text, PRIVATE, "private").map(|bytes| PrivateKey(crypto_box::SecretKey::from(*bytes)))
    }

    /// For the key file, and for nothing else.
    pub fn to_file_text(&self) -> Zeroizing<String> {
        let bytes = Zeroizing::new(self.0.to_bytes());
        Zeroizing::new(format!("{PRIVATE}{}\n", BASE64.encode(*bytes)))
    }

    pub fn public(&self) -> PublicKey {
        PublicKey(self.0.public_key())
    }
}

fn bytes_of(text: &str, prefix: &str, sort: &'static str) -> Result<Zeroizing<[u8; 32]>, KeyError> {
    let wrong = |what| KeyError { sort, what };
    let encoded = text.trim().strip_prefix(prefix).ok_or(wrong(Wrong::Beginning))?;
    match encoded.len().cmp(&LETTERS) {
        Ordering::Less => return Err(wrong(Wrong::Short)),
        Ordering::Greater => return Err(wrong(Wrong::Long)),
        Ordering::Equal => {}
    }
    let decoded = Zeroizing::new(BASE64.decode(encoded).map_err(|_| wrong(Wrong::Letters))?);
    let bytes: [u8; 32] = decoded.as_slice().try_into().map_err(|_| wrong(Wrong::Letters))?;
    Ok(Zeroizing::new(bytes))
}

/// A text that is no key. What it is instead is not told: it may be half of one.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct KeyError {
    sort: &'static str,
    what: Wrong,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Wrong {
    Beginning,
    Short,
    Long,
    Letters,
}

impl fmt::Display for KeyError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sort = self.sort;
        match self.what {
            Wrong::Beginning => write!(out, "not a {sort} key; one begins with `zester-{sort}-1:`"),
            Wrong::Short => write!(out, "the {sort} key is too short: {LETTERS} letters follow the colon"),
            Wrong::Long => write!(out, "the {sort} key is too long: {LETTERS} letters follow the colon"),
            Wrong::Letters => write!(out, "the {sort} key is damaged: a letter in it is wrong"),
        }
    }
}

impl std::error::Error for KeyError {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sealed::tests::chance;

    #[test]
    fn keys_come_back_from_their_texts() {
        let key = PrivateKey::make(&mut chance(1));
        let again = PrivateKey::parse(&key.to_file_text()).ok().unwrap();
        assert_eq!(again.public(), key.public());
        let public = PublicKey::parse(&key.public().to_string()).unwrap();
        assert_eq!(public, key.public());
        assert_eq!(public.fingerprint().len(), 16);
        for wrong in ["", "zester-public-1:", "zester-public-1:AAAA", "zester-private-1:AAAA", "x"] {
            assert!(PublicKey::parse(wrong).is_err(), "{wrong}");
        }
        let text = key.public().to_string();
        for (wrong, why) in [
            ("x".to_string(), "begins with"),
            (text[..text.len() - 1].to_string(), "too short"),
            (format!("{text}A"), "too long"),
            (text.replace(':', ":!").chars().take(text.len()).collect(), "damaged"),
        ] {
            let told = PublicKey::parse(&wrong).unwrap_err().to_string();
            assert!(told.contains(why) && !told.contains(&text[20..30]), "{told}");
        }
        // A private key is never taken for a public one: it would be printed.
        assert!(PublicKey::parse(&key.to_file_text()).is_err());
    }
}
