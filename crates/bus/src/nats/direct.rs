//! Reading one message at a time, without a question to JetStream itself: all that an account without JetStream may be given of
//! another's stores (I-14). `$JS.API.STREAM.…` does not cross between accounts, whatever is exported: the server asks the account of
//! who sent it. A consumer would have the server write to a subject that its maker chooses.
//!
//! `next_by_subj` gives the next message of a pattern, so a history is a chain of questions, each of which needs the answer before.
//! Beyond a handful the places of the stream are cut into stretches that are read side by side.

use super::read::{Part, Read, join};
use super::{Nats, fault, kv};
use crate::error::{Error, Kind};
use crate::limits::{
    CHAINS_AT_ONCE, KEYS_MAX, PAGE_BYTES_MAX, PAGE_MESSAGES_MAX, SINGLE_READS_MAX, STRETCH_GROWTH,
};
use crate::message::{Page, Record, Sequence};
use crate::pattern::{key_of, stream_of, subject_of};
use async_nats::client::RequestErrorKind;
use async_nats::{HeaderMap, HeaderValue, Message, Request, StatusCode};
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// How the stores are read.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// By every means of JetStream.
    #[default]
    All,
    /// Message by message: in an account that has no JetStream.
    Single,
}

impl Nats {
    pub(super) fn reads_singly(&self) -> bool {
        self.reads == Reads::Single
    }

    /// The message that is meant: by its place, as the next of a pattern, or as the last of one.
    pub(super) async fn direct(&self, stream: &str, which: &Value) -> Result<Option<Read>, Error> {
        let request = Request::new().payload(which.to_string().into());
        let answer = self.client.send_request(format!("$JS.API.DIRECT.GET.{stream}"), request).await;
        let answer = answer.map_err(|error| match error.kind() {
            // Newer servers say so of a stream that is not there; 2.9 says nothing at all.
            RequestErrorKind::TimedOut if self.reads_singly() => Error::unavailable(stream),
            _ => fault::of_storage(stream, error),
        });
        read_of_answer(stream, answer?)
    }

    /// A page of a pattern.
    pub(super) async fn read_singly(
        &self,
        stream: &str,
        pattern: &str,
        from: Sequence,
    ) -> Result<Page<Read>, Error> {
        let nothing = Page { items: Vec::new(), next: None };
        let Some(end) = self.end_of(stream, pattern).await?.filter(|end| *end >= from) else {
            return Ok(nothing);
        };
        // Most histories end here.
        let few = Stretch { from: from.max(1), to: end, messages: SINGLE_READS_MAX, bytes: PAGE_BYTES_MAX };
        let few = self.chain(stream, pattern, few).await?;
        let Some(last) = few.items.last().map(|read| read.record.sequence).filter(|_| few.more) else {
            return Ok(join(vec![few]));
        };
        let mut items = few.items;
        let mut bytes = size(&items);
        let mut next = last + 1;
        let mut width = PAGE_MESSAGES_MAX as Sequence;
        while next <= end && items.len() < PAGE_MESSAGES_MAX && bytes < PAGE_BYTES_MAX {
            let to = end.min(next.saturating_add(width - 1));
            let round = self.side_by_side(stream, pattern, next, to).await?;
            bytes += size(&round.items);
            // Where little of the stream is meant the stretches grow, so that what is not meant costs little.
            if round.items.len() < CHAINS_AT_ONCE {
                width = width.saturating_mul(STRETCH_GROWTH);
            }
            items.extend(round.items);
            if round.next.is_some() {
                return Ok(Page { items, next: round.next });
            }
            next = to + 1;
        }
        Ok(Page { items, next: Some(next).filter(|next| *next <= end) })
    }

    /// What lies between two places, both meant, read in stretches of one length.
    async fn side_by_side(
        &self,
        stream: &str,
        pattern: &str,
        from: Sequence,
        to: Sequence,
    ) -> Result<Page<Read>, Error> {
        let length = (to - from + 1).div_ceil(CHAINS_AT_ONCE as Sequence).max(1);
        let stretches = (0..CHAINS_AT_ONCE as Sequence).map(|number| from + number * length);
        let chains = stretches.take_while(|begin| *begin <= to).map(|begin| {
            let stretch = Stretch {
                from: begin,
                to: to.min(begin + length - 1),
                messages: PAGE_MESSAGES_MAX / CHAINS_AT_ONCE,
                bytes: PAGE_BYTES_MAX / CHAINS_AT_ONCE,
            };
            self.chain(stream, pattern, stretch)
        });
        let chains: Vec<_> = chains.collect();
        let mut answers = futures_util::stream::iter(chains).buffered(CHAINS_AT_ONCE);
        let mut parts = Vec::new();
        while let Some(part) = answers.next().await {
            parts.push(part?);
        }
        Ok(join(parts))
    }

    /// One message after the other.
    async fn chain(&self, stream: &str, pattern: &str, stretch: Stretch) -> Result<Part, Error> {
        let mut part = Part { items: Vec::new(), more: false };
        let (mut next, mut bytes) = (stretch.from, 0);
        while next <= stretch.to {
            if part.items.len() >= stretch.messages || bytes >= stretch.bytes {
                part.more = true;
                break;
            }
            let which = json!({ "seq": next, "next_by_subj": pattern });
            let found = self.direct(stream, &which).await?;
            let Some(read) = found.filter(|read| read.record.sequence <= stretch.to) else { break };
            next = read.record.sequence + 1;
            bytes += read.record.payload.len();
            part.items.push(read);
        }
        Ok(part)
    }

    /// The keys of a pattern, each with its value, which nobody looks at: single messages are all there is.
    pub(super) async fn keys_singly(&self, bucket: &str, pattern: &str) -> Result<Vec<String>, Error> {
        let (stream, filter) = (stream_of(bucket), subject_of(bucket, pattern));
        let mut keys = BTreeSet::new();
        let mut from = Some(0);
        while let Some(start) = from {
            let page = self.read_singly(&stream, &filter, start).await?;
            let found = page.items.iter().filter_map(|read| key_of(bucket, &read.record.subject));
            keys.extend(found.map(str::to_string));
            if keys.len() > KEYS_MAX {
                return Err(Error::too_large(bucket, keys.len(), KEYS_MAX));
            }
            from = page.next;
        }
        Ok(keys.into_iter().collect())
    }
}

/// Places from one to the other, both meant, and how much of them may be read.
#[derive(Copy, Clone)]
struct Stretch {
    from: Sequence,
    to: Sequence,
    messages: usize,
    bytes: usize,
}

fn size(items: &[Read]) -> usize {
    items.iter().map(|read| read.record.payload.len()).sum()
}

/// What a direct get answers: the message, and where and when it was kept in the headers.
pub(super) fn read_of_answer(what: &str, answer: Message) -> Result<Option<Read>, Error> {
    match answer.status {
        None | Some(StatusCode::OK) => {}
        Some(StatusCode::NOT_FOUND) => return Ok(None),
        Some(status) => {
            let words = answer.description.unwrap_or_default();
            return Err(Error::new(Kind::Other, format!("{what}: {status} {words}")));
        }
    }
    let headers: HeaderMap = answer.headers.unwrap_or_default();
    let header = |name: &str| headers.get_last(name).map(HeaderValue::as_str);
    let subject = header("Nats-Subject");
    let sequence = header("Nats-Sequence").and_then(|text| text.parse().ok());
    let at = header("Nats-Time-Stamp").and_then(|text| async_nats::datetime::parse_rfc3339(text).ok());
    let (Some(subject), Some(sequence), Some(at)) = (subject, sequence, at) else {
        return Err(Error::new(Kind::Other, format!("{what}: the answer has no subject, place or time")));
    };
    let record =
        Record { subject: subject.to_string(), payload: answer.payload, sequence, at: kv::millis(at) };
    Ok(Some(Read::new(record, headers)))
}
