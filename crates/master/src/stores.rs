//! Looks after the stores: how full they are, whether somebody answers for them, and what writes to them met (J-23, J-29).

use crate::core::Core;
use crate::limits::{OTHERS_EVERY, STORES_LOOK};
use crate::start;
use futures_util::future::join_all;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::time::sleep;
use zester_bus::storage::WhenFull;
use zester_bus::{Kind, Store};
use zester_health::State;
use zester_jobs::stores::{NEEDED, Readiness, StoreStatus, Trouble};
use zester_link::{Error, Link, SteadyClock};
use zester_wire::{Bucket, Refusal, UnixMillis};

/// What is known of the stores, for whoever is about to write.
pub struct StoreHealth {
    stores: Mutex<StoreStatus>,
    /// Spans are of time that really passed, whatever somebody does to the clock.
    clock: SteadyClock,
}

impl StoreHealth {
    pub fn new(link: &Link) -> StoreHealth {
        StoreHealth { stores: Mutex::default(), clock: SteadyClock::new(link.now()) }
    }

    /// Why no job may begin now.
    pub fn refusal(&self) -> Option<Refusal> {
        self.lock().refusal(self.now())
    }

    /// A write to a store failed. Says what to tell whoever wanted it, where it is certain that nothing was written.
    pub fn refused(&self, store: &str, error: &Error) -> Option<Refusal> {
        let trouble = match error.bus_kind()? {
            Kind::Full => Trouble::Full,
            Kind::Unavailable | Kind::NoResponders => Trouble::NoLeader,
            Kind::Off => Trouble::JetStreamOff,
            _ => return None,
        };
        Some(self.lock().refused(store, trouble, &error.to_string(), self.now()))
    }

    pub fn wrote(&self, store: &str) {
        self.lock().wrote(store);
    }

    pub fn percents(&self) -> Vec<(String, u64)> {
        self.lock().percents().map(|(store, percent)| (store.to_string(), percent)).collect()
    }

    fn now(&self) -> UnixMillis {
        self.clock.now()
    }

    fn lock(&self) -> MutexGuard<'_, StoreStatus> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks at all stores, again and again. Ends only with its task.
pub async fn run(core: Arc<Core>) {
    let table = start::table(&core.timing);
    let mut told = Readiness::Ready;
    for number in 0_u32.. {
        let is_due = |store: &&Store| NEEDED.contains(&store.name.as_str()) || number % OTHERS_EVERY == 0;
        join_all(table.iter().filter(is_due).map(|store| look(&core, store))).await;
        let readiness = core.stores.lock().readiness(core.stores.now());
        tell(&mut told, &readiness);
        core.health.set(
            "stores",
            match readiness {
                Readiness::Ready => State::Up,
                Readiness::Degraded(why) => State::Degraded(why),
                Readiness::Down(why) => State::Down(why),
            },
        );
        tell_index(&core);
        sleep(STORES_LOOK).await;
    }
}

/// Says whether the index is fed, once it was complete.
pub fn tell_index(core: &Core) {
    if core.index.is_current() {
        let expects = || core.index.presence().expects_any();
        let fed = core.index.feed().readiness(core.timing.peel_ttl, expects, core.stores.now());
        core.health.set("index", fed);
    }
}

async fn look(core: &Core, store: &Store) {
    let usage = core.link.bus().usage(store).await;
    if let Ok(usage) = &usage
        && store.name == Bucket::Facts.as_str()
    {
        core.index.feed().looked(usage.last);
    }
    let mut stores = core.stores.lock();
    match usage {
        Ok(usage) if !usage.led => stores.unanswered(&store.name, true, core.stores.now()),
        Ok(usage) => stores.looked(&store.name, usage.percent(), store.when_full == WhenFull::Refuse),
        // Without a connection nothing is known of a store; the bus itself is told to be down.
        Err(error) if matches!(error.kind(), Kind::Disconnected | Kind::Closed) => {}
        Err(error) if error.kind() == Kind::Off => {
            stores.jetstream_is_off(&store.name, core.stores.now());
        }
        Err(error) => {
            let certain = matches!(error.kind(), Kind::Unavailable | Kind::NoResponders);
            stores.unanswered(&store.name, certain, core.stores.now());
        }
    }
}

/// Once when it begins, and once when it is over; what it says then changes with every look.
fn tell(told: &mut Readiness, now: &Readiness) {
    let same = std::mem::discriminant(told) == std::mem::discriminant(now);
    match now {
        _ if same => {}
        Readiness::Ready => tracing::info!("all stores work again"),
        Readiness::Degraded(why) | Readiness::Down(why) => tracing::warn!("{why}"),
    }
    *told = now.clone();
}
