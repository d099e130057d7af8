//! When the next heartbeat is due, and what its answer says of the line. No clock of its own: it is told the time.
//!
//! A heartbeat is also the probe of the line: behind it goes a question that the server answers, in the same packet. One that works
//! on something beats as configured. One that has nothing to do beats as seldom as a master told it, so that a fleet of any size
//! costs its server little (J-26); what it promises stands in the heartbeat.

use super::limits::LINE_SILENT_MAX;
use std::time::Duration;
use tokio::time::Instant;
use zester_wire::Pace;
use zester_wire::limits::HEARTBEAT_EVERY_MAX;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Works,
    /// It is asked again at once.
    Doubtful,
    /// Nothing was answered for so long that another is better.
    Dead,
}

#[derive(Debug)]
pub(super) struct Heart {
    configured: Duration,
    /// What a master told, and how long it holds.
    told: Option<(Duration, Instant)>,
    /// The pause after the last heartbeat that was due.
    pause: Duration,
    /// When the first of those was sent that nobody answered.
    unanswered: Option<Instant>,
}

impl Heart {
    pub(super) fn new(configured: Duration) -> Heart {
        Heart { configured, told: None, pause: configured, unanswered: None }
    }

    /// A new connection: what was told before may not be so any more.
    pub(super) fn begin_anew(&mut self) {
        *self = Heart::new(self.configured);
    }

    pub(super) fn tell(&mut self, pace: &Pace, now: Instant) {
        let every = pace.every.min(HEARTBEAT_EVERY_MAX).max(self.configured);
        self.told = now.checked_add(pace.lasts).map(|until| (every, until));
    }

    /// The pause after the one that is due now. The first long one is anything between the two, by `share` from 0 to 1: whoever
    /// was told together must not beat together.
    pub(super) fn next(&mut self, is_idle: bool, share: f64, now: Instant) -> Duration {
        let told = self.told.filter(|(_, until)| is_idle && now < *until).map(|(every, _)| every);
        self.pause = match told {
            Some(every) if self.pause <= self.configured => {
                self.configured + every.saturating_sub(self.configured).mul_f64(share.clamp(0.0, 1.0))
            }
            Some(every) => every,
            None => self.configured,
        };
        self.pause
    }

    pub(super) fn pause(&self) -> Duration {
        self.pause
    }

    /// Whether the one that was sent then was answered.
    pub(super) fn answered(&mut self, is_answered: bool, sent: Instant, now: Instant) -> Line {
        if is_answered {
            self.unanswered = None;
            return Line::Works;
        }
        let since = *self.unanswered.get_or_insert(sent);
        if now.saturating_duration_since(since) < LINE_SILENT_MAX {
            return Line::Doubtful;
        }
        self.unanswered = None;
        Line::Dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::VERSION;

    const TEN: Duration = Duration::from_secs(10);

    fn pace(every: u64, lasts: u64) -> Pace {
        Pace { v: VERSION, every: Duration::from_secs(every), lasts: Duration::from_secs(lasts) }
    }

    #[test]
    #[rule("J-26", "J-11")]
    fn j26_who_has_nothing_to_do_beats_as_it_was_told_for_as_long_as_that_holds() {
        let (mut heart, begun) = (Heart::new(TEN), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(heart.next(true, 0.5, at(0)), TEN);
        heart.tell(&pace(90, 900), at(1));
        assert_eq!(heart.next(true, 0.25, at(10)), Duration::from_secs(30), "the first spreads the fleet");
        assert_eq!(heart.next(true, 0.25, at(40)), Duration::from_secs(90));
        assert_eq!(heart.next(false, 0.25, at(130)), TEN, "it has work");
        assert_eq!(heart.next(true, 1.0, at(140)), Duration::from_secs(90));
        assert_eq!(heart.next(true, 1.0, at(901)), TEN, "nobody said it again");
        // No master may silence a peel, or make it hasty.
        heart.tell(&pace(1_000_000, 900), at(902));
        assert_eq!(heart.next(true, 1.0, at(903)), HEARTBEAT_EVERY_MAX);
        heart.tell(&pace(0, u64::MAX), at(904));
        assert_eq!(heart.next(true, 1.0, at(905)), TEN);
        heart.tell(&pace(90, 900), at(906));
        heart.begin_anew();
        assert_eq!(heart.next(true, 1.0, at(907)), TEN, "a new connection");
    }

    #[test]
    #[rule("J-6")]
    fn j6_a_line_is_dead_when_nothing_was_answered_for_a_while() {
        let (mut heart, begun) = (Heart::new(TEN), Instant::now());
        let at = |seconds| begun + Duration::from_secs(seconds);
        assert_eq!(heart.answered(false, at(0), at(5)), Line::Doubtful);
        assert_eq!(heart.answered(false, at(6), at(11)), Line::Doubtful);
        assert_eq!(heart.answered(true, at(12), at(13)), Line::Works);
        assert_eq!(heart.answered(false, at(14), at(19)), Line::Doubtful, "it is counted anew");
        assert_eq!(heart.answered(false, at(29), at(34)), Line::Dead);
        assert_eq!(
            heart.answered(false, at(35), at(40)),
            Line::Doubtful,
            "of the next line nothing is known"
        );
    }
}
