//! Asking masters.

use crate::world::*;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;
use zester_client::{Error, limits};
use zester_rule::rule;
use zester_wire::*;

#[tokio::test(start_paused = true)]
#[rule("J-3")]
async fn j3_a_dispatch_is_asked_again_with_the_same_jid_until_a_master_grants_it() {
    let mut world = world().await;
    let request = world.request("test.ping");
    let (client, jid) = (world.client.clone(), request.jid.clone());
    let mut asking = tokio::task::JoinSet::new();
    asking.spawn(async move { client.dispatch(request).await.map(|dispatched| dispatched.targets) });
    // Nobody there at first, then one that does not answer, then one that must be asked again.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked: Arc<Mutex<Vec<Jid>>> = Arc::default();
    let seen = asked.clone();
    world
        .serve("zester.dispatch", move |_, question: DispatchRequest| {
            let mut seen = seen.lock().unwrap();
            seen.push(question.jid.clone());
            let turn = seen.len();
            async move {
                let refusal = Refusal::new(RefusalKind::ClaimPending, "claim pending");
                match turn {
                    1 => None,
                    2 => Some(DispatchReply { v: 1, jid: None, targets: Vec::new(), error: Some(refusal) }),
                    _ => Some(granted(&question.jid, &["web-1"])),
                }
            }
        })
        .await;
    let targets = asking.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(targets, [peel("web-1")]);
    assert_eq!(*asked.lock().unwrap(), [jid.clone(), jid.clone(), jid]);
}

#[tokio::test(start_paused = true)]
async fn a_final_refusal_is_told_at_once() {
    let mut world = world().await;
    world
        .serve("zester.dispatch", |_, _: DispatchRequest| async {
            let refusal = Refusal::new(RefusalKind::NoTargets, "no peel matches `nothing`");
            Some(DispatchReply { v: 1, jid: None, targets: Vec::new(), error: Some(refusal) })
        })
        .await;
    let began = Instant::now();
    let refused = world.client.dispatch(world.request("test.ping")).await.err().unwrap();
    assert!(matches!(refused, Error::Refused(refusal) if refusal.kind == RefusalKind::NoTargets));
    assert!(began.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn without_a_master_the_patience_ends_and_says_so() {
    let world = world().await;
    let began = Instant::now();
    let error = world.client.resolve("*").await.unwrap_err();
    assert!(matches!(&error, Error::NoMaster { .. }), "{error}");
    assert!(began.elapsed() <= limits::PATIENCE);
    assert!(error.to_string().contains("none is connected"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn an_expression_is_resolved_by_a_master() {
    let mut world = world().await;
    world
        .serve("zester.target.resolve", |_, asked: ResolveRequest| async move {
            assert_eq!(asked.target_expr, "web*");
            Some(ResolveReply { v: 1, peels: vec![peel("web-1"), peel("web-2")], error: None })
        })
        .await;
    assert_eq!(world.client.resolve("web*").await.unwrap(), [peel("web-1"), peel("web-2")]);
}
