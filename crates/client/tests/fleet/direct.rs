//! Past the masters.

use crate::world::*;
use serde_json::{Map, json};
use std::time::Duration;
use zester_client::{DirectReply, Error, FunctionCall};
use zester_rule::rule;
use zester_wire::*;

fn work() -> FunctionCall {
    FunctionCall {
        function: "test.ping".into(),
        state_id: String::new(),
        positionals: Vec::new(),
        args: Map::new(),
        test: false,
        timeout: Duration::from_secs(10),
        user: "me".into(),
    }
}

async fn peels_answer(world: &mut World, names: &[&'static str]) {
    for name in names.iter().copied() {
        world
            .serve(&format!("zester.cmd.{name}"), move |_, command: PeelCommand| async move {
                match command {
                    PeelCommand::Exec(request) if request.direct => Some(ret(&request.jid, name)),
                    other => panic!("{other:?}"),
                }
            })
            .await;
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-21")]
async fn j21_direct_works_with_every_master_down() {
    let mut world = world().await;
    for name in ["web-1", "web-2", "db-1", "web-9"] {
        put_facts(&world.other, name, json!({"os": "Debian"})).await;
    }
    peels_answer(&mut world, &["web-1", "web-2", "db-1"]).await;
    let mut direct = world.client.direct("web* and G@os:Debian", &work()).await.unwrap();
    assert_eq!(direct.targets, [peel("web-1"), peel("web-2"), peel("web-9")]);
    let (mut returned, mut unreachable) = (Vec::new(), Vec::new());
    while let Some(answer) = direct.next().await {
        match answer {
            DirectReply::Return(ret) => returned.push(ret.peel.to_string()),
            DirectReply::Unreachable(peel) => unreachable.push(peel.to_string()),
            DirectReply::NoReply(peel, why) => panic!("{peel}: {why}"),
        }
    }
    returned.sort();
    assert_eq!((returned, unreachable), (vec!["web-1".into(), "web-2".into()], vec!["web-9".to_string()]));
}

#[tokio::test(start_paused = true)]
#[rule("J-21")]
async fn j21_a_peel_that_does_not_answer_is_given_up_after_its_budget() {
    let mut world = world().await;
    put_facts(&world.other, "web-1", json!({})).await;
    world.serve("zester.cmd.web-1", |_, _: PeelCommand| async { None::<Return> }).await;
    let mut direct = world.client.direct("*", &work()).await.unwrap();
    let began = tokio::time::Instant::now();
    assert!(matches!(direct.next().await, Some(DirectReply::NoReply(..))));
    assert!(began.elapsed() >= work().timeout);
    assert_eq!(direct.next().await, None);
}

#[tokio::test(start_paused = true)]
#[rule("J-21")]
async fn j21_settings_cannot_be_asked_for_without_a_master() {
    let world = world().await;
    let error = world.client.direct("not I@role:db", &work()).await.err().unwrap();
    assert!(matches!(error, Error::NeedsMaster));
    let error = world.client.direct("web and", &work()).await.err().unwrap();
    assert!(matches!(error, Error::Target(_)));
}
