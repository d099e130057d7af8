//! Reading what a stream keeps, page by page.
//!
//! A page makes one short-lived consumer, because a get for each message would cost a round trip each, and removes it before
//! it answers. On a cluster that lost a server a consumer may be placed on the server that is gone, so there a page begins
//! with a handful of gets, which the leader of the stream answers: most histories end there. A server that stands alone is
//! not asked so: the oldest that we run on dies of that question while the stream is being made.

use super::kv::millis;
use super::{Nats, core, fault};
use crate::error::{Error, Kind};
use crate::limits::{
    BATCH_MESSAGES_MAX, CONSUMER_IDLE_MAX, CONSUMER_TRIES, CONSUMER_WAIT, PAGE_BYTES_MAX, PAGE_MESSAGES_MAX,
    READ_WAIT, SINGLE_READS_MAX,
};
use crate::message::{Page, Record, Sequence};
use crate::pattern::{check_name, check_pattern, intersect};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::response::Response;
use async_nats::jetstream::stream::RawMessage;
use async_nats::{HeaderMap, StatusCode};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Value, json};

/// A message as it came, with the headers that only this module's friends look at.
pub(super) struct Read {
    pub record: Record,
    /// How often a consumer gave it.
    pub deliveries: u64,
    /// Which delivery it is of all that the consumer gave.
    pub given: u64,
    headers: Option<HeaderMap>,
}

impl Read {
    pub fn new(record: Record, headers: HeaderMap) -> Read {
        Read { record, deliveries: 1, given: 0, headers: Some(headers) }
    }

    pub fn has_header(&self, name: &str) -> bool {
        self.headers.as_ref().is_some_and(|headers| headers.get(name).is_some())
    }
}

#[derive(Deserialize)]
struct Consumer {
    name: String,
}

#[derive(Deserialize)]
struct StreamInfo {
    config: StreamConfig,
}

#[derive(Deserialize)]
struct StreamConfig {
    #[serde(default)]
    subjects: Vec<String>,
}

#[derive(Deserialize)]
struct Found {
    message: RawMessage,
}

/// What one filter gave.
pub(super) struct Part {
    pub items: Vec<Read>,
    pub more: bool,
}

impl Nats {
    pub(super) async fn read(
        &self,
        stream: &str,
        pattern: &str,
        from: Sequence,
    ) -> Result<Page<Record>, Error> {
        let page = self.read_raw(stream, pattern, from).await?;
        Ok(Page { items: page.items.into_iter().map(|read| read.record).collect(), next: page.next })
    }

    pub(super) async fn read_raw(
        &self,
        stream: &str,
        pattern: &str,
        from: Sequence,
    ) -> Result<Page<Read>, Error> {
        check_name(stream)?;
        check_pattern(pattern)?;
        if self.reads_singly() {
            return self.read_singly(stream, pattern, from).await;
        }
        if self.server_info().servers < 2 {
            return self.read_many(stream, pattern, from).await;
        }
        let few = self.read_few(stream, pattern, from).await?;
        let Some(last) = few.items.last().filter(|_| few.more).map(|read| read.record.sequence) else {
            return Ok(join(vec![few]));
        };
        let mut rest = self.read_many(stream, pattern, last + 1).await?;
        rest.items.splice(0..0, few.items);
        Ok(rest)
    }

    /// The first messages, one by one. None behind them: `more` is false.
    async fn read_few(&self, stream: &str, pattern: &str, from: Sequence) -> Result<Part, Error> {
        let mut items: Vec<Read> = Vec::new();
        let mut next = from.max(1);
        while items.len() < SINGLE_READS_MAX {
            let body = json!({ "seq": next, "next_by_subj": pattern });
            let Some(read) = self.read_one(stream, &body).await? else {
                return Ok(Part { items, more: false });
            };
            next = read.record.sequence + 1;
            items.push(read);
        }
        Ok(Part { items, more: true })
    }

    /// One message, as the leader of the stream has it.
    async fn read_one(&self, stream: &str, which: &Value) -> Result<Option<Read>, Error> {
        let verb = format!("STREAM.MSG.GET.{stream}");
        let found: Found = match self.api_raw(&verb, which).await? {
            Response::Ok(found) => found,
            Response::Err { error } if core::is(&error, ErrorCode::NO_MESSAGE_FOUND) => return Ok(None),
            Response::Err { error } => return Err(fault::of_server(&verb, error)),
        };
        let message = StreamMessage::try_from(found.message)
            .map_err(|error| Error::new(Kind::Other, format!("{stream}: {error}")))?;
        let record = Record {
            subject: message.subject.into_string(),
            payload: message.payload,
            sequence: message.sequence,
            at: millis(message.time),
        };
        Ok(Some(Read::new(record, message.headers)))
    }

    pub(super) async fn read_at(&self, stream: &str, sequence: Sequence) -> Result<Option<Record>, Error> {
        check_name(stream)?;
        if sequence == 0 {
            return Ok(None);
        }
        let which = json!({ "seq": sequence });
        let read = match self.reads_singly() {
            true => self.direct(stream, &which).await?,
            false => self.read_one(stream, &which).await?,
        };
        Ok(read.map(|read| read.record))
    }

    async fn read_many(&self, stream: &str, pattern: &str, from: Sequence) -> Result<Page<Read>, Error> {
        if let Some(part) = self.read_part(stream, pattern, from).await? {
            return Ok(join(vec![part]));
        }
        // Older servers take only a filter that lies within one subject of the stream. `zester.job.x.>` does not, so it is
        // cut into the pieces that do.
        let info: StreamInfo = self.api(&format!("STREAM.INFO.{stream}"), &json!({})).await?;
        let mut parts = Vec::new();
        for filter in info.config.subjects.iter().filter_map(|subject| intersect(subject, pattern)) {
            let part = self.read_part(stream, &filter, from).await?;
            parts.push(part.ok_or_else(|| {
                Error::new(Kind::Other, format!("{stream}: the server does not take the filter `{filter}`"))
            })?);
        }
        Ok(join(parts))
    }

    /// The place of the newest message that a filter means. What a consumer says of how much is before it cannot be used for
    /// that: nats-server 2.9 counts too few, or too many, where it begins in the middle of a stream.
    pub(super) async fn end_of(&self, stream: &str, filter: &str) -> Result<Option<Sequence>, Error> {
        let which = json!({ "last_by_subj": filter });
        let is_led = self.server_info().servers > 1 && !self.reads_singly();
        let read = match is_led {
            true => self.read_one(stream, &which).await?,
            false => self.direct(stream, &which).await?,
        };
        Ok(read.map(|read| read.record.sequence))
    }

    /// None when the server does not take the filter.
    async fn read_part(&self, stream: &str, filter: &str, from: Sequence) -> Result<Option<Part>, Error> {
        let mut config = json!({
            "deliver_policy": if from > 1 { "by_start_sequence" } else { "all" },
            "ack_policy": "none",
            "replay_policy": "instant",
            "inactive_threshold": u64::try_from(CONSUMER_IDLE_MAX.as_nanos()).unwrap_or(u64::MAX),
            "mem_storage": true,
            "num_replicas": 1,
        });
        if from > 1 {
            config["opt_start_seq"] = json!(from);
        }
        if filter != ">" {
            config["filter_subject"] = json!(filter);
        }
        let verb = format!("CONSUMER.CREATE.{stream}");
        let body = json!({ "stream_name": stream, "config": config });
        let consumer: Consumer = match self.create_consumer(&verb, &body).await? {
            Response::Ok(consumer) => consumer,
            Response::Err { error } if core::is(&error, ErrorCode::CONSUMER_FILTER_NOT_SUBSET) => {
                return Ok(None);
            }
            Response::Err { error } => return Err(fault::of_server(&verb, error)),
        };
        // Asked only now: about a stream that is not there this question gets no answer.
        let part = match self.end_of(stream, filter).await {
            Ok(Some(end)) if end >= from => self.read_consumer(stream, &consumer, end).await,
            Ok(_) => Ok(Part { items: Vec::new(), more: false }),
            Err(error) => Err(error),
        };
        // If this fails, the server forgets the consumer by itself after a while.
        let verb = format!("CONSUMER.DELETE.{stream}.{}", consumer.name);
        let _removed: Result<Value, Error> = self.api(&verb, &json!({})).await;
        part.map(Some)
    }

    /// Asks again when there is no answer: the next consumer may be placed on a server that is there.
    async fn create_consumer(&self, verb: &str, body: &Value) -> Result<Response<Consumer>, Error> {
        for _ in 1..CONSUMER_TRIES {
            let answer = tokio::time::timeout(CONSUMER_WAIT, self.api_raw(verb, body)).await;
            if let Ok(answer) = answer {
                return answer;
            }
        }
        self.api_raw(verb, body).await
    }

    async fn read_consumer(&self, stream: &str, consumer: &Consumer, end: Sequence) -> Result<Part, Error> {
        let mut items: Vec<Read> = Vec::new();
        let mut bytes = 0;
        while items.len() < PAGE_MESSAGES_MAX && bytes < PAGE_BYTES_MAX {
            let count = (PAGE_MESSAGES_MAX - items.len()).min(BATCH_MESSAGES_MAX);
            let batch = self.pull(stream, &consumer.name, count, end).await?;
            bytes += batch.iter().map(|read| read.record.payload.len()).sum::<usize>();
            // None at all: the rest has expired meanwhile.
            let is_last = batch.last().is_none_or(|read| read.record.sequence >= end);
            items.extend(batch);
            if is_last {
                return Ok(Part { items, more: false });
            }
        }
        Ok(Part { items, more: true })
    }

    /// Up to so many messages; fewer where one of them is at the end, or when none came for a while.
    async fn pull(
        &self,
        stream: &str,
        consumer: &str,
        count: usize,
        end: Sequence,
    ) -> Result<Vec<Read>, Error> {
        let gone =
            |error: &dyn std::fmt::Display| Error::new(Kind::Disconnected, format!("{stream}: {error}"));
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(|error| gone(&error))?;
        let asked = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let expires = u64::try_from(READ_WAIT.as_nanos()).unwrap_or(u64::MAX);
        let body = json!({ "batch": count, "expires": expires }).to_string();
        let sent = self.client.publish_with_reply(asked, inbox, body.into()).await;
        sent.map_err(|error| fault::of_publish(stream, error))?;
        let mut batch = Vec::with_capacity(count);
        while batch.len() < count {
            let next = tokio::time::timeout(self.answer_timeout, answers.next()).await;
            let next = next.map_err(|_| Error::timeout(stream))?;
            let message = next.ok_or_else(Error::disconnected)?;
            match message.status {
                None => {
                    let read = self.read_of(stream, message)?;
                    let is_last = read.record.sequence >= end;
                    batch.push(read);
                    if is_last {
                        break;
                    }
                }
                // There are no more.
                Some(status) if is_end(status) => break,
                // The consumer is gone, or whoever kept it: what it did not give is not "nothing".
                Some(status) => {
                    let words = message.description.unwrap_or_default();
                    let what = format!("{stream}: the reading ended with {status} {words}");
                    return Err(Error::new(Kind::Unavailable, what));
                }
            }
        }
        Ok(batch)
    }

    pub(super) fn read_of(&self, stream: &str, message: async_nats::Message) -> Result<Read, Error> {
        let message = async_nats::jetstream::Message { message, context: self.jetstream.clone() };
        let info = message.info().map_err(|error| Error::because(Kind::Other, stream, error))?;
        let (sequence, at) = (info.stream_sequence, millis(info.published));
        let deliveries = u64::try_from(info.delivered).unwrap_or(1);
        let given = info.consumer_sequence;
        let message = message.message;
        let subject = message.subject.into_string();
        let record = Record { subject, payload: message.payload, sequence, at };
        Ok(Read { record, deliveries, given, headers: message.headers })
    }
}

/// Whether the server says that there are no more, and not that its consumer is gone, or whoever kept it.
fn is_end(status: StatusCode) -> bool {
    matches!(status, StatusCode::NOT_FOUND | StatusCode::TIMEOUT)
}

/// Joins what several filters gave into one page. A filter that was cut short may lack what another one has beyond that
/// place, so the page ends at the earliest cut.
pub(super) fn join(parts: Vec<Part>) -> Page<Read> {
    let last = |part: &Part| part.items.last().map(|read| read.record.sequence);
    let cut = parts.iter().filter(|part| part.more).filter_map(last).min();
    let mut items: Vec<Read> = parts.into_iter().flat_map(|part| part.items).collect();
    items.retain(|read| cut.is_none_or(|cut| read.record.sequence <= cut));
    items.sort_by_key(|read| read.record.sequence);
    items.dedup_by_key(|read| read.record.sequence);
    Page { items, next: cut.map(|cut| cut + 1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn part(sequences: &[Sequence], more: bool) -> Part {
        let read = |sequence: &Sequence| Read {
            record: Record { subject: "a".into(), payload: Bytes::new(), sequence: *sequence, at: 0 },
            deliveries: 1,
            given: 1,
            headers: None,
        };
        Part { items: sequences.iter().map(read).collect(), more }
    }

    fn joined(parts: Vec<Part>) -> (Vec<Sequence>, Option<Sequence>) {
        let page = join(parts);
        (page.items.iter().map(|read| read.record.sequence).collect(), page.next)
    }

    /// Else a job would end without returns that the stream has.
    #[test]
    fn a_reading_that_was_cut_short_is_an_error_and_not_an_end() {
        for (code, ends) in [(404, true), (408, true), (400, false), (409, false), (503, false)] {
            assert_eq!(is_end(StatusCode::from_u16(code).unwrap()), ends, "{code}");
        }
    }

    #[test]
    fn parts_are_joined_in_order_up_to_the_earliest_cut() {
        assert_eq!(joined(vec![]), (vec![], None));
        assert_eq!(joined(vec![part(&[1, 4], false), part(&[2, 3], false)]), (vec![1, 2, 3, 4], None));
        assert_eq!(joined(vec![part(&[1, 9], false), part(&[2, 3], true)]), (vec![1, 2, 3], Some(4)));
        assert_eq!(joined(vec![part(&[5, 7], true), part(&[2, 6], true)]), (vec![2, 5, 6], Some(7)));
    }
}
