//! What each kind costs where nothing is to be done, and what a mixed thousand of them does.

use crate::measure::{Cost, median};
use crate::report::Report;
use serde_json::json;
use std::fmt::Write;
use std::path::Path;
use std::process::Command;

/// States of one kind in a run.
const OF_ONE_KIND: usize = 200;
const MIXED: usize = 1000;
const RUNS: usize = 7;
/// CPU of one state that is in place, start-up taken off.
const STATE_MS_MAX: f64 = 1.0;
/// The most that a mixed thousand may take, beside as many `file.managed`.
const MIXED_PER_FILES: f64 = 2.0;
const MIXED_MB_MAX: f64 = 96.0;

/// A kind and the parameters of its n-th state; `{path}` is a path of its own, `{n}` the number.
const KINDS: [(&str, &str); 28] = [
    ("file.managed", "path: {path}\n    - content: 'file {n}'"),
    ("file.directory", "path: {path}"),
    ("file.symlink", "path: {path}\n    - target: /nowhere/{n}"),
    ("file.hardlink", "path: {path}\n    - target: {top}/text"),
    ("file.absent", "path: {path}"),
    ("file.exists", "path: {top}/text"),
    ("file.copy", "path: {path}\n    - source: {top}/text"),
    ("file.append", "path: {top}/text\n    - text: alpha"),
    ("file.line", "path: {top}/text\n    - mode: ensure\n    - content: beta\n    - after: ^alpha"),
    ("file.replace", "path: {top}/text\n    - pattern: ^key=.*$\n    - repl: key=1"),
    (
        "file.blockreplace",
        "path: {top}/text\n    - marker_start: '# start'\n    - marker_end: '# end'\n    - content: inside",
    ),
    ("file.keyvalue", "path: {top}/text\n    - key: key\n    - value: '1'\n    - separator: '='"),
    ("file.serialize", "path: {path}\n    - dataset: {number: {n}}\n    - serializer: json"),
    ("ini.options_present", "name: {top}/settings.ini\n    - sections: {section: {key: value}}"),
    ("file.prepend", "path: {top}/text\n    - text: alpha"),
    ("file.comment", "path: {top}/commented\n    - regex: ^one$"),
    ("file.uncomment", "path: {top}/commented\n    - regex: ^two$"),
    ("file.recurse", "path: {path}\n    - source: {top}/tree"),
    ("file.missing", "path: {path}"),
    ("archive.extracted", "path: {path}\n    - source: {top}/tree.tar"),
    ("ini.options_absent", "name: {top}/settings.ini\n    - sections: {section: [other]}"),
    ("sysctl.present", "name: kernel.ostype\n    - value: Linux\n    - config: {path}"),
    ("mount.unmounted", "name: {path}"),
    ("user.absent", "name: zester-bench-{n}"),
    ("group.absent", "name: zester-bench-{n}"),
    ("host.absent", "name: bench-{n}.invalid"),
    ("cmd.run", "name: 'true'\n    - creates: {top}/text"),
    ("test.nop", "name: nop-{n}"),
];

const TEXT: &str = "alpha\nbeta\nkey=1\n# start\ninside\n# end\n";

fn state(kind: &str, params: &str, top: &Path, n: usize) -> String {
    let (top, dir) = (top.display().to_string(), kind.replace('.', "-"));
    let params = params
        .replace("{path}", &format!("{top}/{dir}-{n}"))
        .replace("{top}", &top)
        .replace("{n}", &n.to_string());
    format!("{dir}-{n}:\n  {kind}:\n    - {params}\n    - auto_order: false\n")
}

fn measured(zester: &Path, scratch: &Path, name: &str, text: &str) -> Result<Cost, String> {
    let states = scratch.join("states");
    std::fs::create_dir_all(&states).map_err(|error| error.to_string())?;
    std::fs::write(states.join(format!("{name}.zy")), text).map_err(|error| error.to_string())?;
    let (states, data) = (states.display().to_string(), scratch.join("data").display().to_string());
    let words = ["apply", name, "--states", &states, "--data-dir", &data];
    // Once to bring it about, and to see that it settles.
    median(1, zester, &words)?;
    median(RUNS, zester, &words)
}

pub fn claims(zester: &Path, scratch: &Path, report: &mut Report) -> Result<(), String> {
    let top = scratch.join("kinds");
    std::fs::create_dir_all(&top).map_err(|error| error.to_string())?;
    for (name, text) in [("text", TEXT), ("settings.ini", "[section]\nkey = value\n")] {
        std::fs::write(top.join(name), text).map_err(|error| error.to_string())?;
    }
    let wrong = |error: std::io::Error| error.to_string();
    std::fs::write(top.join("commented"), "#one\ntwo\n").map_err(wrong)?;
    std::fs::create_dir_all(top.join("tree/sub")).map_err(wrong)?;
    std::fs::write(top.join("tree/sub/file"), TEXT).map_err(wrong)?;
    let packed = Command::new("tar").args(["-cf", "tree.tar", "tree"]).current_dir(&top).status();
    if !packed.map_err(wrong)?.success() {
        return Err("tar made no archive".into());
    }
    let start_up = measured(zester, scratch, "start-up", "one:\n  test.nop: []\n")?;
    for (kind, params) in KINDS {
        let text: String = (0..OF_ONE_KIND).map(|n| state(kind, params, &top, n)).collect();
        let cost = measured(zester, scratch, &format!("kind-{}", kind.replace('.', "-")), &text)?;
        let each = (cost.cpu_ms - start_up.cpu_ms).max(0.0) / OF_ONE_KIND as f64;
        let notes = json!({ "wall_ms": cost.wall_ms, "peak_mb": cost.peak_mb });
        report.claim(&format!("a {kind} in place, CPU"), each, "ms", STATE_MS_MAX, notes);
    }
    let mut mixed = String::new();
    let mut files = String::new();
    for n in 0..MIXED {
        let (kind, params) = KINDS[n % KINDS.len()];
        // Writing to a string cannot fail.
        let _ = write!(mixed, "{}", state(kind, params, &top, n));
        let _ = write!(files, "{}", state(KINDS[0].0, KINDS[0].1, &top, n));
    }
    let mixed = measured(zester, scratch, "mixed", &mixed)?;
    let files = measured(zester, scratch, "only-files", &files)?;
    let notes = json!({ "mixed_ms": mixed.wall_ms, "files_ms": files.wall_ms, "mixed_cpu_ms": mixed.cpu_ms });
    report.claim(
        "no-op apply of 1,000 mixed states / file.managed",
        mixed.wall_ms / files.wall_ms,
        "x",
        MIXED_PER_FILES,
        notes,
    );
    let notes = json!({ "start_up_mb": start_up.peak_mb, "files_mb": files.peak_mb });
    report.claim("no-op apply of 1,000 mixed states, memory", mixed.peak_mb, "MB", MIXED_MB_MAX, notes);
    Ok(())
}
