//! The key that masters revoke with, while and after it is replaced (I-5, I-15).

use crate::daemon::PATIENCE;
use crate::shell::Shell;
use zester_rule::rule;
use zester_testkit::wait_for;

const SERVER: usize = 0;

/// A server, a master that revokes with its own copy of the directory, one peel by hand, and one that enrolled.
fn fleet() -> Shell {
    let mut shell = Shell::new();
    shell.follow(
        "zester auth init --dir keys --host localhost\n\
         cp -a keys/revoker own-revoker\n\
         nats-server -c keys/nats-server.conf &\n\
         zester auth issue web-01 --dir keys\n\
         export ZESTER_NATS_URL=tls://localhost:4222 ZESTER_CA=keys/tls/ca.pem\n\
         zester master run --creds keys/creds/master.creds --data-dir master --listen 127.0.0.1:4443 --door keys/door --revoker own-revoker &\n\
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
    shell.succeeds("zester auth rotate revoker --dir keys");
    shell.succeeds("zester auth push --dir keys");
    restart_server(&mut shell);
    shell.succeeds("zester web-02 test.ping --timeout 10s");
    let told = shell.succeeds("zester enroll revoke web-02");
    assert!(told.contains("the server was not told"), "{told}");
    assert!(told.contains("revoker/") && !told.contains("the server ends its connection"), "{told}");
    // What the server kept is what it believes: a peel gets in after it was restarted.
    restart_server(&mut shell);
    shell.succeeds("zester web-01 test.ping --timeout 10s");
    // With the key that counts the same master ends what it could not.
    assert!(shell.command("cp -a keys/revoker/. own-revoker").status().unwrap().success());
    shell.background[1].kill().unwrap();
    shell.background[1].wait().unwrap();
    shell.begins("zester master run --creds keys/creds/master.creds --data-dir master --revoker own-revoker");
    let master = shell.background.len() - 1;
    wait_for("the server is told", PATIENCE, || {
        shell.log(master).contains("the server keeps out who was revoked").then_some(())
    });
}
