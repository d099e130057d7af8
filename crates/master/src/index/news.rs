//! Which changes of presence are worth an event: those that last, and many at once as one.
//!
//! Told the time, and what this master noticed; says what to tell. What was the case when it began is no news, so neither a
//! start of a master nor one of a server makes any.

use crate::limits::{PRESENCE_DAMPING, PRESENCE_STORM_PERCENT, PRESENCE_STORM_WINDOW};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use tokio::time::Instant;
use zester_wire::{PeelHeartbeat, PeelId, Token, UnixMillis};

/// The heartbeat that a change is known by: the first of a peel that came, the last of one that went. All masters hear the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub boot: Token,
    pub connects: u64,
    pub ts: UnixMillis,
}

impl Mark {
    pub fn of(heartbeat: &PeelHeartbeat) -> Mark {
        Mark { boot: heartbeat.boot.clone(), connects: heartbeat.connects, ts: heartbeat.ts }
    }
}

/// A peel came or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresenceChange {
    pub peel: PeelId,
    pub online: bool,
    pub mark: Mark,
}

/// What is to be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    One(PresenceChange),
    /// So many at once that each by itself would be a storm.
    Many(Vec<PresenceChange>),
}

/// What was told of each peel, and what differs from that.
#[derive(Default)]
pub struct PresenceNews {
    /// Who was online when it was last told, or when this began. All others were not.
    told_online: HashMap<PeelId, bool>,
    waiting: BTreeMap<PeelId, (Instant, PresenceChange)>,
    by_age: BTreeSet<(Instant, PeelId)>,
}

impl PresenceNews {
    /// What was the case before anybody listened.
    pub fn begin_with(&mut self, peel: PeelId, online: bool) {
        self.told_online.insert(peel, online);
    }

    /// A peel came or went. What is as it was told is no news, whatever happened in between.
    pub fn note(&mut self, peel: &PeelId, online: bool, mark: Mark, now: Instant) {
        if self.told_online.get(peel).copied().unwrap_or(false) == online {
            self.take(peel);
        } else if !self.waiting.contains_key(peel) {
            let change = PresenceChange { peel: peel.clone(), online, mark };
            self.waiting.insert(peel.clone(), (now, change));
            self.by_age.insert((now, peel.clone()));
        }
    }

    /// Nobody was heard for a while: whoever seems to be gone gets as long again to be heard.
    pub fn begin_anew(&mut self, now: Instant) {
        self.by_age.clear();
        for (peel, (since, _)) in &mut self.waiting {
            *since = now;
            self.by_age.insert((now, peel.clone()));
        }
    }

    /// Forgets all others.
    pub fn keep_only(&mut self, known: &HashSet<PeelId>) {
        self.told_online.retain(|peel, _| known.contains(peel));
        self.waiting.retain(|peel, _| known.contains(peel));
        self.by_age.retain(|(_, peel)| known.contains(peel));
    }

    /// Whether something has lasted long enough to be told.
    pub fn is_due(&self, now: Instant) -> bool {
        self.by_age.first().is_some_and(|(since, _)| *since + PRESENCE_DAMPING <= now)
    }

    /// What has, of a fleet of so many. Each is told once.
    pub fn due(&mut self, fleet: usize, now: Instant) -> Vec<News> {
        let mut news = Vec::new();
        while self.is_due(now)
            && let Some((since, first)) = self.by_age.first().cloned()
        {
            let end = since + PRESENCE_STORM_WINDOW;
            let together: Vec<PeelId> =
                self.by_age.iter().take_while(|(at, _)| *at <= end).map(|(_, peel)| peel.clone()).collect();
            if is_storm(together.len(), fleet) {
                news.push(News::Many(together.iter().filter_map(|peel| self.tell(peel)).collect()));
            } else {
                news.extend(self.tell(&first).map(News::One));
            }
        }
        news
    }

    fn tell(&mut self, peel: &PeelId) -> Option<PresenceChange> {
        let change = self.take(peel)?;
        self.told_online.insert(peel.clone(), change.online);
        Some(change)
    }

    fn take(&mut self, peel: &PeelId) -> Option<PresenceChange> {
        let (since, change) = self.waiting.remove(peel)?;
        self.by_age.remove(&(since, peel.clone()));
        Some(change)
    }
}

/// One peel alone is never a storm, however small the fleet.
fn is_storm(changes: usize, fleet: usize) -> bool {
    changes > 1 && changes.saturating_mul(100) > fleet.saturating_mul(PRESENCE_STORM_PERCENT)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::time::Duration;
    use zester_rule::rule;

    /// A peel number, whether it is there, and when it was noticed in seconds.
    type Noted = (usize, bool, u64);

    fn peel(number: usize) -> PeelId {
        PeelId::parse(&format!("p{number}")).unwrap()
    }

    fn mark() -> Mark {
        Mark { boot: Token::parse("boot").unwrap(), connects: 1, ts: UnixMillis(7) }
    }

    /// What a fleet of so many, all of them there at first, tells by each second that is asked for.
    fn told(fleet: usize, noted: &[Noted], looks: &[u64]) -> Vec<String> {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let mut machine = PresenceNews::default();
        (0..fleet).for_each(|number| machine.begin_with(peel(number), true));
        let mut words = Vec::new();
        let mut noted = noted.iter().peekable();
        for look in looks {
            while let Some((number, online, second)) = noted.next_if(|(_, _, second)| second <= look) {
                machine.note(&peel(*number), *online, mark(), at(*second));
            }
            for news in machine.due(fleet, at(*look)) {
                words.push(match news {
                    News::One(one) => format!("{look}: {} {}", one.peel, online(one.online)),
                    News::Many(many) => {
                        let came = many.iter().filter(|change| change.online).count();
                        format!("{look}: {came} online, {} offline", many.len() - came)
                    }
                });
            }
        }
        words
    }

    fn online(is: bool) -> &'static str {
        if is { "online" } else { "offline" }
    }

    #[test]
    #[rule("R-24")]
    fn r24_what_lasts_is_told_once_and_what_changes_back_is_not() {
        let all: Vec<u64> = (0..200).collect();
        let nothing: [&str; 0] = [];
        assert_eq!(told(100, &[(1, false, 5)], &all), ["35: p1 offline"]);
        assert_eq!(told(100, &[(1, false, 5), (1, true, 34)], &all), nothing);
        assert_eq!(told(100, &[(1, false, 5), (1, true, 36)], &all), ["35: p1 offline", "66: p1 online"]);
        // Back and forth: the time begins with the last change.
        assert_eq!(told(100, &[(1, false, 5), (1, true, 10), (1, false, 20)], &all), ["50: p1 offline"]);
        // What was noticed twice is one change, and what was so before is none.
        assert_eq!(told(100, &[(1, false, 5), (1, false, 9)], &all), ["35: p1 offline"]);
        assert_eq!(told(100, &[(1, true, 5)], &all), nothing);
        // One that nobody knew comes; one that came and went was never there.
        assert_eq!(told(100, &[(500, true, 5)], &all), ["35: p500 online"]);
        assert_eq!(told(100, &[(500, true, 5), (500, false, 20)], &all), nothing);
    }

    #[test]
    #[rule("R-24")]
    fn r24_more_than_a_twentieth_of_the_fleet_within_ten_seconds_is_one_event() {
        let all: Vec<u64> = (0..200).collect();
        let gone = |count: usize, step: u64| -> Vec<Noted> {
            (0..count).map(|number| (number, false, 5 + number as u64 * step)).collect()
        };
        assert_eq!(told(100, &gone(5, 1), &all).len(), 5, "five of a hundred are not more");
        assert_eq!(told(100, &gone(6, 2), &all), ["35: 0 online, 6 offline"]);
        assert_eq!(told(100, &gone(6, 3), &all).len(), 6, "in 15 seconds");
        assert_eq!(told(1_000, &gone(1_000, 0), &all), ["35: 0 online, 1000 offline"]);
        assert_eq!(told(3, &gone(1, 0), &all), ["35: p0 offline"], "one alone is no storm");
        // Who comes back from a storm is news too, and again one.
        let mut both = gone(50, 0);
        both.extend((0..50).map(|number| (number, true, 100)));
        assert_eq!(told(100, &both, &all), ["35: 0 online, 50 offline", "130: 50 online, 0 offline"]);
        // A storm that is over before anybody would hear of it was none.
        let mut short = gone(50, 0);
        short.extend((0..50).map(|number| (number, true, 30)));
        assert!(told(100, &short, &all).is_empty());
    }

    #[test]
    #[rule("R-24")]
    fn r24_a_master_that_was_deaf_gives_everybody_their_time_again() {
        let start = Instant::now();
        let at = |second: u64| start + Duration::from_secs(second);
        let mut machine = PresenceNews::default();
        machine.begin_with(peel(1), true);
        machine.note(&peel(1), false, mark(), at(0));
        machine.begin_anew(at(29));
        assert!(!machine.is_due(at(58)));
        machine.note(&peel(1), true, mark(), at(58));
        assert!(!machine.is_due(at(600)));
        machine.note(&peel(1), false, mark(), at(600));
        machine.keep_only(&HashSet::new());
        assert!(!machine.is_due(at(900)), "who is forgotten is no news");
    }
}
