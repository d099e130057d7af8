//! What one dispatch puts on the wire (J-24), in memory and on a real server.

use crate::fleet::{Fleet, peel};
use crate::servers;
use std::time::Duration;
use zester_bus::{Delivery, Listen};
use zester_rule::rule;
use zester_testkit::Server;
use zester_wire::*;

/// The bytes that a job for so many named peels puts on `zester.cmd.>`, and what each of them is told.
async fn sent(fleet: &Fleet, count: usize) -> (usize, Vec<(PeelId, ExecRequest)>) {
    let mut commands = fleet.link.bus().subscribe("zester.cmd.>", Listen::alone(65_536)).await.unwrap();
    let targets: Vec<PeelId> = (0..count).map(|at| peel(&format!("web-{at:05}-example-org"))).collect();
    let expression = format!("L@{}", targets.iter().map(PeelId::as_str).collect::<Vec<_>>().join(","));
    let request = DispatchRequest { targets, timeout: Duration::from_secs(2), ..fleet.request(&expression) };
    let reply = fleet.ask(&request).await;
    assert_eq!(reply.error, None);
    let (mut bytes, mut heard) = (0, Vec::new());
    while heard.len() < count {
        let Some(Delivery::Message(message)) = commands.next().await else { panic!("missed commands") };
        let opened = fleet.link.open::<PeelCommand>(&message.subject, &message.payload).unwrap();
        let PeelCommand::Exec(exec) = opened.message else { continue };
        let Ok(Subject::Command { peel }) = Subject::parse(&message.subject) else { continue };
        if exec.jid == request.jid {
            bytes += message.payload.len();
            heard.push((peel, exec));
        }
    }
    (bytes, heard)
}

async fn is_linear(fleet: &Fleet) {
    let (small, _) = sent(fleet, 1_000).await;
    let (large, heard) = sent(fleet, 4_000).await;
    // Four times the peels, and two more hashes in each proof.
    assert!(large < 5 * small, "1,000 names: {small} bytes, 4,000 names: {large} bytes");
    assert!(large < 4_000 * 2_048, "{large} bytes");
    for (peel, exec) in heard {
        let envelope: Envelope = decode(&exec.request).unwrap();
        let request: DispatchRequest = envelope.open().unwrap();
        let digest = request.target_digest.unwrap();
        assert!(digest.names(&peel, &exec.proof.unwrap()), "{peel} cannot see that it was named");
        assert!(request.targets.is_empty() && request.target_expr.is_empty());
    }
}

#[tokio::test(start_paused = true)]
#[rule("J-24")]
async fn j24_a_dispatch_to_four_thousand_names_is_linear_in_its_targets() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    is_linear(&fleet).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[rule("J-24")]
async fn j24_a_dispatch_to_four_thousand_names_is_linear_on_a_real_server() {
    let server = Server::start();
    let fleet = servers::fleet(&server).await;
    let _master = servers::master(&fleet, &server, "m1").await;
    servers::known(&fleet, 0).await;
    is_linear(&fleet).await;
}
