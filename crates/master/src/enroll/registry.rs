//! What this master knows of all enrollments, as the bucket has them: how many wait, whose first sign of life is awaited, and
//! which keys were ended.

use super::decide::{numbered, read};
use super::revoke::Telling;
use super::standing::put_right;
use crate::core::Core;
use crate::limits::{BUS_PAUSE, JOIN_TOKEN_KEPT, RELIST, SIGHTINGS_WAITING, WATCH_AHEAD};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, mpsc};
use tokio::time::{Instant, sleep, sleep_until};
use zester_bus::{Entry, Kind, Seen, Watch};
use zester_identity::enrollment::{self, Decider, Transition, Waiting, ended_keys};
use zester_identity::limits::PENDING_LIFE;
use zester_wire::{Bucket, Enrollment, EnrollmentStatus as Status, JoinToken, Key, PeelId, UnixMillis};

/// Who says that a peel was seen.
const SEEN: Decider<'static> = Decider { by: "", reason: "" };

#[derive(Default)]
struct Known {
    /// Where those are that wait for somebody's word, and since when.
    pending: BTreeMap<PeelId, (String, UnixMillis)>,
    /// Keys that were given out and not seen on the bus yet.
    issued: BTreeMap<PeelId, String>,
    /// Until when what each signed counts.
    ended: BTreeMap<String, UnixMillis>,
}

/// Shared by the door, the heartbeats and who answers operators.
pub struct Enrollments {
    known: Mutex<Known>,
    sightings: mpsc::Sender<(PeelId, String)>,
    /// Somebody was ended.
    pub(super) ended: Notify,
    /// None: this master may not have a server end a connection.
    telling: Option<Telling>,
}

impl Enrollments {
    pub fn new(ends_connections: bool) -> (Arc<Enrollments>, mpsc::Receiver<(PeelId, String)>) {
        let (sightings, seen) = mpsc::channel(SIGHTINGS_WAITING);
        let telling = ends_connections.then(Telling::new);
        let known = Mutex::default();
        (Arc::new(Enrollments { known, sightings, ended: Notify::new(), telling }), seen)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the server keeps out everybody who was ended: waits a moment for that. None: this master may not tell it.
    pub async fn is_kept_out(&self, now: UnixMillis) -> Option<Result<(), String>> {
        let keys = self.ended_keys(now).len();
        Some(self.telling.as_ref()?.knows(keys).await)
    }

    /// The server was told of so many keys, or could not be.
    pub(super) fn server_told(&self, keys: usize, failed: Option<String>) {
        if let Some(telling) = &self.telling {
            telling.note(keys, failed);
        }
    }

    /// Takes a record as it is now.
    pub fn take(&self, core: &Core, record: &Enrollment) {
        let mut known = self.lock();
        match record.status {
            Status::Pending => {
                known.pending.insert(record.peel.clone(), (record.address.clone(), record.requested))
            }
            _ => known.pending.remove(&record.peel),
        };
        match record.status {
            Status::Issued => known.issued.insert(record.peel.clone(), record.key.clone()),
            _ => known.issued.remove(&record.peel),
        };
        let before = known.ended.len();
        for (key, until) in ended_keys(record) {
            // What is not remembered here counts until the roster says otherwise, or its credentials end.
            if core.link.trust().is_none_or(|trust| trust.end(key, until)) {
                let known = known.ended.entry(key.to_string()).or_insert(until);
                *known = (*known).min(until);
            } else {
                tracing::error!(peel = %record.peel, "too many keys were ended: make them part of the roster with `zester enroll revoke --dir`");
            }
        }
        if known.ended.len() > before {
            self.ended.notify_one();
        }
    }

    /// Those that nothing counts of any more: a server may hang up on them.
    pub fn ended_keys(&self, now: UnixMillis) -> Vec<String> {
        let known = self.lock();
        known.ended.iter().filter(|(_, until)| **until < now).map(|(key, _)| key.clone()).collect()
    }

    /// How many wait, also of one address. Those who waited too long hold no place.
    pub fn waiting(&self, address: IpAddr, now: UnixMillis) -> Waiting {
        let address = address.to_string();
        let known = self.lock();
        let counts = known.pending.values().filter(|(_, since)| now.since(*since) <= PENDING_LIFE);
        counts.fold(Waiting::default(), |waiting, (of, _)| Waiting {
            all: waiting.all + 1,
            of_address: waiting.of_address + usize::from(*of == address),
        })
    }

    /// A peel was heard with this key. Most of the time nobody waits for that.
    pub fn seen(&self, peel: &PeelId, key: &str) {
        let is_awaited = self.lock().issued.get(peel).is_some_and(|issued| issued == key);
        if is_awaited {
            // One that finds no room is heard again with the next heartbeat.
            let _full = self.sightings.try_send((peel.clone(), key.to_string()));
        }
    }

    fn keep_only(&self, listed: &BTreeSet<PeelId>) {
        let mut known = self.lock();
        known.pending.retain(|peel, _| listed.contains(peel));
        known.issued.retain(|peel, _| listed.contains(peel));
    }
}

/// Keeps it as the bucket is.
pub struct Keeper {
    core: Arc<Core>,
    seen: mpsc::Receiver<(PeelId, String)>,
    relist_at: Instant,
}

impl Keeper {
    pub fn new(core: Arc<Core>, seen: mpsc::Receiver<(PeelId, String)>) -> Keeper {
        Keeper { core, seen, relist_at: Instant::now() + RELIST }
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        loop {
            let bus = self.core.link.bus();
            match bus.watch(Bucket::Enrollments.as_str(), Key::ALL_ENROLLMENTS, WATCH_AHEAD).await {
                Ok(watch) => self.follow(watch).await,
                Err(error) => tracing::debug!("cannot watch the enrollments: {error}"),
            }
            sleep(BUS_PAUSE).await;
        }
    }

    async fn follow(&mut self, mut watch: Watch) {
        loop {
            tokio::select! {
                biased;
                () = sleep_until(self.relist_at) => {
                    self.tidy().await;
                    self.relist_at = Instant::now() + RELIST;
                }
                Some((peel, key)) = self.seen.recv() => self.note_seen(&peel, &key).await,
                seen = watch.next() => match seen {
                    Some(Ok(Seen::Entry(entry))) => self.entry(&entry).await,
                    Some(Ok(Seen::Current)) => {}
                    Some(Err(error)) => {
                        tracing::debug!("the watch of enrollments begins anew: {error}");
                        return;
                    }
                    None => return,
                },
            }
        }
    }

    /// The key decides whose it is; a record that says another is dropped.
    async fn entry(&self, entry: &Entry) {
        let key = Key::parse(Bucket::Enrollments, &entry.key);
        match self.core.link.record::<Enrollment>(Bucket::Enrollments, entry) {
            Ok(found) => {
                if matches!(&key, Ok(Key::Enrollment(peel)) if *peel == found.value.peel) {
                    self.core.enrollments.take(&self.core, &found.value);
                } else {
                    self.core.link.dropped().add(zester_link::Reason::Mismatched, 1);
                }
            }
            Err(error) => {
                self.core.link.dropped().add(error.reason(), 1);
                tracing::debug!(key = entry.key, "a record that cannot be read: {error}");
                if let (true, Ok(Key::Enrollment(peel))) = (error.is_disowned(), key) {
                    self.put_right(&peel).await;
                }
            }
        }
    }

    /// What it says afterwards comes by the watch, as everything else does.
    async fn put_right(&self, peel: &PeelId) {
        if let Err(error) = put_right(&self.core, peel).await {
            tracing::debug!(%peel, "a record that counts for nobody stays for now: {error}");
        }
    }

    /// It was issued, and now it is here.
    async fn note_seen(&self, peel: &PeelId, key: &str) {
        let found = match read(&self.core, peel).await {
            Ok(Some(found)) if found.value.key == key => found,
            _ => return,
        };
        let now = self.core.link.now();
        let Ok(next) = enrollment::step(&found.value, Transition::Seen, SEEN, now) else {
            return self.core.enrollments.take(&self.core, &found.value);
        };
        let (key, next) = (Key::Enrollment(peel.clone()), numbered(&self.core, next));
        match self.core.link.update(&key, &next, found.revision).await {
            Ok(_) => self.core.enrollments.take(&self.core, &next),
            // Another master has seen it too.
            Err(error) if error.bus_kind() == Some(Kind::Conflict) => {}
            Err(error) => tracing::debug!(%peel, "was seen, and that could not be noted: {error}"),
        }
    }

    /// What nobody waits for any more goes: requests that waited too long, and tokens that ended a while ago.
    async fn tidy(&self) {
        let now = self.core.link.now();
        let (mut listed, mut old, mut disowned) = (BTreeSet::new(), Vec::new(), Vec::new());
        let mut take = |entry: &Entry| match Key::parse(Bucket::Enrollments, &entry.key) {
            Ok(Key::Enrollment(peel)) => {
                match self.core.link.record::<Enrollment>(Bucket::Enrollments, entry) {
                    Ok(found) if enrollment::is_forgotten(&found.value, now) => {
                        old.push((Key::Enrollment(peel), entry.revision));
                    }
                    Ok(found) => drop(listed.insert(found.value.peel)),
                    // Its master was revoked while we ran: no watch tells of that.
                    Err(error) if error.is_disowned() => disowned.push(peel),
                    Err(_) => {}
                }
            }
            Ok(key @ Key::JoinToken(_)) => {
                match self.core.link.record::<JoinToken>(Bucket::Enrollments, entry) {
                    Ok(found) if now.since(found.value.until) <= JOIN_TOKEN_KEPT => {}
                    Ok(_) => old.push((key, entry.revision)),
                    Err(error) if error.is_disowned() => old.push((key, entry.revision)),
                    Err(_) => {}
                }
            }
            _ => {}
        };
        if let Err(error) = self.core.link.each_entry(Bucket::Enrollments, ">", &mut take).await {
            tracing::debug!("cannot list the enrollments: {error}");
            return;
        }
        for peel in disowned {
            self.put_right(&peel).await;
            listed.insert(peel);
        }
        self.core.enrollments.keep_only(&listed);
        for (key, revision) in old {
            let bus = self.core.link.bus();
            let purged = bus.purge(Bucket::Enrollments.as_str(), &key.to_string(), Some(revision)).await;
            if let Err(error) = purged {
                tracing::debug!(%key, "is old, and stays for now: {error}");
            }
        }
    }
}
