//! Events: sent by an operator, and watched by one.
//!
//! Watching costs the server no consumer: a subscription brings what happens, and the stream is read for what was before and
//! for what a lost connection or a full queue kept from us. So an event may reach us twice, and is shown once.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{ASK_PAUSE, EVENTS_REMEMBERED, WATCH_QUEUE};
use serde_json::{Map, Value};
use std::collections::{HashSet, VecDeque};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::storage::{self, EVENTS};
use zester_bus::{Delivery, Events, Kind, Listen, Record, Sequence, Subscription};
use zester_link::Came;
use zester_wire::{Event, EventSubject, MessageId, Subject, Tag, UnixMillis, VERSION, subject};

/// An event as the stream has it.
#[derive(Clone, Debug, PartialEq)]
pub struct SeenEvent {
    /// Who sent it, and under what tag.
    pub subject: EventSubject,
    pub event: Event,
    /// When the stream took it; of one that has just come, when we saw it.
    pub at: UnixMillis,
    /// Its place in the stream, where that is known.
    pub sequence: Option<Sequence>,
}

/// What became of an event that was sent.
#[derive(Clone, Debug, PartialEq)]
pub struct SentEvent {
    pub subject: EventSubject,
    pub event: Event,
    pub sequence: Sequence,
}

impl Client {
    /// Sends an event as an operator, and waits until it is kept. Sent again until then, it is kept once.
    pub async fn send_event(&self, tag: Tag, data: Map<String, Value>) -> Result<SentEvent, Error> {
        let id = self.link.new_token()?;
        let message_id = MessageId::parse(id.as_str())
            .map_err(|bad| zester_bus::Error::new(Kind::Invalid, bad.to_string()))?;
        let event = Event {
            id: id.as_str().to_string(),
            tag: tag.clone(),
            data,
            ts: self.link.now(),
            v: VERSION,
            origin: String::new(),
            depth: 0,
        };
        let subject = EventSubject::Admin { tag };
        let to = Subject::Event(subject.clone());
        let end = Instant::now() + self.patience;
        loop {
            match self.link.publish_stored(&to, &message_id, &event).await {
                Ok(stored) => return Ok(SentEvent { subject, event, sequence: stored.sequence }),
                Err(error) if error.retryable() && Instant::now() + ASK_PAUSE < end => {
                    tokio::time::sleep(ASK_PAUSE).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What happens from now on, after what happened in the last so long.
    pub async fn watch_events(&self, since: Option<Duration>) -> Result<EventWatch, Error> {
        let connection = self.link.bus().events();
        let listen = Listen::alone(WATCH_QUEUE);
        let subscription = self.link.bus().subscribe(subject::EVENTS, listen).await?;
        let (next, unread) = match since {
            Some(since) => {
                let from = self.first_since(EVENTS, since).await?;
                (from, Some(from))
            }
            None => (self.last_of(EVENTS).await?.saturating_add(1), None),
        };
        let (ready, shown) = (VecDeque::new(), Recent::default());
        Ok(EventWatch { client: self.clone(), subscription, connection, next, unread, ready, shown })
    }

    /// Shows every message of the stream of events of the last so long, oldest first, as it came: also what is no event.
    pub async fn each_stored_event(&self, since: Duration, show: impl FnMut(&Record)) -> Result<(), Error> {
        self.each_since(EVENTS, subject::EVENTS, since, show).await
    }

    /// Shows every record that a stream took in the last so long, oldest first.
    pub(crate) async fn each_since(
        &self,
        stream: &str,
        pattern: &str,
        since: Duration,
        mut show: impl FnMut(&Record),
    ) -> Result<(), Error> {
        let begin = UnixMillis(self.link.now().0.saturating_sub(zester_wire::time::as_millis(since)));
        let mut from = Some(self.first_since(stream, since).await?);
        while let Some(start) = from {
            let page = self.link.bus().replay(stream, pattern, start).await?;
            page.items.iter().filter(|record| record.at >= begin.0).for_each(&mut show);
            from = page.next;
        }
        Ok(())
    }

    /// The place of the first message that a stream took in the last so long, found by halves: a stream may be long.
    async fn first_since(&self, stream: &str, since: Duration) -> Result<Sequence, Error> {
        let begin = self.link.now().0.saturating_sub(zester_wire::time::as_millis(since));
        let (mut low, mut high) = (1, self.last_of(stream).await?.saturating_add(1));
        while low < high {
            let middle = low + (high - low) / 2;
            // What is gone was there before what is left.
            let early = self.link.bus().at(stream, middle).await?.is_none_or(|record| record.at < begin);
            if early {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    async fn last_of(&self, stream: &str) -> Result<Sequence, Error> {
        let missing = || zester_bus::Error::new(Kind::Missing, format!("there is no stream `{stream}`"));
        let table = storage::table();
        let store = table.iter().find(|store| store.name == stream).ok_or_else(missing)?;
        Ok(self.link.bus().end(store).await?)
    }
}

/// The event of a record; none where it is none.
pub(crate) fn event_of(client: &Client, record: &Record) -> Option<SeenEvent> {
    opened(client, &record.subject, record, UnixMillis(record.at), Some(record.sequence))
}

/// What cannot be read is no event; whoever wrote it is to blame, and the reactor counts it.
fn opened<'a>(
    client: &Client,
    subject: &str,
    came: impl Into<Came<'a>>,
    at: UnixMillis,
    sequence: Option<Sequence>,
) -> Option<SeenEvent> {
    let parsed = Subject::parse(subject).ok()?;
    let Subject::Event(of) = &parsed else { return None };
    let event = client.link.open_addressed::<Event>(&parsed, came)?.message;
    Some(SeenEvent { subject: of.clone(), event, at, sequence })
}

/// Events as they come.
pub struct EventWatch {
    client: Client,
    subscription: Subscription,
    connection: Events,
    /// Everything of the stream before this place has been shown.
    next: Sequence,
    /// From here on the stream is to be read.
    unread: Option<Sequence>,
    ready: VecDeque<SeenEvent>,
    shown: Recent,
}

impl EventWatch {
    /// The next event; none when the connection was closed. May be cancelled: nothing is lost.
    pub async fn next(&mut self) -> Result<Option<SeenEvent>, Error> {
        loop {
            if let Some(seen) = self.ready.pop_front() {
                return Ok(Some(seen));
            }
            if let Some(start) = self.unread {
                self.read(start).await?;
                continue;
            }
            if self.shown.is_half_full() {
                // What is remembered must reach back to where the stream would be read from.
                self.unread = Some(self.next);
                continue;
            }
            tokio::select! {
                biased;
                event = self.connection.next() => match event {
                    Some(zester_bus::Event::Reconnected | zester_bus::Event::Missed(_)) => {
                        self.unread = Some(self.next);
                    }
                    Some(_) => {}
                    None => return Ok(None),
                },
                delivery = self.subscription.next() => match delivery {
                    Some(Delivery::Message(message)) => {
                        let now = self.client.link.now();
                        let seen = opened(&self.client, &message.subject, &message.payload, now, None);
                        self.ready.extend(seen.filter(|seen| self.shown.is_new(seen)));
                    }
                    Some(missed) => {
                        self.client.link.delivered(missed);
                        self.unread = Some(self.next);
                    }
                    None => return Ok(None),
                },
            }
        }
    }

    /// Reads a page of the stream.
    async fn read(&mut self, start: Sequence) -> Result<(), Error> {
        let page = match self.client.link.bus().replay(EVENTS, subject::EVENTS, start).await {
            Ok(page) => page,
            // It is read when the connection is back; until then nothing comes either.
            Err(error) if error.kind() == Kind::Disconnected => {
                self.unread = None;
                return Ok(());
            }
            Err(error) if error.kind().retryable() => {
                tokio::time::sleep(ASK_PAUSE).await;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        for record in &page.items {
            self.next = self.next.max(record.sequence.saturating_add(1));
            let seen = event_of(&self.client, record);
            self.ready.extend(seen.filter(|seen| self.shown.is_new(seen)));
        }
        self.unread = page.next;
        if self.unread.is_none() {
            self.shown.age();
        }
        Ok(())
    }
}

/// Which events were shown lately. Two generations, so that what is old can be forgotten at once.
#[derive(Default)]
struct Recent {
    young: HashSet<(EventSubject, String)>,
    old: HashSet<(EventSubject, String)>,
}

impl Recent {
    fn is_new(&mut self, seen: &SeenEvent) -> bool {
        if self.young.len() >= EVENTS_REMEMBERED {
            self.age();
        }
        let key = (seen.subject.clone(), seen.event.id.clone());
        !self.old.contains(&key) && self.young.insert(key)
    }

    fn is_half_full(&self) -> bool {
        self.young.len() >= EVENTS_REMEMBERED / 2
    }

    /// The stream has been read to its end: what was shown before the last time can come no more.
    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }
}
