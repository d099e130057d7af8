//! The memory bus misbehaves as told, and the same way each time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;
use std::time::Duration;
use zester_bus::memory::{Chaos, Fate, Faults, Leg, ManualClock, Memory, Net, Perfect, SERVER, TokioClock};
use zester_bus::{Bus, Bytes, Delivery, Event, Kind, Listen, Store, Subscription};

fn net() -> Net {
    Net::new(Arc::new(TokioClock::new()))
}

/// Loses what comes back from the server.
struct NoAnswers;

impl Faults for NoAnswers {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if leg.from == SERVER { Vec::new() } else { vec![Duration::ZERO] }
    }
}

/// Loses what goes to the server.
struct NoQuestions;

impl Faults for NoQuestions {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if leg.to == SERVER { Vec::new() } else { vec![Duration::ZERO] }
    }
}

/// The first message is late, and every message comes twice.
struct LateAndTwice(u32);

impl Faults for LateAndTwice {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if leg.to == SERVER || leg.from == SERVER {
            return vec![Duration::ZERO];
        }
        self.0 += 1;
        vec![Duration::from_secs(if self.0 == 1 { 2 } else { 1 }); 2]
    }
}

async fn bucket(bus: &Memory) {
    bus.ensure(&Store::bucket("jobs", 1_000_000), 1).await.unwrap();
}

/// Everything that waits, as text.
async fn drain(subscription: &mut Subscription) -> Vec<String> {
    let mut found = Vec::new();
    let pause = Duration::from_millis(1);
    while let Ok(Some(Delivery::Message(message))) = tokio::time::timeout(pause, subscription.next()).await {
        found.push(String::from_utf8_lossy(&message.payload).into_owned());
    }
    found
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_and_a_lost_question_look_the_same_to_the_one_who_asked() {
    let net = net();
    let bus = net.connect("one");
    bucket(&bus).await;
    net.set_faults(NoAnswers);
    assert_eq!(bus.put("jobs", "a", Bytes::from("1")).await.unwrap_err().kind(), Kind::Timeout);
    net.set_faults(NoQuestions);
    assert_eq!(bus.put("jobs", "b", Bytes::from("1")).await.unwrap_err().kind(), Kind::Timeout);
    net.set_faults(Perfect);
    assert!(bus.get("jobs", "a").await.unwrap().is_some(), "it happened, and nobody knew");
    assert!(bus.get("jobs", "b").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn late_messages_are_overtaken_and_doubled_ones_come_twice() {
    let net = net();
    let bus = net.connect("one");
    let mut heard = bus.subscribe("a", Listen::alone(10)).await.unwrap();
    net.set_faults(LateAndTwice(0));
    bus.publish("a", Bytes::from("first")).await.unwrap();
    bus.publish("a", Bytes::from("second")).await.unwrap();
    assert_eq!(drain(&mut heard).await, Vec::<String>::new());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(drain(&mut heard).await, ["second", "second"]);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(drain(&mut heard).await, ["first", "first"]);
}

#[tokio::test]
async fn time_that_is_told_delivers_what_is_due() {
    let clock = ManualClock::new();
    let net = Net::new(Arc::new(clock.clone()));
    let bus = net.connect("one");
    let mut heard = bus.subscribe("a", Listen::alone(10)).await.unwrap();
    net.set_faults(LateAndTwice(0));
    bus.publish("a", Bytes::from("late")).await.unwrap();
    // The task that carries the message has not run yet, and is not needed: any look at the net delivers what is due.
    clock.advance(Duration::from_secs(2));
    bus.flush().await.unwrap();
    assert!(matches!(heard.next().await, Some(Delivery::Message(_))));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_is_cut_off_hears_nothing_and_knows_it() {
    let net = net();
    let (one, two) = (net.connect("one"), net.connect("two"));
    bucket(&one).await;
    let mut heard = one.subscribe("a", Listen::alone(10)).await.unwrap();
    let mut events = one.events();
    net.cut("one");
    two.publish("a", Bytes::from("lost")).await.unwrap();
    assert_eq!(one.put("jobs", "a", Bytes::new()).await.unwrap_err().kind(), Kind::Disconnected);
    assert!(two.put("jobs", "a", Bytes::new()).await.is_ok());
    let unheard = two.request("a", Bytes::new(), Duration::from_secs(1)).await;
    assert_eq!(unheard.unwrap_err().kind(), Kind::NoResponders);
    net.heal("one");
    two.publish("a", Bytes::from("heard")).await.unwrap();
    assert_eq!(drain(&mut heard).await, ["heard"]);
    assert_eq!(events.next().await, Some(Event::Disconnected));
    assert_eq!(events.next().await, Some(Event::Reconnected));
}

#[tokio::test(start_paused = true)]
async fn a_cut_while_an_answer_is_under_way_is_a_timeout() {
    struct Slow;
    impl Faults for Slow {
        fn fate(&mut self, _: Leg<'_>) -> Fate {
            vec![Duration::from_secs(1)]
        }
    }
    let net = net();
    let bus = net.connect("one");
    bucket(&bus).await;
    net.set_faults(Slow);
    let cut = async {
        tokio::time::sleep(Duration::from_millis(1500)).await;
        net.cut("one");
    };
    let (answer, ()) = tokio::join!(bus.put("jobs", "a", Bytes::new()), cut);
    assert_eq!(answer.unwrap_err().kind(), Kind::Timeout);
}

/// What ten clients hear of each other under chaos.
async fn run(seed: u64) -> Vec<Vec<String>> {
    let net = net();
    let clients: Vec<Memory> = (0..10).map(|number| net.connect(&format!("client-{number}"))).collect();
    let mut ears = Vec::new();
    for client in &clients {
        ears.push(client.subscribe("talk", Listen::alone(1000)).await.unwrap());
    }
    net.set_faults(Chaos::new(seed));
    for round in 0..20 {
        for (number, client) in clients.iter().enumerate() {
            client.publish("talk", Bytes::from(format!("{round}.{number}"))).await.unwrap();
            tokio::time::sleep(Duration::from_millis(3)).await;
        }
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut heard = Vec::new();
    for ear in &mut ears {
        heard.push(drain(ear).await);
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn the_same_seed_gives_the_same_run() {
    let first = run(42).await;
    assert_eq!(first, run(42).await);
    assert_ne!(first, run(43).await);
    let sent: Vec<String> =
        (0..20).flat_map(|round| (0..10).map(move |number| format!("{round}.{number}"))).collect();
    assert!(first.iter().all(|heard| *heard != sent), "some are lost, doubled or overtaken for everyone");
}

/// Direct gets are behind; what is asked of the leader is not.
struct Behind;

impl Faults for Behind {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn lag(&mut self, _: &str, _: &str) -> Duration {
        Duration::from_secs(2)
    }
}

#[tokio::test(start_paused = true)]
async fn a_direct_get_may_be_behind_and_the_leader_is_not() {
    let net = net();
    let bus = net.connect("one");
    bucket(&bus).await;
    net.set_faults(Behind);
    bus.put("jobs", "a", Bytes::from("1")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3)).await;
    bus.put("jobs", "a", Bytes::from("2")).await.unwrap();
    assert_eq!(bus.get("jobs", "a").await.unwrap().unwrap().value, "1");
    assert_eq!(bus.get_latest("jobs", "a").await.unwrap().unwrap().value, "2");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(bus.get("jobs", "a").await.unwrap().unwrap().value, "2");
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_a_leader_takes_nothing_while_others_work() {
    let net = net();
    let bus = net.connect("one");
    bucket(&bus).await;
    bus.ensure(&Store::bucket("facts", 1_000_000), 1).await.unwrap();
    bus.put("jobs", "a", Bytes::from("1")).await.unwrap();
    net.set_led("KV_jobs", false);
    assert_eq!(bus.put("jobs", "a", Bytes::from("2")).await.unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(bus.keys("jobs", ">").await.unwrap_err().kind(), Kind::Unavailable);
    assert_eq!(bus.get("jobs", "a").await.unwrap().unwrap().value, "1");
    bus.put("facts", "a", Bytes::from("1")).await.unwrap();
    net.set_led("KV_jobs", true);
    bus.put("jobs", "a", Bytes::from("2")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_server_without_room_on_its_disk_keeps_nothing_and_tells_those_who_listen() {
    let net = net();
    let bus = net.connect("one");
    bucket(&bus).await;
    let mut heard = bus.subscribe("$KV.jobs.>", Listen::alone(10)).await.unwrap();
    net.set_disk_full(true);
    assert_eq!(bus.put("jobs", "a", Bytes::from("1")).await.unwrap_err().kind(), Kind::Full);
    assert_eq!(drain(&mut heard).await, ["1"]);
    net.set_disk_full(false);
    bus.put("jobs", "a", Bytes::from("1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_silence_is_noticed_after_a_while_and_what_was_sent_into_it_may_come_later() {
    for keeps_unsent in [true, false] {
        let net = net();
        let (bus, other) = (net.connect("one"), net.connect("two"));
        bucket(&other).await;
        let mut heard = bus.subscribe("a", Listen::alone(10)).await.unwrap();
        let mut events = bus.events();
        net.silence("one", keeps_unsent);
        assert_eq!(bus.put("jobs", "a", Bytes::from("1")).await.unwrap_err().kind(), Kind::Timeout);
        other.publish("a", Bytes::from("lost")).await.unwrap();
        tokio::time::sleep(Duration::from_secs(60)).await;
        assert_eq!(events.next().await, Some(Event::Disconnected));
        assert_eq!(bus.put("jobs", "b", Bytes::new()).await.unwrap_err().kind(), Kind::Disconnected);
        net.heal("one");
        assert_eq!(events.next().await, Some(Event::Reconnected));
        assert_eq!(bus.get("jobs", "a").await.unwrap().is_some(), keeps_unsent);
        assert_eq!(drain(&mut heard).await, Vec::<String>::new());
    }
}
