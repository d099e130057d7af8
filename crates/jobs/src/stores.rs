//! How the stores of a fleet are, as far as a master can tell, and what follows: whether a job may begin (J-23, J-28) and what
//! `readyz` says (J-29).

use crate::limits::{ELECTION_MAX, STORE_FULL_PERCENT, STORE_NEARLY_FULL_PERCENT};
use std::collections::BTreeMap;
use zester_wire::{Refusal, RefusalKind, UnixMillis};

/// The stores without which no job can begin or end.
pub const NEEDED: [&str; 4] = ["jobs", "job-events", "job-returns", "master-heartbeat"];

/// The store that tells whether its server takes writes at all.
const WRITTEN_ALL_THE_TIME: &str = "master-heartbeat";

const JETSTREAM_OFF: &str = "JetStream has been off on the nats-server";

/// Why a store does not work.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// Nobody answers for it: it has no leader, or the cluster has no quorum.
    NoLeader,
    /// It refuses writes: it is full, or its server is, or cannot write to its disk.
    Full,
    /// The server keeps nothing at all.
    JetStreamOff,
}

#[derive(Clone, Debug, Default)]
struct Condition {
    percent: u64,
    /// A store that drops its oldest is never in trouble for being full.
    refuses_when_full: bool,
    /// Looks running that got no answer.
    unanswered: u32,
    trouble: Option<(Trouble, UnixMillis)>,
    /// What the server said to the last write that it refused.
    said: String,
}

/// How a daemon is that needs these stores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    Degraded(String),
    Down(String),
}

/// What earlier looks and writes told.
#[derive(Clone, Debug, Default)]
pub struct StoreStatus {
    all: BTreeMap<String, Condition>,
}

impl StoreStatus {
    /// A look was answered.
    pub fn looked(&mut self, store: &str, percent: u64, refuses_when_full: bool) {
        let condition = self.all.entry(store.into()).or_default();
        (condition.percent, condition.refuses_when_full, condition.unanswered) =
            (percent, refuses_when_full, 0);
        let has_room = !refuses_when_full || percent < STORE_FULL_PERCENT;
        match condition.trouble {
            Some((Trouble::NoLeader | Trouble::JetStreamOff, _)) => condition.trouble = None,
            // The next write may succeed. A store that is written all the time says so itself.
            Some((Trouble::Full, _)) if has_room && store != WRITTEN_ALL_THE_TIME => condition.trouble = None,
            _ => {}
        }
    }

    /// A look was not answered. `certain`: the server said that nobody is there to answer; else one more must be missed.
    pub fn unanswered(&mut self, store: &str, certain: bool, now: UnixMillis) {
        let condition = self.all.entry(store.into()).or_default();
        condition.unanswered = condition.unanswered.saturating_add(1);
        if certain || condition.unanswered > 1 {
            condition.trouble.get_or_insert((Trouble::NoLeader, now));
        }
    }

    /// A look was answered: there is no JetStream.
    pub fn jetstream_is_off(&mut self, store: &str, now: UnixMillis) {
        let condition = self.all.entry(store.into()).or_default();
        if !matches!(condition.trouble, Some((Trouble::JetStreamOff, _))) {
            condition.trouble = Some((Trouble::JetStreamOff, now));
        }
    }

    /// A write was taken.
    pub fn wrote(&mut self, store: &str) {
        if let Some(condition) = self.all.get_mut(store) {
            (condition.trouble, condition.unanswered) = (None, 0);
        }
    }

    /// A write was refused. Says so to whoever wanted it.
    pub fn refused(&mut self, store: &str, trouble: Trouble, said: &str, now: UnixMillis) -> Refusal {
        let condition = self.all.entry(store.into()).or_default();
        condition.said = said.to_string();
        if condition.trouble.is_none_or(|(before, _)| before != trouble) {
            condition.trouble = Some((trouble, now));
        }
        refusal_of(store, condition, now)
    }

    /// Why no job may begin now.
    pub fn refusal(&self, now: UnixMillis) -> Option<Refusal> {
        let needed = NEEDED.iter().filter_map(|store| Some((*store, self.all.get(*store)?)));
        let mut unfit = needed.filter(|(_, condition)| condition.trouble.is_some() || condition.is_full());
        unfit.next().map(|(store, condition)| refusal_of(store, condition, now))
    }

    /// How full a store is, in percent; none before the first look.
    pub fn percent(&self, store: &str) -> Option<u64> {
        self.all.get(store).map(|condition| condition.percent)
    }

    pub fn percents(&self) -> impl Iterator<Item = (&str, u64)> {
        self.all.iter().map(|(store, condition)| (store.as_str(), condition.percent))
    }

    /// What `readyz` says: each store that is not as it should be, and since when.
    pub fn readiness(&self, now: UnixMillis) -> Readiness {
        let (mut down, mut told) = (false, Vec::new());
        // What all stores have in common is said once.
        let mut shared: BTreeMap<Trouble, (Vec<&str>, UnixMillis)> = BTreeMap::new();
        for (store, condition) in &self.all {
            let needed = NEEDED.contains(&store.as_str());
            match condition.trouble {
                Some((trouble @ (Trouble::NoLeader | Trouble::JetStreamOff), since)) => {
                    down |= needed;
                    let (stores, first) = shared.entry(trouble).or_insert((Vec::new(), since));
                    stores.push(store);
                    *first = since.min(*first);
                }
                Some((Trouble::Full, _)) => {
                    down |= needed;
                    told.push(describe(store, condition, now));
                }
                None if condition.refuses_when_full && condition.percent >= STORE_NEARLY_FULL_PERCENT => {
                    down |= needed && condition.is_full();
                    told.push(describe(store, condition, now));
                }
                None => {}
            }
        }
        told.extend(shared.into_iter().map(|(trouble, (stores, since))| {
            let since = since_when(since, now);
            match (trouble, stores.as_slice()) {
                (Trouble::JetStreamOff, _) => format!("{JETSTREAM_OFF} {since}"),
                (_, [one]) => format!("{one} has had no leader {since}"),
                (_, stores) => format!("{} have had no leader {since}", stores.join(", ")),
            }
        }));
        match (told.is_empty(), down) {
            (true, _) => Readiness::Ready,
            (false, false) => Readiness::Degraded(told.join("; ")),
            (false, true) => Readiness::Down(told.join("; ")),
        }
    }
}

impl Condition {
    /// What is left is kept for the ends of jobs that run (J-23).
    fn is_full(&self) -> bool {
        self.refuses_when_full && self.percent >= STORE_FULL_PERCENT
    }
}

fn describe(store: &str, condition: &Condition, now: UnixMillis) -> String {
    match condition.trouble {
        Some((Trouble::JetStreamOff, since)) => format!("{JETSTREAM_OFF} {}", since_when(since, now)),
        Some((Trouble::NoLeader, since)) => {
            format!("{store} has had no leader {}", since_when(since, now))
        }
        Some((Trouble::Full, since)) if condition.percent < STORE_NEARLY_FULL_PERCENT => {
            // Its own limit is far, so only the server knows why.
            format!("{store} has refused writes {}: {}", since_when(since, now), condition.said)
        }
        Some((Trouble::Full, since)) => {
            format!(
                "{store} is {} % full and has refused writes {}",
                condition.percent,
                since_when(since, now)
            )
        }
        None if condition.is_full() => {
            format!("{store} is {} % full and takes no new jobs", condition.percent)
        }
        None => format!("{store} is {} % full", condition.percent),
    }
}

/// When something began, for `readyz`.
pub fn since_when(since: UnixMillis, now: UnixMillis) -> String {
    format!("since {} ({} s)", clock_time(since), now.since(since).as_secs())
}

/// `22:13:20 UTC`
pub fn clock_time(moment: UnixMillis) -> String {
    let day = moment.0 / 1_000 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", day / 3_600, day / 60 % 60, day % 60)
}

fn refusal_of(store: &str, condition: &Condition, now: UnixMillis) -> Refusal {
    let what = describe(store, condition, now);
    match condition.trouble {
        Some((Trouble::NoLeader, since)) if now.since(since) < ELECTION_MAX => {
            Refusal::new(RefusalKind::Unavailable, format!("{what}; one may be elected now"))
        }
        Some((Trouble::NoLeader, _)) => Refusal {
            hint: "are enough nats-servers of the cluster up?".into(),
            ..Refusal::new(RefusalKind::CannotWrite, what)
        },
        Some((Trouble::JetStreamOff, _)) => Refusal {
            hint: "start it with -js or a `jetstream` block".into(),
            ..Refusal::new(RefusalKind::CannotWrite, what)
        },
        Some((Trouble::Full, _)) if condition.percent < STORE_NEARLY_FULL_PERCENT => Refusal {
            hint: "its disk and its log tell why".into(),
            ..Refusal::new(RefusalKind::CannotWrite, what)
        },
        _ => Refusal {
            hint: "room is made by removing old jobs, or by a larger limit of the store".into(),
            ..Refusal::new(RefusalKind::CannotWrite, what)
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use zester_rule::rule;

    const T0: UnixMillis = UnixMillis(1_700_000_000_000);
    const SAID: &str = "no such file or directory";

    fn later(seconds: u64) -> UnixMillis {
        T0.plus(Duration::from_secs(seconds))
    }

    fn kind(stores: &StoreStatus, seconds: u64) -> Option<RefusalKind> {
        stores.refusal(later(seconds)).map(|refusal| refusal.kind)
    }

    #[test]
    #[rule("J-23", "J-29")]
    fn j23_a_store_that_fills_is_told_before_it_refuses_and_keeps_room_for_ends() {
        let mut stores = StoreStatus::default();
        stores.looked("jobs", 50, true);
        stores.looked("job-returns", 100, false);
        assert_eq!((stores.readiness(T0), kind(&stores, 0)), (Readiness::Ready, None));
        stores.looked("jobs", 93, true);
        assert_eq!(stores.readiness(T0), Readiness::Degraded("jobs is 93 % full".into()));
        assert_eq!(kind(&stores, 0), None);
        stores.looked("jobs", 96, true);
        assert_eq!(kind(&stores, 0), Some(RefusalKind::CannotWrite));
        assert_eq!(stores.readiness(T0), Readiness::Down("jobs is 96 % full and takes no new jobs".into()));
        stores.looked("jobs", 60, true);
        assert_eq!((stores.readiness(T0), kind(&stores, 0)), (Readiness::Ready, None));
    }

    #[test]
    #[rule("J-28", "J-29")]
    fn j28_no_leader_is_an_election_first_and_then_told_for_what_it_is() {
        let mut stores = StoreStatus::default();
        // One answer that is late says nothing.
        stores.unanswered("jobs", false, T0);
        assert_eq!(kind(&stores, 0), None);
        stores.unanswered("jobs", false, later(2));
        assert_eq!(kind(&stores, 3), Some(RefusalKind::Unavailable));
        assert_eq!(kind(&stores, 12), Some(RefusalKind::CannotWrite));
        let Readiness::Down(why) = stores.readiness(later(12)) else { panic!() };
        assert_eq!(why, "jobs has had no leader since 22:13:22 UTC (10 s)");
        stores.looked("jobs", 10, true);
        assert_eq!((stores.readiness(later(13)), kind(&stores, 13)), (Readiness::Ready, None));
        stores.unanswered("jobs", true, later(20));
        assert_eq!(kind(&stores, 20), Some(RefusalKind::Unavailable));
        stores.wrote("jobs");
        assert_eq!(kind(&stores, 20), None);
    }

    #[test]
    #[rule("J-29")]
    fn j29_a_server_that_is_full_is_told_by_the_write_that_it_refused() {
        let mut stores = StoreStatus::default();
        stores.looked("master-heartbeat", 1, true);
        let refusal = stores.refused("master-heartbeat", Trouble::Full, SAID, T0);
        assert_eq!(refusal.kind, RefusalKind::CannotWrite);
        stores.refused("master-heartbeat", Trouble::Full, SAID, later(3));
        let why = "master-heartbeat has refused writes since 22:13:20 UTC (5 s): no such file or directory";
        assert!(!refusal.hint.contains("room"), "{}", refusal.hint);
        assert_eq!(stores.readiness(later(5)), Readiness::Down(why.into()));
        assert_eq!(kind(&stores, 5), Some(RefusalKind::CannotWrite));
        stores.looked("master-heartbeat", 1, true);
        assert_eq!(kind(&stores, 5), Some(RefusalKind::CannotWrite), "a look writes nothing");
        stores.wrote("master-heartbeat");
        assert_eq!(stores.readiness(later(6)), Readiness::Ready);
        // What is written now and then is tried again after the next look.
        stores.refused("jobs", Trouble::Full, SAID, T0);
        assert_eq!(kind(&stores, 5), Some(RefusalKind::CannotWrite));
        stores.looked("jobs", 20, true);
        assert_eq!(kind(&stores, 5), None);
    }

    #[test]
    #[rule("J-28", "J-29")]
    fn j29_what_all_stores_have_in_common_is_told_once_and_by_its_name() {
        let mut stores = StoreStatus::default();
        for store in ["facts", "job-events", "jobs"] {
            stores.jetstream_is_off(store, T0);
            stores.jetstream_is_off(store, later(3));
        }
        let off = "JetStream has been off on the nats-server since 22:13:20 UTC (5 s)";
        assert_eq!(stores.readiness(later(5)), Readiness::Down(off.into()));
        let refusal = stores.refusal(later(5)).unwrap();
        assert_eq!((refusal.kind, refusal.message.as_str()), (RefusalKind::CannotWrite, off));
        assert!(refusal.hint.contains("-js"), "{}", refusal.hint);
        for store in ["facts", "job-events", "jobs"] {
            stores.looked(store, 1, true);
        }
        assert_eq!((stores.readiness(later(6)), kind(&stores, 6)), (Readiness::Ready, None));
        stores.unanswered("jobs", true, later(7));
        stores.unanswered("facts", true, later(8));
        let Readiness::Down(why) = stores.readiness(later(17)) else { panic!() };
        assert_eq!(why, "facts, jobs have had no leader since 22:13:27 UTC (10 s)");
    }

    #[test]
    #[rule("J-29")]
    fn j29_a_store_that_no_job_needs_degrades_only() {
        let mut stores = StoreStatus::default();
        stores.looked("facts", 99, true);
        assert!(matches!(stores.readiness(T0), Readiness::Degraded(_)));
        stores.unanswered("leases", true, T0);
        assert!(matches!(stores.readiness(T0), Readiness::Degraded(_)));
        assert_eq!(kind(&stores, 0), None);
    }
}
