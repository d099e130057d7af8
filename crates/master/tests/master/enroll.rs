//! Who may be a peel: decisions of operators and of rules, on a memory bus.

use crate::fleet::{Fleet, LONG, eventually, peel};
use crate::reactor::{decided, event, publish, reacting, ready, send};
use serde_json::json;
use std::time::Duration;
use zester_identity::enrollment::id_of;
use zester_identity::join_token;
use zester_link::Link;
use zester_reactor::Guards;
use zester_rule::rule;
use zester_wire::*;

/// One that waits for somebody's word.
pub fn pending(name: &str) -> Enrollment {
    let (peel, key) = (peel(name), format!("KEY-OF-{name}"));
    Enrollment {
        v: 1,
        id: id_of(&peel, &key).unwrap(),
        peel,
        key,
        status: EnrollmentStatus::Pending,
        address: "10.1.2.3".into(),
        requested: UnixMillis(1_790_000_000_000),
        changed: UnixMillis(1_790_000_000_000),
        by: String::new(),
        reason: String::new(),
        token: None,
        until: None,
        former: Vec::new(),
        serial: 0,
        rest: Default::default(),
    }
}

async fn keep(link: &Link, record: &Enrollment) {
    link.put(&Key::Enrollment(record.peel.clone()), record).await.unwrap();
}

async fn kept(link: &Link, name: &str) -> Enrollment {
    link.get_latest(&Key::Enrollment(peel(name))).await.unwrap().unwrap().value
}

async fn order(link: &Link, order: EnrollOrder) -> AdminReply {
    let subject = Subject::Admin { verb: Token::parse("enroll").unwrap() };
    let request = AdminRequest::Enroll { order, user: "ann".into() };
    link.request(&subject, &request, LONG).await.unwrap()
}

fn decision(record: &Enrollment, decision: EnrollDecision) -> EnrollOrder {
    EnrollOrder::Decide { id: record.id.clone(), decision, reason: "because".into() }
}

/// Under the identity of a master.
async fn told(fleet: &Fleet, id: &str, record: &str) {
    let event = event(id, &format!("enroll/pending/{record}"), json!({"id": record}));
    let subject = Subject::Event(EventSubject::Master { tag: event.tag.clone() });
    let id = fleet.link.new_message_id().unwrap();
    fleet.link.publish_stored(&subject, &id, &event).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[rule("I-4")]
async fn i4_operators_decide_once_and_about_the_record_that_they_saw() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let record = pending("web-1");
    keep(&fleet.link, &record).await;
    let refusal = order(&fleet.link, decision(&record, EnrollDecision::Revoke)).await.error.unwrap();
    assert!(refusal.message.contains("reject it"), "{refusal}");
    let reply = order(&fleet.link, decision(&record, EnrollDecision::Approve)).await;
    assert!(reply.error.is_none() && reply.message.starts_with("web-1 is approved"), "{reply:?}");
    let now = kept(&fleet.link, "web-1").await;
    assert_eq!(
        (now.status, now.by.as_str(), now.reason.as_str()),
        (EnrollmentStatus::Approved, "ann", "because")
    );
    let again = order(&fleet.link, decision(&record, EnrollDecision::Approve)).await.error.unwrap();
    assert_eq!(again.kind, RefusalKind::AlreadyOver);
    // Another key has the name by now: a decision about the one before is about nobody.
    let other =
        Enrollment { id: id_of(&peel("web-1"), "OTHER").unwrap(), key: "OTHER".into(), ..pending("web-1") };
    keep(&fleet.link, &other).await;
    let gone = order(&fleet.link, decision(&record, EnrollDecision::Reject)).await.error.unwrap();
    assert!(gone.kind == RefusalKind::Invalid && gone.message.contains("another key"), "{gone}");
    assert_eq!(kept(&fleet.link, "web-1").await, other);
    let nobody = EnrollOrder::Decide {
        id: Token::parse("nonsense").unwrap(),
        decision: EnrollDecision::Approve,
        reason: String::new(),
    };
    assert_eq!(order(&fleet.link, nobody).await.error.unwrap().kind, RefusalKind::Invalid);
}

#[tokio::test(start_paused = true)]
#[rule("I-4", "R-7")]
async fn i4_of_many_decisions_at_once_one_counts_and_the_others_are_told() {
    let fleet = Fleet::new().await;
    let (_first, _second) = (fleet.master("m1").await, fleet.master("m2").await);
    let record = pending("web-1");
    keep(&fleet.link, &record).await;
    let orders = (0..8).map(|number| {
        let what = if number % 2 == 0 { EnrollDecision::Approve } else { EnrollDecision::Reject };
        order(&fleet.link, decision(&record, what))
    });
    let replies = futures_util::future::join_all(orders).await;
    let granted = replies.iter().filter(|reply| reply.error.is_none()).count();
    assert_eq!(granted, 1, "{replies:?}");
    for refusal in replies.into_iter().filter_map(|reply| reply.error) {
        // A repetition, a race to be tried again, or too late for the other decision: never a second yes.
        let kinds = [RefusalKind::AlreadyOver, RefusalKind::Unavailable, RefusalKind::Invalid];
        assert!(kinds.contains(&refusal.kind), "{refusal:?}");
    }
}

#[tokio::test(start_paused = true)]
#[rule("I-4")]
async fn i4_join_tokens_are_kept_by_their_digest_and_can_be_taken_back() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let digest = join_token::digest("word").to_vec();
    let id = join_token::id_of(&digest).unwrap();
    let life = Duration::from_secs(60);
    let new =
        NewToken { digest, names: "web-*".into(), address: None, life, label: String::new(), hold: false };
    assert_eq!(order(&fleet.link, EnrollOrder::Token(new.clone())).await.error, None);
    let key = Key::JoinToken(id.clone());
    let token: JoinToken = fleet.link.get_latest(&key).await.unwrap().unwrap().value;
    assert_eq!((token.by.as_str(), token.used), ("ann", None));
    for bad in [
        NewToken { names: "web-[".into(), ..new.clone() },
        NewToken { life: Duration::from_secs(86_400 * 400), ..new.clone() },
    ] {
        assert_eq!(
            order(&fleet.link, EnrollOrder::Token(bad)).await.error.unwrap().kind,
            RefusalKind::Invalid
        );
    }
    assert_eq!(order(&fleet.link, EnrollOrder::DropToken { id: id.clone() }).await.error, None);
    assert!(fleet.link.get_latest::<JoinToken>(&key).await.unwrap().is_none());
    assert!(order(&fleet.link, EnrollOrder::DropToken { id }).await.error.is_some());
}

#[tokio::test(start_paused = true)]
#[rule("R-7")]
async fn r7_a_rule_decides_for_masters_about_what_it_requires_and_once() {
    let mut fleet = Fleet::new().await;
    fleet.reacting = reacting(Guards::default());
    let top = json!([{"*/enroll/pending/*": ["reactor.enroll"]}]);
    let rule = json!({"in": {"enroll.approve": {
        "id": "{{ event.data.id }}", "require_peel": "web-*", "require_token": "fleet", "require_ip": "10.1.0.0/16",
    }}});
    publish(&fleet, &[("top.zy", top), ("enroll.zy", rule)]).await;
    let _master = ready(&fleet, "m1").await;
    let brought = Some(TokenName { id: Token::parse("0a").unwrap(), label: "fleet".into() });
    let web = Enrollment { token: brought.clone(), ..pending("web-1") };
    let bare = pending("web-2");
    let far = Enrollment { token: brought.clone(), address: "192.0.2.1".into(), ..pending("web-3") };
    let db = Enrollment { token: brought, ..pending("db-1") };
    for record in [&web, &bare, &far, &db] {
        keep(&fleet.link, record).await;
    }
    // What a peel says about it is nothing.
    send(
        &fleet.link,
        "web-9",
        &event("p1", &format!("enroll/pending/{}", web.id), json!({"id": web.id.as_str()})),
    )
    .await;
    assert!(decided(&fleet, "p1", "refused").await.reason.contains("only to events of `_master`"));
    assert_eq!(kept(&fleet.link, "web-1").await, web);
    for (id, record, why) in [
        ("e1", bare.id.as_str(), "brought no join token"),
        ("e2", far.id.as_str(), "came from 192.0.2.1"),
        ("e3", db.id.as_str(), "is not `web-*`"),
        ("e4", "0123456789abcdef-nobody", "there is no enrollment"),
    ] {
        told(&fleet, id, record).await;
        let entry = decided(&fleet, id, "refused").await;
        assert!(entry.reason.contains(why), "{}", entry.reason);
    }
    told(&fleet, "e5", web.id.as_str()).await;
    assert_eq!(decided(&fleet, "e5", "enrolled").await.rule, "reactor.enroll");
    let now = kept(&fleet.link, "web-1").await;
    assert_eq!((now.status, now.by.as_str()), (EnrollmentStatus::Approved, "reactor"));
    told(&fleet, "e6", web.id.as_str()).await;
    decided(&fleet, "e6", "duplicate").await;
    eventually("nothing else was changed", async || {
        let others = [
            kept(&fleet.link, "web-2").await,
            kept(&fleet.link, "web-3").await,
            kept(&fleet.link, "db-1").await,
        ];
        others.iter().all(|record| record.status == EnrollmentStatus::Pending).then_some(())
    })
    .await;
}
