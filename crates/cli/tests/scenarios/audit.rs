//! The audit log on a real server: whoever changes what is stored there is found out.

use crate::daemon::PATIENCE;
use crate::forgeries::{broker, credentials, join};
use crate::shell::Shell;
use async_nats::Client;
use zester_rule::rule;
use zester_testkit::wait_for;
use zester_wire::{AuditEntry, Envelope, decode, encode};

/// A record of the stream: its subject and its bytes.
type Stored = (String, Vec<u8>);

async fn ask(client: &Client, subject: &str, question: &str) -> serde_json::Value {
    let answer = client.request(subject.to_string(), question.to_string().into()).await.unwrap();
    serde_json::from_slice(&answer.payload).unwrap_or_default()
}

async fn last(client: &Client) -> u64 {
    let info = ask(client, "$JS.API.STREAM.INFO.audit", "").await;
    info["state"]["last_seq"].as_u64().unwrap()
}

async fn all(client: &Client) -> Vec<Stored> {
    let mut found = Vec::new();
    let info = ask(client, "$JS.API.STREAM.INFO.audit", "").await;
    let first = info["state"]["first_seq"].as_u64().unwrap();
    for seq in first..=last(client).await {
        let reply =
            client.request("$JS.API.DIRECT.GET.audit", format!(r#"{{"seq":{seq}}}"#).into()).await.unwrap();
        let headers = reply.headers.unwrap_or_default();
        if let Some(subject) = headers.get("Nats-Subject") {
            found.push((subject.to_string(), reply.payload.to_vec()));
        }
    }
    found
}

/// What a broker can do who owns the disk: the stream holds these records now, and nothing else.
async fn replaced(client: &Client, records: &[Stored]) {
    let purged = ask(client, "$JS.API.STREAM.PURGE.audit", "").await;
    assert_eq!(purged["success"], true, "{purged}");
    for (subject, payload) in records {
        client.request(subject.clone(), payload.clone().into()).await.unwrap();
    }
}

fn entry(stored: &Stored) -> AuditEntry {
    decode::<Envelope>(&stored.1).unwrap().open().unwrap()
}

fn verified(shell: &Shell) -> (Option<i32>, String) {
    let output = shell.run("zester audit verify");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread")]
#[rule("I-6", "I-12")]
async fn i6_an_entry_that_is_removed_edited_or_moved_on_the_server_is_found() {
    let mut shell = Shell::new();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --id m1 --creds keys/creds/master.creds --data-dir master --states states &\n\
         zester peel run --id web-01 --creds keys/creds/web-01.creds --data-dir web-01 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester web-01 test.ping --timeout 5s",
    );
    for _ in 0..3 {
        shell.succeeds("zester web-01 test.ping --timeout 5s");
    }
    let client = join(&shell, &broker(&shell, &credentials(&shell, "web-01"))).await;
    // Started, the roster, the pings.
    wait_for("the log", PATIENCE, || {
        let listed = shell.succeeds("zester audit list");
        (listed.matches("test.ping").count() >= 4 && listed.contains("admin admin")).then_some(())
    });
    let (code, told) = verified(&shell);
    assert_eq!((code, told.contains("nothing is missing, moved or changed")), (Some(0), true), "{told}");
    shell.succeeds("zester audit export log.jsonl");
    assert!(std::fs::read_to_string(shell.path("log.jsonl")).unwrap().contains("\"envelope\":\""));
    // The master stops in order, so that nothing is written meanwhile and its end is known.
    let master = shell.background[1].id();
    shell.run(&format!("kill -TERM {master}"));
    wait_for("the end of the master", PATIENCE, || {
        let listed = shell.succeeds("zester audit list");
        listed.contains("stopped").then_some(())
    });
    let records = all(&client).await;
    assert!(records.len() >= 7, "{}", records.len());
    let middle = records.len() / 2;

    let mut edited = records.clone();
    let mut envelope: Envelope = decode(&edited[middle].1).unwrap();
    let changed = AuditEntry { who: "operator eve".into(), ..entry(&edited[middle]) };
    envelope.payload = encode(&changed).unwrap();
    edited[middle].1 = encode(&envelope).unwrap();
    replaced(&client, &edited).await;
    let (code, told) = verified(&shell);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("it does not count") && told.contains("its signature does not hold"), "{told}");

    let mut removed = records.clone();
    removed.remove(middle);
    replaced(&client, &removed).await;
    let (code, told) = verified(&shell);
    assert_eq!(code, Some(2), "{told}");
    let seq = entry(&records[middle]).seq;
    assert!(told.contains(&format!("entry {seq} of m1.")) && told.contains("is missing before it"), "{told}");

    let mut moved = records.clone();
    moved.swap(middle, middle + 1);
    replaced(&client, &moved).await;
    let (code, told) = verified(&shell);
    assert!(code == Some(2) && told.contains("stands behind a later one"), "{told}");

    replaced(&client, &records).await;
    assert_eq!(verified(&shell).0, Some(0), "as it was");
    // By the server's own means: a gap in its numbers.
    let place = last(&client).await - 2;
    let deleted = ask(&client, "$JS.API.STREAM.MSG.DELETE.audit", &format!(r#"{{"seq":{place}}}"#)).await;
    assert_eq!(deleted["success"], true, "{deleted}");
    let (code, told) = verified(&shell);
    assert!(code == Some(2) && told.contains("1 before it were removed from the stream"), "{told}");

    // Cut off at the end: the next start of the master names what it left there.
    replaced(&client, &records[..records.len() - 1]).await;
    let (code, _) = verified(&shell);
    assert_eq!(code, Some(0), "nobody could know yet");
    replaced(&client, &records).await;
    shell.begins(
        "zester master run --id m1 --creds keys/creds/master.creds --data-dir master --states states",
    );
    shell.succeeds("zester web-01 test.ping --timeout 10s");
    wait_for("the second start", PATIENCE, || {
        (shell.succeeds("zester audit list").matches("started").count() == 2).then_some(())
    });
    let both = all(&client).await;
    let cut: Vec<Stored> = both.iter().filter(|one| **one != records[records.len() - 1]).cloned().collect();
    replaced(&client, &cut).await;
    let (code, told) = verified(&shell);
    assert!(code == Some(2) && told.contains("the end of m1."), "{told}");
    // And of what it wrote since, a master that lives knows how much it is.
    let mut short = both.clone();
    short.truncate(records.len() + 1);
    replaced(&client, &short).await;
    // It says so with its heartbeats.
    wait_for("the word of the master", PATIENCE, || {
        let (code, told) = verified(&shell);
        (code == Some(2) && told.contains("its master has written")).then_some(())
    });
}
