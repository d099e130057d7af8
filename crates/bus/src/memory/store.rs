//! One stream or bucket in memory.

use super::durable::Reader;
use crate::error::{Error, Kind};
use crate::limits::{DUPLICATE_WINDOW_DEFAULT, PAGE_BYTES_MAX, PAGE_MESSAGES_MAX, STALE_MAX};
use crate::message::{Page, Record, Sequence, Stored, Usage};
use crate::pattern::{fixed_part, matches};
use crate::storage::{Store, WhenFull};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

pub struct MemoryStore {
    pub config: Store,
    pub replicas: usize,
    /// How often it was made again: what is of another making says nothing of this one.
    pub making: u64,
    /// Watches that are alive.
    pub consumers: usize,
    records: BTreeMap<Sequence, Record>,
    by_subject: BTreeMap<String, BTreeSet<Sequence>>,
    last: Sequence,
    bytes: u64,
    ids: HashMap<String, Sequence>,
    ids_by_age: VecDeque<(Duration, String)>,
    /// It takes no more bytes than this, though it was made for more.
    full_at: Option<u64>,
    led: bool,
    /// What stood under a subject before it was written, for reads that are behind.
    past: VecDeque<Past>,
    /// Durable readers by name.
    pub readers: BTreeMap<String, Reader>,
}

struct Past {
    until: Duration,
    subject: String,
    record: Option<Record>,
}

impl MemoryStore {
    pub fn new(config: Store, replicas: usize) -> MemoryStore {
        MemoryStore {
            config,
            replicas,
            making: 0,
            consumers: 0,
            records: BTreeMap::new(),
            by_subject: BTreeMap::new(),
            last: 0,
            bytes: 0,
            ids: HashMap::new(),
            ids_by_age: VecDeque::new(),
            full_at: None,
            led: true,
            past: VecDeque::new(),
            readers: BTreeMap::new(),
        }
    }

    /// The same store, removed and made again.
    pub fn made_again(&self) -> MemoryStore {
        MemoryStore { making: self.making + 1, ..MemoryStore::new(self.config.clone(), self.replicas) }
    }

    pub fn takes(&self, subject: &str) -> bool {
        self.config.subjects.iter().any(|pattern| matches(pattern, subject))
    }

    pub fn set_full(&mut self, full: bool) {
        self.full_at = full.then_some(self.bytes);
    }

    pub fn set_led(&mut self, led: bool) {
        self.led = led;
    }

    /// Fails while there is no leader.
    pub fn led(&self) -> Result<(), Error> {
        if self.led { Ok(()) } else { Err(Error::unavailable(&self.config.name)) }
    }

    /// Forgets what is too old. Everything else here sees only what this has left.
    pub fn expire(&mut self, now: Duration) {
        if let Some(age) = self.config.max_age {
            while let Some((sequence, record)) = self.records.first_key_value()
                && Duration::from_millis(record.at) + age <= now
            {
                let sequence = *sequence;
                self.remove(sequence);
            }
        }
        while let Some(past) = self.past.front()
            && past.until + STALE_MAX <= now
        {
            self.past.pop_front();
        }
        let window = self.config.duplicate_window.unwrap_or(DUPLICATE_WINDOW_DEFAULT);
        let window = self.config.max_age.map_or(window, |age| window.min(age));
        while let Some((at, _)) = self.ids_by_age.front()
            && *at + window <= now
        {
            if let Some((_, id)) = self.ids_by_age.pop_front() {
                self.ids.remove(&id);
            }
        }
    }

    pub fn append(
        &mut self,
        subject: &str,
        payload: Bytes,
        id: Option<&str>,
        expected: Option<Sequence>,
        now: Duration,
    ) -> Result<Stored, Error> {
        let stored = |sequence, duplicate| Stored { stream: self.config.stream_name(), sequence, duplicate };
        if let Some(sequence) = id.and_then(|id| self.ids.get(id)) {
            return Ok(stored(*sequence, true));
        }
        let found = self.last_of(subject).map_or(0, |record| record.sequence);
        if expected.is_some_and(|expected| expected != found) {
            let what = format!("{subject}: its revision is {found}, not the expected one");
            return Err(Error::new(Kind::Conflict, what));
        }
        let answer = stored(self.last + 1, false);
        self.check_room(subject, &payload)?;
        self.note_past(subject, now);
        self.make_room(subject, &payload);
        self.last += 1;
        if let Some(id) = id {
            self.ids.insert(id.into(), self.last);
            self.ids_by_age.push_back((now, id.into()));
        }
        self.bytes += size(subject, &payload);
        self.by_subject.entry(subject.into()).or_default().insert(self.last);
        let at = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let record = Record { subject: subject.into(), payload, sequence: self.last, at };
        self.records.insert(self.last, record);
        Ok(answer)
    }

    /// What the server checks before it touches anything: a refused write leaves the old value.
    fn check_room(&self, subject: &str, payload: &Bytes) -> Result<(), Error> {
        let limit = usize::try_from(self.config.max_message_bytes).unwrap_or(usize::MAX);
        if payload.len() > limit {
            return Err(Error::too_large(subject, payload.len(), limit));
        }
        if self.config.when_full == WhenFull::DropOldest && self.full_at.is_none() {
            return Ok(());
        }
        // A key that is at its limit gives up its oldest value. The server lets a write through that needs less than that
        // gives back.
        let replaced = self.config.per_subject.and_then(|limit| self.of_subject(subject, limit));
        let freed = replaced.and_then(|sequence| self.records.get(&sequence));
        let freed = freed.map_or(0, |record| size(&record.subject, &record.payload));
        let size = size(subject, payload);
        let max_bytes = self.full_at.unwrap_or(self.config.max_bytes);
        let too_many = self.config.max_messages.is_some_and(|most| self.records.len() as u64 >= most);
        if (too_many && replaced.is_none()) || (self.bytes + size > max_bytes && size >= freed) {
            return Err(Error::new(Kind::Full, format!("{} is full", self.config.name)));
        }
        Ok(())
    }

    /// Removes what gives way.
    fn make_room(&mut self, subject: &str, payload: &Bytes) {
        if let Some(limit) = self.config.per_subject {
            while let Some(first) = self.of_subject(subject, limit) {
                self.remove(first);
            }
        }
        if self.config.when_full == WhenFull::Refuse {
            return;
        }
        let size = size(subject, payload);
        let messages = self.config.max_messages.unwrap_or(u64::MAX);
        while self.bytes + size > self.config.max_bytes || self.records.len() as u64 >= messages {
            let Some(oldest) = self.records.keys().next().copied() else { return };
            self.remove(oldest);
        }
    }

    fn note_past(&mut self, subject: &str, now: Duration) {
        let record = self.last_of(subject).cloned();
        self.past.push_back(Past { until: now, subject: subject.into(), record });
    }

    /// What stood under a subject at a moment: what a server answers that lags behind.
    pub fn last_at(&self, subject: &str, moment: Duration) -> Option<&Record> {
        let later = self.past.iter().find(|past| past.until > moment && past.subject == subject);
        match later {
            Some(past) => past.record.as_ref(),
            None => self.last_of(subject),
        }
    }

    /// The oldest of a subject that has reached its limit.
    fn of_subject(&self, subject: &str, limit: u64) -> Option<Sequence> {
        let sequences = self.by_subject.get(subject)?;
        (sequences.len() as u64 >= limit).then(|| sequences.first().copied()).flatten()
    }

    fn remove(&mut self, sequence: Sequence) {
        let Some(record) = self.records.remove(&sequence) else { return };
        self.bytes -= size(&record.subject, &record.payload);
        if let Some(sequences) = self.by_subject.get_mut(&record.subject) {
            sequences.remove(&sequence);
            if sequences.is_empty() {
                self.by_subject.remove(&record.subject);
            }
        }
    }

    pub fn last_of(&self, subject: &str) -> Option<&Record> {
        self.records.get(self.by_subject.get(subject)?.last()?)
    }

    pub fn purge(&mut self, subject: &str, expected: Option<Sequence>, now: Duration) -> Result<(), Error> {
        let found = self.last_of(subject).map(|record| record.sequence);
        if expected.is_some() && expected != found {
            let what = format!("{subject}: its revision is not the expected one");
            return Err(Error::new(Kind::Conflict, what));
        }
        let sequences = self.by_subject.get(subject).cloned().unwrap_or_default();
        self.note_past(subject, now);
        sequences.into_iter().for_each(|sequence| self.remove(sequence));
        Ok(())
    }

    pub fn subjects(&self, pattern: &str) -> Vec<String> {
        self.matching(pattern).map(|(subject, _)| subject.clone()).collect()
    }

    fn matching<'a>(
        &'a self,
        pattern: &'a str,
    ) -> impl Iterator<Item = (&'a String, &'a BTreeSet<Sequence>)> {
        let fixed = fixed_part(pattern);
        let from = self.by_subject.range(fixed.to_string()..);
        let begins = from.take_while(move |(subject, _)| subject.starts_with(fixed));
        begins.filter(move |(subject, _)| matches(pattern, subject))
    }

    pub fn page(&self, pattern: &str, from: Sequence) -> Page<Record> {
        let sequences: BTreeSet<Sequence> =
            self.matching(pattern).flat_map(|(_, sequences)| sequences.range(from..).copied()).collect();
        let mut items: Vec<Record> = Vec::new();
        let mut bytes = 0;
        for record in sequences.iter().filter_map(|sequence| self.records.get(sequence)) {
            if items.len() >= PAGE_MESSAGES_MAX || bytes >= PAGE_BYTES_MAX {
                return Page { next: items.last().map(|last| last.sequence + 1), items };
            }
            bytes += record.payload.len();
            items.push(record.clone());
        }
        Page { items, next: None }
    }

    pub fn last(&self) -> Sequence {
        self.last
    }

    pub fn get(&self, sequence: Sequence) -> Option<&Record> {
        self.records.get(&sequence)
    }

    /// The first messages of a pattern from a place on.
    pub fn first(&self, pattern: &str, from: Sequence, count: usize) -> Vec<Record> {
        let fits = self.records.range(from..).filter(|(_, record)| matches(pattern, &record.subject));
        fits.take(count).map(|(_, record)| record.clone()).collect()
    }

    /// The last value of each subject that was written after a place, oldest first.
    pub fn since(&self, pattern: &str, after: Sequence) -> Vec<Record> {
        let lasts: BTreeSet<Sequence> =
            self.matching(pattern).filter_map(|(_, sequences)| sequences.last().copied()).collect();
        lasts.range(after + 1..).filter_map(|sequence| self.records.get(sequence).cloned()).collect()
    }

    pub fn usage(&self) -> Usage {
        Usage {
            messages: self.records.len() as u64,
            bytes: self.bytes,
            limit: Some(self.config.max_bytes),
            led: true,
            consumers: self.consumers + self.readers.len(),
            last: self.last,
        }
    }
}

/// What a message counts against the limit of its store. The server counts a little more.
fn size(subject: &str, payload: &Bytes) -> u64 {
    (subject.len() + payload.len()) as u64
}
