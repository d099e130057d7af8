//! Durable readers in memory.

use super::client::Memory;
use super::faults::{Leg, SERVER};
use super::net::Net;
use super::state::State;
use super::store::MemoryStore;
use crate::durable::{Acknowledge, DurableReader, Taken};
use crate::error::{Error, Kind};
use crate::message::Sequence;
use crate::pattern::{check_name, check_pattern};
use std::collections::BTreeMap;
use std::time::Duration;

/// What the server remembers of one reader.
pub struct Reader {
    pattern: String,
    ack_wait: Duration,
    unacked_max: usize,
    /// Everything before was given at least once.
    next: Sequence,
    unacked: BTreeMap<Sequence, Unacked>,
}

struct Unacked {
    /// When it is given again.
    due: Duration,
    deliveries: u64,
}

impl Reader {
    fn new(reader: &DurableReader) -> Reader {
        Reader {
            pattern: reader.pattern.clone(),
            ack_wait: reader.ack_wait,
            unacked_max: reader.unacked_max,
            next: 0,
            unacked: BTreeMap::new(),
        }
    }

    /// What is due again, then what is new.
    fn take(&mut self, name: &str, store: &MemoryStore, count: usize, now: Duration) -> Vec<Taken> {
        self.unacked.retain(|sequence, _| store.get(*sequence).is_some());
        let again =
            self.unacked.iter().filter(|(_, unacked)| unacked.due <= now).map(|(sequence, _)| *sequence);
        let mut chosen: Vec<Sequence> = again.take(count).collect();
        let room = self.unacked_max.saturating_sub(self.unacked.len()).min(count - chosen.len());
        chosen.extend(store.first(&self.pattern, self.next, room).iter().map(|record| record.sequence));
        chosen.into_iter().filter_map(|sequence| self.give(name, store, sequence, now)).collect()
    }

    fn give(&mut self, name: &str, store: &MemoryStore, sequence: Sequence, now: Duration) -> Option<Taken> {
        let record = store.get(sequence)?.clone();
        self.next = self.next.max(sequence + 1);
        let unacked = self.unacked.entry(sequence).or_insert(Unacked { due: now, deliveries: 0 });
        unacked.due = now + self.ack_wait;
        unacked.deliveries += 1;
        let token = format!("{} {name} {sequence}", store.config.stream_name());
        Some(Taken { record, deliveries: unacked.deliveries, token })
    }

    fn acknowledge(&mut self, sequence: Sequence, what: Acknowledge, now: Duration) {
        match what {
            Acknowledge::Done => {
                self.unacked.remove(&sequence);
            }
            Acknowledge::Later(delay) => {
                if let Some(unacked) = self.unacked.get_mut(&sequence) {
                    unacked.due = now + delay;
                }
            }
        }
    }

    fn next_due(&self) -> Option<Duration> {
        self.unacked.values().map(|unacked| unacked.due).min()
    }
}

impl MemoryStore {
    fn take(&mut self, name: &str, count: usize, now: Duration) -> Result<Batch, Error> {
        let mut reader = self.readers.remove(name).ok_or_else(|| Error::unavailable(name))?;
        let taken = reader.take(name, self, count, now);
        let batch = Batch { taken, due: reader.next_due(), last: self.last() };
        self.readers.insert(name.into(), reader);
        Ok(batch)
    }
}

/// What a reader gave.
struct Batch {
    taken: Vec<Taken>,
    /// When something is given again.
    due: Option<Duration>,
    /// The last message of the stream, whether it was given or not.
    last: Sequence,
}

impl Memory {
    pub(super) async fn ensure_durable(&self, reader: &DurableReader) -> Result<(), Error> {
        check_name(&reader.stream)?;
        check_name(&reader.name)?;
        check_pattern(&reader.pattern)?;
        let made = reader.clone();
        self.at_store(&reader.stream, Kind::Missing, move |store, _| {
            store.readers.entry(made.name.clone()).or_insert_with(|| Reader::new(&made));
            Ok(())
        })
        .await
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
            let act = move |store: &mut MemoryStore, now| store.take(&name, count, now);
            let batch = self.at_store(&reader.stream, Kind::Unavailable, act).await?;
            if !batch.taken.is_empty() || self.net.timer.now() >= end {
                return Ok(batch.taken);
            }
            let wake = batch.due.map_or(end, |due| due.min(end));
            self.until_closed(self.news(&reader.stream, batch.last, wake)).await?;
        }
    }

    /// Until a stream has more than it had, or the time is over.
    async fn news(&self, stream: &str, last: Sequence, end: Duration) -> Result<(), Error> {
        let mut changes = self.net.changes();
        let end = self.net.timer.sleep_until(end);
        let more = async {
            loop {
                changes.mark_unchanged();
                let now_last = self.net.lock().stores.get(stream).map(MemoryStore::last);
                if now_last != Some(last) {
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
