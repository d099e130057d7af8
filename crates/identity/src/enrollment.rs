//! Who may be a peel: one record a name, from the first request to the end of its key (I-4). Pure: the caller reads the record,
//! asks here what it becomes, and writes that by comparing revisions.
//!
//! The key is who somebody is, the name a label. Another key under the same name is somebody else: it gets nothing of what the
//! one before had, and it gets the name only with a join token for that very name or after an operator ended the one before.

use crate::join_token::Voucher;
use crate::key::PublicKey;
use crate::limits::{
    ENROLL_NAME_BYTES_MAX, FORMER_KEYS_MAX, NEWS_AGAIN, PENDING_LIFE, PENDING_MAX, PENDING_OF_ADDRESS_MAX,
    REASON_BYTES_MAX, REKEY_OVERLAP,
};
use sha2::{Digest, Sha256};
use std::fmt::{self, Write};
use std::net::IpAddr;
use zester_wire::envelope::joined;
use zester_wire::{Enrollment, EnrollmentStatus as Status, FormerKey, PeelId, Token, UnixMillis};

const DOMAIN: &[u8] = b"zester.enrollment.1";
/// Bytes of the digest that an id begins with, in hex.
const ID_BYTES: usize = 8;
/// Who decided, where a join token did.
pub const BY_TOKEN: &str = "token";
/// Why a record waits again that did not before.
const MASTER_REVOKED: &str = "the key of the master that decided was revoked";

/// Who stands at the door.
#[derive(Copy, Clone, Debug)]
pub struct Newcomer<'a> {
    pub peel: &'a PeelId,
    pub key: &'a PublicKey,
    pub address: IpAddr,
}

/// How many wait for somebody's word.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    pub all: usize,
    /// Of the address of this newcomer.
    pub of_address: usize,
}

/// Why a request comes to nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Another key asks for this name, or has it.
    NameTaken { peel: PeelId, status: Status },
    /// This key was revoked, or another took its place.
    KeyEnded,
    /// The name makes an id that is too long.
    NameTooLong,
    /// Too many wait already.
    Full,
    /// So many keys had this name that no more can be told apart.
    WornOut,
    /// A newer release wrote the record.
    Newer,
}

impl Refused {
    /// Whether the same request may be granted a while later without anybody's doing.
    pub fn is_for_now(&self) -> bool {
        matches!(self, Refused::Full)
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::NameTaken { peel, status: Status::Pending } => write!(
                out,
                "another machine asked for the name {peel} and waits; an operator decides with `zester enroll show {peel}`"
            ),
            Refused::NameTaken { peel, .. } => write!(
                out,
                "the name {peel} is another key's; if this machine was installed anew, it needs a join token for this very name, or the operator says `zester enroll revoke {peel}` first"
            ),
            Refused::KeyEnded => out.write_str(
                "this key was revoked, or another took its place; remove creds/peel.nk from the data directory to ask with a new one",
            ),
            Refused::NameTooLong => {
                write!(out, "a name that enrolls has at most {ENROLL_NAME_BYTES_MAX} letters")
            }
            Refused::Full => out.write_str("too many machines wait for an operator; bring a join token, or ask later"),
            Refused::WornOut => out.write_str("too many keys had this name lately; take another one"),
            Refused::Newer => out.write_str("a newer release keeps this enrollment; update the master"),
        }
    }
}

impl std::error::Error for Refused {}

/// What a request makes of the record.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    pub record: Enrollment,
    /// It has to be written.
    pub is_changed: bool,
    /// It has just begun to wait for somebody's word, or came back with a token that vouches for it: rules are told. Also if it
    /// asks again soon after, in case that whoever took the first request died before telling; the event has the same id.
    pub is_news: bool,
}

/// The id of this key under this name.
pub fn id_of(peel: &PeelId, key: &str) -> Result<Token, Refused> {
    if peel.as_str().len() > ENROLL_NAME_BYTES_MAX {
        return Err(Refused::NameTooLong);
    }
    let digest = Sha256::digest(joined(&[DOMAIN, peel.as_str().as_bytes(), key.as_bytes()]));
    let mut text = String::with_capacity(2 * ID_BYTES + 1 + peel.as_str().len());
    for byte in digest.iter().take(ID_BYTES) {
        let _infallible = write!(text, "{byte:02x}");
    }
    let _infallible = write!(text, "-{peel}");
    Token::parse(&text).map_err(|_| Refused::NameTooLong)
}

/// The name in an id.
pub fn peel_of_id(id: &str) -> Option<PeelId> {
    let (digits, peel) = id.split_at_checked(2 * ID_BYTES)?;
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte));
    PeelId::parse(peel.strip_prefix('-').filter(|_| is_hex)?).ok()
}

/// The serial of the record that takes the place of another: higher than that, and than any that was removed before.
fn next_serial(before: Option<&Enrollment>, now: UnixMillis) -> u64 {
    before.map_or(0, |before| before.serial.saturating_add(1)).max(now.0)
}

/// What becomes of the record of a name when somebody who has shown to have the key asks for it.
pub fn asked(
    record: Option<&Enrollment>,
    by: &Newcomer<'_>,
    voucher: Option<&Voucher>,
    waiting: Waiting,
    now: UnixMillis,
) -> Result<Asked, Refused> {
    let mut asked = judged(record, by, voucher, waiting, now)?;
    if asked.is_changed {
        asked.record.serial = next_serial(record, now);
    }
    Ok(asked)
}

/// The record of a name whose machine gives itself a new key (I-15): it has shown to have both. None: the old one is not the key of this
/// name, or has nothing that could go on. What the old key signed counts for a while more, because some of it is still under way.
pub fn rekeyed(
    record: &Enrollment,
    before: &PublicKey,
    by: &Newcomer<'_>,
    now: UnixMillis,
) -> Result<Option<Enrollment>, Refused> {
    let is_in = matches!(record.status, Status::Issued | Status::Active);
    if !is_in || record.key != before.as_str() || before == by.key {
        return Ok(None);
    }
    if record.former.iter().any(|former| former.key == by.key.as_str()) {
        return Err(Refused::KeyEnded);
    }
    let mut former = former_keys(record, Some(now), now)?;
    if let Some(last) = former.last_mut().filter(|last| last.key == record.key) {
        last.counts_until = Some(now.plus(REKEY_OVERLAP));
    }
    Ok(Some(Enrollment {
        id: id_of(by.peel, by.key.as_str())?,
        key: by.key.to_string(),
        status: Status::Approved,
        address: by.address.to_canonical().to_string(),
        changed: now,
        until: None,
        former,
        serial: next_serial(Some(record), now),
        ..record.clone()
    }))
}

fn judged(
    record: Option<&Enrollment>,
    by: &Newcomer<'_>,
    voucher: Option<&Voucher>,
    waiting: Waiting,
    now: UnixMillis,
) -> Result<Asked, Refused> {
    let Some(record) = record else { return begin(by, voucher, Vec::new(), waiting, now) };
    if record.former.iter().any(|former| former.key == by.key.as_str()) {
        return Err(Refused::KeyEnded);
    }
    let taken = || Refused::NameTaken { peel: by.peel.clone(), status: record.status };
    let approved = voucher.filter(|voucher| voucher.approves);
    match (record.status, record.key == by.key.as_str()) {
        (Status::Unknown, _) => Err(Refused::Newer),
        // The same one again: to hear what became of it, to renew, or with a token that it had not before.
        (Status::Pending | Status::Rejected, true) if approved.is_some() => {
            Ok(Asked { record: vouched(record, voucher, now), is_changed: true, is_news: false })
        }
        (Status::Pending, true) => {
            let is_new_token = voucher.is_some_and(|voucher| record.token.as_ref() != Some(&voucher.token));
            let is_news = is_new_token || now.since(record.requested) < NEWS_AGAIN;
            let record = if is_new_token { vouched(record, voucher, now) } else { record.clone() };
            Ok(Asked { record, is_changed: is_new_token, is_news })
        }
        (Status::Approved | Status::Issued | Status::Active | Status::Rejected, true) => {
            Ok(Asked { record: record.clone(), is_changed: false, is_news: false })
        }
        (Status::Revoked, true) => Err(Refused::KeyEnded),
        // Somebody else. Who never had the name leaves nothing behind.
        (Status::Rejected, false) => begin(by, voucher, former_keys(record, None, now)?, waiting, now),
        (Status::Revoked, false) => begin(by, voucher, former_keys(record, Some(now), now)?, waiting, now),
        (Status::Pending, false) => {
            let is_old = now.since(record.requested) > PENDING_LIFE;
            // Who brings nothing keeps nobody out who brings a token, be it for many names.
            let is_stranger = record.token.is_none() && record.former.is_empty();
            match is_old || approved.is_some_and(|voucher| voucher.exact || is_stranger) {
                true => begin(by, voucher, former_keys(record, None, now)?, waiting, now),
                false => Err(taken()),
            }
        }
        (Status::Approved | Status::Issued | Status::Active, false) => {
            match approved.is_some_and(|voucher| voucher.exact) {
                true => begin(by, voucher, former_keys(record, Some(now), now)?, waiting, now),
                false => Err(taken()),
            }
        }
    }
}

fn begin(
    by: &Newcomer<'_>,
    voucher: Option<&Voucher>,
    former: Vec<FormerKey>,
    waiting: Waiting,
    now: UnixMillis,
) -> Result<Asked, Refused> {
    // Somebody else has the name now: nothing goes on of the keys before.
    let former = former.into_iter().map(|former| FormerKey { counts_until: None, ..former }).collect();
    let is_full = waiting.all >= PENDING_MAX || waiting.of_address >= PENDING_OF_ADDRESS_MAX;
    if is_full && !voucher.is_some_and(|voucher| voucher.approves) {
        return Err(Refused::Full);
    }
    let record = Enrollment {
        v: zester_wire::VERSION,
        id: id_of(by.peel, by.key.as_str())?,
        peel: by.peel.clone(),
        key: by.key.to_string(),
        status: Status::Pending,
        address: by.address.to_canonical().to_string(),
        requested: now,
        changed: now,
        by: String::new(),
        reason: String::new(),
        token: None,
        until: None,
        former,
        serial: 0,
        rest: Default::default(),
    };
    let record = vouched(&record, voucher, now);
    let is_news = record.status == Status::Pending;
    Ok(Asked { record, is_changed: true, is_news })
}

/// The record with what a token says for it.
fn vouched(record: &Enrollment, voucher: Option<&Voucher>, now: UnixMillis) -> Enrollment {
    let Some(voucher) = voucher else { return record.clone() };
    let record = Enrollment { token: Some(voucher.token.clone()), ..record.clone() };
    match voucher.approves {
        true => Enrollment {
            status: Status::Approved,
            changed: now,
            by: BY_TOKEN.into(),
            reason: String::new(),
            ..record
        },
        false => record,
    }
}

/// Whether nothing is lost with the record: nobody waits for an answer any more, and it ends no key that still counts.
pub fn is_forgotten(record: &Enrollment, now: UnixMillis) -> bool {
    record.status == Status::Pending
        && now.since(record.requested) > PENDING_LIFE
        && former_keys(record, None, now).is_ok_and(|former| former.is_empty())
}

/// The keys that had a name, and with `ended` the last of them. Those whose credentials have ended by themselves need no place.
fn former_keys(
    record: &Enrollment,
    ended: Option<UnixMillis>,
    now: UnixMillis,
) -> Result<Vec<FormerKey>, Refused> {
    let (key, until) = (record.key.clone(), record.until);
    let last = ended.map(|at| FormerKey { key, at, until, counts_until: None });
    let counts = |former: &FormerKey| {
        former.until.is_none_or(|until| until.plus(crate::limits::CLOCK_TOLERANCE) > now)
    };
    let former: Vec<FormerKey> = record.former.iter().cloned().chain(last).filter(counts).collect();
    match former.len() > FORMER_KEYS_MAX {
        true => Err(Refused::WornOut),
        false => Ok(former),
    }
}

/// What can happen to a record beside somebody asking.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Transition {
    Approve,
    Reject,
    Revoke,
    /// It was given credentials, or new ones.
    Issue {
        until: UnixMillis,
    },
    /// It was seen on the bus.
    Seen,
}

impl Transition {
    fn word(self) -> &'static str {
        match self {
            Transition::Approve => "approved",
            Transition::Reject => "rejected",
            Transition::Revoke => "revoked",
            Transition::Issue { .. } => "issued",
            Transition::Seen => "active",
        }
    }
}

/// Who decided, and why.
#[derive(Copy, Clone, Debug)]
pub struct Decider<'a> {
    pub by: &'a str,
    pub reason: &'a str,
}

/// Why a transition does not happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotDone {
    /// It has happened already.
    Duplicate(Status),
    /// A record in this status cannot become that.
    Unfit { status: Status, to: &'static str },
}

impl fmt::Display for NotDone {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotDone::Duplicate(status) => write!(out, "it is {} already", status.as_str()),
            NotDone::Unfit { status: Status::Pending, to: "revoked" } => {
                out.write_str("it only waits, and has nothing to be revoked; reject it")
            }
            NotDone::Unfit { status: Status::Approved | Status::Issued | Status::Active, to: "rejected" } => {
                out.write_str("it was let in; revoke it")
            }
            NotDone::Unfit { status: Status::Rejected, to: "approved" } => {
                out.write_str("it was rejected; it may ask again with a join token, or with a new key")
            }
            NotDone::Unfit { status: Status::Revoked, .. } => {
                out.write_str("its key was revoked for good; the machine asks again with a new one")
            }
            NotDone::Unfit { status, to } => write!(out, "it is {}, and cannot become {to}", status.as_str()),
        }
    }
}

impl std::error::Error for NotDone {}

/// Every legal transition.
pub fn step(
    record: &Enrollment,
    what: Transition,
    decider: Decider<'_>,
    now: UnixMillis,
) -> Result<Enrollment, NotDone> {
    use Status::{Active, Approved, Issued, Pending, Rejected, Revoked};
    let status = match (record.status, what) {
        (Pending, Transition::Approve) => Approved,
        (Pending, Transition::Reject) => Rejected,
        (Approved | Issued, Transition::Issue { .. }) => Issued,
        // New credentials for one that is here.
        (Active, Transition::Issue { .. }) => Active,
        (Issued, Transition::Seen) => Active,
        (Approved | Issued | Active, Transition::Revoke) => Revoked,
        (Approved | Issued | Active, Transition::Approve)
        | (Rejected, Transition::Reject)
        | (Revoked, Transition::Revoke)
        | (Active, Transition::Seen) => return Err(NotDone::Duplicate(record.status)),
        (status, what) => return Err(NotDone::Unfit { status, to: what.word() }),
    };
    let mut next = Enrollment { status, serial: next_serial(Some(record), now), ..record.clone() };
    if status != record.status {
        next.changed = now;
    }
    match what {
        // What was given out before may count for longer.
        Transition::Issue { until } => next.until = next.until.max(Some(until)),
        Transition::Seen => {}
        Transition::Approve | Transition::Reject | Transition::Revoke => {
            next.by = decider.by.to_string();
            let end = decider.reason.floor_char_boundary(REASON_BYTES_MAX);
            next.reason = decider.reason[..end].to_string();
        }
    }
    Ok(next)
}

/// What a standing master signs in the place of a record whose master was revoked since. That one may have been in a thief's hands, so
/// its word ends keys and lets nobody in: who was revoked stays so, and who was let in stays in where the issuer vouches for the
/// key (`is_vouched`: what the peel itself signed says so) and waits for somebody's word where only that master did.
pub fn signed_anew(record: &Enrollment, is_vouched: bool, now: UnixMillis) -> Enrollment {
    let record = &Enrollment { serial: next_serial(Some(record), now), ..record.clone() };
    match record.status {
        Status::Revoked | Status::Rejected | Status::Unknown => record.clone(),
        Status::Approved | Status::Issued | Status::Active if is_vouched => record.clone(),
        Status::Pending | Status::Approved | Status::Issued | Status::Active => Enrollment {
            status: Status::Pending,
            requested: now,
            changed: now,
            by: String::new(),
            reason: MASTER_REVOKED.into(),
            // That it brought one is the same master's word, and rules let in by it.
            token: None,
            ..record.clone()
        },
    }
}

/// Whether an address is the one that is wanted, or in the network that is: `192.0.2.7`, `10.1.0.0/16`, `2001:db8::/32`.
pub fn address_is(wanted: &str, found: &str) -> bool {
    let (network, length) = match wanted.split_once('/') {
        Some((network, length)) => (network, Some(length)),
        None => (wanted, None),
    };
    let (Ok(network), Ok(found)) = (network.parse::<IpAddr>(), found.parse::<IpAddr>()) else { return false };
    let (bits, all) = match (network.to_canonical(), found.to_canonical()) {
        (IpAddr::V4(network), IpAddr::V4(found)) => {
            (u128::from(network.to_bits() ^ found.to_bits()) << 96, 32)
        }
        (IpAddr::V6(network), IpAddr::V6(found)) => (network.to_bits() ^ found.to_bits(), 128),
        _ => return false,
    };
    match length.map_or(Ok(all), str::parse::<u32>) {
        Ok(0) => true,
        Ok(length) if length <= all => bits >> (128 - length) == 0,
        _ => false,
    }
}

/// Keys of a record that nobody should believe any more, each with the time until which what it signed counts: none at all, but where
/// its machine replaced it by itself.
pub fn ended_keys(record: &Enrollment) -> impl Iterator<Item = (&str, UnixMillis)> {
    let is_revoked = record.status == Status::Revoked;
    let own = is_revoked.then_some((record.key.as_str(), UnixMillis(0)));
    // Who ends a name ends every key that it had.
    let until = move |former: &FormerKey| former.counts_until.filter(|_| !is_revoked).unwrap_or_default();
    own.into_iter().chain(record.former.iter().map(move |former| (former.key.as_str(), until(former))))
}
