//! What the network does to a message.

use std::ops::RangeInclusive;
use std::time::Duration;

/// The server's name as an end of a leg.
pub const SERVER: &str = "";

/// The way of one message from one connection to another, or to or from the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Leg<'a> {
    pub from: &'a str,
    pub to: &'a str,
    pub subject: &'a str,
}

/// The delay of each copy that arrives. None: lost. Several: doubled. Of what goes to or comes from the server the first counts.
pub type Fate = Vec<Duration>;

/// Decides the fate of messages. Asked in a fixed order, so a seed is enough to repeat a run.
pub trait Faults: Send {
    fn fate(&mut self, leg: Leg<'_>) -> Fate;

    /// How far behind the server is that answers a direct get of this client. Reads of the leader are never behind.
    fn lag(&mut self, _client: &str, _stream: &str) -> Duration {
        Duration::ZERO
    }

    /// Whether a subscription of this client has no room for a message.
    fn overflows(&mut self, _leg: Leg<'_>) -> bool {
        false
    }

    /// What becomes of the news of a watch.
    fn watch(&mut self, _client: &str, _bucket: &str) -> WatchFate {
        WatchFate::OnTime
    }
}

/// What becomes of the news of a watch.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WatchFate {
    OnTime,
    Late(Duration),
    /// The watch ends with an error, and whoever wants to see more watches again.
    Ends,
}

/// Everything arrives, once, at once.
pub struct Perfect;

impl Faults for Perfect {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }
}

/// Loses, doubles and delays by chance, from a seed. Delays differ, so messages overtake each other.
#[derive(Clone, Debug)]
pub struct Chaos {
    state: u64,
    /// Of a thousand messages, so many are lost.
    pub lost: u64,
    /// Of a thousand messages, so many arrive twice.
    pub doubled: u64,
    pub delay: RangeInclusive<Duration>,
}

impl Chaos {
    pub fn new(seed: u64) -> Chaos {
        Chaos { state: seed, lost: 50, doubled: 50, delay: Duration::ZERO..=Duration::from_millis(100) }
    }

    /// SplitMix64: small, and good enough to choose fates.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn happens(&mut self, of_a_thousand: u64) -> bool {
        self.next() % 1000 < of_a_thousand
    }

    fn pick_delay(&mut self) -> Duration {
        let width = self.delay.end().saturating_sub(*self.delay.start()).as_micros();
        let width = u64::try_from(width).unwrap_or(u64::MAX - 1);
        *self.delay.start() + Duration::from_micros(self.next() % (width + 1))
    }
}

impl Faults for Chaos {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        if self.happens(self.lost) {
            return Vec::new();
        }
        let copies = if self.happens(self.doubled) { 2 } else { 1 };
        (0..copies).map(|_| self.pick_delay()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(seed: u64) -> Vec<Fate> {
        let mut chaos = Chaos::new(seed);
        (0..1000).map(|_| chaos.fate(Leg { from: "a", to: "b", subject: "c" })).collect()
    }

    #[test]
    fn a_seed_repeats_itself_and_does_everything() {
        assert_eq!(fates(7), fates(7));
        assert_ne!(fates(7), fates(8));
        let fates = fates(7);
        assert!(fates.iter().any(Vec::is_empty));
        assert!(fates.iter().any(|fate| fate.len() == 2));
        assert!(fates.iter().flatten().all(|delay| *delay <= Duration::from_millis(100)));
    }
}
