//! Secrets on one machine: sealed for its key, opened by a run, in no output.

use crate::scratch::{Done, Scratch};
use std::io::Write;
use std::process::Stdio;
use zester_rule::rule;

const SECRET: &str = "correct-horse-battery";

fn seal(scratch: &Scratch, value: &str, words: &[&str]) -> String {
    let mut all = vec!["secret", "encrypt"];
    all.extend(words);
    let mut command = scratch.command(&all);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{value}").unwrap();
    let done: Done = child.wait_with_output().unwrap().into();
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout
}

/// A machine with a key and one secret in its settings, as `password`.
fn with_secret(states: &str) -> Scratch {
    let scratch = Scratch::with(states);
    let key = scratch.zester(&["secret", "key"]).stdout.trim().to_string();
    let block = seal(&scratch, SECRET, &["--key", &format!("here={key}"), "--setting", "password"]);
    scratch.write("settings/s.zy", &block);
    scratch
}

fn apply(scratch: &Scratch) -> Done {
    scratch.zester(&["apply", "c", "--settings", "settings"])
}

#[test]
#[rule("D-15", "S-31")]
fn d15_a_file_gets_the_secret_and_a_revert_brings_back_what_was_there() {
    let scratch = with_secret(
        "conf:\n  file.managed:\n    - name: @T@/conf\n    - content: \"p = {{ settings.password }}\\n\"\n",
    );
    scratch.write("conf", "p = the-old-password\n");
    let done = apply(&scratch);
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    assert!(done.stdout.contains("holds a secret, not shown"), "{}", done.stdout);
    assert!(!done.stdout.contains(SECRET) && !done.stdout.contains("the-old-password"), "{}", done.stdout);
    assert_eq!(scratch.read("conf").unwrap(), format!("p = {SECRET}\n"));
    let again = apply(&scratch);
    assert!(again.stdout.contains("1 unchanged"), "{}", again.stdout);
    let reverted = scratch.zester(&["revert", "c", "--settings", "settings"]);
    assert_eq!(reverted.code, Some(0), "{} {}", reverted.stdout, reverted.stderr);
    assert_eq!(scratch.read("conf").unwrap(), "p = the-old-password\n");
}

#[test]
#[rule("D-15", "S-60")]
fn d15_a_new_file_with_a_secret_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let scratch = with_secret("@T@/conf:\n  file.managed:\n    - content: {{ settings.password }}\n");
    assert_eq!(apply(&scratch).code, Some(0));
    let mode = std::fs::metadata(scratch.path("conf")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
#[rule("D-15")]
fn d15_a_secret_where_all_could_read_it_is_a_compile_error() {
    for (states, wanted) in [
        (
            "a:\n  cmd.run:\n    - name: login {{ settings.password }}\n",
            "`command` of cmd.run cannot hold a secret",
        ),
        (
            "a:\n  file.managed:\n    - name: @T@/{{ settings.password }}\n",
            "`path` of file.managed cannot hold a secret",
        ),
        (
            "\"x-{{ settings.password }}\":\n  test.nop: []\n",
            "a secret cannot be part of the name of a state",
        ),
        ("a:\n  test.nop: []\n# {{ settings.password | sha256 }}\n", "`sha256` of a secret"),
        ("a:\n  test.nop: []\n# {{ settings.password | b64encode }}\n", "`b64encode` of a secret"),
        ("a:\n  test.nop: []\n# {{ settings.password | urlencode }}\n", "`urlencode` of a secret"),
        ("{% if settings.password == 'x' %}{% endif %}\na:\n  test.nop: []\n", "a comparison of a secret"),
        ("a: !secret x\n", "`!secret` stands in settings only"),
    ] {
        let scratch = with_secret(states);
        let done = apply(&scratch);
        assert_eq!(done.code, Some(1), "{}", done.stdout);
        assert!(done.stderr.contains(wanted) && done.stderr.contains("c.zy:"), "{wanted}: {}", done.stderr);
        assert!(!done.stderr.contains('\u{107f01}'), "{}", done.stderr);
    }
}

#[test]
#[rule("D-6")]
fn d6_what_is_sealed_for_another_machine_fails_the_resolve_where_it_stands() {
    let scratch = with_secret("a:\n  test.nop: []\n");
    std::fs::remove_file(scratch.path("data/secret.key")).unwrap();
    let none = apply(&scratch);
    assert!(none.stderr.contains("this machine has no key yet"), "{}", none.stderr);
    scratch.zester(&["secret", "key"]);
    let other = apply(&scratch);
    assert_eq!(other.code, Some(1));
    for wanted in ["the secret `password` cannot be opened", "it is sealed for here", "settings/s.zy:1:"] {
        assert!(other.stderr.contains(wanted), "{wanted}: {}", other.stderr);
    }
    // Who only looks at files needs no key.
    let lint = scratch.zester(&["lint", "--settings", "settings"]);
    assert_eq!(lint.code, Some(0), "{} {}", lint.stdout, lint.stderr);
}

#[test]
#[rule("D-6")]
fn d6_settings_with_a_secret_are_assigned_by_id_only() {
    let scratch = with_secret("a:\n  test.nop: []\n");
    scratch.write("settings/more.zy", "include: [s]\n");
    for (top, allowed) in [("'*': [s]\n", true), ("'E@.*': [s]\n", true), ("'G@os:*': [more]\n", false)] {
        scratch.write("settings/top.zy", top);
        let done = apply(&scratch);
        assert_eq!(done.code, Some(if allowed { 0 } else { 1 }), "{top}: {}", done.stderr);
        if !allowed {
            let wanted = ["`s.zy` holds a secret, so it may be assigned by id only", "settings/top.zy:1:1"];
            assert!(wanted.iter().all(|one| done.stderr.contains(one)), "{}", done.stderr);
        }
    }
}

#[test]
#[rule("D-15")]
fn d15_secrets_are_listed_and_sealed_anew_for_other_keys() {
    let scratch =
        with_secret("a:\n  file.managed:\n    - name: @T@/out\n    - content: {{ settings.password }}\n");
    let listed = scratch.json(&["secret", "list", "settings", "--offline"]);
    assert_eq!(listed["secrets"][0]["setting"], "password", "{listed:#}");
    assert_eq!(listed["secrets"][0]["readers"][0]["name"], "here", "{listed:#}");
    std::fs::rename(scratch.path("data/secret.key"), scratch.path("old.key")).unwrap();
    let key = scratch.zester(&["secret", "key"]).stdout.trim().to_string();
    let key = format!("here={key}");
    let done = scratch.zester(&["secret", "rotate", "settings", "--key-file", "old.key", "--key", &key]);
    assert!(
        done.code == Some(0) && done.stdout.contains("password  sealed anew"),
        "{} {}",
        done.stdout,
        done.stderr
    );
    let again = scratch.zester(&["secret", "rotate", "settings", "--key-file", "old.key", "--key", &key]);
    assert!(again.stdout.contains("still has the key"), "{}", again.stdout);
    let done = apply(&scratch);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert_eq!(scratch.read("out").unwrap(), SECRET);
    let shown = scratch.json(&["call", "state.show_sls", "c", "--settings", "settings"]);
    assert_eq!(shown["file.managed:a"]["params"]["content"], "<secret>", "{shown:#}");
}

#[test]
#[rule("D-15", "I-10")]
fn d15_a_state_that_is_called_by_a_secret_is_called_otherwise_everywhere() {
    let named = |number: u32| {
        format!("{SECRET}-{number}:\n  file.managed:\n    - name: @T@/out-{number}\n    - content: x\n")
    };
    let shown = "file.managed:<secret>-1";
    let watcher = format!(
        "watcher:\n  test.nop:\n    - watch: [{{file: {SECRET}-1}}]\n# {{{{ settings.password }}}}\n"
    );
    let scratch = with_secret(&[named(1), named(2), watcher].concat());
    let checked = scratch.json(&["check", "c", "--settings", "settings"]);
    assert!(checked["states"].get(shown).is_some() && !checked.to_string().contains(SECRET), "{checked:#}");
    let done = apply(&scratch);
    assert_eq!(done.code, Some(0), "{} {}", done.stdout, done.stderr);
    assert!(!done.stdout.contains(SECRET) && done.stdout.contains("<secret>-2"), "{}", done.stdout);
    let mut rest = vec![scratch.path("data")];
    let mut journal = String::new();
    while let Some(path) = rest.pop() {
        match path.is_dir() {
            true => rest.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path())),
            false => journal.push_str(&String::from_utf8_lossy(&std::fs::read(path).unwrap())),
        }
    }
    assert!(journal.contains(shown) && !journal.contains(SECRET), "{journal}");
}

#[test]
#[rule("D-15")]
fn d15_a_secret_that_is_too_short_to_be_hidden_is_not_sealed() {
    let scratch = with_secret("a:\n  test.nop: []\n");
    let key = scratch.zester(&["secret", "key"]).stdout.trim().to_string();
    let mut command = scratch.command(&["secret", "encrypt", "--key", &key]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), " abc ").unwrap();
    let done: Done = child.wait_with_output().unwrap().into();
    assert_eq!((done.code, done.stdout.as_str()), (Some(1), ""), "{}", done.stderr);
    assert!(done.stderr.contains("shorter than 4 letters"), "{}", done.stderr);
}

#[test]
#[rule("D-15")]
fn d15_a_secret_that_cannot_be_replaced_is_listed_and_stops_a_rotation() {
    let scratch = with_secret("a:\n  test.nop: []\n");
    let sealed = scratch.read("settings/s.zy").unwrap();
    let body: Vec<&str> = sealed.lines().skip(1).map(str::trim).collect();
    scratch.write("settings/q.zy", &format!("quoted: !secret \"{}\"\n", body.join("\\n")));
    let listed = scratch.json(&["secret", "list", "settings", "--offline"]);
    assert_eq!(listed["secrets"][0]["setting"], "quoted", "{listed:#}");
    assert_eq!(listed["secrets"][0]["readers"][0]["name"], "here", "{listed:#}");
    let words = ["secret", "rotate", "settings", "--key-file", "data/secret.key", "--all"];
    let done = scratch.zester(&words);
    assert_eq!(done.code, Some(1), "{}", done.stdout);
    assert!(done.stderr.contains("not understood: settings/q.zy:1;"), "{}", done.stderr);
    assert_eq!(scratch.read("settings/s.zy").unwrap(), sealed);
}
