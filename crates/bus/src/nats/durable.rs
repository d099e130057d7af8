//! Durable readers: pull consumers with explicit acknowledgement, shared by name.

use super::read::Read;
use super::{Nats, core, fault};
use crate::durable::{
    ACK_WAIT, Acknowledge, DELIVERIES, DurableReader, Pending, Start, Taken, UNACKED, adjustable,
};
use crate::error::{Error, Kind};
use crate::limits::{PULL_GAP, PULL_SETTLE};
use crate::storage::{Drift, Found, Settings, compare, in_words};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use async_nats::{StatusCode, Subscriber};
use futures_util::StreamExt;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::PoisonError;
use std::time::Duration;
use tokio::time::Instant;

/// What the server says of a consumer.
#[derive(Deserialize)]
struct Info {
    config: Config,
    #[serde(default)]
    num_pending: u64,
    #[serde(default)]
    num_ack_pending: u64,
}

#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    filter_subject: String,
    deliver_policy: String,
    #[serde(default)]
    ack_wait: u64,
    #[serde(default)]
    max_ack_pending: i64,
    #[serde(default)]
    max_deliver: i64,
    /// What we do not look at.
    #[serde(flatten)]
    rest: Map<String, Value>,
}

/// Where the server puts what a reader asked for.
pub(super) struct Inbox {
    subject: String,
    answers: Subscriber,
    /// Messages of the last question that may still come.
    open: usize,
    /// When somebody last looked into it.
    left_at: Instant,
}

impl Nats {
    /// Looks first: the server would refuse, or change, one that another release made.
    pub(super) async fn ensure_durable(&self, reader: &DurableReader) -> Result<Found, Error> {
        reader.check()?;
        if let Some(info) = self.look_at(reader).await? {
            return Ok(Found::Existing(compare(&reader.title(), reader.settings(), settings(&info.config))));
        }
        let create = format!("CONSUMER.DURABLE.CREATE.{}.{}", reader.stream, reader.name);
        let body = json!({ "stream_name": reader.stream, "config": config(reader) });
        match self.api_raw::<Value>(&create, &body).await? {
            Response::Ok(_) => Ok(Found::Created),
            // Another was faster.
            Response::Err { error } if core::is(&error, ErrorCode::CONSUMER_NAME_EXIST) => {
                Ok(Found::Existing(Vec::new()))
            }
            Response::Err { error } => Err(fault::of_server(&create, error)),
        }
    }

    /// Whatever else the consumer is set to stays: the server takes its settings as a whole.
    pub(super) async fn adjust_durable(&self, reader: &DurableReader) -> Result<Vec<Drift>, Error> {
        reader.check()?;
        let info = self.look_at(reader).await?.ok_or_else(|| Error::unavailable(&reader.title()))?;
        let drift = adjustable(compare(&reader.title(), reader.settings(), settings(&info.config)));
        if drift.is_empty() {
            return Ok(drift);
        }
        let (mut kept, wanted) = (Value::Object(info.config.rest), config(reader));
        for setting in ["ack_wait", "max_ack_pending", "max_deliver"] {
            kept[setting] = wanted[setting].clone();
        }
        kept["filter_subject"] = json!(info.config.filter_subject);
        kept["deliver_policy"] = json!(info.config.deliver_policy);
        let update = format!("CONSUMER.DURABLE.CREATE.{}.{}", reader.stream, reader.name);
        self.api::<Value>(&update, &json!({ "stream_name": reader.stream, "config": kept })).await?;
        Ok(drift)
    }

    /// None where there is no such consumer.
    async fn look_at(&self, reader: &DurableReader) -> Result<Option<Info>, Error> {
        let look = format!("CONSUMER.INFO.{}.{}", reader.stream, reader.name);
        match self.api_raw(&look, &json!({})).await? {
            Response::Ok(info) => Ok(Some(info)),
            Response::Err { error } if core::is(&error, ErrorCode::CONSUMER_NOT_FOUND) => Ok(None),
            Response::Err { error } => Err(fault::of_server(&look, error)),
        }
    }

    pub(super) async fn pending_of(&self, reader: &DurableReader) -> Result<Pending, Error> {
        reader.check()?;
        let info = self.look_at(reader).await?.ok_or_else(|| Error::unavailable(&reader.title()))?;
        Ok(Pending { waiting: info.num_pending, unacked: info.num_ack_pending })
    }

    /// The first that comes in time, and what waits behind it. Every question ends at the server, by its count or by its
    /// time. What one question did not bring at once comes into the same inbox, where the next look finds it: nothing that the
    /// server gave is lost to a reader that goes on.
    pub(super) async fn take_durable(
        &self,
        reader: &DurableReader,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Taken>, Error> {
        let kept = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).remove(&reader.title());
        if count == 0 {
            return Ok(Vec::new());
        }
        let mut inbox = match kept {
            // What lay in one for longer is given again by now.
            Some(inbox) if inbox.left_at.elapsed() < reader.ack_wait / 2 => inbox,
            _ => self.new_inbox(reader).await?,
        };
        let taken = self.take_into(&mut inbox, reader, count, wait).await?;
        inbox.left_at = Instant::now();
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).insert(reader.title(), inbox);
        Ok(taken)
    }

    async fn new_inbox(&self, reader: &DurableReader) -> Result<Inbox, Error> {
        let subject = self.client.new_inbox();
        let gone = |error| Error::new(Kind::Disconnected, format!("{}: {error}", reader.title()));
        let answers = self.client.subscribe(subject.clone()).await.map_err(gone)?;
        Ok(Inbox { subject, answers, open: 0, left_at: Instant::now() })
    }

    async fn take_into(
        &self,
        inbox: &mut Inbox,
        reader: &DurableReader,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Taken>, Error> {
        let end = Instant::now() + wait;
        let mut taken = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let behind = self.behind(reader);
            // One that is in the middle of much to do goes on with what it has; one that begins looks at what there is.
            let (patience, busy) = match inbox.open {
                0 if left.is_zero() || behind > 0 => {
                    let most = if left.is_zero() { count } else { count.min(behind) };
                    self.ask_for(inbox, reader, most, None).await?;
                    (PULL_SETTLE, behind > 0)
                }
                0 => {
                    self.ask_for(inbox, reader, 1, Some(left)).await?;
                    (left, false)
                }
                _ => (PULL_SETTLE, true),
            };
            let ended = self.collect(inbox, reader, count, patience, busy, &mut taken).await?;
            if taken.is_empty() {
                if ended && Instant::now() >= end {
                    return Ok(taken);
                }
                continue;
            }
            let more = (count - taken.len().min(count)).min(self.behind(reader));
            // What was given must be used; the next one who asks hears what is wrong.
            if !busy && more > 0 && inbox.open == 0 && self.ask_for(inbox, reader, more, None).await.is_ok() {
                let _next_time = self.collect(inbox, reader, count, PULL_SETTLE, false, &mut taken).await;
            }
            return Ok(taken);
        }
    }

    /// How many messages the last one that was taken had behind it.
    fn behind(&self, reader: &DurableReader) -> usize {
        let behind = self.behind.lock().unwrap_or_else(PoisonError::into_inner);
        behind.get(&reader.title()).copied().unwrap_or(0)
    }

    fn set_behind(&self, reader: &DurableReader, count: usize) {
        self.behind.lock().unwrap_or_else(PoisonError::into_inner).insert(reader.title(), count);
    }

    /// Asks for so many: of what waits, or the first that come in this time.
    async fn ask_for(
        &self,
        inbox: &mut Inbox,
        reader: &DurableReader,
        count: usize,
        wait: Option<Duration>,
    ) -> Result<(), Error> {
        let asked = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", reader.stream, reader.name);
        let expires = nanos(wait.unwrap_or(PULL_SETTLE));
        let body = json!({ "batch": count, "no_wait": wait.is_none(), "expires": expires }).to_string();
        let sent = self.client.publish_with_reply(asked, inbox.subject.clone(), body.into()).await;
        sent.map_err(|error| fault::of_publish(&reader.title(), error))?;
        inbox.open = count;
        Ok(())
    }

    /// Takes what comes until the question has ended (true). A busy reader does not wait for what is slow to come once it has
    /// something in hand: a server that is behind with acknowledgements has no room for more until they are read.
    async fn collect(
        &self,
        inbox: &mut Inbox,
        reader: &DurableReader,
        count: usize,
        patience: Duration,
        busy: bool,
        taken: &mut Vec<Taken>,
    ) -> Result<bool, Error> {
        let name = reader.title();
        while inbox.open > 0 && taken.len() < count {
            let until = if busy && !taken.is_empty() { PULL_GAP } else { self.answer_timeout + patience };
            let message = match tokio::time::timeout(until, inbox.answers.next()).await {
                Ok(Some(message)) => message,
                // What was given must be used, whatever happened to the rest.
                _ if !taken.is_empty() => return Ok(false),
                Ok(None) => return Err(Error::disconnected()),
                Err(_) => return Err(Error::timeout(&name)),
            };
            if message.status.is_none() {
                inbox.open -= 1;
                taken.push(self.taken_of(reader, message)?);
                continue;
            }
            inbox.open = 0;
            match message.status {
                // There is nothing, or nothing more in time.
                Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => self.set_behind(reader, 0),
                _ if !taken.is_empty() => {}
                Some(StatusCode::NO_RESPONDERS) => return Err(Error::unavailable(&name)),
                status => {
                    let status = status.map_or_else(String::new, |status| status.to_string());
                    let words = message.description.unwrap_or_default();
                    let what = format!("{name}: the server said {status} {words}");
                    return Err(Error::new(Kind::Unavailable, what));
                }
            }
        }
        Ok(inbox.open == 0)
    }

    fn taken_of(&self, reader: &DurableReader, message: async_nats::Message) -> Result<Taken, Error> {
        let token = message.reply.as_ref().map(ToString::to_string).unwrap_or_default();
        let Read { record, deliveries, behind, .. } = self.read_of(&reader.stream, message)?;
        self.set_behind(reader, behind);
        Ok(Taken { record, deliveries, token })
    }

    pub(super) async fn acknowledge(&self, taken: &Taken, what: Acknowledge) -> Result<(), Error> {
        let body = match what {
            Acknowledge::Done => "+ACK".to_string(),
            Acknowledge::Later(delay) => format!("-NAK {}", json!({ "delay": nanos(delay) })),
            Acknowledge::Progress => "+WPI".to_string(),
            Acknowledge::Never => "+TERM".to_string(),
        };
        self.send(&taken.token, body.into()).await
    }
}

/// The settings of a reader in the words of the server.
fn config(reader: &DurableReader) -> Value {
    let mut config = json!({
        "durable_name": reader.name,
        "deliver_policy": policy(reader.start),
        "ack_policy": "explicit",
        "ack_wait": nanos(reader.ack_wait),
        "max_ack_pending": reader.unacked_max,
        "max_deliver": reader.max_deliver.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX)),
        "replay_policy": "instant",
    });
    if reader.pattern != ">" {
        config["filter_subject"] = json!(reader.pattern);
    }
    config
}

fn policy(start: Start) -> &'static str {
    match start {
        Start::Oldest => "all",
        Start::New => "new",
    }
}

/// What the server has, in the words and the order of [`DurableReader::settings`].
fn settings(found: &Config) -> Settings {
    let starts = [Start::Oldest, Start::New];
    let start = starts.into_iter().find(|start| policy(*start) == found.deliver_policy);
    // The server writes nothing where there is no filter, and -1 where there is no limit.
    let pattern = if found.filter_subject.is_empty() { ">" } else { &found.filter_subject };
    let most = |limit: i64| u64::try_from(limit).ok().filter(|limit| *limit > 0);
    vec![
        ("pattern", pattern.into()),
        ("start", start.map_or_else(|| found.deliver_policy.clone(), |start| format!("{start:?}"))),
        (ACK_WAIT, in_words(Some(Duration::from_nanos(found.ack_wait)))),
        (UNACKED, most(found.max_ack_pending).map_or("none".into(), |most| most.to_string())),
        (DELIVERIES, in_words(most(found.max_deliver))),
    ]
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::readers;

    fn drift(reader: &DurableReader, config: Value) -> Vec<Drift> {
        let found: Config = serde_json::from_value(config).unwrap();
        compare(&reader.title(), reader.settings(), settings(&found))
    }

    #[test]
    fn what_the_table_asks_for_reads_back_as_asked() {
        for reader in readers() {
            assert_eq!(drift(&reader, config(&reader)), [], "{}", reader.name);
        }
    }

    #[test]
    fn every_setting_that_differs_is_named() {
        for reader in readers() {
            let other =
                json!({ "deliver_policy": "last", "ack_wait": 1, "max_deliver": 7, "max_ack_pending": -1 });
            let drift = drift(&reader, other);
            assert_eq!(drift.len(), reader.settings().len(), "{drift:?}");
        }
    }
}
