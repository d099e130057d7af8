//! Reading what came: an envelope, then what is inside, then whether both say the same as the subject.

use crate::dropped::Reason;
use crate::link::Link;
use zester_bus::{Delivery, Message as Raw};
use zester_wire::envelope::Addressed;
use zester_wire::limits::MESSAGE_BYTES_MAX;
use zester_wire::{DecodeError, Envelope, Message, MessageId, Subject, UnixMillis, decode, encode};

/// A message that was read, and what its envelope says.
#[derive(Clone, Debug)]
pub struct Opened<T> {
    pub message: T,
    pub id: MessageId,
    /// When it was signed, on the sender's clock.
    pub signed: UnixMillis,
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
        let reason = if payload.len() > MESSAGE_BYTES_MAX { Reason::TooLarge } else { Reason::Malformed };
        unseal(payload).inspect_err(|error| self.dropped().one(reason, subject, error)).ok()
    }

    /// Opens a message for whoever counts and tells by itself what cannot be read: what it says, and when it was signed.
    pub fn try_open<T: Message>(&self, payload: &[u8]) -> Result<(T, UnixMillis), DecodeError> {
        let envelope: Envelope = decode(payload)?;
        Ok((envelope.open()?, envelope.ts))
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
    pub(crate) fn open_answer<T: Message>(&self, payload: &[u8]) -> Result<T, DecodeError> {
        Ok(unseal(payload)?.message)
    }
}

pub(crate) fn unseal<T: Message>(payload: &[u8]) -> Result<Opened<T>, DecodeError> {
    let envelope: Envelope = decode(payload)?;
    let message = envelope.open()?;
    let (id, signed) = (envelope.id.clone(), envelope.ts);
    let envelope = match envelope.beside.is_empty() {
        true => payload.to_vec(),
        false => encode(&envelope.passed_on()).unwrap_or_default(),
    };
    Ok(Opened { message, id, signed, envelope })
}
