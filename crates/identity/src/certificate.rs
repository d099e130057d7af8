//! Signing and reading certificates: an issuer of the roster says that a key is of a peel.

use crate::key::{BadKey, KeyKind, KeyPair, PublicKey};
use zester_wire::envelope::joined;
use zester_wire::{Certificate, EncodeError, PeelId, UnixMillis, encode};

/// Sets the signature of a certificate apart from everything else that the same key signs: users, above all.
const DOMAIN: &[u8] = b"zester.certificate.1";

/// A certificate, as it travels.
pub fn issue(
    peel: &PeelId,
    key: &PublicKey,
    until: UnixMillis,
    issuer: &KeyPair,
) -> Result<Vec<u8>, EncodeError> {
    let named = Certificate {
        v: zester_wire::VERSION,
        peel: peel.clone(),
        key: key.to_string(),
        until,
        issuer: issuer.public().to_string(),
        sig: Vec::new(),
    };
    let sig = issuer.sign(&signed_bytes(&named));
    encode(&Certificate { sig, ..named })
}

/// Whether the issuer that it names signed it. Whether that one is an issuer, the roster says.
pub(crate) fn holds(certificate: &Certificate) -> Result<bool, BadKey> {
    let issuer = PublicKey::of_kind(&certificate.issuer, KeyKind::Account)?;
    Ok(issuer.verifies(&signed_bytes(certificate), &certificate.sig))
}

fn signed_bytes(certificate: &Certificate) -> Vec<u8> {
    let until = certificate.until.0.to_be_bytes();
    let Certificate { peel, key, issuer, .. } = certificate;
    joined(&[DOMAIN, peel.as_str().as_bytes(), key.as_bytes(), &until, issuer.as_bytes()])
}
