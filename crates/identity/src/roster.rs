//! Signing and reading the roster: the anchor says whose keys count (I-8).

use crate::key::{KeyKind, KeyPair, PublicKey};
use crate::limits::{MEMBERS_MAX, ROSTER_BYTES_MAX};
use std::fmt;
use zester_wire::envelope::joined;
use zester_wire::{EncodeError, Roster, SignedRoster, decode, encode};

/// Sets the signature of a roster apart from everything else that the account key signs.
const DOMAIN: &[u8] = b"zester.roster.1";

/// Why a roster is not taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRoster {
    Unreadable(String),
    /// Another key than the anchor signed it.
    NotOfAnchor,
    /// An older one than what is known already.
    Older {
        serial: u64,
        known: u64,
    },
    TooLarge,
}

impl fmt::Display for BadRoster {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadRoster::Unreadable(why) => write!(out, "the roster cannot be read: {why}"),
            BadRoster::NotOfAnchor => {
                out.write_str("the roster is not signed by the anchor of these credentials")
            }
            BadRoster::Older { serial, known } => {
                write!(out, "the roster has the serial {serial}, and {known} is known already")
            }
            BadRoster::TooLarge => out.write_str("the roster is too large"),
        }
    }
}

impl std::error::Error for BadRoster {}

/// The roster as it travels.
pub fn sign(roster: &Roster, anchor: &KeyPair) -> Result<Vec<u8>, EncodeError> {
    let roster = encode(roster)?;
    let sig = anchor.sign(&joined(&[DOMAIN, &roster]));
    encode(&SignedRoster { v: zester_wire::VERSION, roster, sig })
}

/// Reads a roster that the anchor signed.
pub fn read(bytes: &[u8], anchor: &PublicKey) -> Result<Roster, BadRoster> {
    if bytes.len() > ROSTER_BYTES_MAX {
        return Err(BadRoster::TooLarge);
    }
    let unreadable = |error: zester_wire::DecodeError| BadRoster::Unreadable(error.to_string());
    let signed: SignedRoster = decode(bytes).map_err(unreadable)?;
    if anchor.kind() != KeyKind::Account || !anchor.verifies(&joined(&[DOMAIN, &signed.roster]), &signed.sig)
    {
        return Err(BadRoster::NotOfAnchor);
    }
    let roster: Roster = decode(&signed.roster).map_err(unreadable)?;
    if roster.members.len() > MEMBERS_MAX {
        return Err(BadRoster::TooLarge);
    }
    Ok(roster)
}
