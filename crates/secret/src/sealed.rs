//! A sealed value: a text of lines that names who can open it.
//!
//! ```text
//! zester-secret 1
//! setting db:password              only where it is bound to one name
//! to web-1 0123456789abcdef BOX    the content key, in a sealed box (X25519) for this key
//! data CIPHERTEXT                  nonce and the value under the content key, and a digest of the lines above
//! ```
//!
//! The lines without their boxes are part of what the content key authenticates: nobody can change who is said to read it,
//! or move it to another setting, without making it unreadable. The length is rounded up.

use crate::Chance;
use crate::key::{PrivateKey, PublicKey};
use crate::registry::SecretText;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use crypto_box::aead::rand_core::{CryptoRng, Error as RandomError, RngCore};
use crypto_secretbox::aead::{Aead, KeyInit};
use crypto_secretbox::{Nonce, XSalsa20Poly1305};
use sha2::{Digest, Sha256};
use std::fmt;
use zeroize::Zeroizing;

const FIRST_LINE: &str = "zester-secret 1";
/// Values are texts that people type or programs generate, not files.
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Peels that one value is sealed for.
const RECIPIENTS_MAX: usize = 4096;
/// The value is padded to a multiple of this.
const PADDED_TO: usize = 64;
const DIGEST_BYTES: usize = 32;
const NONCE_BYTES: usize = 24;
const LENGTH_BYTES: usize = 4;
/// Letters of a line of ciphertext.
const LINE_LETTERS: usize = 100;

/// Who can open a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipient {
    pub name: String,
    /// Of the key that it was sealed to.
    pub fingerprint: String,
    boxed: Vec<u8>,
}

/// A value that only its recipients can open. Holds nothing that may not be read by all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// The one setting it may be the value of.
    pub setting: Option<String>,
    pub recipients: Vec<Recipient>,
    ciphertext: Vec<u8>,
}

/// Why a value could not be sealed, read or opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SealError {
    NoRecipient,
    TooManyRecipients,
    TooLong,
    /// A name with a blank or a line end.
    BadName(String),
    /// Not the text of a sealed value.
    Malformed(&'static str),
    /// It is for others.
    NotForUs,
    /// Somebody changed it, or it was cut.
    Tampered,
    /// It was sealed as the value of another setting.
    OtherSetting(String),
}

impl fmt::Display for SealError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SealError::NoRecipient => out.write_str("nobody could open it; name a peel or a key"),
            SealError::TooManyRecipients => write!(out, "it has more than {RECIPIENTS_MAX} recipients"),
            SealError::TooLong => write!(out, "a secret has {VALUE_BYTES_MAX} bytes at most"),
            SealError::BadName(name) => write!(out, "`{name}` holds a blank, which no name here may"),
            SealError::Malformed(what) => write!(out, "it is no sealed value: {what}"),
            SealError::NotForUs => out.write_str("it is not sealed for this key"),
            SealError::Tampered => out.write_str("it was changed since it was sealed, or is not whole"),
            SealError::OtherSetting(name) => {
                write!(out, "it was sealed as the value of `{name}` and may not stand elsewhere")
            }
        }
    }
}

impl std::error::Error for SealError {}

impl Sealed {
    /// Seals a value for some keys, each under the name of its holder.
    pub fn seal(
        value: &str,
        recipients: &[(String, PublicKey)],
        setting: Option<&str>,
        chance: Chance<'_>,
    ) -> Result<Sealed, SealError> {
        if recipients.is_empty() {
            return Err(SealError::NoRecipient);
        }
        if recipients.len() > RECIPIENTS_MAX {
            return Err(SealError::TooManyRecipients);
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(SealError::TooLong);
        }
        let names = recipients.iter().map(|(name, _)| name.as_str()).chain(setting);
        if let Some(name) =
            names.into_iter().find(|name| name.is_empty() || name.contains(char::is_whitespace))
        {
            return Err(SealError::BadName(name.to_string()));
        }
        let mut content_key = Zeroizing::new([0; 32]);
        chance(&mut *content_key);
        let mut sealed =
            Sealed { setting: setting.map(str::to_string), recipients: Vec::new(), ciphertext: Vec::new() };
        for (name, key) in recipients {
            let boxed = key.0.seal(&mut Random(chance), &*content_key).map_err(|_| SealError::Tampered)?;
            let (name, fingerprint) = (name.clone(), key.fingerprint());
            sealed.recipients.push(Recipient { name, fingerprint, boxed });
        }
        let mut nonce = [0; NONCE_BYTES];
        chance(&mut nonce);
        let plain = padded(&sealed.header_digest(), value);
        let cipher = XSalsa20Poly1305::new((&*content_key).into());
        let encrypted = cipher.encrypt(Nonce::from_slice(&nonce), plain.as_slice());
        sealed.ciphertext = nonce.to_vec();
        sealed.ciphertext.extend(encrypted.map_err(|_| SealError::Tampered)?);
        Ok(sealed)
    }

    /// Opens it with the key of one of its recipients.
    pub fn open(&self, key: &PrivateKey) -> Result<SecretText, SealError> {
        let fingerprint = key.public().fingerprint();
        let ours = self.recipients.iter().filter(|recipient| recipient.fingerprint == fingerprint);
        let mut found = Err(SealError::NotForUs);
        for recipient in ours {
            let content_key = key.0.unseal(&recipient.boxed).map(Zeroizing::new);
            let content_key: Option<Zeroizing<[u8; 32]>> =
                content_key.ok().and_then(|bytes| bytes.as_slice().try_into().ok()).map(Zeroizing::new);
            found =
                content_key.ok_or(SealError::Tampered).and_then(|content_key| self.open_with(&content_key));
            if found.is_ok() {
                break;
            }
        }
        found
    }

    fn open_with(&self, content_key: &[u8; 32]) -> Result<SecretText, SealError> {
        let (nonce, encrypted) = self.ciphertext.split_at_checked(NONCE_BYTES).ok_or(SealError::Tampered)?;
        let cipher = XSalsa20Poly1305::new(content_key.into());
        let plain = cipher.decrypt(Nonce::from_slice(nonce), encrypted).map_err(|_| SealError::Tampered)?;
        unpadded(&self.header_digest(), &Zeroizing::new(plain)).ok_or(SealError::Tampered)
    }

    /// Whether somebody of this name, with this key, can open it.
    pub fn is_for(&self, name: &str, key: &PublicKey) -> bool {
        let fingerprint = key.fingerprint();
        self.recipients.iter().any(|one| one.name == name && one.fingerprint == fingerprint)
    }

    /// Who can open it, in words.
    pub fn readers(&self) -> String {
        let names: Vec<&str> = self.recipients.iter().map(|recipient| recipient.name.as_str()).collect();
        names.join(", ")
    }

    /// What the content key vouches for beside the value.
    fn header_digest(&self) -> [u8; DIGEST_BYTES] {
        let mut digest = Sha256::new();
        digest.update(format!("{FIRST_LINE}\n"));
        if let Some(setting) = &self.setting {
            digest.update(format!("setting {setting}\n"));
        }
        for Recipient { name, fingerprint, .. } in &self.recipients {
            digest.update(format!("to {name} {fingerprint}\n"));
        }
        digest.finalize().into()
    }

    /// The text that stands in a settings file. Lines that begin with `#` are passed over.
    pub fn parse(text: &str) -> Result<Sealed, SealError> {
        let malformed = |what| Err(SealError::Malformed(what));
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        match lines.next() {
            Some(FIRST_LINE) => {}
            Some(line) if line.starts_with("zester-secret ") => {
                return malformed("it is of a newer version");
            }
            _ => return malformed("it does not begin with `zester-secret 1`"),
        }
        let mut sealed = Sealed { setting: None, recipients: Vec::new(), ciphertext: Vec::new() };
        let mut encoded = String::new();
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words.as_slice() {
                ["setting", name] if sealed.recipients.is_empty() && sealed.setting.is_none() => {
                    sealed.setting = Some((*name).to_string());
                }
                ["to", name, fingerprint, boxed] if encoded.is_empty() => {
                    let Ok(boxed) = BASE64.decode(boxed) else { return malformed("a box is damaged") };
                    let (name, fingerprint) = ((*name).to_string(), (*fingerprint).to_string());
                    sealed.recipients.push(Recipient { name, fingerprint, boxed });
                }
                ["data", part] => encoded.push_str(part),
                _ => return malformed("it has a line that is neither `setting`, `to` nor `data`"),
            }
            if sealed.recipients.len() > RECIPIENTS_MAX {
                return Err(SealError::TooManyRecipients);
            }
        }
        sealed.ciphertext = match BASE64.decode(&encoded) {
            Ok(bytes) if bytes.len() > NONCE_BYTES => bytes,
            Ok(_) => return malformed("it has no `data`"),
            Err(_) => return malformed("its `data` is damaged"),
        };
        if sealed.recipients.is_empty() {
            return malformed("it has no `to`");
        }
        Ok(sealed)
    }
}

impl fmt::Display for Sealed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "{FIRST_LINE}")?;
        if let Some(setting) = &self.setting {
            writeln!(out, "setting {setting}")?;
        }
        for Recipient { name, fingerprint, boxed } in &self.recipients {
            writeln!(out, "to {name} {fingerprint} {}", BASE64.encode(boxed))?;
        }
        let encoded = BASE64.encode(&self.ciphertext);
        for line in encoded.as_bytes().chunks(LINE_LETTERS) {
            writeln!(out, "data {}", String::from_utf8_lossy(line))?;
        }
        Ok(())
    }
}

fn padded(digest: &[u8; DIGEST_BYTES], value: &str) -> Zeroizing<Vec<u8>> {
    let length = LENGTH_BYTES + value.len();
    // All of its room at once: a vector that grows leaves copies behind.
    let whole = DIGEST_BYTES + length.next_multiple_of(PADDED_TO);
    let mut plain = Zeroizing::new(Vec::with_capacity(whole));
    plain.extend_from_slice(digest);
    plain.extend_from_slice(&(value.len() as u32).to_be_bytes());
    plain.extend_from_slice(value.as_bytes());
    plain.resize(whole, 0);
    plain
}

fn unpadded(digest: &[u8; DIGEST_BYTES], plain: &[u8]) -> Option<SecretText> {
    let rest = plain.strip_prefix(digest)?;
    let (length, rest) = rest.split_at_checked(LENGTH_BYTES)?;
    let length = u32::from_be_bytes(length.try_into().ok()?) as usize;
    let value = rest.get(..length)?;
    Some(std::str::from_utf8(value).ok()?.to_string().into())
}

/// Chance in the words of the cipher.
struct Random<'a, 'b>(&'a mut (dyn FnMut(&mut [u8]) + 'b));

impl RngCore for Random<'_, '_> {
    fn next_u32(&mut self) -> u32 {
        let mut bytes = [0; 4];
        (self.0)(&mut bytes);
        u32::from_le_bytes(bytes)
    }

    fn next_u64(&mut self) -> u64 {
        let mut bytes = [0; 8];
        (self.0)(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        (self.0)(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), RandomError> {
        (self.0)(bytes);
        Ok(())
    }
}

impl CryptoRng for Random<'_, '_> {}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use zester_rule::rule;

    /// Chance from a seed: the same bytes each time.
    pub(crate) fn chance(seed: u8) -> impl FnMut(&mut [u8]) {
        let mut count = 0u64;
        move |bytes: &mut [u8]| {
            for chunk in bytes.chunks_mut(32) {
                count += 1;
                let block = Sha256::digest([&[seed][..], &count.to_be_bytes()].concat());
                chunk.copy_from_slice(&block[..chunk.len()]);
            }
        }
    }

    fn key(seed: u8) -> PrivateKey {
        PrivateKey::make(&mut chance(seed))
    }

    fn opened(sealed: &Sealed, seed: u8) -> Result<String, SealError> {
        sealed.open(&key(seed)).map(|value| value.text().to_string())
    }

    fn sealed(value: &str, setting: Option<&str>) -> Sealed {
        let to = [("web-1".to_string(), key(1).public()), ("web-2".to_string(), key(2).public())];
        Sealed::seal(value, &to, setting, &mut chance(9)).unwrap()
    }

    #[test]
    #[rule("D-15")]
    fn d15_each_recipient_opens_it_and_nobody_else_does() {
        let long = "ü".repeat(20_000);
        for value in ["", "hunter2", "two\nlines\n", long.as_str()] {
            let text = sealed(value, None).to_string();
            let read = Sealed::parse(&text).unwrap();
            assert_eq!(opened(&read, 1).unwrap(), value);
            assert_eq!(opened(&read, 2).unwrap(), value);
            assert_eq!(opened(&read, 3), Err(SealError::NotForUs));
            assert_eq!(read.readers(), "web-1, web-2");
            assert!(value.is_empty() || !text.contains(value));
        }
    }

    #[test]
    #[rule("D-15")]
    fn d15_whatever_is_changed_makes_it_unreadable() {
        let whole = sealed("hunter2", Some("db:password")).to_string();
        let changes: [(&str, &str); 3] = [
            ("setting db:password\n", "setting db:other\n"),
            ("setting db:password\n", ""),
            ("to web-2", "to web-9"),
        ];
        for (old, new) in changes {
            let changed = whole.replace(old, new);
            assert_ne!(changed, whole);
            assert_eq!(opened(&Sealed::parse(&changed).unwrap(), 1), Err(SealError::Tampered), "{new}");
        }
        // Without the line of the other recipient; with a bit of the ciphertext or of its own box turned.
        let alone: String =
            whole.lines().filter(|line| !line.starts_with("to web-2")).map(|l| format!("{l}\n")).collect();
        assert_eq!(opened(&Sealed::parse(&alone).unwrap(), 1), Err(SealError::Tampered));
        let read = Sealed::parse(&whole).unwrap();
        for at in 0..read.ciphertext.len() {
            let mut turned = read.clone();
            turned.ciphertext[at] ^= 1;
            assert_eq!(opened(&turned, 1), Err(SealError::Tampered), "byte {at}");
        }
        let mut turned = read.clone();
        turned.recipients[0].boxed[40] ^= 1;
        assert_eq!(opened(&turned, 1), Err(SealError::Tampered));
        assert!(turned.open(&key(2)).is_ok());
    }

    #[test]
    fn what_is_no_sealed_value_is_refused_in_words() {
        for (text, wanted) in [
            ("", "begin"),
            ("hunter2", "begin"),
            ("zester-secret 2\nto a b c", "newer"),
            ("zester-secret 1\nhello", "neither"),
            ("zester-secret 1\nto a b !!!", "box"),
            ("zester-secret 1\ndata AAAA", "no `data`"),
        ] {
            let error = Sealed::parse(text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        let to = [("a b".to_string(), key(1).public())];
        assert!(matches!(Sealed::seal("x", &to, None, &mut chance(1)), Err(SealError::BadName(_))));
        assert_eq!(Sealed::seal("x", &[], None, &mut chance(1)), Err(SealError::NoRecipient));
        let long = "x".repeat(VALUE_BYTES_MAX + 1);
        let to = [("a".to_string(), key(1).public())];
        assert_eq!(Sealed::seal(&long, &to, None, &mut chance(1)), Err(SealError::TooLong));
    }

    #[test]
    fn the_length_of_a_short_value_does_not_show() {
        let length = |value: &str| sealed(value, None).to_string().len();
        assert_eq!(length("a"), length("a password of forty letters, more or less"));
    }

    #[test]
    #[rule("D-15")]
    fn d15_the_form_on_disk_does_not_change() {
        let golden = include_str!("../golden/sealed.txt");
        assert_eq!(sealed("hunter2", Some("db:password")).to_string(), golden);
        assert_eq!(opened(&Sealed::parse(golden).unwrap(), 2).unwrap(), "hunter2");
    }
}
