//! Durable readers: pull consumers with explicit acknowledgement, shared by name.

use super::read::Read;
use super::{Nats, core, fault};
use crate::durable::{
    ACK_WAIT, Acknowledge, DELIVERIES, DurableReader, Pending, Reached, Start, Taken, UNACKED, adjustable,
};
use crate::error::{Error, Kind};
use crate::limits::{PULL_GRACE, PULL_LOOK, PULL_QUESTION, PULL_SETTLE};
use crate::message::Sequence;
use crate::storage::{Drift, Found, Settings, compare, in_words};
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use async_nats::{StatusCode, Subscriber};
use futures_util::{FutureExt, StreamExt};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::time::Instant;

/// What the server says of a consumer.
#[derive(Deserialize)]
struct Info {
    /// When it was made. It keeps that through a change of its settings, a new leader, a restart.
    #[serde(default)]
    created: String,
    config: Config,
    #[serde(default)]
    num_pending: u64,
    #[serde(default)]
    num_ack_pending: u64,
    delivered: Delivered,
}

#[derive(Deserialize)]
struct Delivered {
    consumer_seq: u64,
    stream_seq: Sequence,
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
    /// When that question ends at the server.
    ends_at: Instant,
    /// Of which connection it is: a server knows nothing of what was asked over an earlier one.
    connection: u64,
    /// When somebody last looked into it.
    left_at: Instant,
    /// Since when no answer came, whatever was asked meanwhile.
    unanswered_since: Option<Instant>,
}

impl Inbox {
    /// Whether nothing more comes unless somebody asks.
    fn is_silent(&self, connection: u64) -> bool {
        self.open == 0 || self.connection != connection
    }
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
        let made = async_nats::datetime::parse_rfc3339(&info.created).map_or(0, super::kv::millis);
        let Delivered { consumer_seq: given, stream_seq: sequence } = info.delivered;
        let reached = Reached { made, given, sequence };
        Ok(Pending { waiting: info.num_pending, unacked: info.num_ack_pending, reached })
    }

    /// The first that comes in time, and all that came with it. A question stays at the server until it is filled or its time is
    /// over; what it still brings comes into the same inbox, where the next look finds it. So whoever goes on waits for nothing
    /// but the server, which gives as soon as it has something and room for it, and nothing that it gave is lost.
    ///
    /// A question that is not to wait (`no_wait`) is none that can be asked here: nats-server 2.9 never answers one that finds no
    /// room.
    pub(super) async fn take_durable(
        &self,
        reader: &DurableReader,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Taken>, Error> {
        let name = reader.title();
        let kept = self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
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
        self.inboxes.lock().unwrap_or_else(PoisonError::into_inner).insert(name, inbox);
        Ok(taken)
    }

    async fn new_inbox(&self, reader: &DurableReader) -> Result<Inbox, Error> {
        let subject = self.client.new_inbox();
        let gone = |error| Error::new(Kind::Disconnected, format!("{}: {error}", reader.title()));
        let answers = self.client.subscribe(subject.clone()).await.map_err(gone)?;
        let (connection, now) = (self.connection(), Instant::now());
        Ok(Inbox {
            subject,
            answers,
            open: 0,
            ends_at: now,
            connection,
            left_at: now,
            unanswered_since: None,
        })
    }

    /// Counts the connections of this client.
    fn connection(&self) -> u64 {
        self.client.statistics().connects.load(Ordering::Relaxed)
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
            if inbox.is_silent(self.connection()) {
                let left = end.saturating_duration_since(Instant::now());
                self.ask_for(inbox, reader, count, left.clamp(PULL_SETTLE, PULL_QUESTION)).await?;
            }
            let mut answer = self.next_answer(inbox, reader).await.transpose();
            while let Some(came) = answer {
                match came.and_then(|message| self.taken_of(inbox, reader, message)) {
                    Ok(one) => taken.extend(one),
                    // What was given must be used, whatever the server says behind it.
                    Err(_) if !taken.is_empty() => break,
                    Err(error) => return Err(error),
                }
                if taken.len() >= count {
                    break;
                }
                answer = inbox.answers.next().now_or_never().flatten().map(Ok);
            }
            // That there is nothing is for the server to say: silence is asked about again, and is an error in the end.
            if !taken.is_empty() || (Instant::now() >= end && inbox.unanswered_since.is_none()) {
                return Ok(taken);
            }
        }
    }

    /// Asks for so many, as they come within this time.
    async fn ask_for(
        &self,
        inbox: &mut Inbox,
        reader: &DurableReader,
        count: usize,
        wait: Duration,
    ) -> Result<(), Error> {
        let asked = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", reader.stream, reader.name);
        let body = json!({ "batch": count, "expires": nanos(wait) }).to_string();
        let sent = self.client.publish_with_reply(asked, inbox.subject.clone(), body.into()).await;
        sent.map_err(|error| fault::of_publish(&reader.title(), error))?;
        inbox.open = count;
        inbox.ends_at = Instant::now() + wait;
        inbox.unanswered_since.get_or_insert_with(Instant::now);
        inbox.connection = self.connection();
        Ok(())
    }

    /// The next that comes in answer to a question; none where nobody will answer it any more. nats-server 2.9 does not always say
    /// that the time of a question is over: then it is asked again, and what still comes for the first one is found as well.
    async fn next_answer(
        &self,
        inbox: &mut Inbox,
        reader: &DurableReader,
    ) -> Result<Option<async_nats::Message>, Error> {
        let silent_at = inbox.ends_at + PULL_GRACE;
        let given_up_after = PULL_QUESTION + PULL_GRACE + self.answer_timeout;
        loop {
            let look_at = silent_at.min(Instant::now() + PULL_LOOK);
            match tokio::time::timeout_at(look_at, inbox.answers.next()).await {
                Ok(Some(message)) => {
                    inbox.unanswered_since = None;
                    return Ok(Some(message));
                }
                Ok(None) => return Err(Error::disconnected()),
                Err(_) if inbox.is_silent(self.connection()) => return Ok(None),
                Err(_) if Instant::now() < silent_at => {}
                Err(_) if inbox.unanswered_since.is_some_and(|since| since.elapsed() >= given_up_after) => {
                    return Err(Error::timeout(&reader.title()));
                }
                Err(_) => {
                    inbox.open = 0;
                    return Ok(None);
                }
            }
        }
    }

    /// Reads what came; none where it only says that the question has ended.
    fn taken_of(
        &self,
        inbox: &mut Inbox,
        reader: &DurableReader,
        message: async_nats::Message,
    ) -> Result<Option<Taken>, Error> {
        let Some(status) = message.status else {
            inbox.open = inbox.open.saturating_sub(1);
            let token = message.reply.as_ref().map(ToString::to_string).unwrap_or_default();
            let Read { record, deliveries, given, .. } = self.read_of(&reader.stream, message)?;
            return Ok(Some(Taken { record, deliveries, given, token }));
        };
        inbox.open = 0;
        match status {
            // There is nothing, or nothing more in time.
            StatusCode::NOT_FOUND | StatusCode::TIMEOUT => Ok(None),
            StatusCode::NO_RESPONDERS => Err(Error::unavailable(&reader.title())),
            status => {
                let words = message.description.unwrap_or_default();
                let what = format!("{}: the server said {status} {words}", reader.title());
                Err(Error::new(Kind::Unavailable, what))
            }
        }
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
