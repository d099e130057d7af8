//! Chance that repeats itself.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// SplitMix64. A dice of its own for each purpose, so that a change in one place does not reshuffle the whole life.
#[derive(Debug)]
pub struct Dice {
    state: AtomicU64,
}

impl Dice {
    pub fn new(seed: u64, purpose: &str) -> Dice {
        let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5851_f42d_4c95_7f2d;
        for byte in purpose.bytes() {
            mixed = (mixed ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        Dice { state: AtomicU64::new(mixed) }
    }

    pub fn next(&self) -> u64 {
        let mut bits = self.state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        bits = bits.wrapping_add(0x9e37_79b9_7f4a_7c15);
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// From 0 to one below `sides`.
    pub fn roll(&self, sides: u64) -> u64 {
        self.next() % sides.max(1)
    }

    pub fn happens(&self, of_a_thousand: u64) -> bool {
        self.roll(1_000) < of_a_thousand
    }

    pub fn between(&self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(least_ms + self.roll(most_ms.saturating_sub(least_ms) + 1))
    }
}

impl zester_link::Dice for Dice {
    fn roll(&self) -> [u8; 16] {
        let (high, low) = (self.next(), self.next());
        (u128::from(high) << 64 | u128::from(low)).to_be_bytes()
    }
}
