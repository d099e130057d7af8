//! Telling what is written to keys. The client's ordered consumer begins anew after a gap or a lost connection, at the
//! number after the last: in a bucket that was made again, which counts from one, it would hear nothing for a long time. So the
//! bucket is looked at now and then, and a watch of one that is another than before ends.

use super::Nats;
use super::kv::{is_marker, millis};
use crate::error::{Error, Kind};
use crate::limits::{WATCH_LOOK, WATCH_SETTLE, WATCH_SILENCES};
use crate::message::{Entry, Seen};
use crate::pattern::{check_name, check_pattern, key_of, stream_of, subject_of};
use crate::subscription::{OnDrop, Watch};
use async_nats::jetstream::consumer::push::{Ordered, OrderedConfig, OrderedErrorKind};
use async_nats::jetstream::consumer::{DeliverPolicy, ReplayPolicy};
use async_nats::jetstream::{Context, ErrorCode, Message};
use futures_util::StreamExt;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

type Telling = mpsc::Sender<Result<Seen, Error>>;

impl Nats {
    pub(super) async fn kv_watch(
        &self,
        bucket: &str,
        pattern: &str,
        capacity: usize,
    ) -> Result<Watch, Error> {
        check_name(bucket)?;
        check_pattern(pattern)?;
        let stream = stream_of(bucket);
        let config = OrderedConfig {
            deliver_subject: self.client.new_inbox(),
            filter_subject: subject_of(bucket, pattern),
            deliver_policy: DeliverPolicy::LastPerSubject,
            replay_policy: ReplayPolicy::Instant,
            ..OrderedConfig::default()
        };
        let unavailable =
            |error: &dyn std::fmt::Display| Error::new(Kind::Unavailable, format!("{stream}: {error}"));
        // Before the consumer: one that is made on a later bucket is noticed, and not taken for one of this.
        let bucket_made = self.made(&stream).await?;
        let consumer = self.jetstream.create_consumer_on_stream(config, &stream).await;
        let consumer = consumer.map_err(|error| unavailable(&error))?;
        let name = consumer.cached_info().name.clone();
        // What a server says of a consumer that it is just making may be too little; the bucket itself knows better.
        let nothing_pending = consumer.cached_info().num_pending == 0;
        let current = nothing_pending && self.kv_keys(bucket, pattern).await?.is_empty();
        let messages = consumer.messages().await.map_err(|error| unavailable(&error))?;
        let (sender, receiver) = mpsc::channel(capacity.max(1));
        let follower = Follower {
            context: self.jetstream.clone(),
            info: format!("CONSUMER.INFO.{stream}.{name}"),
            bucket: bucket.into(),
            current,
            closed: self.closed.clone(),
        };
        let lasting = Lasting { context: self.jetstream.clone(), bucket: bucket.into(), made: bucket_made };
        let closed = self.closed.clone();
        let task = tokio::spawn(async move {
            let followed = async {
                tokio::select! {
                    () = follower.follow(messages, sender.clone()) => {}
                    ended = lasting.ended() => {
                        let _unheard = sender.send(Err(ended)).await;
                    }
                }
            };
            closed.run_until_cancelled(followed).await;
        });
        Ok(Watch::new(receiver, OnDrop::new(move || task.abort())))
    }

    /// When a stream was made, which tells it from one that had its name before.
    async fn made(&self, stream: &str) -> Result<String, Error> {
        let info: Value = self.api(&format!("STREAM.INFO.{stream}"), &json!({})).await?;
        Ok(made_of(&info).unwrap_or_default())
    }
}

fn made_of(info: &Value) -> Option<String> {
    info["created"].as_str().map(str::to_string)
}

/// Whether the bucket is still the one that the watch began on.
struct Lasting {
    context: Context,
    bucket: String,
    made: String,
}

impl Lasting {
    /// Pending as long as it is. An answer that does not come says nothing.
    async fn ended(&self) -> Error {
        let look = format!("STREAM.INFO.{}", stream_of(&self.bucket));
        loop {
            tokio::time::sleep(WATCH_LOOK).await;
            let info: Result<Value, _> = self.context.request(look.clone(), &json!({})).await;
            let Ok(info) = info else { continue };
            let why = match made_of(&info) {
                Some(made) if made != self.made => "was made again",
                None if info["error"]["err_code"] == ErrorCode::STREAM_NOT_FOUND.0 => "is gone",
                _ => continue,
            };
            return Error::new(Kind::Missing, format!("{} {why}", self.bucket));
        }
    }
}

struct Follower {
    context: Context,
    info: String,
    bucket: String,
    /// Whether everything that was there at the start has been told.
    current: bool,
    closed: CancellationToken,
}

impl Follower {
    /// Ends when nobody listens any more, or with an error that the client does not recover from.
    async fn follow(mut self, mut messages: Ordered, sender: Telling) {
        if self.current && sender.send(Ok(Seen::Current)).await.is_err() {
            return;
        }
        loop {
            let message = match self.next(&mut messages).await {
                Some(Ok(message)) => message,
                // The consumer is made anew, and continues where it was.
                Some(Err(error)) if error.kind() == OrderedErrorKind::MissingHeartbeat => continue,
                // The client hangs up while we close, which is an end and no error.
                Some(Err(_)) if self.closed.is_cancelled() => return,
                Some(Err(error)) => {
                    let told =
                        Error::because(Kind::Other, format!("the watch of {} ended", self.bucket), error);
                    let _unheard = sender.send(Err(told)).await;
                    return;
                }
                None if self.current => return,
                None => {
                    self.current = true;
                    if sender.send(Ok(Seen::Current)).await.is_err() {
                        return;
                    }
                    continue;
                }
            };
            for seen in self.seen(message) {
                if sender.send(Ok(seen)).await.is_err() {
                    return;
                }
            }
        }
    }

    /// The next message. None before the watch is current: the server has nothing more to tell, for example because the
    /// last entries expired before they were sent. None later: the connection is gone for good.
    async fn next(
        &self,
        messages: &mut Ordered,
    ) -> Option<Result<Message, async_nats::error::Error<OrderedErrorKind>>> {
        if self.current {
            return messages.next().await;
        }
        let mut silent = 0;
        loop {
            if let Ok(message) = tokio::time::timeout(WATCH_SETTLE, messages.next()).await {
                return message;
            }
            let info: Result<Value, _> = self.context.request(self.info.clone(), &json!({})).await;
            match info {
                Ok(info) if info["num_pending"] == 0 => return None,
                // The client may have made the consumer anew under another name; then nobody can be asked, and a server that
                // answers and has told nothing for so long has nothing to tell.
                Ok(info) if info["num_pending"].is_null() => silent += 1,
                Ok(_) | Err(_) => silent = 0,
            }
            if silent == WATCH_SILENCES {
                return None;
            }
        }
    }

    fn seen(&mut self, message: Message) -> Vec<Seen> {
        let Ok(info) = message.info() else { return Vec::new() };
        let (revision, at, pending) = (info.stream_sequence, millis(info.published), info.pending);
        let mut seen = Vec::new();
        if let Some(key) = key_of(&self.bucket, &message.subject)
            && !is_marker(message.headers.as_ref())
        {
            let value = message.payload.clone();
            seen.push(Seen::Entry(Entry { key: key.into(), value, revision, at }));
        }
        if !self.current && pending == 0 {
            self.current = true;
            seen.push(Seen::Current);
        }
        seen
    }
}
