//! Before anything else: a bus that answers, and on it everything that a fleet keeps.

use crate::limits::{BUS_PAUSE, SERVER_FLOOR, STORES_ENSURE};
use std::time::Duration;
use tokio::time::{Instant, timeout, timeout_at};
use zester_bus::storage::{
    Drift, Report, Ttls, adjust_readers, ensure_all, ensure_readers, reactor, readers, replicas, table_with,
};
use zester_bus::{DurableReader, Event, Events, Kind, Store};
use zester_health::{Health, State};
use zester_jobs::Timing;
use zester_link::Link;

/// Waits until the bus is there and holds what a master needs. Never gives up, except on a bus that was closed.
pub async fn prepare(link: &Link, stores: &Stores, health: &Health) -> Result<(), zester_bus::Error> {
    let mut events = link.bus().events();
    if !link.bus().info().connected {
        // A start takes a moment to connect, which is nothing to complain about.
        let _still_away = timeout(BUS_PAUSE, connected(&mut events)).await;
    }
    let mut complaint = String::new();
    loop {
        match stores.prepare(link).await {
            Ok((report, adjusted)) => {
                health.set("bus", State::Up);
                for one in adjusted {
                    tracing::info!("changed on the bus, as it is configured now: {one}");
                }
                tell(link, &report);
                return Ok(());
            }
            Err(error) if error.kind() == Kind::Closed => return Err(error),
            Err(error) => {
                // Once, however long it takes.
                if complaint != error.to_string() {
                    complaint = error.to_string();
                    tracing::warn!("the bus is not ready: {complaint}");
                }
                health.set("bus", State::Down(error.to_string()));
            }
        }
        let _still_away = timeout(BUS_PAUSE, connected(&mut events)).await;
    }
}

/// Pending until there is a connection again; for ever when there will be none.
async fn connected(events: &mut Events) {
    while let Some(event) = events.next().await {
        if matches!(event, Event::Connected | Event::Reconnected) {
            return;
        }
    }
    std::future::pending().await
}

/// Everything that a fleet with this timing keeps on the bus.
pub fn table(timing: &Timing) -> Vec<Store> {
    table_with(Ttls { master_heartbeat: timing.master_ttl, lease: timing.lease_ttl })
}

/// What must be there.
pub struct Stores {
    table: Vec<Store>,
    readers: Vec<DurableReader>,
    replicas: Option<usize>,
}

impl Stores {
    /// `ack_wait` is how long a reactor may take to acknowledge an event.
    pub fn new(timing: &Timing, replicas: Option<usize>, ack_wait: Duration) -> Stores {
        let mut readers = readers();
        let of_reactor = reactor().name;
        readers.iter_mut().filter(|one| one.name == of_reactor).for_each(|one| one.ack_wait = ack_wait);
        Stores { table: table(timing), readers, replicas }
    }

    /// What a start does beside: how the readers give may have changed with the release, or with the configuration.
    async fn prepare(&self, link: &Link) -> Result<(Report, Vec<Drift>), zester_bus::Error> {
        let mut report = self.ensure(link).await?;
        let adjusted = adjust_readers(link.bus().as_ref(), &self.readers).await?;
        report.drift.retain(|drift| !adjusted.contains(drift));
        Ok((report, adjusted))
    }

    async fn ensure(&self, link: &Link) -> Result<Report, zester_bus::Error> {
        let bus = link.bus();
        bus.flush().await?;
        let copies = self.replicas.unwrap_or_else(|| replicas(bus.info().servers));
        let mut report = ensure_all(bus.as_ref(), &self.table, copies).await?;
        // Readers too, and at once: one that begins with what is new must be there before anything comes.
        let found = ensure_readers(bus.as_ref(), &self.readers).await?;
        report.created.extend(found.created);
        report.drift.extend(found.drift);
        Ok(report)
    }

    /// A server that comes back may have lost its disk, and somebody may have removed a store. Ends with the bus.
    pub async fn keep(self, link: Link) {
        let mut events = link.bus().events();
        let mut look_at = Instant::now() + STORES_ENSURE;
        loop {
            match timeout_at(look_at, events.next()).await {
                Ok(Some(Event::Reconnected)) => {}
                Ok(Some(_)) => continue,
                Ok(None) => return,
                Err(_) if !link.bus().info().connected => {
                    look_at = Instant::now() + STORES_ENSURE;
                    continue;
                }
                Err(_) => {}
            }
            look_at = Instant::now() + STORES_ENSURE;
            match self.ensure(&link).await {
                Ok(report) if report.created.is_empty() => {}
                Ok(report) => tracing::warn!("the bus had lost: {}", report.created.join(", ")),
                Err(error) => tracing::warn!("the stores could not be looked at: {error}"),
            }
        }
    }
}

fn tell(link: &Link, report: &Report) {
    if !report.created.is_empty() {
        tracing::info!("created on the bus: {}", report.created.join(", "));
    }
    for drift in &report.drift {
        tracing::warn!("a store is not as it should be: {drift}");
    }
    let version = link.bus().info().version;
    if is_below_floor(&version) {
        tracing::warn!("nats-server {version} has known security holes; {}", floors());
    }
}

fn floors() -> String {
    let floors = SERVER_FLOOR.map(|(minor, patch)| format!("2.{minor}.{patch}"));
    format!("use at least {}", floors.join(" or "))
}

/// A version that cannot be read is not judged.
fn is_below_floor(version: &str) -> bool {
    let core = version.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<u64> = core.split('.').filter_map(|part| part.parse().ok()).collect();
    let &[major, minor, patch] = parts.as_slice() else { return false };
    if major != 2 {
        return major < 2;
    }
    match SERVER_FLOOR.iter().find(|(floor, _)| *floor == minor) {
        Some((_, floor)) => patch < *floor,
        None => SERVER_FLOOR.iter().all(|(floor, _)| minor < *floor),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_known_holes_is_told_of() {
        for old in ["1.4.1", "2.9.25", "2.10.26", "2.11.0", "2.10.0-RC.1"] {
            assert!(is_below_floor(old), "{old}");
        }
        for new in ["2.10.27", "2.11.1", "2.11.10", "2.12.0", "3.0.0", "memory", ""] {
            assert!(!is_below_floor(new), "{new}");
        }
    }
}
