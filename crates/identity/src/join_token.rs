//! Join tokens: a secret word that lets one new machine in under a name that was agreed on, and the proof that the machine has
//! the key it shows (I-4). Only the digest of the word is kept, so that who reads the record cannot use it.

use crate::enrollment::Newcomer;
use crate::key::{KeyKind, KeyPair, PublicKey};
use crate::limits::{JOIN_TOKEN_LIFE_MAX, TOKEN_LABEL_BYTES_MAX, TOKEN_NAMES_BYTES_MAX};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use std::net::IpAddr;
use zester_wire::envelope::joined;
use zester_wire::{JoinToken, NewToken, PeelId, Token, TokenName, TokenUse, UnixMillis};

/// Sets a proof apart from everything else that the key of a peel signs.
const DOMAIN: &[u8] = b"zester.enroll.1";
/// Bytes of a digest that an id shows, in hex.
const ID_BYTES: usize = 8;
/// The same for the word of a key for the one that takes its place.
const REPLACES: &[u8] = b"zester.rekey.1";
/// What sets a word apart from anything else that people paste.
const WORD_PREFIX: &str = "zj-";

/// Why a token cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadToken {
    /// It would be good for longer than [`JOIN_TOKEN_LIFE_MAX`], or for no time at all.
    Life,
    /// It is for no name, or for one that is too long.
    Names,
    Label,
    Address,
    Digest,
}

impl fmt::Display for BadToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadToken::Life => {
                let days = JOIN_TOKEN_LIFE_MAX.as_secs() / 86_400;
                write!(out, "a join token counts for some time, and for {days} days at most")
            }
            BadToken::Names => {
                write!(out, "name the peel or a glob of at most {TOKEN_NAMES_BYTES_MAX} bytes")
            }
            BadToken::Label => write!(
                out,
                "a label has at most {TOKEN_LABEL_BYTES_MAX} bytes, none of them control characters"
            ),
            BadToken::Address => out.write_str("the address is none: write one like 192.0.2.7"),
            BadToken::Digest => out.write_str("the digest of a join token has 32 bytes"),
        }
    }
}

impl std::error::Error for BadToken {}

/// Why a token lets somebody not in.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    Unknown,
    Expired,
    Used,
    Name,
    Address,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Refused::Unknown => "there is no such join token",
            Refused::Expired => "the join token has ended",
            Refused::Used => "the join token was used already, by another machine or under another name",
            Refused::Name => "the join token is for another name",
            Refused::Address => "the join token is for another address",
        })
    }
}

impl std::error::Error for Refused {}

/// What a good token says for who brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Voucher {
    pub token: TokenName,
    /// It is an operator's word already; else it only vouches.
    pub approves: bool,
    /// It names this very peel, and not by a glob: it may take a name over from another key.
    pub exact: bool,
}

/// A word from bytes that nobody can guess.
pub fn word(random: &[u8; 32]) -> String {
    format!("{WORD_PREFIX}{}", data_encoding::BASE32_NOPAD.encode(&random[..20]).to_lowercase())
}

pub fn digest(word: &str) -> [u8; 32] {
    Sha256::digest(word).into()
}

/// Under what the token of a word is kept: the beginning of its digest, from which nobody finds the word.
pub fn id_of(digest: &[u8]) -> Option<Token> {
    let mut text = String::with_capacity(2 * ID_BYTES);
    for byte in digest.iter().take(ID_BYTES) {
        let _infallible = write!(text, "{byte:02x}");
    }
    Token::parse(&text).ok()
}

/// What is kept of a new one.
pub fn make(order: &NewToken, by: &str, now: UnixMillis) -> Result<JoinToken, BadToken> {
    if order.life > JOIN_TOKEN_LIFE_MAX || order.life.is_zero() {
        return Err(BadToken::Life);
    }
    if order.names.is_empty() || order.names.len() > TOKEN_NAMES_BYTES_MAX {
        return Err(BadToken::Names);
    }
    if order.label.len() > TOKEN_LABEL_BYTES_MAX || order.label.chars().any(char::is_control) {
        return Err(BadToken::Label);
    }
    if order.address.as_ref().is_some_and(|text| text.parse::<IpAddr>().is_err()) {
        return Err(BadToken::Address);
    }
    if order.digest.len() != 32 {
        return Err(BadToken::Digest);
    }
    Ok(JoinToken {
        v: zester_wire::VERSION,
        digest: order.digest.clone(),
        names: order.names.clone(),
        address: order.address.clone(),
        until: now.plus(order.life),
        label: order.label.clone(),
        hold: order.hold,
        by: by.to_string(),
        made: now,
        used: None,
    })
}

/// The token as it is once this one came in with it. The same key may ask again under the same name: its answer may have been
/// lost. What a glob means is the caller's to say: `matches(glob, name)`.
pub fn used(
    token: &JoinToken,
    word: &str,
    by: &Newcomer<'_>,
    now: UnixMillis,
    matches: impl Fn(&str, &PeelId) -> bool,
) -> Result<(JoinToken, Voucher), Refused> {
    // Digests are compared, so the time it takes tells nothing about the word.
    if token.digest != digest(word) {
        return Err(Refused::Unknown);
    }
    let is_same = |used: &TokenUse| used.key == by.key.as_str() && used.peel == *by.peel;
    if token.used.as_ref().is_some_and(|used| !is_same(used)) {
        return Err(Refused::Used);
    }
    // Who came in time and lost the answer is not late.
    if now > token.until && token.used.is_none() {
        return Err(Refused::Expired);
    }
    if !matches(&token.names, by.peel) {
        return Err(Refused::Name);
    }
    // One that cannot be read is none that anybody has.
    let wanted = token.address.as_ref().map(|text| text.parse::<IpAddr>());
    if wanted.is_some_and(|wanted| wanted != Ok(by.address)) {
        return Err(Refused::Address);
    }
    let name = TokenName { id: id_of(&token.digest).ok_or(Refused::Unknown)?, label: token.label.clone() };
    let voucher = Voucher { token: name, approves: !token.hold, exact: token.names == by.peel.as_str() };
    let first = TokenUse { key: by.key.to_string(), peel: by.peel.clone(), at: now };
    Ok((JoinToken { used: Some(token.used.clone().unwrap_or(first)), ..token.clone() }, voucher))
}

/// What a machine signs to show that it has the key: the nonce of the master, for this name alone.
pub fn prove(pair: &KeyPair, peel: &PeelId, nonce: &[u8]) -> Vec<u8> {
    pair.sign(&joined(&[DOMAIN, peel.as_str().as_bytes(), nonce]))
}

/// Whether it has.
pub fn is_proven(key: &PublicKey, peel: &PeelId, nonce: &[u8], proof: &[u8]) -> bool {
    let signed = joined(&[DOMAIN, peel.as_str().as_bytes(), nonce]);
    key.kind() == KeyKind::User && key.verifies(&signed, proof)
}

/// What a machine signs with the key that it gives up: the nonce of the master, for this name and the key that takes its place.
pub fn hand_over(before: &KeyPair, peel: &PeelId, nonce: &[u8], to: &PublicKey) -> Vec<u8> {
    before.sign(&joined(&[REPLACES, peel.as_str().as_bytes(), nonce, to.as_str().as_bytes()]))
}

/// Whether it did.
pub fn is_handed_over(before: &PublicKey, peel: &PeelId, nonce: &[u8], to: &PublicKey, proof: &[u8]) -> bool {
    let signed = joined(&[REPLACES, peel.as_str().as_bytes(), nonce, to.as_str().as_bytes()]);
    before.kind() == KeyKind::User && before.verifies(&signed, proof)
}
