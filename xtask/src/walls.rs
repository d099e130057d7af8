//! What each crate may not say. An invariant of the architecture is an absence, so it is tested as one.

use crate::tree;

/// Crates that do no IO, read no clock and know no runtime.
const PURE: &[&str] = &["model", "compile", "engine", "wire", "jobs"];

/// Words that have no place in a pure crate.
const IMPURE: &[&str] = &[
    "std::fs",
    "std::net::Tcp",
    "std::net::Udp",
    "std::process",
    "std::env",
    "tokio",
    "SystemTime",
    "std::thread",
    "async fn",
    "async move",
];

/// (file, word) that stand all the same: templates render on a thread of their own, because its stack can be sized and a
/// template that exhausts it must not take the process along.
const EXCUSED: &[(&str, &str)] = &[("crates/compile/src/template/serve.rs", "std::thread")];

/// (word, the only crates that may say it, why)
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    ("granit_parser", &["compile"], "the YAML parser is hidden behind the composer"),
    ("minijinja::", &["compile"], "templates are rendered in one place"),
    ("tokio::process", &["host"], "the host is the only door to processes"),
    (
        "std::process::Command",
        &["host", "facts", "cli", "bench", "testkit"],
        "the host is the only door to processes",
    ),
    ("async_nats", &["bus"], "the NATS client is hidden behind the bus"),
    ("hyper::", &["health"], "one place answers HTTP"),
    ("clap::", &["cli", "bench", "sim"], "only the binary knows its words"),
    ("indicatif::", &["cli"], "only the binary draws"),
    ("annotate_snippets::", &["cli"], "only the binary draws"),
];

/// (crate, crates of ours it must not know)
const BLIND: &[(&str, &[&str])] = &[
    ("wire", &["compile", "engine", "jobs", "host", "resources", "facts", "bus", "converge", "cli"]),
    ("jobs", &["compile", "engine", "host", "resources", "facts", "bus", "converge", "cli"]),
    ("bus", &["compile", "engine", "jobs", "host", "resources", "facts", "converge", "cli"]),
    ("model", &["compile", "engine", "host", "resources", "facts", "converge", "cli"]),
    ("compile", &["engine", "host", "resources", "facts", "converge", "cli"]),
    ("engine", &["compile", "host", "resources", "facts", "converge", "cli"]),
    ("host", &["compile", "engine", "resources", "facts", "converge", "cli"]),
    ("resources", &["compile", "engine", "facts", "converge", "cli"]),
    ("facts", &["compile", "engine", "resources", "converge", "cli"]),
    ("converge", &["jobs", "bus", "link", "peel", "master", "client", "cli"]),
    (
        "link",
        &[
            "compile",
            "engine",
            "jobs",
            "host",
            "resources",
            "facts",
            "converge",
            "peel",
            "master",
            "client",
            "cli",
        ],
    ),
    ("health", &["model", "wire", "jobs", "bus", "link", "converge", "peel", "master", "client", "cli"]),
    ("peel", &["master", "client", "cli"]),
    ("master", &["engine", "host", "resources", "facts", "converge", "peel", "client", "cli"]),
    ("client", &["compile", "engine", "host", "resources", "facts", "converge", "peel", "master", "cli"]),
];

pub fn check(problems: &mut Vec<String>) {
    for file in tree::rust_files() {
        let Some((name, inside)) = file.strip_prefix("crates/").and_then(|rest| rest.split_once('/')) else {
            continue;
        };
        let test = inside.ends_with("/tests.rs") || inside.contains("/tests/");
        if !inside.starts_with("src/") || test {
            continue;
        }
        let text = tree::read(&file);
        for (number, line) in code_lines(&text) {
            let mut say = |what: String| problems.push(format!("{file}:{number}: {what}"));
            if PURE.contains(&name) {
                let excused = |word: &&str| EXCUSED.contains(&(file.as_str(), *word));
                for word in IMPURE.iter().filter(|word| line.contains(**word) && !excused(word)) {
                    say(format!("`{word}` in the pure crate {name}"));
                }
            }
            if name == "resources" && line.contains("std::fs") {
                say("a resource reaches the machine through the host, not through std::fs".into());
            }
            for (word, allowed, why) in ONLY_IN {
                if line.contains(word) && !allowed.contains(&name) {
                    say(format!("`{word}` outside {}: {why}", allowed.join(", ")));
                }
            }
            if line.contains("unbounded_channel") || line.contains("mpsc::channel()") {
                say("an unbounded channel: every queue has a limit".into());
            }
        }
    }
    fixtures_stay_in_tests(problems);
    for (name, unknown) in BLIND {
        let manifest = tree::read(&format!("crates/{name}/Cargo.toml"));
        let used = manifest.split("[dev-dependencies]").next().unwrap_or_default();
        for other in unknown.iter().filter(|other| names(used, other)) {
            problems.push(format!("crates/{name}/Cargo.toml: {name} must not know {other}"));
        }
    }
}

/// Whether a manifest names a crate of ours; `zester-cli` is not `zester-client`.
fn names(manifest: &str, other: &str) -> bool {
    let wanted = format!("zester-{other}");
    manifest.lines().filter_map(|line| line.split([' ', '.', '=']).next()).any(|name| name == wanted)
}

/// `testkit` may panic and start servers, so nothing that ships may know it.
fn fixtures_stay_in_tests(problems: &mut Vec<String>) {
    for file in tree::files().iter().filter(|file| file.ends_with("/Cargo.toml")) {
        let manifest = tree::read(file);
        let mut section = "";
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let named = line.starts_with("zester-testkit") || section.contains("ependencies.zester-testkit");
            if named && !section.contains("dev-dependencies") {
                problems.push(format!("{file}: testkit is for tests only (dev-dependencies)"));
                break;
            }
        }
    }
}

/// Lines with code on them, up to the tests at the end of the file.
fn code_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line));
    lines
        .take_while(|(_, line)| !line.starts_with("#[cfg(test)]"))
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
}
