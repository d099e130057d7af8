//! What the server knows: who is connected, who listens, what is kept and what is under way.

use super::faults::{Fate, Faults, Leg, Perfect, WatchFate};
use super::net::Net;
use super::store::MemoryStore;
use crate::error::{Error, Kind};
use crate::event::{Event, EventSender};
use crate::limits::{COMMAND_QUEUE, PAYLOAD_DEFAULT};
use crate::message::{Message, Sequence, Stored};
use crate::pattern::matches;
use crate::queue::Queue;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::time::Duration;

/// What a client sent, to be run when the server gets it.
pub(super) type Arrival = Box<dyn FnOnce(&Net, &mut State, Duration) + Send>;

/// The connection between a client and the server.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Line {
    Up,
    /// Half open: nothing passes, and neither side knows.
    Silent,
    /// The client knows that it has none.
    Cut,
}

pub(super) struct Client {
    pub name: String,
    pub line: Line,
    pub event_sender: EventSender,
    /// Counts silences, so that each is noticed by itself.
    pub silences: u64,
    /// Whether what was sent into a silence is sent again on the next connection.
    pub keeps_unsent: bool,
    /// Sent into a silence.
    unsent: VecDeque<Arrival>,
    /// What the server has for a client that is silent.
    unheard: Vec<(u64, Message)>,
}

impl Client {
    pub fn new(name: &str, event_sender: EventSender) -> Client {
        Client {
            name: name.into(),
            line: Line::Up,
            event_sender,
            silences: 0,
            keeps_unsent: false,
            unsent: VecDeque::new(),
            unheard: Vec::new(),
        }
    }
}

pub(super) struct Listener {
    pub client: u64,
    pub pattern: String,
    pub group: Option<String>,
    pub queue: Queue,
    /// Whether the last message found room, so that falling behind is told once.
    pub keeping_up: bool,
}

/// When something that is under way arrives.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: Duration,
    order: u64,
}

/// What is under way.
pub(super) enum Cargo {
    ToListener(u64, Message),
    ToServer(u64, Arrival),
}

pub(super) struct State {
    pub faults: Box<dyn Faults>,
    pub clients: BTreeMap<u64, Client>,
    listeners: BTreeMap<u64, Listener>,
    /// Listeners on one subject, so that a fleet of them costs nothing to those on others.
    exact: BTreeMap<String, BTreeSet<u64>>,
    wild: BTreeSet<u64>,
    pub stores: BTreeMap<String, MemoryStore>,
    flights: BinaryHeap<Reverse<Flight>>,
    cargo: BTreeMap<u64, Cargo>,
    next: u64,
    turn: usize,
    pub down: bool,
    /// The server has no room on its disk: nothing is kept any more.
    pub disk_full: bool,
    pub max_payload: usize,
    pub servers: usize,
}

impl State {
    pub fn new() -> State {
        State {
            faults: Box::new(Perfect),
            clients: BTreeMap::new(),
            listeners: BTreeMap::new(),
            exact: BTreeMap::new(),
            wild: BTreeSet::new(),
            stores: BTreeMap::new(),
            flights: BinaryHeap::new(),
            cargo: BTreeMap::new(),
            next: 0,
            turn: 0,
            down: false,
            disk_full: false,
            max_payload: PAYLOAD_DEFAULT,
            servers: 1,
        }
    }

    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// Whether a client takes itself for connected.
    pub fn is_connected(&self, client: u64) -> bool {
        !self.down && self.clients.get(&client).is_some_and(|client| client.line != Line::Cut)
    }

    /// Whether something that is sent now gets through.
    pub fn is_reached(&self, client: u64) -> bool {
        !self.down && self.clients.get(&client).is_some_and(|client| client.line == Line::Up)
    }

    pub fn fate(&mut self, leg: Leg<'_>) -> Fate {
        self.faults.fate(leg)
    }

    pub fn fate_of_watch(&mut self, client: u64, bucket: &str) -> WatchFate {
        let name = self.clients.get(&client).map(|client| client.name.clone());
        name.map_or(WatchFate::OnTime, |name| self.faults.watch(&name, bucket))
    }

    fn name_of(&self, listener: u64) -> Option<String> {
        let client = self.listeners.get(&listener).and_then(|listener| self.clients.get(&listener.client));
        client.map(|client| client.name.clone())
    }

    /// What becomes of a message on its way to a listener.
    pub fn fate_between(&mut self, from: &str, listener: u64, subject: &str) -> Fate {
        let Some(to) = self.name_of(listener) else { return Vec::new() };
        self.faults.fate(Leg { from, to: &to, subject })
    }

    pub fn listen(&mut self, listener: Listener) -> u64 {
        let number = self.number();
        if listener.pattern.contains(['*', '>']) {
            self.wild.insert(number);
        } else {
            self.exact.entry(listener.pattern.clone()).or_default().insert(number);
        }
        self.listeners.insert(number, listener);
        number
    }

    pub fn forget(&mut self, number: u64) {
        let Some(listener) = self.listeners.remove(&number) else { return };
        self.wild.remove(&number);
        if let Some(numbers) = self.exact.get_mut(&listener.pattern) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.exact.remove(&listener.pattern);
            }
        }
    }

    /// Ends everything that a client listens to.
    pub fn close(&mut self, client: u64) {
        self.clients.remove(&client);
        let numbers: Vec<u64> = self
            .listeners
            .iter()
            .filter(|(_, one)| one.client == client)
            .map(|(number, _)| *number)
            .collect();
        for number in numbers {
            if let Some(listener) = self.listeners.get(&number) {
                listener.queue.close();
            }
            self.forget(number);
        }
    }

    /// Who gets a message: everyone who listens alone, and one of each queue group in turn. The server does not know who is
    /// silent.
    pub fn listeners_of(&mut self, subject: &str) -> Vec<u64> {
        let exact = self.exact.get(subject).into_iter().flatten();
        let mut chosen = Vec::new();
        let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for number in exact.chain(&self.wild) {
            let Some(listener) = self.listeners.get(number) else { continue };
            if !self.is_connected(listener.client) || !matches(&listener.pattern, subject) {
                continue;
            }
            match &listener.group {
                None => chosen.push(*number),
                Some(group) => groups.entry(group).or_default().push(*number),
            }
        }
        for members in groups.values() {
            chosen.extend(members.get(self.turn % members.len().max(1)));
        }
        self.turn = self.turn.wrapping_add(1);
        chosen.sort_unstable();
        chosen
    }

    pub fn deliver(&mut self, number: u64, message: Message) {
        let Some(listener) = self.listeners.get_mut(&number) else { return };
        if self.down {
            return;
        }
        let Some(client) = self.clients.get_mut(&listener.client) else { return };
        match client.line {
            Line::Cut => return,
            Line::Silent => return client.unheard.push((number, message)),
            Line::Up => {}
        }
        let leg = Leg { from: "", to: &client.name, subject: &message.subject };
        // Answers have a place of their own.
        let overflows = !listener.pattern.starts_with("_INBOX.") && self.faults.overflows(leg);
        let room = if overflows { listener.queue.miss() } else { listener.queue.push(message) };
        if listener.keeping_up && !room {
            client.event_sender.send(Event::SlowConsumer);
        }
        listener.keeping_up = room;
    }

    pub fn put_under_way(&mut self, due: Duration, cargo: Cargo) {
        let order = self.number();
        self.flights.push(Reverse(Flight { due, order }));
        self.cargo.insert(order, cargo);
    }

    /// The next thing that has arrived by now.
    pub fn arrived(&mut self, now: Duration) -> Option<Cargo> {
        while let Some(Reverse(first)) = self.flights.peek()
            && first.due <= now
        {
            let order = first.order;
            self.flights.pop();
            if let Some(cargo) = self.cargo.remove(&order) {
                return Some(cargo);
            }
        }
        None
    }

    /// What a client sent is at the server, unless its line has gone. What was sent arrives although the sender has ended.
    pub fn passes(&mut self, client: u64, arrival: Arrival) -> Option<Arrival> {
        if self.down {
            return None;
        }
        match self.clients.get_mut(&client) {
            Some(client) if client.line == Line::Silent => {
                if client.unsent.len() < COMMAND_QUEUE {
                    client.unsent.push_back(arrival);
                }
                None
            }
            Some(client) if client.line == Line::Cut => None,
            _ => Some(arrival),
        }
    }

    /// Everything under way is lost.
    pub fn lose_all(&mut self) {
        self.flights.clear();
        self.cargo.clear();
        for client in self.clients.values_mut() {
            client.unheard.clear();
            client.unsent.clear();
        }
    }

    pub fn cut(&mut self, number: u64) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        if client.line == Line::Cut {
            return;
        }
        client.line = Line::Cut;
        client.unheard.clear();
        if !client.keeps_unsent {
            client.unsent.clear();
        }
        if !self.down {
            client.event_sender.send(Event::Disconnected);
        }
    }

    /// Gives a line back: what the client had sent into the silence, in its order.
    pub fn heal(&mut self, number: u64) -> VecDeque<Arrival> {
        let Some(client) = self.clients.get_mut(&number) else { return VecDeque::new() };
        let was = std::mem::replace(&mut client.line, Line::Up);
        let (unsent, unheard) = (std::mem::take(&mut client.unsent), std::mem::take(&mut client.unheard));
        if was == Line::Cut && !self.down {
            client.event_sender.send(Event::Reconnected);
        }
        for (listener, message) in unheard {
            self.deliver(listener, message);
        }
        unsent
    }

    pub fn tell_connected(&self, event: &Event) {
        for client in self.clients.values().filter(|client| client.line != Line::Cut) {
            client.event_sender.send(event.clone());
        }
    }

    /// Keeps a message on the stream that takes its subject.
    pub fn keep(
        &mut self,
        subject: &str,
        payload: Bytes,
        id: Option<&str>,
        expected: Option<Sequence>,
        now: Duration,
    ) -> Result<Stored, Error> {
        let store = self.stores.values_mut().find(|store| store.takes(subject));
        let store = store.ok_or_else(|| Error::unavailable(subject))?;
        store.led()?;
        store.expire(now);
        if self.disk_full {
            return Err(Error::new(Kind::Full, format!("{subject}: the server has no room on its disk")));
        }
        store.append(subject, payload, id, expected, now)
    }

    /// A stream by its name, as its leader has it; `missing` is what a server says of one that is not there.
    pub fn store(&mut self, stream: &str, missing: Kind, now: Duration) -> Result<&mut MemoryStore, Error> {
        let store = self.replica(stream, missing, now)?;
        store.led()?;
        Ok(store)
    }

    /// A stream by its name, as any server that has it may answer for.
    pub fn replica(&mut self, stream: &str, missing: Kind, now: Duration) -> Result<&mut MemoryStore, Error> {
        let none = || Error::new(missing, format!("{stream}: no such stream or bucket"));
        let store = self.stores.get_mut(stream).ok_or_else(none)?;
        store.expire(now);
        Ok(store)
    }
}
