//! The server of the memory bus, and what can be done to it.

use super::client::Memory;
use super::faults::Faults;
use super::state::{Arrival, Cargo, Line, State};
use super::timer::Timer;
use crate::event::Event;
use crate::limits::SILENCE_NOTICED;
use crate::message::Message;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// A bus in memory that any number of clients connect to.
#[derive(Clone)]
pub struct Net {
    pub(super) timer: Arc<dyn Timer>,
    state: Arc<Mutex<State>>,
    /// Counts what happened, for those who wait for a change.
    changed: Arc<Changed>,
}

#[derive(Default)]
struct Changed {
    count: AtomicU64,
    waiting: Notify,
}

/// One who waits for changes. Whoever waited first is woken first: tokio's own `watch` wakes in an order of chance, and a seed
/// would not repeat itself.
pub(super) struct Changes {
    changed: Arc<Changed>,
    seen: u64,
}

impl Changes {
    pub fn mark_unchanged(&mut self) {
        self.seen = self.changed.count.load(Ordering::Relaxed);
    }

    /// Until something has happened since the last look.
    pub async fn changed(&mut self) {
        loop {
            let changed = self.changed.clone();
            let woken = changed.waiting.notified();
            tokio::pin!(woken);
            woken.as_mut().enable();
            if self.changed.count.load(Ordering::Relaxed) != self.seen {
                return self.mark_unchanged();
            }
            woken.await;
        }
    }
}

impl Net {
    pub fn new(timer: Arc<dyn Timer>) -> Net {
        let state = Arc::new(Mutex::new(State::new()));
        Net { timer, state, changed: Arc::default() }
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

    /// Takes the connection from every client of that name. They know it at once.
    pub fn cut(&self, name: &str) {
        let mut state = self.lock();
        self.named(&state, name).into_iter().for_each(|number| state.cut(number));
        drop(state);
        self.tell_change();
    }

    /// Nothing passes between the server and the clients of that name, and neither side knows. Whoever is healed before it
    /// noticed has lost nothing, and what it had given up is done after all. A client notices after a while; then what it
    /// sent meanwhile is lost, or sent again on the next connection if it `keeps_unsent`.
    pub fn silence(&self, name: &str, keeps_unsent: bool) {
        let mut state = self.lock();
        for number in self.named(&state, name) {
            self.silence_one(&mut state, number, keeps_unsent);
        }
    }

    fn silence_one(&self, state: &mut State, number: u64, keeps_unsent: bool) {
        let Some(client) = state.clients.get_mut(&number).filter(|client| client.line == Line::Up) else {
            return;
        };
        client.line = Line::Silent;
        client.keeps_unsent = keeps_unsent;
        client.silences += 1;
        let silence = client.silences;
        let noticed = self.timer.sleep_until(self.timer.now() + SILENCE_NOTICED);
        let net = self.clone();
        tokio::spawn(async move {
            noticed.await;
            let mut state = net.lock();
            let same =
                |client: &super::state::Client| client.line == Line::Silent && client.silences == silence;
            if state.clients.get(&number).is_some_and(same) {
                state.cut(number);
            }
            drop(state);
            net.tell_change();
        });
    }

    /// A client gives up its line. One that works is made anew at once; of one that is silent there is none until it is healed.
    pub(super) fn reconnect(&self, number: u64) {
        let mut state = self.lock();
        let works = state.clients.get(&number).is_some_and(|client| client.line == Line::Up);
        state.cut(number);
        if works {
            self.heal_one(&mut state, number);
        }
        drop(state);
        self.tell_change();
    }

    /// The server stops for a while, as under SIGSTOP: every line is silent.
    pub fn freeze(&self) {
        let mut state = self.lock();
        let all: Vec<u64> = state.clients.keys().copied().collect();
        all.into_iter().for_each(|number| self.silence_one(&mut state, number, true));
    }

    pub fn thaw(&self) {
        let mut state = self.lock();
        let all: Vec<u64> = state.clients.keys().copied().collect();
        all.into_iter().for_each(|number| self.heal_one(&mut state, number));
        drop(state);
        self.tell_change();
    }

    /// Gives the connection back. What was sent to a client that was cut off is lost.
    pub fn heal(&self, name: &str) {
        let mut state = self.lock();
        for number in self.named(&state, name) {
            self.heal_one(&mut state, number);
        }
        drop(state);
        self.tell_change();
    }

    fn heal_one(&self, state: &mut State, number: u64) {
        for arrival in state.heal(number) {
            self.arrive(state, number, arrival);
        }
    }

    fn named(&self, state: &State, name: &str) -> Vec<u64> {
        let named = state.clients.iter().filter(|(_, client)| client.name == name);
        named.map(|(number, _)| *number).collect()
    }

    /// Ends the server: what is stored stays, what is under way is lost.
    pub fn crash(&self) {
        let mut state = self.lock();
        if !state.down {
            state.down = true;
            state.lose_all();
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

    /// A stream, by its name, takes nothing more than it holds now; or as much as it was made for.
    pub fn set_full(&self, stream: &str, full: bool) {
        let now = self.timer.now();
        if let Some(store) = self.lock().stores.get_mut(stream) {
            store.expire(now);
            store.set_full(full);
        }
    }

    /// The disk of the server is full: nothing is kept any more.
    pub fn set_disk_full(&self, full: bool) {
        self.lock().disk_full = full;
    }

    /// A stream, by its name, has no leader: it takes and tells nothing, but a direct get is answered.
    pub fn set_led(&self, stream: &str, led: bool) {
        if let Some(store) = self.lock().stores.get_mut(stream) {
            store.set_led(led);
        }
        self.tell_change();
    }

    /// A stream, by its name, is removed and made again: what it held is gone, and it counts from one.
    pub fn recreate(&self, stream: &str) {
        if let Some(store) = self.lock().stores.get_mut(stream) {
            *store = store.made_again();
        }
        self.tell_change();
    }

    pub(super) fn changes(&self) -> Changes {
        Changes { changed: self.changed.clone(), seen: self.changed.count.load(Ordering::Relaxed) }
    }

    pub(super) fn tell_change(&self) {
        self.changed.count.fetch_add(1, Ordering::Relaxed);
        self.changed.waiting.notify_waiters();
    }

    /// The state as of now, with everything delivered that is due.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = self.timer.now();
        while let Some(cargo) = state.arrived(now) {
            match cargo {
                Cargo::ToListener(listener, message) => state.deliver(listener, message),
                Cargo::ToServer(client, arrival) => self.arrive(&mut state, client, arrival),
            }
        }
        state
    }

    /// Carries something to the server.
    pub(super) fn carry(&self, state: &mut State, client: u64, delay: Duration, arrival: Arrival) {
        if delay.is_zero() {
            self.arrive(state, client, arrival);
        } else {
            self.delay(state, delay, Cargo::ToServer(client, arrival));
        }
    }

    fn arrive(&self, state: &mut State, client: u64, arrival: Arrival) {
        if let Some(arrival) = state.passes(client, arrival) {
            arrival(self, state, self.timer.now());
            self.tell_change();
        }
    }

    /// Sends a message to its listeners. How many of them there are says whether anybody listens; the fate of each is its own.
    pub(super) fn send(&self, state: &mut State, from: &str, message: &Message) -> usize {
        let listeners = state.listeners_of(&message.subject);
        for number in &listeners {
            for delay in state.fate_between(from, *number, &message.subject) {
                if delay.is_zero() {
                    state.deliver(*number, message.clone());
                } else {
                    self.delay(state, delay, Cargo::ToListener(*number, message.clone()));
                }
            }
        }
        listeners.len()
    }

    fn delay(&self, state: &mut State, delay: Duration, cargo: Cargo) {
        let due = self.timer.now() + delay;
        state.put_under_way(due, cargo);
        let sleep = self.timer.sleep_until(due);
        let net = self.clone();
        tokio::spawn(async move {
            sleep.await;
            // Taking the lock delivers what is due.
            drop(net.lock());
        });
    }
}
