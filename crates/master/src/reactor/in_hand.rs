//! What is worked on: each delivery is kept alive until whoever works on it lets go of it. An event may be here twice, where a sign
//! of life was lost, and either is let go by itself.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_bus::Taken;
use zester_reactor::Place;

/// The place of an event in its stream, and how often it was given.
type Delivery = (Place, u64);

pub struct InHand<T = Taken> {
    held: Arc<Mutex<BTreeMap<Delivery, Arc<T>>>>,
}

/// The delivery is kept alive until this is dropped, however that comes about.
pub struct Kept<T = Taken> {
    held: Arc<Mutex<BTreeMap<Delivery, Arc<T>>>>,
    delivery: Delivery,
}

impl<T> Default for InHand<T> {
    fn default() -> InHand<T> {
        InHand { held: Arc::default() }
    }
}

impl<T> InHand<T> {
    pub fn hold(&self, place: Place, deliveries: u64, taken: Arc<T>) -> Kept<T> {
        let delivery = (place, deliveries);
        locked(&self.held).insert(delivery, taken);
        Kept { held: self.held.clone(), delivery }
    }

    pub fn all(&self) -> Vec<Arc<T>> {
        locked(&self.held).values().cloned().collect()
    }
}

impl<T> Drop for Kept<T> {
    fn drop(&mut self) {
        locked(&self.held).remove(&self.delivery);
    }
}

fn locked<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::UnixMillis;

    #[test]
    #[rule("R-11")]
    fn r11_a_second_delivery_is_kept_alive_when_the_first_ends() {
        let all = InHand::<u64>::default();
        let place = Place { sequence: 7, stored: UnixMillis(1) };
        let first = all.hold(place, 1, Arc::new(1));
        let second = all.hold(place, 2, Arc::new(2));
        drop(first);
        assert_eq!(all.all(), [Arc::new(2)]);
        drop(second);
        assert!(all.all().is_empty());
    }
}
