//! Reading what came: an envelope, who signed it, then what is inside, then whether all say the same as the subject.

use crate::dropped::Reason;
use crate::error::Error;
use crate::link::{CROSSED, Link};
use zester_bus::{Delivery, Message as Raw};
use zester_identity::{Principal, Speaker, Spoof};
use zester_wire::envelope::Addressed;
use zester_wire::limits::MESSAGE_BYTES_MAX;
use zester_wire::{Envelope, Message, MessageId, Subject, UnixMillis, decode, encode};

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
    pub fn open<T: Message>(&self, subject: &str, payload: &[u8]) -> Option<Opened<T>> {
        let parsed = match Subject::parse(subject) {
            Ok(parsed) => parsed,
            Err(bad) => {
                self.dropped().one(Reason::Subject, "", &bad);
                return None;
            }
        };
        let too_large = payload.len() > MESSAGE_BYTES_MAX;
        let reason = |error: &Error| if too_large { Reason::TooLarge } else { error.reason() };
        let opened = self.try_open(&parsed, payload);
        opened.inspect_err(|error| self.dropped().one(reason(error), subject, error)).ok()
    }

    /// Opens a message for whoever counts and tells by itself what cannot be read or believed.
    pub fn try_open<T: Message>(&self, subject: &Subject, payload: &[u8]) -> Result<Opened<T>, Error> {
        self.unseal(&subject.to_string(), &Speaker::of_subject(subject), payload)
    }

    /// Opens a message that repeats what its subject says; the subject decides.
    pub fn open_addressed<T: Addressed>(&self, subject: &Subject, payload: &[u8]) -> Option<Opened<T>> {
        let opened: Opened<T> = self.open(&subject.to_string(), payload)?;
        opened
            .message
            .check_subject(subject)
            .inspect_err(|bad| self.dropped().one(Reason::Mismatched, &subject.to_string(), bad))
            .ok()?;
        Some(opened)
    }

    /// Opens the answer to a request of ours: whoever asked wants to know what is wrong with it.
    pub(crate) fn open_answer<T: Message>(&self, question: &Subject, answer: &Raw) -> Result<T, Error> {
        let speaker = match question {
            Subject::Command { peel } => Speaker::Peel(peel.clone()),
            _ => Speaker::Master,
        };
        match self.unseal(&answer.subject, &speaker, &answer.payload) {
            // Between two accounts the server puts a reply subject of its own in the place of ours.
            Err(Error::Spoof { why: Spoof::BadSignature, .. }) => {
                Ok(self.unseal(CROSSED, &speaker, &answer.payload)?.message)
            }
            other => Ok(other?.message),
        }
    }

    /// Opens what was sealed for a subject, if one who may speak there did.
    pub(crate) fn unseal<T: Message>(
        &self,
        subject: &str,
        speaker: &Speaker,
        payload: &[u8],
    ) -> Result<Opened<T>, Error> {
        let envelope: Envelope = decode(payload)?;
        let principal = match self.trust() {
            Some(trust) => {
                let judged = trust.verify(&envelope, subject, speaker, self.now());
                Some(judged.map_err(|why| Error::Spoof { subject: subject.to_string(), why })?)
            }
            None => None,
        };
        let message = envelope.open()?;
        let (id, signed) = (envelope.id.clone(), envelope.ts);
        let envelope = match envelope.beside.is_empty() {
            true => payload.to_vec(),
            false => encode(&envelope.passed_on()).unwrap_or_default(),
        };
        Ok(Opened { message, id, signed, principal, envelope })
    }
}
