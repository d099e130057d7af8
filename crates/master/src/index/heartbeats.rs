//! Hears the heartbeats of all peels: who is there, who came back, who is gone, and what they work on.

use super::news::{Mark, PresenceNews};
use super::over::Over;
use super::presence::Heard;
use super::presence_events::Noticed;
use crate::core::Core;
use crate::limits::{BUS_PAUSE, EXPIRY_LOOK_MAX, EXPIRY_PAUSE, FORGET_EVERY, HEARTBEATS_WAITING};
use crate::router::subscribe;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until};
use zester_bus::{Delivery, Entry, Event, Listen};
use zester_health::State;
use zester_jobs::pace::{heartbeat_every, pace_for};
use zester_link::Reason;
use zester_wire::limits::HEARTBEAT_JOBS_MAX;
use zester_wire::{
    Bucket, Key, PeelCommand, PeelHeartbeat, PeelId, SharedId, Subject, Token, VERSION, subject,
};

const ALL: &str = "*";

pub(crate) struct Heartbeats {
    core: Arc<Core>,
    over: Over,
    /// This master may hear nobody: silence says nothing of the peels then.
    deaf: bool,
    /// Somebody was not heard since the last look.
    missed: bool,
    /// No heartbeat ends before this.
    expire_at: Instant,
    /// Who came and who went, for those who are told.
    news: PresenceNews,
    noticed: mpsc::Sender<Noticed>,
    /// When those who were forgotten are no news any more.
    forget_at: Instant,
    /// How often a peel with nothing to do should beat, in a fleet of this size.
    wanted: Duration,
}

impl Heartbeats {
    pub fn new(core: Arc<Core>, noticed: mpsc::Sender<Noticed>) -> Heartbeats {
        let (over, news) = (Over::new(core.clone()), PresenceNews::default());
        let now = Instant::now();
        let (expire_at, forget_at) = (now, now + FORGET_EVERY);
        let wanted = core.timing.peel_heartbeat;
        Heartbeats { core, over, deaf: false, missed: false, expire_at, news, noticed, forget_at, wanted }
    }

    /// Ends only with its task, or with the bus.
    pub async fn run(mut self) {
        let mut events = self.core.link.bus().events();
        let listen = Listen::alone(HEARTBEATS_WAITING);
        let mut heartbeats = subscribe(&self.core, subject::ALL_HEARTBEATS, &listen).await;
        load(&self.core).await;
        for (peel, present) in self.core.index.presence().all() {
            self.news.begin_with(peel, present);
        }
        self.core.index.set_seen_current();
        let mut look_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                event = events.next() => match event {
                    // Nobody was heard meanwhile, which is not the fault of the peels.
                    Some(Event::Reconnected | Event::Missed(_)) => self.begin_anew(),
                    Some(_) => {}
                    None => return,
                },
                () = self.over.next() => {}
                () = sleep_until(look_at) => {
                    self.look();
                    look_at = Instant::now() + EXPIRY_PAUSE;
                }
                delivery = heartbeats.next() => match delivery {
                    Some(delivery) => self.delivered(delivery),
                    None => return,
                },
            }
        }
    }

    /// Whose heartbeat has ended, as far as this master can tell.
    fn look(&mut self) {
        self.wanted = heartbeat_every(self.core.timing.peel_heartbeat, self.core.index.len());
        if !self.hears() {
            if !std::mem::replace(&mut self.deaf, true) {
                self.core.running.hearing(false);
            }
            return;
        }
        if std::mem::take(&mut self.deaf) | std::mem::take(&mut self.missed) {
            self.begin_anew();
        }
        if Instant::now() >= self.expire_at {
            self.expire();
        }
        self.tell_news();
    }

    /// Hands on who came and who went for good. Where there is no room for that, it is lost: nobody must be held up by it.
    fn tell_news(&mut self) {
        let now = Instant::now();
        if now >= self.forget_at {
            self.forget_at = now + FORGET_EVERY;
            let known = self.core.index.presence().all();
            self.news.keep_only(&known.into_iter().map(|(peel, _)| peel).collect());
        }
        if !self.news.is_due(now) {
            return;
        }
        let fleet = self.core.index.len();
        let online = self.core.index.presence().online().len();
        let noticed = Noticed { news: self.news.due(fleet, now), fleet, online };
        if self.noticed.try_send(noticed).is_err() {
            tracing::warn!("events of presence are lost: too many wait");
        }
    }

    /// A line that is half open looks like a connection for half a minute. What this master writes for itself, and is answered,
    /// shows that it would hear.
    fn hears(&self) -> bool {
        self.core.link.bus().info().connected && self.core.beats.are_steady(self.core.timing.master_ttl)
    }

    /// Nobody was heard for a while, which says nothing of the peels.
    fn begin_anew(&mut self) {
        self.core.index.presence().begin_anew();
        self.news.begin_anew(Instant::now());
        if !self.deaf {
            self.core.running.hearing(true);
        }
    }

    /// Tells the jobs who is gone.
    fn expire(&mut self) {
        let (gone, next) = self.core.index.presence().expire();
        for peel in &gone {
            self.core.running.gone(peel, false);
            if let Some(mark) = self.core.index.presence().mark(peel) {
                self.news.note(peel, false, mark, Instant::now());
            }
        }
        // Whoever was asked meanwhile may be missed sooner than that.
        let soon = Instant::now() + EXPIRY_LOOK_MAX;
        self.expire_at = next.map_or(soon, |next| next.min(soon));
    }

    fn delivered(&mut self, delivery: Delivery) {
        let Some(message) = self.core.link.delivered(delivery) else {
            // Somebody was not heard.
            self.core.index.presence().begin_anew();
            self.missed = true;
            return;
        };
        let Some(subject) = self.core.link.subject_of(&message) else { return };
        if let Subject::Heartbeat { peel } = &subject
            && !self.core.link.has_room_for(peel)
        {
            return;
        }
        let opened = self.core.link.open_addressed::<PeelHeartbeat>(&subject, &message.payload);
        let Some(opened) = opened else { return };
        // Where nobody signs, anybody says what they like.
        if self.core.link.trust().is_some() && self.core.index.heartbeat_is_older(&opened.message) {
            self.core.link.dropped().add(Reason::Spoof, 1);
            return tracing::warn!(%subject, "a heartbeat was dropped: newer ones were heard");
        }
        if let Some(who) = &opened.principal {
            self.core.enrollments.seen(&opened.message.peel, &who.key);
        }
        self.heartbeat(opened.message);
    }

    fn heartbeat(&mut self, mut heartbeat: PeelHeartbeat) {
        let jobs = std::mem::take(&mut heartbeat.jobs);
        let (peel, boot) = (heartbeat.peel.clone(), heartbeat.boot.clone());
        let (mark, pace) = (Mark::of(&heartbeat), pace_for(&heartbeat, self.wanted));
        let Heard { came, went, shared_with } =
            self.core.index.put_heartbeat(heartbeat, self.core.link.now());
        if came {
            self.core.running.connected(&peel);
            self.news.note(&peel, true, mark, Instant::now());
        } else if went {
            self.core.running.gone(&peel, true);
            self.news.note(&peel, false, mark, Instant::now());
        }
        if let Some(pace) = pace {
            self.over.send(Subject::Command { peel: peel.clone() }, PeelCommand::Pace(pace));
        }
        if let Some(other) = shared_with {
            self.tell_shared(&peel, [boot, other]);
        }
        for job in jobs.into_iter().take(HEARTBEAT_JOBS_MAX) {
            self.over.ask(&peel, job);
        }
    }

    /// Both hear both: each knows its own boot.
    fn tell_shared(&mut self, peel: &PeelId, boots: [Token; 2]) {
        tracing::warn!(%peel, "two peels have this id, and both do what it is told; give one of them another --id");
        for boot in boots {
            let command = PeelCommand::SharedId(SharedId { v: VERSION, boot });
            self.over.send(Subject::Command { peel: peel.clone() }, command);
        }
    }
}

/// Reads who was there lately, for a master that has heard nobody yet.
async fn load(core: &Core) {
    let now = core.link.now();
    let take = |entry: &Entry| {
        let Ok(found) = core.link.record::<PeelHeartbeat>(Bucket::PeelSeen, entry) else { return };
        if matches!(Key::parse(Bucket::PeelSeen, &entry.key), Ok(Key::Peel(peel)) if peel == found.value.peel)
        {
            core.index.presence().load(found.value, found.stored, now);
        }
    };
    while let Err(error) = core.link.each_entry(Bucket::PeelSeen, ALL, take).await {
        tracing::debug!("cannot read when the peels were last seen: {error}");
        let bucket = Bucket::PeelSeen.as_str();
        let why = format!("the peels are not known: {bucket} cannot be read: {error}");
        core.health.set("index", State::Down(why));
        sleep(BUS_PAUSE).await;
    }
}
