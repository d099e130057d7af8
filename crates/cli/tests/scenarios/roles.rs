//! Operators with roles: what they get done, what they do not, and what they are told.

use crate::daemon::PATIENCE;
use crate::shell::Shell;
use std::process::Output;
use zester_identity::Role;
use zester_rule::rule;
use zester_testkit::wait_for;

const ROLES: &str = "deployers:
  - allow: [state.apply, test.ping]
    targets: 'web-01'
  - allow: ['cmd.*']
    targets: 'web-01'
    direct: true
  - allow: [state.apply]
    test_only: true
  - verbs: [kill]
";

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
#[rule("I-14", "J-21")]
fn i14_an_operator_does_what_its_roles_allow_and_nothing_else() {
    let mut shell = Shell::new();
    std::fs::write(shell.path("roles.yaml"), ROLES).unwrap();
    std::fs::create_dir(shell.path("reactor")).unwrap();
    std::fs::write(shell.path("reactor/top.zy"), "reactor: []\n").unwrap();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         zester auth issue web-02 --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --states states --reactor reactor --health 0 &\n\
         zester peel run --id web-01 --creds keys/creds/web-01.creds --data-dir web-01 &\n\
         zester peel run --id web-02 --creds keys/creds/web-02.creds --data-dir web-02 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester 'web*' test.ping --timeout 5s\n\
         zester auth roles roles.yaml --dir keys\n\
         zester auth admin bob --role deployers --dir keys\n\
         zester auth push --dir keys",
    );
    let bob = "--creds keys/creds/bob.creds --timeout 10s";
    // The daemons take the new roster as it comes.
    wait_for("the roster at the master", PATIENCE, || {
        shell.run(&format!("zester web-01 test.ping {bob}")).status.success().then_some(())
    });
    shell.succeeds(&format!("zester web-01 state.apply hello {bob}"));
    shell.succeeds(&format!("zester 'web*' state.apply hello --test {bob}"));
    wait_for("the roster at the peel", PATIENCE, || {
        shell.run(&format!("zester web-01 cmd.run true --direct {bob}")).status.success().then_some(())
    });
    for (words, told) in [
        ("web-02 state.apply hello", "bob may not state.apply on web-02: no line of deployers allows it"),
        ("'web*' test.ping", "bob may not test.ping on web-02"),
        ("web-01 pkg.installed vim", "bob may not pkg.installed on web-01"),
        ("web-01 state.single cmd.run true", "bob may not state.single on web-01"),
        ("web-02 cmd.run true --direct", "bob may not cmd.run --direct on web-02"),
        ("web-01 test.ping --direct", "bob may not test.ping --direct on web-01"),
    ] {
        let output = shell.run(&format!("zester {words} {bob}"));
        assert!(!output.status.success() && said(&output).contains(told), "{words}: {}", said(&output));
    }
    let creds = "--creds keys/creds/bob.creds";
    for (words, told) in [
        ("peel forget web-02", "bob may not forget"),
        ("publish", "bob may not publish"),
        ("publish --states states", "bob has roles, and operators with roles upload nothing"),
    ] {
        let output = shell.run(&format!("zester {words} {creds}"));
        assert!(!output.status.success() && said(&output).contains(told), "{words}: {}", said(&output));
    }
    // An event of an operator without that verb is dropped as if it were forged.
    shell.run(&format!("zester event send deploy/done {creds}"));
    wait_for("the dropped event", PATIENCE, || {
        let text = shell.metrics(1);
        let dropped = text.lines().filter(|line| line.starts_with("zester_reactor_events_dropped_total"));
        dropped.filter(|line| line.contains("spoof")).any(|line| !line.ends_with(" 0")).then_some(())
    });
    // Nor is it one for a replay, which knows the roles too.
    wait_for("the drop in the ledger", PATIENCE, || {
        shell.succeeds("zester reactor history").contains("spoof").then_some(())
    });
    let replay = shell.succeeds("zester reactor replay --rules reactor --since 1h --format json");
    let replay: serde_json::Value = serde_json::from_str(&replay).unwrap();
    assert_eq!((&replay["dropped"], &replay["different"]), (&1.into(), &0.into()), "{replay}");
    // What was decided, and by which line.
    for (words, code, told) in [
        ("bob web-01 state.apply", 0, "roles.yaml:2:5"),
        ("bob web-02 state.apply", 2, "no line of deployers allows it"),
        ("bob 'web*' state.apply --test", 0, "roles.yaml:7:5"),
        ("bob web-01 cmd.run --direct", 0, "roles.yaml:4:5"),
        ("bob '*' publish", 2, "bob may not publish"),
        ("admin '*' cmd.run", 0, "may do everything"),
    ] {
        let output = shell.run(&format!("zester auth can {words}"));
        assert_eq!(output.status.code(), Some(code), "{words}: {}", said(&output));
        assert!(said(&output).contains(told), "{words}: {}", said(&output));
    }
    // Refusals are in the log, with who and which request.
    let log = shell.succeeds("zester audit list --refused --format json");
    let log: serde_json::Value = serde_json::from_str(&log).unwrap();
    let entries = log["entries"].as_array().unwrap();
    let of_bob =
        |act: &str| entries.iter().filter(|one| one["act"] == act && one["who"] == "operator bob").count();
    assert!(of_bob("dispatch") >= 4 && of_bob("forget") == 1 && of_bob("publish") >= 1, "{log}");
    assert!(entries.iter().all(|one| one["request"].as_str().is_some_and(|id| !id.is_empty())), "{log}");
    // An admin goes on as before.
    shell.succeeds("zester 'web*' cmd.run true --timeout 10s");
}

/// The roles of those who look around: what they may see, and a little that they may do.
const READERS: &str = "readers:
  - allow: [test.ping, cmd.run, schedule.list]
    targets: 'web*'
    direct: true
  - verbs: [kill, retry, event]
";

/// Whoever reads message by message is not told how much there is: nothing is no failure.
#[test]
#[rule("I-14")]
fn i14_an_operator_of_a_fleet_without_jobs_is_told_that_there_are_none() {
    let mut shell = Shell::new();
    std::fs::write(shell.path("roles.yaml"), READERS).unwrap();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth roles roles.yaml --dir keys --no-push\n\
         zester auth admin bob --role readers --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --states states --health 0 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester auth push --dir keys",
    );
    let bob = "--creds keys/creds/bob.creds";
    let of_admin = shell.succeeds("zester job list --format json");
    let jobs: serde_json::Value = serde_json::from_str(&of_admin).unwrap();
    assert_eq!(jobs["jobs"], serde_json::json!([]), "{of_admin}");
    assert_eq!(shell.succeeds(&format!("zester job list --format json {bob}")), of_admin);
    for unknown in ["2hPx2Kd8VnR7YmWqTz4PLsCfNjA", "2hPx2Kd8"] {
        let output = shell.run(&format!("zester job show {unknown} {bob}"));
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        assert!(said(&output).contains(&format!("there is no job `{unknown}`")), "{}", said(&output));
    }
}

/// Everything that is only looked at is answered in an account without JetStream as it is in that of the masters.
#[test]
#[rule("I-14")]
fn i14_an_operator_with_roles_sees_what_an_admin_sees() {
    let mut shell = Shell::new();
    std::fs::write(shell.path("roles.yaml"), READERS).unwrap();
    std::fs::create_dir(shell.path("reactor")).unwrap();
    std::fs::write(shell.path("reactor/top.zy"), "reactor:\n  - '_admin/deploy/*': [reactor.tell]\n")
        .unwrap();
    std::fs::write(shell.path("reactor/tell.zy"), "tell:\n  event.send:\n    tag: told\n").unwrap();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         zester auth roles roles.yaml --dir keys --no-push\n\
         zester auth admin bob --role readers --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --states states --reactor reactor --health 0 &\n\
         zester peel run --id web-01 --creds keys/creds/web-01.creds --data-dir web-01 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester auth push --dir keys\n\
         zester web-01 test.ping --timeout 10s",
    );
    let bob = "--creds keys/creds/bob.creds";
    wait_for("the roster at the master", PATIENCE, || {
        shell.run(&format!("zester web-01 test.ping --timeout 10s {bob}")).status.success().then_some(())
    });
    // A job that is followed as it runs, one that is looked at later, and one that is ended.
    let followed = shell.succeeds(&format!("zester web-01 cmd.run 'echo hello' --timeout 30s {bob}"));
    assert!(followed.contains("hello"), "{followed}");
    let direct = shell.run(&format!("zester web-01 cmd.run 'echo past' --direct --timeout 30s {bob}"));
    assert!(said(&direct).contains("past"), "{}", said(&direct));
    // Events, watched by whoever is none of the masters: those of peels, of masters, of admins and its own.
    let watch = shell.background.len();
    shell.begins(&format!("zester event watch --since 1h {bob}"));
    shell.succeeds("zester event send deploy/admin");
    shell.succeeds(&format!("zester event send deploy/bob {bob}"));
    for event in ["_admin/deploy/admin", "_admin/deploy/bob", "_master/reaction/told"] {
        wait_for(event, PATIENCE, || shell.log(watch).contains(event).then_some(()));
    }
    wait_for("both decisions", PATIENCE, || {
        let history = shell.succeeds(&format!("zester reactor history {bob}"));
        (history.matches("reactor.tell").count() >= 2).then_some(())
    });
    // Nothing happens between two looks: those of an admin and of an operator say the same.
    let jobs = shell.succeeds("zester job list --format json");
    let jobs: serde_json::Value = serde_json::from_str(&jobs).unwrap();
    let jid = jobs["jobs"][0]["jid"].as_str().unwrap().to_string();
    for words in [
        "job list --format json".to_string(),
        format!("job show {jid} --format json"),
        format!("job show {} --format json", &jid[..20]),
        "reactor history --format json".to_string(),
        "reactor rules --format json".to_string(),
        "enroll list --format json".to_string(),
        "audit list --format json".to_string(),
        "target 'web*' --format json".to_string(),
        "auth can bob web-01 test.ping".to_string(),
    ] {
        let of_admin = shell.succeeds(&format!("zester {words}"));
        assert_eq!(shell.succeeds(&format!("zester {words} {bob}")), of_admin, "{words}");
    }
    for words in ["peel list", "peel show web-01", "audit verify", "job active", "schedule list"] {
        let (of_admin, of_bob) =
            (shell.run(&format!("zester {words}")), shell.run(&format!("zester {words} {bob}")));
        assert_eq!(of_bob.status.code(), of_admin.status.code(), "{words}: {}", said(&of_bob));
    }
    // The server starts again, and whoever of the accounts connects first finds all of it joined.
    shell.background[0].kill().unwrap();
    shell.background[0].wait().unwrap();
    shell.restart_server();
    let followed = shell.succeeds(&format!("zester web-01 cmd.run 'echo again' --timeout 30s {bob}"));
    assert!(followed.contains("again"), "{followed}");
    shell.succeeds(&format!("zester web-01 cmd.run true --direct --timeout 30s {bob}"));
    assert!(shell.succeeds(&format!("zester job show {jid} {bob}")).contains(&jid));
    assert!(!shell.log(1).contains("panicked"));
}

/// What an earlier release made: an operator among the masters.
fn earlier(shell: &Shell, name: &str) {
    let read = |file: &str| std::fs::read_to_string(shell.path(file)).unwrap();
    let path = format!("keys/creds/{name}.creds");
    let now = zester_identity::Credentials::parse(&read(&path)).unwrap().unwrap();
    let core = zester_identity::KeyPair::from_seed(read("keys/keys/core.nk").trim()).unwrap();
    // It read as admins do.
    let claims = zester_identity::accounts::member(Role::Admin, name, now.pair.public(), 1_700_000_000);
    let before = zester_identity::Credentials { jwt: claims.issued_by(&core), ..now };
    std::fs::write(shell.path(&path), before.to_text().unwrap()).unwrap();
    let mut fleet: serde_json::Value = serde_json::from_str(&read("keys/fleet.json")).unwrap();
    fleet.as_object_mut().unwrap().remove("operators").unwrap();
    std::fs::write(shell.path("keys/fleet.json"), fleet.to_string()).unwrap();
    std::fs::remove_file(shell.path("keys/keys/operators.nk")).unwrap();
}

#[test]
#[rule("I-14", "I-15")]
fn i14_a_fleet_of_an_earlier_release_gets_its_operators_out_of_core() {
    let mut shell = Shell::new();
    std::fs::write(shell.path("roles.yaml"), READERS).unwrap();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         zester auth roles roles.yaml --dir keys --no-push\n\
         zester auth admin bob --role readers --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --health 0 &\n\
         zester peel run --id web-01 --creds keys/creds/web-01.creds --data-dir web-01 &\n\
         export ZESTER_CREDS=keys/creds/admin.creds\n\
         zester auth push --dir keys\n\
         zester web-01 test.ping --timeout 10s",
    );
    earlier(&shell, "bob");
    std::fs::copy(shell.path("keys/creds/bob.creds"), shell.path("old.creds")).unwrap();
    shell.succeeds("zester web-01 test.ping --timeout 10s --creds old.creds");
    let lint = shell.run("zester auth lint --dir keys");
    assert!(!lint.status.success() && said(&lint).contains("bob"), "{}", said(&lint));
    assert!(said(&lint).contains("`zester auth push`"), "{}", said(&lint));
    // Without the key that signs operators nothing is done by halves.
    std::fs::rename(shell.path("keys/keys/core.nk"), shell.path("core.nk")).unwrap();
    let offline = shell.run("zester auth push --dir keys");
    assert!(
        !offline.status.success() && said(&offline).contains("core.nk is not here"),
        "{}",
        said(&offline)
    );
    shell.succeeds("zester web-01 test.ping --timeout 10s --creds old.creds");
    std::fs::rename(shell.path("core.nk"), shell.path("keys/keys/core.nk")).unwrap();
    // One that reaches no server has moved bob, and what is left to do is said again until it is done.
    let nowhere = shell.run("zester auth push --dir keys --nats tls://localhost:1");
    assert!(!nowhere.status.success() && said(&nowhere).contains("give bob"), "{}", said(&nowhere));
    let lint = shell.run("zester auth lint --dir keys");
    assert!(!lint.status.success() && said(&lint).contains("give bob"), "{}", said(&lint));
    let told = shell.run("zester auth push --dir keys");
    assert!(
        told.status.success() && said(&told).contains("give bob the new keys/creds/bob.creds"),
        "{}",
        said(&told)
    );
    // What it had opens nothing any more, and says why.
    let refused = shell.run("zester web-01 test.ping --creds old.creds");
    assert!(!refused.status.success(), "{}", said(&refused));
    assert!(
        said(&refused).contains("operators with roles have an account of their own"),
        "{}",
        said(&refused)
    );
    // What it has now works, and everybody else goes on.
    wait_for("the roster at the master", PATIENCE, || {
        let ping = shell.run("zester web-01 test.ping --timeout 10s --creds keys/creds/bob.creds");
        ping.status.success().then_some(())
    });
    shell.succeeds("zester web-01 cmd.run true --direct --timeout 10s --creds keys/creds/bob.creds");
    shell.succeeds("zester web-01 cmd.run true --timeout 10s");
    shell.succeeds("zester auth lint --dir keys");
    let again = shell.run("zester auth push --dir keys");
    assert!(again.status.success() && !said(&again).contains("give bob"), "{}", said(&again));
    shell.succeeds("zester web-01 test.ping --timeout 10s --creds keys/creds/bob.creds");
}

#[test]
#[rule("I-14")]
fn i14_a_secure_fleet_of_one_machine_says_whom_it_moved_out_of_core() {
    let mut shell = Shell::new();
    std::fs::write(shell.path("roles.yaml"), READERS).unwrap();
    std::fs::create_dir(shell.path("fleet")).unwrap();
    std::os::unix::fs::symlink("fleet/auth", shell.path("keys")).unwrap();
    shell.follow(
        "zester auth init --dir fleet/auth --host 127.0.0.1\n\
         zester auth roles roles.yaml --dir keys --no-push\n\
         zester auth admin bob --role readers --dir keys",
    );
    earlier(&shell, "bob");
    shell.begins("zester up --secure --data-dir fleet --peels 1 --name moved");
    wait_for("what is to be done for bob", PATIENCE, || {
        let log = shell.log(0);
        let is_said = log.contains("give bob the new");
        assert!(is_said || !log.contains("is up"), "{log}");
        is_said.then_some(())
    });
    shell.stop(0);
}
