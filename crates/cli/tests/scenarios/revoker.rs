//! The key that masters revoke with, while and after it is replaced (I-5, I-15).

use crate::daemon::PATIENCE;
use crate::forgeries::{credentials, join as join_bus};
use crate::shell::Shell;
use serde_json::Value;
use zester_identity::{KeyKind, KeyPair, authority, jwt};
use zester_link::{Clock, SystemClock};
use zester_rule::rule;
use zester_testkit::wait_for;

const SERVER: usize = 0;
const MASTER: usize = 1;

/// A server, a master that revokes with its own copy of the directory, one peel by hand, and one that enrolled.
fn fleet() -> Shell {
    let mut shell = Shell::new();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         cp -a keys/revoker own-revoker\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --listen 127.0.0.1:4443 --door keys/door --revoker own-revoker --health 0 &\n\
         zester peel run --id web-01 --creds keys/creds/web-01.creds --data-dir web-01 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester web-01 test.ping --timeout 10s",
    );
    let (door, word) = (shell.door(), shell.succeeds("zester enroll token web-02"));
    shell.begins(&format!(
        "zester peel run --id web-02 --master https://localhost:{door} --pin $(zester auth pin --dir keys) --token {} --data-dir web-02",
        word.trim()
    ));
    shell.succeeds("zester web-02 test.ping");
    shell
}

fn restart_server(shell: &mut Shell) {
    shell.background[SERVER].kill().unwrap();
    shell.background[SERVER].wait().unwrap();
    shell.restart_server();
}

/// A server takes an account of anybody and keeps it: it asks who signed it only when it loads it. So nobody else asks but us.
#[test]
#[rule("I-15", "I-5")]
fn i15_a_master_with_a_key_that_counts_no_more_locks_nobody_out() {
    let mut shell = fleet();
    shell.succeeds("zester auth rotate revoker --dir keys");
    shell.succeeds("zester auth rotate revoker --end --dir keys");
    shell.succeeds("zester auth push --dir keys");
    restart_server(&mut shell);
    shell.succeeds("zester web-02 test.ping --timeout 10s");
    let told = shell.succeeds("zester enroll revoke web-02");
    assert!(told.contains("the server was not told"), "{told}");
    assert!(told.contains("revoker/") && !told.contains("the server ends its connection"), "{told}");
    assert!(
        shell.health(MASTER, "/readyz").contains("revoker: degraded"),
        "{}",
        shell.health(MASTER, "/readyz")
    );
    // What the server kept is what it believes: a peel gets in after it was restarted.
    restart_server(&mut shell);
    shell.succeeds("zester web-01 test.ping --timeout 10s");
    // With the key that counts the same master ends what it could not.
    assert!(shell.command("cp -a keys/revoker/. own-revoker").status().unwrap().success());
    shell.background[MASTER].kill().unwrap();
    shell.background[MASTER].wait().unwrap();
    shell.begins("zester master run --creds keys/creds/master.creds --data-dir master --revoker own-revoker");
    let master = shell.background.len() - 1;
    wait_for("the server is told", PATIENCE, || {
        shell.log(master).contains("the server keeps out who was revoked").then_some(())
    });
}

/// What a master signs is believed, also what somebody else wrote into it.
#[test]
#[rule("I-5", "I-8")]
fn i5_a_master_makes_no_account_its_own_that_the_server_does_not_believe() {
    let shell = fleet();
    let fleet: Value =
        serde_json::from_str(&std::fs::read_to_string(shell.path("keys/fleet.json")).unwrap()).unwrap();
    let kept = shell.path(&format!("keys/nats/accounts/{}.jwt", fleet["peels"].as_str().unwrap()));
    let account = jwt::verify(&std::fs::read_to_string(&kept).unwrap()).unwrap().claims;
    let stranger = KeyPair::new(KeyKind::Operator, [7; 32]).unwrap();
    let victim = credentials(&shell, "web-01").pair.public().clone();
    let (forged, _) =
        authority::with_revoked(&account, std::slice::from_ref(&victim), &stranger, SystemClock.wall())
            .unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let system = join_bus(&shell, &credentials(&shell, "sys")).await;
        system.request("$SYS.REQ.CLAIMS.UPDATE", forged.clone().into()).await.unwrap();
    });
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), forged, "the server keeps it");
    let told = shell.succeeds("zester enroll revoke web-02");
    assert!(told.contains("the server was not told") && told.contains("`zester auth push`"), "{told}");
    assert_eq!(std::fs::read_to_string(&kept).unwrap(), forged);
    shell.succeeds("zester web-01 test.ping --timeout 10s");
    // Once it keeps one that it believes it is told of whom it was not.
    shell.succeeds("zester auth push --dir keys");
    wait_for("the server is told", PATIENCE, || {
        shell.log(MASTER).contains("the server keeps out who was revoked").then_some(())
    });
    // Whom the stranger wanted out stays in.
    let fleet = std::fs::read_to_string(shell.path("keys/fleet.json")).unwrap();
    assert!(!fleet.contains(&format!("{:?}: 1", victim.as_str())), "{fleet}");
    shell.succeeds("zester web-01 test.ping --timeout 10s");
}

/// Whoever has the directory of a master that revokes has the credentials of the system user besides.
#[test]
#[rule("I-15", "I-5")]
fn i15_after_a_theft_the_system_user_is_out_too() {
    let mut shell = fleet();
    let told = shell.succeeds("zester auth rotate revoker --stolen --dir keys");
    let words = ["`zester auth push`", "nats-server.conf", "`zester auth push` again", "give revoker/"];
    let places: Vec<Option<usize>> = words.iter().map(|words| told.find(words)).collect();
    assert!(places.is_sorted() && places[0].is_some(), "{told}");
    shell.succeeds("zester auth push --dir keys");
    restart_server(&mut shell);
    shell.succeeds("zester auth push --dir keys");
    // With what was stolen nobody talks to the server itself.
    std::fs::copy(shell.path("own-revoker/sys.creds"), shell.path("keys/creds/sys.creds")).unwrap();
    let refused = shell.run("zester auth push --dir keys");
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stdout));
}

#[test]
#[rule("I-15")]
fn i15_a_rotation_that_ended_half_way_goes_on_when_it_is_repeated_and_never_further() {
    let shell = Shell::new();
    shell.succeeds("zester auth init --dir keys --host localhost");
    let keys = |shell: &Shell| {
        let fleet = std::fs::read_to_string(shell.path("keys/fleet.json")).unwrap();
        let fleet: Value = serde_json::from_str(&fleet).unwrap();
        (fleet["revoker"].clone(), fleet["former_revoker"].clone())
    };
    let said = |line: &str| {
        let output = shell.run(line);
        let said = [&output.stdout, &output.stderr].map(|said| String::from_utf8_lossy(said).into_owned());
        (output.status.success(), said.concat())
    };
    let (first, none) = keys(&shell);
    assert!(none.is_null());
    let (ok, words) = said("zester auth rotate revoker --end --dir keys");
    assert!(!ok && words.contains("zester auth rotate revoker"), "{words}");
    // The configuration cannot be written: what is written beside it is a directory.
    let in_the_way = shell.path("keys/nats-server.conf.new");
    std::fs::create_dir(&in_the_way).unwrap();
    let (ok, words) = said("zester auth rotate revoker --dir keys");
    assert!(!ok, "{words}");
    let (second, former) = keys(&shell);
    assert!(former == first && second != first);
    let (ok, words) = said("zester auth lint --dir keys");
    assert!(!ok && words.contains("nats-server.conf names other keys"), "{words}");
    assert!(words.contains("--end"), "{words}");
    // Neither a repetition nor the end gives the key up that all servers believe alone.
    let (ok, words) = said("zester auth rotate revoker --end --dir keys");
    assert!(!ok && words.contains("does not name the new key yet"), "{words}");
    assert!(!said("zester auth rotate revoker --dir keys").0);
    std::fs::remove_dir(&in_the_way).unwrap();
    let (ok, words) = said("zester auth rotate revoker --dir keys");
    assert!(ok && words.contains("the key before counts as well"), "{words}");
    assert_eq!(keys(&shell), (second.clone(), first.clone()));
    let (ok, words) = said("zester auth lint --dir keys");
    assert!(!ok && !words.contains("nats-server.conf"), "{words}");
    // The end can be repeated in the same way.
    std::fs::create_dir(&in_the_way).unwrap();
    assert!(!said("zester auth rotate revoker --end --dir keys").0);
    assert_eq!(keys(&shell), (second.clone(), first));
    std::fs::remove_dir(&in_the_way).unwrap();
    let (ok, words) = said("zester auth rotate revoker --end --dir keys");
    assert!(ok && words.contains("is given up"), "{words}");
    assert_eq!(keys(&shell), (second, Value::Null));
    assert!(said("zester auth lint --dir keys").1.contains("nothing is wrong"));
    // A fleet that had none before gets its first one, and no other counts as well.
    let text = std::fs::read_to_string(shell.path("keys/fleet.json")).unwrap();
    let mut fleet: Value = serde_json::from_str(&text).unwrap();
    fleet["revoker"] = Value::Null;
    std::fs::write(shell.path("keys/fleet.json"), fleet.to_string()).unwrap();
    let (ok, words) = said("zester auth rotate revoker --dir keys");
    assert!(ok && words.contains("the first of this fleet") && !words.contains("counts as well"), "{words}");
}
