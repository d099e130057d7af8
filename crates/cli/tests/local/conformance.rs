//! The black-box cases of the spec, as data: see the TOML files beside this one.
//!
//! A string that begins with `~` is a regular expression to be found; anything else must be equal. `@T@` stands for the
//! case's directory, `@N@` for a number of its own. A step that does not end within its `limit`, a state that is not in the
//! result and output that cannot be read are failures, whatever else the step asks for.

use crate::scratch::{Done, Scratch};
use serde_json::Value as Json;
use std::process::{Command, Stdio};
use std::sync::{Mutex, mpsc};
use std::time::Duration;
use toml::{Table, Value};

const LOCAL: &[&str] = &["apply", "check", "revert", "graph", "call", "lint", "status"];
/// Seconds for a step that names none.
const LIMIT: i64 = 60;
/// What a case and a step may say. Anything else is a typo, and would be believed unread.
const CASE_KEYS: &[&str] = &["id", "what", "files", "step"];
const STEP_KEYS: &[&str] = &[
    "before", "args", "env", "limit", "exit", "sum", "top", "states", "absent", "levels", "error", "stderr",
    "stdout", "exists", "missing", "content", "mode", "shell",
];
/// What needs a result to be compared with.
const RESULT_KEYS: &[&str] = &["states", "sum", "error", "levels", "absent", "top"];

#[test]
fn every_case_about_states_holds() {
    run_all(include_str!("conformance/states.toml"));
}

#[test]
fn every_case_about_exec_holds() {
    run_all(include_str!("conformance/exec.toml"));
}

/// Sentence by sentence through the rules that a machine of its own has to obey.
#[test]
fn every_further_case_holds() {
    let texts = [
        include_str!("conformance/more/files.toml"),
        include_str!("conformance/more/yaml.toml"),
        include_str!("conformance/more/templates.toml"),
        include_str!("conformance/more/requisites.toml"),
        include_str!("conformance/more/attributes.toml"),
        include_str!("conformance/more/runs.toml"),
        include_str!("conformance/more/extras.toml"),
        include_str!("conformance/more/exec-and-cli.toml"),
    ];
    run_all(&texts.join("\n"));
}

/// Runs the cases four at a time: most of them wait.
fn run_all(text: &str) {
    let failures = failures(text);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Every way in which the cases fall short.
fn failures(text: &str) -> Vec<String> {
    let cases = Mutex::new(text.parse::<Table>().unwrap()["case"].as_array().unwrap().clone());
    assert!(!cases.lock().unwrap().is_empty());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().pop() else { break };
                    let found = run_case(case.as_table().unwrap());
                    failures.lock().unwrap().extend(found);
                }
            });
        }
    });
    failures.into_inner().unwrap()
}

fn run_case(case: &Table) -> Vec<String> {
    let scratch = Scratch::new();
    let number: String = scratch
        .root()
        .display()
        .to_string()
        .bytes()
        .rev()
        .take(6)
        .map(|b| char::from(b'0' + b % 10))
        .collect();
    let case = fill(&Value::Table(case.clone()), &scratch, &number);
    let case = case.as_table().unwrap();
    let mut problems = unknown_keys(case, CASE_KEYS);
    for (name, text) in table(case, "files") {
        scratch.write(&name, text.as_str().unwrap());
    }
    for (index, step) in case["step"].as_array().unwrap().iter().enumerate() {
        let step = step.as_table().unwrap();
        let unready = texts(step, "before").into_iter().find(|command| !shell(&scratch, command));
        if let Some(command) = unready {
            problems.push(format!("step {}: before it, `{command}` fails", index + 1));
            break;
        }
        problems
            .extend(run_step(&scratch, step).into_iter().map(|what| format!("step {}: {what}", index + 1)));
    }
    problems.into_iter().map(|problem| format!("{}: {problem}", case["id"])).collect()
}

fn unknown_keys(from: &Table, known: &[&str]) -> Vec<String> {
    from.keys()
        .filter(|key| !known.contains(&key.as_str()))
        .map(|key| format!("nobody reads `{key}`"))
        .collect()
}

fn fill(value: &Value, scratch: &Scratch, number: &str) -> Value {
    match value {
        Value::String(text) => Value::String(scratch.fill(text).replace("@N@", number)),
        Value::Array(items) => Value::Array(items.iter().map(|item| fill(item, scratch, number)).collect()),
        Value::Table(map) => Value::Table(
            map.iter()
                .map(|(key, item)| (scratch.fill(key).replace("@N@", number), fill(item, scratch, number)))
                .collect(),
        ),
        other => other.clone(),
    }
}

fn table(from: &Table, key: &str) -> Vec<(String, Value)> {
    let found = from.get(key).map(|found| found.as_table().unwrap_or_else(|| panic!("{key} is no table")));
    found.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn texts(from: &Table, key: &str) -> Vec<String> {
    let found = from.get(key).map(|found| found.as_array().unwrap_or_else(|| panic!("{key} is no list")));
    found.into_iter().flatten().map(|item| item.as_str().unwrap().to_string()).collect()
}

fn shell(scratch: &Scratch, command: &str) -> bool {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(scratch.root()).env("ZESTER", env!("CARGO_BIN_EXE_zester"));
    ended(shell, LIMIT).is_some_and(|done| done.code == Some(0))
}

/// How a command ended; `None` if it did not within so many seconds, and was killed.
fn ended(mut command: Command, limit: i64) -> Option<Done> {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let pid = nix::unistd::Pid::from_raw(child.id().cast_signed());
    let (tell, told) = mpsc::sync_channel(1);
    // Not joined: what a killed command leaves behind may hold its output open.
    std::thread::spawn(move || {
        let _nobody_waits = tell.send(child.wait_with_output());
    });
    match told.recv_timeout(Duration::from_secs(limit.try_into().unwrap())) {
        Ok(output) => Some(output.unwrap().into()),
        Err(_) => {
            let _gone = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL);
            None
        }
    }
}

fn run_step(scratch: &Scratch, step: &Table) -> Vec<String> {
    let mut problems = unknown_keys(step, STEP_KEYS);
    let mut words = texts(step, "args");
    if LOCAL.contains(&words[0].as_str()) {
        words.extend(
            ["--states", "@T@/states", "--data-dir", "@T@/data", "--format", "json"].map(String::from),
        );
    }
    let mut command = scratch.command(&words.iter().map(String::as_str).collect::<Vec<_>>());
    for (key, value) in table(step, "env") {
        command.env(key, value.as_str().unwrap());
    }
    let limit = step.get("limit").map_or(LIMIT, |limit| limit.as_integer().unwrap());
    let Some(done) = ended(command, limit) else {
        problems.push(format!("no answer in {limit} s"));
        return problems;
    };
    let wanted = step.get("exit").map_or(0, |exit| exit.as_integer().unwrap());
    if done.code.map(i64::from) != Some(wanted) {
        problems.push(format!("exit {:?}, wanted {wanted}: {} {}", done.code, done.stdout, done.stderr));
    }
    if RESULT_KEYS.iter().any(|key| step.contains_key(*key)) {
        match serde_json::from_str(&done.stdout) {
            Ok(document) => compare_document(step, &document, &mut problems),
            Err(error) => {
                problems.push(format!("stdout is not one JSON document ({error}): {:?}", done.stdout));
                return problems;
            }
        }
    }
    for (key, found) in [("stderr", &done.stderr), ("stdout", &done.stdout)] {
        if step.get(key).is_some_and(|wanted| !same(wanted, &Json::from(found.as_str()))) {
            problems.push(format!("{key} is {found}"));
        }
    }
    compare_machine(scratch, step, &mut problems);
    problems
}

fn compare_document(step: &Table, document: &Json, problems: &mut Vec<String>) {
    let mut expect = |what: &str, wanted: &Value, found: &Json| {
        if !same(wanted, found) {
            problems.push(format!("{what} is {found}, wanted {wanted}"));
        }
    };
    for (key, wanted) in table(step, "sum") {
        expect(&key, &wanted, &document[&key]);
    }
    for (key, wanted) in table(step, "top") {
        expect(&key, &wanted, dig(document, &key));
    }
    if let Some(wanted) = step.get("error") {
        expect("error", wanted, dig(document, "error.message"));
    }
    let states = document["states"].as_object();
    for (name, wants) in table(step, "states") {
        let Some(state) = states.and_then(|states| states.get(&name)) else {
            let there: Vec<&String> = states.into_iter().flat_map(|states| states.keys()).collect();
            problems.push(format!("state {name} is not in the result; there are {there:?}"));
            continue;
        };
        for (key, wanted) in wants.as_table().unwrap() {
            let found = dig(state, key);
            if !same(wanted, found) {
                problems.push(format!("{name}: {key} is {found}, wanted {wanted}"));
            }
        }
    }
    for name in texts(step, "absent") {
        if states.is_some_and(|states| states.contains_key(&name)) {
            problems.push(format!("state {name} is in the result"));
        }
    }
    if let Some(levels) = step.get("levels") {
        let wanted: Json = serde_json::to_value(levels).unwrap();
        if document["levels"] != wanted {
            problems.push(format!("levels are {}, wanted {wanted}", document["levels"]));
        }
    }
}

fn compare_machine(scratch: &Scratch, step: &Table, problems: &mut Vec<String>) {
    use std::os::unix::fs::MetadataExt;
    for path in texts(step, "exists") {
        if std::fs::symlink_metadata(&path).is_err() {
            problems.push(format!("{path} does not exist"));
        }
    }
    for path in texts(step, "missing") {
        if std::fs::symlink_metadata(&path).is_ok() {
            problems.push(format!("{path} exists"));
        }
    }
    for (path, wanted) in table(step, "content") {
        let found = std::fs::read_to_string(&path).map_or(Json::Null, Json::String);
        if !same(&wanted, &found) {
            problems.push(format!("{path} holds {found}, wanted {wanted}"));
        }
    }
    for (path, wanted) in table(step, "mode") {
        let found = std::fs::symlink_metadata(&path).map(|meta| format!("{:04o}", meta.mode() & 0o7777)).ok();
        if found.as_deref() != wanted.as_str() {
            problems.push(format!("{path} has mode {found:?}, wanted {wanted}"));
        }
    }
    for command in texts(step, "shell") {
        if !shell(scratch, &command) {
            problems.push(format!("after it, `{command}` fails"));
        }
    }
}

fn dig<'a>(document: &'a Json, path: &str) -> &'a Json {
    path.split('.').fold(document, |at, part| &at[part])
}

fn same(wanted: &Value, found: &Json) -> bool {
    match wanted {
        Value::String(pattern) if pattern.starts_with('~') => {
            let text = match found {
                Json::Null => return false,
                Json::String(text) => text.clone(),
                other => other.to_string(),
            };
            let pattern = regex::RegexBuilder::new(&pattern[1..]).dot_matches_new_line(true).build();
            pattern.unwrap().is_match(&text)
        }
        // What is not there is as good as what is empty.
        Value::String(text) if text.is_empty() && found.is_null() => true,
        other => serde_json::to_value(other).unwrap() == *found,
    }
}

/// One case of a state that succeeds, with these lines in its step.
fn of_one_step(lines: &str) -> Vec<String> {
    failures(&format!(
        "[[case]]\nid = \"x\"\nwhat = \"x\"\n[case.files]\n\"states/c.zy\" = \"\"\"\nx:\n  test.nop: []\nnap:\n  \
         cmd.run: [{{name: sleep 10}}]\n\"\"\"\n[[case.step]]\n{lines}\n"
    ))
}

#[test]
fn a_step_that_falls_short_in_any_way_is_told() {
    let check = "args = [\"check\", \"c\"]";
    assert_eq!(of_one_step(&format!("{check}\nsum = {{ failed = 0 }}")), [""; 0]);
    for (line, told) in [
        ("states = { \"test.nop:gone\" = { error = \"\" } }", "state test.nop:gone is not in the result"),
        ("states = { \"test.nop:gone\" = { error = \"~.\" } }", "state test.nop:gone is not in the result"),
        ("states = { \"test.nop:x\" = { nothing = \"~.*\" } }", "nothing is null"),
        ("sum = { failed = 1 }", "failed is 0, wanted 1"),
        ("sum = { nothing = \"~null\" }", "nothing is null"),
        ("top = { \"states.nothing\" = 1 }", "states.nothing is null"),
        ("absent = [\"test.nop:x\"]", "state test.nop:x is in the result"),
        ("levels = [[\"y\"]]", "levels are"),
        ("error = \"~x\"", "error is null"),
        ("exit = 2", "wanted 2"),
        ("before = [\"false\"]", "before it, `false` fails"),
        ("shell = [\"false\"]", "after it, `false` fails"),
        ("exists = [\"@T@/x\"]", "does not exist"),
        ("missing = [\"@T@\"]", "exists"),
        ("content = { \"@T@/x\" = \"y\" }", "holds null"),
        ("mode = { \"@T@/x\" = \"0644\" }", "has mode None"),
        ("sums = { failed = 1 }", "nobody reads `sums`"),
    ] {
        let found = of_one_step(&format!("{check}\n{line}"));
        assert!(found.iter().any(|problem| problem.contains(told)), "{line}: {found:?}");
    }
}

#[test]
fn output_that_cannot_be_read_is_told() {
    let found = of_one_step("args = [\"--version\"]\nabsent = [\"x\"]");
    assert!(found.len() == 1 && found[0].contains("stdout is not one JSON document"), "{found:?}");
}

#[test]
fn a_step_that_takes_too_long_is_told() {
    let found = of_one_step("args = [\"apply\", \"c\"]\nlimit = 1\nshell = [\"false\"]");
    assert_eq!(found, ["\"x\": step 1: no answer in 1 s"]);
}
