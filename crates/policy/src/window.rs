//! Maintenance windows: from each time of a cron expression on, for so long.

use std::time::Duration;
use zester_schedule::CronTimes;
use zester_wire::UnixMillis;

#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    pub times: CronTimes,
    pub lasts: Duration,
}

impl Window {
    /// Whether a moment lies within: its end does not.
    pub fn is_open(&self, now: UnixMillis) -> bool {
        self.times.up_to(now).is_some_and(|began| now < began.plus(self.lasts))
    }

    /// When it opens next.
    pub fn next(&self, now: UnixMillis) -> Option<UnixMillis> {
        self.times.after(now)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use zester_rule::rule;

    /// 2026-03-28, a Saturday, 00:00 UTC. In the night that follows, clocks in Berlin go from 02:00 to 03:00.
    const SATURDAY: u64 = 1_774_656_000_000;
    const HOUR: u64 = 3_600_000;

    #[test]
    #[rule("I-8")]
    fn i8_a_window_is_open_from_its_time_on_for_so_long_in_its_zone() {
        let window = |text: &str, zone: &str, hours: u64| Window {
            times: CronTimes::parse(text, zone).unwrap(),
            lasts: Duration::from_secs(hours * 3_600),
        };
        let open =
            |window: &Window, hours: f64| window.is_open(UnixMillis(SATURDAY + (hours * HOUR as f64) as u64));
        let nightly = window("0 22 * * *", "UTC", 4);
        for (hours, is_open) in [(21.99, false), (22.0, true), (25.99, true), (26.0, false), (1.5, true)] {
            assert_eq!(open(&nightly, hours), is_open, "{hours}");
        }
        // Three hours from 01:00 in Berlin are 00:00 to 03:00 UTC, whatever the clocks do meanwhile.
        let berlin = window("0 1 * * sun", "Europe/Berlin", 3);
        for (hours, is_open) in [(23.9, false), (24.0, true), (26.9, true), (27.0, false)] {
            assert_eq!(open(&berlin, hours), is_open, "{hours}");
        }
        assert_eq!(berlin.next(UnixMillis(SATURDAY)), Some(UnixMillis(SATURDAY + 24 * HOUR)));
    }
}
