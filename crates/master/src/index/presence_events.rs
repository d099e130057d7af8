//! Tells who came and who went.
//!
//! Every master notices, and only the one with the lease tells: whether many changes are one event depends on what one master
//! noticed when, and two would not agree. The others remember for a while what they would have told, and the next holder
//! of the lease tells that: what the last one told already has the same id, and is kept once.

use super::news::{News, PresenceChange};
use crate::core::Core;
use crate::events::Tell;
use crate::held_lease::LeaseKeeper;
use crate::limits::{LEASE_LOOK, PRESENCE_NAMED, PRESENCE_REMEMBERED, PRESENCE_RETOLD};
use serde_json::{Map, json};
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use zester_wire::{BadName, ContentHash, Event, EventSubject, Subject, Tag, UnixMillis, VERSION};

/// The key of the lease.
const LEASE: &str = "presence";

/// What one look of a master brought.
pub struct Noticed {
    pub news: Vec<News>,
    /// Peels that are known.
    pub fleet: usize,
    /// Of them, those that are there.
    pub online: usize,
}

pub struct PresenceEvents {
    core: Arc<Core>,
    lease: LeaseKeeper,
    noticed: mpsc::Receiver<Noticed>,
    recent: VecDeque<(Instant, Tell)>,
}

impl PresenceEvents {
    pub fn new(core: Arc<Core>, noticed: mpsc::Receiver<Noticed>) -> Result<PresenceEvents, BadName> {
        let lease = LeaseKeeper::new(core.clone(), LEASE)?;
        Ok(PresenceEvents { core, lease, noticed, recent: VecDeque::new() })
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        let mut held = false;
        let mut look_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                Some(noticed) = self.noticed.recv() => self.take(&noticed),
                () = sleep_until(look_at) => {
                    self.lease.keep().await;
                    look_at = Instant::now() + LEASE_LOOK;
                    let holds = self.lease.is_held();
                    if holds && !held {
                        self.tell_again();
                    }
                    held = holds;
                }
            }
        }
    }

    fn take(&mut self, noticed: &Noticed) {
        let now = self.core.link.now();
        for news in &noticed.news {
            let made = match news {
                News::One(change) => of_one(change, now),
                News::Many(changes) => of_many(changes, noticed, now),
            };
            let Ok(tell) = made else { continue };
            if self.lease.is_held() {
                self.core.events.tell(Ok(tell.clone()));
            }
            if self.recent.len() >= PRESENCE_REMEMBERED {
                self.recent.pop_front();
            }
            self.recent.push_back((Instant::now(), tell));
        }
    }

    /// The last holder may have died before it told.
    fn tell_again(&mut self) {
        for (at, tell) in std::mem::take(&mut self.recent) {
            if at.elapsed() < PRESENCE_RETOLD {
                self.core.events.tell(Ok(tell));
            }
        }
    }
}

fn word(online: bool) -> &'static str {
    if online { "online" } else { "offline" }
}

/// The same at every master that heard the same heartbeat.
fn id_of(change: &PresenceChange) -> String {
    let PresenceChange { peel, online, mark } = change;
    format!("peel-{peel}-{}-{}-{}-{}", mark.boot, mark.connects, mark.ts.0, word(*online))
}

fn of_one(change: &PresenceChange, now: UnixMillis) -> Result<Tell, BadName> {
    let tag = Tag::parse(&format!("peel/{}/{}", change.peel, word(change.online)))?;
    let mut data = Map::new();
    data.insert("peel".into(), json!(change.peel.as_str()));
    data.insert("online".into(), json!(change.online));
    Ok(made(tag, id_of(change), data, now))
}

fn of_many(changes: &[PresenceChange], noticed: &Noticed, now: UnixMillis) -> Result<Tell, BadName> {
    let tag = Tag::parse("fleet/presence")?;
    let mut ids: Vec<String> = changes.iter().map(id_of).collect();
    ids.sort_unstable();
    let id = format!("fleet-{}", ContentHash::of(ids.join("\n").as_bytes()));
    let mut data = Map::new();
    for (online, count, names) in [(true, "came", "came_named"), (false, "went", "went_named")] {
        let all = changes.iter().filter(|change| change.online == online);
        let mut named: Vec<&str> = all.map(|change| change.peel.as_str()).collect();
        named.sort_unstable();
        data.insert(count.into(), json!(named.len()));
        named.truncate(PRESENCE_NAMED);
        data.insert(names.into(), json!(named));
    }
    data.insert("peels".into(), json!(noticed.fleet));
    data.insert("online".into(), json!(noticed.online));
    Ok(made(tag, id, data, now))
}

fn made(tag: Tag, id: String, data: Map<String, serde_json::Value>, now: UnixMillis) -> Tell {
    let origin = "_master".to_string();
    let event = Event { id, tag: tag.clone(), data, ts: now, v: VERSION, origin, depth: 0 };
    (Subject::Event(EventSubject::Master { tag }), event)
}
