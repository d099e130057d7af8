//! `kill -9` of an apply at any moment, then a revert: everything is as it was before, byte, mode and owner.
//!
//! What stands on the machine: files with and without a copy of their own to keep, directories that are made, changed
//! through and through or removed, and sockets, which nobody can bring back once they are gone.

use crate::scratch::{Scratch, wait_for};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};
use zester_rule::rule;

const FILES: usize = 50;
/// An owner that nobody else is; only root can give to it.
const OWNER: u32 = 12_345;
/// The file of the first state.
const FIRST: &str = "machine/file-0";
/// So many rounds are tried for one kill that falls between the first change and the last.
const TRIES: usize = 6;
/// Removed by a state, with a socket inside.
const REMOVED: &str = "machine/removed/run.sock";

/// Kills between the first change and the last. Four of these run side by side: 20 kills in every test run, 200 in `make soak`.
fn kills() -> usize {
    if std::env::var_os("ZESTER_SOAK").is_some() { 50 } else { 5 }
}

fn root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Every path below a directory: sort and mode, owner, content.
type Snapshot = BTreeMap<String, (u32, u32, u32, Vec<u8>)>;

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
            let seen = (meta.mode(), meta.uid(), meta.gid(), content);
            found.insert(path.strip_prefix(root).unwrap().display().to_string(), seen);
        }
    }
    found
}

/// Half of the files exist before, each with a mode and an owner of its own; the others are new, some in new directories.
fn lay_out(scratch: &Scratch) {
    let mut states = String::new();
    let owner = |index: usize| {
        if root() && index.is_multiple_of(4) { format!("\n    - user: {OWNER}") } else { String::new() }
    };
    for index in 0..FILES {
        let path = if index % 5 == 3 {
            format!("machine/new-{index}/deep/file")
        } else {
            format!("machine/file-{index}")
        };
        if index % 2 == 0 && index % 5 != 3 {
            let text = format!("before {index}\n").repeat(index * 7 + 1);
            write(scratch, &path, &text, 0o600 + index as u32 % 8, index % 3 == 0);
            if index % 8 == 0 {
                write(scratch, &format!("{path}~"), "an older copy", 0o640, false);
            }
        }
        let backup = if index % 4 == 0 { "\n    - backup: true" } else { "" };
        writeln!(
            states,
            "state-{index}:\n  file.managed:\n    - path: @T@/{path}\n    - content: \"after {index}\"\n    - mode: \"0644\"\n    - makedirs: true{backup}{}",
            owner(index)
        )
        .unwrap();
        if index % 10 > 0 {
            writeln!(states, "    - require:\n      - file: state-{}", index - 1).unwrap();
        }
    }
    for index in 0..5 {
        let made = format!("machine/made-{index}/below");
        writeln!(
            states,
            "made-{index}:\n  file.directory:\n    - path: @T@/{made}\n    - mode: \"0750\"\n    - makedirs: true{}\n    - require: [{{file: state-{}}}]",
            owner(index * 2),
            index * 7
        )
        .unwrap();
        let tree = format!("machine/tree-{index}");
        for file in 0..4 {
            write(scratch, &format!("{tree}/sub-{file}/file"), "inside", 0o604, file % 2 == 0);
        }
        UnixListener::bind(scratch.path(&tree).join("sub-0/run.sock")).unwrap();
        writeln!(
            states,
            "tree-{index}:\n  file.directory:\n    - path: @T@/{tree}\n    - mode: \"0711\"\n    - file_mode: \"0640\"\n    - recurse: [mode]{}",
            owner(index)
        )
        .unwrap();
    }
    for file in 0..4 {
        write(scratch, &format!("machine/removed/sub/file-{file}"), "to be removed", 0o600, file == 1);
    }
    UnixListener::bind(scratch.path(REMOVED)).unwrap();
    writeln!(states, "removed:\n  file.absent: [{{path: \"@T@/machine/removed\"}}]").unwrap();
    scratch.write("states/c.zy", &states);
}

fn write(scratch: &Scratch, path: &str, text: &str, mode: u32, given_away: bool) {
    scratch.write(path, text);
    let path = scratch.path(path);
    if root() && given_away {
        chown(&path, Some(OWNER + 1), Some(OWNER + 1)).unwrap();
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
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

/// By its reference, or by the run that `status` says was killed.
fn revert_words(scratch: &Scratch, by_run: bool) -> Option<Vec<String>> {
    if !by_run {
        return Some(vec!["revert".into(), "c".into()]);
    }
    let undo = scratch.json(&["status"])["revertible"][0]["run_id"].as_str().map(str::to_string);
    Some(vec!["revert".into(), "--run".into(), undo?])
}

/// How many of the paths of an apply are as it leaves them.
fn done_so_far(before: &Snapshot, now: &Snapshot) -> usize {
    let differs = |(path, seen): &(&String, &(u32, u32, u32, Vec<u8>))| before.get(*path) != Some(seen);
    now.iter().filter(differs).count() + before.keys().filter(|path| !now.contains_key(*path)).count()
}

/// Begins an apply, and returns when its first file stands.
fn begun(scratch: &Scratch) -> Child {
    let mut child = scratch.spawn(&["apply", "c"]);
    wait_for("the first file", || {
        scratch.read(FIRST).as_deref() == Some("after 0") || child.try_wait().unwrap().is_some()
    });
    child
}

fn kill_and_revert(seed: u64) {
    let (mut rest, all) = {
        let scratch = Scratch::new();
        lay_out(&scratch);
        let before = snapshot(&scratch.path("machine"));
        let child = begun(&scratch);
        let started = Instant::now();
        let applied = child.wait_with_output().unwrap();
        assert!(applied.status.success(), "{applied:?}");
        (started.elapsed(), done_so_far(&before, &snapshot(&scratch.path("machine"))))
    };
    let mut moments = Moments(seed);
    let kills = kills();
    let (mut round, mut in_the_middle) = (0, 0);
    while in_the_middle < kills {
        assert!(round < kills * TRIES, "only {in_the_middle} of {round} kills fell in the middle");
        round += 1;
        let scratch = Scratch::new();
        lay_out(&scratch);
        let mut before = snapshot(&scratch.path("machine"));
        let after = Duration::from_micros(moments.next(rest.as_micros() as u64));
        let mut child = begun(&scratch);
        // The moment itself is what is tested, not a condition.
        std::thread::sleep(after);
        let _ = child.kill();
        child.wait().unwrap();
        let done = done_so_far(&before, &snapshot(&scratch.path("machine")));
        if 0 < done && done < all {
            in_the_middle += 1;
        } else {
            // Faster than the one that was measured.
            rest = rest * 3 / 4;
        }
        let at = format!("seed {seed} round {round} after {after:?}");
        // A socket that is gone stays gone, and the revert says so; everything else comes back.
        let socket_stands =
            std::fs::symlink_metadata(scratch.path(REMOVED)).is_ok_and(|meta| meta.file_type().is_socket());
        let Some(words) = revert_words(&scratch, round % 2 == 1) else {
            assert_eq!(snapshot(&scratch.path("machine")), before, "{at}: nothing to revert");
            continue;
        };
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let reverted = scratch.zester(&words);
        let said = format!("{at}: {} {}", reverted.stdout, reverted.stderr);
        assert_eq!(reverted.code, Some(if socket_stands { 0 } else { 2 }), "{said}");
        if !socket_stands {
            assert!(reverted.stdout.contains("run.sock"), "{said}");
            before.remove("removed/run.sock");
        }
        let found = snapshot(&scratch.path("machine"));
        let differing: Vec<_> = before
            .iter()
            .filter(|(path, state)| found.get(*path) != Some(state))
            .map(|(path, _)| path)
            .collect();
        let extra: Vec<_> = found.keys().filter(|path| !before.contains_key(*path)).collect();
        assert!(differing.is_empty() && extra.is_empty(), "{said}: {differing:?} {extra:?}");
        let again = scratch.zester(&["revert", "c", "--format", "json"]);
        assert_eq!(again.json()["changed"], 0, "{at}: a revert is used once");
    }
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_first_quarter() {
    kill_and_revert(0x9E37_79B9_7F4A_7C15);
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_second_quarter() {
    kill_and_revert(0xD1B5_4A32_D192_ED03);
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_third_quarter() {
    kill_and_revert(0x8CB9_2BA7_2F3D_8DD7);
}

#[test]
#[rule("S-31")]
fn s31_killed_at_any_moment_and_reverted_fourth_quarter() {
    kill_and_revert(0x2545_F491_4F6C_DD1D);
}
