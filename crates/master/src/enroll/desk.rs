//! What is said at the door: a nonce, and then whether somebody who signed it gets in.

use super::audit;
use super::decide::{numbered, read};
use crate::core::Core;
use crate::limits::{ENROLL_TRIES_MAX, JOIN_WORD_BYTES_MAX};
use crate::services::index_is_ready;
use futures_util::future::BoxFuture;
use serde_json::{Map, json};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use zester_bus::{Bytes, Kind};
use zester_door::{Answers, Door, Reply};
use zester_identity::address_rate::AddressRate;
use zester_identity::enrollment::{self, Decider, Newcomer, Transition};
use zester_identity::join_token::{self, Voucher};
use zester_identity::nonce::Nonces;
use zester_identity::{KeyKind, KeyPair, PublicKey, Trust, authority, credentials};
use zester_link::Found;
use zester_model::target::glob::Glob;
use zester_wire::{
    BadName, Bucket, EnrollAnswer, EnrollGrant, EnrollNonce, EnrollOutcome, EnrollRequest, Enrollment,
    EnrollmentStatus as Status, Event, EventSubject, JoinToken, Key, Message, PeelId, Subject, Tag, VERSION,
    decode, encode,
};

pub const NONCE_PATH: &str = "/v1/nonce";
pub const REQUEST_PATH: &str = "/v1/enroll";

/// What a master needs to let peels in.
pub struct DoorSetup {
    pub door: Door,
    /// Signs peels.
    pub issuer: KeyPair,
    /// The account that peels live in.
    pub account: PublicKey,
    /// The roster that came with our own credentials, for a fleet whose bucket has none yet.
    pub roster: Vec<u8>,
    /// Where peels find the bus, and its CA as PEM.
    pub nats: String,
    pub ca: String,
    /// How long credentials count.
    pub life: Duration,
    /// As random as it gets, and new at every start.
    pub secret: [u8; 32],
}

/// The one who answers at the door.
pub struct Desk {
    core: Arc<Core>,
    trust: Arc<Trust>,
    issuer: KeyPair,
    account: PublicKey,
    roster: Vec<u8>,
    nats: String,
    ca: String,
    life: Duration,
    nonces: Mutex<Nonces>,
    rate: Mutex<AddressRate>,
}

fn refused(why: impl ToString) -> EnrollAnswer {
    EnrollAnswer::new(EnrollOutcome::Refused, why.to_string())
}

fn later(why: impl ToString) -> EnrollAnswer {
    EnrollAnswer::new(EnrollOutcome::Later, why.to_string())
}

impl Desk {
    /// The desk and its door. None without credentials: who signs nothing lets nobody in.
    pub fn new(core: Arc<Core>, setup: DoorSetup) -> Option<(Arc<Desk>, Door)> {
        let trust = core.link.trust()?.clone();
        if !trust.is_issuer(setup.issuer.public().as_str()) {
            tracing::error!(
                "the key of the issuer is in no roster: what it vouches for is not believed; is it an old one?"
            );
        }
        let desk = Desk {
            core,
            trust,
            issuer: setup.issuer,
            account: setup.account,
            roster: setup.roster,
            nats: setup.nats,
            ca: setup.ca,
            life: setup.life,
            nonces: Mutex::new(Nonces::new(setup.secret)),
            rate: Mutex::default(),
        };
        Some((Arc::new(desk), setup.door))
    }

    fn nonce(&self) -> EnrollNonce {
        let (now, random) = (self.core.link.now(), self.core.link.random());
        let nonce = self.nonces.lock().unwrap_or_else(PoisonError::into_inner).issue(random, now);
        EnrollNonce { v: VERSION, nonce }
    }

    /// The whole way of one request.
    async fn request(&self, request: EnrollRequest, address: IpAddr) -> EnrollAnswer {
        let (key, before) = match self.proven(&request) {
            Ok(proven) => proven,
            Err(answer) => return answer,
        };
        let by = Newcomer { peel: &request.peel, key: &key, address };
        let mut answer = later("others ask for the same name at the same moment");
        for _ in 0..ENROLL_TRIES_MAX {
            match self.once(&by, request.token.as_deref(), before.as_ref()).await {
                Ok(Some(answer)) | Err(answer) => return self.with_id(&by, answer),
                // Somebody else wrote at the same moment: what does it say now?
                Ok(None) => {}
            }
        }
        answer.id = enrollment::id_of(by.peel, key.as_str()).ok();
        answer
    }

    fn with_id(&self, by: &Newcomer<'_>, answer: EnrollAnswer) -> EnrollAnswer {
        EnrollAnswer { id: enrollment::id_of(by.peel, by.key.as_str()).ok(), ..answer }
    }

    /// The key, once its holder has shown to have it, and the one that it replaces. The nonce is used up then.
    fn proven(&self, request: &EnrollRequest) -> Result<(PublicKey, Option<PublicKey>), EnrollAnswer> {
        let key = PublicKey::of_kind(&request.key, KeyKind::User).map_err(refused)?;
        let now = self.core.link.now();
        let nonces = || self.nonces.lock().unwrap_or_else(PoisonError::into_inner);
        nonces().check(&request.nonce, now).map_err(later)?;
        if !join_token::is_proven(&key, &request.peel, &request.nonce, &request.proof) {
            return Err(refused("the proof does not hold: another key signed, or for another name"));
        }
        let before = match &request.replaces {
            None => None,
            Some(replaced) => {
                let before = PublicKey::of_kind(&replaced.key, KeyKind::User).map_err(refused)?;
                let (peel, nonce) = (&request.peel, &request.nonce);
                if !join_token::is_handed_over(&before, peel, nonce, &key, &replaced.proof) {
                    return Err(refused("the key that is to be replaced did not sign for this one"));
                }
                Some(before)
            }
        };
        nonces().redeem(&request.nonce, now).map_err(later)?;
        Ok((key, before))
    }

    /// None: somebody wrote at the same moment.
    async fn once(
        &self,
        by: &Newcomer<'_>,
        word: Option<&str>,
        before: Option<&PublicKey>,
    ) -> Result<Option<EnrollAnswer>, EnrollAnswer> {
        if self.trust.has_member(by.peel.as_str()) {
            return Err(refused(format!("{} is the name of a master or an admin", by.peel)));
        }
        if self.trust.is_revoked(by.key.as_str()) {
            return Err(EnrollAnswer::new(EnrollOutcome::Revoked, enrollment::Refused::KeyEnded.to_string()));
        }
        let found = read(&self.core, by.peel).await.map_err(|error| self.unreadable(by.peel, &error))?;
        let record = found.as_ref().map(|found| &found.value);
        if let (Some(found), Some(before)) = (&found, before)
            && found.value.key == before.as_str()
        {
            return self.rekey(found, before, by).await;
        }
        let brought = match word.filter(|_| !is_in(record, by)) {
            Some(word) => Some(self.voucher(by, word, record).await?),
            None => None,
        };
        let voucher = brought.as_ref().map(|(_, voucher)| voucher);
        let waiting = self.core.enrollments.waiting(by.address, self.core.link.now());
        let asked = enrollment::asked(record, by, voucher, waiting, self.core.link.now());
        let asked = asked.map_err(|why| match &why {
            enrollment::Refused::KeyEnded => EnrollAnswer::new(EnrollOutcome::Revoked, why.to_string()),
            _ if why.is_for_now() => later(why),
            _ => refused(why),
        })?;
        let revision = found.as_ref().map(|found| found.revision);
        // The token first: it must not let a second one in. Whoever used it may use it again, if the rest fails now.
        if let Some((token, _)) = brought.filter(|_| asked.is_changed)
            && !self
                .written(&Key::JoinToken(self.id_of(&token.value)?), &token.value, Some(token.revision))
                .await?
        {
            return Ok(None);
        }
        let record = if asked.is_changed { numbered(&self.core, asked.record) } else { asked.record };
        let mut revision = revision;
        if asked.is_changed {
            let key = Key::Enrollment(record.peel.clone());
            let Some(written) = self.write(&key, &record, revision).await? else { return Ok(None) };
            revision = Some(written);
            self.core.enrollments.take(&self.core, &record);
            if record.status == Status::Approved {
                let who =
                    record.token.as_ref().map_or_else(String::new, |token| format!("token:{}", token.id));
                let what = "enroll.approve";
                audit::record(
                    &self.core,
                    &audit::Decided { who: &who, what, id: &record.id, reason: &record.address },
                );
            }
        }
        if asked.is_news {
            self.core.events.tell(pending_event(&record, self.core.link.now()));
        }
        match (record.status, revision) {
            (Status::Approved | Status::Issued | Status::Active, Some(revision)) => {
                self.grant(by, &record, revision).await
            }
            (Status::Rejected, _) => {
                let why =
                    if record.reason.is_empty() { String::new() } else { format!(": {}", record.reason) };
                let words = format!("an operator rejected this request{why}");
                Ok(Some(EnrollAnswer::new(EnrollOutcome::Rejected, words)))
            }
            _ => {
                let words = format!("an operator has to let it in: zester enroll approve {}", record.peel);
                Ok(Some(EnrollAnswer::new(EnrollOutcome::Pending, words)))
            }
        }
    }

    /// Gives the name a new key, on the word of the one that has it (I-15).
    async fn rekey(
        &self,
        found: &Found<Enrollment>,
        before: &PublicKey,
        by: &Newcomer<'_>,
    ) -> Result<Option<EnrollAnswer>, EnrollAnswer> {
        if self.trust.is_revoked(before.as_str()) {
            return Err(EnrollAnswer::new(EnrollOutcome::Revoked, enrollment::Refused::KeyEnded.to_string()));
        }
        let next = enrollment::rekeyed(&found.value, before, by, self.core.link.now()).map_err(refused)?;
        let next = next.ok_or_else(|| refused("only a peel that is in can replace its key"))?;
        let next = numbered(&self.core, next);
        let key = Key::Enrollment(next.peel.clone());
        let Some(written) = self.write(&key, &next, Some(found.revision)).await? else { return Ok(None) };
        self.core.enrollments.take(&self.core, &next);
        let (reason, what) = (format!("in the place of {before}"), "enroll.rekey");
        audit::record(&self.core, &audit::Decided { who: "door", what, id: &next.id, reason: &reason });
        self.grant(by, &next, written).await
    }

    fn unreadable(&self, peel: &PeelId, error: &zester_link::Error) -> EnrollAnswer {
        tracing::warn!(%peel, "cannot read who has this name: {error}");
        later("the bus does not answer the master; ask again")
    }

    fn id_of(&self, token: &JoinToken) -> Result<zester_wire::Token, EnrollAnswer> {
        join_token::id_of(&token.digest).ok_or_else(|| refused(join_token::Refused::Unknown))
    }

    /// The token of a word as it is once it was used, and what it says for its bearer.
    async fn voucher(
        &self,
        by: &Newcomer<'_>,
        word: &str,
        record: Option<&Enrollment>,
    ) -> Result<(Found<JoinToken>, Voucher), EnrollAnswer> {
        let unknown = || refused(join_token::Refused::Unknown);
        if word.len() > JOIN_WORD_BYTES_MAX {
            return Err(unknown());
        }
        let id = join_token::id_of(&join_token::digest(word)).ok_or_else(unknown)?;
        let found = self.core.link.get_latest::<JoinToken>(&Key::JoinToken(id)).await;
        let found = match found {
            // The word of a master that was revoked since lets nobody in, and asking again changes nothing.
            Err(error) if error.is_disowned() => return Err(unknown()),
            found => found.map_err(|error| self.unreadable(by.peel, &error))?.ok_or_else(unknown)?,
        };
        let matches = |glob: &str, peel: &PeelId| {
            glob == peel.as_str() || Glob::parse(glob).is_ok_and(|glob| glob.matches(peel.as_str()))
        };
        let used = join_token::used(&found.value, word, by, self.core.link.now(), matches);
        let (value, mut voucher) = used.map_err(refused)?;
        // A name that a machine has which never came by this door is nobody's to take by a glob.
        let is_first = record.is_none_or(|record| record.until.is_none() && record.former.is_empty());
        if is_first && !voucher.exact {
            index_is_ready(&self.core).map_err(later)?;
            let knows =
                self.core.index.snapshot().contains_key(by.peel) || self.core.index.is_online(by.peel);
            voucher.approves &= !knows;
        }
        Ok((Found { value, ..found }, voucher))
    }

    /// Writes where nobody else did meanwhile. None: somebody did.
    async fn write<T: Message>(
        &self,
        key: &Key,
        value: &T,
        revision: Option<u64>,
    ) -> Result<Option<u64>, EnrollAnswer> {
        let written = match revision {
            Some(revision) => self.core.link.update(key, value, revision).await,
            None => self.core.link.create(key, value).await,
        };
        match written {
            Ok(revision) => Ok(Some(revision)),
            Err(error) if error.bus_kind() == Some(Kind::Conflict) => Ok(None),
            Err(error) => {
                tracing::warn!(%key, "an enrollment cannot be written: {error}");
                Err(later("the bus does not take the enrollment now; ask again"))
            }
        }
    }

    async fn written<T: Message>(
        &self,
        key: &Key,
        value: &T,
        revision: Option<u64>,
    ) -> Result<bool, EnrollAnswer> {
        Ok(self.write(key, value, revision).await?.is_some())
    }

    /// Gives out credentials, once the record says that it did.
    async fn grant(
        &self,
        by: &Newcomer<'_>,
        record: &Enrollment,
        revision: u64,
    ) -> Result<Option<EnrollAnswer>, EnrollAnswer> {
        let now = self.core.link.now();
        let until = now.plus(self.life);
        let nobody = Decider { by: "", reason: "" };
        let next = enrollment::step(record, Transition::Issue { until }, nobody, now).map_err(refused)?;
        let next = numbered(&self.core, next);
        let vouched = authority::vouch(&self.account, by.peel, by.key, &self.issuer, (now, self.life));
        let (jwt, certificate) = vouched.map_err(|error| {
            tracing::error!(peel = %by.peel, "no credentials can be made: {error}");
            later("this master cannot make credentials")
        })?;
        let roster = self.newest_roster().await;
        let credentials = credentials::text_without_seed(&jwt, self.trust.anchor(), &roster, &certificate);
        let key = Key::Enrollment(by.peel.clone());
        if !self.written(&key, &next, Some(revision)).await? {
            return Ok(None);
        }
        self.core.enrollments.take(&self.core, &next);
        let what = if record.until.is_some() { "enroll.renew" } else { "enroll.issue" };
        audit::record(
            &self.core,
            &audit::Decided { who: "door", what, id: &record.id, reason: &by.address.to_string() },
        );
        let (nats, ca, life) = (self.nats.clone(), self.ca.clone(), self.life);
        let grant = Some(Box::new(EnrollGrant { credentials, nats, ca, until, life }));
        let words = format!("{} is a peel of this fleet", by.peel);
        Ok(Some(EnrollAnswer { grant, ..EnrollAnswer::new(EnrollOutcome::Granted, words) }))
    }

    /// The one of the bucket, if the anchor signed it; a peel that gets an older one finds the newest itself.
    async fn newest_roster(&self) -> Vec<u8> {
        let kept = self.core.link.bus().get(Bucket::Trust.as_str(), &Key::Roster.to_string()).await;
        let serial = |bytes: &[u8]| {
            zester_identity::roster::read(bytes, self.trust.anchor()).ok().map(|roster| roster.serial)
        };
        match kept {
            Ok(Some(entry)) if serial(&entry.value) > serial(&self.roster) => entry.value.to_vec(),
            _ => self.roster.clone(),
        }
    }
}

/// Whether this very key is in already: it needs no token any more.
fn is_in(record: Option<&Enrollment>, by: &Newcomer<'_>) -> bool {
    record.is_some_and(|record| {
        record.key == by.key.as_str()
            && matches!(record.status, Status::Approved | Status::Issued | Status::Active)
    })
}

/// The same id whoever tells it, and however often.
fn pending_event(record: &Enrollment, now: zester_wire::UnixMillis) -> Result<crate::events::Tell, BadName> {
    let tag = Tag::parse(&format!("enroll/pending/{}", record.id))?;
    let token = record.token.as_ref().map_or("none", |token| token.id.as_str());
    let id = format!("enroll-{}-{token}-{}", record.requested.0, record.id);
    let id: String = id.chars().take(zester_wire::limits::MESSAGE_ID_BYTES_MAX).collect();
    let mut data = Map::new();
    data.insert("id".into(), json!(record.id.as_str()));
    data.insert("peel_id".into(), json!(record.peel.as_str()));
    data.insert("ip".into(), json!(record.address));
    let event = Event { id, tag: tag.clone(), data, ts: now, v: VERSION, origin: "_master".into(), depth: 0 };
    Ok((Subject::Event(EventSubject::Master { tag }), event))
}

impl Answers for Desk {
    fn admit(&self, from: IpAddr) -> Result<(), Duration> {
        let now = self.core.link.now();
        let taken = self.rate.lock().unwrap_or_else(PoisonError::into_inner).take(from, now);
        taken.inspect_err(|_| {
            self.core.metrics.door_turned_away.inc();
        })
    }

    fn answer<'a>(&'a self, path: &'a str, body: Bytes, from: IpAddr) -> BoxFuture<'a, Reply> {
        Box::pin(async move {
            let packed = match path {
                NONCE_PATH => encode(&self.nonce()),
                REQUEST_PATH => match decode::<EnrollRequest>(&body) {
                    Ok(request) => {
                        let answer = self.request(request, from).await;
                        self.core.metrics.answered_at_door(answer.outcome);
                        encode(&answer)
                    }
                    Err(bad) => return Reply::Malformed(bad.to_string()),
                },
                _ => return Reply::NoSuchPath,
            };
            packed.map_or_else(|error| Reply::Malformed(error.to_string()), Reply::Message)
        })
    }
}
