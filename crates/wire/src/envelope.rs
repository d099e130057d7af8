//! The envelope of every message and of every stored record (I-8, I-12).
//!
//! A signature covers the exact subject, the message id, the time and the payload bytes. The subject is not in the
//! envelope: a reader takes the one that the message came by, so a message moved to another subject does not verify. The
//! payload is kept as the bytes that were signed, because encoding a decoded message again need not give the same ones.
//!
//! Where no credentials are configured, `key` and `sig` are empty. Whether that is accepted is the reader's policy, not this
//! crate's.

use crate::codec::{DecodeError, EncodeError, Message, decode, encode};
use crate::limits::MESSAGE_ID_BYTES_MAX;
use crate::name::BadName;
use crate::subject::Subject;
use crate::time::UnixMillis;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// Sets our signatures apart from everything else that the same key may sign.
const DOMAIN: &[u8] = b"zester.envelope.1";

/// The name of one message, for dedup and replay protection: also its `Nats-Msg-Id`.
///
/// Whoever knows it in advance can publish first under it and so suppress the message, so it is random, except where the
/// reader compares the stored subject as well.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct MessageId(String);

impl MessageId {
    /// Visible ASCII, at most 128: it is a header on the bus.
    pub fn parse(text: &str) -> Result<MessageId, BadName> {
        let bad = |why| Err(BadName { what: "message id", why });
        match text {
            "" => bad("it is empty"),
            _ if text.len() > MESSAGE_ID_BYTES_MAX => bad("it is longer than 128 characters"),
            _ if !text.bytes().all(|byte| byte.is_ascii_graphic()) => bad("it holds more than visible ASCII"),
            _ => Ok(MessageId(text.to_string())),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for MessageId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<MessageId, D::Error> {
        MessageId::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// What goes over the bus.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub id: MessageId,
    /// When it was signed, on the sender's clock.
    pub ts: UnixMillis,
    /// Public key of the signer; empty while nobody signs.
    #[serde(default)]
    pub key: String,
    #[serde(default, with = "serde_bytes")]
    pub sig: Vec<u8>,
    #[serde(with = "serde_bytes")]
    pub payload: Vec<u8>,
    /// What the payload names a digest of: not signed, and not passed on.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "serde_bytes")]
    pub beside: Vec<u8>,
    /// Who says that the key is of this peel: a [`Certificate`](crate::Certificate). Masters and admins are known by the
    /// roster and need none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "serde_bytes")]
    pub cert: Vec<u8>,
}

impl Message for Envelope {
    const NAME: &'static str = "envelope";
}

/// Who seals. The keys live elsewhere.
pub trait Signer {
    /// The public key, as readers look it up.
    fn key(&self) -> &str;
    fn sign(&self, bytes: &[u8]) -> Vec<u8>;

    /// What goes along for readers who know no list of peels.
    fn certificate(&self) -> &[u8] {
        &[]
    }
}

/// Seals without a signature, where no credentials are configured.
#[derive(Copy, Clone, Debug)]
pub struct Unsigned;

impl Signer for Unsigned {
    fn key(&self) -> &str {
        ""
    }

    fn sign(&self, _: &[u8]) -> Vec<u8> {
        Vec::new()
    }
}

impl Envelope {
    /// Puts a message into an envelope for one subject (a bus subject, or `$KV.<bucket>.<key>` of a record).
    pub fn seal<T: Message>(
        subject: &str,
        id: MessageId,
        ts: UnixMillis,
        message: &T,
        signer: &dyn Signer,
    ) -> Result<Envelope, EncodeError> {
        let (payload, beside) = match message.detach()? {
            Some((signed, beside)) => (encode(&signed)?, beside),
            None => (encode(message)?, Vec::new()),
        };
        let sig = signer.sign(&signed_bytes(subject, &id, ts, &payload));
        let (key, cert) = (signer.key().to_string(), signer.certificate().to_vec());
        Ok(Envelope { v: crate::VERSION, id, ts, key, sig, payload, beside, cert })
    }

    /// What the signature must hold over, for the subject that the message came by.
    pub fn signed_bytes(&self, subject: &str) -> Vec<u8> {
        signed_bytes(subject, &self.id, self.ts, &self.payload)
    }

    pub fn is_signed(&self) -> bool {
        !self.key.is_empty() || !self.sig.is_empty()
    }

    /// Reads the message inside. Verify first.
    pub fn open<T: Message>(&self) -> Result<T, DecodeError> {
        let mut message: T = decode(&self.payload)?;
        if !self.beside.is_empty() {
            message.attach(&self.beside)?;
        }
        Ok(message)
    }

    /// Without what only travelled beside it.
    pub fn passed_on(self) -> Envelope {
        Envelope { beside: Vec::new(), ..self }
    }
}

fn signed_bytes(subject: &str, id: &MessageId, ts: UnixMillis, payload: &[u8]) -> Vec<u8> {
    let time = ts.0.to_be_bytes();
    joined(&[DOMAIN, subject.as_bytes(), id.as_str().as_bytes(), &time, payload])
}

/// Each part with its length before it, so that no choice of one part can pass for another.
pub fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part);
    }
    bytes
}

/// A payload that claims another sender or job than the subject it came by. It is dropped and counted: the subject decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub message: &'static str,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a {} says another peel or job than its subject", self.message)
    }
}

impl std::error::Error for Mismatch {}

/// Messages that repeat in the payload what their subject says.
pub trait Addressed: Message {
    /// Whether payload and subject speak of the same.
    fn fits(&self, subject: &Subject) -> bool;

    fn check_subject(&self, subject: &Subject) -> Result<(), Mismatch> {
        if self.fits(subject) { Ok(()) } else { Err(Mismatch { message: Self::NAME }) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Notice, Token};
    use zester_rule::rule;

    struct Sum;

    impl Signer for Sum {
        fn key(&self) -> &str {
            "U-TEST"
        }

        fn sign(&self, bytes: &[u8]) -> Vec<u8> {
            bytes.to_vec()
        }
    }

    fn notice() -> Notice {
        Notice { v: 1, bucket: Token::parse("state-files").unwrap(), revision: 7 }
    }

    #[test]
    #[rule("I-8")]
    fn i8_a_signature_covers_subject_id_time_and_payload() {
        let id = MessageId::parse("m-1").unwrap();
        let sealed = Envelope::seal("zester.notify.a", id, UnixMillis(9), &notice(), &Sum).unwrap();
        assert_eq!(sealed.sig, sealed.signed_bytes("zester.notify.a"));
        assert_ne!(sealed.sig, sealed.signed_bytes("zester.notify.b"));
        for other in [
            Envelope { id: MessageId::parse("m-2").unwrap(), ..sealed.clone() },
            Envelope { ts: UnixMillis(10), ..sealed.clone() },
            Envelope { payload: vec![0x80], ..sealed.clone() },
        ] {
            assert_ne!(sealed.sig, other.signed_bytes("zester.notify.a"));
        }
        assert_eq!(sealed.open::<Notice>().unwrap(), notice());
    }

    #[test]
    #[rule("I-8")]
    fn i8_without_credentials_key_and_signature_are_empty() {
        let id = MessageId::parse("m-1").unwrap();
        let sealed = Envelope::seal("zester.notify.a", id, UnixMillis(9), &notice(), &Unsigned).unwrap();
        assert!(!sealed.is_signed() && sealed.key.is_empty() && sealed.sig.is_empty());
    }

    #[test]
    fn no_part_can_pass_for_another() {
        let id = |text| MessageId::parse(text).unwrap();
        let one = signed_bytes("a", &id("bc"), UnixMillis(0), b"");
        let two = signed_bytes("ab", &id("c"), UnixMillis(0), b"");
        assert_ne!(one, two);
    }

    #[test]
    fn a_message_id_is_a_header_and_nothing_more() {
        for bad in ["", "a b", "a\r\nX: y", "ä", &"a".repeat(129)] {
            assert!(MessageId::parse(bad).is_err(), "{bad:?}");
        }
    }
}
