//! Facts that the administrator adds: YAML and JSON files, and executables that print either.

use crate::{Collected, ParseYaml, RunProgram, read};
use serde_json::Value;
use std::fs::Metadata;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest file, and largest output of one executable.
const FACT_BYTES_MAX: usize = 1024 * 1024;
/// How long one executable may run, and all of them together: facts stand before every run.
const PROGRAM_TIME_MAX: Duration = Duration::from_secs(10);
const PROGRAMS_TIME_MAX: Duration = Duration::from_secs(30);
/// Files that are looked at.
const FILES_MAX: usize = 1_000;

/// What a program may take.
#[derive(Copy, Clone, Debug)]
pub struct Bounds {
    pub time: Duration,
    pub output_bytes: usize,
}

/// How what stands in a file becomes facts.
#[derive(Copy, Clone)]
struct Reader<'a> {
    parse_yaml: ParseYaml<'a>,
    run_program: RunProgram<'a>,
    /// When the programs have used up their time.
    deadline: Instant,
}

/// Reads the directory in the order of names; a later file replaces what an earlier one said.
pub fn collect(dir: &Path, parse_yaml: ParseYaml<'_>, run_program: RunProgram<'_>, into: &mut Collected) {
    let reader = Reader { parse_yaml, run_program, deadline: Instant::now() + PROGRAMS_TIME_MAX };
    let files = match files_in(dir) {
        Ok(files) => files,
        Err(error) => {
            into.warnings.push(format!("custom facts in {} cannot be read: {error}", dir.display()));
            return;
        }
    };
    if files.len() > FILES_MAX {
        let told = format!("only the first {FILES_MAX} custom fact files in {} are read", dir.display());
        into.warnings.push(told);
    }
    for (path, metadata) in files.into_iter().take(FILES_MAX) {
        let Some(found) = facts_of(&path, &metadata, reader) else { continue };
        match found {
            Ok(found) => add(&path, found, into),
            Err(why) => into.warnings.push(format!("custom fact {} is left out: it {why}", path.display())),
        }
    }
}

fn files_in(dir: &Path) -> std::io::Result<Vec<(PathBuf, Metadata)>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        // A link to a file counts as the file; a broken one is nothing.
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_file() && !is_leftover(&path) => files.push((path, metadata)),
            _ => {}
        }
    }
    files.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
    Ok(files)
}

/// Hidden files, and what editors and package managers leave beside a file.
fn is_leftover(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let endings =
        ["~", ".bak", ".swp", ".dpkg-old", ".dpkg-dist", ".dpkg-new", ".rpmsave", ".rpmnew", ".orig"];
    name.starts_with('.') || endings.iter().any(|ending| name.ends_with(ending))
}

/// `None` for a file that is none of ours, a README say.
fn facts_of(path: &Path, metadata: &Metadata, reader: Reader<'_>) -> Option<Result<Value, String>> {
    let Reader { parse_yaml, run_program, deadline } = reader;
    let mode = metadata.permissions().mode();
    if mode & 0o111 != 0 {
        // What anybody may write must not be run by us.
        if mode & 0o002 != 0 {
            return Some(Err("is executable and writable by everybody".to_string()));
        }
        let time = deadline.saturating_duration_since(Instant::now()).min(PROGRAM_TIME_MAX);
        let printed = run_program(path, Bounds { time, output_bytes: FACT_BYTES_MAX });
        return Some(printed.and_then(|text| parse(&text, parse_yaml)));
    }
    match path.extension()?.to_str()? {
        "json" => Some(read_file(path).and_then(|text| parse_json(&text))),
        "yaml" | "yml" | "zy" => Some(read_file(path).and_then(|text| parse(&text, parse_yaml))),
        _ => None,
    }
}

fn read_file(path: &Path) -> Result<String, String> {
    let content =
        read::start_of(path, FACT_BYTES_MAX + 1).map_err(|error| format!("cannot be read: {error}"))?;
    if content.len() > FACT_BYTES_MAX {
        return Err(format!("is larger than {FACT_BYTES_MAX} bytes"));
    }
    String::from_utf8(content).map_err(|_| "is not UTF-8".to_string())
}

/// JSON where it looks like JSON, else YAML.
fn parse(text: &str, parse_yaml: ParseYaml<'_>) -> Result<Value, String> {
    match text.trim_start().starts_with('{') {
        true => parse_json(text).or_else(|_| yaml(text, parse_yaml)),
        false => yaml(text, parse_yaml),
    }
}

fn parse_json(text: &str) -> Result<Value, String> {
    serde_json::from_str(text).map_err(|error| format!("is not JSON: {error}"))
}

fn yaml(text: &str, parse_yaml: ParseYaml<'_>) -> Result<Value, String> {
    parse_yaml(text).map_err(|why| format!("is not YAML: {why}"))
}

fn add(path: &Path, found: Value, into: &mut Collected) {
    match found {
        // An empty file, or a program that has nothing to say.
        Value::Null => {}
        Value::Object(found) => {
            for (name, value) in found {
                // Targets and secrets go by the id: it is not for a file to choose.
                if name == "id" {
                    into.warnings.push(format!("custom fact {} may not set `id`", path.display()));
                    continue;
                }
                into.facts.insert(name, value);
            }
        }
        _ => into.warnings.push(format!("custom fact {} is left out: it is not a map", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    /// Stands for the YAML parser: `key: value` lines.
    fn parse_lines(text: &str) -> Result<Value, String> {
        let mut map = serde_json::Map::new();
        for line in text.lines() {
            let (key, value) = line.split_once(": ").ok_or_else(|| format!("no colon in `{line}`"))?;
            map.insert(key.to_string(), value.into());
        }
        Ok(if map.is_empty() { Value::Null } else { Value::Object(map) })
    }

    /// Stands for the caller, who runs programs with more care.
    fn run(path: &Path, _: Bounds) -> Result<String, String> {
        let output = std::process::Command::new(path).output();
        let output = output.map_err(|error| format!("cannot be started: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8(output.stdout).unwrap()),
            false => Err(format!("failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
        }
    }

    fn collected(files: &[(&str, u32, &str)]) -> Collected {
        let dir = tempfile::tempdir().unwrap();
        for (name, mode, content) in files {
            let path = dir.path().join(name);
            std::fs::write(&path, content).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(*mode)).unwrap();
        }
        std::fs::create_dir(dir.path().join("sub.yaml")).unwrap();
        let mut into = Collected::default();
        into.facts.insert("id".into(), "web1".into());
        into.facts.insert("os".into(), "Debian".into());
        collect(dir.path(), &parse_lines, &run, &mut into);
        into
    }

    #[test]
    #[rule("D-7")]
    fn d7_files_and_programs_add_and_replace_facts_in_the_order_of_names() {
        let found = collected(&[
            ("10-base.yaml", 0o644, "role: db\nsite: north\n"),
            ("20-more.json", 0o644, r#"{"role": "web", "os": "Frob", "deep": {"a": [1]}}"#),
            ("30-run", 0o755, "#!/bin/sh\necho '{\"run\": true}'\n"),
            ("40-run.sh", 0o755, "#!/bin/sh\necho 'site: south'\n"),
            ("README", 0o644, "words"),
            (".hidden.yaml", 0o644, "hidden: yes"),
            ("50-old.yaml~", 0o644, "old: yes"),
            ("60-empty.yaml", 0o644, ""),
        ]);
        assert_eq!(found.warnings, Vec::<String>::new());
        let expected = json!({"id": "web1", "os": "Frob", "role": "web", "site": "south", "deep": {"a": [1]}, "run": true});
        assert_eq!(Value::Object(found.facts), expected);
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_broken_custom_fact_is_a_warning_that_names_it() {
        let found = collected(&[
            ("a.json", 0o644, "{"),
            ("b.yaml", 0o644, "nonsense"),
            ("c.json", 0o644, "[1]"),
            ("d", 0o755, "#!/bin/sh\necho oh no >&2; exit 1\n"),
            ("e", 0o777, "#!/bin/sh\necho 'evil: yes'\n"),
            ("f.yaml", 0o644, "id: other\nfine: yes"),
            ("g", 0o755, "#!/nowhere/interpreter\n"),
        ]);
        let expected = [
            "not JSON",
            "no colon",
            "not a map",
            "oh no",
            "writable by everybody",
            "may not set `id`",
            "cannot be started",
        ];
        assert_eq!(found.warnings.len(), expected.len(), "{:#?}", found.warnings);
        for ((warning, expected), name) in found
            .warnings
            .iter()
            .zip(expected)
            .zip(["a.json", "b.yaml", "c.json", "/d", "/e", "f.yaml", "/g"])
        {
            assert!(warning.contains(expected) && warning.contains(name), "{warning}");
        }
        assert_eq!(Value::Object(found.facts), json!({"id": "web1", "os": "Debian", "fine": "yes"}));
    }

    #[test]
    #[rule("D-7")]
    fn d7_a_directory_that_cannot_be_read_is_a_warning() {
        let mut into = Collected::default();
        collect(Path::new("/nowhere/at/all"), &parse_lines, &run, &mut into);
        assert!(into.warnings[0].contains("/nowhere/at/all"));
    }
}
