//! A disk that does not keep what was written: nobody is told that it did (J-7, J-22).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_peel::Store;
use zester_peel::store::{FileStore, SyncCalls};
use zester_rule::rule;
use zester_wire::{Cause, Jid, PeelId, Return, UnixMillis};

const OUTBOX_BYTES: u64 = 1024 * 1024;

/// Counts the syncs of files and of directories, and fails one kind of them where it is told to.
#[derive(Default)]
struct Failing {
    content: AtomicBool,
    names: AtomicBool,
    contents: AtomicUsize,
}

fn fail_where(told: &AtomicBool) -> io::Result<()> {
    if told.load(Ordering::SeqCst) { Err(io::Error::other("the disk is dying")) } else { Ok(()) }
}

impl SyncCalls for Failing {
    fn content(&self, _: &File) -> io::Result<()> {
        self.contents.fetch_add(1, Ordering::SeqCst);
        fail_where(&self.content)
    }

    fn names(&self, _: &File) -> io::Result<()> {
        fail_where(&self.names)
    }
}

fn dispatch(number: u64) -> Dispatch {
    Dispatch { jid: Jid::new(UnixMillis(1_700_000_000_000), [7; 16]), epoch: number }
}

fn entry(number: u64) -> Entry {
    let (dispatch, keep_until) = (dispatch(number), UnixMillis(u64::MAX));
    Entry { dispatch, state: DispatchState::Accepted, keep_until, direct: false, schedule: None }
}

fn ret(number: u64) -> Return {
    let Dispatch { jid, epoch } = dispatch(number);
    Return::refusing(jid, PeelId::parse("web-1").unwrap(), epoch, Cause::Finished, "")
}

#[tokio::test]
#[rule("J-7")]
async fn j7_what_is_not_synced_is_not_taken_on() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let store = FileStore::open_on(disk.clone(), dir.path(), OUTBOX_BYTES).unwrap();
    store.put_entry(entry(1)).await.unwrap();
    assert_eq!(disk.contents.load(Ordering::SeqCst), 1);
    disk.content.store(true, Ordering::SeqCst);
    let refused = store.put_entry(entry(2)).await.unwrap_err();
    assert!(refused.0.contains("cannot write") && refused.0.contains("ledger"), "{refused}");
    disk.content.store(false, Ordering::SeqCst);
    store.put_entry(entry(3)).await.unwrap();
    drop(store);
    let again = FileStore::open(dir.path()).unwrap().load().await.unwrap();
    let epochs: Vec<u64> = again.into_iter().map(|entry| entry.dispatch.epoch).collect();
    assert_eq!(epochs, [1, 3], "what was refused is not there later");
}

#[tokio::test]
#[rule("J-22")]
async fn j22_a_return_that_is_not_synced_is_not_called_stored() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let store = FileStore::open_on(disk.clone(), dir.path(), OUTBOX_BYTES).unwrap();
    store.check().await.unwrap();
    disk.content.store(true, Ordering::SeqCst);
    store.put_return(ret(1)).await.unwrap_err();
    assert_eq!(store.get_return(dispatch(1)).await.unwrap(), None, "it is not in its place");
    let told = store.check().await.unwrap_err();
    assert!(told.0.contains("cannot write to"), "{told}");
    disk.content.store(false, Ordering::SeqCst);
    // Its name may be gone after a power cut: it is written again.
    disk.names.store(true, Ordering::SeqCst);
    store.put_return(ret(1)).await.unwrap_err();
    disk.names.store(false, Ordering::SeqCst);
    store.put_return(ret(1)).await.unwrap();
    store.check().await.unwrap();
}

/// A ledger that is written anew takes the place of the old one only when it is on disk.
#[tokio::test]
#[rule("J-7")]
async fn j7_a_ledger_that_is_written_anew_is_synced_before_it_takes_its_place() {
    const MANY: usize = 5_000;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let store = FileStore::open_on(disk.clone(), dir.path(), OUTBOX_BYTES).unwrap();
    for _ in 0..MANY {
        store.put_entry(entry(1)).await.unwrap();
    }
    let length = std::fs::metadata(dir.path().join("ledger")).unwrap().len();
    assert!(length < MANY as u64 * 60, "it was never written anew: {length}");
    assert_eq!(disk.contents.load(Ordering::SeqCst), MANY + 1, "each line once, and the new ledger");
    drop(store);
    assert_eq!(FileStore::open(dir.path()).unwrap().load().await.unwrap(), [entry(1)]);
}

#[tokio::test]
#[rule("J-7")]
async fn j7_a_new_ledger_whose_name_may_be_lost_is_told_no_more() {
    const MANY: usize = 5_000;
    let dir = tempfile::tempdir().unwrap();
    let disk = Arc::new(Failing::default());
    let store = FileStore::open_on(disk.clone(), dir.path(), OUTBOX_BYTES).unwrap();
    disk.names.store(true, Ordering::SeqCst);
    let mut refused = None;
    for _ in 0..MANY {
        refused = store.put_entry(entry(1)).await.err();
        if refused.is_some() {
            break;
        }
    }
    let refused = refused.expect("whatever is added after it was written anew could be gone");
    assert!(refused.0.contains("the disk is dying"), "{refused}");
    store.put_entry(entry(2)).await.unwrap_err();
    disk.names.store(false, Ordering::SeqCst);
    store.put_entry(entry(3)).await.unwrap();
    drop(store);
    let again = FileStore::open(dir.path()).unwrap().load().await.unwrap();
    assert_eq!(again, [entry(1), entry(3)]);
}
