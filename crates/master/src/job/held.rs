//! How many bytes of returns wait in this master, over all its jobs. Their number alone bounds nothing: one may be as large as
//! the server lets it be.

use crate::limits::RETURNS_HELD_BYTES_MAX;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[derive(Clone, Default)]
pub struct HeldBytes {
    now: Arc<AtomicUsize>,
}

/// The room of one return, until this is dropped.
#[derive(Debug)]
pub struct Held {
    bytes: usize,
    now: Arc<AtomicUsize>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.now.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl HeldBytes {
    /// None where there is no room. One alone always has room.
    pub fn take(&self, bytes: usize) -> Option<Held> {
        let fits = |now: usize| {
            let then = now.saturating_add(bytes);
            (now == 0 || then <= RETURNS_HELD_BYTES_MAX).then_some(then)
        };
        self.now.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Held { bytes, now: self.now.clone() })
    }

    /// For what is in memory already: it counts, so that others wait.
    pub fn take_anyway(&self, bytes: usize) -> Held {
        self.now.fetch_add(bytes, Ordering::Relaxed);
        Held { bytes, now: self.now.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_have_room_by_their_bytes_until_they_are_let_go() {
        let all = HeldBytes::default();
        let most = all.take(RETURNS_HELD_BYTES_MAX - 10).unwrap();
        assert!(all.take(11).is_none());
        let rest = all.take(10).unwrap();
        assert!(all.take(1).is_none());
        drop(most);
        assert!(all.take(RETURNS_HELD_BYTES_MAX - 10).is_some());
        drop(rest);
        let huge = all.take(RETURNS_HELD_BYTES_MAX * 2);
        assert!(huge.is_some(), "what is larger than all the room passes alone");
        assert!(all.take(1).is_none());
        drop((huge, all.take_anyway(RETURNS_HELD_BYTES_MAX)));
        assert!(all.take(1).is_some());
    }
}
