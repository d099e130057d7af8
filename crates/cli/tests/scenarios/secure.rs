//! Fleets whose members have keys: from nothing as the README says it, and what happens to who is not wanted any more.

use crate::daemon::{Daemon, PATIENCE};
use crate::shell::Shell;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use zester_rule::rule;
use zester_testkit::wait_for;

const README: &str = include_str!("../../../../README.md");

/// The commands of a section of the README.
pub fn block(section: &str) -> &'static str {
    let (_, rest) = README.split_once(section).unwrap();
    let (_, rest) = rest.split_once("```sh\n").unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
#[rule("I-1", "I-3", "I-8")]
fn i1_from_nothing_to_a_fleet_with_keys_as_the_readme_says_it() {
    let mut shell = Shell::new();
    shell.follow(block("## In production"));
    assert_eq!(std::fs::read_to_string(shell.dir.path().join("hello")).unwrap(), "hi");
    for (number, who) in [(1, "master"), (2, "peel")] {
        let said = shell.log(number);
        assert!(said.contains("messages are signed"), "{who}: {said}");
        assert!(!said.contains("dropped a message"), "{who}: {said}");
    }
    // Every secret is its owner's alone, and one that is not is told.
    assert!(shell.succeeds("zester auth lint --dir keys").contains("nothing is wrong"));
    for below in ["keys/keys", "keys/creds", "keys/tls", "keys/door", "keys/revoker", "web-01/creds"] {
        for entry in std::fs::read_dir(shell.path(below)).unwrap().flatten() {
            let mode = entry.metadata().unwrap().permissions().mode() & 0o777;
            assert_eq!(mode, 0o600, "{}", entry.path().display());
        }
    }
    let open = shell.path("keys/keys/issuer.nk");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o640)).unwrap();
    let linted = shell.run("zester auth lint --dir keys");
    let said = String::from_utf8_lossy(&linted.stdout).into_owned();
    assert_eq!(linted.status.code(), Some(2), "{said}");
    assert!(said.contains("keys/keys/issuer.nk can be read by others: chmod 600 it"), "{said}");
    // Without the CA, without credentials, in plaintext and with a token nobody gets in.
    let (creds, ca) = ("--creds keys/creds/admin.creds", "--ca keys/tls/ca.pem");
    for (words, why) in [
        (format!("--nats tls://localhost:4222 {creds}"), "certificate"),
        (format!("--nats tls://localhost:4222 {ca}"), "does not let us in"),
        (format!("--nats tls://some-token@localhost:4222 {ca}"), "does not let us in"),
        (format!("--nats nats://localhost:4222 {creds}"), "certificate"),
        (format!("--nats nats://10.255.255.1:4222 {creds}"), "nothing would be encrypted"),
    ] {
        let mut command = shell.command(&format!("zester peel list {words}"));
        for name in ["ZESTER_CA", "ZESTER_CREDS", "ZESTER_NATS_URL"] {
            command.env_remove(name);
        }
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && said.contains(why), "{words}: {said}");
    }
    // Somebody else's name with these credentials.
    let other = shell.run("zester peel run --id web-02 --creds web-01/creds/peel.creds --data-dir other");
    assert!(String::from_utf8_lossy(&other.stderr).contains("the credentials are of `web-01`"));
}

#[test]
#[rule("I-5", "I-15")]
fn i5_a_revoked_peel_is_out_at_once_and_a_master_gets_a_new_key_without_a_stop() {
    let mut shell = Shell::new();
    shell.follow(block("## In production"));
    let shell = &mut shell;
    // This one makes its key itself: what is issued for it holds no secret.
    let key = shell.succeeds("zester auth key web-02.nk");
    assert_eq!(key, shell.succeeds("zester auth key web-02.nk"), "made once");
    shell.succeeds(&format!("zester auth issue web-02 --key {} --dir keys", key.trim()));
    let issued = std::fs::read_to_string(shell.dir.path().join("keys/creds/web-02.creds")).unwrap();
    assert!(!issued.contains("SEED"));
    std::fs::rename(shell.dir.path().join("keys/creds/web-02.creds"), shell.dir.path().join("web-02.creds"))
        .unwrap();
    shell.begins(
        "zester peel run --id web-02 --nats tls://localhost:4222 --ca keys/tls/ca.pem --creds web-02.creds --data-dir web-02",
    );
    shell.succeeds("zester web-02 test.ping");
    shell.succeeds("zester enroll revoke web-01 --dir keys");
    wait_for("the end of the revoked connection", PATIENCE, || {
        let answer = shell.run("zester web-01 test.ping --direct --timeout 2s");
        (answer.status.code() == Some(3)).then_some(())
    });
    wait_for("the reason in the log of who was revoked", PATIENCE, || {
        shell.log(2).to_lowercase().contains("revoked").then_some(())
    });
    shell.succeeds("zester web-02 test.ping");
    // The master goes on with its old key while a second one starts with the new.
    shell.succeeds("zester auth rotate master --dir keys");
    shell.succeeds("zester auth push --dir keys");
    shell.succeeds("zester web-02 test.ping");
    shell.begins(
        "zester master run --id second --nats tls://localhost:4222 --ca keys/tls/ca.pem --creds keys/creds/master.creds --data-dir second",
    );
    let second = shell.background.len() - 1;
    wait_for("the second master", PATIENCE, || {
        shell.log(second).contains("the index of peels is complete").then_some(())
    });
    for _ in 0..5 {
        shell.succeeds("zester web-02 test.ping");
    }
    assert!(!shell.log(second).contains("dropped a message"), "{}", shell.log(second));
    let shown = shell.succeeds("zester auth show --dir keys");
    assert_eq!(shown.matches("master   master").count(), 2, "{shown}");
    assert!(shown.lines().any(|line| line.contains("web-01") && line.contains("revoked")), "{shown}");
}

#[test]
#[rule("I-8")]
fn i8_a_whole_fleet_with_keys_on_one_machine() {
    let dir = tempfile::tempdir().unwrap();
    let (place, log) = (dir.path().join("up"), dir.path().join("log"));
    let words =
        ["up", "--secure", "--peels", "2", "--name", "secure-test", "--data-dir", place.to_str().unwrap()];
    let mut up = Daemon::start(&log, &words);
    let config: PathBuf = place.join("auth/creds/admin.creds");
    let url = wait_for("the address of the server", PATIENCE, || {
        let mut files = std::fs::read_dir(&place).ok()?.flatten();
        let ports = files.find(|file| file.path().extension().is_some_and(|ending| ending == "ports"))?;
        let ports: serde_json::Value = serde_json::from_slice(&std::fs::read(ports.path()).ok()?).ok()?;
        Some(ports["nats"][0].as_str()?.to_string())
    });
    let ask = |words: &[&str], creds: Option<&Path>| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_zester"));
        command.args(words).args(["--nats", &url]).env_remove("ZESTER_NATS_URL").env_remove("ZESTER_CREDS");
        command.args(creds.iter().flat_map(|path| ["--creds", path.to_str().unwrap()]));
        command.output().unwrap()
    };
    wait_for("both peels", PATIENCE, || {
        let answer = ask(&["*", "test.ping"], Some(&config));
        let said = String::from_utf8_lossy(&answer.stdout).into_owned();
        (answer.status.success() && said.contains("peel-2")).then_some(())
    });
    assert!(!ask(&["*", "test.ping"], None).status.success(), "without credentials");
    // A peel may not ask for a job, whatever it tries.
    let peel = place.join("peel-1/creds/peel.creds");
    assert!(!ask(&["peel-2", "test.ping", "--timeout", "2s"], Some(&peel)).status.success());
    assert!(!ask(&["peel-2", "test.ping", "--direct", "--timeout", "2s"], Some(&peel)).status.success());
    assert!(up.stop().success());
}
