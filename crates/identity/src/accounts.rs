//! The claims of the operator, of the accounts and of users, all made of the table of grants (I-1, I-2).

use crate::grants::{self, Account, Act, Crossing};
use crate::jwt::{Claims, nats_claims};
use crate::key::PublicKey;
use crate::limits::{
    ANSWER_MAX, OPERATOR_QUESTION_MAX, OPERATOR_SUBSCRIPTIONS_MAX, PEEL_PAYLOAD_MAX, PEEL_SUBSCRIPTIONS_MAX,
    QUESTION_MAX,
};
use crate::speaker::Role;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The operator: who vouches for accounts.
pub fn operator(
    name: &str,
    key: &PublicKey,
    system: &PublicKey,
    signing_keys: &[PublicKey],
    issued: u64,
) -> Claims {
    let mut more = json!({ "system_account": system.as_str() });
    if let Json::Object(more) = &mut more
        && !signing_keys.is_empty()
    {
        let keys: Vec<&str> = signing_keys.iter().map(PublicKey::as_str).collect();
        more.insert("signing_keys".into(), json!(keys));
    }
    let nats = nats_claims("operator", more);
    Claims { subject: key.clone(), name: name.into(), issued, expires: None, nats }
}

/// What operators ask of masters that may take its time: a tree is published.
const VERBS: &str = "zester.admin.*";

/// Where the claims of a user name its account, when another key issued it.
const ISSUER_ACCOUNT: &str = "issuer_account";

/// The keys of the accounts, which name each other.
#[derive(Clone, Debug)]
pub struct AccountKeys {
    pub core: PublicKey,
    pub peels: PublicKey,
    pub operators: PublicKey,
    pub system: PublicKey,
}

/// The account of masters and admins: it has JetStream, offers what peels and operators need and uses the commands of peels.
pub fn core(keys: &AccountKeys, revoked: &Revocations, issued: u64) -> Claims {
    let exports = [
        services(Crossing::ServiceOfCore, |subject| match subject == VERBS {
            true => OPERATOR_QUESTION_MAX,
            false => QUESTION_MAX,
        }),
        streams(Crossing::StreamOfCore),
    ];
    let more = json!({
        "limits": limits(true), "exports": exports.concat(), "imports": imports(Account::Core, keys),
        "revocations": revoked.claims(), "default_permissions": {},
    });
    account("CORE", &keys.core, issued, more)
}

/// The account of peels: no JetStream, and nothing but what crosses by the table. Its signing key can issue users of the role
/// `peel` and no others: their rights come from its template, by their name.
pub fn peels(keys: &AccountKeys, issuers: &[PublicKey], revoked: &Revocations, issued: u64) -> Claims {
    let exports = [services(Crossing::ServiceOfPeels, |_| ANSWER_MAX), streams(Crossing::StreamOfPeels)];
    let scopes: Vec<Json> = issuers.iter().map(|issuer| scope(issuer, Role::Peel)).collect();
    let more = json!({
        "limits": limits(false), "exports": exports.concat(), "imports": imports(Account::Peels, keys),
        "signing_keys": scopes, "revocations": revoked.claims(), "default_permissions": {},
    });
    account("PEELS", &keys.peels, issued, more)
}

/// The account of operators with roles: no JetStream either. The anchor signs its users, as it does those of CORE, and what they may
/// do comes from the template here: by their name, and as the table has it when the server was last told.
pub fn operators(keys: &AccountKeys, revoked: &Revocations, issued: u64) -> Claims {
    let more = json!({
        "limits": limits(false), "exports": [], "imports": imports(Account::Operators, keys),
        "signing_keys": [scope(&keys.core, Role::Operator)], "revocations": revoked.claims(), "default_permissions": {},
    });
    account("OPERATORS", &keys.operators, issued, more)
}

/// A key that issues users of one role, and what these may do.
fn scope(issuer: &PublicKey, role: Role) -> Json {
    json!({
        "kind": "user_scope", "key": issuer.as_str(), "role": role.to_string(),
        "template": permissions(role, grants::TEMPLATE_NAME),
    })
}

/// The account of the server itself.
pub fn system(keys: &AccountKeys, revoked: &Revocations, issued: u64) -> Claims {
    let more = json!({
        "limits": limits(false), "revocations": revoked.claims(), "default_permissions": {},
    });
    account("SYS", &keys.system, issued, more)
}

fn account(name: &str, key: &PublicKey, issued: u64, more: Json) -> Claims {
    Claims {
        subject: key.clone(),
        name: name.into(),
        issued,
        expires: None,
        nats: nats_claims("account", more),
    }
}

/// A master or an admin.
pub fn member(role: Role, name: &str, key: &PublicKey, issued: u64) -> Claims {
    let nats = nats_claims("user", permissions(role, name));
    Claims { subject: key.clone(), name: name.into(), issued, expires: None, nats }
}

/// A peel, by the scoped signing key: it has what the template gives it, and may say nothing of its own rights.
pub fn peel(name: &str, key: &PublicKey, account: &PublicKey, issued: u64, expires: u64) -> Claims {
    Claims { expires: Some(expires), ..scoped(name, key, account, issued) }
}

/// An operator with roles, by the anchor as a scoped signing key of the account of operators.
pub fn operator_user(name: &str, key: &PublicKey, account: &PublicKey, issued: u64) -> Claims {
    scoped(name, key, account, issued)
}

fn scoped(name: &str, key: &PublicKey, account: &PublicKey, issued: u64) -> Claims {
    let nats = nats_claims("user", json!({ ISSUER_ACCOUNT: account.as_str() }));
    Claims { subject: key.clone(), name: name.into(), issued, expires: None, nats }
}

/// Whether a user lives in an account that has no JetStream: its rights come from a template there.
pub fn is_scoped(user: &Claims) -> bool {
    user.nats.contains_key(ISSUER_ACCOUNT)
}

/// Who tells the server of new accounts.
pub fn system_user(key: &PublicKey, issued: u64) -> Claims {
    let unlimited = json!({ "pub": {}, "sub": {}, "subs": -1, "data": -1, "payload": -1 });
    let nats = nats_claims("user", unlimited);
    Claims { subject: key.clone(), name: "sys".into(), issued, expires: None, nats }
}

/// What a role may do, as the server wants to hear it.
fn permissions(role: Role, name: &str) -> Json {
    let (payload, subscriptions) = match role {
        Role::Peel => (PEEL_PAYLOAD_MAX, PEEL_SUBSCRIPTIONS_MAX),
        Role::Operator => (PEEL_PAYLOAD_MAX, OPERATOR_SUBSCRIPTIONS_MAX),
        Role::Master | Role::Admin => (-1, -1),
    };
    let mut all = json!({
        "pub": { "allow": grants::subjects(role, Act::Publish, name) },
        "sub": { "allow": grants::subjects(role, Act::Subscribe, name) },
        "subs": subscriptions, "data": -1, "payload": payload,
    });
    // Who is asked may answer there and then, once, wherever the question came from.
    if matches!(role, Role::Peel | Role::Master)
        && let Json::Object(all) = &mut all
    {
        all.insert("resp".into(), json!({ "max": 1, "ttl": nanos(ANSWER_MAX) }));
    }
    all
}

/// As the server counts.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn services(crossing: Crossing, answered_within: impl Fn(&str) -> Duration) -> Vec<Json> {
    let one = |subject: String| {
        json!({
            "name": subject, "subject": subject, "type": "service", "response_type": "Singleton",
            "response_threshold": nanos(answered_within(&subject)),
        })
    };
    grants::offered(crossing).into_iter().map(one).collect()
}

fn streams(crossing: Crossing) -> Vec<Json> {
    let one = |subject: String| json!({ "name": subject, "subject": subject, "type": "stream" });
    grants::offered(crossing).into_iter().map(one).collect()
}

/// Everything that an account uses of others.
fn imports(by: Account, keys: &AccountKeys) -> Vec<Json> {
    let ways = [
        (Crossing::ServiceOfCore, &keys.core, "service"),
        (Crossing::StreamOfCore, &keys.core, "stream"),
        (Crossing::ServiceOfPeels, &keys.peels, "service"),
        (Crossing::StreamOfPeels, &keys.peels, "stream"),
    ];
    let of = |(crossing, from, kind): (Crossing, &PublicKey, &str)| {
        let one = |subject: String| json!({ "name": subject, "subject": subject, "account": from.as_str(), "type": kind });
        grants::used(by, crossing).into_iter().map(one).collect::<Vec<Json>>()
    };
    ways.into_iter().flat_map(of).collect()
}

fn limits(jetstream: bool) -> Json {
    let stored = if jetstream { -1 } else { 0 };
    json!({
        "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1, "leaf": -1,
        "mem_storage": stored, "disk_storage": stored, "streams": stored, "consumer": stored,
    })
}

/// Users of an account that may not connect any more, each with the second until which JWTs of that key are void.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revocations(BTreeMap<String, u64>);

impl Revocations {
    /// Those that an account's claims list.
    pub fn of(claims: &Claims) -> Revocations {
        let listed = claims.nats.get("revocations").and_then(Json::as_object);
        let one = |(key, at): (&String, &Json)| Some((key.clone(), at.as_u64()?));
        Revocations(listed.into_iter().flatten().filter_map(one).collect())
    }

    pub fn add(&mut self, key: &PublicKey, at: u64) {
        self.0.insert(key.to_string(), at);
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub fn entries(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(key, at)| (key.as_str(), *at))
    }

    pub fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    /// As claims list them.
    pub(crate) fn claims(&self) -> Map<String, Json> {
        self.0.iter().map(|(key, at)| (key.clone(), Json::from(*at))).collect()
    }
}
