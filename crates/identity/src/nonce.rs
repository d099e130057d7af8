//! Nonces of the door: each is signed by one newcomer, once, within a minute (I-4).
//!
//! A nonce proves itself: it carries when it ends and a digest that only this master can make. So nothing is kept of those that
//! are asked for and never used, however many; only of one that somebody signed, until it ends.

use crate::limits::{NONCE_LIFE, NONCES_USED_MAX};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use zester_wire::UnixMillis;

/// When it ends, what makes it unlike any other, and the digest of both.
const ENDS: usize = 8;
const RANDOM: usize = 16;
const PROOF: usize = 16;
pub const NONCE_BYTES: usize = ENDS + RANDOM + PROOF;
const DOMAIN: &[u8] = b"zester.nonce.1";

/// Why a nonce is not taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum BadNonce {
    /// This master did not make it, or did before its last start.
    Unknown,
    Expired,
    Used,
    /// So many were used in the last minute that no more can be remembered.
    Busy,
}

impl fmt::Display for BadNonce {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            BadNonce::Unknown => "the nonce is none of this master's",
            BadNonce::Expired => "the nonce has ended",
            BadNonce::Used => "the nonce was used already",
            BadNonce::Busy => "too many machines ask at once",
        })
    }
}

impl std::error::Error for BadNonce {}

pub struct Nonces {
    secret: [u8; 32],
    /// What was used, and until when that has to be known.
    used: BTreeMap<Vec<u8>, UnixMillis>,
}

impl Nonces {
    /// The secret is as random as the caller makes it, and new at every start.
    pub fn new(secret: [u8; 32]) -> Nonces {
        Nonces { secret, used: BTreeMap::new() }
    }

    pub fn issue(&self, random: [u8; RANDOM], now: UnixMillis) -> Vec<u8> {
        let mut nonce = now.plus(NONCE_LIFE).0.to_be_bytes().to_vec();
        nonce.extend(random);
        let proof = self.proof(&nonce);
        nonce.extend(proof);
        nonce
    }

    fn proof(&self, of: &[u8]) -> [u8; PROOF] {
        let inner = Sha256::new().chain_update(DOMAIN).chain_update(self.secret).chain_update(of).finalize();
        let outer = Sha256::new().chain_update(self.secret).chain_update(inner).finalize();
        std::array::from_fn(|at| outer[at])
    }

    /// Whether it can still be used. Costs nothing that is kept.
    pub fn check(&self, nonce: &[u8], now: UnixMillis) -> Result<UnixMillis, BadNonce> {
        if nonce.len() != NONCE_BYTES {
            return Err(BadNonce::Unknown);
        }
        let (said, proof) = nonce.split_at(ENDS + RANDOM);
        // Digests of the whole are compared: the time that takes tells nothing about where they differ.
        if Sha256::digest(self.proof(said)) != Sha256::digest(proof) {
            return Err(BadNonce::Unknown);
        }
        let ends = UnixMillis(said.iter().take(ENDS).fold(0, |number, byte| number << 8 | u64::from(*byte)));
        if now > ends || ends > now.plus(NONCE_LIFE) {
            return Err(BadNonce::Expired);
        }
        match self.used.contains_key(nonce) {
            true => Err(BadNonce::Used),
            false => Ok(ends),
        }
    }

    /// Uses it up. For who has shown to have the key: only such ones are remembered.
    pub fn redeem(&mut self, nonce: &[u8], now: UnixMillis) -> Result<(), BadNonce> {
        let ends = self.check(nonce, now)?;
        if self.used.len() >= NONCES_USED_MAX {
            self.used.retain(|_, until| *until >= now);
        }
        if self.used.len() >= NONCES_USED_MAX {
            return Err(BadNonce::Busy);
        }
        self.used.insert(nonce.to_vec(), ends);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    const NOW: UnixMillis = UnixMillis(1_790_000_000_000);

    #[test]
    #[rule("I-4")]
    fn i4_a_nonce_is_good_once_and_for_a_minute_and_nobody_else_can_make_one() {
        let mut nonces = Nonces::new([7; 32]);
        let nonce = nonces.issue([1; 16], NOW);
        assert_eq!(Nonces::new([8; 32]).check(&nonce, NOW), Err(BadNonce::Unknown), "of another master");
        assert_eq!(nonces.redeem(&nonce, NOW.plus(NONCE_LIFE)), Ok(()));
        assert_eq!(nonces.redeem(&nonce, NOW.plus(NONCE_LIFE)), Err(BadNonce::Used));
        let other = nonces.issue([2; 16], NOW);
        let late = UnixMillis(NOW.plus(NONCE_LIFE).0 + 1);
        assert_eq!(nonces.redeem(&other, late), Err(BadNonce::Expired));
        // Whoever makes it last longer has broken it.
        let mut longer = other.clone();
        longer[7] ^= 1;
        assert_eq!(nonces.redeem(&longer, NOW), Err(BadNonce::Unknown));
        for bad in [&b""[..], &other[..39], &[0; 41]] {
            assert_eq!(nonces.check(bad, NOW), Err(BadNonce::Unknown));
        }
    }

    #[test]
    #[rule("I-13")]
    fn i13_nonces_that_are_asked_for_cost_nothing_and_used_ones_are_bounded() {
        let mut nonces = Nonces::new([7; 32]);
        let random = |number: usize| {
            let mut bytes = [0; 16];
            bytes[..8].copy_from_slice(&(number as u64).to_be_bytes());
            bytes
        };
        for number in 0..NONCES_USED_MAX {
            let nonce = nonces.issue(random(number), NOW);
            assert_eq!(nonces.redeem(&nonce, NOW), Ok(()));
        }
        let one_more = nonces.issue([9; 16], NOW);
        assert_eq!(nonces.redeem(&one_more, NOW), Err(BadNonce::Busy));
        // A minute later there is room again.
        let later = UnixMillis(NOW.plus(NONCE_LIFE).0 + 1);
        let nonce = nonces.issue([9; 16], later);
        assert_eq!(nonces.redeem(&nonce, later), Ok(()));
        assert_eq!(nonces.used.len(), 1);
    }
}
