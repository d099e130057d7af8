//! A credentials file: the JWT and the seed of a NATS user, as every NATS client reads them, and below that what makes its
//! holder a member of the fleet: the anchor, a roster to begin with, and for a peel its certificate.

use crate::jwt;
use crate::key::{KeyKind, KeyPair, PublicKey};
use crate::limits::JWT_BYTES_MAX;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use std::fmt;
use zester_wire::Signer;

/// A file that is longer holds more than credentials.
const FILE_BYTES_MAX: usize = 16 * 1024 * 1024;

// The names of the sections; the first two are those of NATS.
const JWT: &str = "NATS USER JWT";
const SEED: &str = "USER NKEY SEED";
const ANCHOR: &str = "ZESTER ANCHOR";
const ROSTER: &str = "ZESTER ROSTER";
const CERTIFICATE: &str = "ZESTER CERTIFICATE";
/// What every section begins with that NATS does not know.
const OURS: &str = "-----BEGIN ZESTER ";

/// Why a text is no credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadCredentials(String);

impl fmt::Display for BadCredentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not credentials of a fleet: {}", self.0)
    }
}

impl std::error::Error for BadCredentials {}

#[derive(Clone)]
pub struct Credentials {
    pub jwt: String,
    /// What the JWT calls its user.
    pub name: String,
    pub pair: KeyPair,
    pub anchor: PublicKey,
    /// Signed, as it travels.
    pub roster: Vec<u8>,
    /// Of a peel; empty for who stands in the roster.
    pub certificate: Vec<u8>,
}

impl Credentials {
    /// None: credentials of plain NATS, whose holder lets the server decide alone. A member's that lost their anchor are none.
    pub fn parse(text: &str) -> Result<Option<Credentials>, BadCredentials> {
        if text.len() > FILE_BYTES_MAX {
            return Err(BadCredentials("the file is too large".into()));
        }
        if !text.contains(OURS) {
            return Ok(None);
        }
        let wanted = |name: &str| {
            section(text, name).ok_or_else(|| BadCredentials(format!("the section {name} is missing")))
        };
        let anchor = wanted(ANCHOR)?;
        let jwt = wanted(JWT)?.to_string();
        if jwt.len() > JWT_BYTES_MAX {
            return Err(BadCredentials("the JWT is too long".into()));
        }
        let claims = jwt::verify(&jwt).map_err(|bad| BadCredentials(bad.to_string()))?.claims;
        let pair = KeyPair::from_seed(wanted(SEED)?).map_err(|bad| BadCredentials(bad.to_string()))?;
        if claims.subject != *pair.public() {
            return Err(BadCredentials("the JWT is of another key than the seed".into()));
        }
        let anchor = PublicKey::of_kind(anchor, KeyKind::Account)
            .map_err(|bad| BadCredentials(format!("the anchor is {bad}")))?;
        let decoded =
            |text: &str| BASE64.decode(text).map_err(|_| BadCredentials("a section is damaged".into()));
        let roster = decoded(wanted(ROSTER)?)?;
        let certificate = section(text, CERTIFICATE).map(decoded).transpose()?.unwrap_or_default();
        Ok(Some(Credentials { jwt, name: claims.name, pair, anchor, roster, certificate }))
    }

    /// The text of the file. The seed stands in it.
    pub fn to_text(&self) -> Result<String, crate::BadKey> {
        let without = text_without_seed(&self.jwt, &self.anchor, &self.roster, &self.certificate);
        Ok(with_seed(&without, &self.pair.seed()?))
    }
}

/// The same without what is secret: for a member that made its key itself and shows it to nobody.
pub fn text_without_seed(jwt: &str, anchor: &PublicKey, roster: &[u8], certificate: &[u8]) -> String {
    let mut text = block(JWT, jwt);
    text.push_str(&block(ANCHOR, anchor.as_str()));
    text.push_str(&block(ROSTER, &BASE64.encode(roster)));
    if !certificate.is_empty() {
        text.push_str(&block(CERTIFICATE, &BASE64.encode(certificate)));
    }
    text
}

/// Whether the text of credentials holds its seed.
pub fn has_seed(text: &str) -> bool {
    section(text, SEED).is_some()
}

/// Puts the seed where clients of NATS look for it: behind the JWT.
pub fn with_seed(text: &str, seed: &str) -> String {
    let end = format!("------END {JWT}------\n\n");
    let secret = format!(
        "{end}Whoever has the seed below is this member of the fleet. Keep it to yourself.\n\n{}",
        block(SEED, seed)
    );
    text.replacen(&end, &secret, 1)
}

impl Signer for Credentials {
    fn key(&self) -> &str {
        self.pair.public().as_str()
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        self.pair.sign(bytes)
    }

    fn certificate(&self) -> &[u8] {
        &self.certificate
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Credentials({}, {})", self.name, self.pair.public())
    }
}

fn block(name: &str, content: &str) -> String {
    format!("-----BEGIN {name}-----\n{content}\n------END {name}------\n\n")
}

fn section<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {name}-----"))?;
    let (content, _) = rest.split_once(&format!("------END {name}------"))?;
    Some(content.trim())
}
