//! One connection to the memory bus.

use super::faults::{Leg, SERVER};
use super::net::{Client, Listener, Net, State};
use super::shelf::Shelf;
use crate::error::{Error, Kind};
use crate::event::{Event, Events, Teller};
use crate::limits::ANSWER_TIMEOUT;
use crate::message::{Entry, Info, Message, Page, Record, Seen, Sequence, Stored, Usage};
use crate::pattern::{check_name, check_pattern, check_subject, key_of, stream_of, subject_of};
use crate::queue::{Delivery, Queue};
use crate::storage::{Found, Store, compare};
use crate::subscription::{Listen, OnDrop, Subscription, Watch};
use crate::{Answer, Bus, Bytes};
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A client of a [`Net`].
pub struct Memory {
    net: Net,
    name: String,
    number: u64,
    teller: Teller,
    closed: CancellationToken,
}

impl Memory {
    pub(super) fn new(net: Net, name: &str) -> Memory {
        let teller = Teller::new();
        let mut state = net.lock();
        let number = state.number();
        state.clients.insert(number, Client { name: name.into(), cut: false, teller: teller.clone() });
        drop(state);
        Memory { net, name: name.into(), number, teller, closed: CancellationToken::new() }
    }

    /// Fails where the real client would: closed, without a connection, or with more than the server takes.
    fn ready(&self, what: &str, size: usize) -> Result<(), Error> {
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

    async fn until_closed<T>(&self, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        match self.closed.run_until_cancelled(call).await {
            Some(answer) => answer,
            None => Err(Error::closed()),
        }
    }

    /// Carries a question to the server and the answer back. Either may be lost, and the caller cannot tell which.
    async fn at_server<T>(
        &self,
        what: &str,
        size: usize,
        act: impl FnOnce(&mut State, Duration) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.ready(what, size)?;
        let call = async {
            let start = self.net.clock.now();
            self.travel(Leg { from: &self.name, to: SERVER, subject: what }, start).await?;
            let Some(answer) = self.act(act) else { return self.give_up(what, start).await };
            self.net.tell_change();
            self.travel(Leg { from: SERVER, to: &self.name, subject: what }, start).await?;
            if !self.net.lock().is_connected(self.number) {
                return self.give_up(what, start).await;
            }
            answer
        };
        self.until_closed(call).await
    }

    /// None when the connection was lost on the way.
    fn act<T>(&self, act: impl FnOnce(&mut State, Duration) -> T) -> Option<T> {
        let mut state = self.net.lock();
        state.is_connected(self.number).then(|| act(&mut state, self.net.clock.now()))
    }

    async fn travel(&self, leg: Leg<'_>, start: Duration) -> Result<(), Error> {
        let fate = self.net.lock().fate(leg);
        match fate.first() {
            None => self.give_up(leg.subject, start).await,
            Some(delay) if delay.is_zero() => Ok(()),
            Some(delay) => {
                self.net.clock.sleep_until(self.net.clock.now() + *delay).await;
                Ok(())
            }
        }
    }

    /// Waits as long as a client waits for an answer that will not come.
    async fn give_up<T>(&self, what: &str, start: Duration) -> Result<T, Error> {
        self.net.clock.sleep_until(start + ANSWER_TIMEOUT).await;
        Err(Error::timeout(what))
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
        let size = payload.len();
        self.at_server(subject, size, |state, now| {
            let stored = state.keep(subject, payload, id, expected, now);
            self.net.send(state, &self.name, &message);
            stored
        })
        .await
    }

    /// Asks one bucket or stream something.
    async fn at_shelf<T>(
        &self,
        stream: &str,
        missing: Kind,
        act: impl FnOnce(&mut Shelf) -> Result<T, Error>,
    ) -> Result<T, Error> {
        self.at_server(stream, 0, |state, now| act(state.shelf(stream, missing, now)?)).await
    }

    async fn ask(&self, subject: &str, payload: Bytes, timeout: Duration) -> Result<Message, Error> {
        check_subject(subject)?;
        self.ready(subject, payload.len())?;
        let queue = Queue::new(1);
        let inbox = format!("_INBOX.{}", self.net.lock().number());
        let listening = self.add_listener(&inbox, None, queue.clone());
        let message = Message { subject: subject.into(), reply: Some(inbox), payload };
        let heard = self.net.send(&mut self.net.lock(), &self.name, &message);
        if heard == 0 {
            return Err(Error::new(Kind::NoResponders, format!("{subject}: no responders")));
        }
        let deadline = self.net.clock.sleep_until(self.net.clock.now() + timeout);
        let answer = async {
            tokio::select! {
                biased;
                answer = queue.next() => match answer {
                    Some(Delivery::Message(message)) => Ok(message),
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
        self.at_shelf(&stream, Kind::Unavailable, |shelf| {
            shelf.consumers += 1;
            Ok(())
        })
        .await?;
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let follower = Follower {
            net: self.net.clone(),
            client: self.number,
            bucket: bucket.into(),
            filter: subject_of(bucket, pattern),
            after: 0,
        };
        let closed = self.closed.clone();
        let task = tokio::spawn(async move {
            closed.run_until_cancelled(follower.follow(sender)).await;
        });
        let net = self.net.clone();
        let end = OnDrop::new(move || {
            task.abort();
            if let Some(shelf) = net.lock().shelves.get_mut(&stream) {
                shelf.consumers -= 1;
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
        self.teller.tell(Event::Closed);
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.shut();
    }
}

/// Tells a watch what changes.
struct Follower {
    net: Net,
    client: u64,
    bucket: String,
    filter: String,
    after: Sequence,
}

impl Follower {
    async fn follow(mut self, sender: mpsc::Sender<Result<Seen, Error>>) {
        let mut changes = self.net.changes();
        let mut current = false;
        loop {
            changes.mark_unchanged();
            let Some(news) = self.news() else {
                if changes.changed().await.is_err() {
                    return;
                }
                continue;
            };
            for entry in news {
                self.after = entry.revision;
                if sender.send(Ok(Seen::Entry(entry))).await.is_err() {
                    return;
                }
            }
            if !current && sender.send(Ok(Seen::Current)).await.is_err() {
                return;
            }
            current = true;
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// None without a connection.
    fn news(&self) -> Option<Vec<Entry>> {
        let now = self.net.clock.now();
        let mut state = self.net.lock();
        if !state.is_connected(self.client) {
            return None;
        }
        let shelf = state.shelf(&stream_of(&self.bucket), Kind::Unavailable, now).ok()?;
        let records = shelf.since(&self.filter, self.after);
        Some(records.into_iter().filter_map(|record| entry_of(&self.bucket, record)).collect())
    }
}

fn entry_of(bucket: &str, record: Record) -> Option<Entry> {
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
        }
    }

    fn events(&self) -> Events {
        self.teller.listen()
    }

    fn publish<'a>(&'a self, subject: &'a str, payload: Bytes) -> Answer<'a, ()> {
        Box::pin(async move {
            check_subject(subject)?;
            self.ready(subject, payload.len())?;
            let message = Message { subject: subject.into(), reply: None, payload: payload.clone() };
            let now = self.net.clock.now();
            let mut state = self.net.lock();
            let to_server = state.fate(Leg { from: &self.name, to: SERVER, subject });
            if !to_server.is_empty() {
                // A stream keeps what it listens to, asked or not; nobody waits to hear of it.
                let _unasked = state.keep(subject, payload, None, None, now);
                self.net.tell_change();
            }
            self.net.send(&mut state, &self.name, &message);
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
            let stream = stream_of(bucket);
            let act = |shelf: &mut Shelf| Ok(shelf.last_of(&subject_of(bucket, key)).cloned());
            let found = self.at_shelf(&stream, Kind::Unavailable, act);
            Ok(found.await?.and_then(|record| entry_of(bucket, record)))
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
            let stream = stream_of(bucket);
            let act = |shelf: &mut Shelf| shelf.purge(&subject_of(bucket, key), expected);
            self.at_shelf(&stream, Kind::Missing, act).await
        })
    }

    fn keys<'a>(&'a self, bucket: &'a str, pattern: &'a str) -> Answer<'a, Vec<String>> {
        Box::pin(async move {
            check_name(bucket)?;
            check_pattern(pattern)?;
            let stream = stream_of(bucket);
            let filter = subject_of(bucket, pattern);
            let found = self.at_shelf(&stream, Kind::Missing, |shelf| Ok(shelf.subjects(&filter)));
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

    fn watch<'a>(&'a self, bucket: &'a str, pattern: &'a str, capacity: usize) -> Answer<'a, Watch> {
        Box::pin(self.follow(bucket, pattern, capacity))
    }

    fn ensure<'a>(&'a self, store: &'a Store, replicas: usize) -> Answer<'a, Found> {
        Box::pin(async move {
            store.check()?;
            let name = store.stream_name();
            self.at_server(&name, 0, |state, _| {
                if let Some(shelf) = state.shelves.get(&name) {
                    let found = shelf.store.settings(shelf.replicas);
                    return Ok(Found::Existing(compare(store, store.settings(replicas), found)));
                }
                state.shelves.insert(name.clone(), Shelf::new(store.clone(), replicas));
                Ok(Found::Created)
            })
            .await
        })
    }

    fn usage<'a>(&'a self, store: &'a Store) -> Answer<'a, Usage> {
        Box::pin(async move {
            self.at_shelf(&store.stream_name(), Kind::Missing, |shelf| Ok(shelf.usage())).await
        })
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(self.at_server("a round trip", 0, |_, _| Ok(())))
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
        self.at_shelf(stream, Kind::Missing, |shelf| Ok(shelf.page(pattern, from))).await
    }
}
