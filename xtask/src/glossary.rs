//! One word for one thing: each word of the glossary lives where ARCHITECTURE.md says, and the words it replaced stay
//! away.

use crate::{source, tree};

const MAP: &str = "ARCHITECTURE.md";
/// This file, which has to name what it refuses.
const SELF: &str = "xtask/src/glossary.rs";

/// Words of our own invention that the field has a name for, and that name. In lower case: refused in any spelling, as a
/// part of a name and in comments and docs. With a capital: refused as a name of its own.
const REFUSED: &[(&str, &str)] = &[
    ("vault", "BlobStore: a vault holds secrets"),
    ("glance", "JournalSnapshot"),
    ("shelf", "StateFiles, MemoryStore"),
    ("leash", "KillOnDrop"),
    ("quarry", "ProcessSet"),
    ("cage", "KillCgroup"),
    ("hunt", "TreeKiller"),
    ("bury", "reap"),
    ("buries", "reaps"),
    ("buried", "reaped"),
    ("flavour", "ExecVariant"),
    ("foresee", "predict"),
    ("foreseen", "predicted"),
    ("unforeseen", "unpredictable"),
    ("foresight", "Unknowns"),
    ("rehearse", "predict"),
    ("rehearsal", "dry run"),
    ("debt", "pending refresh"),
    ("debts", "pending refreshes"),
    ("owe", "leave pending"),
    ("owes", "leaves pending"),
    ("owed", "pending"),
    ("owing", "with pending refreshes"),
    ("heir", "successor"),
    ("heirs", "successors"),
    ("knot", "strongly connected component"),
    ("knots", "strongly connected components"),
    ("noting", "ChangeTracker"),
    ("obituary", "exit message"),
    ("suspicion", "what it is"),
    ("meddler", "Disturbance"),
    ("labour", "SimulatedWork"),
    ("court", "judge"),
    ("weather", "Network"),
    ("Look", "HostRead"),
    ("Touch", "HostWrite"),
    ("Hands", "Executor"),
    ("StateHands", "StateExecutor"),
    ("RevertHands", "RevertExecutor"),
    ("Live", "OutputSink"),
    ("Meaning", "ScalarType"),
    ("Problem", "Diagnostic"),
    ("Turn", "Session"),
    ("TURN", "MANAGER_LOCK"),
    ("BOOK", "DPKG_STATUS"),
    ("Driven", "LoopEnd"),
    ("Happening", "JobUpdate"),
    ("told_over", "end_announced"),
];

/// The same, in the crates named.
const REFUSED_IN: &[(&[&str], &str, &str)] = &[
    (&["host", "converge", "resources", "engine", "compile", "model"], "Later", "BoxFuture"),
    (&["host", "converge", "resources", "engine", "compile", "model"], "Standing", "PathState"),
    (&["host", "converge", "engine", "compile", "model"], "Step", "PathChange"),
    (&["peel", "swarm"], "Later", "BoxFuture"),
    (&["jobs", "peel", "swarm", "sim"], "Standing", "DispatchState"),
    (&["jobs", "peel", "swarm", "sim"], "House", "BackgroundDone"),
    (&["jobs", "peel", "swarm", "sim"], "Woke", "Wakeup"),
    (&["peel", "swarm"], "Away", "Outage"),
    (&["peel", "swarm"], "Telling", "ProgressObserver"),
    (&["peel", "swarm"], "doors", "traits, or permits"),
    (&["cli", "client"], "Standing", "PeelStatus"),
    (&["cli", "client"], "Step", "NextBatch"),
    (&["cli", "client"], "Verdict", "PeelResult"),
    (&["resources"], "Made", "CreatedDirs"),
    (&["master"], "asker", "Requester"),
    (&["master"], "askers", "requesters"),
    (&["master"], "suspects", "Orphans"),
    (&["master"], "Mail", "JobMessage"),
    (&["master"], "Step", "Action"),
    (&["master", "link"], "Anchor", "SteadyClock"),
    (&["bus"], "teller", "EventSender"),
    (&["converge"], "Machine", "LocalHost: a machine is a computer or a state machine"),
];

pub fn check(problems: &mut Vec<String>) {
    let map = tree::read(MAP);
    let files = tree::files();
    check_places(&map, |file| files.iter().any(|known| known == file), problems);
    for file in files.iter().filter(|file| file.ends_with(".rs") || file.ends_with(".md")) {
        if file != SELF && file != "CHANGELOG.md" {
            refuse(file, &tree::read(file), problems);
        }
    }
}

/// One row of the glossary: a word, and the file it lives in.
#[derive(Debug, PartialEq)]
struct Row<'a> {
    word: &'a str,
    file: &'a str,
}

/// The rows of the tables behind `## Glossary`, whose last column is a file.
fn rows(map: &str) -> Vec<Row<'_>> {
    let section = map.lines().skip_while(|line| *line != "## Glossary").skip(1);
    let section = section.take_while(|line| !line.starts_with("## "));
    let mut rows = Vec::new();
    for line in section {
        let mut cells = line.trim_matches('|').split('|').map(str::trim);
        let (Some(word), Some(file)) = (cells.next(), cells.next_back()) else { continue };
        if let Some(file) = file.strip_prefix('`').and_then(|file| file.strip_suffix('`')) {
            rows.push(Row { word: word.trim_matches('`'), file });
        }
    }
    rows
}

fn check_places(map: &str, exists: impl Fn(&str) -> bool, problems: &mut Vec<String>) {
    let rows = rows(map);
    if rows.is_empty() {
        problems.push(format!("{MAP}: there is no table under `## Glossary`"));
    }
    for (at, Row { word, file }) in rows.iter().enumerate() {
        if rows[..at].iter().any(|row| row.word == *word) {
            problems.push(format!("{MAP}: the glossary has `{word}` twice"));
        }
        let whole = format!("crates/{file}");
        if !exists(&whole) {
            problems
                .push(format!("{MAP}: the glossary says that `{word}` lives in {file}, which is no file"));
        } else if word.chars().all(|sign| sign.is_alphanumeric() || sign == '_')
            && !names(&tree::read(&whole)).any(|name| name == *word)
        {
            problems.push(format!(
                "{MAP}: the glossary says that `{word}` lives in {file}, which does not name it"
            ));
        }
    }
}

/// Names of a text: what a Rust identifier could be.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(|sign: char| !sign.is_alphanumeric() && sign != '_').filter(|name| !name.is_empty())
}

/// The words that a name is made of, in lower case: `StateHands` and `state_hands` are `state` and `hands`.
fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut previous = '_';
    for sign in name.chars() {
        if sign == '_' || sign.is_uppercase() && !previous.is_uppercase() {
            words.push(String::new());
        }
        if sign != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(sign.to_lowercase());
        }
        previous = sign;
    }
    words.retain(|word| !word.is_empty());
    words
}

fn refuse(file: &str, text: &str, problems: &mut Vec<String>) {
    let krate = file.strip_prefix("crates/").and_then(|rest| rest.split('/').next()).unwrap_or_default();
    let local = REFUSED_IN.iter().filter(|(crates, ..)| crates.contains(&krate));
    let refused: Vec<(&str, &str)> =
        REFUSED.iter().copied().chain(local.map(|(_, word, instead)| (*word, *instead))).collect();
    let mut say = |at: String, word: &str, instead: &str| {
        problems.push(format!("{at}: `{word}` is a word of our own; the field says {instead}"));
    };
    let stem = file.rsplit('/').next().unwrap_or_default().split('.').next().unwrap_or_default();
    for word in words(stem) {
        if let Some((word, instead)) = refused.iter().find(|(known, _)| *known == word) {
            say(file.to_string(), word, instead);
        }
    }
    // A capital begins a sentence too, so whole names count only where they are code.
    let code = if file.ends_with(".rs") { source::code_of(text) } else { in_ticks(text) };
    for (index, (line, code)) in text.lines().zip(code.lines()).enumerate() {
        let at = || format!("{file}:{}", index + 1);
        for word in names(line).flat_map(words) {
            if let Some((word, instead)) = refused.iter().find(|(known, _)| *known == word) {
                say(at(), word, instead);
            }
        }
        for name in names(code) {
            let whole = |(known, _): &&(&str, &str)| *known == name && known.starts_with(char::is_uppercase);
            if let Some((word, instead)) = refused.iter().find(whole) {
                say(at(), word, instead);
            }
        }
    }
}

/// What stands in backticks; everything else as blanks.
fn in_ticks(text: &str) -> String {
    let mut inside = false;
    let kept = |sign: char| {
        if sign == '`' || sign == '\n' {
            inside = sign == '`' && !inside;
            return sign;
        }
        if inside { sign } else { ' ' }
    };
    text.chars().map(kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(file: &str, text: &str) -> Vec<String> {
        let mut problems = Vec::new();
        refuse(file, text, &mut problems);
        problems
    }

    #[test]
    fn a_refused_word_is_found_in_names_comments_files_and_docs() {
        for (file, text) in [
            ("crates/x/src/a.rs", "struct ObjectVault;"),
            ("crates/x/src/a.rs", "let owed_refresh = 1;"),
            ("crates/x/src/a.rs", "// This is a rehearsal."),
            ("crates/x/src/a.rs", "fn f(host: &dyn Touch) {}"),
            ("crates/x/src/vault.rs", ""),
            ("crates/host/src/a.rs", "type T = Later<u8>;"),
            ("docs/a.md", "What is owed is given."),
            ("docs/a.md", "A `Glance` is read."),
        ] {
            let found = refused(file, text);
            assert_eq!(found.len(), 1, "{file} {text}: {found:?}");
        }
    }

    #[test]
    fn a_word_inside_another_and_a_sentence_are_let_be() {
        for (file, text) in [
            ("crates/x/src/a.rs", "fn followed() {} // allowed"),
            ("crates/x/src/a.rs", "// Look at the file; touch nothing."),
            ("crates/x/src/a.rs", "type T = Later<u8>;"),
            ("docs/a.md", "Look here. Live with it."),
        ] {
            assert!(refused(file, text).is_empty(), "{file} {text}");
        }
    }

    #[test]
    fn a_name_is_split_where_its_words_meet() {
        assert_eq!(words("ObjectVault"), ["object", "vault"]);
        assert_eq!(words("OWED_MAX"), ["owed", "max"]);
        assert_eq!(words("who_is_owed"), ["who", "is", "owed"]);
    }

    #[test]
    fn the_glossary_names_files_that_exist() {
        let map = "## Glossary\n\n| word | meaning | lives in |\n|---|---|---|\n| `A` | x | `a/src/no.rs` |\n| `A` | y | `a/src/no.rs` |\n\n## Next\n| `B` | z | `b/src/no.rs` |\n";
        assert_eq!(
            rows(map),
            [Row { word: "A", file: "a/src/no.rs" }, Row { word: "A", file: "a/src/no.rs" }]
        );
        let mut problems = Vec::new();
        check_places(map, |_| false, &mut problems);
        assert_eq!(problems.len(), 3, "{problems:?}");
        let mut problems = Vec::new();
        check_places("no glossary", |_| true, &mut problems);
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
