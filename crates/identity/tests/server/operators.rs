//! Operators with roles: an account without JetStream, and what crosses from it.

use super::*;

#[tokio::test]
#[rule("I-14", "I-7")]
async fn i14_an_operator_reaches_on_the_bus_what_it_needs_and_nothing_else() {
    let world = World::start().await;
    let keys = &world.keys;
    let core = world.spy(&keys.core).await;
    let mut in_core = listen(&core, ">").await;
    let operator = world.join(&keys.member(Role::Operator, "bob")).await;
    for subject in
        ["$KV.trust.roster", "$KV.jobs.", "zester.audit.", "zester.event._master.", "$KV.state-files."]
    {
        assert!(forbidden_to_bob().iter().any(|one| one.starts_with(subject)), "{subject}");
    }
    for subject in forbidden_to_bob() {
        operator.publish(subject, "forged".into()).await.unwrap();
    }
    settle(&operator).await;
    for message in all_heard(&core, &mut in_core).await {
        assert_ne!(message.payload, "forged", "CORE heard {}", message.subject);
    }
}

/// Every subject that somebody may publish or hear and this operator may not publish, and some of the server's own.
fn forbidden_to_bob() -> Vec<String> {
    let rows =
        TABLE.iter().flat_map(|grant| [grant.subject("web-2"), grant.subject("m1"), grant.subject("ann")]);
    let more = ["$JS.API.STREAM.PURGE.KV_jobs", "$JS.API.STREAM.DELETE.audit", "$SYS.REQ.CLAIMS.UPDATE"];
    let mut forbidden: Vec<String> =
        rows.chain(more.map(String::from)).map(|pattern| concrete(&pattern)).collect();
    forbidden.retain(|subject| !grants::allows(Role::Operator, Act::Publish, "bob", subject));
    forbidden.sort_unstable();
    forbidden.dedup();
    forbidden
}

/// The server answers where the one who asks says, and does not look whether that one may publish there.
#[tokio::test]
#[rule("I-14", "I-7")]
async fn i14_no_reply_subject_that_an_operator_chooses_reaches_anything_in_core() {
    let world = World::start().await;
    let keys = &world.keys;
    let (core, peels) = (world.spy(&keys.core).await, world.spy(&keys.peels).await);
    let operator = world.join(&keys.member(Role::Operator, "bob")).await;
    // Somebody who answers each question that it may ask, with what it says itself.
    for (account, pattern) in [(&core, "zester.>"), (&peels, "zester.cmd.*")] {
        let (mut questions, account) = (listen(account, pattern).await, account.clone());
        tokio::spawn(async move {
            while let Some(question) = questions.next().await {
                if let Some(reply) = question.reply {
                    account.publish(reply, question.payload).await.unwrap();
                    account.flush().await.unwrap();
                }
            }
        });
    }
    let before = kept(&core).await;
    let (mut in_core, mut in_peels) = (listen(&core, ">").await, listen(&peels, ">").await);
    let mut targets = forbidden_to_bob();
    for (stream, ..) in &before {
        for verb in ["PURGE", "DELETE", "UPDATE", "SNAPSHOT"] {
            targets.push(format!("$JS.API.STREAM.{verb}.{stream}"));
        }
        targets.push(format!("$JS.API.STREAM.MSG.DELETE.{stream}"));
        targets.push(format!("$JS.API.CONSUMER.CREATE.{stream}"));
        if let Some(bucket) = stream.strip_prefix("KV_") {
            targets.extend([format!("$KV.{bucket}.kept"), format!("$KV.{bucket}._manifest")]);
        }
    }
    targets.push("zester.cmd.web-2".into());
    targets.retain(|subject| !subject.starts_with("_INBOX"));
    let mut tried = 0;
    for pattern in grants::subjects(Role::Operator, Act::Publish, "bob") {
        let through = concrete(&pattern);
        // What a read answers with is what was read: of a key that exists where the store is asked as such.
        let bodies: &[&str] = match pattern.contains("DIRECT.GET") {
            true => &[r#"{"last_by_subj":">"}"#, r#"{"seq":1}"#],
            false => &["forged"],
        };
        for target in &targets {
            for body in bodies {
                let reply = target.clone();
                operator.publish_with_reply(through.clone(), reply, (*body).into()).await.unwrap();
                tried += 1;
            }
        }
        settle(&operator).await;
    }
    assert!(tried > 1_000, "{tried}");
    settle(&operator).await;
    let may = |subject: &str| grants::allows(Role::Operator, Act::Publish, "bob", subject);
    for (account, spy, ears) in [("CORE", &core, &mut in_core), ("PEELS", &peels, &mut in_peels)] {
        for message in all_heard(spy, ears).await {
            let subject = message.subject.as_str();
            let is_answer = ["_R_.", "_INBOX.", "$JS.EVENT"].iter().any(|one| subject.starts_with(one));
            assert!(may(subject) || is_answer, "{account} heard {subject}");
        }
    }
    // Nothing is gone, and nothing is other than it was.
    assert_eq!(kept(&core).await, before);
}

#[tokio::test]
#[rule("I-14")]
async fn i14_what_an_operator_needs_crosses_between_the_accounts() {
    let world = World::start().await;
    let keys = &world.keys;
    let core = world.spy(&keys.core).await;
    let master = world.join(&keys.member(Role::Master, "m1")).await;
    let admin = world.join(&keys.member(Role::Admin, "ann")).await;
    let peel = world.join(&keys.peel("web-1")).await;
    let operator = world.join(&keys.member(Role::Operator, "bob")).await;
    // Questions to masters are answered, and the master sees a reply subject of the server's making.
    for subject in [
        "zester.dispatch",
        "zester.admin.kill",
        "zester.target.resolve",
        "zester.peel.list",
        "zester.reactor.test",
    ] {
        let mut questions = listen(&core, subject).await;
        let asking = tokio::spawn({
            let (operator, subject) = (operator.clone(), subject.to_string());
            async move { ask(&operator, &subject, "bob asks").await }
        });
        let reply = loop {
            let question = heard(&mut questions).await;
            if question.payload == "bob asks" {
                break question.reply.unwrap();
            }
        };
        assert!(reply.starts_with("_R_."), "{subject}: {reply}");
        core.publish(reply, "answered".into()).await.unwrap();
        assert_eq!(asking.await.unwrap(), "answered", "{subject}");
    }
    // A peel too, past the masters.
    let mut commands = listen(&peel, "zester.cmd.web-1").await;
    let asking = tokio::spawn({
        let operator = operator.clone();
        async move { ask(&operator, "zester.cmd.web-1", "direct").await }
    });
    let direct = heard(&mut commands).await;
    peel.publish(direct.reply.unwrap(), "done".into()).await.unwrap();
    assert_eq!(asking.await.unwrap(), "done");
    drop(commands);
    // Its events are kept, and records are read in each way that a single one can be.
    assert!(ask(&operator, "zester.event._admin.send.deploy", "mine").await.contains("\"seq\""));
    assert!(ask(&peel, "$KV.facts.web-1", "of web-1").await.contains("\"seq\""));
    for body in
        [r#"{"last_by_subj":"$KV.facts.web-1"}"#, r#"{"seq":1}"#, r#"{"seq":1,"next_by_subj":"$KV.facts.>"}"#]
    {
        assert_eq!(ask(&operator, "$JS.API.DIRECT.GET.KV_facts", body).await, "of web-1", "{body}");
    }
    // What it follows and watches is heard once, whoever says it: masters and admins in CORE, peels in PEELS.
    for (pattern, said) in [
        (
            format!("zester.job.{JID}.>"),
            vec![
                (&master, format!("zester.job.{JID}.dispatch")),
                (&master, format!("zester.job.{JID}.status")),
                (&master, format!("zester.job.{JID}.cancel")),
                (&peel, format!("zester.job.{JID}.ack.web-1")),
                (&peel, format!("zester.job.{JID}.return.web-1")),
                (&peel, format!("zester.job.{JID}.schedule.web-1")),
                (&peel, format!("zester.job.{JID}.progress.web-1")),
            ],
        ),
        (
            "zester.event.>".to_string(),
            vec![
                (&master, "zester.event._master.start".to_string()),
                (&admin, "zester.event._admin.send.deploy".to_string()),
                (&operator, "zester.event._admin.send.other".to_string()),
                (&peel, "zester.event.web-1.send.hello".to_string()),
                (&peel, "zester.event.web-1.beacon.load".to_string()),
            ],
        ),
    ] {
        let mut ears = listen(&operator, &pattern).await;
        let mut expected: Vec<String> = said.iter().map(|(_, subject)| subject.clone()).collect();
        for (who, subject) in said {
            who.publish(subject, "told".into()).await.unwrap();
            settle(who).await;
        }
        let mut told = Vec::new();
        while told.len() < expected.len() {
            told.push(heard(&mut ears).await.subject.to_string());
        }
        let more = tokio::time::timeout(Duration::from_millis(200), ears.next()).await;
        assert!(more.is_err(), "{pattern}: {more:?}");
        told.sort_unstable();
        expected.sort_unstable();
        assert_eq!(told, expected, "{pattern}");
    }
    // What is none of its business is not heard.
    let mut ears = Vec::new();
    let others = [
        "zester.>",
        "zester.cmd.*",
        "zester.dispatch",
        "zester.heartbeat.*",
        "_INBOX.>",
        "_INBOX.ann.>",
        "_R_.>",
        "$KV.>",
        ">",
    ];
    for pattern in others {
        ears.push(operator.subscribe(pattern).await.unwrap());
    }
    settle(&operator).await;
    let mut commands = listen(&peel, "zester.cmd.web-1").await;
    let asking = tokio::spawn(async move { ask(&admin, "zester.cmd.web-1", "secret").await });
    let command = heard(&mut commands).await;
    peel.publish(command.reply.unwrap(), "done".into()).await.unwrap();
    assert_eq!(asking.await.unwrap(), "done");
    peel.publish("zester.heartbeat.web-1", "beat".into()).await.unwrap();
    settle(&peel).await;
    for (pattern, mut ears) in others.iter().zip(ears) {
        let nothing = tokio::time::timeout(Duration::from_millis(20), ears.next()).await;
        assert!(nothing.is_err() || nothing.unwrap().is_none(), "{pattern}");
    }
    // It is no user of CORE, whatever its key.
    let info = ask_or_nothing(&operator, "$JS.API.INFO").await;
    assert!(info.is_none(), "{info:?}");
}

/// None where nobody answers soon.
async fn ask_or_nothing(client: &Client, subject: &str) -> Option<String> {
    let request = Request::new().timeout(Some(Duration::from_millis(300)));
    let answer = client.send_request(subject.to_string(), request).await.ok()?;
    Some(String::from_utf8_lossy(&answer.payload).into_owned())
}
