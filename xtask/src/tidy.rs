//! The rules about the code itself, all at once.

use crate::{glossary, licences, rules, tree, unused, walls};
use std::process::{Command, ExitCode};

/// A file holds one idea; one that does not fit here holds more.
const FILE_LINES_MAX: usize = 700;
/// The black-box cases of the spec, where they lie beside the project.
const CASES: &str = "../shared/conformance";
/// Names that say nothing.
const JUNK_NAMES: &[&str] = &["util", "utils", "common", "helper", "helpers", "misc", "stuff"];

pub fn run() -> ExitCode {
    let mut problems = Vec::new();
    walls::check(&mut problems);
    names_and_sizes(&mut problems);
    loose_ends(&mut problems);
    map_is_whole(&mut problems);
    glossary::check(&mut problems);
    rules::check(&mut problems);
    cases_are_current(&mut problems);
    formatted(&mut problems);
    match tree::metadata() {
        Some(metadata) => {
            licences::check(&metadata, &mut problems);
            unused::check(&metadata, &mut problems);
        }
        None => {
            problems.push("Cargo.lock: `cargo metadata --locked --offline` failed; run `cargo fetch`".into())
        }
    }
    if problems.is_empty() {
        println!("tidy: {} files, nothing to say", tree::files().len());
        return ExitCode::SUCCESS;
    }
    for problem in &problems {
        eprintln!("tidy: {problem}");
    }
    eprintln!("tidy: {} problems", problems.len());
    ExitCode::FAILURE
}

fn names_and_sizes(problems: &mut Vec<String>) {
    for file in tree::rust_files() {
        let stem = file.rsplit('/').next().unwrap_or_default().trim_end_matches(".rs");
        if JUNK_NAMES.contains(&stem) {
            problems.push(format!("{file}: name it after what it holds"));
        }
        let lines = tree::read(&file).lines().count();
        if lines > FILE_LINES_MAX {
            problems
                .push(format!("{file}: {lines} lines; more than {FILE_LINES_MAX} hold more than one idea"));
        }
    }
}

/// What is left open is not done, and no path of the machine it was built on belongs in it.
fn loose_ends(problems: &mut Vec<String>) {
    let words = [
        ["TO", "DO"].concat(),
        ["FIX", "ME"].concat(),
        ["todo", "!("].concat(),
        ["unimpl", "emented!("].concat(),
        ["#[ig", "nore"].concat(),
    ];
    let root = tree::root().display().to_string();
    for file in tree::files().iter().filter(|file| !file.ends_with(".lock")) {
        for (index, line) in tree::read(file).lines().enumerate() {
            let at = index + 1;
            if file.ends_with(".rs") && words.iter().any(|word| line.contains(word.as_str())) {
                problems.push(format!("{file}:{at}: left open: {}", line.trim()));
            }
            if root.len() > 1 && line.contains(&root) {
                problems.push(format!("{file}:{at}: a path of this machine"));
            }
        }
    }
}

/// ARCHITECTURE.md names every crate, and no crate that does not exist.
fn map_is_whole(problems: &mut Vec<String>) {
    let map = tree::read("ARCHITECTURE.md");
    let files = tree::files();
    let mut crates: Vec<&str> =
        files.iter().filter_map(|file| file.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")).collect();
    crates.sort_unstable();
    for name in &crates {
        if !map.contains(&format!("### `{name}`")) {
            problems.push(format!("ARCHITECTURE.md: the crate {name} has no paragraph (### `{name}`)"));
        }
    }
    for line in map.lines() {
        if let Some(name) = line.strip_prefix("### `").and_then(|rest| rest.strip_suffix('`'))
            && !crates.contains(&name)
        {
            problems.push(format!("ARCHITECTURE.md: there is no crate {name}"));
        }
    }
}

/// Our copy of the black-box cases is the one beside the project, where that lies there.
fn cases_are_current(problems: &mut Vec<String>) {
    let Ok(files) = std::fs::read_dir(tree::root().join(CASES)) else { return };
    let mut files: Vec<_> = files.filter_map(|file| Some(file.ok()?.path())).collect();
    files.sort();
    for file in files.iter().filter(|file| file.extension().is_some_and(|end| end == "toml")) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        let ours = format!("crates/cli/tests/local/conformance/{name}");
        if std::fs::read_to_string(file).unwrap_or_default() != tree::read(&ours) {
            problems.push(format!("{ours}: differs from {CASES}/{name}; copy it"));
        }
    }
}

/// By name, because `cargo fmt` passes over modules that a macro declares.
fn formatted(problems: &mut Vec<String>) {
    let files = tree::rust_files();
    let checked = Command::new("rustfmt")
        .args(["--check", "--edition", "2024", "-l"])
        .args(&files)
        .current_dir(tree::root())
        .output();
    match checked {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            let mut names: Vec<String> =
                String::from_utf8_lossy(&output.stdout).lines().map(str::to_string).collect();
            names.extend(String::from_utf8_lossy(&output.stderr).lines().take(5).map(str::to_string));
            names.sort();
            names.dedup();
            problems.extend(names.iter().map(|name| format!("{name}: rustfmt would change it")));
        }
        Err(error) => problems.push(format!("rustfmt cannot be run: {error}")),
    }
}
