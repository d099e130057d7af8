//! Whose message is it? What a reader knows, and the answer for one envelope.

use crate::certificate;
use crate::key::{KeyKind, PublicKey};
use crate::limits::{CERTIFICATE_LIFE_MAX, CERTIFICATES_KEPT_MAX, CLOCK_TOLERANCE, ENDED_KEYS_MAX};
use crate::roster::{self, BadRoster};
use crate::speaker::{Principal, Role, Speaker};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use zester_wire::{Certificate, Envelope, Member, MemberRole, OperatorRole, Roster, UnixMillis, decode};

/// Why a message is not believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spoof {
    Unsigned,
    /// Another wrote it, or it was for another subject, or it was changed.
    BadSignature,
    /// The key is in no roster and brings no certificate.
    UnknownKey,
    /// The certificate is not of this key, or of no issuer that counts.
    BadCertificate,
    Revoked,
    /// The key was replaced, or the certificate ended, before this was signed or before it came.
    Expired,
    /// The roster itself has ended.
    RosterExpired,
    /// Signed in a future that no clock should show.
    Ahead,
    /// A good key of somebody who has nothing to say there.
    NotTheirs(Principal),
}

impl fmt::Display for Spoof {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Spoof::Unsigned => out.write_str("it is not signed"),
            Spoof::BadSignature => out.write_str("its signature does not hold for this subject"),
            Spoof::UnknownKey => out.write_str("nobody knows its key"),
            Spoof::BadCertificate => out.write_str("its certificate does not hold"),
            Spoof::Revoked => out.write_str("its key was revoked"),
            Spoof::Expired => out.write_str("its key had ended before it came; is a clock wrong?"),
            Spoof::RosterExpired => out.write_str(
                "the roster has ended; make a new one with `zester auth rotate` and `zester auth push`",
            ),
            Spoof::Ahead => out.write_str("it was signed in the future; is a clock wrong?"),
            Spoof::NotTheirs(who) => write!(out, "{who} has no say there"),
        }
    }
}

impl std::error::Error for Spoof {}

/// When a reader judges a message. The time that stands in it is its sender's word, and whoever has a key that was replaced would
/// date what it signs back.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The reader's clock.
    pub now: UnixMillis,
    /// When it reached the bus at the latest: where a stream or a bucket kept it, its server says so.
    pub reached: UnixMillis,
}

impl Seen {
    /// It has come just now.
    pub fn live(now: UnixMillis) -> Seen {
        Seen { now, reached: now }
    }

    /// It was kept at that time.
    pub fn stored(now: UnixMillis, at: UnixMillis) -> Seen {
        Seen { now, reached: at }
    }

    /// Whether what a key signed counts that ended then.
    fn is_within(self, envelope: &Envelope, until: UnixMillis) -> bool {
        envelope.ts <= until && self.reached <= until.plus(CLOCK_TOLERANCE)
    }
}

/// Everything that a reader believes: the anchor, and the newest roster that it signed.
pub struct Trust {
    anchor: PublicKey,
    known: RwLock<Arc<Known>>,
    /// Certificates that hold. Which issuers count is asked again each time.
    verified: Mutex<BTreeSet<Vec<u8>>>,
    /// Keys of peels that masters ended, beside those of the roster, and until when what each signed counts.
    ended: RwLock<BTreeMap<String, UnixMillis>>,
}

struct Known {
    roster: Roster,
    by_key: BTreeMap<String, Vec<Member>>,
    revoked: BTreeSet<String>,
}

impl Known {
    fn new(roster: Roster) -> Known {
        let mut by_key: BTreeMap<String, Vec<Member>> = BTreeMap::new();
        for member in &roster.members {
            by_key.entry(member.key.clone()).or_default().push(member.clone());
        }
        let revoked = roster.revoked.iter().map(|one| one.key.clone()).collect();
        Known { roster, by_key, revoked }
    }

    fn member(&self, key: &str, is: impl Fn(MemberRole) -> bool) -> Option<&Member> {
        self.by_key.get(key)?.iter().find(|member| is(member.role))
    }
}

impl Trust {
    /// Begins with the roster that came with the credentials.
    pub fn new(anchor: PublicKey, signed_roster: &[u8]) -> Result<Trust, BadRoster> {
        let roster = roster::read(signed_roster, &anchor)?;
        let known = RwLock::new(Arc::new(Known::new(roster)));
        Ok(Trust { anchor, known, verified: Mutex::default(), ended: RwLock::default() })
    }

    fn known(&self) -> Arc<Known> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn anchor(&self) -> &PublicKey {
        &self.anchor
    }

    pub fn serial(&self) -> u64 {
        self.known().roster.serial
    }

    /// What operators may do (I-14).
    pub fn roles(&self) -> Vec<OperatorRole> {
        self.known().roster.roles.clone()
    }

    /// Whose keys count.
    pub fn members(&self) -> Vec<Member> {
        self.known().roster.members.clone()
    }

    /// When this roster ends.
    pub fn expires(&self) -> UnixMillis {
        self.known().roster.expires
    }

    /// Takes a newer roster. True: it is another than before. A lower serial is refused, and so is another roster under the
    /// same serial: whoever could choose between two would have a say in who counts.
    pub fn take(&self, signed_roster: &[u8]) -> Result<bool, BadRoster> {
        let roster = roster::read(signed_roster, &self.anchor)?;
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let (serial, before) = (roster.serial, known.roster.serial);
        if roster == known.roster {
            return Ok(false);
        }
        if serial <= before {
            return Err(BadRoster::Older { serial, known: before });
        }
        *known = Arc::new(Known::new(roster));
        Ok(true)
    }

    /// The key of a peel counts no more, although no roster says so: its enrollment was ended, or its machine replaced it, and then what
    /// it signed before `until` counts. The earliest that was ever said stands. False: there is no room for it.
    pub fn end(&self, key: &str, until: UnixMillis) -> bool {
        let mut ended = self.ended.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = ended.get_mut(key) {
            *known = (*known).min(until);
            return true;
        }
        let has_room = ended.len() < ENDED_KEYS_MAX;
        if has_room {
            ended.insert(key.to_string(), until);
        }
        has_room
    }

    /// Whether this key counts no more, whoever it is.
    pub fn is_revoked(&self, key: &str) -> bool {
        let ended = self.ended.read().unwrap_or_else(PoisonError::into_inner).contains_key(key);
        ended || self.known().revoked.contains(key)
    }

    /// Whether what this key vouches for is believed.
    pub fn is_issuer(&self, key: &str) -> bool {
        let known = self.known();
        known.member(key, |role| role == MemberRole::Issuer).is_some() && !known.revoked.contains(key)
    }

    /// Whether a master or an admin is called so.
    pub fn has_member(&self, name: &str) -> bool {
        let is = |member: &Member| {
            matches!(member.role, MemberRole::Master | MemberRole::Admin) && member.name.as_str() == name
        };
        self.known().roster.members.iter().any(is)
    }

    /// Whose message this is that came by a subject, if that one may speak there.
    pub fn verify(
        &self,
        envelope: &Envelope,
        subject: &str,
        speaker: &Speaker,
        seen: Seen,
    ) -> Result<Principal, Spoof> {
        if !envelope.is_signed() {
            return Err(Spoof::Unsigned);
        }
        if envelope.ts > seen.now.plus(CLOCK_TOLERANCE) {
            return Err(Spoof::Ahead);
        }
        let key = PublicKey::of_kind(&envelope.key, KeyKind::User).map_err(|_| Spoof::UnknownKey)?;
        let who = self.principal(&key, envelope, seen)?;
        // Before anybody is named: a certificate can be copied, and a log must not blame whom it was copied from.
        if !key.verifies(&envelope.signed_bytes(subject), &envelope.sig) {
            return Err(Spoof::BadSignature);
        }
        match speaker.is(&who) {
            true => Ok(who),
            false => Err(Spoof::NotTheirs(who)),
        }
    }

    /// Whether a key signed this that the roster has revoked since. It counts for nobody; a master may look at what it says all the
    /// same, to put a word of its own in its place.
    pub fn is_of_revoked(&self, envelope: &Envelope, subject: &str) -> bool {
        self.known().revoked.contains(&envelope.key)
            && PublicKey::of_kind(&envelope.key, KeyKind::User)
                .is_ok_and(|key| key.verifies(&envelope.signed_bytes(subject), &envelope.sig))
    }

    fn principal(&self, key: &PublicKey, envelope: &Envelope, seen: Seen) -> Result<Principal, Spoof> {
        let known = self.known();
        if seen.now > known.roster.expires {
            return Err(Spoof::RosterExpired);
        }
        if known.revoked.contains(key.as_str()) {
            return Err(Spoof::Revoked);
        }
        let named = |role, name: &str| Principal { role, name: name.to_string(), key: key.to_string() };
        let in_roster = known.member(key.as_str(), |role| {
            matches!(role, MemberRole::Master | MemberRole::Admin | MemberRole::Operator)
        });
        if let Some(member) = in_roster {
            if member.until.is_some_and(|until| !seen.is_within(envelope, until)) {
                return Err(Spoof::Expired);
            }
            let role = match member.role {
                MemberRole::Master => Role::Master,
                MemberRole::Admin => Role::Admin,
                _ => Role::Operator,
            };
            return Ok(named(role, member.name.as_str()));
        }
        // Of peels alone: who is a master or an admin, the roster says and no record of a master's.
        let ended = self.ended.read().unwrap_or_else(PoisonError::into_inner).get(key.as_str()).copied();
        if ended.is_some_and(|until| !seen.is_within(envelope, until)) {
            return Err(Spoof::Revoked);
        }
        if envelope.cert.is_empty() {
            return Err(Spoof::UnknownKey);
        }
        let certificate = self.certificate(&envelope.cert)?;
        // One that was replaced too: what it vouched for goes on, for as long as each certificate says and one may say.
        let issuer = known.member(&certificate.issuer, |role| role == MemberRole::Issuer);
        let replaced = issuer.ok_or(Spoof::BadCertificate)?.until;
        let until = replaced
            .map_or(certificate.until, |replaced| certificate.until.min(replaced.plus(CERTIFICATE_LIFE_MAX)));
        if known.revoked.contains(&certificate.issuer) {
            return Err(Spoof::Revoked);
        }
        if certificate.key != key.as_str() {
            return Err(Spoof::BadCertificate);
        }
        if !seen.is_within(envelope, until) {
            return Err(Spoof::Expired);
        }
        Ok(named(Role::Peel, certificate.peel.as_str()))
    }

    fn certificate(&self, bytes: &[u8]) -> Result<Certificate, Spoof> {
        let certificate: Certificate = decode(bytes).map_err(|_| Spoof::BadCertificate)?;
        let mut verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.contains(bytes) {
            return Ok(certificate);
        }
        drop(verified);
        if !certificate::holds(&certificate).map_err(|_| Spoof::BadCertificate)? {
            return Err(Spoof::BadCertificate);
        }
        verified = self.verified.lock().unwrap_or_else(PoisonError::into_inner);
        if verified.len() >= CERTIFICATES_KEPT_MAX {
            verified.clear();
        }
        verified.insert(bytes.to_vec());
        Ok(certificate)
    }
}
