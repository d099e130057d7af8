//! Which peels are there. Every heartbeat costs the same, however many peels there are (J-26).

use super::news::Mark;
use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use zester_wire::{PeelHeartbeat, PeelId, PeelStatus, Token, UnixMillis};

/// What a heartbeat says beside that its peel lives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Heard {
    /// The peel came (back) with it (J-6).
    pub came: bool,
    /// The peel stopped.
    pub went: bool,
    /// Another peel of the same id, by its boot: their heartbeats take turns.
    pub shared_with: Option<Token>,
}

/// What is known of one peel.
struct Seen {
    heartbeat: PeelHeartbeat,
    /// By the clock of this master, or of the server where only the record was seen.
    last_seen: UnixMillis,
    /// It counts as present until then.
    until: Instant,
    /// When it was last heard.
    heard_at: Instant,
    present: bool,
    /// A heartbeat was heard; before that there is only the record of earlier ones.
    heard: bool,
    /// The boot before this one.
    boot_before: Option<Token>,
}

pub struct Presence {
    ttl: Duration,
    peels: Mutex<HashMap<PeelId, Seen>>,
}

impl Presence {
    pub fn new(ttl: Duration) -> Presence {
        Presence { ttl, peels: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<PeelId, Seen>> {
        self.peels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When a peel wrote the last heartbeat that was heard of it, on its own clock.
    pub fn last_written(&self, peel: &PeelId) -> Option<UnixMillis> {
        self.lock().get(peel).map(|seen| seen.heartbeat.ts)
    }

    pub fn hear(&self, heartbeat: PeelHeartbeat, now: UnixMillis) -> Heard {
        let mut peels = self.lock();
        let before = peels.get(&heartbeat.peel);
        let was_present = before.is_some_and(Seen::is_present);
        let mut heard = Heard::default();
        if heartbeat.stopped {
            // The last words of an earlier boot that come late mean nothing.
            if before.is_some_and(|before| before.heartbeat.boot != heartbeat.boot) {
                return heard;
            }
            heard.went = was_present;
        } else {
            heard.came = !was_present || heartbeat.announces_connect(before.map(|before| &before.heartbeat));
        }
        let boot_before = before.and_then(|before| match before.heartbeat.boot == heartbeat.boot {
            true => before.boot_before.clone(),
            false => Some(before.heartbeat.boot.clone()),
        });
        if let Some(before) = before.filter(|before| was_present && before.heartbeat.boot != heartbeat.boot)
            && before.boot_before.as_ref() == Some(&heartbeat.boot)
        {
            heard.shared_with = Some(before.heartbeat.boot.clone());
        }
        let present = !heartbeat.stopped;
        let heard_at = Instant::now();
        let until = heard_at + if present { heartbeat.lasts(self.ttl) } else { Duration::ZERO };
        let seen = Seen { last_seen: now, until, heard_at, present, heard: true, boot_before, heartbeat };
        peels.insert(seen.heartbeat.peel.clone(), seen);
        heard
    }

    /// Takes the record of a peel that was not heard yet. One that is not old may be of a peel that is there: it counts as
    /// present for as long as a heartbeat would.
    pub fn load(&self, record: PeelHeartbeat, stored: UnixMillis, now: UnixMillis) {
        let mut peels = self.lock();
        if peels.get(&record.peel).is_some_and(|seen| seen.heard) {
            return;
        }
        let every = PeelHeartbeat::recorded_every(record.next.unwrap_or_default());
        let present = !record.stopped && now.since(stored) < every.saturating_mul(2);
        let heard_at = Instant::now();
        let until = heard_at + record.lasts(self.ttl);
        let (heard, boot_before) = (false, None);
        let seen =
            Seen { last_seen: stored, until, heard_at, present, heard, boot_before, heartbeat: record };
        peels.insert(seen.heartbeat.peel.clone(), seen);
    }

    /// Those whose time is over since the last call, and when to look next.
    pub fn expire(&self) -> (Vec<PeelId>, Option<Instant>) {
        let now = Instant::now();
        let (mut gone, mut next) = (Vec::new(), None::<Instant>);
        for (peel, seen) in self.lock().iter_mut().filter(|(_, seen)| seen.present) {
            if seen.until <= now {
                seen.present = false;
                gone.push(peel.clone());
            } else {
                next = Some(next.map_or(seen.until, |sooner| sooner.min(seen.until)));
            }
        }
        gone.sort_unstable();
        (gone, next)
    }

    /// The last heartbeat of a peel.
    pub(super) fn mark(&self, peel: &PeelId) -> Option<Mark> {
        self.lock().get(peel).map(|seen| Mark::of(&seen.heartbeat))
    }

    /// Everybody that is known, and whether they count as present.
    pub fn all(&self) -> Vec<(PeelId, bool)> {
        self.lock().iter().map(|(peel, seen)| (peel.clone(), seen.is_present())).collect()
    }

    /// This master heard nobody for a while: that says nothing of the peels.
    pub fn begin_anew(&self) {
        let now = Instant::now();
        for seen in self.lock().values_mut().filter(|seen| seen.present) {
            seen.until = now + seen.heartbeat.lasts(self.ttl);
        }
    }

    /// These were asked for something, and whoever is there answers with a heartbeat. Of one that was not heard for a
    /// while, because it beats seldom, it is soon known whether it is there (J-8, J-17).
    pub fn expect_answers<'a>(&self, peels: impl IntoIterator<Item = &'a PeelId>) {
        let (now, mut known) = (Instant::now(), self.lock());
        for peel in peels {
            if let Some(seen) = known.get_mut(peel).filter(|seen| now - seen.heard_at >= self.ttl) {
                seen.until = seen.until.min(now + self.ttl);
            }
        }
    }

    /// Whether somebody was heard and has not said that it stops.
    pub fn expects_any(&self) -> bool {
        self.lock().values().any(|seen| seen.heard && !seen.heartbeat.stopped)
    }

    pub fn is_online(&self, peel: &PeelId) -> bool {
        self.lock().get(peel).is_some_and(Seen::is_online)
    }

    pub fn online(&self) -> Vec<PeelId> {
        let peels = self.lock();
        peels.iter().filter(|(_, seen)| seen.is_online()).map(|(peel, _)| peel.clone()).collect()
    }

    /// Which of these are not there, in their order.
    pub fn absent(&self, targets: &[PeelId]) -> Vec<PeelId> {
        let peels = self.lock();
        let absent = |peel: &&PeelId| !peels.get(*peel).is_some_and(Seen::is_present);
        targets.iter().filter(absent).cloned().collect()
    }

    /// 0 if that is not known.
    pub fn last_seen(&self, peel: &PeelId) -> UnixMillis {
        self.lock().get(peel).map(|seen| seen.last_seen).unwrap_or_default()
    }

    /// Whether it counts as there by its record alone, because this master has not listened for long enough to know better.
    pub fn is_unsure(&self, peel: &PeelId) -> bool {
        self.lock().get(peel).is_some_and(|seen| !seen.heard && seen.is_present())
    }

    pub fn status(&self, peel: &PeelId) -> PeelStatus {
        match self.lock().get(peel) {
            Some(seen) => PeelStatus {
                peel: peel.clone(),
                // A master that has just begun does not say of everybody that he is gone.
                online: seen.is_present(),
                last_seen: seen.last_seen,
                version: seen.heartbeat.version.clone(),
                os: seen.heartbeat.os.clone(),
                busy: seen.heartbeat.busy,
                outbox: seen.heartbeat.outbox,
            },
            None => PeelStatus {
                peel: peel.clone(),
                online: false,
                last_seen: UnixMillis(0),
                version: String::new(),
                os: String::new(),
                busy: 0,
                outbox: 0,
            },
        }
    }

    pub fn forget(&self, peel: &PeelId) {
        self.lock().remove(peel);
    }

    pub(super) fn keep_only(&self, listed: &BTreeSet<PeelId>) {
        self.lock().retain(|peel, seen| seen.is_present() || listed.contains(peel));
    }
}

impl Seen {
    fn is_present(&self) -> bool {
        self.present && self.until > Instant::now()
    }

    /// Present, and not only by its record.
    fn is_online(&self) -> bool {
        self.heard && self.is_present()
    }
}
