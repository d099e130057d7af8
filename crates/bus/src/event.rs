//! What happens to the connection.

use crate::limits::EVENTS_KEPT;
use tokio::sync::broadcast;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// The first connection stands.
    Connected,
    /// A later connection stands. Subscriptions are in place again; what was published meanwhile is lost to them.
    Reconnected,
    Disconnected,
    /// A subscription could not keep up and messages were dropped. The subscription itself says how many.
    SlowConsumer,
    /// The server refused something or told of an error. Denied publishes and subscriptions show up only here.
    ServerSaid(String),
    /// The bus was closed.
    Closed,
    /// This listener was too slow for so many events.
    Missed(u64),
}

/// A bounded stream of events.
pub struct Events {
    receiver: broadcast::Receiver<Event>,
}

impl Events {
    /// The next event; none when the bus is gone.
    pub async fn next(&mut self) -> Option<Event> {
        match self.receiver.recv().await {
            Ok(event) => Some(event),
            Err(broadcast::error::RecvError::Lagged(count)) => Some(Event::Missed(count)),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }
}

/// The side that tells.
#[derive(Clone)]
pub(crate) struct EventSender {
    sender: broadcast::Sender<Event>,
}

impl EventSender {
    pub fn new() -> EventSender {
        EventSender { sender: broadcast::Sender::new(EVENTS_KEPT) }
    }

    pub fn send(&self, event: Event) {
        // An event that nobody listens for is nobody's loss.
        let _unheard = self.sender.send(event);
    }

    pub fn listen(&self) -> Events {
        Events { receiver: self.sender.subscribe() }
    }
}
