//! Messages that are not kept.

use crate::bench::{Bench, PATIENCE, bytes, kind, soon, text};
use std::collections::BTreeSet;
use std::time::Duration;
use zester_bus::{Bytes, Delivery, Event, Kind, Listen};
use zester_testkit::wait_until;

pub async fn a_subscriber_gets_messages_in_order(bench: Bench) {
    let (sender, receiver) = (bench.connect("sender").await, bench.connect("receiver").await);
    let mut heard = receiver.subscribe("a.b", Listen::alone(2000)).await.unwrap();
    for number in 0..1000 {
        sender.publish("a.b", bytes(&number.to_string())).await.unwrap();
    }
    for number in 0..1000 {
        assert_eq!(text(&mut heard).await, number.to_string());
    }
}

pub async fn a_pattern_gets_what_it_matches_and_nothing_else(bench: Bench) {
    let bus = bench.connect("one").await;
    let mut star = bus.subscribe("a.*.c", Listen::alone(10)).await.unwrap();
    let mut rest = bus.subscribe("a.>", Listen::alone(10)).await.unwrap();
    for subject in ["a", "a.b", "a.b.c", "a.b.d", "b.b.c", "a.x.c"] {
        bus.publish(subject, bytes(subject)).await.unwrap();
    }
    assert_eq!([text(&mut star).await, text(&mut star).await], ["a.b.c", "a.x.c"]);
    let four = [text(&mut rest).await, text(&mut rest).await, text(&mut rest).await, text(&mut rest).await];
    assert_eq!(four, ["a.b", "a.b.c", "a.b.d", "a.x.c"]);
}

pub async fn a_queue_group_delivers_to_exactly_one(bench: Bench) {
    let (one, two) = (bench.connect("one").await, bench.connect("two").await);
    let mut first = one.subscribe("work", Listen::shared("group.of.two", 100)).await.unwrap();
    let mut second = two.subscribe("work", Listen::shared("group.of.two", 100)).await.unwrap();
    let sender = bench.connect("sender").await;
    for number in 0..40 {
        sender.publish("work", bytes(&number.to_string())).await.unwrap();
    }
    let mut seen = BTreeSet::new();
    for _ in 0..40 {
        let number = tokio::select! { text = text(&mut first) => text, text = text(&mut second) => text };
        assert!(seen.insert(number), "delivered twice");
    }
    // Nothing more comes; a moment can only miss a mistake, never make one.
    let more = async {
        tokio::select! { more = first.next() => more, more = second.next() => more }
    };
    assert!(tokio::time::timeout(Duration::from_millis(50), more).await.is_err());
}

pub async fn a_request_is_answered(bench: Bench) {
    let (asking, answering) = (bench.connect("asking").await, bench.connect("answering").await);
    let mut questions = answering.subscribe("service.*", Listen::alone(10)).await.unwrap();
    let answer = async {
        let Some(Delivery::Message(question)) = questions.next().await else { panic!("no question") };
        assert_eq!(question.subject, "service.time");
        answering.publish(&question.reply.unwrap(), bytes("noon")).await.unwrap();
    };
    let (answered, ()) = tokio::join!(asking.request("service.time", bytes("when?"), PATIENCE), answer);
    assert_eq!(answered.unwrap().payload, bytes("noon"));
}

pub async fn a_request_without_a_responder_fails_at_once(bench: Bench) {
    let bus = bench.connect("one").await;
    // Were it to wait, it would wait for ever.
    let answer = soon(bus.request("nobody.here", Bytes::new(), Duration::from_secs(3600))).await;
    assert_eq!(kind(answer), Some(Kind::NoResponders));
}

pub async fn a_request_that_nobody_answers_times_out(bench: Bench) {
    let (asking, silent) = (bench.connect("asking").await, bench.connect("silent").await);
    let _deaf = silent.subscribe("service", Listen::alone(10)).await.unwrap();
    let answer = soon(asking.request("service", Bytes::new(), Duration::from_millis(50))).await;
    assert_eq!(kind(answer), Some(Kind::Timeout));
}

pub async fn a_payload_that_is_too_large_is_an_error_before_sending(bench: Bench) {
    let bus = bench.connect("one").await;
    let mut heard = bus.subscribe("a", Listen::alone(10)).await.unwrap();
    let large = Bytes::from(vec![0; bus.info().max_payload + 1]);
    assert_eq!(kind(bus.publish("a", large.clone()).await), Some(Kind::TooLarge));
    assert_eq!(kind(bus.publish_stored("a", large.clone(), None).await), Some(Kind::TooLarge));
    assert_eq!(kind(bus.request("a", large.clone(), PATIENCE).await), Some(Kind::TooLarge));
    assert_eq!(kind(bus.put("bucket", "key", large).await), Some(Kind::TooLarge));
    assert!(bus.info().connected, "the server would have hung up");
    bus.publish("a", Bytes::from(vec![b'x'; bus.info().max_payload])).await.unwrap();
    assert_eq!(text(&mut heard).await.len(), bus.info().max_payload);
}

pub async fn what_is_no_subject_is_refused(bench: Bench) {
    let bus = bench.connect("one").await;
    for bad in ["", "a..b", "a b", "a.*", "a.>", "a\r\nPUB b 0"] {
        assert_eq!(kind(bus.publish(bad, Bytes::new()).await), Some(Kind::Invalid), "{bad:?}");
        assert_eq!(kind(bus.request(bad, Bytes::new(), PATIENCE).await), Some(Kind::Invalid), "{bad:?}");
        assert_eq!(kind(bus.get("bucket", bad).await), Some(Kind::Invalid), "{bad:?}");
        assert_eq!(kind(bus.put(bad, "key", Bytes::new()).await), Some(Kind::Invalid), "{bad:?}");
    }
    assert_eq!(kind(bus.subscribe("a.>.b", Listen::alone(1)).await), Some(Kind::Invalid));
}

pub async fn a_full_subscription_says_what_it_dropped(bench: Bench) {
    let bus = bench.connect("one").await;
    let mut events = bus.events();
    let mut heard = bus.subscribe("a", Listen::alone(4)).await.unwrap();
    for number in 0..20 {
        bus.publish("a", bytes(&number.to_string())).await.unwrap();
    }
    let slow = async { while events.next().await != Some(Event::SlowConsumer) {} };
    soon(slow).await;
    let (mut taken, mut missed) = (0, 0);
    while taken + missed < 20 {
        match soon(heard.next()).await {
            Some(Delivery::Message(message)) => {
                // What came before the gap comes first, and the count stands where the gap is.
                assert_eq!(message.payload, bytes(&(taken + missed).to_string()));
                taken += 1;
            }
            Some(Delivery::Missed(count)) => missed += count,
            None => panic!("the subscription ended"),
        }
    }
    assert!(taken >= 4 && missed >= 1, "{taken} {missed}");
}

pub async fn a_dropped_subscription_is_gone(bench: Bench) {
    let (asking, answering) = (bench.connect("asking").await, bench.connect("answering").await);
    let heard = answering.subscribe("service", Listen::alone(1)).await.unwrap();
    drop(heard);
    wait_until("the end of the subscription", PATIENCE, || async {
        let answer = asking.request("service", Bytes::new(), Duration::from_millis(20)).await;
        (kind(answer) == Some(Kind::NoResponders)).then_some(())
    })
    .await;
}
