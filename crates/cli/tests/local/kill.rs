//! `kill -9` of an apply at any moment, then a revert: everything is as it was before, byte and mode.

use crate::scratch::Scratch;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use zester_rule::rule;

const FILES: usize = 50;

/// Four of these run side by side: 200 kills, and 2,000 in `make soak`.
fn kills() -> usize {
    if std::env::var_os("ZESTER_SOAK").is_some() { 500 } else { 50 }
}

/// Every path below a directory: sort, mode and content.
type Snapshot = BTreeMap<String, (u32, Vec<u8>)>;

fn snapshot(root: &Path) -> Snapshot {
    let mut found = Snapshot::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(directory) = rest.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let meta = std::fs::symlink_metadata(&path).unwrap();
            let content = if meta.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
            if meta.is_dir() {
                rest.push(path.clone());
            }
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), (meta.mode(), content));
        }
    }
    found
}

/// Half of the files exist before, each with a mode of its own; the others are new, some in new directories.
fn lay_out(scratch: &Scratch) {
    let mut states = String::new();
    for index in 0..FILES {
        let path = if index % 5 == 3 {
            format!("machine/new-{index}/deep/file")
        } else {
            format!("machine/file-{index}")
        };
        if index % 2 == 0 && index % 5 != 3 {
            scratch.write(&path, &format!("before {index}\n").repeat(index * 7 + 1));
            std::fs::set_permissions(
                scratch.path(&path),
                std::fs::Permissions::from_mode(0o600 + index as u32 % 8),
            )
            .unwrap();
        }
        writeln!(
            states,
            "state-{index}:\n  file.managed:\n    - path: @T@/{path}\n    - content: \"after {index}\"\n    - mode: \"0644\"\n    - makedirs: true"
        )
        .unwrap();
        if index % 10 > 0 {
            writeln!(states, "    - require:\n      - file: state-{}", index - 1).unwrap();
        }
    }
    std::fs::create_dir_all(scratch.path("machine")).unwrap();
    scratch.write("states/c.zy", &states);
}

/// A small generator: the moments differ from test to test and are the same in every run of one.
struct Moments(u64);

impl Moments {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below.max(1)
    }
}

fn kill_and_revert(seed: u64) {
    let whole = {
        let scratch = Scratch::new();
        lay_out(&scratch);
        let started = Instant::now();
        assert_eq!(scratch.zester(&["apply", "c"]).code, Some(0));
        started.elapsed()
    };
    let mut moments = Moments(seed);
    let mut cut_off = 0;
    let kills = kills();
    for round in 0..kills {
        let scratch = Scratch::new();
        lay_out(&scratch);
        let before = snapshot(&scratch.path("machine"));
        let after = Duration::from_micros(moments.next(whole.as_micros() as u64 * 11 / 10));
        let mut child = scratch.spawn(&["apply", "c"]);
        // The moment itself is what is tested, not a condition.
        std::thread::sleep(after);
        let _ = child.kill();
        let status = child.wait().unwrap();
        cut_off += usize::from(!status.success());
        let reverted = scratch.zester(&["revert", "c"]);
        assert_eq!(
            reverted.code,
            Some(0),
            "seed {seed} round {round}: {} {}",
            reverted.stdout,
            reverted.stderr
        );
        let found = snapshot(&scratch.path("machine"));
        let differing: Vec<_> = before
            .iter()
            .filter(|(path, state)| found.get(*path) != Some(state))
            .map(|(path, _)| path)
            .collect();
        let extra: Vec<_> = found.keys().filter(|path| !before.contains_key(*path)).collect();
        assert!(
            differing.is_empty() && extra.is_empty(),
            "seed {seed} round {round} after {after:?}: {differing:?} {extra:?}"
        );
        let again = scratch.json(&["revert", "c"]);
        assert_eq!(again["changed"], 0, "a revert is used once");
    }
    assert!(cut_off > kills / 4, "only {cut_off} of {kills} runs were cut off");
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_first_fifty() {
    kill_and_revert(0x9E37_79B9_7F4A_7C15);
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_second_fifty() {
    kill_and_revert(0xD1B5_4A32_D192_ED03);
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_third_fifty() {
    kill_and_revert(0x8CB9_2BA7_2F3D_8DD7);
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_fourth_fifty() {
    kill_and_revert(0x2545_F491_4F6C_DD1D);
}
