//! What each crate may not say. An invariant of the architecture is an absence, so it is tested as one.

use crate::source::Source;
use crate::tree;
use std::collections::{BTreeMap, BTreeSet};

/// Crates that do no IO, read no clock and know no runtime.
const PURE: &[&str] = &[
    "model", "secret", "compile", "engine", "wire", "identity", "jobs", "lease", "schedule", "reactor",
    "policy",
];

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
    ("crypto_box", &["secret"], "one place seals and opens"),
    ("nkeys::", &["identity"], "one place knows keys"),
    ("rcgen::", &["cli"], "only the binary makes certificates"),
    ("async_nats", &["bus"], "the NATS client is hidden behind the bus"),
    ("hyper::", &["door", "health"], "HTTP is spoken at the door and of one's health"),
    ("tokio_rustls", &["door"], "TLS of our own is spoken at the door; that of the bus is its client's"),
    ("clap::", &["cli", "bench", "sim"], "only the binary knows its words"),
    ("indicatif::", &["cli"], "only the binary draws"),
    ("annotate_snippets::", &["cli"], "only the binary draws"),
];

/// (crate, crates of ours it must not know)
const BLIND: &[(&str, &[&str])] = &[
    ("wire", &["compile", "engine", "jobs", "host", "resources", "facts", "bus", "converge", "cli"]),
    ("identity", &["model", "compile", "engine", "jobs", "host", "bus", "link", "converge", "cli"]),
    ("jobs", &["compile", "engine", "host", "resources", "facts", "bus", "converge", "cli"]),
    (
        "reactor",
        &[
            "compile",
            "engine",
            "jobs",
            "host",
            "resources",
            "facts",
            "bus",
            "link",
            "converge",
            "master",
            "cli",
        ],
    ),
    ("bus", &["compile", "engine", "jobs", "host", "resources", "facts", "converge", "cli"]),
    ("model", &["compile", "engine", "host", "resources", "facts", "converge", "cli"]),
    ("compile", &["engine", "host", "resources", "facts", "converge", "cli"]),
    ("engine", &["compile", "host", "resources", "facts", "converge", "cli"]),
    ("secret", &["compile", "engine", "wire", "jobs", "host", "resources", "facts", "converge", "cli"]),
    ("host", &["compile", "engine", "resources", "facts", "converge", "cli"]),
    ("resources", &["compile", "engine", "facts", "converge", "cli"]),
    ("facts", &["compile", "engine", "resources", "converge", "cli"]),
    (
        "beacons",
        &[
            "engine",
            "wire",
            "jobs",
            "bus",
            "link",
            "resources",
            "converge",
            "peel",
            "master",
            "client",
            "cli",
        ],
    ),
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
    (
        "publish",
        &[
            "model",
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
    (
        "door",
        &["model", "wire", "identity", "jobs", "bus", "link", "converge", "peel", "master", "client", "cli"],
    ),
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
        let used = shipped(&tree::read(&format!("crates/{name}/Cargo.toml")));
        for other in unknown.iter().filter(|other| used.contains(&format!("zester-{other}"))) {
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
            for word in wall
                .words
                .iter()
                .copied()
                .flatten()
                .filter(|word| (says(line, word) || takes_all(line, word)) && !excused(word))
            {
                say(format!("`{word}` in {name}: {}", wall.why));
            }
        }
        for (word, allowed, why) in ONLY_IN {
            if (says(line, word) || takes_all(line, word)) && !allowed.contains(&name) {
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

/// Whether a `use` takes everything from where a word stands: `std::process::*` holds `std::process::Command`.
fn takes_all(line: &str, word: &str) -> bool {
    line.strip_suffix("::*")
        .is_some_and(|place| word.strip_prefix(place).is_some_and(|rest| rest.starts_with("::")))
}

/// The crates that a manifest names for more than tests, in whichever section and under whichever name.
fn shipped(manifest: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut section = "";
    for line in manifest.lines().map(str::trim) {
        let head = line.starts_with('[');
        if head {
            section = line;
        }
        if !section.contains("dependencies") || section.contains("dev-dependencies") {
            continue;
        }
        let named = match head {
            true => section.split_once("dependencies.").map(|(_, name)| name.trim_end_matches(']')),
            false => line.split([' ', '.', '=']).next(),
        };
        let renamed = line.split_once("package").and_then(|(_, value)| value.split('"').nth(1));
        found.extend([named, renamed].into_iter().flatten().map(|name| name.trim_matches('"').to_string()));
    }
    found
}

/// `testkit` may panic and start servers, so nothing that ships may know it.
fn fixtures_stay_in_tests(problems: &mut Vec<String>) {
    for file in tree::files().iter().filter(|file| file.ends_with("/Cargo.toml")) {
        if shipped(&tree::read(file)).contains("zester-testkit") {
            problems.push(format!("{file}: testkit is for tests only (dev-dependencies)"));
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
    fn a_word_is_found_by_whichever_name_a_file_gives_it() {
        let commands = "crates/converge/src/lib.rs";
        for text in [
            "use std::process;\nfn f() { process::Command::new() }",
            "use std::process as p;\nfn f() { p::Command::new() }",
            "use std::process::{self, Stdio};\nfn f() { process::Command::new() }",
            "use std as s;\nfn f() { s::process::Command::new() }",
            "use std::process::*;\nfn f() { Command::new() }",
            "use std::{process::*, fmt};\nfn f() { Command::new() }",
            "pub use std::process as p;\nuse p::Command;",
        ] {
            assert_eq!(found(commands, text).len(), 1, "{text}");
        }
        for text in [
            "use std::process;\nfn f() { process::exit(1) }",
            "use crate::process;\nfn f() { process::Command::new() }",
            "use std::process;\nfn f() { other::process::Command::new() }",
        ] {
            assert_eq!(found(commands, text), [""; 0], "{text}");
        }
        let pure = "crates/engine/src/lib.rs";
        assert_eq!(found(pure, "use std::{fs as disk, env as surroundings};").len(), 2);
        assert_eq!(found(pure, "use std as s;\nfn f() { s::fs::read() }").len(), 1);
    }

    #[test]
    fn a_manifest_is_read_in_all_its_sections() {
        let manifest = r#"
[dependencies]
zester-client.workspace = true
other = { package = "zester-wire", version = "1" }
[dev-dependencies]
zester-testkit.workspace = true
[dev-dependencies.zester-sim]
workspace = true
[target."cfg(unix)".dependencies]
zester-bus = { path = "x" }
[target."cfg(unix)".dev-dependencies]
zester-bench.workspace = true
[build-dependencies.zester-rule]
workspace = true
[features]
zester-jobs = []
"#;
        let used = shipped(manifest);
        let ours: Vec<&str> = used.iter().filter_map(|name| name.strip_prefix("zester-")).collect();
        assert_eq!(ours, ["bus", "client", "rule", "wire"]);
    }
}
