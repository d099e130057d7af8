//! Being there: the connection, the heartbeat that announces it (J-6), the record of it (J-26), and the facts (D-7).

use super::Error;
use super::actor::{Actor, panic_words};
use super::facts;
use super::gauges::{FACTS, LAST_SEEN};
use super::heart::{Heart, Line};
use super::limits::{DISK_CHECK_EVERY, FACTS_EVERY, GOODBYE_LIMIT};
use super::outage::Outage;
use super::seen::{self, Seen};
use crate::schedule::{Looker, SourceUpdate};
use crate::store::StoreError;
use crate::work::FunctionAsked;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::time::Duration;
use tokio::task::JoinError;
use tokio::time::Instant;
use zester_bus::{Event as BusEvent, Kind, Sequence, Subscription};
use zester_jobs::peel::Event;
use zester_wire::limits::{HEARTBEAT_JOBS_MAX, SEEN_EVERY};
use zester_wire::{JobAtPeel, Pace, PeelHeartbeat, PeelId, Subject, Token};

/// What a task in the background comes back with.
pub(super) enum BackgroundDone {
    Subscribed(Result<Subscription, zester_bus::Error>),
    /// A round trip over the connection of this number ended.
    Settled {
        connection: u64,
        proven: bool,
    },
    /// A heartbeat was sent then, and the server answered behind it, or did not.
    Beaten {
        sent: Instant,
        answered: bool,
    },
    LineGivenUp,
    Seen(Seen),
    /// What the machine says of itself, and the hash of what the bus has now, or why it has it not.
    Facts {
        facts: Value,
        published: Result<String, String>,
    },
    /// Whether the disk takes what is written.
    DiskChecked(Result<(), StoreError>),
    LeftoversGone,
    /// There are states for what is to be done at the start.
    Startup(FunctionAsked),
    /// It was looked whether the schedule is another one.
    Schedule(Box<(Looker, Option<SourceUpdate>)>),
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
enum Bus {
    #[default]
    Down,
    /// There is a connection; whether the server has our subscription is not proven yet.
    Settling,
    Up,
}

pub(super) struct Presence {
    bus: Bus,
    heart: Heart,
    /// Counts every change, to tell an old round trip from a new one.
    connection: u64,
    /// How often it was announced that work must be sent again: at each connection, and after commands were dropped.
    connects: u64,
    /// Requests may have been dropped since the last announcement.
    missed: bool,
    next_beat: Option<Instant>,
    beating: bool,
    beat_again: bool,
    /// The job that the last heartbeat named last, where it could not name all.
    named: Option<JobAtPeel>,
    next_seen: Option<Instant>,
    recording: bool,
    /// The revision of our last record.
    recorded: Option<Sequence>,
    /// Another peel of our id that was told of.
    other: Option<Token>,
    outage: Outage,
    next_facts: Option<Instant>,
    gathering: bool,
    /// The hash of the facts that the bus has; none while that is not known.
    published: Option<String>,
    os: String,
    /// What the machine last said of itself; none before it did.
    pub(super) facts: Option<Value>,
}

impl Presence {
    pub(super) fn new(heartbeat: Duration) -> Presence {
        Presence {
            bus: Bus::default(),
            heart: Heart::new(heartbeat),
            connection: 0,
            connects: 0,
            missed: false,
            next_beat: None,
            beating: false,
            beat_again: false,
            named: None,
            next_seen: None,
            recording: false,
            recorded: None,
            other: None,
            outage: Outage::default(),
            next_facts: None,
            gathering: false,
            published: None,
            os: String::new(),
            facts: None,
        }
    }

    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.next_beat.into_iter().chain(self.next_facts).chain(self.next_seen).min()
    }
}

impl Actor {
    pub(super) fn bus_event(&mut self, event: Option<BusEvent>) -> Result<(), Error> {
        match event {
            Some(BusEvent::Connected) if self.presence.bus != Bus::Down => {}
            Some(BusEvent::Connected | BusEvent::Reconnected) => self.bus_there(),
            Some(BusEvent::Disconnected) => self.bus_gone(),
            Some(BusEvent::Missed(_)) if self.link.bus().info().connected => self.bus_there(),
            Some(BusEvent::Missed(_)) => self.bus_gone(),
            Some(BusEvent::ServerSaid(words)) if self.presence.bus == Bus::Down => {
                if let Some(news) = self.presence.outage.hear(&words) {
                    tracing::warn!("{news}");
                }
            }
            Some(BusEvent::ServerSaid(words)) => tracing::warn!("the bus says: {words}"),
            Some(BusEvent::SlowConsumer) => {}
            Some(BusEvent::Closed) | None => return Err(Error("the bus was closed".into())),
        }
        Ok(())
    }

    fn bus_gone(&mut self) {
        if self.presence.bus == Bus::Up {
            tracing::warn!("the bus is gone; work goes on, returns wait");
            self.presence.outage.lost();
        }
        self.presence.bus = Bus::Down;
        self.presence.connection += 1;
        self.presence.next_beat = None;
        self.presence.next_seen = None;
        self.presence.next_facts = None;
        self.gauges.bus_down();
        self.feed(Event::Disconnected);
    }

    fn bus_there(&mut self) {
        if self.presence.bus == Bus::Up {
            self.feed(Event::Disconnected);
        }
        self.presence.bus = Bus::Settling;
        self.presence.connection += 1;
        self.settle();
    }

    /// Proves by a round trip that the server has our subscription: only then may a master send work.
    fn settle(&mut self) {
        if self.commands.is_none() || self.presence.bus != Bus::Settling {
            return;
        }
        let (link, connection) = (self.link.clone(), self.presence.connection);
        let pause = self.setup.timing.retry_pause;
        self.background.spawn(async move {
            let proven = link.bus().flush().await.is_ok();
            if !proven {
                tokio::time::sleep(pause).await;
            }
            BackgroundDone::Settled { connection, proven }
        });
    }

    fn settled(&mut self, connection: u64, proven: bool) {
        if self.presence.bus != Bus::Settling || connection != self.presence.connection {
            return;
        }
        if !proven {
            return self.settle();
        }
        self.presence.bus = Bus::Up;
        self.presence.connects += 1;
        self.presence.outage.over();
        self.gauges.bus_up();
        tracing::info!(connects = self.presence.connects, "connected to the bus");
        self.presence.heart.begin_anew();
        // A fleet that came back at once must not beat in step for ever.
        let every = self.setup.timing.peel_heartbeat;
        self.presence.next_beat = Some(Instant::now() + every.mul_f64(0.5 + 0.5 * share(&self.setup.id)));
        self.beat();
        self.record();
        self.presence.next_seen =
            Some(Instant::now() + SEEN_EVERY.mul_f64(0.5 + 0.5 * share(&self.setup.id)));
        self.presence.published = None;
        self.gather_facts();
        self.feed(Event::Connected);
    }

    pub(super) fn presence_due(&mut self) {
        let now = Instant::now();
        if self.presence.next_beat.is_some_and(|at| now >= at) {
            let is_idle = self.machine.busy() == 0 && self.machine.undelivered() == 0;
            let pause = self.presence.heart.next(is_idle, share(&self.setup.id), now);
            self.presence.next_beat = Some(now + pause);
            // With a heartbeat that is due, and not at once: what comes again must not be too much again.
            self.presence.connects += u64::from(std::mem::take(&mut self.presence.missed));
            self.beat();
        }
        if self.presence.next_seen.is_some_and(|at| now >= at) {
            self.presence.next_seen = Some(now + PeelHeartbeat::recorded_every(self.presence.heart.pause()));
            self.record();
        }
        if self.presence.next_facts.is_some_and(|at| now >= at) {
            self.gather_facts();
        }
    }

    /// Commands were dropped. Of a cancel that was among them a master tells us when it hears what runs here (J-11).
    pub(super) fn missed_commands(&mut self) {
        self.missed_requests();
        self.beat();
    }

    /// Work was dropped: masters send again what was not acked when we announce ourselves as after a connect (J-6).
    pub(super) fn missed_requests(&mut self) {
        self.presence.missed = true;
    }

    /// A master says how often is often enough. What the last heartbeat promised is kept.
    pub(super) fn pace(&mut self, pace: &Pace) {
        self.presence.heart.tell(pace, Instant::now());
    }

    /// Whoever is asked for something shows that it is there, unless it did a moment ago.
    pub(super) fn show_itself(&mut self) {
        let (now, every) = (Instant::now(), self.setup.timing.peel_heartbeat);
        if self.presence.next_beat.is_some_and(|at| at > now + every) {
            self.presence.next_beat = Some(now + every);
            self.beat();
        }
    }

    /// Sends a heartbeat; while one is on its way, the next waits for it.
    pub(super) fn beat(&mut self) {
        if self.presence.bus != Bus::Up {
            return;
        }
        if self.presence.beating {
            self.presence.beat_again = true;
            return;
        }
        self.presence.beating = true;
        let sent = Instant::now();
        let next = self.presence.next_beat.map(|at| at.saturating_duration_since(sent));
        let heartbeat = PeelHeartbeat { jobs: self.jobs_to_name(), next, ..self.heartbeat() };
        let link = self.link.clone();
        self.background.spawn(async move {
            let subject = Subject::Heartbeat { peel: heartbeat.peel.clone() };
            if let Err(error) = link.publish(&subject, &heartbeat).await {
                tracing::debug!("the heartbeat was not sent: {error}");
            }
            // In the same packet: whether the line still works. One that ended is told by the bus.
            let probed = link.bus().flush().await;
            let answered = !matches!(probed, Err(error) if error.kind() == Kind::Timeout);
            BackgroundDone::Beaten { sent, answered }
        });
    }

    fn heartbeat(&self) -> PeelHeartbeat {
        let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        let (peel, boot) = (self.setup.id.clone(), self.setup.boot.clone());
        PeelHeartbeat {
            version: self.setup.version.clone(),
            os: self.presence.os.clone(),
            busy: count(self.machine.busy()),
            outbox: count(self.machine.undelivered()),
            next: Some(self.presence.heart.pause()),
            ..PeelHeartbeat::new(peel, boot, self.presence.connects, self.link.now())
        }
    }

    /// What a master must know to tell us what is over (J-11): so many at a time, beginning after those of the last time.
    fn jobs_to_name(&mut self) -> Vec<JobAtPeel> {
        let all: Vec<JobAtPeel> = self
            .machine
            .executions()
            .map(|dispatch| JobAtPeel { jid: dispatch.jid.clone(), dispatch_epoch: dispatch.epoch })
            .collect();
        if all.len() <= HEARTBEAT_JOBS_MAX {
            self.presence.named = None;
            return all;
        }
        let last = self.presence.named.take();
        let after = all.iter().position(|job| Some(job) == last.as_ref()).map_or(0, |at| at + 1);
        let jobs: Vec<JobAtPeel> = all.iter().cycle().skip(after).take(HEARTBEAT_JOBS_MAX).cloned().collect();
        self.presence.named = jobs.last().cloned();
        jobs
    }

    fn beaten(&mut self, sent: Instant, answered: bool) {
        self.presence.beating = false;
        let now = Instant::now();
        match self.presence.heart.answered(answered, sent, now) {
            _ if self.presence.bus != Bus::Up => self.presence.heart.begin_anew(),
            Line::Works => {}
            Line::Doubtful => self.presence.next_beat = Some(now + self.setup.timing.retry_pause),
            Line::Dead => {
                tracing::warn!("the bus answers nothing; this peel makes another connection");
                let link = self.link.clone();
                self.background.spawn(async move {
                    if let Err(error) = link.bus().reconnect().await {
                        tracing::debug!("no other connection was made: {error}");
                    }
                    BackgroundDone::LineGivenUp
                });
            }
        }
        if std::mem::take(&mut self.presence.beat_again) {
            self.beat();
        }
    }

    /// Writes down that it is there, for those who did not hear its heartbeats.
    fn record(&mut self) {
        if self.presence.recording {
            return;
        }
        self.presence.recording = true;
        let (link, heartbeat) = (self.link.clone(), self.heartbeat());
        let last = self.presence.recorded.take();
        self.background.spawn(async move { BackgroundDone::Seen(seen::write(link, heartbeat, last).await) });
    }

    fn recorded(&mut self, seen: Seen) {
        self.presence.recording = false;
        self.gauges.kept(LAST_SEEN, seen.revision.as_ref().map(|_| ()).map_err(String::as_str));
        if seen.revision.is_err() {
            self.presence.next_seen = Some(Instant::now() + self.setup.timing.peel_heartbeat)
                .filter(|_| self.presence.bus == Bus::Up);
        }
        self.presence.recorded = seen.revision.ok();
        if let Some(other) = seen.other {
            self.shares_its_id(other);
        }
        if seen.vanished {
            // Somebody forgot us, or made the stores anew: what we published may be gone with it.
            self.publish_facts();
        }
    }

    /// What the bus has is looked at, whatever was published before.
    pub(super) fn publish_facts(&mut self) {
        if self.presence.bus == Bus::Up {
            self.presence.published = None;
            self.gather_facts();
        }
    }

    /// Another peel has our id.
    pub(super) fn shares_its_id(&mut self, other: Token) {
        if other == self.setup.boot || self.presence.other.as_ref() == Some(&other) {
            return;
        }
        tracing::warn!(
            boot = %other,
            "another peel has the id {} too, and both do what it is told; give one of them another --id",
            self.setup.id
        );
        self.gauges.shares_its_id();
        self.presence.other = Some(other);
    }

    /// The last words of a peel that stops: nobody need wait until its heartbeat is missed.
    pub(super) async fn say_goodbye(&mut self) {
        if self.presence.bus != Bus::Up {
            return;
        }
        let last = PeelHeartbeat { stopped: true, ..self.heartbeat() };
        let (link, subject) = (self.link.clone(), Subject::Heartbeat { peel: last.peel.clone() });
        let recorded = self.presence.recorded.take();
        let told = async {
            let _missed_later = link.publish(&subject, &last).await;
            seen::write(link.clone(), last, recorded).await;
            let _sent = link.bus().flush().await;
        };
        let _missed_later = tokio::time::timeout(GOODBYE_LIMIT, told).await;
    }

    /// Whether the disk still takes what is written, also while nobody asks for work (J-29).
    pub(super) fn check_disk(&mut self) {
        self.next_disk_check = None;
        let store = self.store.clone();
        self.background.spawn(async move { BackgroundDone::DiskChecked(store.check().await) });
    }

    fn disk_checked(&mut self, result: Result<(), StoreError>) {
        let every = if result.is_ok() { DISK_CHECK_EVERY } else { self.setup.timing.peel_heartbeat };
        self.gauges.store(result.as_ref().copied().map_err(|error| error.0.as_str()));
        self.next_disk_check = Some(Instant::now() + every);
    }

    fn gather_facts(&mut self) {
        self.presence.next_facts = None;
        if self.presence.gathering {
            return;
        }
        self.presence.gathering = true;
        let (link, work) = (self.link.clone(), self.work.clone());
        let (peel, published) = (self.setup.id.clone(), self.presence.published.clone());
        self.background.spawn(facts::publish(link, work, peel, published));
    }

    pub(super) fn kill_leftovers(&mut self, interrupted: usize) {
        tracing::warn!(interrupted, "the peel was ended while it worked; ending what is left of it");
        let work = self.work.clone();
        self.background.spawn(async move {
            work.kill_leftovers().await;
            BackgroundDone::LeftoversGone
        });
    }

    pub(super) fn background_ended(
        &mut self,
        joined: Result<BackgroundDone, JoinError>,
    ) -> Result<(), Error> {
        let done = match joined {
            Ok(done) => done,
            Err(error) if error.is_cancelled() => return Ok(()),
            Err(error) => return Err(Error(format!("a part of the peel crashed: {}", panic_words(error)))),
        };
        if self.stopping {
            return Ok(());
        }
        match done {
            BackgroundDone::Subscribed(Ok(commands)) => {
                self.commands = Some(commands);
                if self.presence.bus == Bus::Down && self.link.bus().info().connected {
                    self.bus_there();
                } else {
                    self.settle();
                }
            }
            BackgroundDone::Subscribed(Err(error)) => {
                return Err(Error(format!("the peel cannot listen for commands: {error}")));
            }
            BackgroundDone::Settled { connection, proven } => self.settled(connection, proven),
            BackgroundDone::Beaten { sent, answered } => self.beaten(sent, answered),
            BackgroundDone::LineGivenUp => {}
            BackgroundDone::Seen(seen) => self.recorded(seen),
            BackgroundDone::Facts { facts, published } => self.facts_gathered(facts, published),
            BackgroundDone::DiskChecked(result) => self.disk_checked(result),
            BackgroundDone::LeftoversGone => self.feed(Event::LeftoversGone),
            BackgroundDone::Startup(asked) => self.begin_startup(asked),
            BackgroundDone::Schedule(looked) => {
                let (looker, update) = *looked;
                self.schedule_looked(looker, update);
            }
        }
        Ok(())
    }

    fn facts_gathered(&mut self, facts: Value, published: Result<String, String>) {
        let os = facts::os_of(&facts);
        self.presence.facts = Some(facts);
        self.presence.gathering = false;
        self.gauges.kept(FACTS, published.as_ref().map(|_| ()).map_err(String::as_str));
        let every = if published.is_ok() { FACTS_EVERY } else { self.setup.timing.peel_heartbeat };
        self.presence.published = published.ok();
        if self.presence.bus != Bus::Up {
            return;
        }
        self.presence.next_facts = Some(Instant::now() + every);
        if self.presence.os != os {
            self.presence.os = os;
            self.beat();
        }
    }
}

/// A number from 0 to 1 that belongs to a name.
fn share(id: &PeelId) -> f64 {
    let digest = Sha256::digest(id.as_str().as_bytes());
    f64::from(u16::from_be_bytes([digest[0], digest[1]])) / f64::from(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heartbeats_are_spread_over_half_a_period() {
        let ids = ["web-1", "web-2", "db-1"].map(|name| PeelId::parse(name).unwrap());
        assert!(ids.iter().map(share).all(|share| (0.0..=1.0).contains(&share)));
        assert_ne!(share(&ids[0]), share(&ids[1]));
    }
}
