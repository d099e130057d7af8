//! Durable readers in memory.

use super::client::Memory;
use super::faults::{Leg, SERVER};
use super::net::Net;
use super::state::State;
use super::store::MemoryStore;
use crate::durable::{Acknowledge, DurableReader, Pending, Reached, Start, Taken, adjustable};
use crate::error::{Error, Kind};
use crate::message::Sequence;
use crate::storage::{Drift, Found, compare};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the server remembers of one reader.
pub struct Reader {
    config: DurableReader,
    made: Duration,
    /// Everything before was given at least once, or came before the reader.
    next: Sequence,
    /// Deliveries so far.
    given: u64,
    unacked: BTreeMap<Sequence, Unacked>,
}

struct Unacked {
    /// When it is given again.
    due: Duration,
    deliveries: u64,
}

impl Reader {
    fn new(reader: &DurableReader, store: &MemoryStore, made: Duration) -> Reader {
        let next = match reader.start {
            Start::Oldest => store.first(">", 0, 1).first().map_or(0, |record| record.sequence),
            Start::New => store.last() + 1,
        };
        Reader { config: reader.clone(), made, next, given: 0, unacked: BTreeMap::new() }
    }

    /// Lets go of what the stream lost, and of what was given as often as it may be.
    fn forget(&mut self, store: &MemoryStore, now: Duration) {
        let most = self.config.max_deliver.unwrap_or(u64::MAX);
        self.unacked.retain(|sequence, unacked| {
            store.get(*sequence).is_some() && (unacked.due > now || unacked.deliveries < most)
        });
    }

    /// What is due again, then what is new.
    fn take(&mut self, store: &MemoryStore, count: usize, now: Duration) -> Vec<Taken> {
        self.forget(store, now);
        let again =
            self.unacked.iter().filter(|(_, unacked)| unacked.due <= now).map(|(sequence, _)| *sequence);
        let mut chosen: Vec<Sequence> = again.take(count).collect();
        let room = self.room().min(count - chosen.len());
        let new = store.first(&self.config.pattern, self.next, room);
        chosen.extend(new.iter().map(|record| record.sequence));
        chosen.into_iter().filter_map(|sequence| self.give(store, sequence, now)).collect()
    }

    fn room(&self) -> usize {
        self.config.unacked_max.saturating_sub(self.unacked.len())
    }

    /// Whether there is something to take.
    fn has_some(&self, store: &MemoryStore, now: Duration) -> bool {
        self.next_due().is_some_and(|due| due <= now)
            || !store.first(&self.config.pattern, self.next, self.room().min(1)).is_empty()
    }

    fn pending(&self, store: &MemoryStore) -> Pending {
        let waiting = store.first(&self.config.pattern, self.next, usize::MAX).len();
        let made = u64::try_from(self.made.as_millis()).unwrap_or(u64::MAX);
        let reached = Reached { made, given: self.given, sequence: self.next.saturating_sub(1) };
        Pending { waiting: waiting as u64, unacked: self.unacked.len() as u64, reached }
    }

    fn give(&mut self, store: &MemoryStore, sequence: Sequence, now: Duration) -> Option<Taken> {
        let record = store.get(sequence)?.clone();
        self.next = self.next.max(sequence + 1);
        self.given += 1;
        let unacked = self.unacked.entry(sequence).or_insert(Unacked { due: now, deliveries: 0 });
        unacked.due = now + self.config.ack_wait;
        unacked.deliveries += 1;
        let token = format!("{} {} {sequence}", store.config.stream_name(), self.config.name);
        Some(Taken { record, deliveries: unacked.deliveries, given: self.given, token })
    }

    fn acknowledge(&mut self, sequence: Sequence, what: Acknowledge, now: Duration) {
        let due = match what {
            Acknowledge::Done | Acknowledge::Never => {
                self.unacked.remove(&sequence);
                return;
            }
            Acknowledge::Later(delay) => now + delay,
            Acknowledge::Progress => now + self.config.ack_wait,
        };
        if let Some(unacked) = self.unacked.get_mut(&sequence) {
            unacked.due = due;
        }
    }

    fn next_due(&self) -> Option<Duration> {
        self.unacked.values().map(|unacked| unacked.due).min()
    }
}

impl MemoryStore {
    /// Something about one reader and what it reads.
    fn at_reader<T>(
        &mut self,
        name: &str,
        act: impl FnOnce(&mut Reader, &MemoryStore) -> T,
    ) -> Result<T, Error> {
        let mut reader = self.readers.remove(name).ok_or_else(|| Error::unavailable(name))?;
        let answer = act(&mut reader, self);
        self.readers.insert(name.into(), reader);
        Ok(answer)
    }
}

/// What a reader gave.
struct Batch {
    taken: Vec<Taken>,
    /// When something is given again.
    due: Option<Duration>,
}

impl Memory {
    pub(super) async fn ensure_durable(&self, reader: &DurableReader) -> Result<Found, Error> {
        reader.check()?;
        let wanted = reader.clone();
        self.at_store(&reader.stream, Kind::Missing, move |store, now| {
            if let Some(existing) = store.readers.get(&wanted.name) {
                let found = existing.config.settings();
                return Ok(Found::Existing(compare(&wanted.title(), wanted.settings(), found)));
            }
            let made = Reader::new(&wanted, store, now);
            store.readers.insert(wanted.name, made);
            Ok(Found::Created)
        })
        .await
    }

    pub(super) async fn adjust_durable(&self, reader: &DurableReader) -> Result<Vec<Drift>, Error> {
        reader.check()?;
        let wanted = reader.clone();
        let act = move |store: &mut MemoryStore, _| {
            store.at_reader(&wanted.name, |known, _| {
                let found = known.config.settings();
                known.config.ack_wait = wanted.ack_wait;
                known.config.unacked_max = wanted.unacked_max;
                known.config.max_deliver = wanted.max_deliver;
                adjustable(compare(&wanted.title(), wanted.settings(), found))
            })
        };
        self.at_store(&reader.stream, Kind::Missing, act).await
    }

    pub(super) async fn pending_of(&self, reader: &DurableReader) -> Result<Pending, Error> {
        reader.check()?;
        let name = reader.name.clone();
        let act = move |store: &mut MemoryStore, now| {
            store.at_reader(&name, |reader, store| {
                reader.forget(store, now);
                reader.pending(store)
            })
        };
        self.at_store(&reader.stream, Kind::Missing, act).await
    }

    /// An answer that is lost on its way back is given again after a while.
    pub(super) async fn take_durable(
        &self,
        reader: &DurableReader,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Taken>, Error> {
        let end = self.net.timer.now() + wait;
        loop {
            let name = reader.name.clone();
            let act = move |store: &mut MemoryStore, now| {
                store.at_reader(&name, |reader, store| {
                    let taken = reader.take(store, count, now);
                    Batch { taken, due: reader.next_due() }
                })
            };
            let batch = self.at_store(&reader.stream, Kind::Unavailable, act).await?;
            if !batch.taken.is_empty() || self.net.timer.now() >= end {
                return Ok(batch.taken);
            }
            let wake = batch.due.map_or(end, |due| due.min(end));
            self.until_closed(self.news(reader, wake)).await?;
        }
    }

    /// Until a reader has something to give, or is not there any more, or the time is over.
    async fn news(&self, reader: &DurableReader, end: Duration) -> Result<(), Error> {
        let mut changes = self.net.changes();
        let end = self.net.timer.sleep_until(end);
        let more = async {
            loop {
                changes.mark_unchanged();
                let now = self.net.timer.now();
                let waits = self.net.lock().stores.get(&reader.stream).is_some_and(|store| {
                    store.readers.get(&reader.name).is_some_and(|known| !known.has_some(store, now))
                });
                if !waits {
                    return Ok(());
                }
                changes.changed().await;
            }
        };
        tokio::select! {
            biased;
            more = more => more,
            () = end => Ok(()),
        }
    }

    /// Sent, not asked: nobody answers.
    pub(super) fn acknowledge_taken(&self, taken: &Taken, what: Acknowledge) -> Result<(), Error> {
        self.ready(&taken.token, 0)?;
        let words: Vec<&str> = taken.token.split(' ').collect();
        let &[stream, name, sequence] = words.as_slice() else {
            return Err(Error::new(Kind::Invalid, "not a message that was taken"));
        };
        let mut state = self.net.lock();
        let fate = state.fate(Leg { from: &self.name, to: SERVER, subject: stream });
        let Some(delay) = fate.first().copied() else { return Ok(()) };
        let (stream, name, sequence) = (stream.to_string(), name.to_string(), sequence.parse().unwrap_or(0));
        let arrival = move |_: &Net, state: &mut State, now| {
            let reader = state.stores.get_mut(&stream).and_then(|store| store.readers.get_mut(&name));
            if let Some(reader) = reader {
                reader.acknowledge(sequence, what, now);
            }
        };
        self.net.carry(&mut state, self.number, delay, Box::new(arrival));
        Ok(())
    }
}
