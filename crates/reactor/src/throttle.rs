//! How long a rule rests for a source after it fired.

use crate::gates::Place;
use crate::limits::THROTTLED_MAX;
use lru::LruCache;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;
use zester_wire::{Origin, UnixMillis};

/// The last fire of each rule for each source.
pub struct Throttle {
    fired: LruCache<(Arc<str>, Origin), Fired>,
}

#[derive(Copy, Clone, Debug)]
struct Fired {
    at: UnixMillis,
    /// Of the event, which does not stop itself when it comes again, nor one that came before it and is still half done.
    place: Place,
}

impl Default for Throttle {
    fn default() -> Throttle {
        let pairs = NonZeroUsize::new(THROTTLED_MAX).unwrap_or(NonZeroUsize::MIN);
        Throttle { fired: LruCache::new(pairs) }
    }
}

impl Throttle {
    /// How long the rule still rests for this source; none if it may fire.
    pub fn rests(
        &self,
        rule: &Arc<str>,
        origin: &Origin,
        place: Place,
        period: Duration,
        now: UnixMillis,
    ) -> Option<Duration> {
        if period.is_zero() {
            return None;
        }
        let fired = self.fired.peek(&(rule.clone(), origin.clone()))?;
        // A clock that went back must not make the rest longer than it is.
        let rested = now.since(fired.at);
        let is_ahead = fired.at > now.plus(period);
        (place.is_after(fired.place) && rested < period && !is_ahead).then(|| period - rested)
    }

    /// The rule completed a fire for this source, or failed for good.
    pub fn fired(&mut self, rule: &Arc<str>, origin: &Origin, place: Place, now: UnixMillis) {
        let key = (rule.clone(), origin.clone());
        let before = self.fired.peek(&key).map(|fired| fired.place);
        let newest = before.filter(|before| !place.is_after(*before)).unwrap_or(place);
        self.fired.put(key, Fired { at: now, place: newest });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::PeelId;

    fn peel(name: &str) -> Origin {
        Origin::Peel(PeelId::parse(name).unwrap())
    }

    fn place(sequence: u64) -> Place {
        Place { sequence, stored: UnixMillis(sequence) }
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_rule_rests_for_one_source_and_not_for_another() {
        let mut throttle = Throttle::default();
        let (rule, other): (Arc<str>, Arc<str>) = ("reactor.a".into(), "reactor.b".into());
        let rest = Duration::from_secs(30);
        let at = UnixMillis;
        assert_eq!(throttle.rests(&rule, &peel("web"), place(1), rest, at(1_000)), None);
        throttle.fired(&rule, &peel("web"), place(1), at(1_000));
        let left = Some(Duration::from_secs(20));
        assert_eq!(throttle.rests(&rule, &peel("web"), place(2), rest, at(11_000)), left);
        assert_eq!(
            throttle.rests(&rule, &peel("web"), place(1), rest, at(11_000)),
            None,
            "an event that comes again"
        );
        assert_eq!(throttle.rests(&rule, &peel("db"), place(2), rest, at(11_000)), None);
        assert_eq!(throttle.rests(&other, &peel("web"), place(2), rest, at(11_000)), None);
        assert_eq!(throttle.rests(&rule, &peel("web"), place(2), rest, at(31_000)), None);
        assert_eq!(
            throttle.rests(&rule, &peel("web"), place(2), Duration::ZERO, at(1_000)),
            None,
            "0 is off"
        );
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_clock_set_back_makes_no_rest_longer_than_two() {
        let mut throttle = Throttle::default();
        let (rule, rest, now) = (Arc::from("reactor.a"), Duration::from_secs(30), 1_000_000);
        throttle.fired(&rule, &peel("web"), place(1), UnixMillis(now));
        let rests = |at: u64| throttle.rests(&rule, &peel("web"), place(2), rest, UnixMillis(at));
        assert_eq!(rests(now - 1), Some(rest), "a clock that is put right by a little ends no rest");
        assert_eq!(rests(now - 30_000), Some(rest));
        assert_eq!(rests(now - 30_001), None, "of a time that has not come yet");
    }

    /// An event that was half done when a later one fired goes on when it comes again.
    #[test]
    #[rule("R-10", "R-12")]
    fn r10_the_fire_of_a_later_event_does_not_hold_up_an_earlier_one() {
        let (rule, origin): (Arc<str>, _) =
            ("reactor.a".into(), Origin::Peel(PeelId::parse("web-1").unwrap()));
        let (mut throttle, period, now) =
            (Throttle::default(), Duration::from_secs(30), UnixMillis(1_000_000));
        throttle.fired(&rule, &origin, place(2), now);
        assert_eq!(throttle.rests(&rule, &origin, place(1), period, now), None);
        assert!(throttle.rests(&rule, &origin, place(3), period, now).is_some());
        // Its own end makes nobody before the later one wait, and those behind go on waiting.
        throttle.fired(&rule, &origin, place(1), now);
        assert_eq!(throttle.rests(&rule, &origin, place(2), period, now), None);
        assert!(throttle.rests(&rule, &origin, place(3), period, now).is_some());
    }

    #[test]
    #[rule("R-12")]
    fn r12_a_rule_rests_also_where_the_stream_was_made_anew() {
        let (rule, period, now): (Arc<str>, _, _) =
            ("reactor.a".into(), Duration::from_secs(30), UnixMillis(1_000_000));
        let mut throttle = Throttle::default();
        throttle.fired(&rule, &peel("web"), Place { sequence: 900, stored: now }, now);
        let anew = |sequence: u64, after: u64| Place { sequence, stored: UnixMillis(now.0 + after) };
        assert!(throttle.rests(&rule, &peel("web"), anew(1, 5), period, now).is_some());
        throttle.fired(&rule, &peel("web"), anew(1, 5), now);
        assert!(throttle.rests(&rule, &peel("web"), anew(2, 6), period, now).is_some());
        assert_eq!(throttle.rests(&rule, &peel("web"), anew(1, 5), period, now), None, "it comes again");
    }
}
