//! What each crate may not say. An invariant of the architecture is an absence, so it is tested as one.

use crate::source::Source;
use crate::tree;
use std::collections::{BTreeMap, BTreeSet};

/// Crates that do no IO, read no clock and know no runtime.
const PURE: &[&str] = &["model", "compile", "engine", "wire", "jobs"];

const FILES: &[&str] = &[
    "std::fs",
    "std::os::fd",
    "std::os::linux",
    "std::os::unix::fs",
    "std::io::stdin",
    "std::io::stdout",
    "std::io::stderr",
];
const PROCESSES: &[&str] = &["std::process", "std::os::unix::process"];
const ENVIRONMENT: &[&str] = &["std::env"];
const SOCKETS: &[&str] =
    &["TcpStream", "TcpListener", "UdpSocket", "UnixStream", "UnixListener", "UnixDatagram", "ToSocketAddrs"];
const CLOCK: &[&str] = &["Instant", "SystemTime"];
const THREADS: &[&str] = &["std::thread"];
const SYSTEM: &[&str] = &["libc::", "nix::", "rustix::"];
const RUNTIME: &[&str] = &["tokio", "async fn", "async move"];
/// What of the runtime reaches the machine.
const RUNTIME_IO: &[&str] = &["tokio::fs", "tokio::process", "tokio::net", "tokio::signal"];

/// Words that some crates have no place for.
struct Wall {
    crates: &'static [&'static str],
    words: &'static [&'static [&'static str]],
    why: &'static str,
}

const WALLS: &[Wall] = &[
    Wall {
        crates: PURE,
        words: &[FILES, PROCESSES, ENVIRONMENT, SOCKETS, CLOCK, THREADS, SYSTEM, RUNTIME],
        why: "a pure crate does no IO, reads no clock and knows no runtime",
    },
    Wall {
        crates: &["resources"],
        words: &[FILES, PROCESSES, ENVIRONMENT, SOCKETS, CLOCK, THREADS, SYSTEM, RUNTIME_IO],
        why: "a resource reaches the machine through the host",
    },
];

/// (file, word) that stand all the same. Templates render on a thread of their own, because its stack can be sized and a
/// template that exhausts it must not take the process along; and rendering is bounded in time.
const EXCUSED: &[(&str, &str)] = &[
    ("crates/compile/src/template/serve.rs", "std::thread"),
    ("crates/compile/src/template/budget.rs", "Instant"),
    ("crates/compile/src/template/environment.rs", "Instant"),
];

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
    let sources: BTreeMap<String, Source> = tree::rust_files()
        .into_iter()
        .filter(|file| place(file).is_some())
        .map(|file| (file.clone(), Source::of(&tree::read(&file))))
        .collect();
    let tests: Vec<String> = sources.iter().flat_map(|(file, source)| test_files(file, source)).collect();
    let is_test = |file: &str| {
        tests.iter().any(|test| {
            file.strip_prefix(test.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    for (file, source) in sources.iter().filter(|(file, _)| !is_test(file)) {
        problems.extend(trespasses(file, source));
    }
    for (file, word) in EXCUSED {
        if !sources.get(*file).is_some_and(|source| source.lines.iter().any(|(_, line)| says(line, word))) {
            problems.push(format!("{file}: excused for `{word}`, which it does not say"));
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

/// The crate of a file that ships, and its path inside.
fn place(file: &str) -> Option<(&str, &str)> {
    let (name, inside) = file.strip_prefix("crates/")?.split_once('/')?;
    inside.starts_with("src/").then_some((name, inside))
}

/// Where the modules stand that a file declares for tests, without `.rs`.
fn test_files(file: &str, source: &Source) -> Vec<String> {
    let (directory, name) = file.rsplit_once('/').unwrap_or_default();
    let home = match name {
        "lib.rs" | "main.rs" | "mod.rs" => directory.to_string(),
        name => format!("{directory}/{}", name.trim_end_matches(".rs")),
    };
    source.test_modules.iter().map(|module| format!("{home}/{module}")).collect()
}

/// Every word of a file that its crate has no place for.
fn trespasses(file: &str, source: &Source) -> Vec<String> {
    let Some((name, _)) = place(file) else { return Vec::new() };
    let mut found = BTreeSet::new();
    for (number, line) in &source.lines {
        let mut say = |what: String| found.insert((*number, what));
        for wall in WALLS.iter().filter(|wall| wall.crates.contains(&name)) {
            let excused = |word: &&str| EXCUSED.contains(&(file, *word));
            for word in wall.words.iter().copied().flatten().filter(|word| says(line, word) && !excused(word))
            {
                say(format!("`{word}` in {name}: {}", wall.why));
            }
        }
        for (word, allowed, why) in ONLY_IN {
            if says(line, word) && !allowed.contains(&name) {
                say(format!("`{word}` outside {}: {why}", allowed.join(", ")));
            }
        }
        if line.contains("unbounded_channel") || line.contains("mpsc::channel()") {
            say("an unbounded channel: every queue has a limit".into());
        }
    }
    found.into_iter().map(|(number, what)| format!("{file}:{number}: {what}")).collect()
}

/// Whether a line says this, not as a part of a longer name.
pub fn says(line: &str, word: &str) -> bool {
    let joins = |sign: Option<char>| sign.is_some_and(|sign| sign.is_alphanumeric() || sign == '_');
    line.match_indices(word).any(|(at, _)| {
        let after = if word.ends_with(':') { None } else { line[at + word.len()..].chars().next() };
        !joins(line[..at].chars().next_back()) && !joins(after)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn found(file: &str, text: &str) -> Vec<String> {
        trespasses(file, &Source::of(text))
    }

    #[test]
    fn every_wall_stops_every_word_of_it_behind_the_tests_of_a_file_too() {
        for wall in WALLS {
            for (name, word) in wall
                .crates
                .iter()
                .flat_map(|name| wall.words.iter().copied().flatten().map(move |word| (name, word)))
            {
                let file = format!("crates/{name}/src/lib.rs");
                let text = format!("#[cfg(test)]\nmod tests {{ {word} }}\nfn late() {{ {word} }}\n");
                let found = found(&file, &text);
                assert!(
                    !found.is_empty() && found.iter().all(|problem| problem.contains("lib.rs:3:")),
                    "{word}: {found:?}"
                );
            }
        }
        for (word, _, _) in ONLY_IN {
            assert!(!found("crates/nobody/src/lib.rs", &format!("use {word};")).is_empty(), "{word}");
        }
        for text in ["let x = mpsc::channel();", "unbounded_channel()"] {
            assert!(!found("crates/cli/src/main.rs", text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_word_in_braces_is_found_and_one_in_a_string_is_not() {
        let file = "crates/engine/src/lib.rs";
        assert_eq!(found(file, "use std::{env, fmt};").len(), 1);
        assert_eq!(found(file, "use std::{fmt, time::{Duration, Instant}};").len(), 1);
        assert_eq!(found(file, "// std::fs\nlet x = \"std::fs\"; instantly(); std::file!();"), [""; 0]);
    }

    #[test]
    fn tests_are_what_is_declared_so_and_not_what_is_called_so() {
        let parent = Source::of("#[cfg(test)]\nmod checks;\nmod tests;\n");
        assert_eq!(test_files("crates/x/src/lib.rs", &parent), ["crates/x/src/checks"]);
        assert_eq!(test_files("crates/x/src/a/b.rs", &parent), ["crates/x/src/a/b/checks"]);
    }

    #[test]
    fn a_manifest_names_a_crate_by_its_whole_name() {
        assert!(names("zester-cli.workspace = true", "cli"));
        assert!(!names("zester-client.workspace = true", "cli"));
    }
}
