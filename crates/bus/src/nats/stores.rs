//! Making streams and buckets, and comparing those that exist with the table.

use super::{Nats, core, fault};
use crate::error::Error;
use crate::limits::PEER_SILENT_MAX;
use crate::message::{Sequence, Usage};
use crate::storage::{Found, Settings, Store, WhenFull, compare, in_words};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::{ClusterInfo, Config, DiscardPolicy, Info, PeerInfo, StorageType};
use serde_json::json;
use std::time::Duration;

impl Nats {
    /// Looks first and creates only what is not there. While a cluster elects a leader, a stream that exists may look as if it
    /// did not; creating it then is refused or changes nothing, because the server compares it with what it has.
    pub(super) async fn ensure_store(&self, store: &Store, replicas: usize) -> Result<Found, Error> {
        store.check()?;
        let name = store.stream_name();
        let look = format!("STREAM.INFO.{name}");
        match self.api_raw::<Info>(&look, &json!({})).await? {
            Response::Ok(info) => {
                let config = self.with_copies(info.config, replicas).await;
                return Ok(Found::Existing(compare(
                    &store.name,
                    store.settings(replicas),
                    settings(&config),
                )));
            }
            Response::Err { error } if core::is(&error, ErrorCode::STREAM_NOT_FOUND) => {}
            Response::Err { error } => return Err(fault::of_server(&look, error)),
        }
        let create = format!("STREAM.CREATE.{name}");
        match self.api_raw::<Info>(&create, &config(store, replicas)).await? {
            Response::Ok(_) => Ok(Found::Created),
            // Another master was faster, and its table is another one.
            Response::Err { error } if core::is(&error, ErrorCode::STREAM_NAME_EXIST) => {
                let info: Info = self.api(&look, &json!({})).await?;
                Ok(Found::Existing(compare(&store.name, store.settings(replicas), settings(&info.config))))
            }
            Response::Err { error } => Err(fault::of_server(&create, error)),
        }
    }

    /// A store that was made while its cluster was not complete gets the copies that it lacks: with one or two it would not
    /// outlive the loss of a server. Where that is refused, the difference is told.
    async fn with_copies(&self, found: Config, replicas: usize) -> Config {
        if found.num_replicas >= replicas {
            return found;
        }
        let wanted = Config { num_replicas: replicas, ..found.clone() };
        match self.api_raw::<Info>(&format!("STREAM.UPDATE.{}", found.name), &wanted).await {
            Ok(Response::Ok(info)) => info.config,
            _ => found,
        }
    }

    pub(super) async fn store_end(&self, store: &Store) -> Result<Sequence, Error> {
        match self.reads_singly() {
            true => Ok(self.end_of(&store.stream_name(), ">").await?.unwrap_or_default()),
            false => Ok(self.store_usage(store).await?.last),
        }
    }

    pub(super) async fn store_usage(&self, store: &Store) -> Result<Usage, Error> {
        let info: Info = self.api(&format!("STREAM.INFO.{}", store.stream_name()), &json!({})).await?;
        let state = info.state;
        let limit = u64::try_from(info.config.max_bytes).ok().filter(|limit| *limit > 0);
        Ok(Usage {
            messages: state.messages,
            bytes: state.bytes,
            limit,
            consumers: state.consumer_count,
            last: state.last_sequence,
            led: info.cluster.as_ref().is_none_or(is_led),
        })
    }
}

/// A server that has lost the others goes on answering for a stream that it led.
fn is_led(cluster: &ClusterInfo) -> bool {
    let there = |peer: &&PeerInfo| !peer.offline && peer.active < PEER_SILENT_MAX;
    let members = cluster.replicas.len() + 1;
    let present = cluster.replicas.iter().filter(there).count() + 1;
    cluster.leader.as_ref().is_some_and(|leader| !leader.is_empty()) && present * 2 > members
}

/// The settings of a store in the client's words.
fn config(store: &Store, replicas: usize) -> Config {
    let count = |limit: Option<u64>| limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX));
    Config {
        name: store.stream_name(),
        subjects: store.subjects.clone(),
        max_age: store.max_age.unwrap_or_default(),
        max_bytes: count(Some(store.max_bytes)),
        max_message_size: i32::try_from(store.max_message_bytes).unwrap_or(i32::MAX),
        max_messages: count(store.max_messages),
        max_messages_per_subject: count(store.per_subject),
        max_consumers: -1,
        discard: match store.when_full {
            WhenFull::DropOldest => DiscardPolicy::Old,
            WhenFull::Refuse => DiscardPolicy::New,
        },
        duplicate_window: store.duplicate_window.unwrap_or_default(),
        storage: StorageType::File,
        num_replicas: replicas,
        allow_rollup: false,
        deny_delete: store.is_bucket,
        allow_direct: true,
        ..Config::default()
    }
}

/// What the server has, in the words and the order of [`Store::settings`].
fn settings(found: &Config) -> Settings {
    let mut subjects = found.subjects.clone();
    subjects.sort_unstable();
    // The server writes 0 or -1 where there is no limit.
    let limit = |limit: i64| in_words(u64::try_from(limit).ok().filter(|limit| *limit > 0));
    let age = |age: Duration| in_words(Some(age).filter(|age| !age.is_zero()));
    let when_full = match found.discard {
        DiscardPolicy::Old => WhenFull::DropOldest,
        DiscardPolicy::New => WhenFull::Refuse,
    };
    vec![
        ("subjects", subjects.join(", ")),
        ("age", age(found.max_age)),
        ("bytes", limit(found.max_bytes)),
        ("bytes of a message", limit(found.max_message_size.into())),
        ("messages", limit(found.max_messages)),
        ("messages of a subject", limit(found.max_messages_per_subject)),
        ("when full", format!("{when_full:?}")),
        ("window of message ids", age(found.duplicate_window)),
        ("storage", if found.storage == StorageType::File { "file" } else { "memory" }.into()),
        ("rollup", found.allow_rollup.to_string()),
        ("direct get", found.allow_direct.to_string()),
        ("replicas", found.num_replicas.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_table_asks_for_reads_back_as_asked() {
        for store in crate::storage::table() {
            let drift = compare(&store.name, store.settings(3), settings(&config(&store, 3)));
            assert_eq!(drift, [], "{}", store.name);
        }
    }

    #[test]
    fn a_stream_is_led_while_more_than_half_of_its_servers_are_there() {
        let peer = |silent: u64, offline: bool| {
            let active = Duration::from_secs(silent);
            PeerInfo { name: "n".into(), current: true, active, offline, lag: None }
        };
        let cluster = |leader: Option<&str>, replicas: Vec<PeerInfo>| {
            let text = serde_json::json!({ "leader": leader, "replicas": [] });
            let info: ClusterInfo = serde_json::from_value(text).unwrap();
            ClusterInfo { replicas, ..info }
        };
        assert!(is_led(&cluster(Some("a"), vec![])));
        assert!(is_led(&cluster(Some("a"), vec![peer(1, false), peer(60, false)])));
        assert!(is_led(&cluster(Some("a"), vec![peer(1, false), peer(1, true)])));
        assert!(!is_led(&cluster(Some("a"), vec![peer(60, false), peer(1, true)])));
        assert!(!is_led(&cluster(None, vec![peer(1, false), peer(1, false)])));
        assert!(!is_led(&cluster(Some(""), vec![])));
    }

    #[test]
    fn every_setting_that_differs_is_named() {
        let store = Store { duplicate_window: Some(Duration::from_secs(9)), ..Store::bucket("a", 1024) };
        let other = Config {
            subjects: vec!["x".into()],
            max_age: Duration::from_secs(1),
            max_bytes: -1,
            max_message_size: 7,
            max_messages: 7,
            max_messages_per_subject: 7,
            discard: DiscardPolicy::Old,
            duplicate_window: Duration::from_secs(1),
            storage: StorageType::Memory,
            num_replicas: 3,
            allow_rollup: true,
            allow_direct: false,
            ..config(&store, 1)
        };
        let drift = compare(&store.name, store.settings(1), settings(&other));
        assert_eq!(drift.len(), store.settings(1).len(), "{drift:?}");
        assert!(drift.iter().any(|one| one.to_string() == "a: bytes is none, should be 1024"));
    }
}
