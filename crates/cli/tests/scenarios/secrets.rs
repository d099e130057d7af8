//! A secret on its way from the operator's keyboard to a file and a process of one peel, and every place it must not be in.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use serde_json::Value as Json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

/// Two values of one secret: what is replaced must not be seen either.
const FIRST: &str = "correct-horse-battery-1";
const SECOND: &str = "staple-unlikely-letters-2";
/// Begins what stands for a secret on its way: whoever forgot to hide it shows that.
const PLACEHOLDER: &str = "\u{107f01}";
/// Begins a before-image that only its machine can read.
const SEALED_IMAGE: &str = "zester-image-1\n";

const STATES: &str = r#"
plain-file:
  file.managed:
    - name: @T@/out/plain
    - content: "password = {{ settings.db.password }}\n"
templated-file:
  file.managed:
    - name: @T@/out/templated
    - source: zester://secrets/conf.j2
    - template: jinja
    - context:
        again: {{ settings.db.password }}
printed:
  cmd.run:
    - name: 'echo "out: $PW"; echo "err: $PW" >&2; read it; test "$it" = "$PW" && echo same'
    - env:
        PW: {{ settings.db.password }}
    - stdin: {{ settings.db.password }}
    - logoutput: true
watched:
  cmd.run:
    - name: 'echo $$ > @T@/out/pid; while [ ! -e @T@/gate ]; do sleep 0.05; done'
    - env: ['PW={{ settings.db.password }}']
failing:
  cmd.run:
    - name: 'echo "cannot log in with $PW" >&2; exit 3'
    - env:
        PW: {{ salt['pillar.get']('db:password') }}
    - onlyif: 'test -n "$PW"'
"#;

/// Every file below a directory that holds a text.
fn files_with(root: &Path, text: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(path) = rest.pop() {
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.is_dir() => {
                rest.extend(
                    std::fs::read_dir(&path).into_iter().flatten().flatten().map(|entry| entry.path()),
                );
            }
            Ok(meta) if meta.is_file() && holds(&std::fs::read(&path).unwrap_or_default(), text) => {
                found.push(path);
            }
            _ => {}
        }
    }
    found.sort();
    found
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Which processes of this machine have a text in their words.
fn command_lines_with(text: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| holds(line, text)).count()
}

/// Runs the binary, looks at all it prints and at how it ends.
fn ends_silently(fleet: &Fleet, words: &[&str], code: i32) -> Output {
    let output = silent(fleet, words);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(code), "{words:?}: {out} {err}");
    output
}

/// Runs the binary and looks at all it prints.
fn silent(fleet: &Fleet, words: &[&str]) -> Output {
    let output = fleet.zester(words);
    for secret in [FIRST, SECOND, PLACEHOLDER] {
        assert!(!holds(&output.stdout, secret), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
        assert!(!holds(&output.stderr, secret), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    output
}

fn seal(fleet: &Fleet, value: &str) -> String {
    let mut command = fleet.command(&["secret", "encrypt", "--peel", "p1", "--setting", "db:password"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    writeln!(child.stdin.take().unwrap(), "{value}").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.contains("taken on trust"), "{said}");
    String::from_utf8(output.stdout).unwrap()
}

/// Publishes the settings with this block, and waits until the peel has them.
fn publish(fleet: &Fleet, block: &str, generation: u32) {
    let block: String = block.lines().map(|line| format!("  {line}\n")).collect();
    let settings = fleet.path("settings");
    std::fs::write(settings.join("db.zy"), format!("generation: {generation}\ndb:\n{block}")).unwrap();
    wait_for("the settings at the peel", PATIENCE, || {
        let output = silent(fleet, &["p1", "settings.items", "--timeout", "10s", "--format", "json"]);
        let answer: Json = serde_json::from_slice(&output.stdout).ok()?;
        let settings = &answer["peels"]["p1"]["return"];
        (settings["generation"] == generation && settings["db"]["password"] == "<secret>").then_some(())
    });
}

/// Applies the states while looking at the process that has the secret in its environment. Returns the job.
fn apply(fleet: &Fleet, secret: &str) -> Json {
    let _gone = std::fs::remove_file(fleet.path("out/pid"));
    let _shut = std::fs::remove_file(fleet.path("gate"));
    let words = ["p1", "state.apply", "secrets", "--timeout", "120s", "--async", "--format", "json"];
    let started = ends_silently(fleet, &words, 0);
    let started: Json = serde_json::from_slice(&started.stdout).unwrap();
    let jid = started["jid"].as_str().unwrap().to_string();
    let pid = wait_for("the command that waits", PATIENCE, || {
        let pid = std::fs::read_to_string(fleet.path("out/pid")).ok()?;
        pid.trim().parse::<u32>().ok()
    });
    let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(holds(&environment, &format!("PW={secret}")), "the secret is not where it is meant to be");
    assert_eq!(command_lines_with(secret), 0, "a command line holds the secret");
    silent(fleet, &["job", "show", &jid]);
    fleet.open("gate");
    let job = fleet.wait_over(&jid);
    for format in ["text", "json", "yaml"] {
        silent(fleet, &["job", "show", &jid, "--format", format]);
    }
    job
}

/// Gives the secret to a peel that it is not sealed for: it says so, where and for whom, and does nothing with the rest.
fn asked_of_a_peel_that_may_not_read_it(fleet: &Fleet) {
    std::fs::write(fleet.path("settings/top.zy"), "'p*': [db]\n").unwrap();
    let refusal = wait_for("the settings at the other peel", PATIENCE, || {
        let output = silent(fleet, &["p2", "settings.items", "--timeout", "10s", "--format", "json"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.contains("the secret `db:password` cannot be opened").then_some((output.status.code(), said))
    });
    let (code, said) = refusal;
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("it is sealed for p1") && said.contains("db.zy:"), "{said}");
    ends_silently(fleet, &["p2", "settings.get", "db:password", "--timeout", "60s"], 2);
    ends_silently(fleet, &["p2", "state.apply", "secrets", "--timeout", "60s"], 2);
    ends_silently(fleet, &["p2", "state.show_sls", "secrets", "--timeout", "60s"], 2);
}

#[test]
#[rule("D-6", "D-15", "I-10")]
fn d15_a_secret_is_nowhere_but_in_the_file_and_the_process_it_is_meant_for() {
    let store = tempfile::Builder::new().prefix("zester-store-").tempdir().unwrap();
    let server = Server::start_on(store.path());
    let mut fleet = Fleet::new(&server.url());
    for directory in ["settings", "out", "states/secrets"] {
        std::fs::create_dir(fleet.path(directory)).unwrap();
    }
    let states = STATES.replace("@T@", &fleet.dir.path().display().to_string());
    std::fs::write(fleet.path("states/secrets/init.zy"), states).unwrap();
    std::fs::write(
        fleet.path("states/secrets/conf.j2"),
        "user = web\npassword = {{ settings.db.password }}\nagain = {{ again }}\n",
    )
    .unwrap();
    std::fs::write(fleet.path("settings/top.zy"), "'p1': [db]\n").unwrap();
    std::fs::write(fleet.path("settings/db.zy"), "generation: 0\n").unwrap();
    let settings = fleet.path("settings").display().to_string();
    let urls = fleet.urls.clone();
    let master = fleet.daemon("master", "m1", &urls, &["--settings", &settings, "--log", "trace"]);
    fleet.masters.insert("m1".into(), master);
    for peel in ["p1", "p2"] {
        let daemon = fleet.daemon("peel", peel, &urls, &["--log", "trace"]);
        fleet.peels.insert(peel.into(), daemon);
    }
    fleet.wait_online(2);
    wait_for("the key of the peel", PATIENCE, || {
        let peel = fleet.json(&["peel", "show", "p1"]);
        peel["facts"]["public_key"].as_str().map(drop)
    });
    for (generation, secret) in [(1, FIRST), (2, SECOND)] {
        publish(&fleet, &seal(&fleet, secret), generation);
        let job = apply(&fleet, secret);
        let run = &job["returns"]["p1"]["return"];
        let state = |name: &str| {
            let states = run["states"].as_object().unwrap_or_else(|| panic!("{job:#}"));
            states.iter().find(|(full, _)| full.contains(name)).unwrap_or_else(|| panic!("{job:#}")).1.clone()
        };
        let read = |name: &str| std::fs::read_to_string(fleet.path(name)).unwrap();
        assert_eq!(read("out/plain"), format!("password = {secret}\n"), "{job:#}");
        assert_eq!(read("out/templated"), format!("user = web\npassword = {secret}\nagain = {secret}\n"));
        assert_eq!(state("plain-file")["diff"], "content differs (holds a secret, not shown)\n", "{job:#}");
        assert_eq!(state("printed")["details"]["stdout"], "out: <secret>\nsame\n", "{job:#}");
        assert_eq!(state("printed")["details"]["stderr"], "err: <secret>\n", "{job:#}");
        let error = state("failing")["error"].as_str().unwrap().to_string();
        assert!(error.contains("cannot log in with <secret>"), "{error}");
    }
    // Whoever it is not for gets nothing, and whoever asks sees nothing.
    for (words, code) in [
        (&["p1", "settings.get", "db:password"][..], 0),
        (&["p1", "pillar.items", "--format", "yaml"], 0),
        (&["p1", "state.show_sls", "secrets", "--format", "json"], 0),
        (&["p1", "state.apply", "secrets", "test=true", "--timeout", "60s", "--format", "json"], 0),
        (&["p1", "cmd.run_all", "cat /proc/$PPID/environ", "--format", "json"], 0),
        (&["secret", "list", "settings"], 0),
        (&["peel", "show", "p1", "--format", "json"], 0),
        (&["job", "list", "--format", "json"], 0),
        (&["p2", "settings.items", "--format", "json"], 0),
    ] {
        ends_silently(&fleet, words, code);
    }
    // What was there before is given back, from before-images that nobody can read.
    ends_silently(&fleet, &["p1", "state.revert", "--timeout", "60s", "--format", "json"], 0);
    assert_eq!(
        std::fs::read_to_string(fleet.path("out/plain")).unwrap(),
        format!("password = {FIRST}\n"),
        "the revert did not bring the file back"
    );
    asked_of_a_peel_that_may_not_read_it(&fleet);
    fleet.masters.clear();
    fleet.peels.clear();
    let images = files_with(&fleet.path("p1"), SEALED_IMAGE);
    assert!(!images.is_empty(), "no before-image was kept that could have held it");
    let meant = [fleet.path("out/plain"), fleet.path("out/templated")];
    let leaked = |root: &Path, secret: &str| -> Vec<PathBuf> {
        files_with(root, secret).into_iter().filter(|path| !meant.contains(path)).collect()
    };
    // So it would be found.
    assert_eq!(files_with(fleet.dir.path(), FIRST), meant);
    for secret in [FIRST, SECOND] {
        assert_eq!(leaked(fleet.dir.path(), secret), Vec::<PathBuf>::new(), "data, journals and logs");
        assert_eq!(leaked(store.path(), secret), Vec::<PathBuf>::new(), "the storage of the server");
    }
    // What people read, and what is sent to them.
    for log in ["m1.log", "p1.log", "p2.log"] {
        assert_eq!(files_with(&fleet.path(log), PLACEHOLDER), Vec::<PathBuf>::new(), "{log}");
    }
    assert_eq!(files_with(store.path(), PLACEHOLDER), Vec::<PathBuf>::new(), "the storage of the server");
    let log = std::fs::read_to_string(fleet.path("p1.log")).unwrap();
    assert!(log.contains("out: <secret>"), "the log of the peel has no line that could have held it");
}
