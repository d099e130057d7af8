//! Join tokens: a secret word that lets one new machine in under a name that was agreed on, and the proof that the machine has
//! the key it shows (I-4). Only the digest of the word is kept, so that who reads the record cannot use it.

use crate::key::{KeyKind, KeyPair, PublicKey};
use crate::limits::JOIN_TOKEN_LIFE_MAX;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;
use std::net::IpAddr;
use std::time::Duration;
use zester_wire::envelope::joined;
use zester_wire::{PeelId, UnixMillis};

/// Sets a proof apart from everything else that the key of a peel signs.
const DOMAIN: &[u8] = b"zester.enroll.1";

/// What a master keeps of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JoinToken {
    digest: [u8; 32],
    /// A name, or a glob over names.
    names: String,
    address: Option<IpAddr>,
    until: UnixMillis,
    /// The key that came in with it.
    used_by: Option<String>,
}

/// Why a token cannot be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadToken {
    /// It would be good for longer than [`JOIN_TOKEN_LIFE_MAX`].
    Life,
}

impl fmt::Display for BadToken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadToken::Life => {
                let days = JOIN_TOKEN_LIFE_MAX.as_secs() / 86_400;
                write!(out, "a join token counts for {days} days at most")
            }
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
            Refused::Used => "the join token was used already, by another key",
            Refused::Name => "the join token is for another name",
            Refused::Address => "the join token is for another address",
        })
    }
}

impl std::error::Error for Refused {}

/// Who comes with a token.
#[derive(Copy, Clone, Debug)]
pub struct Newcomer<'a> {
    pub peel: &'a PeelId,
    pub key: &'a PublicKey,
    pub address: IpAddr,
}

impl JoinToken {
    /// The word is as random as the caller makes it.
    pub fn new(
        word: &str,
        names: &str,
        address: Option<IpAddr>,
        now: UnixMillis,
        life: Duration,
    ) -> Result<JoinToken, BadToken> {
        if life > JOIN_TOKEN_LIFE_MAX {
            return Err(BadToken::Life);
        }
        let digest = Sha256::digest(word).into();
        Ok(JoinToken { digest, names: names.to_string(), address, until: now.plus(life), used_by: None })
    }

    /// The token as it is once this one came in with it. The same key may ask again: its answer may have been lost.
    /// What a glob means is the caller's to say: `matches(glob, name)`.
    pub fn used(
        &self,
        word: &str,
        by: Newcomer<'_>,
        now: UnixMillis,
        matches: impl Fn(&str, &PeelId) -> bool,
    ) -> Result<JoinToken, Refused> {
        // Digests are compared, so the time it takes tells nothing about the word.
        if self.digest != <[u8; 32]>::from(Sha256::digest(word)) {
            return Err(Refused::Unknown);
        }
        if self.used_by.as_deref().is_some_and(|key| key != by.key.as_str()) {
            return Err(Refused::Used);
        }
        if now > self.until {
            return Err(Refused::Expired);
        }
        if !matches(&self.names, by.peel) {
            return Err(Refused::Name);
        }
        if self.address.is_some_and(|address| address != by.address) {
            return Err(Refused::Address);
        }
        Ok(JoinToken { used_by: Some(by.key.to_string()), ..self.clone() })
    }
}

/// What a machine signs to show that it has the key: the nonce of the master, for this name alone.
pub fn prove(pair: &KeyPair, peel: &PeelId, nonce: &[u8; 32]) -> Vec<u8> {
    pair.sign(&joined(&[DOMAIN, peel.as_str().as_bytes(), nonce]))
}

/// Whether it has.
pub fn is_proven(key: &PublicKey, peel: &PeelId, nonce: &[u8; 32], proof: &[u8]) -> bool {
    let signed = joined(&[DOMAIN, peel.as_str().as_bytes(), nonce]);
    key.kind() == KeyKind::User && key.verifies(&signed, proof)
}
