//! Durable readers: pull consumers with explicit acknowledgement, shared by name.

use super::read::Read;
use super::{Nats, core, fault};
use crate::durable::{Acknowledge, DurableReader, Taken};
use crate::error::{Error, Kind};
use crate::pattern::{check_name, check_pattern};
use async_nats::StatusCode;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::response::Response;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::time::Duration;

impl Nats {
    /// Looks first: the server would refuse, or change, one that another release made.
    pub(super) async fn ensure_durable(&self, reader: &DurableReader) -> Result<(), Error> {
        check_name(&reader.stream)?;
        check_name(&reader.name)?;
        check_pattern(&reader.pattern)?;
        let look = format!("CONSUMER.INFO.{}.{}", reader.stream, reader.name);
        match self.api_raw::<Value>(&look, &json!({})).await? {
            Response::Ok(_) => return Ok(()),
            Response::Err { error } if core::is(&error, ErrorCode::CONSUMER_NOT_FOUND) => {}
            Response::Err { error } => return Err(fault::of_server(&look, error)),
        }
        let mut config = json!({
            "durable_name": reader.name,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": nanos(reader.ack_wait),
            "max_ack_pending": reader.unacked_max,
            "max_deliver": -1,
            "replay_policy": "instant",
        });
        if reader.pattern != ">" {
            config["filter_subject"] = json!(reader.pattern);
        }
        let create = format!("CONSUMER.DURABLE.CREATE.{}.{}", reader.stream, reader.name);
        let body = json!({ "stream_name": reader.stream, "config": config });
        match self.api_raw::<Value>(&create, &body).await? {
            Response::Ok(_) => Ok(()),
            // Another was faster.
            Response::Err { error } if core::is(&error, ErrorCode::CONSUMER_NAME_EXIST) => Ok(()),
            Response::Err { error } => Err(fault::of_server(&create, error)),
        }
    }

    /// What is there now; where nothing is, the first that comes in time and what came with it.
    pub(super) async fn take_durable(
        &self,
        reader: &DurableReader,
        count: usize,
        wait: Duration,
    ) -> Result<Vec<Taken>, Error> {
        let now = self.pull_durable(reader, count, None).await?;
        if !now.is_empty() || wait.is_zero() {
            return Ok(now);
        }
        // One only: what is asked for and not taken would have to wait until it is given again.
        let mut taken = self.pull_durable(reader, 1, Some(wait)).await?;
        if !taken.is_empty() && count > 1 {
            taken.extend(self.pull_durable(reader, count - 1, None).await?);
        }
        Ok(taken)
    }

    async fn pull_durable(
        &self,
        reader: &DurableReader,
        count: usize,
        wait: Option<Duration>,
    ) -> Result<Vec<Taken>, Error> {
        let name = format!("{} of {}", reader.name, reader.stream);
        let gone = |error: &dyn std::fmt::Display| Error::new(Kind::Disconnected, format!("{name}: {error}"));
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.map_err(|error| gone(&error))?;
        let asked = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", reader.stream, reader.name);
        let body = match wait {
            None => json!({ "batch": count, "no_wait": true }),
            Some(wait) => json!({ "batch": count, "expires": nanos(wait) }),
        };
        let sent = self.client.publish_with_reply(asked, inbox, body.to_string().into()).await;
        sent.map_err(|error| fault::of_publish(&name, error))?;
        let limit = self.answer_timeout + wait.unwrap_or_default();
        let mut taken = Vec::new();
        while taken.len() < count {
            let next = tokio::time::timeout(limit, answers.next()).await;
            let message = next.map_err(|_| Error::timeout(&name))?.ok_or_else(Error::disconnected)?;
            match message.status {
                None => taken.push(self.taken_of(&reader.stream, message)?),
                // There is nothing, or nothing more in time.
                Some(StatusCode::NOT_FOUND | StatusCode::TIMEOUT) => break,
                Some(_) if !taken.is_empty() => break,
                Some(StatusCode::NO_RESPONDERS) => return Err(Error::unavailable(&name)),
                Some(status) => {
                    let words = message.description.unwrap_or_default();
                    let what = format!("{name}: the server said {status} {words}");
                    return Err(Error::new(Kind::Unavailable, what));
                }
            }
        }
        Ok(taken)
    }

    fn taken_of(&self, stream: &str, message: async_nats::Message) -> Result<Taken, Error> {
        let token = message.reply.as_ref().map(ToString::to_string).unwrap_or_default();
        let Read { record, deliveries, .. } = self.read_of(stream, message)?;
        Ok(Taken { record, deliveries, token })
    }

    pub(super) async fn acknowledge(&self, taken: &Taken, what: Acknowledge) -> Result<(), Error> {
        let body = match what {
            Acknowledge::Done => "+ACK".to_string(),
            Acknowledge::Later(delay) => format!("-NAK {}", json!({ "delay": nanos(delay) })),
        };
        self.send(&taken.token, body.into()).await
    }
}

fn nanos(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}
