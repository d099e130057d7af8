//! Reading what came: an envelope, who signed it, then what is inside, then whether all say the same as the subject.

use crate::dropped::Reason;
use crate::error::Error;
use crate::link::{CROSSED, Link};
use std::time::Duration;
use zester_bus::{Bytes, Delivery, Entry, Message as Raw, Record};
use zester_identity::limits::REQUEST_AGE_MAX;
use zester_identity::{Principal, Seen, Speaker, Spoof};
use zester_wire::envelope::Addressed;
use zester_wire::limits::MESSAGE_BYTES_MAX;
use zester_wire::{Envelope, Message, MessageId, Return, Subject, UnixMillis, decode, encode};

/// A message that was read, and what its envelope says.
#[derive(Clone, Debug)]
pub struct Opened<T> {
    pub message: T,
    pub id: MessageId,
    /// When it was signed, on the sender's clock.
    pub signed: UnixMillis,
    /// Who signed it; none where no credentials are configured, and nobody signs.
    pub principal: Option<Principal>,
    /// The envelope as it came: what an operator signed travels on to the peels (I-8).
    pub envelope: Vec<u8>,
}

impl<T> Opened<T> {
    /// Whether a request is so old that somebody may have kept it to send it again, and how old (I-8). Where nobody signs, the time
    /// in an envelope says nothing.
    pub fn is_stale(&self, received: UnixMillis) -> Option<Duration> {
        let age = received.since(self.signed);
        (self.principal.is_some() && age > REQUEST_AGE_MAX).then_some(age)
    }
}

/// What is to be opened: bytes that have come just now, or that a stream or a bucket has kept since then. A key that was replaced
/// meanwhile counts for what was kept before, and for nothing that comes later (I-15).
#[derive(Copy, Clone, Debug)]
pub struct Came<'a> {
    payload: &'a [u8],
    kept: Option<UnixMillis>,
}

impl<'a> From<&'a [u8]> for Came<'a> {
    fn from(payload: &'a [u8]) -> Came<'a> {
        Came { payload, kept: None }
    }
}

impl<'a> From<&'a Bytes> for Came<'a> {
    fn from(payload: &'a Bytes) -> Came<'a> {
        Came { payload, kept: None }
    }
}

impl<'a> From<&'a Record> for Came<'a> {
    fn from(record: &'a Record) -> Came<'a> {
        Came { payload: &record.payload, kept: Some(UnixMillis(record.at)) }
    }
}

impl<'a> From<&'a Entry> for Came<'a> {
    fn from(entry: &'a Entry) -> Came<'a> {
        Came { payload: &entry.value, kept: Some(UnixMillis(entry.at)) }
    }
}

impl<'a> Came<'a> {
    /// What was kept inside of something else.
    pub(crate) fn kept(payload: &'a [u8], at: UnixMillis) -> Came<'a> {
        Came { payload, kept: Some(at) }
    }
}

impl Link {
    /// Takes the message out of a delivery; what the queue had no room for is counted.
    pub fn delivered(&self, delivery: Delivery) -> Option<Raw> {
        match delivery {
            Delivery::Message(message) => Some(message),
            Delivery::Missed(count) => {
                self.dropped().add(Reason::Missed, count);
                tracing::warn!(count, "messages came faster than they could be read; some were dropped");
                None
            }
        }
    }

    /// Parses the subject that a message came by. None: counted.
    pub fn subject_of(&self, raw: &Raw) -> Option<Subject> {
        Subject::parse(&raw.subject).inspect_err(|bad| self.dropped().one(Reason::Subject, "", bad)).ok()
    }

    /// Opens a message. None: it was dropped and counted, and nothing else happens.
    pub fn open<'a, T: Message>(&self, subject: &str, came: impl Into<Came<'a>>) -> Option<Opened<T>> {
        let came = came.into();
        let parsed = match Subject::parse(subject) {
            Ok(parsed) => parsed,
            Err(bad) => {
                self.dropped().one(Reason::Subject, "", &bad);
                return None;
            }
        };
        let too_large = came.payload.len() > MESSAGE_BYTES_MAX;
        let reason = |error: &Error| if too_large { Reason::TooLarge } else { error.reason() };
        let opened = self.try_open(&parsed, came);
        opened.inspect_err(|error| self.dropped().one(reason(error), subject, error)).ok()
    }

    /// Opens a message for whoever counts and tells by itself what cannot be read or believed.
    pub fn try_open<'a, T: Message>(
        &self,
        subject: &Subject,
        came: impl Into<Came<'a>>,
    ) -> Result<Opened<T>, Error> {
        self.unseal(&subject.to_string(), &Speaker::of_subject(subject), came.into())
    }

    /// Opens a message that repeats what its subject says; the subject decides.
    pub fn open_addressed<'a, T: Addressed>(
        &self,
        subject: &Subject,
        came: impl Into<Came<'a>>,
    ) -> Option<Opened<T>> {
        let opened: Opened<T> = self.open(&subject.to_string(), came)?;
        opened
            .message
            .check_subject(subject)
            .inspect_err(|bad| self.dropped().one(Reason::Mismatched, &subject.to_string(), bad))
            .ok()?;
        Some(opened)
    }

    /// Opens a return, and keeps with it what its peel signed: that is what is stored (I-12).
    pub fn open_return<'a>(&self, subject: &Subject, came: impl Into<Came<'a>>) -> Option<Return> {
        let opened = self.open_addressed::<Return>(subject, came)?;
        Some(Return { own: opened.envelope, ..opened.message })
    }

    /// Opens the answer to a request of ours: whoever asked wants to know what is wrong with it.
    pub(crate) fn open_answer<T: Message>(&self, question: &Subject, answer: &Raw) -> Result<T, Error> {
        let speaker = match question {
            Subject::Command { peel } => Speaker::Peel(peel.clone()),
            _ => Speaker::Master,
        };
        match self.unseal(&answer.subject, &speaker, (&answer.payload).into()) {
            // Between two accounts the server puts a reply subject of its own in the place of ours.
            Err(Error::Spoof { why: Spoof::BadSignature, .. }) => {
                Ok(self.unseal(CROSSED, &speaker, (&answer.payload).into())?.message)
            }
            other => Ok(other?.message),
        }
    }

    /// Opens what was sealed for a subject, if one who may speak there did.
    pub(crate) fn unseal<T: Message>(
        &self,
        subject: &str,
        speaker: &Speaker,
        came: Came<'_>,
    ) -> Result<Opened<T>, Error> {
        let envelope: Envelope = decode(came.payload)?;
        let principal = match self.trust() {
            Some(trust) => {
                let now = self.now();
                let seen = came.kept.map_or(Seen::live(now), |at| Seen::stored(now, at));
                let judged = trust.verify(&envelope, subject, speaker, seen);
                Some(judged.map_err(|why| Error::Spoof { subject: subject.to_string(), why })?)
            }
            None => None,
        };
        let message = envelope.open()?;
        let (id, signed) = (envelope.id.clone(), envelope.ts);
        let envelope = match envelope.beside.is_empty() {
            true => came.payload.to_vec(),
            false => encode(&envelope.passed_on()).unwrap_or_default(),
        };
        Ok(Opened { message, id, signed, principal, envelope })
    }
}
