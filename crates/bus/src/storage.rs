//! The one table of streams and buckets with all their settings, and that of their readers, created at the start of every master.
//!
//! Rollup is off everywhere: with it, one put of one key could wipe the whole bucket, and peels write some of them. Keys
//! are removed by purging their subject, which needs no rollup. Everything is on file and can be read directly.

use crate::error::{Error, Kind};
use crate::limits::{
    AUDIT_AGE, AUDIT_BYTES_MAX, ENROLLMENTS_BYTES_MAX, EVENTS_BYTES_MAX, EVENTS_MESSAGES_MAX,
    FACTS_BYTES_MAX, HEARTBEATS_BYTES_MAX, HISTORY_AGE, JOB_EVENTS_BYTES_MAX, JOB_RETURNS_BYTES_MAX,
    JOB_TARGETS_BYTES_MAX, JOBS_BYTES_MAX, LEASE_TTL, LEASES_BYTES_MAX, LEDGER_BYTES_MAX,
    MASTER_HEARTBEAT_TTL, MESSAGE_BYTES_MAX, REACTOR_FILES_BYTES_MAX, REPLICAS_MAX, SETTINGS_FILES_BYTES_MAX,
    SMALL_RECORD_BYTES_MAX, STATE_FILES_BYTES_MAX, TRUST_BYTES_MAX,
};
use crate::{Bus, pattern};
use std::fmt;
use std::time::Duration;
use zester_wire::{Bucket, subject};

mod readers;

pub use readers::{adjust_readers, ensure_readers, late_returns, reactor, readers};

/// The stream of what happens to jobs.
pub const JOB_EVENTS: &str = "job-events";
/// The stream of what the reactor hears.
pub const EVENTS: &str = "events";
/// The stream of what the reactor decided.
pub const REACTOR_LEDGER: &str = "reactor-ledger";

/// The stream of what masters decided, and for whom.
pub const AUDIT: &str = "audit";

/// What gives way when a store is full.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The oldest messages go.
    DropOldest,
    /// New ones are refused.
    Refuse,
}

/// A stream, or a bucket: a stream that keeps the last values of each key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The name of the stream, or of the bucket (whose stream is `KV_<name>`).
    pub name: String,
    pub is_bucket: bool,
    /// What the stream keeps. A bucket keeps its keys.
    pub subjects: Vec<String>,
    pub max_age: Option<Duration>,
    pub max_bytes: u64,
    pub max_message_bytes: u64,
    pub max_messages: Option<u64>,
    /// Messages kept of one subject; of a key, values.
    pub per_subject: Option<u64>,
    pub when_full: WhenFull,
    /// How long message ids are remembered; the server decides where none is given.
    pub duplicate_window: Option<Duration>,
}

impl Store {
    pub fn stream(name: &str, subjects: &[&str], max_bytes: u64) -> Store {
        Store {
            name: name.into(),
            is_bucket: false,
            subjects: subjects.iter().map(|subject| (*subject).to_string()).collect(),
            max_age: None,
            max_bytes,
            max_message_bytes: MESSAGE_BYTES_MAX,
            max_messages: None,
            per_subject: None,
            when_full: WhenFull::DropOldest,
            duplicate_window: None,
        }
    }

    pub fn bucket(name: &str, max_bytes: u64) -> Store {
        Store {
            is_bucket: true,
            per_subject: Some(1),
            when_full: WhenFull::Refuse,
            subjects: vec![pattern::subject_of(name, ">")],
            ..Store::stream(name, &[], max_bytes)
        }
    }

    /// The name of the stream that holds it.
    pub fn stream_name(&self) -> String {
        if self.is_bucket { pattern::stream_of(&self.name) } else { self.name.clone() }
    }

    fn age(self, age: Duration) -> Store {
        Store { max_age: Some(age), ..self }
    }

    /// For buckets whose values expire: sets how long a value lives.
    pub fn ttl(self, ttl: Duration) -> Store {
        self.age(ttl)
    }

    fn small(self) -> Store {
        Store { max_message_bytes: SMALL_RECORD_BYTES_MAX, ..self }
    }

    /// Every setting in words, for comparing.
    pub(crate) fn settings(&self, replicas: usize) -> Settings {
        let mut subjects = self.subjects.clone();
        subjects.sort_unstable();
        vec![
            ("subjects", subjects.join(", ")),
            ("age", in_words(self.max_age)),
            ("bytes", self.max_bytes.to_string()),
            ("bytes of a message", self.max_message_bytes.to_string()),
            ("messages", in_words(self.max_messages)),
            ("messages of a subject", in_words(self.per_subject)),
            ("when full", format!("{:?}", self.when_full)),
            // Where the table leaves it to the server, any window is as wanted.
            (
                "window of message ids",
                self.duplicate_window.map_or(ANY.into(), |window| in_words(Some(window))),
            ),
            ("storage", "file".into()),
            ("rollup", "false".into()),
            ("direct get", "true".into()),
            ("replicas", replicas.to_string()),
        ]
    }

    /// Whether the settings make sense. No store is without limits.
    pub fn check(&self) -> Result<(), Error> {
        pattern::check_name(&self.name)?;
        for subject in &self.subjects {
            pattern::check_pattern(subject)?;
        }
        if self.max_bytes == 0 || self.max_message_bytes == 0 {
            return Err(Error::new(Kind::Invalid, format!("{}: a store without a limit", self.name)));
        }
        Ok(())
    }
}

/// How long signs of life last.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Ttls {
    pub master_heartbeat: Duration,
    pub lease: Duration,
}

impl Default for Ttls {
    fn default() -> Ttls {
        Ttls { master_heartbeat: MASTER_HEARTBEAT_TTL, lease: LEASE_TTL }
    }
}

/// The stream of what happens to jobs.
pub fn job_events() -> Store {
    Store::stream(JOB_EVENTS, subject::JOB_EVENTS, JOB_EVENTS_BYTES_MAX).age(HISTORY_AGE)
}

/// Everything that a fleet keeps on the bus.
pub fn table() -> Vec<Store> {
    table_with(Ttls::default())
}

/// The same for a fleet whose signs of life last longer or shorter.
pub fn table_with(ttls: Ttls) -> Vec<Store> {
    let bucket = |name: Bucket, bytes| Store::bucket(name.as_str(), bytes);
    vec![
        job_events(),
        Store {
            max_messages: Some(EVENTS_MESSAGES_MAX),
            duplicate_window: Some(Duration::from_secs(120)),
            ..Store::stream(EVENTS, &[subject::EVENTS], EVENTS_BYTES_MAX).age(HISTORY_AGE)
        },
        Store::stream(REACTOR_LEDGER, &[subject::LEDGER], LEDGER_BYTES_MAX).age(HISTORY_AGE),
        Store::stream(AUDIT, &[subject::AUDIT], AUDIT_BYTES_MAX).age(AUDIT_AGE).small(),
        bucket(Bucket::Jobs, JOBS_BYTES_MAX).age(HISTORY_AGE),
        // Results of old jobs give way to those of new ones; refusing would stop the fleet for the sake of its past.
        Store {
            when_full: WhenFull::DropOldest,
            ..bucket(Bucket::JobReturns, JOB_RETURNS_BYTES_MAX).age(HISTORY_AGE)
        },
        // Those of the jobs that ended longest ago give way first.
        Store {
            when_full: WhenFull::DropOldest,
            ..bucket(Bucket::JobTargets, JOB_TARGETS_BYTES_MAX).age(HISTORY_AGE)
        },
        bucket(Bucket::MasterHeartbeat, HEARTBEATS_BYTES_MAX).ttl(ttls.master_heartbeat).small(),
        bucket(Bucket::PeelSeen, HEARTBEATS_BYTES_MAX).small(),
        bucket(Bucket::Facts, FACTS_BYTES_MAX),
        bucket(Bucket::Leases, LEASES_BYTES_MAX).ttl(ttls.lease).small(),
        bucket(Bucket::StateFiles, STATE_FILES_BYTES_MAX),
        bucket(Bucket::SettingsFiles, SETTINGS_FILES_BYTES_MAX),
        Store { per_subject: Some(3), ..bucket(Bucket::ReactorFiles, REACTOR_FILES_BYTES_MAX) },
        bucket(Bucket::Trust, TRUST_BYTES_MAX),
        bucket(Bucket::Enrollments, ENROLLMENTS_BYTES_MAX).small(),
    ]
}

/// A setting of an existing store or reader that is not as the table has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    pub store: String,
    pub setting: &'static str,
    pub wanted: String,
    pub found: String,
}

impl fmt::Display for Drift {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {} is {}, should be {}", self.store, self.setting, self.found, self.wanted)
    }
}

/// Settings in words, in a fixed order.
pub(crate) type Settings = Vec<(&'static str, String)>;

/// Any value is as wanted.
const ANY: &str = "any";

pub(crate) fn in_words<T: fmt::Debug>(setting: Option<T>) -> String {
    setting.map_or("none".into(), |setting| format!("{setting:?}"))
}

/// Where two lists of settings differ.
pub(crate) fn compare(name: &str, wanted: Settings, found: Settings) -> Vec<Drift> {
    let pairs = wanted.into_iter().zip(found).filter(|(wanted, found)| wanted.1 != ANY && wanted != found);
    pairs
        .map(|((setting, wanted), (_, found))| Drift { store: name.into(), setting, wanted, found })
        .collect()
}

/// What [`Bus::ensure`] or [`Bus::ensure_reader`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing; it was made.
    Created,
    /// One, with these differences.
    Existing(Vec<Drift>),
}

/// What [`ensure_all`] or [`ensure_readers`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    pub created: Vec<String>,
    pub drift: Vec<Drift>,
}

/// How many copies a server or cluster of this size keeps.
pub fn replicas(servers: usize) -> usize {
    servers.clamp(1, REPLICAS_MAX)
}

/// Creates what is missing of the table; tells what differs. Safe to run from several masters at once, and again.
pub async fn ensure_all(bus: &dyn Bus, table: &[Store], replicas: usize) -> Result<Report, Error> {
    let mut report = Report::default();
    for store in table {
        match bus.ensure(store, replicas).await? {
            Found::Created => report.created.push(store.name.clone()),
            Found::Existing(drift) => report.drift.extend(drift),
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-13")]
    fn i13_every_store_has_limits_and_a_name_of_its_own() {
        let table = table();
        let mut names: Vec<String> = table.iter().map(Store::stream_name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), table.len());
        for store in &table {
            assert!(store.check().is_ok(), "{}", store.name);
            assert!(store.max_message_bytes < store.max_bytes);
        }
    }

    #[test]
    fn every_bucket_that_has_keys_has_a_place() {
        let table = table();
        for bucket in Bucket::ALL {
            assert!(table.iter().any(|store| store.is_bucket && store.name == bucket.as_str()), "{bucket:?}");
        }
    }

    #[test]
    fn signs_of_life_last_as_long_as_they_are_told_to() {
        let seconds = Duration::from_secs;
        let ttls = Ttls { master_heartbeat: seconds(1), lease: seconds(3) };
        let table = table_with(ttls);
        let age = |bucket: Bucket| table.iter().find(|store| store.name == bucket.as_str())?.max_age;
        let ages = [Bucket::MasterHeartbeat, Bucket::Leases].map(age);
        assert_eq!(ages, [1, 3].map(|count| Some(seconds(count))));
    }

    #[test]
    fn replicas_follow_the_servers_up_to_three() {
        assert_eq!([0, 1, 2, 3, 5].map(replicas), [1, 1, 2, 3, 3]);
    }

    #[test]
    #[rule("R-1", "R-22")]
    fn r1_events_and_what_was_decided_of_them_are_kept_as_the_table_says() {
        const GIB: u64 = 1 << 30;
        let week = Some(Duration::from_secs(7 * 24 * 60 * 60));
        let found = |name: &str| table().into_iter().find(|store| store.name == name).unwrap();
        let events = Store {
            name: "events".into(),
            is_bucket: false,
            subjects: vec!["zester.event.>".into()],
            max_age: week,
            max_bytes: GIB,
            max_message_bytes: MESSAGE_BYTES_MAX,
            max_messages: Some(1_000_000),
            per_subject: None,
            when_full: WhenFull::DropOldest,
            duplicate_window: Some(Duration::from_secs(120)),
        };
        assert_eq!(found("events"), events);
        let ledger = Store {
            name: "reactor-ledger".into(),
            subjects: vec!["zester.ledger.>".into()],
            max_bytes: GIB / 2,
            max_messages: None,
            duplicate_window: None,
            ..events
        };
        assert_eq!(found("reactor-ledger"), ledger);
        let rules = found("reactor-files");
        assert_eq!((rules.is_bucket, rules.per_subject), (true, Some(3)), "the history of rules");
    }
}
