//! The table of streams and buckets.

use crate::bench::Bench;
use std::time::Duration;
use zester_bus::storage::{ensure_all, ensure_readers, readers, replicas, table};
use zester_bus::{Drift, Found, Store};

pub async fn the_table_is_created_once_and_then_as_wanted(bench: Bench) {
    let bus = bench.connect("master").await;
    let replicas = replicas(bus.info().servers);
    assert_eq!(replicas, 1);
    let first = ensure_all(&*bus, &table(), replicas).await.unwrap();
    assert_eq!((first.created.len(), first.drift.len()), (table().len(), 0));
    let again = ensure_all(&*bus, &table(), replicas).await.unwrap();
    assert_eq!((again.created, again.drift), (vec![], vec![]));
    let first = ensure_readers(&*bus, &readers()).await.unwrap();
    assert_eq!((first.created.len(), first.drift.len()), (readers().len(), 0));
    let again = ensure_readers(&*bus, &readers()).await.unwrap();
    assert_eq!((again.created, again.drift), (vec![], vec![]));
}

pub async fn drift_of_an_existing_store_is_told_and_not_repaired(bench: Bench) {
    let bus = bench.connect("master").await;
    let old = Store::bucket("leases", 1024 * 1024).ttl(Duration::from_secs(5));
    assert_eq!(bus.ensure(&old, 1).await.unwrap(), Found::Created);
    let new = Store::bucket("leases", 1024 * 1024).ttl(Duration::from_secs(15));
    let told = Found::Existing(vec![Drift {
        store: "leases".into(),
        setting: "age",
        wanted: "15s".into(),
        found: "5s".into(),
    }]);
    assert_eq!(bus.ensure(&new, 1).await.unwrap(), told);
    assert_eq!(bus.ensure(&new, 1).await.unwrap(), told);
    assert_eq!(bus.ensure(&old, 1).await.unwrap(), Found::Existing(vec![]));
}
