//! Messages: sending, asking, listening.

use super::{Nats, fault};
use crate::error::{Error, Kind};
use crate::event::Event;
use crate::message::{Message, Stored};
use crate::pattern::{check_pattern, check_subject};
use crate::queue::Queue;
use crate::subscription::{Listen, OnDrop, Subscription};
use async_nats::client::RequestErrorKind;
use async_nats::jetstream::ErrorCode;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::response::Response;
use async_nats::{HeaderMap, Request, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::Duration;

impl Nats {
    pub(super) async fn send(&self, subject: &str, payload: Bytes) -> Result<(), Error> {
        check_subject(subject)?;
        // The client's own queue to the socket may be full; that must not hold anybody for ever.
        let sent = self.client.publish(subject.to_string(), payload);
        match tokio::time::timeout(self.answer_timeout, sent).await {
            Ok(sent) => sent.map_err(|error| fault::of_publish(subject, error)),
            Err(_) => Err(Error::timeout(subject)),
        }
    }

    pub(super) async fn store(
        &self,
        subject: &str,
        payload: Bytes,
        id: Option<&str>,
    ) -> Result<Stored, Error> {
        check_subject(subject)?;
        let mut headers = HeaderMap::new();
        if let Some(id) = id {
            if id.is_empty() || id.contains(['\r', '\n']) {
                return Err(Error::new(Kind::Invalid, "a message id that is none"));
            }
            headers.insert(async_nats::header::NATS_MESSAGE_ID, id);
        }
        self.store_with(subject, payload, headers).await
    }

    /// The leader of the stream compares, so that of two who publish at once one has a conflict.
    pub(super) async fn store_first(&self, subject: &str, payload: Bytes) -> Result<Stored, Error> {
        check_subject(subject)?;
        let mut headers = HeaderMap::new();
        headers.insert(async_nats::header::NATS_EXPECTED_LAST_SUBJECT_SEQUENCE, "0");
        self.store_with(subject, payload, headers).await
    }

    /// Publishes to whichever stream takes the subject, and reads its answer.
    pub(super) async fn store_with(
        &self,
        subject: &str,
        payload: Bytes,
        headers: HeaderMap,
    ) -> Result<Stored, Error> {
        let mut request = Request::new().payload(payload);
        if !headers.is_empty() {
            request = request.headers(headers);
        }
        let answer = self.client.send_request(subject.to_string(), request).await;
        let answer = answer.map_err(|error| fault::of_storage(subject, error))?;
        let ack: PublishAck = fault::answer(subject, &answer.payload)?;
        Ok(Stored { stream: ack.stream, sequence: ack.sequence, duplicate: ack.duplicate })
    }

    pub(super) async fn ask(
        &self,
        subject: &str,
        payload: Bytes,
        timeout: Duration,
    ) -> Result<Message, Error> {
        check_subject(subject)?;
        let request = Request::new().payload(payload).timeout(Some(timeout));
        let answer = self.client.send_request(subject.to_string(), request).await;
        answer.map(ours).map_err(|error| fault::of_request(subject, error))
    }

    /// A question to JetStream itself.
    pub(super) async fn api<T: DeserializeOwned>(
        &self,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<T, Error> {
        match self.api_raw(verb, body).await? {
            Response::Ok(value) => Ok(value),
            Response::Err { error } => Err(fault::of_server(verb, error)),
        }
    }

    /// The same, for callers that know what to do about one of the server's refusals.
    pub(super) async fn api_raw<T: DeserializeOwned>(
        &self,
        verb: &str,
        body: &impl Serialize,
    ) -> Result<Response<T>, Error> {
        let body = serde_json::to_vec(body)
            .map_err(|error| Error::because(Kind::Invalid, format!("{verb}: not a request"), error))?;
        let request = Request::new().payload(body.into());
        let answer = self.client.send_request(format!("$JS.API.{verb}"), request).await;
        let answer = answer.map_err(|error| fault::of_api(verb, error))?;
        fault::parse(verb, &answer.payload)
    }

    pub(super) async fn listen(&self, pattern: &str, listen: Listen) -> Result<Subscription, Error> {
        check_pattern(pattern)?;
        let subscriber = match &listen.queue {
            None => self.client.subscribe(pattern.to_string()).await,
            Some(queue) => {
                check_subject(queue)?;
                self.client.queue_subscribe(pattern.to_string(), queue.clone()).await
            }
        };
        let subscriber = subscriber
            .map_err(|error| Error::because(Kind::Disconnected, format!("{pattern}: {error}"), error))?;
        let queue = Queue::new(listen.capacity);
        let number = self.next_queue.fetch_add(1, Ordering::Relaxed);
        self.queues.lock().unwrap_or_else(PoisonError::into_inner).insert(number, queue.clone());
        let task = tokio::spawn(self.forward(subscriber, queue.clone()));
        let queues = self.queues.clone();
        let subscription = Subscription::new(
            queue,
            OnDrop::new(move || {
                task.abort();
                queues.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
            }),
        );
        if self.is_connected() {
            // Without a round trip another connection's request could overtake the subscription. If it fails, the
            // connection is in trouble, and the client subscribes again on the next one.
            let _settled = self.round_trip().await;
        }
        Ok(subscription)
    }

    /// Empties the client's queue into ours, where what is dropped is counted for the one who missed it.
    fn forward(&self, mut subscriber: Subscriber, queue: Queue) -> impl Future<Output = ()> + Send + 'static {
        let closed = self.closed.clone();
        let event_sender = self.event_sender.clone();
        async move {
            let mut keeping_up = true;
            while let Some(Some(message)) = closed.run_until_cancelled(subscriber.next()).await {
                let room = queue.push(ours(message));
                if keeping_up && !room {
                    event_sender.send(Event::SlowConsumer);
                }
                keeping_up = room;
            }
            queue.close();
        }
    }

    pub(super) fn end_queues(&self) {
        for queue in self.queues.lock().unwrap_or_else(PoisonError::into_inner).values() {
            queue.close();
        }
    }

    /// Proves that the server has processed everything before: a request to an inbox that nobody listens on is answered
    /// "no responders". The client's own flush only empties the socket. Where publishing to the own inbox is denied, the
    /// denial proves the same.
    pub(super) async fn round_trip(&self) -> Result<(), Error> {
        let nobody = self.client.new_inbox();
        let mut events = self.event_sender.listen();
        let denied = async {
            while let Some(event) = events.next().await {
                if matches!(&event, Event::ServerSaid(words) if words.contains(&nobody)) {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            answer = self.client.send_request(nobody.clone(), Request::new()) => match answer {
                Ok(_) => Ok(()),
                Err(error) if error.kind() == RequestErrorKind::NoResponders => Ok(()),
                Err(error) => Err(fault::of_request("a round trip", error)),
            },
            () = denied => Ok(()),
        }
    }
}

/// Whether the server refused for this reason.
pub(super) fn is(error: &async_nats::jetstream::Error, code: ErrorCode) -> bool {
    error.error_code() == code
}

fn ours(message: async_nats::Message) -> Message {
    Message {
        subject: message.subject.into_string(),
        reply: message.reply.map(async_nats::Subject::into_string),
        payload: message.payload,
    }
}
