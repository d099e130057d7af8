//! How often the peels of a fleet beat (J-26). Up to a size as it is configured; beyond it so that all together send no more than a
//! master and a server hear in passing. A peel that works on something beats as configured, whatever the fleet.

use crate::limits::{HEARTBEATS_PER_SECOND, PACE_LASTS};
use std::time::Duration;
use zester_wire::limits::HEARTBEAT_EVERY_MAX;
use zester_wire::{Pace, PeelHeartbeat, VERSION};

/// How often each of so many peels beats that is configured to do so `every` so often.
pub fn heartbeat_every(every: Duration, peels: usize) -> Duration {
    let shared = Duration::from_millis(peels as u64 * 1_000 / HEARTBEATS_PER_SECOND);
    shared.min(HEARTBEAT_EVERY_MAX).max(every)
}

/// What to tell a peel that sent this heartbeat: nothing where it beats seldom enough, has work, or knows no pace.
pub fn pace_for(heartbeat: &PeelHeartbeat, wanted: Duration) -> Option<Pace> {
    let is_idle = heartbeat.busy == 0 && heartbeat.outbox == 0 && !heartbeat.stopped;
    // Masters count a little differently, and a fleet grows and shrinks: what is nearly right stays.
    let is_hasty = heartbeat.next.is_some_and(|next| next.saturating_mul(4) < wanted.saturating_mul(3));
    (is_idle && is_hasty).then_some(Pace { v: VERSION, every: wanted, lasts: PACE_LASTS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::{PeelId, Token, UnixMillis};

    const CONFIGURED: Duration = Duration::from_secs(10);

    #[test]
    #[rule("J-26")]
    fn j26_a_fleet_of_any_size_up_to_fifty_thousand_sends_at_most_500_heartbeats_a_second() {
        for peels in [0, 1, 100, 5_000] {
            assert_eq!(heartbeat_every(CONFIGURED, peels), CONFIGURED, "{peels}: as configured");
        }
        for peels in [5_001, 9_900, 20_000, 50_000] {
            let every = heartbeat_every(CONFIGURED, peels);
            let a_second = peels as f64 / every.as_secs_f64();
            assert!((499.0..=501.0).contains(&a_second), "{peels} peels every {every:?}: {a_second}");
        }
        // Beyond it nobody is heard more seldom.
        assert_eq!(heartbeat_every(CONFIGURED, 1_000_000), Duration::from_secs(100));
        assert_eq!(heartbeat_every(Duration::from_secs(300), 1_000_000), Duration::from_secs(300));
    }

    #[test]
    #[rule("J-26", "J-11")]
    fn j26_who_is_told_to_beat_more_seldom_by_this_table() {
        let seconds = Duration::from_secs;
        let (peel, boot) = (PeelId::parse("web-1").unwrap(), Token::parse("boot").unwrap());
        let beat =
            PeelHeartbeat { next: Some(CONFIGURED), ..PeelHeartbeat::new(peel, boot, 1, UnixMillis(1)) };
        let told = |beat: &PeelHeartbeat, wanted| pace_for(beat, wanted).map(|pace| pace.every);
        assert_eq!(told(&beat, seconds(100)), Some(seconds(100)));
        assert_eq!(told(&beat, CONFIGURED), None, "a small fleet");
        assert_eq!(told(&beat, seconds(13)), None, "nearly right");
        let (busy, waits) =
            (PeelHeartbeat { busy: 1, ..beat.clone() }, PeelHeartbeat { outbox: 1, ..beat.clone() });
        let (stops, old) =
            (PeelHeartbeat { stopped: true, ..beat.clone() }, PeelHeartbeat { next: None, ..beat.clone() });
        for other in [busy, waits, stops, old] {
            assert_eq!(told(&other, seconds(100)), None, "{other:?}");
        }
        assert_eq!(
            told(&PeelHeartbeat { next: Some(seconds(90)), ..beat }, seconds(100)),
            None,
            "told before"
        );
    }
}
