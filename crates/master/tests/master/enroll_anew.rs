//! What is left of enrollments whose master was revoked, and what a master knows of them when it begins.

use crate::enroll::pending;
use crate::fleet::{Fleet, LONG, Losing, eventually, peel};
use crate::signed::{Members, joined};
use std::time::Duration;
use zester_identity::enrollment::id_of;
use zester_identity::{KeyKind, KeyPair, Role};
use zester_jobs::Timing;
use zester_link::Link;
use zester_rule::rule;
use zester_wire::*;

const DAY: Duration = Duration::from_secs(86_400);

/// A peel that the issuer vouches for: its key, and its way to the bus.
fn vouched(fleet: &Fleet, members: &mut Members, name: &str, seed: u8) -> (String, Link) {
    let pair = KeyPair::new(KeyKind::User, [seed; 32]).unwrap();
    let key = pair.public().to_string();
    let of = members.fleet.peel(&peel(name), pair, &members.secrets.issuer, members.now, DAY).unwrap();
    (key, joined(fleet, name, members.credentials(of)))
}

fn enrolled(name: &str, key: &str, status: EnrollmentStatus) -> Enrollment {
    let id = id_of(&peel(name), key).unwrap();
    Enrollment { id, key: key.into(), status, ..pending(name) }
}

async fn say_here(link: &Link, name: &str) {
    let here = PeelHeartbeat::new(peel(name), link.new_token().unwrap(), 1, link.now());
    link.put(&Key::Peel(peel(name)), &here).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[rule("I-12", "I-5", "I-4")]
async fn i12_enrollments_of_a_revoked_master_are_signed_anew_and_let_nobody_in_by_its_word() {
    let fleet = Fleet::new().await;
    let mut members = Members::new();
    let (stolen, alive) = (members.join(Role::Master, "m1", 11), members.join(Role::Master, "m2", 12));
    let ann = members.join(Role::Admin, "ann", 14);
    let stolen = joined(&fleet, "m1", members.credentials(stolen));
    let (ended, _) = vouched(&fleet, &mut members, "web-1", 21);
    let (known, here) = vouched(&fleet, &mut members, "web-2", 22);
    let (forged, _) = vouched(&fleet, &mut members, "web-3", 23);
    say_here(&here, "web-2").await;
    let brought = Some(TokenName { id: Token::parse("0a").unwrap(), label: "fleet".into() });
    for record in [
        enrolled("web-1", &ended, EnrollmentStatus::Revoked),
        enrolled("web-2", &known, EnrollmentStatus::Active),
        Enrollment { token: brought, ..enrolled("web-3", &forged, EnrollmentStatus::Approved) },
    ] {
        stolen.put(&Key::Enrollment(record.peel.clone()), &record).await.unwrap();
    }
    // And one that no member ever signed.
    let (bucket, nobody) = (Bucket::Enrollments.as_str(), Key::Enrollment(peel("web-4")).to_string());
    let lifted = stolen.bus().get(bucket, &Key::Enrollment(peel("web-1")).to_string()).await.unwrap();
    stolen.bus().put(bucket, &nobody, lifted.unwrap().value).await.unwrap();
    members.fleet.revoke("m1", &mut members.roster, members.now).unwrap();
    let ann = joined(&fleet, "ann", members.credentials(ann));
    let alive = joined(&fleet, "m2", members.credentials(alive));
    let master = fleet.start_with("m2", alive, Timing::default());
    let status = async |name: &str| {
        let found = ann.get_latest::<Enrollment>(&Key::Enrollment(peel(name))).await.ok()??;
        Some((found.value.status, found.value.key, found.value.token.is_some()))
    };
    for (name, expected) in [
        ("web-1", (EnrollmentStatus::Revoked, ended.clone(), false)),
        ("web-2", (EnrollmentStatus::Active, known.clone(), false)),
        ("web-3", (EnrollmentStatus::Pending, forged, false)),
    ] {
        assert_eq!(eventually(name, async || status(name).await).await, expected, "{name}");
    }
    eventually("what nobody signed is gone", async || {
        ann.bus().get(bucket, &nobody).await.ok()?.is_none().then_some(())
    })
    .await;
    let trust = master.link.trust().unwrap().clone();
    assert!(trust.is_revoked(&ended) && !trust.is_revoked(&known));
    // Operators decide about them again.
    let id = id_of(&peel("web-2"), &known).unwrap();
    let order = EnrollOrder::Decide { id, decision: EnrollDecision::Revoke, reason: String::new() };
    let request = AdminRequest::Enroll { order, user: "ann".into() };
    let subject = Subject::Admin { verb: Token::parse("enroll").unwrap() };
    eventually("the master takes decisions", async || {
        let reply: AdminReply = ann.request(&subject, &request, LONG).await.ok()?;
        reply.error.is_none().then_some(())
    })
    .await;
    assert_eq!(status("web-2").await.unwrap().0, EnrollmentStatus::Revoked);
    master.stop().await;
}

#[tokio::test(start_paused = true)]
#[rule("I-12", "I-4")]
async fn i12_an_enrollment_of_an_older_release_counts_and_operators_write_over_one_that_was_put_back() {
    let fleet = Fleet::new().await;
    let mut members = Members::new();
    let (before, now) = (members.join(Role::Master, "m1", 11), members.join(Role::Master, "m2", 12));
    let ann = members.join(Role::Admin, "ann", 14);
    let before = joined(&fleet, "m1", members.credentials(before));
    let ann = joined(&fleet, "ann", members.credentials(ann));
    let now = joined(&fleet, "m2", members.credentials(now));
    let master = fleet.start_with("m2", now, Timing::default());
    let (own, _) = vouched(&fleet, &mut members, "web-1", 21);
    let (bucket, key) = (Bucket::Enrollments.as_str(), Key::Enrollment(peel("web-1")));
    let kept = async || ann.get_latest::<Enrollment>(&key).await.unwrap().unwrap().value;
    let decide = async |decision: EnrollDecision| {
        let order =
            EnrollOrder::Decide { id: id_of(&peel("web-1"), &own).unwrap(), decision, reason: String::new() };
        let request = AdminRequest::Enroll { order, user: "ann".into() };
        let subject = Subject::Admin { verb: Token::parse("enroll").unwrap() };
        eventually("the master takes the decision", async || {
            let reply: AdminReply = ann.request(&subject, &request, LONG).await.ok()?;
            reply.error.is_none().then_some(())
        })
        .await;
    };
    // The clock of whoever wrote it ran ahead.
    let ahead = members.now.plus(DAY).0;
    let active = Enrollment { serial: ahead, ..enrolled("web-1", &own, EnrollmentStatus::Active) };
    before.put(&key, &active).await.unwrap();
    let old = before.bus().get(bucket, &key.to_string()).await.unwrap().unwrap().value;
    assert!(master.link.get_latest::<Enrollment>(&key).await.unwrap().is_some());
    let requested = members.now;
    let begun = Enrollment { requested, ..enrolled("web-1", &own, EnrollmentStatus::Pending) };
    before.put(&key, &begun).await.unwrap();
    decide(EnrollDecision::Approve).await;
    let approved = kept().await;
    assert_eq!(approved.status, EnrollmentStatus::Approved);
    assert!(approved.serial > ahead, "{}", approved.serial);
    before.bus().put(bucket, &key.to_string(), old).await.unwrap();
    assert!(matches!(
        master.link.get_latest::<Enrollment>(&key).await,
        Err(zester_link::Error::Older { .. })
    ));
    decide(EnrollDecision::Revoke).await;
    let revoked = kept().await;
    assert_eq!(revoked.status, EnrollmentStatus::Revoked);
    assert!(revoked.serial > approved.serial, "{}", revoked.serial);
    master.stop().await;
}

#[tokio::test(start_paused = true)]
#[rule("I-5", "I-8")]
async fn i5_a_master_that_begins_believes_nobody_before_it_knows_who_was_revoked() {
    let fleet = Fleet::new().await;
    let mut members = Members::new();
    let (first, second) = (members.join(Role::Master, "m1", 11), members.join(Role::Master, "m2", 12));
    let ann = members.join(Role::Admin, "ann", 14);
    let first = joined(&fleet, "m1", members.credentials(first));
    let (key, revoked) = vouched(&fleet, &mut members, "web-1", 21);
    let (_, good) = vouched(&fleet, &mut members, "web-2", 22);
    let ann = joined(&fleet, "ann", members.credentials(ann));
    for (link, name) in [(&revoked, "web-1"), (&good, "web-2")] {
        let facts = FactsRecord {
            v: 1,
            peel: peel(name),
            ts: link.now(),
            hash: "x".into(),
            facts: serde_json::Map::new(),
        };
        link.put(&Key::Facts(peel(name)), &facts).await.unwrap();
    }
    let record = enrolled("web-1", &key, EnrollmentStatus::Revoked);
    first.put(&Key::Enrollment(record.peel.clone()), &record).await.unwrap();
    // The bucket that says so is there, and cannot be read for a while.
    let mut asked = 0;
    fleet.net.set_faults(Losing::new(usize::MAX, move |leg| {
        let is_of_bucket = leg.from == "m2" && leg.to.is_empty() && leg.subject.contains("enrollments");
        asked += usize::from(is_of_bucket);
        is_of_bucket && asked > 1
    }));
    let second = joined(&fleet, "m2", members.credentials(second));
    let master = fleet.start_with("m2", second, Timing::default());
    let known = async || {
        let question = ResolveRequest::of("*");
        let reply: Result<ResolveReply, _> =
            ann.request(&Subject::TargetResolve, &question, Duration::from_secs(5)).await;
        reply.ok().filter(|reply| reply.error.is_none()).map(|reply| reply.peels)
    };
    let too_soon = tokio::time::timeout(Duration::from_secs(120), async {
        eventually("the master answers", known).await
    });
    assert!(too_soon.await.is_err(), "it works, and cannot know who was revoked");
    fleet.net.set_faults(Losing::new(0, |_| false));
    let peels =
        eventually("the master knows its peels", async || known().await.filter(|peels| !peels.is_empty()))
            .await;
    assert_eq!(peels, [peel("web-2")]);
    master.stop().await;
}
