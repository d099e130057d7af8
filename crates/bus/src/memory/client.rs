//! One connection to the memory bus.

use super::faults::{Leg, SERVER};
use super::net::Net;
use super::state::{Client, Listener, State};
use super::store::MemoryStore;
use super::watch::Follower;
use crate::durable::{Acknowledge, DurableReader, Pending, Taken};
use crate::error::{Error, Kind};
use crate::event::{Event, EventSender, Events};
use crate::limits::{ANSWER_TIMEOUT, STALE_MAX};
use crate::message::{Entry, Info, Message, Page, Record, Sequence, Stored, Usage};
use crate::pattern::{check_name, check_pattern, check_subject, key_of, stream_of, subject_of};
use crate::queue::{Delivery, Queue};
use crate::storage::{Drift, Found, Store, compare};
use crate::subscription::{Listen, OnDrop, Subscription, Watch};
use crate::{Answer, Bus, Bytes};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

/// A client of a [`Net`].
pub struct Memory {
    pub(super) net: Net,
    pub(super) name: String,
    pub(super) number: u64,
    event_sender: EventSender,
    closed: CancellationToken,
}

impl Memory {
    pub(super) fn new(net: Net, name: &str) -> Memory {
        let event_sender = EventSender::new();
        let mut state = net.lock();
        let number = state.number();
        state.clients.insert(number, Client::new(name, event_sender.clone()));
        drop(state);
        Memory { net, name: name.into(), number, event_sender, closed: CancellationToken::new() }
    }

    /// Fails where the real client would: closed, without a connection, or with more than the server takes.
    pub(super) fn ready(&self, what: &str, size: usize) -> Result<(), Error> {
        if self.closed.is_cancelled() {
            return Err(Error::closed());
        }
        let state = self.net.lock();
        if !state.is_connected(self.number) {
            return Err(Error::disconnected());
        }
        if size > state.max_payload {
            return Err(Error::too_large(what, size, state.max_payload));
        }
        Ok(())
    }

    pub(super) async fn until_closed<T>(
        &self,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.closed.run_until_cancelled(call).await {
            Some(answer) => answer,
            None => Err(Error::closed()),
        }
    }

    /// Carries a question to the server and the answer back. Either may be lost, and the caller cannot tell which. What is
    /// under way arrives whether or not anybody still waits: a write that timed out may be done later.
    async fn at_server<T: Send + 'static>(
        &self,
        what: &str,
        size: usize,
        act: impl FnOnce(&Net, &mut State, Duration) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.ready(what, size)?;
        let start = self.net.timer.now();
        let (told, answer) = oneshot::channel();
        {
            let mut state = self.net.lock();
            let fate = state.fate(Leg { from: &self.name, to: SERVER, subject: what });
            if let Some(delay) = fate.first() {
                let arrival = move |net: &Net, state: &mut State, now| {
                    // Whoever gave up meanwhile is not told.
                    let _unheard = told.send(act(net, state, now));
                };
                self.net.carry(&mut state, self.number, *delay, Box::new(arrival));
            }
        }
        let call = async {
            let Ok(answer) = answer.await else { return std::future::pending().await };
            let fate = self.net.lock().fate(Leg { from: SERVER, to: &self.name, subject: what });
            match fate.first() {
                None => return std::future::pending().await,
                Some(delay) if delay.is_zero() => {}
                Some(delay) => self.net.timer.sleep_until(self.net.timer.now() + *delay).await,
            }
            if !self.net.lock().is_reached(self.number) {
                return std::future::pending().await;
            }
            answer
        };
        let in_time = async {
            tokio::select! {
                biased;
                answer = call => answer,
                () = self.net.timer.sleep_until(start + ANSWER_TIMEOUT) => Err(Error::timeout(what)),
            }
        };
        self.until_closed(in_time).await
    }

    async fn write(
        &self,
        bucket: &str,
        key: &str,
        value: Bytes,
        expected: Option<Sequence>,
    ) -> Result<Sequence, Error> {
        check_name(bucket)?;
        check_subject(key)?;
        let subject = subject_of(bucket, key);
        self.store(&subject, value, None, expected).await.map(|stored| stored.sequence)
    }

    async fn store(
        &self,
        subject: &str,
        payload: Bytes,
        id: Option<&str>,
        expected: Option<Sequence>,
    ) -> Result<Stored, Error> {
        let message = Message { subject: subject.into(), reply: None, payload: payload.clone() };
        let (size, name, id) = (payload.len(), self.name.clone(), id.map(str::to_string));
        self.at_server(subject, size, move |net, state, now| {
            let stored = state.keep(&message.subject, payload, id.as_deref(), expected, now);
            // Whoever listens hears it, kept or not.
            net.send(state, &name, &message);
            stored
        })
        .await
    }

    /// Asks the leader of one bucket or stream something.
    pub(super) async fn at_store<T: Send + 'static>(
        &self,
        stream: &str,
        missing: Kind,
        act: impl FnOnce(&mut MemoryStore, Duration) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let name = stream.to_string();
        self.at_server(stream, 0, move |_, state, now| act(state.store(&name, missing, now)?, now)).await
    }

    /// Asks any server that has a bucket or stream for the last message of a subject. It may be behind.
    async fn direct_get(&self, stream: &str, subject: &str) -> Result<Option<Record>, Error> {
        let (client, name, wanted) = (self.name.clone(), stream.to_string(), subject.to_string());
        self.at_server(stream, 0, move |_, state, now| {
            let lag = state.faults.lag(&client, &name).min(STALE_MAX);
            let store = state.replica(&name, Kind::Unavailable, now)?;
            Ok(store.last_at(&wanted, now.saturating_sub(lag)).cloned())
        })
        .await
    }

    async fn ask(&self, subject: &str, payload: Bytes, timeout: Duration) -> Result<Message, Error> {
        check_subject(subject)?;
        self.ready(subject, payload.len())?;
        let queue = Queue::new(1);
        let inbox = format!("_INBOX.{}", self.net.lock().number());
        let listening = self.add_listener(&inbox, None, queue.clone());
        let message = Message { subject: subject.into(), reply: Some(inbox), payload };
        let (told, heard) = oneshot::channel();
        let name = self.name.clone();
        let arrival = move |net: &Net, state: &mut State, _: Duration| {
            let _unheard = told.send(net.send(state, &name, &message));
        };
        self.net.carry(&mut self.net.lock(), self.number, Duration::ZERO, Box::new(arrival));
        let nobody = async {
            match heard.await {
                Ok(0) => {}
                _ => std::future::pending().await,
            }
        };
        let deadline = self.net.timer.sleep_until(self.net.timer.now() + timeout);
        let answer = async {
            tokio::select! {
                biased;
                () = nobody => Err(Error::new(Kind::NoResponders, format!("{subject}: no responders"))),
                answer = queue.next() => match answer {
                    Some((_, Delivery::Message(message))) => Ok(message),
                    _ => Err(Error::closed()),
                },
                () = deadline => Err(Error::timeout(subject)),
            }
        };
        let answer = self.until_closed(answer).await;
        drop(listening);
        answer
    }

    fn add_listener(&self, pattern: &str, group: Option<String>, queue: Queue) -> OnDrop {
        let listener =
            Listener { client: self.number, pattern: pattern.into(), group, queue, keeping_up: true };
        let number = self.net.lock().listen(listener);
        let net = self.net.clone();
        OnDrop::new(move || net.lock().forget(number))
    }

    async fn follow(&self, bucket: &str, pattern: &str, capacity: usize) -> Result<Watch, Error> {
        check_name(bucket)?;
        check_pattern(pattern)?;
        let stream = stream_of(bucket);
        let making = self
            .at_store(&stream, Kind::Unavailable, |store, _| {
                store.consumers += 1;
                Ok(store.making)
            })
            .await?;
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let follower = Follower {
            net: self.net.clone(),
            client: self.number,
            bucket: bucket.into(),
            filter: subject_of(bucket, pattern),
            after: 0,
            making,
        };
        let closed = self.closed.clone();
        let task = tokio::spawn(async move {
            closed.run_until_cancelled(follower.follow(sender)).await;
        });
        let net = self.net.clone();
        let end = OnDrop::new(move || {
            task.abort();
            if let Some(store) = net.lock().stores.get_mut(&stream) {
                // A store that was made again meanwhile knows of no watch.
                store.consumers = store.consumers.saturating_sub(1);
            }
        });
        Ok(Watch::new(receiver, end))
    }

    fn shut(&self) {
        if self.closed.is_cancelled() {
            return;
        }
        self.closed.cancel();
        self.net.lock().close(self.number);
        self.event_sender.send(Event::Closed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.shut();
    }
}

pub(super) fn entry_of(bucket: &str, record: Record) -> Option<Entry> {
    let key = key_of(bucket, &record.subject)?.to_string();
    Some(Entry { key, value: record.payload, revision: record.sequence, at: record.at })
}

impl Bus for Memory {
    fn info(&self) -> Info {
        let state = self.net.lock();
        Info {
            connected: state.is_connected(self.number),
            version: "memory".into(),
            max_payload: state.max_payload,
            servers: state.servers,
            single_reads: false,
        }
    }

    fn events(&self) -> Events {
        self.event_sender.listen()
    }

    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, ()> {
        Box::pin(async move {
            check_subject(subject)?;
            self.ready(subject, payload.len())?;
            let message = Message { subject: subject.into(), reply: None, payload };
            let name = self.name.clone();
            let mut state = self.net.lock();
            let kept = !state.fate(Leg { from: &self.name, to: SERVER, subject }).is_empty();
            let arrival = move |net: &Net, state: &mut State, now: Duration| {
                if kept {
                    // A stream keeps what it listens to, asked or not; nobody waits to hear of it.
                    let _unasked = state.keep(&message.subject, message.payload.clone(), None, None, now);
                }
                net.send(state, &name, &message);
            };
            self.net.carry(&mut state, self.number, Duration::ZERO, Box::new(arrival));
            Ok(())
        })
    }

    fn publish_stored<'a>(
        &'a self,
        subject: &'a str,
        payload: Bytes,
        id: Option<&'a str>,
    ) -> Answer<'a, Stored> {
        Box::pin(async move {
            check_subject(subject)?;
            self.store(subject, payload, id, None).await
        })
    }

    fn publish_first<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, Stored> {
        Box::pin(async move {
            check_subject(subject)?;
            self.store(subject, payload, None, Some(0)).await
        })
    }

    fn request<'a>(&'a self, subject: &'a str, payload: Bytes, timeout: Duration) -> Answer<'a, Message> {
        Box::pin(self.ask(subject, payload, timeout))
    }

    fn subscribe<'a>(&'a self, pattern: &'a str, listen: Listen) -> Answer<'a, Subscription> {
        Box::pin(async move {
            check_pattern(pattern)?;
            if let Some(group) = &listen.queue {
                check_subject(group)?;
            }
            if self.closed.is_cancelled() {
                return Err(Error::closed());
            }
            let queue = Queue::new(listen.capacity);
            let end = self.add_listener(pattern, listen.queue, queue.clone());
            Ok(Subscription::new(queue, end))
        })
    }

    fn get<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        Box::pin(async move {
            check_name(bucket)?;
            check_subject(key)?;
            let found = self.direct_get(&stream_of(bucket), &subject_of(bucket, key)).await?;
            Ok(found.and_then(|record| entry_of(bucket, record)))
        })
    }

    fn get_latest<'a>(&'a self, bucket: &'a str, key: &'a str) -> Answer<'a, Option<Entry>> {
        Box::pin(async move {
            check_name(bucket)?;
            check_subject(key)?;
            let subject = subject_of(bucket, key);
            let act = move |store: &mut MemoryStore, _| Ok(store.last_of(&subject).cloned());
            let found = self.at_store(&stream_of(bucket), Kind::Missing, act).await?;
            Ok(found.and_then(|record| entry_of(bucket, record)))
        })
    }

    fn put<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        Box::pin(self.write(bucket, key, value, None))
    }

    fn create<'a>(&'a self, bucket: &'a str, key: &'a str, value: Bytes) -> Answer<'a, Sequence> {
        Box::pin(self.write(bucket, key, value, Some(0)))
    }

    fn update<'a>(
        &'a self,
        bucket: &'a str,
        key: &'a str,
        value: Bytes,
        expected: Sequence,
    ) -> Answer<'a, Sequence> {
        Box::pin(self.write(bucket, key, value, Some(expected)))
    }

    fn purge<'a>(&'a self, bucket: &'a str, key: &'a str, expected: Option<Sequence>) -> Answer<'a, ()> {
        Box::pin(async move {
            check_name(bucket)?;
            check_subject(key)?;
            let subject = subject_of(bucket, key);
            let act = move |store: &mut MemoryStore, now| store.purge(&subject, expected, now);
            self.at_store(&stream_of(bucket), Kind::Missing, act).await
        })
    }

    fn purge_all<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            check_name(bucket)?;
            check_pattern(pattern)?;
            let filter = subject_of(bucket, pattern);
            let act = move |store: &mut MemoryStore, now| {
                store.subjects(&filter).iter().try_for_each(|subject| store.purge(subject, None, now))
            };
            self.at_store(&stream_of(bucket), Kind::Missing, act).await
        })
    }

    fn keys<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            check_name(bucket)?;
            check_pattern(pattern)?;
            let stream = stream_of(bucket);
            let filter = subject_of(bucket, pattern);
            let found = self.at_store(&stream, Kind::Missing, move |store, _| Ok(store.subjects(&filter)));
            let subjects = found.await?;
            Ok(subjects.iter().filter_map(|subject| key_of(bucket, subject)).map(str::to_string).collect())
        })
    }

    fn scan<'a>(&'a self, bucket: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Entry>> {
        Box::pin(async move {
            check_name(bucket)?;
            let page = self.replay_of(&stream_of(bucket), &subject_of(bucket, pattern), from).await?;
            let items = page.items.into_iter().filter_map(|record| entry_of(bucket, record)).collect();
            Ok(Page { items, next: page.next })
        })
    }

    fn replay<'a>(&'a self, stream: &'a str, pattern: &'a str, from: Sequence) -> Answer<'a, Page<Record>> {
        Box::pin(self.replay_of(stream, pattern, from))
    }

    fn ensure_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Found> {
        Box::pin(self.ensure_durable(reader))
    }

    fn adjust_reader<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Vec<Drift>> {
        Box::pin(self.adjust_durable(reader))
    }

    fn take<'a>(&'a self, reader: &'a DurableReader, count: usize, wait: Duration) -> Answer<'a, Vec<Taken>> {
        Box::pin(self.take_durable(reader, count, wait))
    }

    fn acknowledge<'a>(&'a self, taken: &'a Taken, what: Acknowledge) -> Answer<'a, ()> {
        Box::pin(async move { self.acknowledge_taken(taken, what) })
    }

    fn pending<'a>(&'a self, reader: &'a DurableReader) -> Answer<'a, Pending> {
        Box::pin(self.pending_of(reader))
    }

    fn last<'a>(&'a self, stream: &'a str, subject: &'a str) -> Answer<'a, Option<Record>> {
        Box::pin(async move {
            check_name(stream)?;
            check_subject(subject)?;
            self.direct_get(stream, subject).await
        })
    }

    fn at<'a>(&'a self, stream: &'a str, sequence: Sequence) -> Answer<'a, Option<Record>> {
        Box::pin(async move {
            check_name(stream)?;
            let act = move |store: &mut MemoryStore, _| Ok(store.get(sequence).cloned());
            self.at_store(stream, Kind::Missing, act).await
        })
    }

    fn watch<'a>(&'a self, bucket: &'a str, pattern: &'a str, capacity: usize) -> Answer<'a, Watch> {
        Box::pin(self.follow(bucket, pattern, capacity))
    }

    fn ensure<'a>(&'a self, store: &'a Store, replicas: usize) -> Answer<'a, Found> {
        Box::pin(async move {
            store.check()?;
            let (name, wanted) = (store.stream_name(), store.clone());
            self.at_server(&store.stream_name(), 0, move |_, state, _| {
                if let Some(existing) = state.stores.get(&name) {
                    let found = existing.config.settings(existing.replicas);
                    return Ok(Found::Existing(compare(&wanted.name, wanted.settings(replicas), found)));
                }
                state.stores.insert(name, MemoryStore::new(wanted, replicas));
                Ok(Found::Created)
            })
            .await
        })
    }

    fn usage<'a>(&'a self, store: &'a Store) -> Answer<'a, Usage> {
        Box::pin(async move {
            self.at_store(&store.stream_name(), Kind::Missing, |store, _| Ok(store.usage())).await
        })
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(self.at_server("a round trip", 0, |_, _, _| Ok(())))
    }

    fn reconnect(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.net.reconnect(self.number);
            Ok(())
        })
    }

    fn close(&self) -> Answer<'_, ()> {
        Box::pin(async move {
            self.shut();
            Ok(())
        })
    }
}

impl Memory {
    async fn replay_of(&self, stream: &str, pattern: &str, from: Sequence) -> Result<Page<Record>, Error> {
        check_name(stream)?;
        check_pattern(pattern)?;
        let pattern = pattern.to_string();
        self.at_store(stream, Kind::Missing, move |store, _| Ok(store.page(&pattern, from))).await
    }
}
