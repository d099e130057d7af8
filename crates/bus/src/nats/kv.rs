//! Keys. By hand on the subjects of a bucket rather than by the client's store: that one asks for the whole bucket first,
//! which a peel may not, cannot make a bucket on the oldest server we run on, and marks removed keys instead of removing them.

use super::direct::read_of_answer;
use super::read::Read;
use super::{Nats, core, fault};
use crate::error::{Error, Kind};
use crate::limits::KEYS_MAX;
use crate::message::{Entry, Page, Record, Sequence};
use crate::pattern::{check_name, check_pattern, check_subject, key_of, stream_of, subject_of};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use async_nats::{HeaderMap, Request};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;

/// The header of a marker that other tools leave where a key was.
const OPERATION: &str = "KV-Operation";

struct Raw {
    entry: Entry,
    is_marker: bool,
}

#[derive(Deserialize)]
struct Gotten {
    message: GottenMessage,
}

#[derive(Deserialize)]
struct GottenMessage {
    seq: Sequence,
    time: String,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
}

#[derive(Deserialize)]
struct Purged {
    purged: u64,
}

#[derive(Deserialize)]
struct Subjects {
    #[serde(default)]
    total: usize,
    state: SubjectState,
}

#[derive(Deserialize)]
struct SubjectState {
    #[serde(default)]
    subjects: BTreeMap<String, u64>,
}

impl Nats {
    pub(super) async fn kv_get(&self, bucket: &str, key: &str) -> Result<Option<Entry>, Error> {
        let raw = self.kv_raw(bucket, key).await?;
        Ok(raw.filter(|raw| !raw.is_marker).map(|raw| raw.entry))
    }

    async fn kv_raw(&self, bucket: &str, key: &str) -> Result<Option<Raw>, Error> {
        check_key(bucket, key)?;
        let read = self.direct_get(&stream_of(bucket), &subject_of(bucket, key)).await?;
        Ok(read.map(|read| {
            let is_marker = read.has_header(OPERATION);
            let Record { payload: value, sequence: revision, at, .. } = read.record;
            Raw { entry: Entry { key: key.into(), value, revision, at }, is_marker }
        }))
    }

    pub(super) async fn last_of(&self, stream: &str, subject: &str) -> Result<Option<Record>, Error> {
        check_name(stream)?;
        check_subject(subject)?;
        Ok(self.direct_get(stream, subject).await?.map(|read| read.record))
    }

    /// The newest message of a subject. It is named in the subject of the request, so that grants can name keys; those of operators
    /// name stores.
    async fn direct_get(&self, stream: &str, subject: &str) -> Result<Option<Read>, Error> {
        if self.reads_singly() {
            return self.direct(stream, &json!({ "last_by_subj": subject })).await;
        }
        let asked = format!("$JS.API.DIRECT.GET.{stream}.{subject}");
        let answer = self.client.send_request(asked, Request::new()).await;
        read_of_answer(subject, answer.map_err(|error| fault::of_storage(subject, error))?)
    }

    /// Only the leader of a stream answers this one; replicas answer direct gets. An account without JetStream cannot ask for the
    /// leader: there a cluster may lag.
    pub(super) async fn kv_get_latest(&self, bucket: &str, key: &str) -> Result<Option<Entry>, Error> {
        check_key(bucket, key)?;
        if self.reads_singly() {
            return self.kv_get(bucket, key).await;
        }
        let subject = subject_of(bucket, key);
        let verb = format!("STREAM.MSG.GET.{}", stream_of(bucket));
        let message = match self.api_raw::<Gotten>(&verb, &json!({ "last_by_subj": subject })).await? {
            Response::Ok(gotten) => gotten.message,
            Response::Err { error } if core::is(&error, ErrorCode::NO_MESSAGE_FOUND) => return Ok(None),
            Response::Err { error } => return Err(fault::of_server(&subject, error)),
        };
        let bad = |what: &str| Error::new(Kind::Other, format!("{subject}: the answer has no {what}"));
        let decoded = |text: &str| BASE64.decode(text).map_err(|_| bad("readable value"));
        if String::from_utf8_lossy(&decoded(&message.hdrs)?).contains(OPERATION) {
            return Ok(None);
        }
        let at = async_nats::datetime::parse_rfc3339(&message.time).map_err(|_| bad("time"))?;
        let value = decoded(&message.data)?.into();
        Ok(Some(Entry { key: key.into(), value, revision: message.seq, at: millis(at) }))
    }

    pub(super) async fn kv_write(
        &self,
        bucket: &str,
        key: &str,
        value: Bytes,
        expected: Option<Sequence>,
    ) -> Result<Sequence, Error> {
        check_key(bucket, key)?;
        let mut headers = HeaderMap::new();
        if let Some(expected) = expected {
            headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, expected.to_string());
        }
        Ok(self.store_with(&subject_of(bucket, key), value, headers).await?.sequence)
    }

    pub(super) async fn kv_create(&self, bucket: &str, key: &str, value: Bytes) -> Result<Sequence, Error> {
        let lost = match self.kv_write(bucket, key, value.clone(), Some(0)).await {
            Err(error) if error.kind() == Kind::Conflict => error,
            other => return other,
        };
        // A marker is no value: whoever left it, the key does not exist.
        match self.kv_raw(bucket, key).await {
            Ok(Some(raw)) if raw.is_marker => {
                self.kv_write(bucket, key, value, Some(raw.entry.revision)).await
            }
            // Also where the look failed: that the key is taken was answered, and whoever takes it for "no stream answers"
            // would say that nothing was written.
            Ok(_) | Err(_) => Err(lost),
        }
    }

    pub(super) async fn kv_purge(
        &self,
        bucket: &str,
        key: &str,
        expected: Option<Sequence>,
    ) -> Result<(), Error> {
        check_key(bucket, key)?;
        let subject = subject_of(bucket, key);
        let mut body = json!({ "filter": subject });
        if let Some(expected) = expected {
            // Up to and without. A newer value has a higher number and stays, and then nothing was removed.
            body["seq"] = json!(expected + 1);
        }
        let done: Purged = self.api(&format!("STREAM.PURGE.{}", stream_of(bucket)), &body).await?;
        if expected.is_some() && done.purged == 0 {
            return Err(Error::new(
                Kind::Conflict,
                format!("{subject}: its revision is not the expected one"),
            ));
        }
        Ok(())
    }

    pub(super) async fn kv_purge_all(&self, bucket: &str, pattern: &str) -> Result<(), Error> {
        check_name(bucket)?;
        check_pattern(pattern)?;
        let body = json!({ "filter": subject_of(bucket, pattern) });
        let _done: Purged = self.api(&format!("STREAM.PURGE.{}", stream_of(bucket)), &body).await?;
        Ok(())
    }

    pub(super) async fn kv_keys(&self, bucket: &str, pattern: &str) -> Result<Vec<String>, Error> {
        check_name(bucket)?;
        check_pattern(pattern)?;
        if self.reads_singly() {
            return self.keys_singly(bucket, pattern).await;
        }
        let verb = format!("STREAM.INFO.{}", stream_of(bucket));
        let filter = subject_of(bucket, pattern);
        let mut keys = Vec::new();
        let mut offset = 0;
        loop {
            let body = json!({ "subjects_filter": filter, "offset": offset });
            let page: Subjects = self.api(&verb, &body).await?;
            offset += page.state.subjects.len();
            let found = page.state.subjects.keys().filter_map(|subject| key_of(bucket, subject));
            keys.extend(found.map(str::to_string));
            if keys.len() > KEYS_MAX {
                return Err(Error::too_large(bucket, keys.len(), KEYS_MAX));
            }
            if page.state.subjects.is_empty() || offset >= page.total {
                break;
            }
        }
        keys.sort_unstable();
        // Keys that come or go between two pages shift the next one.
        keys.dedup();
        Ok(keys)
    }

    pub(super) async fn kv_scan(
        &self,
        bucket: &str,
        pattern: &str,
        from: Sequence,
    ) -> Result<Page<Entry>, Error> {
        check_name(bucket)?;
        check_pattern(pattern)?;
        let page = self.read_raw(&stream_of(bucket), &subject_of(bucket, pattern), from).await?;
        let values = page.items.into_iter().filter(|read| !read.has_header(OPERATION));
        let items = values.filter_map(|read| {
            let key = key_of(bucket, &read.record.subject)?.to_string();
            let record = read.record;
            Some(Entry { key, value: record.payload, revision: record.sequence, at: record.at })
        });
        Ok(Page { items: items.collect(), next: page.next })
    }
}

pub(super) fn is_marker(headers: Option<&HeaderMap>) -> bool {
    headers.is_some_and(|headers| headers.get(OPERATION).is_some())
}

pub(super) fn millis(at: async_nats::datetime::DateTime) -> u64 {
    u64::try_from(at.unix_timestamp_nanos() / 1_000_000).unwrap_or_default()
}

fn check_key(bucket: &str, key: &str) -> Result<(), Error> {
    check_name(bucket)?;
    check_subject(key)
}
