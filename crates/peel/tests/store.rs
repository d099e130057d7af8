//! Both stores do the same, and the one on disk also after a crash.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use serde_json::json;
use std::os::unix::fs::PermissionsExt;
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_peel::Store;
use zester_peel::store::{FileStore, MemoryStore};
use zester_rule::rule;
use zester_wire::{Cause, Jid, PeelId, Return, UnixMillis};

fn dispatch(number: u8) -> Dispatch {
    Dispatch { jid: Jid::new(UnixMillis(1_700_000_000_000), [number; 16]), epoch: 1 }
}

fn entry(number: u8, state: DispatchState) -> Entry {
    Entry { dispatch: dispatch(number), state, keep_until: UnixMillis(99), direct: false, schedule: None }
}

fn ret(number: u8) -> Return {
    let Dispatch { jid, epoch } = dispatch(number);
    let peel = PeelId::parse("web-1").unwrap();
    Return {
        success: true,
        answer: json!({"number": number}),
        ..Return::refusing(jid, peel, epoch, Cause::Finished, "")
    }
}

const DELIVERED: DispatchState = DispatchState::Returned { delivered: true };
const WAITING: DispatchState = DispatchState::Returned { delivered: false };

async fn fill(store: &dyn Store) {
    for number in 1..=5 {
        store.put_entry(entry(number, DispatchState::Accepted)).await.unwrap();
    }
    store.put_return(ret(2)).await.unwrap();
    store.put_return(ret(3)).await.unwrap();
    store.put_entry(entry(3, DELIVERED)).await.unwrap();
    store.put_return(ret(4)).await.unwrap();
    store.put_entry(entry(4, DELIVERED)).await.unwrap();
    store.forget(vec![dispatch(4)]).await.unwrap();
    store.put_entry(entry(5, DispatchState::Canceled)).await.unwrap();
    // Refused before it stood in the ledger.
    store.put_return(ret(6)).await.unwrap();
}

async fn check(store: &dyn Store) {
    let mut loaded = store.load().await.unwrap();
    loaded.sort_by(|left, right| left.dispatch.cmp(&right.dispatch));
    let standings: Vec<_> = loaded.iter().map(|entry| (entry.dispatch.clone(), entry.state)).collect();
    let wanted = [
        (dispatch(1), DispatchState::Accepted),
        (dispatch(2), WAITING),
        (dispatch(3), DELIVERED),
        (dispatch(5), DispatchState::Canceled),
        (dispatch(6), WAITING),
    ];
    assert_eq!(standings, wanted);
    assert!(loaded.iter().take(4).all(|entry| entry.keep_until == UnixMillis(99)));
    for number in [2, 3, 6] {
        assert_eq!(store.get_return(dispatch(number)).await.unwrap(), Some(ret(number)));
    }
    for number in [1, 4, 5, 7] {
        assert_eq!(store.get_return(dispatch(number)).await.unwrap(), None);
    }
}

#[tokio::test]
#[rule("J-22")]
async fn j22_what_was_put_is_there_for_the_next_life() {
    let memory = MemoryStore::new();
    fill(&memory).await;
    check(&memory.clone()).await;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = FileStore::open(&path).unwrap();
    fill(&store).await;
    check(&store).await;
    drop(store);
    check(&FileStore::open(&path).unwrap()).await;
}

#[tokio::test]
async fn one_peel_a_directory_and_nobody_else_may_look() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data");
    let store = FileStore::open(&path).unwrap();
    store.put_entry(entry(1, DispatchState::Accepted)).await.unwrap();
    store.put_return(ret(1)).await.unwrap();
    let error = FileStore::open(&path).err().unwrap();
    assert!(error.0.contains("another peel uses"), "{error}");
    let mut open = vec![path];
    while let Some(path) = open.pop() {
        let meta = std::fs::metadata(&path).unwrap();
        assert_eq!(meta.permissions().mode() & 0o077, 0, "{}", path.display());
        if meta.is_dir() {
            open.extend(std::fs::read_dir(&path).unwrap().map(|found| found.unwrap().path()));
        }
    }
}

#[tokio::test]
async fn entries_that_come_together_are_all_there() {
    let dir = tempfile::tempdir().unwrap();
    let store = FileStore::open(dir.path()).unwrap();
    let mut writes = tokio::task::JoinSet::new();
    for number in 0..100 {
        let store = store.clone();
        writes.spawn(async move { store.put_entry(entry(number, DispatchState::Accepted)).await });
    }
    while let Some(written) = writes.join_next().await {
        written.unwrap().unwrap();
    }
    drop(store);
    assert_eq!(FileStore::open(dir.path()).unwrap().load().await.unwrap().len(), 100);
}

#[tokio::test]
#[rule("J-22")]
async fn j22_a_damaged_return_is_lost_and_set_aside_and_the_others_are_stored_all_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let large = |number: u8| Return { answer: json!({"log": "x".repeat(30_000)}), ..ret(number) };
    let store = FileStore::open_within(dir.path(), 50_000).unwrap();
    store.put_return(large(1)).await.unwrap();
    let files = || {
        let files = std::fs::read_dir(dir.path().join("outbox")).unwrap();
        let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
        files.sort();
        files
    };
    let mut bytes = std::fs::read(&files()[0]).unwrap();
    bytes[10] ^= 1;
    std::fs::write(&files()[0], bytes).unwrap();
    // All together are too many now, and the oldest cannot be truncated.
    store.put_return(large(2)).await.unwrap();
    assert_eq!(store.get_return(dispatch(1)).await.unwrap(), None, "it is lost, which can be told");
    assert!(!store.get_return(dispatch(2)).await.unwrap().unwrap().truncated);
    let kept = files();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().any(|path| path.to_str().unwrap().contains("/damaged-")), "{kept:?}");
    assert_eq!(store.load().await.unwrap().len(), 1);
}

#[tokio::test]
#[rule("J-16", "J-22")]
async fn j16_returns_that_take_too_much_of_the_disk_are_truncated_oldest_first() {
    let dir = tempfile::tempdir().unwrap();
    let large = |number: u8| {
        let Dispatch { jid: _, epoch } = dispatch(number);
        let jid = Jid::new(UnixMillis(1_700_000_000_000 + u64::from(number) * 1_000), [0; 16]);
        Return { jid, dispatch_epoch: epoch, answer: json!({"log": "x".repeat(30_000)}), ..ret(number) }
    };
    let key = |number| Dispatch { jid: large(number).jid, epoch: 1 };
    let store = FileStore::open_within(dir.path(), 100_000).unwrap();
    for number in 1..=5 {
        store.put_return(large(number)).await.unwrap();
    }
    let used = || {
        let files = std::fs::read_dir(dir.path().join("outbox")).unwrap();
        files.map(|file| file.unwrap().metadata().unwrap().len()).sum::<u64>()
    };
    assert!(used() <= 100_000, "{}", used());
    for number in 1..=5 {
        let kept = store.get_return(key(number)).await.unwrap().unwrap();
        assert_eq!((kept.truncated, kept.success), (number <= 2, true), "{number}");
        assert_eq!(kept.answer.to_string().contains("truncated"), number <= 2, "{number}");
    }
    // What is gone makes room again, and the next life knows what is there.
    store.forget(vec![key(3)]).await.unwrap();
    drop(store);
    let store = FileStore::open_within(dir.path(), 100_000).unwrap();
    store.put_return(large(6)).await.unwrap();
    assert!(!store.get_return(key(4)).await.unwrap().unwrap().truncated);
    store.put_return(large(7)).await.unwrap();
    assert!(store.get_return(key(4)).await.unwrap().unwrap().truncated);
    assert!(used() <= 100_000, "{}", used());
}
