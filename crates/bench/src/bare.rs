//! The bare loops: the least that the work could cost.

use std::io::{Read, Write};
use std::os::unix::fs::MetadataExt;
use std::process::{Command, Stdio};
use zester_engine::{Graph, NodeSpec};
use zester_model::name::StateName;
use zester_model::requisite::EdgeKind;

/// Opens, reads, stats and compares every file of a directory with what it should hold.
pub fn files(directory: &str) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("{directory}: {error}");
    let mut wrong = 0;
    for index in 0.. {
        let path = format!("{directory}/file-{index}");
        let Ok(mut file) = std::fs::File::open(&path) else { break };
        let mut found = Vec::new();
        file.read_to_end(&mut found).map_err(fail)?;
        let meta = file.metadata().map_err(fail)?;
        if found != content(index).as_bytes() || meta.mode() & 0o7777 != 0o644 {
            wrong += 1;
        }
    }
    if wrong == 0 { Ok(()) } else { Err(format!("{wrong} files differ")) }
}

/// Writes new files one after the other, each whole or not at all: beside its place, synced, renamed.
pub fn new_files(directory: &str, count: usize) -> Result<(), String> {
    let fail = |error: std::io::Error| format!("{directory}: {error}");
    for index in 0..count {
        let (temp, path) = (format!("{directory}/.new-{index}"), format!("{directory}/file-{index}"));
        let mut file = std::fs::File::create_new(&temp).map_err(fail)?;
        file.write_all(content(index).as_bytes()).map_err(fail)?;
        file.sync_all().map_err(fail)?;
        std::fs::rename(&temp, &path).map_err(fail)?;
    }
    Ok(())
}

/// What file number `index` of the benchmark holds.
pub fn content(index: usize) -> String {
    format!("file {index}\nsome text that a small configuration file might hold\n")
}

/// Spawns and waits, one after the other.
pub fn spawns(count: usize) -> Result<(), String> {
    for _ in 0..count {
        let status = Command::new("/bin/true")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.map_err(|error| format!("/bin/true: {error}"))?;
    }
    Ok(())
}

/// Spawns all, then waits for all: what the machine needs for so many processes at once.
pub fn sleepers(count: usize) -> Result<(), String> {
    let mut children = Vec::with_capacity(count);
    for _ in 0..count {
        let spawned = Command::new("/bin/sleep").arg("0.5").stdin(Stdio::null()).spawn();
        children.push(spawned.map_err(|error| format!("/bin/sleep: {error}"))?);
    }
    children.iter_mut().try_for_each(|child| child.wait().map(drop)).map_err(|error| error.to_string())
}

/// Builds and resolves a graph of `count` states with three edges each.
pub fn graph(count: usize) -> Result<(), String> {
    let specs: Vec<NodeSpec> = (0..count)
        .map(|index| {
            let name = StateName::new("test.nop", &format!("state-{index}"));
            let back = [1, 7, 61].iter().filter_map(|far| index.checked_sub(far * 11));
            NodeSpec {
                edges: back.map(|target| (target, EdgeKind::Require)).collect(),
                ..NodeSpec::new(name)
            }
        })
        .collect();
    let graph = Graph::build(specs).map_err(|error| error.to_string())?;
    if graph.len() == count { Ok(()) } else { Err("states are missing from the graph".into()) }
}
