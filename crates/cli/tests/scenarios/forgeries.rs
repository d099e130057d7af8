//! What an adversary with the credentials of one peel gets a real server to deliver, and what real daemons make of it: nothing.

use crate::adversary::fleet;
use crate::daemon::PATIENCE;
use crate::shell::Shell;
use async_nats::{Client, ConnectOptions};
use std::path::Path;
use zester_identity::{Credentials, KeyKind, KeyPair, accounts};
use zester_link::{Clock, SystemClock};
use zester_rule::rule;
use zester_testkit::wait_for;
use zester_wire::{
    Envelope, Event, ExecRequest, Jid, Message, MessageId, PeelCommand, Signer, Tag, Unsigned, VERSION,
    encode,
};

const JID: &str = "2hPx2Kd8VnR7YmWqTz4PLsCfNjA";
/// The peel that is attacked, as the shell numbers what it began.
const VICTIM: usize = 2;
const MASTER: usize = 1;

const RULES: &str = "reactor:
  - '_admin/forged': [reactor.touch]
  - '_master/forged': [reactor.touch]
  - '*/forged': [reactor.touch]
";

pub fn credentials(shell: &Shell, name: &str) -> Credentials {
    let text = std::fs::read_to_string(shell.path(&format!("keys/creds/{name}.creds"))).unwrap();
    Credentials::parse(&text).unwrap().unwrap()
}

pub async fn join(shell: &Shell, who: &Credentials) -> Client {
    let options = ConnectOptions::with_credentials(&who.to_text().unwrap()).unwrap();
    let options = options.add_root_certificates(shell.path("keys/tls/ca.pem")).require_tls(true);
    let inbox = zester_identity::grants::inbox_prefix(&who.name);
    options.custom_inbox_prefix(inbox).connect(shell.url()).await.unwrap()
}

/// Who may do everything in CORE, as the server itself: what is signed is all that is left to tell it from a master.
pub fn broker(shell: &Shell, like: &Credentials) -> Credentials {
    let seed = std::fs::read_to_string(shell.path("keys/keys/core.nk")).unwrap();
    let core = KeyPair::from_seed(seed.trim()).unwrap();
    let pair = KeyPair::new(KeyKind::User, [77; 32]).unwrap();
    let jwt = accounts::system_user(pair.public(), SystemClock.wall().0 / 1000).issued_by(&core);
    Credentials { jwt, pair, name: "broker".into(), ..like.clone() }
}

pub fn sealed<T: Message>(subject: &str, message: &T, signer: &dyn Signer) -> Vec<u8> {
    let id = MessageId::parse("forged").unwrap();
    encode(&Envelope::seal(subject, id, SystemClock.wall(), message, signer).unwrap()).unwrap()
}

/// Makes a file, on whoever believes it.
pub fn touching(file: &Path, direct: bool) -> PeelCommand {
    PeelCommand::Exec(ExecRequest {
        v: VERSION,
        jid: Jid::parse(JID).unwrap(),
        function: "cmd.run".into(),
        args: serde_json::Map::new(),
        state_id: String::new(),
        dispatch_epoch: 1,
        budget: PATIENCE,
        user: "admin".into(),
        rdepth: 0,
        positionals: vec![format!("touch {}", file.display()).into()],
        test: false,
        direct,
        request: Vec::new(),
        proof: None,
    })
}

fn spoofs(shell: &Shell, number: usize, metric: &str) -> u64 {
    let text = shell.metrics(number);
    let found = text.lines().find_map(|line| line.strip_prefix(metric)?.trim().parse().ok());
    found.unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
#[rule("I-7", "I-8")]
async fn i7_a_peel_drops_a_forged_command_and_a_master_forged_events() {
    let shell = fleet(RULES);
    // The rule would make this file, for any of the events below.
    let fired = shell.path("fired");
    let adversary = credentials(&shell, "web-01");
    let client = join(&shell, &adversary).await;
    let (facts, victim) = ("$KV.facts.web-01", "zester.cmd.web-02");
    let made = shell.path("forged");
    let forgeries = [
        sealed(victim, &touching(&made, false), &Unsigned),
        sealed(victim, &touching(&made, false), &adversary),
        sealed(victim, &touching(&made, true), &adversary),
    ];
    let count = "zester_messages_dropped{reason=\"spoof\"}";
    for (number, forged) in forgeries.into_iter().enumerate() {
        // Not by the way that the server watches, but as the answer to a question of its own.
        client.publish(victim, forged.clone().into()).await.unwrap();
        client.request(facts, forged.into()).await.unwrap();
        let read = "$JS.API.DIRECT.GET.KV_facts.$KV.facts.web-01";
        client.publish_with_reply(read, victim, "".into()).await.unwrap();
        client.flush().await.unwrap();
        wait_for("the forged command to be dropped", PATIENCE, || {
            (spoofs(&shell, VICTIM, count) > number as u64).then_some(())
        });
    }
    assert_eq!(spoofs(&shell, VICTIM, count), 3, "each came once, by the answer alone");
    assert!(shell.log(VICTIM).contains("dropped a message"), "{}", shell.log(VICTIM));

    // Events: the server denies the peel these subjects, so somebody speaks who may say anything in CORE.
    let event = Event {
        id: "forged".into(),
        tag: Tag::parse("forged").unwrap(),
        data: serde_json::Map::new(),
        ts: SystemClock.wall(),
        v: VERSION,
        origin: String::new(),
        depth: 0,
    };
    let broker = join(&shell, &broker(&shell, &adversary)).await;
    let subjects =
        ["zester.event._master.forged", "zester.event._admin.send.forged", "zester.event.web-02.send.forged"];
    for subject in subjects {
        client.publish(subject, sealed(subject, &event, &adversary).into()).await.unwrap();
        for signer in [&adversary as &dyn Signer, &Unsigned] {
            broker.publish(subject, sealed(subject, &event, signer).into()).await.unwrap();
        }
    }
    client.flush().await.unwrap();
    broker.flush().await.unwrap();
    let dropped = |shell: &Shell| -> u64 {
        let text = shell.metrics(MASTER);
        let of = text.lines().filter(|line| line.starts_with("zester_reactor_events_dropped_total"));
        let of = of.filter(|line| line.contains("spoof"));
        of.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum()
    };
    wait_for("the forged events to be dropped", PATIENCE, || (dropped(&shell) >= 6).then_some(()));
    // A good one gets through to the same rule, so the rule could have fired.
    assert!(!fired.exists() && !made.exists());
    shell.succeeds("zester event send forged");
    wait_for("the rule for a good event", PATIENCE, || fired.exists().then_some(()));
    assert_eq!(dropped(&shell), 6);
    assert!(!made.exists(), "a forged command was run");
}
