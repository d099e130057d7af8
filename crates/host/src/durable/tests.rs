use super::*;
use crate::files::{HostRead, HostWrite, NewFile};
use crate::real::Real;
use std::collections::HashSet;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use zester_rule::rule;

/// A disk that counts, that can be full, and that knows which files and names it was asked to keep.
#[derive(Default)]
struct Counting {
    files: AtomicUsize,
    directories: AtomicUsize,
    file_systems: AtomicUsize,
    whole: AtomicBool,
    unwritten_kb: AtomicUsize,
    full: AtomicBool,
    /// Its file system tells of an error, once, as the kernel does.
    whole_fails: AtomicBool,
}

impl Counting {
    fn done(&self) -> rustix::io::Result<()> {
        // Long enough for others to come meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(5));
        if self.full.load(Ordering::SeqCst) { Err(Errno::NOSPC) } else { Ok(()) }
    }
}

impl SyncCalls for Arc<Counting> {
    fn file(&self, _: &File) -> rustix::io::Result<()> {
        self.files.fetch_add(1, Ordering::SeqCst);
        self.done()
    }

    fn directory(&self, _: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.directories.fetch_add(1, Ordering::SeqCst);
        self.done()
    }

    fn file_system(&self, _: BorrowedFd<'_>) -> rustix::io::Result<()> {
        self.file_systems.fetch_add(1, Ordering::SeqCst);
        self.done()?;
        if self.whole_fails.swap(false, Ordering::SeqCst) { Err(Errno::IO) } else { Ok(()) }
    }

    fn syncs_whole(&self, _: BorrowedFd<'_>) -> bool {
        self.whole.load(Ordering::SeqCst)
    }

    fn unwritten_kb(&self) -> Option<u64> {
        Some(self.unwritten_kb.load(Ordering::SeqCst) as u64)
    }
}

const THREADS: usize = 16;
const FILES: usize = 160;

/// Many files put at once; how many of them were.
fn put_many(calls: &Arc<Counting>, top: &Path) -> usize {
    let host = Real::on(Durable::behind(Box::new(calls.clone())));
    let (next, put, start) = (AtomicUsize::new(0), AtomicUsize::new(0), Barrier::new(THREADS));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                start.wait();
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    if number >= FILES {
                        break;
                    }
                    let content = format!("file {number}");
                    let new = NewFile { content: content.as_bytes(), mode: 0o644, owner: host.me() };
                    let done = host.put_file(&top.join(format!("file-{number}")), &new);
                    put.fetch_add(usize::from(done.is_ok()), Ordering::SeqCst);
                }
            });
        }
    });
    put.into_inner()
}

fn names(top: &Path) -> HashSet<String> {
    let entries = std::fs::read_dir(top).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn scratch() -> (tempfile::TempDir, std::path::PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let top = temp.path().canonicalize().unwrap();
    (temp, top)
}

#[test]
#[rule("S-31")]
fn s31_files_that_are_put_at_once_share_the_syncs_of_their_file_system_and_directory() {
    let (_temp, top) = scratch();
    let calls = Arc::new(Counting { whole: AtomicBool::new(true), ..Counting::default() });
    assert_eq!(put_many(&calls, &top), FILES);
    assert_eq!(names(&top).len(), FILES, "every file, and nothing beside them");
    let count = |counter: &AtomicUsize| counter.load(Ordering::SeqCst);
    let (files, directories, file_systems) =
        (count(&calls.files), count(&calls.directories), count(&calls.file_systems));
    assert!(files <= FILES / 2, "{files} files were synced one by one");
    assert!(file_systems <= FILES / 2, "{file_systems} syncs of the file system");
    assert!(directories <= FILES / 2, "{directories} syncs of the directory");
}

#[test]
#[rule("S-31")]
fn s31_where_much_is_unwritten_or_a_sync_of_all_says_little_each_file_is_synced() {
    for (whole, unwritten_kb) in [(false, 0), (true, UNWRITTEN_KB_MAX as usize + 1)] {
        let (_temp, top) = scratch();
        let (whole, unwritten_kb) = (AtomicBool::new(whole), AtomicUsize::new(unwritten_kb));
        let calls = Arc::new(Counting { whole, unwritten_kb, ..Counting::default() });
        assert_eq!(put_many(&calls, &top), FILES);
        assert_eq!(calls.files.load(Ordering::SeqCst), FILES);
        assert_eq!(calls.file_systems.load(Ordering::SeqCst), 0);
    }
}

#[test]
#[rule("S-31")]
fn s31_a_content_that_could_not_be_synced_never_gets_its_name() {
    let (_temp, top) = scratch();
    let (whole, full) = (AtomicBool::new(true), AtomicBool::new(true));
    let calls = Arc::new(Counting { whole, full, ..Counting::default() });
    assert_eq!(put_many(&calls, &top), 0, "what its own sync could not keep is not there");
    assert_eq!(names(&top), HashSet::new());
}

/// The error may be of somebody else's file, or of one that the next round is for: it says nothing of any file, and the
/// kernel tells it once.
#[test]
#[rule("S-31")]
fn s31_after_an_error_of_the_file_system_each_file_is_synced_by_itself() {
    let (_temp, top) = scratch();
    let (whole, whole_fails) = (AtomicBool::new(true), AtomicBool::new(true));
    let calls = Arc::new(Counting { whole, whole_fails, ..Counting::default() });
    assert_eq!(put_many(&calls, &top), FILES);
    assert_eq!(calls.file_systems.load(Ordering::SeqCst), 1, "it is not asked again");
    assert_eq!(calls.files.load(Ordering::SeqCst), FILES);
}

#[test]
fn what_is_unwritten_is_read_from_meminfo() {
    let text = "MemTotal:       24000000 kB\nDirty:              1200 kB\nWriteback:            34 kB\n";
    assert_eq!(unwritten(text), Some(1234));
    assert_eq!(unwritten("MemTotal: 1 kB\n"), None);
}

#[test]
fn only_kernels_that_tell_errors_sync_a_file_system_as_a_whole() {
    for (release, recent) in
        [("6.1.0-18-amd64", true), ("5.8", true), ("5.7.19", false), ("4.19.0", false), ("", false)]
    {
        assert_eq!(is_recent(release), recent, "{release}");
    }
}
