//! What subscribers and watchers hold. Dropping it ends it.

use crate::error::Error;
use crate::message::Seen;
use crate::queue::{Delivery, Queue};
use std::time::Duration;
use tokio::sync::mpsc;

/// How to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// Members of one queue group share the messages: each goes to one of them.
    pub queue: Option<String>,
    /// Messages that may wait to be taken. More are dropped and counted.
    pub capacity: usize,
}

impl Listen {
    pub fn alone(capacity: usize) -> Listen {
        Listen { queue: None, capacity }
    }

    pub fn shared(queue: impl Into<String>, capacity: usize) -> Listen {
        Listen { queue: Some(queue.into()), capacity }
    }
}

/// Runs when its holder goes.
pub(crate) struct OnDrop(Option<Box<dyn FnOnce() + Send + Sync>>);

impl OnDrop {
    pub fn new(run: impl FnOnce() + Send + Sync + 'static) -> OnDrop {
        OnDrop(Some(Box::new(run)))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        if let Some(run) = self.0.take() {
            run();
        }
    }
}

/// A bounded subscription, in the order of the wire.
pub struct Subscription {
    queue: Queue,
    _end: OnDrop,
}

impl Subscription {
    pub(crate) fn new(queue: Queue, end: OnDrop) -> Subscription {
        Subscription { queue, _end: end }
    }

    /// The next delivery; none when the bus is closed. May be cancelled without losing anything.
    pub async fn next(&mut self) -> Option<Delivery> {
        self.queue.next().await.map(|(_, delivery)| delivery)
    }

    /// The same, with how long it waited here to be taken.
    pub async fn next_waited(&mut self) -> Option<(Delivery, Duration)> {
        self.queue.next().await.map(|(came, delivery)| (delivery, came.elapsed()))
    }
}

/// A watch of keys. Slow readers hold it back; nothing is dropped, but of a key that is written often only the last value
/// is sure to be told. Removal and expiry are not told: whoever cares lists the keys.
pub struct Watch {
    receiver: mpsc::Receiver<Result<Seen, Error>>,
    _end: OnDrop,
}

impl Watch {
    pub(crate) fn new(receiver: mpsc::Receiver<Result<Seen, Error>>, end: OnDrop) -> Watch {
        Watch { receiver, _end: end }
    }

    /// What was seen next; none when the bus is closed, and after an error.
    pub async fn next(&mut self) -> Option<Result<Seen, Error>> {
        self.receiver.recv().await
    }
}
