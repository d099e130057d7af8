//! Whose message is believed, and whose is not.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod fleet;

use fleet::{ENDS, Keys, NOW, pair, user};
use proptest::prelude::*;
use std::time::Duration;
use zester_identity::limits::{CERTIFICATE_LIFE_MAX, CLOCK_TOLERANCE};
use zester_identity::roster::BadRoster;
use zester_identity::{
    Credentials, KeyKind, Principal, Role, Seen, Speaker, Spoof, Trust, certificate, credentials, roster,
};
use zester_rule::rule;
use zester_wire::{
    Envelope, MemberRole, MessageId, Notice, PeelId, Roster, Signer, Subject, Token, UnixMillis, Unsigned,
};

const JID: &str = "2hPx2Kd8VnR7YmWqTz4PLsCfNjA";

fn seal(subject: &str, at: UnixMillis, signer: &dyn Signer) -> Envelope {
    let notice = Notice { v: 1, bucket: Token::parse("state-files").unwrap(), revision: 7 };
    Envelope::seal(subject, MessageId::parse("m-1").unwrap(), at, &notice, signer).unwrap()
}

fn trust(keys: &Keys) -> Trust {
    trust_in(keys, &keys.roster())
}

fn trust_in(keys: &Keys, roster: &Roster) -> Trust {
    Trust::new(keys.core.public().clone(), &roster::sign(roster, &keys.core).unwrap()).unwrap()
}

/// What becomes of a message on a subject.
fn judge(trust: &Trust, subject: &str, envelope: &Envelope) -> Result<Principal, Spoof> {
    judge_at(trust, subject, envelope, Seen::live(NOW))
}

fn judge_at(trust: &Trust, subject: &str, envelope: &Envelope, seen: Seen) -> Result<Principal, Spoof> {
    trust.verify(envelope, subject, &Speaker::of_subject(&Subject::parse(subject).unwrap()), seen)
}

#[test]
#[rule("I-8")]
fn i8_each_speaks_for_itself_and_nobody_for_another() {
    let keys = Keys::new();
    let trust = trust(&keys);
    let speakers: [(Role, Credentials); 4] = [
        (Role::Peel, keys.peel("web-1")),
        (Role::Peel, keys.peel("web-2")),
        (Role::Master, keys.member(Role::Master, "m1")),
        (Role::Admin, keys.member(Role::Admin, "ann")),
    ];
    for (subject, allowed) in [
        (format!("zester.job.{JID}.return.web-1"), vec!["web-1"]),
        (format!("zester.job.{JID}.ack.web-2"), vec!["web-2"]),
        (format!("zester.job.{JID}.cancel"), vec!["m1"]),
        ("zester.heartbeat.web-1".to_string(), vec!["web-1"]),
        ("zester.event.web-1.send.x".to_string(), vec!["web-1"]),
        ("zester.event._master.x".to_string(), vec!["m1"]),
        ("zester.event._admin.send.x".to_string(), vec!["ann"]),
        ("zester.cmd.web-1".to_string(), vec!["m1", "ann"]),
        ("zester.dispatch".to_string(), vec!["ann"]),
        ("zester.admin.kill".to_string(), vec!["ann"]),
        ("zester.holder.publisher.publish".to_string(), vec!["m1"]),
    ] {
        for (role, speaker) in &speakers {
            let judged = judge(&trust, &subject, &seal(&subject, NOW, speaker));
            match allowed.contains(&speaker.name.as_str()) {
                true => {
                    let who = judged.unwrap();
                    assert_eq!((who.role, who.name.as_str()), (*role, speaker.name.as_str()), "{subject}");
                    assert_eq!(who.key, speaker.pair.public().as_str());
                }
                false => assert!(matches!(judged, Err(Spoof::NotTheirs(_))), "{subject} by {}", speaker.name),
            }
        }
    }
}

#[test]
#[rule("I-8")]
fn i8_what_was_changed_moved_or_not_signed_is_not_believed() {
    let keys = Keys::new();
    let trust = trust(&keys);
    let (web, subject) = (keys.peel("web-1"), "zester.event.web-1.send.x");
    let good = seal(subject, NOW, &web);
    assert!(judge(&trust, subject, &good).is_ok());
    let refused = |envelope: &Envelope, why: Spoof| assert_eq!(judge(&trust, subject, envelope), Err(why));
    refused(&Envelope { payload: vec![0x80], ..good.clone() }, Spoof::BadSignature);
    refused(&Envelope { id: MessageId::parse("m-2").unwrap(), ..good.clone() }, Spoof::BadSignature);
    refused(&Envelope { ts: UnixMillis(NOW.0 - 1), ..good.clone() }, Spoof::BadSignature);
    refused(&Envelope { sig: Vec::new(), ..good.clone() }, Spoof::BadSignature);
    refused(&seal("zester.event.web-1.send.y", NOW, &web), Spoof::BadSignature);
    refused(&seal(subject, NOW, &Unsigned), Spoof::Unsigned);
    refused(&Envelope { cert: Vec::new(), ..good.clone() }, Spoof::UnknownKey);
    refused(&Envelope { cert: vec![0x80], ..good.clone() }, Spoof::BadCertificate);
    refused(&Envelope { key: keys.core.public().to_string(), ..good.clone() }, Spoof::UnknownKey);
    refused(&seal(subject, NOW.plus(Duration::from_secs(3600)), &web), Spoof::Ahead);
}

#[test]
#[rule("I-8", "I-4")]
fn i8_a_certificate_counts_for_its_key_and_by_an_issuer_of_the_roster_only() {
    let keys = Keys::new();
    let trust = trust(&keys);
    let (subject, web) = ("zester.heartbeat.web-1", keys.peel("web-1"));
    // Somebody else's certificate, taken from one of its messages.
    let stolen = Credentials { certificate: keys.peel("web-1").certificate, ..keys.peel("web-2") };
    assert_eq!(judge(&trust, subject, &seal(subject, NOW, &stolen)), Err(Spoof::BadCertificate));
    let id = PeelId::parse("web-1").unwrap();
    let by = |issuer: &zester_identity::KeyPair, until| Credentials {
        certificate: certificate::issue(&id, web.pair.public(), until, issuer).unwrap(),
        ..web.clone()
    };
    let judged = |speaker: &Credentials| judge(&trust, subject, &seal(subject, NOW, speaker));
    assert!(judged(&by(&keys.issuer, ENDS)).is_ok());
    assert_eq!(judged(&by(&pair(KeyKind::Account, 77), ENDS)), Err(Spoof::BadCertificate));
    assert_eq!(judged(&by(&user("m1"), ENDS)), Err(Spoof::BadCertificate), "a master's own key is no issuer");
    assert_eq!(judged(&by(&keys.issuer, UnixMillis(NOW.0 - 1))), Err(Spoof::Expired));
    // Dated back to when it counted.
    let ended = by(&keys.issuer, UnixMillis(NOW.0 - 600_000));
    let back_dated = seal(subject, UnixMillis(NOW.0 - 700_000), &ended);
    assert_eq!(judge(&trust, subject, &back_dated), Err(Spoof::Expired));
    assert_eq!(judged(&keys.peel("gone")), Err(Spoof::Revoked));
}

#[test]
#[rule("I-5")]
fn i5_a_revoked_key_is_refused_whatever_it_signed_and_whenever() {
    let keys = Keys::new();
    let trust = trust(&keys);
    let (subject, web) = ("zester.heartbeat.web-1", keys.peel("web-1"));
    let old = seal(subject, UnixMillis(NOW.0 - 1_000_000), &web);
    assert!(judge(&trust, subject, &old).is_ok());
    let mut next = keys.roster();
    next.serial += 1;
    next.revoked.push(zester_wire::Revoked {
        key: web.pair.public().to_string(),
        name: "web-1".into(),
        at: NOW,
    });
    assert_eq!(trust.take(&roster::sign(&next, &keys.core).unwrap()), Ok(true));
    assert_eq!(judge(&trust, subject, &old), Err(Spoof::Revoked));
    assert!(
        judge(&trust, "zester.heartbeat.web-2", &seal("zester.heartbeat.web-2", NOW, &keys.peel("web-2")))
            .is_ok()
    );
}

#[test]
#[rule("I-5", "I-12")]
fn i5_a_peel_whose_enrollment_was_ended_is_refused_and_nobody_else() {
    let keys = Keys::new();
    let trust = trust(&keys);
    let (web, other, ann) = (keys.peel("web-1"), keys.peel("web-2"), keys.member(Role::Admin, "ann"));
    for key in [&web, &ann] {
        assert!(trust.end(key.pair.public().as_str(), UnixMillis(0)));
    }
    let judged = |subject: &str, by: &Credentials| judge(&trust, subject, &seal(subject, NOW, by));
    assert_eq!(judged("zester.heartbeat.web-1", &web), Err(Spoof::Revoked));
    assert!(judged("zester.heartbeat.web-2", &other).is_ok());
    // A record of a master ends peels; members are the roster's.
    assert!(judged("zester.dispatch", &ann).is_ok());
    assert!(trust.is_revoked(web.pair.public().as_str()) && !trust.is_revoked(other.pair.public().as_str()));
    assert!(trust.has_member("ann") && !trust.has_member("web-1"));
}

#[test]
#[rule("I-15", "I-5")]
fn i15_what_a_replaced_key_of_a_peel_signed_counts_until_its_end_however_it_is_dated() {
    let keys = Keys::new();
    let trust = trust(&keys);
    let web = keys.peel("web-1");
    let subject = "zester.heartbeat.web-1";
    let until = NOW.plus(Duration::from_secs(300));
    assert!(trust.end(web.pair.public().as_str(), until));
    let judged =
        |at: UnixMillis, seen: Seen| judge_at(&trust, subject, &seal(subject, at, &web), seen).map(drop);
    let (soon, late) = (until.plus(CLOCK_TOLERANCE), until.plus(CLOCK_TOLERANCE * 2));
    assert_eq!(judged(NOW, Seen::live(NOW)), Ok(()));
    assert_eq!(judged(until, Seen::live(soon)), Ok(()));
    assert_eq!(judged(until.plus(Duration::from_secs(1)), Seen::live(soon)), Err(Spoof::Revoked));
    assert_eq!(judged(NOW, Seen::live(late)), Err(Spoof::Revoked), "dated back");
    assert_eq!(judged(NOW, Seen::stored(late, NOW)), Ok(()), "the stream has had it since before");
    // An operator ends it: nothing counts, and no later word brings it back.
    assert!(trust.end(web.pair.public().as_str(), UnixMillis(0)));
    assert!(trust.end(web.pair.public().as_str(), until));
    assert_eq!(judged(NOW, Seen::live(NOW)), Err(Spoof::Revoked));
}

#[test]
#[rule("I-8")]
fn i8_a_roster_is_the_anchors_and_never_an_older_one() {
    let keys = Keys::new();
    let trust = trust(&keys);
    let with_serial = |serial| Roster { serial, ..keys.roster() };
    let signed = |roster: &Roster| roster::sign(roster, &keys.core).unwrap();
    assert_eq!(trust.take(&signed(&keys.roster())), Ok(false), "the same again");
    assert_eq!(trust.take(&signed(&with_serial(9))), Err(BadRoster::Older { serial: 9, known: 10 }));
    let other = Roster { members: Vec::new(), ..keys.roster() };
    assert_eq!(trust.take(&signed(&other)), Err(BadRoster::Older { serial: 10, known: 10 }));
    for key in [&keys.peels, &keys.issuer, &keys.operator, &user("ann")] {
        assert_eq!(trust.take(&roster::sign(&with_serial(99), key).unwrap()), Err(BadRoster::NotOfAnchor));
    }
    let mut changed = signed(&with_serial(11));
    let last = changed.len() - 1;
    changed[last] ^= 1;
    assert_eq!(trust.take(&changed), Err(BadRoster::NotOfAnchor));
    for garbage in [&b""[..], b"\xc1", &[0x80], &[0xff; 100]] {
        assert!(matches!(trust.take(garbage), Err(BadRoster::Unreadable(_))));
    }
    assert_eq!(trust.serial(), 10);
    let ended = trust_in(&keys, &Roster { expires: UnixMillis(NOW.0 - 1), ..keys.roster() });
    let subject = "zester.event._master.x";
    let said = seal(subject, NOW, &keys.member(Role::Master, "m1"));
    assert_eq!(judge(&ended, subject, &said), Err(Spoof::RosterExpired));
}

#[test]
#[rule("I-15")]
fn i15_the_old_and_the_new_key_of_a_member_both_count_for_a_while() {
    let keys = Keys::new();
    let mut roster = keys.roster();
    roster.serial += 1;
    roster.members[0].until = Some(NOW);
    let mut fresh = roster.members[0].clone();
    (fresh.key, fresh.until) = (user("m1-new").public().to_string(), None);
    roster.members.push(fresh);
    let trust = trust_in(&keys, &roster);
    let subject = "zester.event._master.x";
    let said = |name: &str, at| {
        let speaker = Credentials { pair: user(name), ..keys.member(Role::Master, "m1") };
        judge(&trust, subject, &seal(subject, at, &speaker)).map(|who| who.name)
    };
    assert_eq!(said("m1", NOW), Ok("m1".into()));
    assert_eq!(said("m1-new", NOW), Ok("m1".into()));
    assert_eq!(said("m1", NOW.plus(Duration::from_secs(1))), Err(Spoof::Expired));
    assert_eq!(said("m1-new", NOW.plus(Duration::from_secs(1))), Ok("m1".into()));
    // Dated back by whoever has the old key: what comes after its end counts for nothing, what was kept before still does.
    let old = Credentials { pair: user("m1"), ..keys.member(Role::Master, "m1") };
    let back_dated = seal(subject, UnixMillis(NOW.0 - 60_000), &old);
    let later = NOW.plus(CLOCK_TOLERANCE + Duration::from_secs(1));
    let (kept, unkept) = (Seen::stored(later, NOW), Seen::live(later));
    assert_eq!(judge_at(&trust, subject, &back_dated, unkept), Err(Spoof::Expired));
    assert_eq!(judge_at(&trust, subject, &back_dated, Seen::stored(later, later)), Err(Spoof::Expired));
    assert_eq!(judge_at(&trust, subject, &back_dated, kept).map(|who| who.name), Ok("m1".into()));
    // The issuer of a peel is replaced: what it vouched for before goes on.
    let mut roster = keys.roster();
    let issuer = roster.members.iter_mut().find(|member| member.role == MemberRole::Issuer).unwrap();
    issuer.until = Some(NOW);
    let trust = trust_in(&keys, &roster);
    let subject = "zester.heartbeat.web-1";
    let after = NOW.plus(Duration::from_secs(60));
    assert!(judge(&trust, subject, &seal(subject, after, &keys.peel("web-1"))).is_ok());
    // But not for ever: no certificate that it signed may count for longer than one can.
    let last = NOW.plus(CERTIFICATE_LIFE_MAX);
    let at =
        |moment| judge_at(&trust, subject, &seal(subject, moment, &keys.peel("web-1")), Seen::live(moment));
    assert!(at(last).is_ok());
    assert_eq!(at(last.plus(Duration::from_secs(1))), Err(Spoof::Expired));
}

#[test]
#[rule("I-1")]
fn i1_a_credentials_file_comes_back_as_it_was_written() {
    let keys = Keys::new();
    for credentials in [keys.peel("web-1"), keys.member(Role::Admin, "ann")] {
        let text = credentials.to_text().unwrap();
        let read = Credentials::parse(&text).unwrap().unwrap();
        assert_eq!(read.to_text().unwrap(), text);
        assert_eq!((&read.name, &read.certificate), (&credentials.name, &credentials.certificate));
        // What is missing or does not fit together is said.
        assert!(Credentials::parse(&text.replace("BEGIN ZESTER ROSTER", "BEGIN ZESTER X")).is_err());
        let other = user("other").seed().unwrap();
        let mixed = text.replace(&credentials.pair.seed().unwrap(), &other);
        assert!(Credentials::parse(&mixed).unwrap_err().to_string().contains("another key"));
        let plain = text.split("-----BEGIN ZESTER ANCHOR").next().unwrap();
        assert!(Credentials::parse(plain).unwrap().is_none(), "credentials of plain NATS");
        // A fleet's file that lost its anchor is damaged, not one of plain NATS.
        let cut = format!(
            "{plain}-----BEGIN ZESTER ROSTER{}",
            text.split("-----BEGIN ZESTER ROSTER").nth(1).unwrap()
        );
        for cut in [cut, text.replace("END ZESTER ANCHOR", "END"), format!("{plain}-----BEGIN ZESTER ANCH")] {
            let words = Credentials::parse(&cut).unwrap_err().to_string();
            assert!(words.contains("ZESTER ANCHOR is missing"), "{words}");
        }
        // Without the seed, and with it put back.
        let Credentials { jwt, anchor, roster, certificate, .. } = &credentials;
        let without = credentials::text_without_seed(jwt, anchor, roster, certificate);
        let seed = credentials.pair.seed().unwrap();
        assert!(!credentials::has_seed(&without) && !without.contains(&seed));
        assert!(Credentials::parse(&without).is_err());
        assert_eq!(credentials::with_seed(&without, &seed), text);
        assert!(!format!("{credentials:?}").contains(&credentials.pair.seed().unwrap()));
    }
}

proptest! {
    /// Whatever a stranger sends is refused, and nobody falls over it.
    #[test]
    fn hostile_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300), text in "\\PC{0,300}") {
        let keys = Keys::new();
        let trust = trust(&keys);
        prop_assert!(roster::read(&bytes, keys.core.public()).is_err());
        prop_assert!(trust.take(&bytes).is_err());
        prop_assert!(matches!(Credentials::parse(&text), Ok(None) | Err(_)));
        let good = seal("zester.heartbeat.web-1", NOW, &keys.peel("web-1"));
        let judged = |envelope: Envelope| judge(&trust, "zester.heartbeat.web-1", &envelope);
        let changed = [
            Envelope { cert: bytes.clone(), ..good.clone() },
            Envelope { key: text.clone(), ..good.clone() },
            Envelope { sig: bytes, ..good.clone() },
        ];
        for envelope in changed {
            prop_assert!(judged(envelope).is_err());
        }
        let framed = format!("-----BEGIN ZESTER ANCHOR-----\n{text}\n------END ZESTER ANCHOR------\n");
        prop_assert!(Credentials::parse(&framed).is_err());
    }
}
