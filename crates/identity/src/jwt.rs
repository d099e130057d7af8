//! The JWTs of NATS: claims in JSON, signed by the nkey that issued them.
//!
//! An operator signs accounts, an account (or one of its signing keys) signs users. Only what this product writes is built
//! here; what a server answers with is read as claims and checked against the key that must have signed it.

use crate::key::{KeyPair, PublicKey};
use crate::limits::JWT_BYTES_MAX;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value as Json, json};
use sha2::{Digest, Sha512_256};
use std::fmt;

const HEADER: &str = r#"{"typ":"JWT","alg":"ed25519-nkey"}"#;
/// The version of the claims that servers since 2.0 read.
pub const VERSION: u32 = 2;

/// Why a text is no JWT of who should have signed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadJwt(&'static str);

impl fmt::Display for BadJwt {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not a JWT: {}", self.0)
    }
}

impl std::error::Error for BadJwt {}

/// What a JWT says. Times are seconds since 1970, as JWTs have them.
#[derive(Clone, Debug, PartialEq)]
pub struct Claims {
    /// Whose it is.
    pub subject: PublicKey,
    pub name: String,
    pub issued: u64,
    pub expires: Option<u64>,
    /// The part that is NATS' own: type, limits, permissions.
    pub nats: Map<String, Json>,
}

impl Claims {
    pub fn issued_by(&self, issuer: &KeyPair) -> String {
        let mut claims = Map::new();
        claims.insert("jti".into(), "".into());
        claims.insert("iat".into(), self.issued.into());
        claims.insert("iss".into(), issuer.public().as_str().into());
        claims.insert("name".into(), self.name.clone().into());
        claims.insert("sub".into(), self.subject.as_str().into());
        if let Some(expires) = self.expires {
            claims.insert("exp".into(), expires.into());
        }
        claims.insert("nats".into(), Json::Object(self.nats.clone()));
        let unnamed = Json::Object(claims.clone()).to_string();
        let id = data_encoding::BASE32_NOPAD.encode(&Sha512_256::digest(unnamed.as_bytes()));
        claims.insert("jti".into(), id.into());
        let body = BASE64.encode(Json::Object(claims).to_string());
        let signed = format!("{}.{body}", BASE64.encode(HEADER));
        let signature = BASE64.encode(issuer.sign(signed.as_bytes()));
        format!("{signed}.{signature}")
    }
}

/// A JWT whose signature holds, and who made it.
#[derive(Clone, Debug, PartialEq)]
pub struct Verified {
    pub claims: Claims,
    pub issuer: PublicKey,
}

/// Reads a JWT and checks that the issuer it names signed it. Whether that one may is for the caller to say.
pub fn verify(text: &str) -> Result<Verified, BadJwt> {
    if text.len() > JWT_BYTES_MAX {
        return Err(BadJwt("it is too long"));
    }
    let (signed, signature) = text.rsplit_once('.').ok_or(BadJwt("it has no three parts"))?;
    let (header, body) = signed.split_once('.').ok_or(BadJwt("it has no three parts"))?;
    let header = object(header)?;
    if header.get("alg").and_then(Json::as_str) != Some("ed25519-nkey") {
        return Err(BadJwt("it is signed in another way than NATS signs"));
    }
    let body = object(body)?;
    let text_of = |key: &str| body.get(key).and_then(Json::as_str).unwrap_or_default();
    let issuer = PublicKey::parse(text_of("iss")).map_err(|_| BadJwt("its issuer is no key"))?;
    let signature = BASE64.decode(signature).map_err(|_| BadJwt("its signature is not base64"))?;
    if !issuer.verifies(signed.as_bytes(), &signature) {
        return Err(BadJwt("its signature does not hold"));
    }
    let subject = PublicKey::parse(text_of("sub")).map_err(|_| BadJwt("its subject is no key"))?;
    let nats = body.get("nats").and_then(Json::as_object).ok_or(BadJwt("it says nothing of NATS"))?;
    let claims = Claims {
        subject,
        name: text_of("name").to_string(),
        issued: body.get("iat").and_then(Json::as_u64).unwrap_or_default(),
        expires: body.get("exp").and_then(Json::as_u64).filter(|at| *at > 0),
        nats: nats.clone(),
    };
    Ok(Verified { claims, issuer })
}

fn object(part: &str) -> Result<Map<String, Json>, BadJwt> {
    let bytes = BASE64.decode(part).map_err(|_| BadJwt("a part is not base64"))?;
    match serde_json::from_slice(&bytes) {
        Ok(Json::Object(map)) => Ok(map),
        _ => Err(BadJwt("a part is not a JSON object")),
    }
}

/// The part of NATS in the claims, which every kind begins with.
pub(crate) fn nats_claims(kind: &str, more: Json) -> Map<String, Json> {
    let mut claims = match json!({ "type": kind, "version": VERSION }) {
        Json::Object(claims) => claims,
        _ => Map::new(),
    };
    if let Json::Object(more) = more {
        claims.extend(more);
    }
    claims
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::key::KeyKind;
    use proptest::prelude::*;
    use zester_rule::rule;

    fn claims() -> (Claims, KeyPair) {
        let account = KeyPair::new(KeyKind::Account, [1; 32]).unwrap();
        let user = KeyPair::new(KeyKind::User, [2; 32]).unwrap();
        let nats = nats_claims("user", json!({ "issuer_account": account.public().as_str() }));
        let (subject, name) = (user.public().clone(), "web-01".into());
        (Claims { subject, name, issued: 1_700_000_000, expires: Some(1_800_000_000), nats }, account)
    }

    #[test]
    #[rule("I-1")]
    fn i1_a_jwt_says_who_issued_it_for_whom() {
        let (claims, account) = claims();
        let verified = verify(&claims.issued_by(&account)).unwrap();
        assert_eq!(verified, Verified { claims, issuer: account.public().clone() });
    }

    #[test]
    #[rule("I-1")]
    fn i1_a_jwt_that_was_changed_or_signed_by_another_does_not_hold() {
        let (claims, account) = claims();
        let text = claims.issued_by(&account);
        let parts: Vec<&str> = text.split('.').collect();
        let body = String::from_utf8(BASE64.decode(parts[1]).unwrap()).unwrap();
        let changed = BASE64.encode(body.replace("web-01", "web-02"));
        assert!(verify(&format!("{}.{changed}.{}", parts[0], parts[2])).is_err());
        let none = BASE64.encode(r#"{"typ":"JWT","alg":"none"}"#);
        assert!(verify(&format!("{none}.{}.", parts[1])).is_err());
        let other = KeyPair::new(KeyKind::Account, [3; 32]).unwrap();
        let stolen = claims.issued_by(&other);
        let signature = stolen.rsplit('.').next().unwrap();
        assert!(verify(&format!("{}.{}.{signature}", parts[0], parts[1])).is_err());
    }

    proptest! {
        #[test]
        fn hostile_text_never_panics(text in "\\PC{0,200}", parts in "[A-Za-z0-9_-]{0,40}(\\.[A-Za-z0-9_-]{0,40}){0,4}") {
            prop_assert!(verify(&text).is_err());
            prop_assert!(verify(&parts).is_err());
        }
    }
}
