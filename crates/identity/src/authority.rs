//! Who makes a fleet: from nothing to the keys of everybody, and from there to every later change of who is who (I-1, I-15).
//!
//! What is secret comes in as key pairs, so that each can stay where it is safest; what is not stands in a [`Fleet`], which is a
//! small document, and in the signed roster.

use crate::accounts::{self, AccountKeys, Revocations};
use crate::key::{BadKey, KeyKind, KeyPair, PublicKey};
use crate::limits::CERTIFICATE_LIFE_MAX;
use crate::speaker::Role;
use crate::{Credentials, certificate, roster};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use zester_wire::{EncodeError, Member, MemberRole, PeelId, Revoked, Roster, Token, UnixMillis};

/// How long a roster counts: long enough that nobody is surprised, short enough that an old one cannot come back.
pub const ROSTER_LIFE: Duration = Duration::from_secs(400 * 86_400);
/// How long the credentials of a peel count that nobody says otherwise for.
pub const PEEL_LIFE: Duration = CERTIFICATE_LIFE_MAX;

/// Why something cannot be made.
#[derive(Debug)]
pub struct Error(String);

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Error {}

impl From<BadKey> for Error {
    fn from(bad: BadKey) -> Error {
        Error(bad.to_string())
    }
}

impl From<EncodeError> for Error {
    fn from(error: EncodeError) -> Error {
        Error(error.to_string())
    }
}

/// Everything about a fleet that is no secret.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fleet {
    pub operator: String,
    pub core: String,
    pub peels: String,
    /// None: of an earlier release, whose operators with roles live in CORE (see [`Fleet::move_operator`]).
    #[serde(default)]
    pub operators: Option<String>,
    pub system: String,
    /// Operators who were moved there, until the fleet was told: their names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved: Vec<String>,
    /// Public keys that may issue peels, the newest last.
    pub issuers: Vec<String>,
    /// The public key that signs accounts for masters that revoke by themselves.
    #[serde(default)]
    pub revoker: Option<String>,
    /// The one before, while masters still have it: the server believes both.
    #[serde(default)]
    pub former_revoker: Option<String>,
    /// What was issued, by name: so that a name is enough to revoke it.
    #[serde(default)]
    pub issued: BTreeMap<String, Vec<Issued>>,
    /// Users that may not connect any more, with the second until which their JWTs are void.
    #[serde(default)]
    pub revoked: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Issued {
    pub role: String,
    pub key: String,
}

/// The secret halves, of which each is needed for something else.
#[derive(Clone)]
pub struct Secrets {
    /// Signs accounts.
    pub operator: KeyPair,
    /// The anchor: signs masters, admins and the roster.
    pub core: KeyPair,
    pub peels: KeyPair,
    /// Names the account of operators with roles, and signs nothing by itself.
    pub operators: KeyPair,
    pub system: KeyPair,
    /// Signs peels, and nothing else counts that it signs.
    pub issuer: KeyPair,
    /// Signs accounts beside the operator's own key: for masters that revoke by themselves.
    pub revoker: KeyPair,
}

impl Secrets {
    pub fn new(mut random: impl FnMut() -> [u8; 32]) -> Result<Secrets, BadKey> {
        Ok(Secrets {
            operator: KeyPair::new(KeyKind::Operator, random())?,
            core: KeyPair::new(KeyKind::Account, random())?,
            peels: KeyPair::new(KeyKind::Account, random())?,
            operators: KeyPair::new(KeyKind::Account, random())?,
            system: KeyPair::new(KeyKind::Account, random())?,
            issuer: KeyPair::new(KeyKind::Account, random())?,
            revoker: KeyPair::new(KeyKind::Operator, random())?,
        })
    }
}

fn account(text: &str) -> Result<PublicKey, BadKey> {
    PublicKey::of_kind(text, KeyKind::Account)
}

/// A roster without anybody in it but the issuer.
pub fn first_roster(issuer: &PublicKey, now: UnixMillis) -> Result<Roster, Error> {
    let mut roster = Roster {
        v: zester_wire::VERSION,
        serial: 0,
        issued: now,
        expires: now.plus(ROSTER_LIFE),
        members: Vec::new(),
        revoked: Vec::new(),
        roles: Vec::new(),
    };
    add(&mut roster, MemberRole::Issuer, "issuer", issuer, None)?;
    Ok(roster)
}

fn add(
    roster: &mut Roster,
    role: MemberRole,
    name: &str,
    key: &PublicKey,
    replaced_until: Option<UnixMillis>,
) -> Result<(), Error> {
    let name = Token::parse(name).map_err(|bad| Error(format!("`{name}` is {bad}")))?;
    for member in roster.members.iter_mut().filter(|member| member.role == role && member.name == name) {
        if replaced_until.is_some() && member.until.is_none() {
            member.until = replaced_until;
        }
    }
    roster.members.push(Member { role, name, key: key.to_string(), until: None });
    Ok(())
}

/// The names of those who have roles.
pub fn operators_in(roster: &Roster) -> BTreeSet<String> {
    let of = roster.members.iter().filter(|member| member.role == MemberRole::Operator);
    of.map(|member| member.name.to_string()).collect()
}

/// The next roster: whatever was changed, it has a higher serial and a fresh life.
pub fn renewed(roster: &Roster, now: UnixMillis) -> Roster {
    // Two authorities that share a file could count alike; the clock sets them apart.
    let serial = roster.serial.saturating_add(1).max(now.0 / 1000);
    Roster { serial, issued: now, expires: now.plus(ROSTER_LIFE), ..roster.clone() }
}

impl Fleet {
    pub fn new(secrets: &Secrets) -> Fleet {
        Fleet {
            operator: secrets.operator.public().to_string(),
            core: secrets.core.public().to_string(),
            peels: secrets.peels.public().to_string(),
            operators: Some(secrets.operators.public().to_string()),
            system: secrets.system.public().to_string(),
            moved: Vec::new(),
            issuers: vec![secrets.issuer.public().to_string()],
            revoker: Some(secrets.revoker.public().to_string()),
            former_revoker: None,
            issued: BTreeMap::new(),
            revoked: BTreeMap::new(),
        }
    }

    /// The key that names the account of peels.
    pub fn account_of_peels(&self) -> Result<PublicKey, BadKey> {
        account(&self.peels)
    }

    fn account_of_operators(&self) -> Result<PublicKey, Error> {
        let text = self.operators.as_deref();
        let none = || Error("there is no account of operators yet: `zester auth push` makes it".into());
        Ok(account(text.ok_or_else(none)?)?)
    }

    fn account_keys(&self) -> Result<AccountKeys, Error> {
        Ok(AccountKeys {
            core: account(&self.core)?,
            peels: self.account_of_peels()?,
            operators: self.account_of_operators()?,
            system: account(&self.system)?,
        })
    }

    fn issuers(&self) -> Result<Vec<PublicKey>, BadKey> {
        self.issuers.iter().map(|text| PublicKey::of_kind(text, KeyKind::Account)).collect()
    }

    fn revocations(&self) -> Result<Revocations, BadKey> {
        let mut all = Revocations::default();
        for (key, at) in &self.revoked {
            all.add(&PublicKey::of_kind(key, KeyKind::User)?, *at);
        }
        Ok(all)
    }

    /// What a server trusts in its configuration: the operator, and who may sign accounts beside it.
    pub fn operator_jwt(&self, operator: &KeyPair, now: UnixMillis) -> Result<String, Error> {
        let system = account(&self.system)?;
        let revokers = self.revoker.iter().chain(&self.former_revoker);
        let revokers: Vec<PublicKey> =
            revokers.map(|text| PublicKey::of_kind(text, KeyKind::Operator)).collect::<Result<_, _>>()?;
        let claims = accounts::operator("zester", operator.public(), &system, &revokers, now.0 / 1000);
        Ok(claims.issued_by(operator))
    }

    /// Gives masters that revoke another key. Both sign until the one before is given up, or this one alone where that was stolen.
    pub fn rotate_revoker(&mut self, key: &PublicKey, stolen: bool) {
        let before = self.revoker.replace(key.to_string());
        self.former_revoker = before.filter(|_| !stolen);
    }

    /// Gives up the key before. False: there is none.
    pub fn end_former_revoker(&mut self) -> bool {
        self.former_revoker.take().is_some()
    }

    /// The JWT of the operator, and those of the accounts by their keys: what a server is told.
    pub fn server_jwts(&self, operator: &KeyPair, now: UnixMillis) -> Result<ServerJwts, Error> {
        let (keys, seconds, revoked) = (self.account_keys()?, now.0 / 1000, self.revocations()?);
        let signed = |claims: crate::jwt::Claims| claims.issued_by(operator);
        Ok(ServerJwts {
            operator: self.operator_jwt(operator, now)?,
            accounts: vec![
                (keys.core.to_string(), signed(accounts::core(&keys, &revoked, seconds))),
                (keys.peels.to_string(), signed(accounts::peels(&keys, &self.issuers()?, &revoked, seconds))),
                (keys.operators.to_string(), signed(accounts::operators(&keys, &revoked, seconds))),
                (keys.system.to_string(), signed(accounts::system(&keys, &revoked, seconds))),
            ],
        })
    }

    /// Makes a master, an admin or an operator, or gives one a new key: the old one counts until then, for what runs with it.
    pub fn member(
        &mut self,
        who: (Role, &str),
        pair: KeyPair,
        core: &KeyPair,
        roster: &mut Roster,
        (now, overlap): (UnixMillis, Duration),
    ) -> Result<Unsealed, Error> {
        let (role, name) = who;
        let member_role = match role {
            Role::Master => MemberRole::Master,
            Role::Admin => MemberRole::Admin,
            Role::Operator => MemberRole::Operator,
            Role::Peel => return Err(Error("a peel stands in no roster".into())),
        };
        let (key, issued) = (pair.public(), now.0 / 1000);
        let claims = match role {
            Role::Operator => accounts::operator_user(name, key, &self.account_of_operators()?, issued),
            _ => accounts::member(role, name, key, issued),
        };
        add(roster, member_role, name, key, Some(now.plus(overlap)))?;
        let jwt = claims.issued_by(core);
        self.note(name, role, pair.public());
        Ok(Unsealed { jwt, name: name.to_string(), pair, certificate: Vec::new() })
    }

    /// Whether operators with roles still live in CORE, as they did before they had an account of their own.
    pub fn has_operators_in_core(&self) -> bool {
        self.operators.is_none()
    }

    /// The account of operators with roles.
    pub fn open_account_of_operators(&mut self, key: &PublicKey) {
        self.operators = Some(key.to_string());
    }

    /// Takes an operator with roles out of CORE: it gets a new key in the account of operators, and the server lets its keys in CORE
    /// in no more. What these signed counts for the overlap, because some of it is still under way.
    pub fn move_operator(
        &mut self,
        name: &str,
        pair: KeyPair,
        core: &KeyPair,
        roster: &mut Roster,
        (now, overlap): (UnixMillis, Duration),
    ) -> Result<Unsealed, Error> {
        let is_of = |member: &&Member| member.role == MemberRole::Operator && member.name.as_str() == name;
        let before: Vec<String> =
            roster.members.iter().filter(is_of).map(|member| member.key.clone()).collect();
        let made = self.member((Role::Operator, name), pair, core, roster, (now, overlap))?;
        for key in before {
            self.keep_out(&key, now);
        }
        self.moved.push(name.to_string());
        Ok(made)
    }

    /// Makes a peel, with the key of the issuer alone.
    pub fn peel(
        &mut self,
        peel: &PeelId,
        pair: KeyPair,
        issuer: &KeyPair,
        now: UnixMillis,
        life: Duration,
    ) -> Result<Unsealed, Error> {
        let (jwt, certificate) = self.vouch(peel, pair.public(), issuer, now, life)?;
        Ok(Unsealed { jwt, name: peel.to_string(), pair, certificate })
    }

    /// The same for a peel that made its key itself: the JWT of its user, and its certificate.
    pub fn vouch(
        &mut self,
        peel: &PeelId,
        key: &PublicKey,
        issuer: &KeyPair,
        now: UnixMillis,
        life: Duration,
    ) -> Result<(String, Vec<u8>), Error> {
        let vouched = vouch(&self.account_of_peels()?, peel, key, issuer, (now, life))?;
        self.note(peel.as_str(), Role::Peel, key);
        Ok(vouched)
    }

    fn note(&mut self, name: &str, role: Role, key: &PublicKey) {
        let issued = Issued { role: role.to_string(), key: key.to_string() };
        self.issued.entry(name.to_string()).or_default().push(issued);
    }

    /// Gives the issuer a new key. What the old one signed goes on; it signs nothing new that counts.
    pub fn rotate_issuer(
        &mut self,
        key: &PublicKey,
        roster: &mut Roster,
        until: UnixMillis,
    ) -> Result<(), Error> {
        self.issuers.push(key.to_string());
        add(roster, MemberRole::Issuer, "issuer", key, Some(until))
    }

    /// The same where the old key was stolen: it counts no more, and neither does anything that it vouched for.
    pub fn replace_issuer(
        &mut self,
        key: &PublicKey,
        roster: &mut Roster,
        now: UnixMillis,
    ) -> Result<(), Error> {
        for key in std::mem::take(&mut self.issuers) {
            roster.revoked.push(Revoked { key, name: "issuer".into(), at: now });
        }
        roster.members.retain(|member| member.role != MemberRole::Issuer);
        self.issuers.push(key.to_string());
        add(roster, MemberRole::Issuer, "issuer", key, None)
    }

    /// Ends one key that others issued: of a peel that came in by a door. False: it was ended before.
    pub fn revoke_key(&mut self, name: &str, key: &PublicKey, roster: &mut Roster, now: UnixMillis) -> bool {
        let is_new = !roster.revoked.iter().any(|one| one.key == key.as_str());
        if is_new {
            roster.revoked.push(Revoked { key: key.to_string(), name: name.to_string(), at: now });
        }
        self.keep_out(key.as_str(), now) || is_new
    }

    /// Ends the user that tells the server of accounts: the server is told with its successor, and lets it in no more after that.
    pub fn replace_system_user(&mut self, before: &PublicKey, now: UnixMillis) {
        self.keep_out(before.as_str(), now);
    }

    /// Has the server let a key in no more. False: it does so already.
    fn keep_out(&mut self, key: &str, now: UnixMillis) -> bool {
        let until = kept_out_until(now);
        let known = self.revoked.entry(key.to_string()).or_default();
        let is_new = *known < now.0 / 1000;
        *known = (*known).max(until);
        is_new
    }

    /// Takes note of who the server keeps out already: masters revoke too.
    pub fn join_revoked(&mut self, claims: &crate::jwt::Claims) {
        for (key, at) in accounts::Revocations::of(claims).entries() {
            let known = self.revoked.entry(key.to_string()).or_insert(at);
            *known = (*known).max(at);
        }
    }

    /// Ends every key of a name: what it signs counts no more, and the server lets it in no more. How many keys.
    pub fn revoke(&mut self, name: &str, roster: &mut Roster, now: UnixMillis) -> Result<usize, Error> {
        let issued = self.issued.get(name).cloned().unwrap_or_default();
        let mut count = 0;
        for Issued { key, .. } in issued {
            let is_kept_out = !self.keep_out(&key, now);
            if is_kept_out && roster.revoked.iter().any(|one| one.key == key) {
                continue;
            }
            roster.members.retain(|member| member.key != key);
            roster.revoked.push(Revoked { key, name: name.to_string(), at: now });
            count += 1;
        }
        match count {
            0 => Err(Error(format!("there is no key of `{name}` that is not revoked already"))),
            count => Ok(count),
        }
    }
}

/// The second up to which JWTs of a revoked key are void. Keys are never used again, and whoever issued them may have had a clock
/// that was ahead: a server compares with the time that stands in the JWT.
fn kept_out_until(now: UnixMillis) -> u64 {
    now.plus(CERTIFICATE_LIFE_MAX).0 / 1000
}

/// What makes a key a peel's: the JWT of its user in the account of the peels, and its certificate. Takes the key of the issuer
/// and nothing else that is secret, so that a master can do it.
pub fn vouch(
    account: &PublicKey,
    peel: &PeelId,
    key: &PublicKey,
    issuer: &KeyPair,
    (now, life): (UnixMillis, Duration),
) -> Result<(String, Vec<u8>), Error> {
    if key.kind() != KeyKind::User {
        return Err(Error("the key of a peel is a user's: it begins with U".into()));
    }
    if life > CERTIFICATE_LIFE_MAX {
        let days = CERTIFICATE_LIFE_MAX.as_secs() / 86_400;
        return Err(Error(format!("credentials of a peel count for {days} days at most")));
    }
    let until = now.plus(life);
    let claims = accounts::peel(peel.as_str(), key, account, now.0 / 1000, until.0 / 1000);
    Ok((claims.issued_by(issuer), certificate::issue(peel, key, until, issuer)?))
}

/// An account as it is, with more users that it keeps out, signed anew. None: it keeps all of them out already.
pub fn with_revoked(
    claims: &crate::jwt::Claims,
    keys: &[PublicKey],
    signer: &KeyPair,
    now: UnixMillis,
) -> Option<(String, usize)> {
    let mut revoked = accounts::Revocations::of(claims);
    let new: Vec<&PublicKey> = keys.iter().filter(|key| !revoked.has(key.as_str())).collect();
    if new.is_empty() {
        return None;
    }
    let count = new.len();
    new.into_iter().for_each(|key| revoked.add(key, kept_out_until(now)));
    let mut nats = claims.nats.clone();
    nats.insert("revocations".into(), serde_json::Value::Object(revoked.claims()));
    // A server takes no account that is older than the one it has.
    let issued = (now.0 / 1000).max(claims.issued + 1);
    let claims = crate::jwt::Claims { issued, nats, ..claims.clone() };
    Some((claims.issued_by(signer), count))
}

/// Credentials that lack only the roster, which is signed when it is complete.
pub struct Unsealed {
    jwt: String,
    pub name: String,
    pair: KeyPair,
    certificate: Vec<u8>,
}

impl Unsealed {
    pub fn with_roster(self, anchor: &PublicKey, signed_roster: &[u8]) -> Credentials {
        let Unsealed { jwt, name, pair, certificate } = self;
        Credentials { jwt, name, pair, anchor: anchor.clone(), roster: signed_roster.to_vec(), certificate }
    }
}

/// Who may tell the server of accounts: a user of the system account, whose roster nobody reads.
pub fn system_user(pair: KeyPair, system: &KeyPair, now: UnixMillis) -> Unsealed {
    let jwt = accounts::system_user(pair.public(), now.0 / 1000).issued_by(system);
    Unsealed { jwt, name: "sys".into(), pair, certificate: Vec::new() }
}

/// The roster as it travels.
pub fn signed(roster: &Roster, core: &KeyPair) -> Result<Vec<u8>, Error> {
    Ok(roster::sign(roster, core)?)
}

/// How much a server may keep on its disk: more than all stores of a fleet together may hold. A server that is not told
/// takes what happens to be free when it starts, and on a disk that is nearly full it then refuses the stores themselves.
pub const STORE_MAX: &str = "16G";

pub struct ServerJwts {
    pub operator: String,
    /// By the key of the account.
    pub accounts: Vec<(String, String)>,
}

/// Where a server listens, keeps things, and what it proves itself with.
pub struct ServerPlaces<'a> {
    pub listen: &'a str,
    pub store: &'a str,
    pub resolver: &'a str,
    /// Certificate and key; none on loopback.
    pub tls: Option<(&'a str, &'a str)>,
    /// Further lines, as they are.
    pub more: &'a str,
}

impl ServerJwts {
    /// A `nats-server.conf`: operator mode, the full resolver, JetStream for CORE.
    pub fn server_config(&self, system: &str, places: &ServerPlaces<'_>) -> String {
        let tls = places.tls.map_or_else(String::new, |(certificate, key)| {
            format!("tls {{\n  cert_file: {certificate:?}\n  key_file: {key:?}\n  timeout: 10\n}}\n\n")
        });
        let accounts: String = self.accounts.iter().map(|(key, jwt)| format!("  {key}: {jwt}\n")).collect();
        format!(
            "# Made by `zester auth init`. The JWTs below are what a first start knows; later ones come by `zester auth push`\n\
             # and are kept in the directory of the resolver.\n\n\
             listen: {:?}\n{}\n\
             jetstream {{ store_dir: {:?}, max_file_store: {STORE_MAX} }}\n\n{tls}\
             operator: {}\nsystem_account: {system}\n\n\
             resolver: {{ type: full, dir: {:?}, allow_delete: false, interval: \"2m\" }}\n\
             resolver_preload: {{\n{accounts}}}\n",
            places.listen, places.more, places.store, self.operator, places.resolver,
        )
    }
}
