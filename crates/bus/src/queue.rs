//! The bounded queue between the wire and a subscriber. It never blocks the wire and never loses a message in silence.

use crate::message::Message;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;
use tokio::time::Instant;

/// What a subscriber takes out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivery {
    Message(Message),
    /// So many messages were dropped at this place, because the queue was full.
    Missed(u64),
}

struct Inner {
    /// With when it came.
    waiting: VecDeque<(Instant, Delivery)>,
    messages: usize,
    closed: bool,
}

impl Inner {
    fn count_missed(&mut self) {
        if let Some((_, Delivery::Missed(count))) = self.waiting.back_mut() {
            *count += 1;
        } else {
            self.waiting.push_back((Instant::now(), Delivery::Missed(1)));
        }
    }
}

/// The writing side.
#[derive(Clone)]
pub(crate) struct Queue {
    inner: Arc<Mutex<Inner>>,
    changed: Arc<Notify>,
    capacity: usize,
}

impl Queue {
    /// A queue of at least one message.
    pub fn new(capacity: usize) -> Queue {
        let inner = Inner { waiting: VecDeque::new(), messages: 0, closed: false };
        Queue {
            inner: Arc::new(Mutex::new(inner)),
            changed: Arc::new(Notify::new()),
            capacity: capacity.max(1),
        }
    }

    /// Whether the message found room.
    pub fn push(&self, message: Message) -> bool {
        let mut inner = self.lock();
        if inner.closed {
            return true;
        }
        let room = inner.messages < self.capacity;
        if room {
            inner.messages += 1;
            inner.waiting.push_back((Instant::now(), Delivery::Message(message)));
        } else {
            inner.count_missed();
        }
        drop(inner);
        self.changed.notify_one();
        room
    }

    /// A message that finds no room, whatever waits. Says so.
    pub fn miss(&self) -> bool {
        self.lock().count_missed();
        self.changed.notify_one();
        false
    }

    /// What waits is still delivered; then the subscription ends.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_one();
    }

    /// The next delivery, and when it came; none when the queue is closed and empty.
    pub async fn next(&self) -> Option<(Instant, Delivery)> {
        loop {
            let changed = self.changed.notified();
            {
                let mut inner = self.lock();
                if let Some(next) = inner.waiting.pop_front() {
                    if matches!(next.1, Delivery::Message(_)) {
                        inner.messages -= 1;
                    }
                    return Some(next);
                }
                if inner.closed {
                    return None;
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(text: &'static str) -> Message {
        Message { subject: "a".into(), reply: None, payload: Bytes::from_static(text.as_bytes()) }
    }

    async fn taken(queue: &Queue) -> Option<Delivery> {
        queue.next().await.map(|(_, delivery)| delivery)
    }

    #[tokio::test(start_paused = true)]
    async fn what_waited_says_since_when() {
        let queue = Queue::new(2);
        let came = Instant::now();
        queue.push(message("1"));
        tokio::time::advance(std::time::Duration::from_secs(9)).await;
        assert_eq!(queue.next().await, Some((came, Delivery::Message(message("1")))));
    }

    #[tokio::test]
    async fn what_does_not_fit_is_counted_at_the_place_where_it_is_missing() {
        let queue = Queue::new(2);
        assert!(queue.push(message("1")));
        assert!(queue.push(message("2")));
        assert!(!queue.push(message("3")));
        assert!(!queue.push(message("4")));
        assert_eq!(taken(&queue).await, Some(Delivery::Message(message("1"))));
        assert!(queue.push(message("5")));
        queue.close();
        assert_eq!(taken(&queue).await, Some(Delivery::Message(message("2"))));
        assert_eq!(taken(&queue).await, Some(Delivery::Missed(2)));
        assert_eq!(taken(&queue).await, Some(Delivery::Message(message("5"))));
        assert_eq!(taken(&queue).await, None);
    }
}
