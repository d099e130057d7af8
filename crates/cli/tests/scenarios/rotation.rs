//! Every key of a fleet gets a successor while work goes on, and no job fails (I-15).

use crate::daemon::PATIENCE;
use crate::forgeries::{credentials, join as join_bus};
use crate::secure::block;
use crate::shell::Shell;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use zester_identity::{KeyPair, authority, jwt};
use zester_link::{Clock, SystemClock};
use zester_rule::rule;
use zester_testkit::wait_for;

const SERVER: usize = 0;
const MASTER: usize = 1;
const PEEL: usize = 2;

/// Calls to all peels, one after the other, until it is told to end. What failed is kept in words.
struct Load {
    stop: Arc<AtomicBool>,
    done: Arc<AtomicUsize>,
    calls: JoinHandle<Vec<String>>,
}

impl Load {
    fn begin(shell: &Shell, line: &str) -> Load {
        let (stop, done) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (ends, counts, mut command) = (stop.clone(), done.clone(), shell.command(line));
        let calls = std::thread::spawn(move || {
            let mut failed = Vec::new();
            while !ends.load(Ordering::SeqCst) {
                let output = command.output().unwrap();
                if !output.status.success() {
                    let [out, err] = [&output.stdout, &output.stderr]
                        .map(|said| String::from_utf8_lossy(said).into_owned());
                    failed.push(format!("{out}{err}"));
                }
                counts.fetch_add(1, Ordering::SeqCst);
            }
            failed
        });
        Load { stop, done, calls }
    }

    /// Until some more calls have begun and ended.
    fn goes_on(&self) {
        let wanted = self.done.load(Ordering::SeqCst) + 4;
        wait_for("more calls", PATIENCE, || (self.done.load(Ordering::SeqCst) >= wanted).then_some(()));
    }

    /// Ends it: no job may have failed.
    fn ends(self) -> usize {
        self.stop.store(true, Ordering::SeqCst);
        let failed = self.calls.join().unwrap();
        assert!(
            failed.is_empty(),
            "{} of {} calls failed: {}",
            failed.len(),
            self.done.load(Ordering::SeqCst),
            failed.join("\n")
        );
        self.done.load(Ordering::SeqCst)
    }
}

fn signal(child: &Child, signal: Signal) {
    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
}

fn stop(shell: &mut Shell, number: usize) {
    signal(&shell.background[number], Signal::SIGTERM);
    wait_for("the end of a daemon", PATIENCE, || shell.background[number].try_wait().unwrap());
}

fn ready(shell: &Shell, number: usize) {
    wait_for("the next master", PATIENCE, || {
        shell.log(number).contains("the index of peels is complete").then_some(())
    });
}

fn key_of(shell: &Shell, name: &str) -> String {
    let shown = shell.succeeds(&format!("zester enroll show {name} --format json"));
    let shown: Value = serde_json::from_str(&shown).unwrap();
    shown["key"].as_str().unwrap().to_string()
}

#[test]
#[rule("I-15", "I-4")]
fn i15_every_key_gets_a_successor_under_load_and_no_job_fails() {
    let mut shell = Shell::new();
    shell.follow(block("## In production"));
    // A second peel, whose credentials are issued by hand.
    shell.succeeds("zester auth issue web-02 --dir keys");
    let bus = "--nats tls://localhost:4222 --ca keys/tls/ca.pem";
    let by_hand =
        format!("zester peel run --id web-02 {bus} --creds keys/creds/web-02.creds --data-dir web-02");
    shell.begins(&by_hand);
    shell.succeeds("zester web-02 test.ping");
    // Whoever works with a key of the directory has a copy: a new one is of use once everybody was told of it.
    let given_out =
        |shell: &Shell| std::fs::copy(shell.path("keys/creds/admin.creds"), shell.path("ops.creds")).unwrap();
    given_out(&shell);
    let load = Load::begin(&shell, "zester 'L@web-01,web-02' test.ping --timeout 40s --creds ops.creds");

    // The key of a peel that enrolled: it makes a new one by itself, and goes on with it.
    let before = key_of(&shell, "web-01");
    let old_key = std::fs::read_to_string(shell.path("web-01/creds/peel.nk")).unwrap();
    let next = shell.succeeds("zester peel rekey --data-dir web-01");
    let next = next.lines().next().unwrap().to_string();
    wait_for("the new key", PATIENCE, || shell.log(PEEL).contains("the key is replaced").then_some(()));
    assert_eq!(key_of(&shell, "web-01"), next);
    assert!(!shell.path("web-01/creds/next.nk").exists());
    assert_ne!(std::fs::read_to_string(shell.path("web-01/creds/peel.nk")).unwrap(), old_key);
    load.goes_on();

    // The key of a peel by hand: both count, and the peel is restarted with the new one.
    shell.succeeds("zester auth issue web-02 --dir keys");
    let number = shell.background.len() - 1;
    stop(&mut shell, number);
    shell.begins(&by_hand);
    load.goes_on();

    // The issuer: what the one before vouched for goes on.
    shell.succeeds("zester auth rotate issuer --dir keys");
    shell.succeeds("zester auth push --dir keys");
    load.goes_on();

    // The certificate of the server, which takes it up while connections stand.
    shell.succeeds("zester auth rotate server --host localhost --host 127.0.0.1 --dir keys");
    signal(&shell.background[SERVER], Signal::SIGHUP);
    wait_for("the server's new certificate", PATIENCE, || {
        shell.log(SERVER).contains("Reloaded: tls").then_some(())
    });
    load.goes_on();

    // Who tells the server of accounts: the one before is out once its successor has said so.
    let sys = std::fs::read_to_string(shell.path("keys/creds/sys.creds")).unwrap();
    shell.succeeds("zester auth rotate sys --dir keys");
    assert_ne!(std::fs::read_to_string(shell.path("keys/creds/sys.creds")).unwrap(), sys);
    shell.succeeds("zester auth push --dir keys");
    std::fs::write(shell.path("old-sys.creds"), &sys).unwrap();
    load.goes_on();

    // The keys of an admin, of a master and of the door: a second master begins with them before the first one ends.
    shell.succeeds("zester auth rotate door --host localhost --host 127.0.0.1 --dir keys");
    for name in ["admin", "master"] {
        shell.succeeds(&format!("zester auth rotate {name} --dir keys"));
    }
    shell.succeeds("zester auth push --dir keys --creds ops.creds");
    given_out(&shell);
    let line = format!(
        "zester master run --id second {bus} --creds keys/creds/master.creds --data-dir second --states states --listen 127.0.0.1:0 --door keys/door"
    );
    shell.begins(&line);
    let second = shell.background.len() - 1;
    ready(&shell, second);
    load.goes_on();
    stop(&mut shell, MASTER);
    load.goes_on();
    let calls = load.ends();
    assert!(calls >= 24, "{calls}");

    // What came of it: everybody is who they were, and nobody was taken for a forger.
    let log = shell.log(second);
    assert!(!log.contains("dropped a message"), "{log}");
    let words = shell.succeeds("zester audit list --act enroll.rekey");
    assert!(words.contains("web-01"), "{words}");
    // The new door vouches with the new key: a new machine gets in, and believes the same CA.
    let address = std::fs::read_to_string(shell.path("second/door.address")).unwrap();
    let port = address.trim().rsplit_once(':').unwrap().1.to_string();
    let word = shell.succeeds("zester enroll token web-03").trim().to_string();
    shell.begins(&format!(
        "zester peel run --id web-03 --master https://localhost:{port} --pin $(zester auth pin --dir keys) --token {word} --data-dir web-03"
    ));
    shell.succeeds("zester web-03 test.ping");
    // With the key that was given up nobody gets anything: neither at the door nor, once its time is over, on the bus.
    std::fs::create_dir_all(shell.path("thief/creds")).unwrap();
    std::fs::write(shell.path("thief/creds/peel.nk"), &old_key).unwrap();
    let output = shell.run(&format!(
        "zester peel run --id web-01 --master https://localhost:{port} --pin $(zester auth pin --dir keys) --data-dir thief"
    ));
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && told.contains("another took its place"), "{told}");
    assert_ne!(before, next);
    // The user of the system account that was replaced is not let in.
    std::fs::copy(shell.path("old-sys.creds"), shell.path("keys/creds/sys.creds")).unwrap();
    let refused = shell.run("zester auth push --dir keys");
    assert!(!refused.status.success(), "{}", String::from_utf8_lossy(&refused.stdout));
}

#[test]
#[rule("I-15", "I-4")]
fn i15_a_peel_that_was_down_or_died_while_its_key_changed_comes_back_with_the_new_one() {
    let mut shell = Shell::new();
    shell.follow(block("## In production"));
    let line = block("## In production").lines().find(|line| line.starts_with("zester peel run")).unwrap();
    let line = line.trim_end_matches(" &").to_string();
    stop(&mut shell, PEEL);
    let next = shell.succeeds("zester peel rekey --data-dir web-01").lines().next().unwrap().to_string();
    assert!(shell.succeeds("zester peel rekey --data-dir web-01").starts_with(&next), "made once");
    let copied = shell.command("cp -a web-01/creds before").status().unwrap();
    assert!(copied.success());
    // It takes the key at its start, and goes on with it.
    for _ in 0..2 {
        shell.begins(&line);
        shell.succeeds("zester web-01 test.ping");
        assert_eq!(key_of(&shell, "web-01"), next);
        let kept = std::fs::read_to_string(shell.path("web-01/creds/peel.nk")).unwrap();
        let kept = zester_identity::KeyPair::from_seed(kept.trim()).unwrap();
        assert_eq!(kept.public().as_str(), next);
        let last = shell.background.len() - 1;
        stop(&mut shell, last);
        // As if it had died once the door had the new key, and before it knew that.
        std::fs::remove_dir_all(shell.path("web-01/creds")).unwrap();
        assert!(shell.command("cp -a before web-01/creds").status().unwrap().success());
    }
    // A machine that never enrolled has no key to replace.
    let refused = shell.run("zester peel rekey --data-dir nobody");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && told.contains("zester auth issue"), "{told}");
}

/// A server reads what it trusts when it starts. Work that is under way outlives that, twice.
#[test]
#[rule("I-15", "I-5")]
fn i15_the_key_that_masters_revoke_with_gets_a_successor_while_a_job_runs() {
    let mut shell = Shell::new();
    let config = "keys/nats-server.conf";
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --listen 127.0.0.1:4443 --door keys/door --revoker keys/revoker &\n\
         zester peel run --id web-01 --creds keys/creds/web-01.creds --data-dir web-01 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester web-01 test.ping --timeout 10s",
    );
    let join = |shell: &mut Shell, name: &str| {
        let port = shell.path("master/door.address");
        let port = std::fs::read_to_string(port).unwrap().trim().rsplit_once(':').unwrap().1.to_string();
        let word = shell.succeeds(&format!("zester enroll token {name}")).trim().to_string();
        shell.begins(&format!(
            "zester peel run --id {name} --master https://localhost:{port} --pin $(zester auth pin --dir keys) --token {word} --data-dir {name}"
        ));
        shell.succeeds(&format!("zester {name} test.ping"));
    };
    // Something that the key before signed: an account, which the server keeps.
    join(&mut shell, "web-02");
    let revoked = shell.succeeds("zester enroll revoke web-02");
    assert!(revoked.contains("the server ends its connection"), "{revoked}");
    let old = std::fs::read_to_string(shell.path("keys/revoker/signer.nk")).unwrap();
    let gate = shell.path("gate");
    let waiting = format!("while [ ! -e {} ]; do sleep 0.1; done; echo done", gate.display());
    shell.begins(&format!("zester web-01 cmd.run \"{waiting}\" --timeout 180s"));
    let job = shell.background.len() - 1;
    wait_for("the job", PATIENCE, || {
        shell.succeeds("zester job active --format json").contains("cmd.run").then_some(())
    });
    let restart = |shell: &mut Shell| {
        shell.background[SERVER].kill().unwrap();
        shell.background[SERVER].wait().unwrap();
        shell.restart_server();
        shell.succeeds("zester web-01 test.ping --timeout 10s");
    };
    // Both count: a master with the key before still has the server end somebody.
    let before = std::fs::read_to_string(shell.path(config)).unwrap();
    let told = shell.succeeds("zester auth rotate revoker --dir keys");
    assert!(told.contains("the key before counts as well"), "{told}");
    assert_ne!(std::fs::read_to_string(shell.path(config)).unwrap(), before);
    restart(&mut shell);
    join(&mut shell, "web-03");
    assert!(shell.succeeds("zester enroll revoke web-03").contains("the server ends its connection"));
    stop(&mut shell, MASTER);
    std::fs::remove_file(shell.path("master/door.address")).unwrap();
    shell.begins(
        "zester master run --creds keys/creds/master.creds --data-dir master --listen 127.0.0.1:0 --door keys/door --revoker keys/revoker",
    );
    let master = shell.background.len() - 1;
    ready(&shell, master);
    // The key before is given up; what it signed is signed anew before the server stops believing it.
    let told = shell.succeeds("zester auth rotate revoker --end --dir keys");
    assert!(told.contains("is given up"), "{told}");
    shell.succeeds("zester auth push --dir keys");
    restart(&mut shell);
    join(&mut shell, "web-04");
    assert!(shell.succeeds("zester enroll revoke web-04").contains("the server ends its connection"));
    for (name, was) in [("web-02", true), ("web-03", true), ("web-04", true), ("web-01", false)] {
        let answer = shell.run(&format!("zester {name} test.ping --direct --timeout 3s"));
        assert_eq!(answer.status.success(), !was, "{name}: {}", String::from_utf8_lossy(&answer.stdout));
    }
    // Whoever has the key before has the server end nobody any more. (It keeps what such a one says, and goes by what it knows.)
    let old = KeyPair::from_seed(old.trim()).unwrap();
    let fleet = std::fs::read_to_string(shell.path("keys/fleet.json")).unwrap();
    let fleet: Value = serde_json::from_str(&fleet).unwrap();
    let kept = shell.path(&format!("keys/nats/accounts/{}.jwt", fleet["peels"].as_str().unwrap()));
    let account = jwt::verify(&std::fs::read_to_string(kept).unwrap()).unwrap().claims;
    let victim = credentials(&shell, "web-01").pair.public().clone();
    let (forged, _) = authority::with_revoked(&account, &[victim], &old, SystemClock.wall()).unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let system = join_bus(&shell, &credentials(&shell, "sys")).await;
        system.request("$SYS.REQ.CLAIMS.UPDATE", forged.into()).await.unwrap();
    });
    shell.succeeds("zester web-01 test.ping --direct --timeout 5s");
    let answer = shell.run("zester web-01 test.ping --direct --timeout 5s");
    assert!(answer.status.success(), "{}", String::from_utf8_lossy(&answer.stdout));
    assert!(!shell.log(PEEL).to_lowercase().contains("authorization"), "{}", shell.log(PEEL));
    // The job that began before all of it ends well.
    std::fs::write(&gate, "").unwrap();
    wait_for("the end of the job", PATIENCE, || shell.background[job].try_wait().unwrap());
    assert!(
        shell.background[job].wait().unwrap().success() && shell.log(job).contains("done"),
        "{}",
        shell.log(job)
    );
}
