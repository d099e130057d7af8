//! Operators with roles: what they get done, what they do not, and what they are told.

use crate::daemon::PATIENCE;
use crate::shell::Shell;
use std::process::Output;
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
    for (words, told) in [("peel forget web-02", "bob may not forget"), ("publish", "bob may not publish")] {
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
