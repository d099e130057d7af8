//! One beacon: looks when it is time to, and hands over what is worth an event.

use super::outbox::Waiting;
use super::{Made, Shared};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_beacons::{Beacon, Data, Entry, Looked, Moment};
use zester_wire::{Event, EventSubject, Subject, Token, VERSION};

/// How long a beacon that was woken waits for what comes with it: an editor writes a file in several steps.
const SETTLE: Duration = Duration::from_millis(200);

pub(super) struct Watch {
    pub(super) shared: Arc<Shared>,
    pub(super) entry: Entry,
    pub(super) beacon: Box<dyn Beacon>,
}

impl Watch {
    pub(super) async fn live(mut self) {
        loop {
            self.shared.until_quiet(&self.entry.name).await;
            self.shared.board.is(&self.entry.name, "looking");
            let began = Instant::now();
            self.look().await;
            self.shared.board.is(&self.entry.name, "waiting");
            let ended = Instant::now();
            // Never faster than its work takes.
            let rested = ended + ended.duration_since(began);
            let due = (began + self.entry.interval).max(rested);
            match self.beacon.wake() {
                Some(wake) => {
                    tokio::time::sleep_until(rested).await;
                    tokio::select! {
                        () = tokio::time::sleep_until(due) => {}
                        () = wake.notified() => tokio::time::sleep(SETTLE).await,
                    }
                }
                None => tokio::time::sleep_until(due).await,
            }
        }
    }

    async fn look(&mut self) {
        let Watch { shared, entry, beacon } = self;
        let mut busy = shared.busy.clone();
        busy.mark_unchanged();
        // What was seen while somebody changed the machine, or began to, is neither before nor after.
        let counts = || !*busy.borrow() && !busy.has_changed().unwrap_or(true);
        let now = || Moment { run: shared.since.elapsed(), wall: shared.link.now().0 / 1_000 };
        let (sample, problems, events) = match beacon.poll(&shared.eyes, &now, &counts).await {
            Ok(Looked::Discarded) => return,
            Ok(Looked::Sampled { sample, problems, events }) => (Some(sample), problems, events),
            Err(why) => (None, vec![why], Vec::new()),
        };
        let news = shared.board.looked(&entry.name, shared.link.now(), sample, problems, events.len());
        news.iter().for_each(|problem| tracing::warn!("the beacon `{}`: {problem}", entry.name));
        events.into_iter().for_each(|data| shared.tell(&entry.name, data));
    }
}

impl Shared {
    /// Waits until no execution changes the machine.
    async fn until_quiet(&self, beacon: &str) {
        let mut busy = self.busy.clone();
        if *busy.borrow() {
            self.board.is(beacon, "paused");
        }
        let _the_peel_ends = busy.wait_for(|busy| !busy).await;
    }

    fn tell(&self, beacon: &str, data: Data) {
        // Names were checked when they were read, and the dice of a link do not fail twice.
        let (Ok(name), Ok(id)) = (Token::parse(beacon), self.link.new_message_id()) else {
            return tracing::error!("the beacon `{beacon}` has an event that cannot be named");
        };
        let subject = EventSubject::Beacon { peel: self.peel.clone(), name };
        let event = Event {
            id: id.to_string(),
            tag: subject.tag(),
            data,
            ts: self.link.now(),
            v: VERSION,
            origin: String::new(),
            depth: 0,
        };
        tracing::info!(tag = %event.tag, "a beacon has seen something");
        self.made.get_or_create(&Made { beacon: beacon.to_string() }).inc();
        self.outbox.push(Waiting { subject: Subject::Event(subject), id, event });
    }
}
