//! What a link lets through, what it drops, and that records come back as they were.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::{Bus, Listen, storage};
use zester_link::{Link, Reason};
use zester_rule::rule;
use zester_wire::*;

async fn link() -> Link {
    let net = Net::new(Arc::new(TokioClock::new()));
    let bus: Arc<dyn Bus> = Arc::new(net.connect("one"));
    storage::ensure_all(bus.as_ref(), &storage::table(), 1).await.unwrap();
    Link::new(bus)
}

fn peel(name: &str) -> PeelId {
    PeelId::parse(name).unwrap()
}

fn ack(jid: &Jid, name: &str) -> Ack {
    Ack { v: 1, jid: jid.clone(), peel: peel(name), dispatch_epoch: 1, ts: UnixMillis(5), ahead: 0 }
}

#[tokio::test(start_paused = true)]
#[rule("I-8")]
async fn i8_a_message_comes_as_it_was_sent() {
    let link = link().await;
    let jid = link.new_jid();
    let subject = Subject::JobAck { jid: jid.clone(), peel: peel("web-1") };
    let mut heard = link.bus().subscribe(subject::ALL_ACKS, Listen::alone(8)).await.unwrap();
    link.publish(&subject, &ack(&jid, "web-1")).await.unwrap();
    let raw = link.delivered(heard.next().await.unwrap()).unwrap();
    let opened = link.open_addressed::<Ack>(&link.subject_of(&raw).unwrap(), &raw.payload).unwrap();
    assert_eq!(opened.message, ack(&jid, "web-1"));
    assert_eq!(link.dropped().total(), 0);
}

#[tokio::test(start_paused = true)]
#[rule("I-8")]
async fn i8_a_payload_that_disagrees_with_its_subject_is_dropped_and_counted() {
    let link = link().await;
    let jid = link.new_jid();
    let subject = Subject::JobAck { jid: jid.clone(), peel: peel("web-1") };
    let id = link.new_message_id().unwrap();
    let forged = link.seal(&subject.to_string(), id, &ack(&jid, "db-1")).unwrap();
    assert!(link.open_addressed::<Ack>(&subject, &forged).is_none());
    assert_eq!(link.dropped().of(Reason::Mismatched), 1);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_counted_by_reason() {
    let link = link().await;
    let subject = Subject::Dispatch.to_string();
    for garbage in [&b""[..], b"\xc1", b"hello", &[0x80], &[0xde, 0xff, 0xff]] {
        assert!(link.open::<DispatchRequest>(&subject, garbage).is_none());
    }
    assert_eq!(link.dropped().of(Reason::Malformed), 5);
    assert!(link.open::<DispatchRequest>(&subject, &vec![0; 9 * 1024 * 1024][..]).is_none());
    assert_eq!(link.dropped().of(Reason::TooLarge), 1);
}

#[tokio::test(start_paused = true)]
async fn records_come_back_and_conflicts_are_known() {
    let link = link().await;
    let key = Key::Peel(peel("web-1"));
    let beat = PeelHeartbeat::new(peel("web-1"), link.new_token().unwrap(), 1, UnixMillis(1));
    assert!(link.get::<PeelHeartbeat>(&key).await.unwrap().is_none());
    let first = link.create(&key, &beat).await.unwrap();
    assert!(link.create(&key, &beat).await.unwrap_err().is_conflict());
    assert!(link.update(&key, &beat, first + 7).await.unwrap_err().is_conflict());
    link.update(&key, &beat, first).await.unwrap();
    assert_eq!(link.get::<PeelHeartbeat>(&key).await.unwrap().unwrap().value, beat);
    link.purge(&key).await.unwrap();
    assert!(link.get::<PeelHeartbeat>(&key).await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_question_gets_its_answer() {
    let link = link().await;
    let subject = Subject::TargetResolve;
    let mut asked = link.bus().subscribe(&subject.to_string(), Listen::alone(8)).await.unwrap();
    let server = link.clone();
    tokio::spawn(async move {
        let raw = server.delivered(asked.next().await.unwrap()).unwrap();
        let question: ResolveRequest = server.open(&raw.subject, &raw.payload).unwrap().message;
        let peels = vec![peel(&question.target_expr)];
        server
            .answer(
                raw.reply.as_deref(),
                &ResolveReply { v: 1, peels, too_many: false, explained: None, error: None },
            )
            .await
            .unwrap();
    });
    let question = ResolveRequest::of("web-1");
    let answer: ResolveReply = link.request(&subject, &question, Duration::from_secs(1)).await.unwrap();
    assert_eq!(answer.peels, [peel("web-1")]);
}
