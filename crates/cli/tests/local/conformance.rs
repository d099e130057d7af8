//! The black-box cases of the spec, as data: see the TOML files beside this one.
//!
//! A string that begins with `~` is a regular expression to be found; anything else must be equal. `@T@` stands for the
//! case's directory, `@N@` for a number of its own.

use crate::scratch::Scratch;
use serde_json::Value as Json;
use std::process::Command;
use std::sync::Mutex;
use toml::{Table, Value};

const LOCAL: &[&str] = &["apply", "check", "revert", "graph", "call", "lint", "status"];

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
    let cases = Mutex::new(text.parse::<Table>().unwrap()["case"].as_array().unwrap().clone());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let Some(case) = cases.lock().unwrap().pop() else { break };
                    failures.lock().unwrap().extend(run_case(case.as_table().unwrap()));
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
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
    for (name, text) in table(case, "files") {
        scratch.write(&name, text.as_str().unwrap());
    }
    let mut problems = Vec::new();
    for (index, step) in case["step"].as_array().unwrap().iter().enumerate() {
        for problem in run_step(&scratch, step.as_table().unwrap()) {
            problems.push(format!("{} step {}: {problem}", case["id"], index + 1));
        }
    }
    problems
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
    let found = from.get(key).and_then(Value::as_table);
    found.into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn texts(from: &Table, key: &str) -> Vec<String> {
    let found = from.get(key).and_then(Value::as_array);
    found.into_iter().flatten().map(|item| item.as_str().unwrap().to_string()).collect()
}

fn shell(scratch: &Scratch, command: &str) -> bool {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).current_dir(scratch.root()).env("ZESTER", env!("CARGO_BIN_EXE_zester"));
    shell.output().unwrap().status.success()
}

fn run_step(scratch: &Scratch, step: &Table) -> Vec<String> {
    let mut problems = Vec::new();
    for command in texts(step, "before") {
        assert!(shell(scratch, &command), "{command}");
    }
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
    let done: crate::scratch::Done = command.output().unwrap().into();
    let wanted = step.get("exit").and_then(Value::as_integer).unwrap_or(0);
    if done.code != Some(wanted as i32) {
        problems.push(format!("exit {:?}, wanted {wanted}: {} {}", done.code, done.stdout, done.stderr));
    }
    let document: Json = serde_json::from_str(&done.stdout).unwrap_or(Json::Null);
    compare_document(step, &document, &mut problems);
    for (key, found) in [("stdout", &done.stdout), ("stderr", &done.stderr)] {
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
    for (key, wanted) in table(step, "sum").into_iter().chain(table(step, "top")) {
        expect(&key, &wanted, dig(document, &key));
    }
    for (name, wants) in table(step, "states") {
        for (key, wanted) in wants.as_table().unwrap() {
            expect(&format!("{name} {key}"), wanted, dig(&document["states"][&name], key));
        }
    }
    if let Some(wanted) = step.get("error") {
        expect("error", wanted, dig(document, "error.message"));
    }
    if let Some(levels) = step.get("levels") {
        let wanted: Json = serde_json::to_value(levels).unwrap();
        if document["levels"] != wanted {
            problems.push(format!("levels are {}, wanted {wanted}", document["levels"]));
        }
    }
    for name in texts(step, "absent") {
        if !document["states"][&name].is_null() {
            problems.push(format!("{name} is in the result"));
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
            let text = found.as_str().map_or_else(|| found.to_string(), str::to_string);
            regex::RegexBuilder::new(&pattern[1..])
                .dot_matches_new_line(true)
                .build()
                .unwrap()
                .is_match(&text)
        }
        Value::String(text) => {
            found.as_str().unwrap_or_default() == text && (found.is_string() || text.is_empty())
        }
        Value::Boolean(value) => found.as_bool() == Some(*value),
        Value::Integer(value) => found.as_i64() == Some(*value),
        other => panic!("a case wants {other}"),
    }
}
