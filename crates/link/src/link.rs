//! One connection, with everything that sealing needs.

use crate::clock::{Clock, Dice, OsDice, SystemClock};
use crate::dropped::Dropped;
use crate::error::Error;
use crate::newest::Newest;
use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::{Bus, Bytes, Stored};
use zester_identity::limits::{PEEL_SHARE, SOURCES_MAX};
use zester_identity::roster::BadRoster;
use zester_identity::source_rate::SourceRate;
use zester_identity::{Credentials, Trust};
use zester_wire::{
    Envelope, Jid, Message, MessageId, PeelId, Signer, Subject, Token, UnixMillis, Unsigned, encode,
};

/// The first token of a subject that answers come in by. Services answer nowhere else (I-9): a sender chooses the reply
/// subject freely, and would have us write where only we may.
const INBOX: &str = "_INBOX";
/// The same where the question came from the other account: the server names a place of its own there, and the one who asked
/// never sees it. An answer that goes there is sealed for this word.
pub(crate) const CROSSED: &str = "_R_";

/// Cheap to clone; all clones share one connection and one set of counters.
#[derive(Clone)]
pub struct Link {
    bus: Arc<dyn Bus>,
    clock: Arc<dyn Clock>,
    dice: Arc<dyn Dice>,
    /// Shared by all clones: credentials are renewed while we run.
    signer: Arc<RwLock<Arc<dyn Signer + Send + Sync>>>,
    trust: Option<Arc<Trust>>,
    dropped: Arc<Dropped>,
    /// What each peel has had of its share, since this link began.
    sources: Arc<Mutex<SourceRate<PeelId>>>,
    begun: Instant,
    newest: Arc<Mutex<Newest>>,
}

impl Link {
    /// On this machine's clock and dice, unsigned.
    pub fn new(bus: Arc<dyn Bus>) -> Link {
        Link::with(bus, Arc::new(SystemClock), Arc::new(OsDice))
    }

    /// For simulators, which bring time and chance along.
    pub fn with(bus: Arc<dyn Bus>, clock: Arc<dyn Clock>, dice: Arc<dyn Dice>) -> Link {
        let signer = Arc::new(RwLock::new(Arc::new(Unsigned) as Arc<_>));
        Link {
            bus,
            clock,
            dice,
            signer,
            trust: None,
            dropped: Arc::default(),
            sources: Arc::new(Mutex::new(SourceRate::new(PEEL_SHARE, SOURCES_MAX))),
            begun: Instant::now(),
            newest: Arc::default(),
        }
    }

    /// Signs what goes out from now on, and believes only what is signed by whom the roster names (I-8).
    pub fn signed(self, credentials: Credentials) -> Result<Link, BadRoster> {
        let trust = Trust::new(credentials.anchor.clone(), &credentials.roster)?;
        let signer = Arc::new(RwLock::new(Arc::new(credentials) as Arc<_>));
        Ok(Link { signer, trust: Some(Arc::new(trust)), ..self })
    }

    /// Signs with renewed credentials from now on, in every clone (I-15). Whom it believes stays as it is.
    pub fn renew(&self, credentials: Credentials) {
        *self.signer.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(credentials);
    }

    /// Whom this link believes; none: everybody, because nobody signs.
    pub fn trust(&self) -> Option<&Arc<Trust>> {
        self.trust.as_ref()
    }

    pub fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    pub fn dropped(&self) -> &Arc<Dropped> {
        &self.dropped
    }

    pub(crate) fn sources(&self) -> &Mutex<SourceRate<PeelId>> {
        &self.sources
    }

    pub(crate) fn begun(&self) -> Instant {
        self.begun
    }

    pub(crate) fn newest(&self) -> &Mutex<Newest> {
        &self.newest
    }

    pub fn now(&self) -> UnixMillis {
        self.clock.wall()
    }

    /// Bytes that nobody can guess.
    pub fn random(&self) -> [u8; 16] {
        self.dice.roll()
    }

    pub fn new_jid(&self) -> Jid {
        Jid::new(self.now(), self.dice.roll())
    }

    /// A name that nobody can guess: of a boot, of a message.
    pub fn new_token(&self) -> Result<Token, Error> {
        let mut text = String::with_capacity(32);
        for byte in self.dice.roll() {
            let _infallible = write!(text, "{byte:02x}");
        }
        Token::parse(&text)
            .map_err(|bad| zester_bus::Error::new(zester_bus::Kind::Invalid, bad.to_string()).into())
    }

    /// About this long: up to a quarter less or more, so that many who wait alike do not all act at once.
    pub fn jittered(&self, about: Duration) -> Duration {
        let [low, high, ..] = self.dice.roll();
        let share = f64::from(u16::from_le_bytes([low, high])) / f64::from(u16::MAX);
        about.mul_f64(0.75 + 0.5 * share)
    }

    /// A random message id, as most messages need (see [`MessageId`]).
    pub fn new_message_id(&self) -> Result<MessageId, Error> {
        let token = self.new_token()?;
        message_id(token.as_str())
    }

    /// The bytes of a message for one subject.
    pub fn seal<T: Message>(&self, subject: &str, id: MessageId, message: &T) -> Result<Bytes, Error> {
        let signer = self.signer.read().unwrap_or_else(PoisonError::into_inner).clone();
        let envelope = Envelope::seal(subject, id, self.now(), message, signer.as_ref())?;
        Ok(encode(&envelope)?.into())
    }

    /// Sends to whoever listens now.
    pub async fn publish<T: Message>(&self, subject: &Subject, message: &T) -> Result<(), Error> {
        let subject = subject.to_string();
        let sealed = self.seal(&subject, self.new_message_id()?, message)?;
        Ok(self.bus.publish(&subject, sealed).await?)
    }

    /// Sends to a stream and waits until it is kept. The same id is kept once.
    pub async fn publish_stored<T: Message>(
        &self,
        subject: &Subject,
        id: &MessageId,
        message: &T,
    ) -> Result<Stored, Error> {
        let subject = subject.to_string();
        let sealed = self.seal(&subject, id.clone(), message)?;
        Ok(self.bus.publish_stored(&subject, sealed, Some(id.as_str())).await?)
    }

    /// Sends what its subject says once to a stream, and waits until it is kept. A conflict says that the stream has one.
    pub async fn publish_first<T: Message>(&self, subject: &Subject, message: &T) -> Result<Stored, Error> {
        let subject = subject.to_string();
        let sealed = self.seal(&subject, self.new_message_id()?, message)?;
        Ok(self.bus.publish_first(&subject, sealed).await?)
    }

    /// Asks, and reads the first answer.
    pub async fn request<Q: Message, A: Message>(
        &self,
        subject: &Subject,
        question: &Q,
        timeout: Duration,
    ) -> Result<A, Error> {
        let to = subject.to_string();
        let sealed = self.seal(&to, self.new_message_id()?, question)?;
        let answer = self.bus.request(&to, sealed, timeout).await?;
        self.open_answer(subject, &answer)
    }

    /// Answers a request. Whoever asked without an inbox gets nothing.
    pub async fn answer<T: Message>(&self, reply: Option<&str>, message: &T) -> Result<(), Error> {
        let inbox = reply.filter(|reply| is_inbox(reply));
        let Some(reply) = inbox else { return Ok(()) };
        let seen = if is_crossed(reply) { CROSSED } else { reply };
        let sealed = self.seal(seen, self.new_message_id()?, message)?;
        Ok(self.bus.publish(reply, sealed).await?)
    }
}

/// Whether an answer may go there.
fn is_inbox(reply: &str) -> bool {
    let first = reply.split('.').next().unwrap_or_default();
    first == INBOX || first.strip_prefix(INBOX).is_some_and(|rest| rest.starts_with('_')) || is_crossed(reply)
}

/// Whether the server made this reply subject, for a question from the other account.
fn is_crossed(reply: &str) -> bool {
    reply.split_once('.').is_some_and(|(first, _)| first == CROSSED)
}

pub(crate) fn message_id(text: &str) -> Result<MessageId, Error> {
    MessageId::parse(text)
        .map_err(|bad| zester_bus::Error::new(zester_bus::Kind::Invalid, bad.to_string()).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("I-9")]
    fn i9_services_answer_only_to_inboxes() {
        for inbox in ["_INBOX.abc.1", "_INBOX_web-01.x", "_R_.Abc123.x"] {
            assert!(is_inbox(inbox), "{inbox}");
        }
        for other in
            ["", "zester.event._master.forged", "$KV.jobs.x", "_INBOXES.a", "x._INBOX.a", "_R_", "_RR_.a"]
        {
            assert!(!is_inbox(other), "{other}");
        }
    }
}
