//! What may be removed from a bucket, as a decision without IO.

use std::collections::BTreeSet;
use zester_wire::ContentHash;

/// The numbers of manifests that are not kept any more. That of the revision that counts is, however old it is, and so is
/// what stands above it: somebody may be about to name it.
pub fn expired(kept: &[u64], counts: u64, keep: usize) -> Vec<u64> {
    let mut old: Vec<u64> = kept.iter().copied().filter(|number| *number < counts).collect();
    old.sort_unstable();
    let stay = keep.saturating_sub(1).min(old.len());
    old.truncate(old.len() - stay);
    old
}

/// Contents that nobody lists.
pub fn garbage<'a>(
    present: &'a BTreeSet<ContentHash>,
    listed: &'a BTreeSet<ContentHash>,
) -> impl Iterator<Item = &'a ContentHash> {
    present.difference(listed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-12")]
    fn d12_the_newest_manifests_are_kept_and_the_one_that_counts_always() {
        let numbers: Vec<u64> = (1..=25).collect();
        assert_eq!(expired(&numbers, 25, 20), [1, 2, 3, 4, 5]);
        assert_eq!(expired(&numbers, 23, 20), [1, 2, 3], "24 and 25 may be about to count");
        assert_eq!(expired(&[7], 7, 20), [0_u64; 0]);
        assert_eq!(expired(&[], 0, 20), [0_u64; 0]);
        assert_eq!(expired(&[3, 9], 9, 1), [3]);
    }
}
