//! A fleet from nothing, and its changes: who is in the roster, and what the server is told.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::time::Duration;
use zester_identity::authority::{self, Fleet, PEEL_LIFE, Secrets, ServerPlaces};
use zester_identity::{KeyKind, KeyPair, Role, jwt};
use zester_rule::rule;
use zester_wire::{MemberRole, PeelId, Roster, UnixMillis};

const NOW: UnixMillis = UnixMillis(1_790_000_000_000);
const DAY: Duration = Duration::from_secs(86_400);

fn user(seed: u8) -> KeyPair {
    KeyPair::new(KeyKind::User, [seed; 32]).unwrap()
}

fn made() -> (Secrets, Fleet, Roster) {
    let mut seed = 0;
    let secrets = Secrets::new(|| {
        seed += 1;
        [seed; 32]
    });
    let secrets = secrets.unwrap();
    let mut fleet = Fleet::new(&secrets);
    let mut roster = authority::first_roster(secrets.issuer.public(), NOW).unwrap();
    for (role, name, seed) in [(Role::Master, "m1", 11), (Role::Admin, "ann", 12)] {
        fleet.member((role, name), user(seed), &secrets.core, &mut roster, (NOW, Duration::ZERO)).unwrap();
    }
    (secrets, fleet, roster)
}

#[test]
#[rule("I-1", "I-2")]
fn i1_the_server_is_told_of_accounts_that_fit_each_other() {
    let (secrets, fleet, _) = made();
    let told = fleet.server_jwts(&secrets.operator, NOW).unwrap();
    let claims = |key: &str| {
        let (_, text) = told.accounts.iter().find(|(account, _)| account == key).unwrap();
        let verified = jwt::verify(text).unwrap();
        assert_eq!(&verified.issuer, secrets.operator.public());
        Json::Object(verified.claims.nats)
    };
    let (core, peels) = (claims(&fleet.core), claims(&fleet.peels));
    let operators = claims(fleet.operators.as_deref().unwrap());
    let subjects = |claims: &Json, what: &str| -> BTreeSet<(String, String)> {
        let of = |one: &Json| (one["type"].as_str().unwrap().into(), one["subject"].as_str().unwrap().into());
        claims[what].as_array().unwrap().iter().map(of).collect()
    };
    // Whatever one uses another offers, under that name or a wider one; and what is offered somebody uses.
    let offered = [(&fleet.core, &core), (&fleet.peels, &peels)];
    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    for by in [&core, &peels, &operators] {
        for import in by["imports"].as_array().unwrap() {
            let (kind, subject) = (import["type"].as_str().unwrap(), import["subject"].as_str().unwrap());
            let from = offered.iter().find(|(key, _)| import["account"] == key.as_str()).unwrap().1;
            let found = subjects(from, "exports").into_iter().find(|(other, wide)| {
                other == kind
                    && (wide == subject
                        || wide == "zester.event.*.send.>"
                            && subject.starts_with("zester.event._admin.send."))
            });
            used.insert(found.unwrap_or_else(|| panic!("nobody offers the {kind} {subject}")));
        }
    }
    let all = subjects(&core, "exports").into_iter().chain(subjects(&peels, "exports"));
    assert_eq!(all.collect::<BTreeSet<_>>(), used);
    assert_eq!(operators["exports"], Json::Array(Vec::new()));
    // Unanswered questions are soon forgotten, but for those that take long.
    let within = |subject: &str| {
        let exports = core["exports"].as_array().unwrap();
        exports.iter().find(|one| one["subject"] == subject).unwrap()["response_threshold"].as_u64().unwrap()
    };
    assert!(within("zester.admin.*") > 900_000_000_000, "{}", within("zester.admin.*"));
    assert_eq!(within("zester.dispatch"), 60_000_000_000);
    // JetStream in one of them only.
    let stored = [&core, &peels, &operators].map(|account| account["limits"]["disk_storage"].clone());
    assert_eq!(stored, [(-1).into(), 0.into(), 0.into()] as [Json; 3]);
    // The anchor makes operators, and their rights come from the account.
    let scope = &operators["signing_keys"][0];
    assert_eq!((&scope["kind"], &scope["key"]), (&"user_scope".into(), &fleet.core.clone().into()));
    assert!(scope["template"]["sub"]["allow"].to_string().contains("_INBOX.{{name()}}.>"));
    // The issuer gives no rights of its own choosing.
    let scope = &peels["signing_keys"][0];
    assert_eq!((&scope["kind"], &scope["key"]), (&"user_scope".into(), &fleet.issuers[0].clone().into()));
    assert!(scope["template"]["pub"]["allow"].to_string().contains("zester.heartbeat.{{name()}}"));
    let places =
        ServerPlaces { listen: "a:1", store: "/s", resolver: "/r", tls: Some(("/c", "/k")), more: "" };
    let config = told.server_config(&fleet.system, &places);
    for line in ["listen: \"a:1\"", "cert_file: \"/c\"", "type: full, dir: \"/r\"", &told.operator] {
        assert!(config.contains(line), "{line}");
    }
    for secret in [&secrets.operator, &secrets.core, &secrets.issuer] {
        assert!(!config.contains(&secret.seed().unwrap()));
    }
}

#[test]
#[rule("I-13")]
fn i13_who_is_let_in_by_a_template_has_limits_by_it() {
    let (secrets, fleet, _) = made();
    let told = fleet.server_jwts(&secrets.operator, NOW).unwrap();
    let template = |account: &str| {
        let (_, text) = told.accounts.iter().find(|(key, _)| key == account).unwrap();
        let claims = Json::Object(jwt::verify(text).unwrap().claims.nats);
        assert_eq!(claims["signing_keys"].as_array().unwrap().len(), 1, "{claims}");
        claims["signing_keys"][0]["template"].clone()
    };
    for (account, subscriptions) in [(fleet.operators.as_deref().unwrap(), 1_024), (&fleet.peels, 64)] {
        let template = template(account);
        assert_eq!(template["subs"], subscriptions, "{template}");
        assert_eq!(template["payload"], 1024 * 1024, "{template}");
    }
}

#[test]
#[rule("I-15")]
fn i15_a_rotated_member_has_two_keys_and_the_old_one_ends() {
    let (secrets, mut fleet, mut roster) = made();
    let later = (NOW, DAY);
    fleet.member((Role::Master, "m1"), user(31), &secrets.core, &mut roster, later).unwrap();
    let of_master = |roster: &Roster| -> Vec<(String, Option<UnixMillis>)> {
        let of = roster.members.iter().filter(|member| member.role == MemberRole::Master);
        of.map(|member| (member.key.clone(), member.until)).collect()
    };
    let key = |seed| user(seed).public().to_string();
    assert_eq!(of_master(&roster), [(key(11), Some(NOW.plus(DAY))), (key(31), None)]);
    // Once more: the first keeps the end it was given.
    fleet.member((Role::Master, "m1"), user(32), &secrets.core, &mut roster, (NOW.plus(DAY), DAY)).unwrap();
    let ends: Vec<_> = of_master(&roster).into_iter().map(|(_, until)| until).collect();
    assert_eq!(ends, [Some(NOW.plus(DAY)), Some(NOW.plus(DAY * 2)), None]);
    let fresh = KeyPair::new(KeyKind::Account, [33; 32]).unwrap();
    fleet.rotate_issuer(fresh.public(), &mut roster, NOW.plus(DAY)).unwrap();
    let issuers =
        |roster: &Roster| roster.members.iter().filter(|member| member.role == MemberRole::Issuer).count();
    assert_eq!((issuers(&roster), fleet.issuers.len()), (2, 2));
    // One that was stolen: the others are gone for good.
    let last = KeyPair::new(KeyKind::Account, [34; 32]).unwrap();
    fleet.replace_issuer(last.public(), &mut roster, NOW).unwrap();
    assert_eq!((issuers(&roster), fleet.issuers.len(), roster.revoked.len()), (1, 1, 2));
}

#[test]
#[rule("I-5")]
fn i5_a_revoked_name_loses_every_key_it_ever_had() {
    let (secrets, mut fleet, mut roster) = made();
    let web = PeelId::parse("web-1").unwrap();
    for seed in [41, 42] {
        fleet.peel(&web, user(seed), &secrets.issuer, NOW, PEEL_LIFE).unwrap();
    }
    assert_eq!(fleet.revoke("web-1", &mut roster, NOW).unwrap(), 2);
    assert_eq!(roster.revoked.len(), 2);
    assert!(fleet.revoke("web-1", &mut roster, NOW).is_err(), "there is nothing left to revoke");
    assert!(fleet.revoke("nobody", &mut roster, NOW).is_err());
    fleet.revoke("ann", &mut roster, NOW).unwrap();
    assert!(!roster.members.iter().any(|member| member.role == MemberRole::Admin));
    let told = fleet.server_jwts(&secrets.operator, NOW).unwrap();
    let (_, peels) = told.accounts.iter().find(|(key, _)| *key == fleet.peels).unwrap();
    let revoked = jwt::verify(peels).unwrap().claims.nats["revocations"].clone();
    // Also what a clock signed that was ahead.
    assert!(revoked[user(41).public().as_str()].as_u64().unwrap() > NOW.0 / 1000);
    let next = authority::renewed(&roster, NOW);
    assert!(next.serial > roster.serial && authority::renewed(&next, NOW).serial > next.serial);
}

/// The server may keep a key out that the roster says nothing of: a master that revokes tells the server alone.
#[test]
#[rule("I-5", "I-8")]
fn i5_a_key_that_the_server_keeps_out_is_still_to_be_told_to_everybody() {
    let (secrets, mut fleet, mut roster) = made();
    let key = user(77);
    let jwts = fleet.server_jwts(&secrets.operator, NOW).unwrap();
    let claims = jwt::verify(&jwts.accounts[1].1).unwrap().claims;
    let (told, count) =
        authority::with_revoked(&claims, &[key.public().clone()], &secrets.operator, NOW).unwrap();
    assert_eq!(count, 1);
    let claims = jwt::verify(&told).unwrap().claims;
    fleet.join_revoked(&claims);
    assert!(fleet.revoke_key("web-1", key.public(), &mut roster, NOW), "nobody was told of it yet");
    assert!(roster.revoked.iter().any(|one| one.key == key.public().as_str()));
    assert!(!fleet.revoke_key("web-1", key.public(), &mut roster, NOW), "once is enough");
}

/// Whoever issued the JWT may have had a clock that was ahead.
#[test]
#[rule("I-5")]
fn i5_a_revocation_covers_what_was_issued_by_a_clock_that_is_ahead() {
    let (secrets, fleet, _) = made();
    let key = user(78);
    let jwts = fleet.server_jwts(&secrets.operator, NOW).unwrap();
    let claims = jwt::verify(&jwts.accounts[1].1).unwrap().claims;
    let told = authority::with_revoked(&claims, &[key.public().clone()], &secrets.operator, NOW).unwrap().0;
    let claims = jwt::verify(&told).unwrap().claims;
    let until = claims.nats["revocations"][key.public().as_str()].as_u64().unwrap();
    assert!(until > NOW.0 / 1000 + 300, "{until}");
}
