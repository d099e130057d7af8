//! A machine with a policy of its own: what masters get out of it, also one that turned against the fleet.

use crate::daemon::PATIENCE;
use crate::forgeries::{credentials, join, sealed};
use crate::shell::Shell;
use futures_util::StreamExt;
use std::path::Path;
use std::time::Duration;
use zester_identity::Credentials;
use zester_rule::rule;
use zester_testkit::wait_for;
use zester_wire::{
    DispatchRequest, Envelope, ExecRequest, Jid, PeelCommand, PeelId, Return, TargetTree, VERSION, decode,
};

const PEEL: usize = 2;

/// A server, a master, one peel with this policy, and the words of an admin.
fn fleet(policy: &str) -> Shell {
    let mut shell = Shell::new();
    std::fs::write(shell.path("policy.yaml"), policy).unwrap();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --states states &\n\
         zester peel run --id web-01 --creds keys/creds/web-01.creds --data-dir web-01 --policy policy.yaml --health 0 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester web-01 test.ping --timeout 5s",
    );
    shell
}

#[test]
#[rule("I-8")]
fn i8_a_policy_refuses_with_its_line_and_is_read_again_when_it_changes() {
    let shell = fleet("functions:\n  deny: ['cmd.*']\ncommands: published\n");
    assert!(shell.log(PEEL).contains("no master can override it"), "{}", shell.log(PEEL));
    for direct in ["", " --direct"] {
        let said = shell.run(&format!("zester web-01 cmd.run id --timeout 5s{direct}"));
        let told = String::from_utf8_lossy(&said.stdout).into_owned();
        assert_eq!(said.status.code(), Some(2), "{told}");
        assert!(
            told.contains("refused by the policy of this machine") && told.contains("policy.yaml:3:1"),
            "{told}"
        );
    }
    shell.succeeds("zester web-01 state.apply hello");
    let counted = |name: &str| {
        let text = shell.metrics(PEEL);
        text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok()).unwrap_or(0)
    };
    assert_eq!(counted("zester_peel_policy_refused_total"), 2);
    // The words of the command line say the same.
    let checked =
        shell.run("zester policy check policy.yaml --function 'cmd.run id' --function 'state.apply hello'");
    let told = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert_eq!(checked.status.code(), Some(2), "{told}");
    assert!(told.contains("✗ cmd.run id") && told.contains("✓ state.apply hello"), "{told}");
    // One that cannot be read is no policy that allows.
    std::fs::write(shell.path("policy.yaml"), "functions: {denied: ['cmd.*']}\n").unwrap();
    let said = shell.run("zester web-01 state.apply hello --timeout 5s");
    let told = String::from_utf8_lossy(&said.stdout).into_owned();
    assert_eq!(said.status.code(), Some(2), "{told}");
    assert!(told.contains("which cannot be read") && told.contains("unknown key `denied`"), "{told}");
    shell.succeeds("zester web-01 test.ping --timeout 5s");
    assert!(shell.log(PEEL).contains("only what is harmless is answered"), "{}", shell.log(PEEL));
    std::fs::write(shell.path("policy.yaml"), "functions: {deny: ['pkg.*']}\n").unwrap();
    shell.succeeds("zester web-01 cmd.run id --timeout 5s");
    // What was refused stands in the log of the masters.
    wait_for("the refusal in the audit log", PATIENCE, || {
        let log = shell.succeeds("zester audit list --act policy");
        log.contains("refused by the policy").then_some(())
    });
}

/// A master whose key is good and whose will is not.
struct Malicious {
    client: async_nats::Client,
    master: Credentials,
    returns: async_nats::Subscriber,
}

impl Malicious {
    async fn join(shell: &Shell) -> Malicious {
        let master = credentials(shell, "master");
        let client = join(shell, &master).await;
        let returns = client.subscribe("zester.job.*.return.web-01").await.unwrap();
        client.flush().await.unwrap();
        Malicious { client, master, returns }
    }

    /// What the peel answers to a command of this master.
    async fn command(&mut self, request: ExecRequest) -> Return {
        let (subject, jid) = ("zester.cmd.web-01", request.jid.clone());
        let command = sealed(subject, &PeelCommand::Exec(request), &self.master);
        self.client.publish(subject, command.into()).await.unwrap();
        loop {
            let next = tokio::time::timeout(PATIENCE, self.returns.next()).await.unwrap().unwrap();
            let envelope: Envelope = decode(&next.payload).unwrap();
            let ret: Return = envelope.open().unwrap();
            if ret.jid == jid {
                return ret;
            }
        }
    }
}

fn touch(file: &Path) -> String {
    format!("touch {}", file.display())
}

fn signed(jid: &Jid, command: &str, target: &str) -> DispatchRequest {
    DispatchRequest {
        v: VERSION,
        jid: jid.clone(),
        function: "cmd.run".into(),
        args: serde_json::Map::new(),
        state_id: String::new(),
        targets: Vec::new(),
        target_expr: target.into(),
        timeout: PATIENCE,
        user: "admin".into(),
        metadata: serde_json::Map::new(),
        positionals: vec![command.into()],
        test: false,
        wait: None,
        target_digest: None,
    }
}

fn asked(signed: &DispatchRequest, request: Vec<u8>, epoch: u64) -> ExecRequest {
    ExecRequest {
        v: VERSION,
        jid: signed.jid.clone(),
        function: signed.function.clone(),
        args: signed.args.clone(),
        state_id: signed.state_id.clone(),
        dispatch_epoch: epoch,
        budget: Duration::from_secs(10),
        user: "admin".into(),
        rdepth: 0,
        positionals: signed.positionals.clone(),
        test: false,
        direct: false,
        request,
        proof: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("I-8", "I-7", "J-24")]
async fn i8_a_malicious_master_cannot_make_a_peel_act_that_requires_operators() {
    let shell = fleet("operators: required\n");
    let (mut evil, admin) = (Malicious::join(&shell).await, credentials(&shell, "admin"));
    let made = shell.path("made");
    let new_jid = || {
        Jid::new(
            zester_link::Clock::wall(&zester_link::SystemClock),
            zester_link::Dice::roll(&zester_link::OsDice),
        )
    };
    let sign = |request: &DispatchRequest| sealed("zester.dispatch", request, &admin);
    // Of its own accord, with its own signature in the place of an operator's, and with that of a peel.
    let own = signed(&new_jid(), &touch(&made), "web-01");
    for (number, request) in [
        Vec::new(),
        sealed("zester.dispatch", &own, &evil.master),
        sealed("zester.dispatch", &own, &credentials(&shell, "web-01")),
        b"nonsense".to_vec(),
    ]
    .into_iter()
    .enumerate()
    {
        let ret = evil.command(asked(&own, request, 10 + number as u64)).await;
        assert!(ret.error.contains("an operator must ask for it"), "{number}: {}", ret.error);
    }
    // With a good request of an operator, about something else.
    let harmless = signed(&new_jid(), "true", "web-01");
    let brought = sign(&harmless);
    let other =
        ExecRequest { positionals: vec![touch(&made).into()], ..asked(&harmless, brought.clone(), 1) };
    let ret = evil.command(other).await;
    assert!(ret.error.contains("its operator signed other words"), "{}", ret.error);
    let elsewhere = ExecRequest { jid: new_jid(), ..asked(&harmless, brought, 1) };
    let ret = evil.command(elsewhere).await;
    assert!(ret.error.contains("is another job"), "{}", ret.error);
    // With one for another peel, by expression and by list.
    let others = signed(&new_jid(), &touch(&made), "db*");
    let ret = evil.command(asked(&others, sign(&others), 1)).await;
    assert!(ret.error.contains("does not mean this peel"), "{}", ret.error);
    let names = ["db-01", "db-02"].map(|name| PeelId::parse(name).unwrap());
    let listed = DispatchRequest { targets: names.to_vec(), ..signed(&new_jid(), &touch(&made), "") };
    let proof = TargetTree::new(&names).proof(&names[0]);
    let ret = evil.command(ExecRequest { proof, ..asked(&listed, sign(&listed), 1) }).await;
    assert!(ret.error.contains("does not name this peel"), "{}", ret.error);
    assert!(!made.exists(), "it acted on the word of a master");
    // What the operator did ask for is done, once: another epoch is not another word.
    let counter = shell.path("counter");
    let wanted = signed(&new_jid(), &format!("echo x >> {}", counter.display()), "web-01");
    let brought = sign(&wanted);
    let ret = evil.command(asked(&wanted, brought.clone(), 1)).await;
    assert!(ret.success, "{}", ret.error);
    let ret = evil.command(asked(&wanted, brought, 2)).await;
    assert!(ret.error.contains("counts once"), "{}", ret.error);
    assert_eq!(std::fs::read_to_string(&counter).unwrap(), "x\n");
    // Through an honest master an operator has its way, and past all of them too; a rule of the reactor has not.
    shell.succeeds(&format!("zester web-01 cmd.run '{}' --timeout 10s", touch(&made)));
    assert!(made.exists());
    shell.succeeds("zester 'L@web-01' cmd.run true --timeout 10s");
    shell.succeeds("zester web-01 cmd.run true --direct --timeout 10s");
}
