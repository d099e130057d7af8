//! Whether the index is fed (J-29): heartbeats are heard, and the watch of the facts tells what is written. An index that is not
//! fed goes on answering with what it knew.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;
use zester_bus::Sequence;
use zester_health::State;
use zester_jobs::stores::since_when;
use zester_wire::UnixMillis;

/// What a watch told, beside what its bucket says of itself.
#[derive(Debug, Default)]
struct WatchFeed {
    /// The newest revision that the watch told.
    told: Sequence,
    /// All that stood there was told; what the bucket says at the next look is known.
    is_current: bool,
    /// The newest revision that the bucket spoke of and the watch did not, and since when.
    behind: Option<(Sequence, Instant)>,
    /// When the watch ended, and why.
    ended: Option<(Instant, String)>,
}

impl WatchFeed {
    fn told(&mut self, revision: Sequence) {
        self.told = self.told.max(revision);
        if self.behind.is_some_and(|(written, _)| written <= self.told) {
            self.behind = None;
        }
    }

    /// The bucket was asked how far it is. Whether the watch missed what the look before this one showed already.
    fn looked(&mut self, last: Sequence, now: Instant) -> bool {
        if std::mem::take(&mut self.is_current) {
            // Of what was removed a watch tells nothing.
            self.told = last;
        }
        if last < self.told {
            // A store that was made anew counts from one.
            self.told = 0;
        }
        match self.behind {
            _ if last <= self.told => self.behind = None,
            None => self.behind = Some((last, now)),
            // Told of meanwhile, and behind with what came after.
            Some((written, _)) if written <= self.told => self.behind = Some((last, now)),
            Some(_) => return true,
        }
        false
    }

    /// Why what is known may be old, and since when. One look alone says nothing: what was written a moment ago is on its way.
    fn trouble(&self) -> Option<(Instant, String)> {
        let behind = self.behind.filter(|(_, since)| since.elapsed() >= BEHIND_MAX);
        let behind = behind.map(|(_, since)| (since, "the watch of facts has told nothing".to_string()));
        self.ended.clone().or(behind)
    }
}

/// Both sources of the index.
#[derive(Default)]
pub struct Feed {
    facts: Mutex<WatchFeed>,
    heard: Mutex<Option<Instant>>,
    /// The watch is behind and should begin anew.
    pub watch_is_behind: Notify,
}

/// How long a watch may be behind its bucket.
const BEHIND_MAX: Duration = Duration::from_secs(5);

impl Feed {
    fn facts(&self) -> MutexGuard<'_, WatchFeed> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A heartbeat came.
    pub fn heard(&self) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// The watch told of a record.
    pub fn told(&self, revision: Sequence) {
        self.facts().told(revision);
    }

    /// The watch told everything that stood there.
    pub fn current(&self) {
        *self.facts() = WatchFeed { is_current: true, ..WatchFeed::default() };
    }

    /// The watch ended.
    pub fn ended(&self, why: &str) {
        self.facts().ended.get_or_insert_with(|| (Instant::now(), why.into()));
    }

    /// How far the bucket of the facts is.
    pub fn looked(&self, last: Sequence) {
        if self.facts().looked(last, Instant::now()) {
            self.watch_is_behind.notify_one();
        }
    }

    /// What `readyz` says. `expects`: whether some peel has not said that it stops.
    pub fn readiness(&self, peel_ttl: Duration, expects: impl FnOnce() -> bool, now: UnixMillis) -> State {
        let since = |at: Instant| {
            let passed = u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX);
            since_when(UnixMillis(now.0.saturating_sub(passed)), now)
        };
        let mut told = Vec::new();
        if let Some((at, why)) = self.facts().trouble() {
            told.push(format!("{why} {}; what is known of the peels may be old", since(at)));
        }
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = heard.filter(|at| at.elapsed() >= peel_ttl)
            && expects()
        {
            told.push(format!("no heartbeat of any peel was heard {}", since(at)));
        }
        if told.is_empty() { State::Up } else { State::Degraded(told.join("; ")) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;
    use zester_rule::rule;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn readiness(feed: &Feed, expects: bool) -> State {
        feed.readiness(seconds(30), || expects, UnixMillis(1_700_000_100_000))
    }

    #[tokio::test(start_paused = true)]
    #[rule("J-29")]
    async fn j29_a_watch_that_tells_nothing_of_what_is_written_is_told_of() {
        let feed = Feed::default();
        feed.current();
        // The newest record was removed: the bucket counts it, and no watch will ever tell of it.
        feed.looked(7);
        advance(seconds(60)).await;
        feed.looked(7);
        assert_eq!(readiness(&feed, false), State::Up);
        feed.looked(8);
        assert_eq!(readiness(&feed, false), State::Up, "it is on its way");
        feed.told(8);
        advance(seconds(10)).await;
        feed.looked(9);
        advance(seconds(10)).await;
        feed.looked(9);
        let State::Degraded(why) = readiness(&feed, false) else { panic!() };
        assert_eq!(
            why,
            "the watch of facts has told nothing since 22:14:50 UTC (10 s); what is known of the peels may be old"
        );
        // It is asked to begin anew, and then knows everything again.
        feed.watch_is_behind.notified().await;
        feed.current();
        assert_eq!(readiness(&feed, false), State::Up);
        feed.ended("facts was made again");
        feed.ended("facts is gone");
        advance(seconds(40)).await;
        let State::Degraded(why) = readiness(&feed, false) else { panic!() };
        assert!(why.starts_with("facts was made again since 22:14:20 UTC (40 s)"), "{why}");
    }

    #[tokio::test(start_paused = true)]
    #[rule("J-29")]
    async fn j29_a_bucket_that_was_made_anew_is_followed_from_its_beginning() {
        let feed = Feed::default();
        feed.current();
        feed.looked(100);
        feed.looked(2);
        feed.told(2);
        advance(seconds(10)).await;
        feed.looked(2);
        assert_eq!(readiness(&feed, false), State::Up);
        feed.looked(3);
        advance(seconds(10)).await;
        feed.looked(3);
        assert!(matches!(readiness(&feed, false), State::Degraded(_)));
    }

    #[tokio::test(start_paused = true)]
    #[rule("J-29")]
    async fn j29_peels_that_all_fall_silent_at_once_are_told_of_unless_they_said_so() {
        let feed = Feed::default();
        advance(seconds(60)).await;
        assert_eq!(readiness(&feed, true), State::Up, "nobody has ever been heard");
        feed.heard();
        advance(seconds(29)).await;
        assert_eq!(readiness(&feed, true), State::Up);
        advance(seconds(1)).await;
        let State::Degraded(why) = readiness(&feed, true) else { panic!() };
        assert_eq!(why, "no heartbeat of any peel was heard since 22:14:30 UTC (30 s)");
        assert_eq!(readiness(&feed, false), State::Up, "all said that they stop");
        feed.heard();
        assert_eq!(readiness(&feed, true), State::Up);
    }
}
