//! A store whose process is killed in the middle keeps everything that was acknowledged (J-7, J-22).

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test fails by panicking")]

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_peel::Store;
use zester_peel::store::FileStore;
use zester_rule::rule;
use zester_wire::{Cause, Jid, PeelId, Return, UnixMillis};

const DIRECTORY: &str = "ZESTER_TEST_STORE";
/// What stands before the number of a dispatch that was acknowledged, in the output of the child.
const ACCEPTED: &str = "accepted ";
const RETURNED: &str = "returned ";

fn dispatch(number: u64) -> Dispatch {
    Dispatch { jid: Jid::new(UnixMillis(1_700_000_000_000), [7; 16]), epoch: number }
}

/// What the process does that is killed.
async fn a_writer_that_is_killed(dir: &str) {
    let store = FileStore::open(dir.as_ref()).unwrap();
    let peel = PeelId::parse("web-1").unwrap();
    for number in 1.. {
        let Dispatch { jid, epoch } = dispatch(number);
        let (state, keep_until) = (DispatchState::Accepted, UnixMillis(9));
        store
            .put_entry(Entry { dispatch: dispatch(number), state, keep_until, direct: false, schedule: None })
            .await
            .unwrap();
        println!("\n{ACCEPTED}{number}");
        let ret = Return::refusing(jid, peel.clone(), epoch, Cause::Finished, &"x".repeat(2_000));
        store.put_return(ret).await.unwrap();
        println!("\n{RETURNED}{number}");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("J-22")]
async fn j22_what_was_acknowledged_survives_a_kill_at_any_moment() {
    // It runs itself: the child is the process that is killed.
    if let Ok(dir) = std::env::var(DIRECTORY) {
        return a_writer_that_is_killed(&dir).await;
    }
    let dir = tempfile::tempdir().unwrap();
    for lines in [1, 2, 7, 40] {
        let path = dir.path().join(lines.to_string());
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "j22_what_was_acknowledged_survives_a_kill_at_any_moment", "--nocapture"])
            .env(DIRECTORY, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let told = |line: &String| line.starts_with(ACCEPTED) || line.starts_with(RETURNED);
        let heard: Vec<String> = output.filter(told).take(lines).collect();
        child.kill().unwrap();
        child.wait().unwrap();
        let store = FileStore::open(&path).unwrap();
        let loaded = store.load().await.unwrap();
        for line in &heard {
            let (word, number) = line.split_once(' ').unwrap();
            let dispatch = dispatch(number.parse().unwrap());
            let entry = loaded.iter().find(|entry| entry.dispatch == dispatch).unwrap();
            if format!("{word} ") == RETURNED {
                assert_eq!(entry.state, DispatchState::Returned { delivered: false }, "{line}");
                assert!(store.get_return(dispatch).await.unwrap().is_some(), "{line}");
            }
        }
        assert_eq!(heard.len(), lines);
    }
}
