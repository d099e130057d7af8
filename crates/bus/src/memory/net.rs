//! The server side of the memory bus: who is connected, who listens, what is kept and what is under way.

use super::client::Memory;
use super::clock::Clock;
use super::faults::{Fate, Faults, Leg, Perfect};
use super::shelf::Shelf;
use crate::error::{Error, Kind};
use crate::event::{Event, Teller};
use crate::limits::PAYLOAD_DEFAULT;
use crate::message::{Message, Sequence, Stored};
use crate::pattern::matches;
use crate::queue::Queue;
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;

/// A bus in memory that any number of clients connect to.
#[derive(Clone)]
pub struct Net {
    pub(super) clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    /// Counts what happened, for those who wait for a change.
    changed: Arc<watch::Sender<u64>>,
}

pub(super) struct Client {
    pub name: String,
    pub cut: bool,
    pub teller: Teller,
}

pub(super) struct Listener {
    pub client: u64,
    pub pattern: String,
    pub group: Option<String>,
    pub queue: Queue,
    /// Whether the last message found room, so that falling behind is told once.
    pub keeping_up: bool,
}

/// A message on its way.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    due: Duration,
    order: u64,
}

pub(super) struct State {
    faults: Box<dyn Faults>,
    pub clients: BTreeMap<u64, Client>,
    listeners: BTreeMap<u64, Listener>,
    /// Listeners on one subject, so that a fleet of them costs nothing to those on others.
    exact: BTreeMap<String, BTreeSet<u64>>,
    wild: BTreeSet<u64>,
    pub shelves: BTreeMap<String, Shelf>,
    flights: BinaryHeap<Reverse<Flight>>,
    cargo: BTreeMap<u64, (u64, Message)>,
    next: u64,
    turn: usize,
    pub down: bool,
    pub max_payload: usize,
    pub servers: usize,
}

impl Net {
    pub fn new(clock: Arc<dyn Clock>) -> Net {
        let state = State {
            faults: Box::new(Perfect),
            clients: BTreeMap::new(),
            listeners: BTreeMap::new(),
            exact: BTreeMap::new(),
            wild: BTreeSet::new(),
            shelves: BTreeMap::new(),
            flights: BinaryHeap::new(),
            cargo: BTreeMap::new(),
            next: 0,
            turn: 0,
            down: false,
            max_payload: PAYLOAD_DEFAULT,
            servers: 1,
        };
        Net { clock, state: Arc::new(Mutex::new(state)), changed: Arc::new(watch::Sender::new(0)) }
    }

    /// Connects under a name, which is what faults know it by.
    pub fn connect(&self, name: &str) -> Memory {
        Memory::new(self.clone(), name)
    }

    /// What happens to messages from now on.
    pub fn set_faults(&self, faults: impl Faults + 'static) {
        self.lock().faults = Box::new(faults);
    }

    pub fn set_max_payload(&self, bytes: usize) {
        self.lock().max_payload = bytes;
    }

    /// Takes the connection from every client of that name.
    pub fn cut(&self, name: &str) {
        self.set_cut(name, true);
    }

    /// Gives it back. What was sent to it meanwhile is lost.
    pub fn heal(&self, name: &str) {
        self.set_cut(name, false);
    }

    fn set_cut(&self, name: &str, cut: bool) {
        let mut state = self.lock();
        let down = state.down;
        for client in state.clients.values_mut().filter(|client| client.name == name && client.cut != cut) {
            client.cut = cut;
            if !down {
                client.teller.tell(if cut { Event::Disconnected } else { Event::Reconnected });
            }
        }
        drop(state);
        self.tell_change();
    }

    /// Ends the server: what is stored stays, what is under way is lost.
    pub fn crash(&self) {
        let mut state = self.lock();
        if !state.down {
            state.down = true;
            state.flights.clear();
            state.cargo.clear();
            state.tell_connected(&Event::Disconnected);
        }
        drop(state);
        self.tell_change();
    }

    pub fn restart(&self) {
        let mut state = self.lock();
        if state.down {
            state.down = false;
            state.tell_connected(&Event::Reconnected);
        }
        drop(state);
        self.tell_change();
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(super) fn tell_change(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// The state as of now, with everything delivered that is due.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.deliver_due(self.clock.now());
        state
    }

    /// Sends a message to its listeners. How many of them there are says whether anybody listens; the fate of each is its own.
    pub(super) fn send(&self, state: &mut State, from: &str, message: &Message) -> usize {
        let now = self.clock.now();
        let listeners = state.listeners_of(&message.subject);
        for number in &listeners {
            let fate = state.fate_between(from, *number, &message.subject);
            for delay in fate {
                if delay.is_zero() {
                    state.deliver(*number, message.clone());
                } else {
                    self.delay(state, now + delay, *number, message.clone());
                }
            }
        }
        listeners.len()
    }

    fn delay(&self, state: &mut State, due: Duration, listener: u64, message: Message) {
        let order = state.number();
        state.flights.push(Reverse(Flight { due, order }));
        state.cargo.insert(order, (listener, message));
        let sleep = self.clock.sleep_until(due);
        let net = self.clone();
        tokio::spawn(async move {
            sleep.await;
            // Taking the lock delivers what is due.
            drop(net.lock());
        });
    }
}

impl State {
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub fn is_connected(&self, client: u64) -> bool {
        !self.down && self.clients.get(&client).is_some_and(|client| !client.cut)
    }

    pub fn fate(&mut self, leg: Leg<'_>) -> Fate {
        self.faults.fate(leg)
    }

    fn fate_between(&mut self, from: &str, listener: u64, subject: &str) -> Fate {
        let client = self.listeners.get(&listener).and_then(|listener| self.clients.get(&listener.client));
        let Some(to) = client.map(|client| client.name.clone()) else { return Vec::new() };
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

    /// Who gets a message: everyone who listens alone, and one of each queue group in turn.
    fn listeners_of(&mut self, subject: &str) -> Vec<u64> {
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

    fn deliver(&mut self, number: u64, message: Message) {
        let Some(listener) = self.listeners.get_mut(&number) else { return };
        let client = self.clients.get(&listener.client).filter(|client| !client.cut && !self.down);
        let Some(client) = client else { return };
        let room = listener.queue.push(message);
        if listener.keeping_up && !room {
            client.teller.tell(Event::SlowConsumer);
        }
        listener.keeping_up = room;
    }

    fn deliver_due(&mut self, now: Duration) {
        while let Some(Reverse(first)) = self.flights.peek()
            && first.due <= now
        {
            let order = first.order;
            self.flights.pop();
            if let Some((listener, message)) = self.cargo.remove(&order) {
                self.deliver(listener, message);
            }
        }
    }

    fn tell_connected(&self, event: &Event) {
        for client in self.clients.values().filter(|client| !client.cut) {
            client.teller.tell(event.clone());
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
        let shelf = self.shelves.values_mut().find(|shelf| shelf.takes(subject));
        let shelf = shelf.ok_or_else(|| Error::unavailable(subject))?;
        shelf.expire(now);
        shelf.append(subject, payload, id, expected, now)
    }

    /// A stream by its name; `missing` is what a server says of one that is not there.
    pub fn shelf(&mut self, stream: &str, missing: Kind, now: Duration) -> Result<&mut Shelf, Error> {
        let none = || Error::new(missing, format!("{stream}: no such stream or bucket"));
        let shelf = self.shelves.get_mut(stream).ok_or_else(none)?;
        shelf.expire(now);
        Ok(shelf)
    }
}
