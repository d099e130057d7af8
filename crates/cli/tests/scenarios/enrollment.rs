//! How machines get into a fleet by the door of a master, and who does not (I-4, I-5, I-13, I-15).

use crate::daemon::PATIENCE;
use crate::secure::block;
use crate::shell::Shell;
use serde_json::Value;
use std::path::Path;
use std::process::Output;
use std::time::{Duration, Instant};
use zester_rule::rule;
use zester_testkit::wait_for;

/// The lines of the README up to the master and the export: a fleet that nobody is in yet.
fn fleet(more: &str) -> Shell {
    begun(Shell::new(), more)
}

fn begun(mut shell: Shell, more: &str) -> Shell {
    for line in block("## In production").lines().take_while(|line| !line.starts_with("zester peel run")) {
        shell.follow(&line.replace("--listen", &format!("{more} --listen").replace("  ", " ")));
    }
    shell
}

/// The words of a peel that enrolls.
fn peel(name: &str, dir: &str, more: &str) -> String {
    format!(
        "zester peel run --id {name} --master https://localhost:4443 --pin $(zester auth pin --dir keys) {more} --data-dir {dir}"
    )
}

fn said(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json(shell: &Shell, line: &str) -> Value {
    let text = shell.succeeds(&format!("{line} --format json"));
    serde_json::from_str(&text).unwrap()
}

fn status(shell: &Shell, name: &str) -> Option<String> {
    let output = shell.run(&format!("zester enroll show {name} --format json"));
    let shown: Value = serde_json::from_slice(&output.stdout).ok()?;
    Some(shown["status"].as_str()?.to_string())
}

fn becomes(shell: &Shell, name: &str, wanted: &str) {
    wait_for(&format!("{name} is {wanted}"), PATIENCE, || {
        (status(shell, name).as_deref() == Some(wanted)).then_some(())
    });
}

fn token(shell: &Shell, words: &str) -> String {
    shell.succeeds(&format!("zester enroll token {words}")).trim().to_string()
}

/// A peel that is not let in ends with an error: what it said.
fn turned_away(shell: &Shell, line: &str) -> String {
    let output = shell.run(line);
    assert!(!output.status.success(), "{line}: {}", said(&output));
    said(&output)
}

fn last(shell: &Shell) -> String {
    shell.log(shell.background.len() - 1)
}

#[test]
#[rule("I-4")]
fn i4_a_machine_waits_until_an_operator_lets_it_in_and_has_no_access_before() {
    let mut shell = fleet("");
    shell.begins(&peel("web-01", "web-01", ""));
    becomes(&shell, "web-01", "pending");
    wait_for("that it says it waits", PATIENCE, || {
        last(&shell).contains("zester enroll approve web-01").then_some(())
    });
    // It has a key and nothing else: no credentials, and so no way onto the bus.
    assert!(shell.path("web-01/creds/peel.nk").is_file() && !shell.path("web-01/creds/peel.creds").exists());
    assert_eq!(shell.run("zester web-01 test.ping --timeout 2s").status.code(), Some(1));
    // The operator sees the id that the machine prints.
    let shown = json(&shell, "zester enroll show web-01");
    let id = shown["id"].as_str().unwrap().to_string();
    assert!(last(&shell).contains(&id), "{}", last(&shell));
    let listed = shell.succeeds("zester enroll list");
    assert!(listed.contains("web-01  pending") && listed.contains("1 machine waits"), "{listed}");
    let approved = shell.succeeds("zester enroll approve web-01 --reason 'it is ours'");
    assert!(approved.contains("web-01 is approved"), "{approved}");
    shell.succeeds("zester web-01 test.ping");
    becomes(&shell, "web-01", "active");
    let shown = json(&shell, "zester enroll show web-01");
    assert_eq!((shown["by"].as_str(), shown["reason"].as_str()), (Some("admin"), Some("it is ours")));
    // Again is no mistake, and changes nothing.
    assert!(shell.succeeds("zester enroll approve web-01").contains("already"));
    // The credentials hold no secret, and the key never left: it stands in no record and on no wire of ours.
    let creds = std::fs::read_to_string(shell.path("web-01/creds/peel.creds")).unwrap();
    assert!(!creds.contains("SEED"));
    // Over a restart it goes on with what it has, also while the door is closed.
    let peel_number = shell.background.len() - 1;
    shell.background[peel_number].kill().unwrap();
    shell.background[peel_number].wait().unwrap();
    shell.begins(&peel("web-01", "web-01", "").replace(":4443", ":1"));
    shell.succeeds("zester web-01 test.ping");
}

#[test]
#[rule("I-4")]
fn i4_a_machine_that_is_rejected_hears_why_and_ends() {
    let mut shell = fleet("");
    shell.begins(&peel("web-01", "web-01", ""));
    becomes(&shell, "web-01", "pending");
    shell.succeeds("zester enroll reject web-01 --reason 'not ours'");
    let number = shell.background.len() - 1;
    wait_for("its end", PATIENCE, || shell.background[number].try_wait().unwrap());
    assert!(last(&shell).contains("rejected this request: not ours"), "{}", last(&shell));
    assert!(turned_away(&shell, &peel("web-01", "web-01", "")).contains("not ours"));
    // No yes after a no, but by a word.
    assert!(said(&shell.run("zester enroll approve web-01")).contains("was rejected"));
    let word = token(&shell, "web-01");
    shell.begins(&peel("web-01", "web-01", &format!("--token {word}")));
    shell.succeeds("zester web-01 test.ping");
}

#[test]
#[rule("I-4")]
fn i4_a_token_counts_once_in_its_time_for_its_name_and_from_its_address() {
    let mut shell = fleet("");
    let word = token(&shell, "'web-*' --label autoscale");
    assert!(word.starts_with("zj-") && !word.contains(' '), "{word}");
    let away = |shell: &Shell, name: &str, word: &str| {
        turned_away(shell, &peel(name, name, &format!("--token {word}")))
    };
    assert!(away(&shell, "db-01", &word).contains("for another name"));
    assert!(away(&shell, "web-01", "zj-nonsense").contains("no such join token"));
    let elsewhere = token(&shell, "web-01 --address 192.0.2.7");
    assert!(away(&shell, "web-01", &elsewhere).contains("for another address"));
    let short = token(&shell, "web-01 --life 1s");
    wait_for("its end", PATIENCE, || {
        let tokens = json(&shell, "zester enroll token --list");
        let listed = shell.succeeds("zester enroll token --list");
        (tokens["tokens"].as_array()?.len() == 3 && listed.contains("ended")).then_some(())
    });
    assert!(away(&shell, "web-01", &short).contains("has ended"));
    let dropped = json(&shell, "zester enroll token web-01");
    shell.succeeds(&format!("zester enroll token --drop {}", dropped["id"].as_str().unwrap()));
    assert!(away(&shell, "web-01", dropped["token"].as_str().unwrap()).contains("no such join token"));
    // Nobody who was turned away left a record.
    assert_eq!(json(&shell, "zester enroll list")["enrollments"], Value::Array(Vec::new()));
    // It is good still, and then it is not.
    shell.begins(&peel("web-01", "web-01", &format!("--token {word}")));
    shell.succeeds("zester web-01 test.ping");
    assert!(away(&shell, "web-02", &word).contains("used already"));
    let listed = shell.succeeds("zester enroll token --list");
    assert!(listed.contains("used by web-01") && listed.contains("autoscale"), "{listed}");
    // The word stands in no record: only who made it has seen it.
    assert!(
        !listed.contains(&word)
            && !shell.succeeds("zester enroll token --list --format json").contains(&word)
    );
}

#[test]
#[rule("I-4")]
fn i4_two_machines_with_one_name_are_one_record_and_the_other_is_told() {
    let mut shell = fleet("");
    shell.begins(&peel("web-01", "first", ""));
    becomes(&shell, "web-01", "pending");
    let first = json(&shell, "zester enroll show web-01");
    assert!(
        turned_away(&shell, &peel("web-01", "second", ""))
            .contains("another machine asked for the name web-01")
    );
    assert_eq!(json(&shell, "zester enroll show web-01")["key"], first["key"]);
    shell.succeeds("zester enroll approve web-01");
    shell.succeeds("zester web-01 test.ping");
    let words = turned_away(&shell, &peel("web-01", "second", ""));
    assert!(words.contains("the name web-01 is another key's"), "{words}");
    // A word for many names does not take a name over, and stays good.
    let glob = token(&shell, "'web-*'");
    assert!(
        turned_away(&shell, &peel("web-01", "second", &format!("--token {glob}"))).contains("another key's")
    );
    shell.begins(&peel("web-02", "third", &format!("--token {glob}")));
    shell.succeeds("zester web-02 test.ping");
    // A machine that was installed anew has a new key. A word for this very name lets it in, and the old key counts no more.
    let word = token(&shell, "web-01");
    let number = shell.background.len() - 2;
    shell.background[number].kill().unwrap();
    shell.background[number].wait().unwrap();
    shell.begins(&peel("web-01", "second", &format!("--token {word}")));
    shell.succeeds("zester web-01 test.ping");
    let now = json(&shell, "zester enroll show web-01");
    assert_ne!(now["key"], first["key"]);
    assert_eq!(now["former"][0]["key"], first["key"]);
    // The one before is out: what it has counts no more, and it gets nothing new.
    std::fs::remove_file(shell.path("first/creds/enrolled.json")).unwrap();
    assert!(turned_away(&shell, &peel("web-01", "first", "")).contains("another took its place"));
}

#[test]
#[rule("I-4")]
fn i4_with_another_ca_in_between_nothing_is_said() {
    let shell = fleet("");
    // A whole other fleet of somebody else: its pin, and its door.
    shell.succeeds("zester auth init --dir other --host localhost");
    let line = peel("web-01", "web-01", "").replace("--dir keys", "--dir other");
    let words = turned_away(&shell, &line);
    assert!(words.contains("is not of the CA sha256:") && words.contains("nothing was sent"), "{words}");
    assert_eq!(json(&shell, "zester enroll list")["enrollments"], Value::Array(Vec::new()));
    // Without a pin nobody is asked at all.
    let bare = "zester peel run --id web-01 --master https://localhost:4443 --data-dir web-01";
    assert!(turned_away(&shell, bare).contains("--master needs --pin"));
    let plain =
        "zester peel run --id web-01 --master http://localhost:4443 --pin sha256:00 --data-dir web-01";
    assert!(turned_away(&shell, plain).contains("https://HOST:PORT"));
    // A door needs its keys, and nobody else may read them.
    let master = "zester master run --nats tls://localhost:4222 --ca keys/tls/ca.pem --creds keys/creds/master.creds --id second --data-dir second";
    assert!(turned_away(&shell, &format!("{master} --listen 0")).contains("--listen needs --door"));
    use std::os::unix::fs::PermissionsExt;
    let issuer = shell.path("keys/door/issuer.nk");
    std::fs::set_permissions(&issuer, std::fs::Permissions::from_mode(0o644)).unwrap();
    let words = turned_away(&shell, &format!("{master} --listen 0 --door keys/door"));
    assert!(words.contains("can be read by others: chmod 600 it"), "{words}");
}

#[test]
#[rule("I-5")]
fn i5_a_master_that_may_has_the_server_end_a_revoked_peel_and_it_stays_out_over_a_restart() {
    let mut shell = fleet("--revoker keys/revoker");
    for name in ["web-01", "web-02"] {
        let word = token(&shell, name);
        shell.begins(&peel(name, name, &format!("--token {word}")));
        shell.succeeds(&format!("zester {name} test.ping"));
    }
    let (first, server) = (shell.background.len() - 2, 0);
    let revoked = shell.succeeds("zester enroll revoke web-01 --reason lost");
    assert!(revoked.contains("the server ends its connection"), "{revoked}");
    let begun = Instant::now();
    wait_for("the reason in the log of who was revoked", PATIENCE, || {
        shell.log(first).to_lowercase().contains("revoked").then_some(())
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let out = |shell: &Shell| {
        let answer = shell.run("zester web-01 test.ping --direct --timeout 2s");
        assert_eq!(answer.status.code(), Some(3), "{}", said(&answer));
    };
    out(&shell);
    shell.succeeds("zester web-02 test.ping");
    // The server starts again with what its configuration says, and knows it all the same.
    shell.background[server].kill().unwrap();
    shell.background[server].wait().unwrap();
    shell.restart_server();
    shell.succeeds("zester web-02 test.ping");
    out(&shell);
    // Its key is ended for good; the name is not, but by an operator's word.
    shell.background[first].kill().unwrap();
    shell.background[first].wait().unwrap();
    std::fs::remove_file(shell.path("web-01/creds/enrolled.json")).unwrap();
    assert!(turned_away(&shell, &peel("web-01", "web-01", "")).contains("was revoked"));
    shell.begins(&peel("web-01", "anew", ""));
    becomes(&shell, "web-01", "pending");
    shell.succeeds("zester enroll approve web-01");
    shell.succeeds("zester web-01 test.ping");
    // What the keys of the fleet say later does not let the revoked one in again.
    shell.succeeds("zester auth push --dir keys");
    let fleet = std::fs::read_to_string(shell.path("keys/fleet.json")).unwrap();
    let former = json(&shell, "zester enroll show web-01")["former"][0]["key"].as_str().unwrap().to_string();
    assert!(fleet.contains(&former), "{fleet}");
}

#[test]
#[rule("I-15")]
fn i15_a_peel_renews_its_credentials_by_itself_without_a_stop() {
    let mut shell = fleet("--peel-life 9s");
    let word = token(&shell, "web-01");
    shell.begins(&peel("web-01", "web-01", &format!("--token {word}")));
    shell.succeeds("zester web-01 test.ping");
    let number = shell.background.len() - 1;
    let first = json(&shell, "zester enroll show web-01")["until"].as_u64().unwrap();
    // Long past the end of the first ones: every call is answered.
    let renewals = |shell: &Shell| shell.log(number).matches("the credentials are renewed").count();
    let mut calls = 0;
    let end = Instant::now() + PATIENCE;
    while renewals(&shell) < 3 {
        assert!(Instant::now() < end, "{}", shell.log(number));
        let answer = shell.run("zester web-01 test.ping --timeout 20s");
        assert!(answer.status.success(), "{}\n{}", said(&answer), shell.log(number));
        calls += 1;
    }
    assert!(calls > 0);
    let shown = json(&shell, "zester enroll show web-01");
    assert!(shown["until"].as_u64().unwrap() > first + 9_000, "{shown}");
    assert_eq!(shown["status"], "active");
    let log = shell.log(number);
    assert!(!log.to_lowercase().contains("expired"), "the server never had to hang up: {log}");
    // A peel that was away for longer than its credentials count gets new ones with its key alone.
    shell.background[number].kill().unwrap();
    shell.background[number].wait().unwrap();
    let until = json(&shell, "zester enroll show web-01")["until"].as_u64().unwrap();
    wait_for("the end of its credentials", PATIENCE, || (now_millis() > until + 1_000).then_some(()));
    shell.begins(&peel("web-01", "web-01", ""));
    shell.succeeds("zester web-01 test.ping");
}

#[test]
#[rule("R-7", "I-4")]
fn r7_a_rule_lets_in_who_brings_its_token_and_nobody_else() {
    let shell = Shell::new();
    let rules = shell.path("rules");
    std::fs::create_dir(&rules).unwrap();
    std::fs::write(rules.join("top.zy"), "reactor:\n  - '_master/enroll/pending/*':\n    - reactor.enroll\n")
        .unwrap();
    let approve = "in:\n  enroll.approve:\n    - id: {{ data.id }}\n    - require_peel: 'web-*'\n    - require_token: fleet\n    - require_ip: 127.0.0.0/8\n";
    std::fs::write(rules.join("enroll.zy"), approve).unwrap();
    let mut shell = begun(shell, "--reactor rules");
    wait_for("the rules", PATIENCE, || {
        said(&shell.run("zester reactor rules")).contains("reactor.enroll").then_some(())
    });
    // A word that vouches, and one that the rule does not mean; and one without any.
    let (word, other) =
        (token(&shell, "'*-01' --label fleet --hold"), token(&shell, "'*' --label other --hold"));
    shell.begins(&peel("web-02", "web-02", &format!("--token {other}")));
    shell.begins(&peel("web-03", "web-03", ""));
    shell.begins(&peel("web-01", "web-01", &format!("--token {word}")));
    shell.succeeds("zester web-01 test.ping");
    becomes(&shell, "web-01", "active");
    let shown = json(&shell, "zester enroll show web-01");
    assert_eq!((shown["by"].as_str(), shown["token"]["label"].as_str()), (Some("reactor"), Some("fleet")));
    let log = shell.log(1);
    assert!(log.contains("enroll.approve") && log.contains("reactor:reactor.enroll"), "{log}");
    for name in ["web-02", "web-03"] {
        wait_for("the refusal of the rule", PATIENCE, || {
            let decided = shell.succeeds("zester reactor history --format json");
            decided.contains(&format!("{name} brought no join token `fleet`")).then_some(())
        });
        assert_eq!(status(&shell, name).as_deref(), Some("pending"));
    }
    // What the rule did not decide, an operator does.
    shell.succeeds("zester enroll approve web-02 web-03");
    shell.succeeds("zester L@web-02,web-03 test.ping");
}

fn now_millis() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    u64::try_from(since.as_millis()).unwrap()
}

/// Memory that a process holds, in KiB.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
#[rule("I-13")]
fn i13_ten_thousand_requests_and_much_garbage_leave_the_door_and_the_fleet_standing() {
    use std::io::{Read, Write};
    let mut shell = fleet("");
    let word = token(&shell, "web-01");
    shell.begins(&peel("web-01", "web-01", &format!("--token {word}")));
    shell.succeeds("zester web-01 test.ping");
    let master = shell.background[1].id();
    let address = format!("127.0.0.1:{}", shell.door());
    let before = resident(master);
    let begun = Instant::now();
    let flood: Vec<_> = (0..4)
        .map(|part: u8| {
            let address = address.clone();
            std::thread::spawn(move || {
                for number in 0..2_500_u32 {
                    let Ok(mut stream) = std::net::TcpStream::connect(&address) else { continue };
                    let _slow = stream.set_read_timeout(Some(Duration::from_millis(20)));
                    let garbage = vec![part ^ u8::try_from(number % 251).unwrap(); 600];
                    let _gone = stream.write_all(&garbage);
                    let _gone = stream.read(&mut [0; 64]);
                }
            })
        })
        .collect();
    // The fleet works meanwhile.
    shell.succeeds("zester web-01 test.ping");
    flood.into_iter().for_each(|one| one.join().unwrap());
    assert!(begun.elapsed() < Duration::from_secs(180), "{:?}", begun.elapsed());
    let grown = resident(master).saturating_sub(before);
    assert!(grown < 64 * 1024, "the master grew by {grown} KiB");
    shell.succeeds("zester web-01 test.ping");
    // And the door lets in who is wanted, once this address has waited a moment.
    let word = token(&shell, "web-02");
    shell.begins(&peel("web-02", "web-02", &format!("--token {word}")));
    shell.succeeds("zester web-02 test.ping");
    assert!(Path::new(&format!("/proc/{master}")).exists());
}
