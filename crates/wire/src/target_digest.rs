//! A list of targets that does not travel with every request: its digest does, and the proof that one peel is on it (J-24).
//!
//! The digest is the root of a Merkle tree over the sorted names, in the way of RFC 6962: a leaf is hashed with a zero byte before
//! it, a node with a one, so that no name can pass for a node. Who signs the root has signed every name, and a peel that is
//! shown the root, its own place and the hashes beside its way up needs none of the other names.

use crate::name::PeelId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

const HASH_BYTES: usize = 32;
type Hash = [u8; HASH_BYTES];

/// What stands for whom a request means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetDigest {
    /// How many names there are; 0: it is the hash of the expression.
    #[serde(default)]
    pub count: u64,
    #[serde(with = "serde_bytes")]
    pub root: Vec<u8>,
}

impl TargetDigest {
    pub fn of_names(names: &[PeelId]) -> TargetDigest {
        TargetTree::new(names).digest()
    }

    pub fn of_expression(expression: &str) -> TargetDigest {
        TargetDigest { count: 0, root: Sha256::digest(expression.as_bytes()).to_vec() }
    }

    /// Whether the digest is of a list that names this peel.
    pub fn names(&self, peel: &PeelId, proof: &TargetProof) -> bool {
        let Some((mut place, mut width)) =
            usize::try_from(proof.index).ok().zip(usize::try_from(self.count).ok())
        else {
            return false;
        };
        if place >= width || !proof.path.len().is_multiple_of(HASH_BYTES) {
            return false;
        }
        let mut beside = proof.path.chunks(HASH_BYTES);
        let mut hash = leaf(peel);
        while width > 1 {
            // The last of an odd row has nothing beside it and goes up as it is.
            if place % 2 == 1 || place + 1 < width {
                let Some(other) = beside.next() else { return false };
                hash = if place % 2 == 1 { node(other, &hash) } else { node(&hash, other) };
            }
            (place, width) = (place / 2, width.div_ceil(2));
        }
        beside.next().is_none() && hash.as_slice() == self.root.as_slice()
    }
}

/// That one peel is on a list: its place, and the hashes beside its way to the root.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetProof {
    pub index: u64,
    #[serde(with = "serde_bytes")]
    pub path: Vec<u8>,
}

/// All names of a list, and every hash above them.
#[derive(Clone, Debug)]
pub struct TargetTree {
    names: Vec<PeelId>,
    /// From the leaves to the root.
    rows: Vec<Vec<Hash>>,
}

impl TargetTree {
    pub fn new(names: &[PeelId]) -> TargetTree {
        let mut names = names.to_vec();
        names.sort_unstable();
        names.dedup();
        let mut rows = vec![names.iter().map(leaf).collect::<Vec<Hash>>()];
        while let Some(row) = rows.last().filter(|row| row.len() > 1) {
            let pair = |pair: &[Hash]| match pair {
                [left, right] => node(left, right),
                [alone] => *alone,
                _ => [0; HASH_BYTES],
            };
            rows.push(row.chunks(2).map(pair).collect());
        }
        TargetTree { names, rows }
    }

    pub fn digest(&self) -> TargetDigest {
        let root = self.rows.last().and_then(|row| row.first()).map(|root| root.to_vec());
        TargetDigest { count: self.names.len() as u64, root: root.unwrap_or_default() }
    }

    /// None for a peel that is not on the list.
    pub fn proof(&self, peel: &PeelId) -> Option<TargetProof> {
        let index = self.names.binary_search(peel).ok()?;
        let mut path = Vec::new();
        let mut place = index;
        for row in &self.rows {
            if let Some(beside) = row.get(place ^ 1) {
                path.extend_from_slice(beside);
            }
            place /= 2;
        }
        Some(TargetProof { index: index as u64, path })
    }
}

fn leaf(peel: &PeelId) -> Hash {
    Sha256::new().chain_update([0]).chain_update(peel.as_str()).finalize().into()
}

fn node(left: &[u8], right: &[u8]) -> Hash {
    Sha256::new().chain_update([1]).chain_update(left).chain_update(right).finalize().into()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use zester_rule::rule;

    fn names(count: usize) -> Vec<PeelId> {
        (0..count).map(|at| PeelId::parse(&format!("web-{at:05}")).unwrap()).collect()
    }

    #[test]
    #[rule("J-24")]
    fn j24_every_name_of_a_list_has_a_proof_and_nobody_else() {
        let stranger = PeelId::parse("stranger").unwrap();
        for count in 1..=40 {
            let names = names(count);
            let tree = TargetTree::new(&names);
            let digest = tree.digest();
            for peel in &names {
                let proof = tree.proof(peel).unwrap();
                assert!(digest.names(peel, &proof), "{count} {peel}");
                assert!(!digest.names(&stranger, &proof));
                let other = TargetProof { index: (proof.index + 1) % count as u64, ..proof.clone() };
                assert!(count == 1 || !digest.names(peel, &other), "{count} {peel}");
                let longer =
                    TargetProof { path: [proof.path.clone(), vec![0; 32]].concat(), ..proof.clone() };
                assert!(!digest.names(peel, &longer));
                let more = TargetDigest { count: digest.count + 1, ..digest.clone() };
                let same = more.names(peel, &proof) && TargetDigest::of_names(&names) != digest;
                assert!(!same);
            }
            assert_eq!(tree.proof(&stranger), None);
        }
    }

    #[test]
    #[rule("J-24")]
    fn j24_a_digest_is_of_the_names_in_any_order_and_of_no_others() {
        let mut names = names(9);
        let digest = TargetDigest::of_names(&names);
        names.reverse();
        assert_eq!(TargetDigest::of_names(&names), digest);
        names.pop();
        assert_ne!(TargetDigest::of_names(&names), digest);
    }

    #[test]
    #[rule("J-24")]
    fn j24_a_proof_grows_with_the_logarithm() {
        let length = |count: usize| TargetTree::new(&names(count)).proof(&names(1)[0]).unwrap().path.len();
        assert_eq!(length(1), 0);
        assert_eq!(length(4_096), 12 * 32);
        assert_eq!(length(65_536), 16 * 32);
    }
}
