//! A disk without room: what was not written is not taken on, to the last byte (J-7).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

use std::path::Path;
use std::process::Command;
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_peel::Store;
use zester_peel::store::FileStore;
use zester_rule::rule;
use zester_wire::{Jid, UnixMillis};

const DIRECTORY: &str = "ZESTER_TEST_FULL";
const ACCEPTED: &str = "accepted ";
const REFUSED: &str = "refused ";
/// Tries after the first refusal.
const MORE: u64 = 20;

fn entry(number: u64) -> Entry {
    let dispatch = Dispatch { jid: Jid::new(UnixMillis(1_700_000_000_000), [7; 16]), epoch: number };
    Entry {
        dispatch,
        state: DispatchState::Accepted,
        keep_until: UnixMillis(9),
        direct: false,
        schedule: None,
    }
}

/// Takes on one after the other until nothing more fits, and tries on.
async fn fill(dir: &Path) {
    let store = FileStore::open(dir).unwrap();
    let (mut number, mut refused) = (0, 0);
    while refused < MORE {
        number += 1;
        match store.put_entry(entry(number)).await {
            Ok(()) => println!("\n{ACCEPTED}{number}"),
            Err(error) => {
                refused += 1;
                println!("\n{REFUSED}{number} {error}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("J-7")]
async fn j7_on_a_full_disk_only_what_is_written_was_taken_on() {
    // It runs itself: the child may not let a file grow beyond a few blocks, wherever a line of the ledger ends.
    if let Ok(dir) = std::env::var(DIRECTORY) {
        return fill(dir.as_ref()).await;
    }
    let dir = tempfile::tempdir().unwrap();
    for blocks in [1, 2, 3, 7] {
        let path = dir.path().join(blocks.to_string());
        let limited = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        let child = Command::new("sh")
            .args(["-c", &limited])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "j7_on_a_full_disk_only_what_is_written_was_taken_on", "--nocapture"])
            .env(DIRECTORY, &path)
            .output()
            .unwrap();
        let output = String::from_utf8(child.stdout).unwrap();
        let numbers = |word: &str| -> Vec<u64> {
            let of_word = output.lines().filter_map(|line| line.strip_prefix(word));
            of_word.map(|rest| rest.split(' ').next().unwrap().parse().unwrap()).collect()
        };
        assert!(numbers(REFUSED).len() as u64 == MORE, "{output}");
        assert!(!numbers(ACCEPTED).is_empty(), "{output}");
        let there: Vec<u64> = FileStore::open(&path)
            .unwrap()
            .load()
            .await
            .unwrap()
            .into_iter()
            .map(|entry| entry.dispatch.epoch)
            .collect();
        assert_eq!(there, numbers(ACCEPTED), "{blocks} blocks: {output}");
    }
}
