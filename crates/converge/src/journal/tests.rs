//! The journal's promises, crash by crash.

use super::*;
use crate::disk::DiskCalls;
use serde_json::json;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use zester_resources::context::BlobStore;
use zester_rule::rule;

mod damaged;

struct Fixture {
    _temp: tempfile::TempDir,
    dir: DataDir,
}

fn place() -> Fixture {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(temp.path()).unwrap();
    Fixture { _temp: temp, dir }
}

fn intent(state: &str, watchers: &[&str]) -> Intent {
    Intent {
        state: state.into(),
        kind: "file.managed".into(),
        undo: Some(json!({ "of": state })),
        depends_on: vec![],
        watchers: watchers.iter().map(|name| name.to_string()).collect(),
        objects: vec![],
        confirms: false,
        unconfirmed: false,
    }
}

fn ended(state: &str, changed: bool, failed: bool) -> Ended {
    Ended { state: state.into(), changed, failed, ..Ended::default() }
}

fn pending(journal: &Journal) -> Vec<String> {
    journal.pending().keys().cloned().collect()
}

fn undone(journal: &Journal) -> Vec<(String, String)> {
    journal.undos().unwrap().into_iter().map(|undo| (undo.run_id, undo.intent.state)).collect()
}

#[test]
fn a_run_that_changes_nothing_writes_no_log() {
    let place = place();
    Journal::open(&place.dir, "r1").unwrap().finish([], []).unwrap();
    let names: Vec<_> =
        fs::read_dir(place.dir.path("journal")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["objects"]);
}

#[test]
#[rule("S-31")]
fn s31_undo_records_come_back_newest_first_and_are_used_once() {
    let place = place();
    for run in ["r1", "r2"] {
        let journal = Journal::open(&place.dir, run).unwrap();
        journal.announce(intent("a", &[])).unwrap();
        journal.ended(ended("a", true, false)).unwrap();
        journal.finish([], []).unwrap();
    }
    let journal = Journal::open(&place.dir, "r3").unwrap();
    assert_eq!(undone(&journal), [("r2".into(), "a".into()), ("r1".into(), "a".into())]);
    let newest = journal.undos().unwrap().remove(0);
    journal.reverted(&newest).unwrap();
    assert_eq!(undone(&journal), [("r1".into(), "a".into())]);
}

#[test]
#[rule("S-31")]
fn s31_only_what_left_something_to_undo_is_undone() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    for state in ["clean", "failed", "touched", "cut off"] {
        journal.announce(intent(state, &[])).unwrap();
    }
    journal.ended(ended("clean", false, false)).unwrap();
    journal.ended(ended("failed", false, true)).unwrap();
    journal.ended(Ended { touched: true, ..ended("touched", false, true) }).unwrap();
    let states: Vec<_> = undone(&journal).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["cut off", "touched"]);
}

#[test]
#[rule("S-31")]
fn s31_what_acting_revealed_replaces_the_undo_value() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.announce(intent("pkg", &[])).unwrap();
    journal.ended(Ended { undo: Some(json!(["dep"])), ..ended("pkg", true, false) }).unwrap();
    assert_eq!(journal.undos().unwrap()[0].value, json!(["dep"]));
}

#[test]
#[rule("S-39")]
fn s39_a_run_cut_off_after_the_change_leaves_the_refresh_pending() {
    for end in [None, Some(ended("conf", true, false))] {
        let place = place();
        let killed = Journal::open(&place.dir, "r1").unwrap();
        killed.announce(intent("conf", &["service"])).unwrap();
        if let Some(end) = end {
            killed.ended(end).unwrap();
        }
        drop(killed);
        let next = Journal::open(&place.dir, "r2").unwrap();
        assert_eq!(pending(&next), ["service"]);
        drop(next);
        assert_eq!(
            pending(&Journal::open(&place.dir, "r3").unwrap()),
            ["service"],
            "it stays pending until it is given"
        );
        assert_eq!(JournalSnapshot::read(&place.dir).unwrap().pending.len(), 1);
    }
}

#[test]
#[rule("S-39")]
fn s39_nothing_is_pending_for_an_apply_that_changed_nothing_or_whose_watcher_ran() {
    let place = place();
    let killed = Journal::open(&place.dir, "r1").unwrap();
    killed.announce(intent("conf", &["service"])).unwrap();
    killed.ended(ended("conf", false, false)).unwrap();
    killed.announce(intent("other", &["restart"])).unwrap();
    killed.ended(ended("other", true, false)).unwrap();
    killed.announce(intent("restart", &[])).unwrap();
    killed.ended(ended("restart", true, false)).unwrap();
    drop(killed);
    assert_eq!(pending(&Journal::open(&place.dir, "r2").unwrap()), Vec::<String>::new());
}

#[test]
#[rule("S-43")]
fn s43_a_failure_that_touched_something_leaves_the_refresh_pending_whatever_a_later_try_finds() {
    let touched = || Ended { touched: true, ..ended("conf", false, true) };
    let tries = [
        (vec![ended("conf", false, true)], 0),
        (vec![touched()], 1),
        (vec![touched(), ended("conf", false, false)], 1),
        (vec![ended("conf", false, true), touched(), ended("conf", false, true)], 1),
    ];
    for (ends, with_pending) in tries {
        let place = place();
        let killed = Journal::open(&place.dir, "r1").unwrap();
        for end in ends {
            killed.announce(intent("conf", &["service"])).unwrap();
            killed.ended(end).unwrap();
        }
        drop(killed);
        assert_eq!(pending(&Journal::open(&place.dir, "r2").unwrap()).len(), with_pending);
    }
}

#[test]
#[rule("S-43")]
fn s43_the_undo_record_of_a_failure_holds_what_was_really_done() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.announce(intent("pkg", &[])).unwrap();
    let done = Ended { touched: true, undo: Some(json!(["half"])), ..ended("pkg", false, true) };
    journal.ended(done).unwrap();
    assert_eq!(journal.undos().unwrap()[0].value, json!(["half"]));
}

#[test]
#[rule("S-43")]
fn s43_what_was_cut_off_before_its_check_cmd_passed_is_unconfirmed_until_it_has() {
    let confirms = || Intent { confirms: true, ..intent("conf", &[]) };
    let found = |unconfirmed| Ended { unconfirmed, ..ended("conf", true, unconfirmed == Some(true)) };
    for (end, expected) in [(None, true), (Some(found(Some(true))), true), (Some(found(Some(false))), false)]
    {
        let place = place();
        let killed = Journal::open(&place.dir, "r1").unwrap();
        killed.announce(confirms()).unwrap();
        if let Some(end) = end {
            killed.ended(end).unwrap();
        }
        drop(killed);
        assert_eq!(JournalSnapshot::read(&place.dir).unwrap().unconfirmed.contains("conf"), expected);
        let next = Journal::open(&place.dir, "r2").unwrap();
        assert_eq!(next.is_unconfirmed("conf"), expected);
        next.set_unconfirmed("conf", false).unwrap();
        drop(next);
        assert!(!Journal::open(&place.dir, "r3").unwrap().is_unconfirmed("conf"));
    }
}

#[test]
#[rule("S-32", "S-43")]
fn s32_who_is_late_writes_to_the_log_of_its_own_run() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.announce(Intent { confirms: true, ..intent("conf", &["service"]) }).unwrap();
    journal.leave([], []).unwrap();
    let late = Ended { unconfirmed: Some(true), touched: true, ..ended("conf", false, true) };
    journal.ended(late).unwrap();
    drop(journal);
    let next = Journal::open(&place.dir, "r2").unwrap();
    assert_eq!(pending(&next), ["service"]);
    assert!(next.is_unconfirmed("conf"));
    assert_eq!(JournalSnapshot::read(&place.dir).unwrap().runs, ["r1"], "one log");
}

#[test]
#[rule("S-39")]
fn s39_a_refresh_is_settled_by_the_watcher_alone() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.finish([], [("service".to_string(), vec!["conf".to_string()])]).unwrap();
    let next = Journal::open(&place.dir, "r2").unwrap();
    next.refreshed("somebody else").unwrap();
    assert_eq!(pending(&next), ["service"]);
    next.refreshed("service").unwrap();
    drop(next);
    assert_eq!(pending(&Journal::open(&place.dir, "r3").unwrap()), Vec::<String>::new());
}

#[test]
#[rule("S-31")]
fn s31_a_torn_last_line_is_forgotten_and_later_records_can_be_read() {
    let place = place();
    let killed = Journal::open(&place.dir, "r1").unwrap();
    killed.announce(intent("a", &[])).unwrap();
    drop(killed);
    let log = log::list(&place.dir.path("journal")).unwrap().remove(0);
    let path = place.dir.path("journal").join("000001-r1.open");
    assert!(log.open);
    fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap()
        .write_all(b"0123abcd {\"record\":\"int")
        .unwrap();
    let next = Journal::open(&place.dir, "r2").unwrap();
    let undo = next.undos().unwrap().remove(0);
    next.reverted(&undo).unwrap();
    assert_eq!(undone(&next), []);
}

#[test]
fn before_images_come_back_whole_or_not_at_all() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    let name = journal.blobs().keep(b"old content").unwrap();
    assert_eq!(journal.blobs().fetch(&name).unwrap(), b"old content");
    fs::write(place.dir.path("journal").join("objects").join(&name), b"rotten").unwrap();
    assert!(journal.blobs().fetch(&name).unwrap_err().message.contains("damaged"));
    assert!(journal.blobs().fetch("../pending").is_err());
}

#[test]
fn a_damaged_before_image_is_replaced_when_its_content_is_kept_again() {
    let place = place();
    let name = Journal::open(&place.dir, "r1").unwrap().blobs().keep(b"old content").unwrap();
    for rotten in [&b"cut"[..], b"old_content"] {
        fs::write(place.dir.path("journal").join("objects").join(&name), rotten).unwrap();
        let journal = Journal::open(&place.dir, "r2").unwrap();
        assert_eq!(journal.blobs().keep(b"old content").unwrap(), name);
        assert_eq!(journal.blobs().fetch(&name).unwrap(), b"old content");
    }
}

#[test]
fn the_oldest_runs_give_way_and_their_before_images_with_them() {
    let place = place();
    for run in 0..3 {
        let journal = Journal::open(&place.dir, &format!("r{run}")).unwrap();
        let object = journal.blobs().keep(format!("before {run}").as_bytes()).unwrap();
        journal.announce(Intent { objects: vec![object], ..intent("a", &[]) }).unwrap();
        journal.finish([], []).unwrap();
    }
    let directory = place.dir.path("journal");
    let blobs = FileBlobStore::new(directory.join("objects"), Arc::new(Disk::real()));
    let logs = log::list(&directory).unwrap();
    shrink(&logs, &blobs, &PendingRefreshes::new(), 2, u64::MAX).unwrap();
    let runs: Vec<_> = undos_in(&directory).unwrap().into_iter().map(|undo| undo.run_id).collect();
    assert_eq!(runs, ["r2", "r1"]);
    assert_eq!(blobs.bytes().unwrap(), 16, "two images of eight bytes are left");
}

/// Runs `r0`…, each with a before-image of 1000 bytes; those named are reverted.
fn with_images(place: &Fixture, runs: usize, reverted: &[&str]) -> (PathBuf, FileBlobStore) {
    for run in 0..runs {
        let journal = Journal::open(&place.dir, &format!("r{run}")).unwrap();
        let object = journal.blobs().keep(format!("{run:01000}").as_bytes()).unwrap();
        journal.announce(Intent { objects: vec![object], ..intent("a", &[]) }).unwrap();
        journal.finish([], []).unwrap();
    }
    let journal = Journal::open(&place.dir, "revert").unwrap();
    for undo in journal.undos().unwrap() {
        if reverted.contains(&undo.run_id.as_str()) {
            journal.reverted(&undo).unwrap();
        }
    }
    let directory = place.dir.path("journal");
    let blobs = FileBlobStore::new(directory.join("objects"), Arc::new(Disk::real()));
    (directory, blobs)
}

fn undoable_runs(directory: &std::path::Path) -> Vec<String> {
    undos_in(directory).unwrap().into_iter().map(|undo| undo.run_id).collect()
}

#[test]
#[rule("S-31")]
fn s31_what_nobody_needs_goes_before_what_can_be_undone() {
    let place = place();
    let (directory, blobs) = with_images(&place, 3, &["r1", "r2"]);
    let logs = log::list(&directory).unwrap();
    let none = PendingRefreshes::new();
    let sizes: u64 = logs.iter().map(|log| log.bytes().unwrap()).sum();
    shrink(&logs, &blobs, &none, 3, sizes + 1000).unwrap();
    assert_eq!(blobs.bytes().unwrap(), 1000, "what was reverted needs no before-image");
    assert_eq!(log::list(&directory).unwrap().len(), 3, "and that was enough");
    shrink(&logs, &blobs, &none, 1, u64::MAX).unwrap();
    assert_eq!(undoable_runs(&directory), ["r0"], "logs with nothing to undo give way first");
}

#[test]
#[rule("S-31")]
fn s31_the_bytes_of_logs_count_too() {
    let place = place();
    let (directory, blobs) = with_images(&place, 2, &[]);
    let logs = log::list(&directory).unwrap();
    let sizes: u64 = logs.iter().map(|log| log.bytes().unwrap()).sum();
    shrink(&logs, &blobs, &PendingRefreshes::new(), 9, 2000 + sizes - 1).unwrap();
    assert_eq!(undoable_runs(&directory), ["r1"]);
}

#[test]
#[rule("S-39")]
fn s39_the_graph_of_a_pending_refresh_is_not_collected() {
    let place = place();
    let (directory, blobs) = with_images(&place, 1, &[]);
    let graph = blobs.keep(b"graph").unwrap();
    let refresh = PendingRefresh { graphs: [graph.clone()].into(), ..PendingRefresh::default() };
    let pending = PendingRefreshes::from([("watcher".to_string(), refresh)]);
    shrink(&log::list(&directory).unwrap(), &blobs, &pending, 0, 0).unwrap();
    assert_eq!(blobs.fetch(&graph).unwrap(), b"graph");
}

#[test]
#[rule("S-31")]
fn s31_making_room_spares_what_this_run_keeps() {
    let place = place();
    let journal = Journal::open(&place.dir, "new").unwrap();
    let directory = place.dir.path("journal");
    for sequence in 0..=limits::JOURNAL_RUNS_MAX {
        fs::write(directory.join(format!("{sequence:06}-old{sequence}.log")), "").unwrap();
    }
    journal.begin().unwrap();
    let object = journal.blobs().keep(b"before").unwrap();
    journal.announce(Intent { objects: vec![object.clone()], ..intent("a", &[]) }).unwrap();
    assert_eq!(log::list(&directory).unwrap().len(), limits::JOURNAL_RUNS_MAX + 1, "one old run gave way");
    assert_eq!(journal.blobs().fetch(&object).unwrap(), b"before");
}

#[test]
#[rule("S-31")]
fn s31_every_try_of_a_retried_state_can_be_undone() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    let half = Ended { touched: true, ..ended("a", false, true) };
    for (number, end) in [(1, half), (2, ended("a", true, false))] {
        journal.announce(Intent { undo: Some(json!(number)), ..intent("a", &[]) }).unwrap();
        journal.ended(end).unwrap();
    }
    let values: Vec<_> = journal.undos().unwrap().into_iter().map(|undo| undo.value).collect();
    assert_eq!(values, [json!(2), json!(1)]);
    let newest = journal.undos().unwrap().remove(0);
    journal.reverted(&newest).unwrap();
    assert_eq!(undone(&journal), []);
}

/// A disk that fails when it is told to, once or for good.
#[derive(Clone, Default)]
struct Dying {
    syncs_left: Option<Arc<AtomicUsize>>,
    full: Arc<AtomicBool>,
}

impl DiskCalls for Dying {
    fn write(&self, mut file: &fs::File, bytes: &[u8]) -> io::Result<()> {
        if self.full.load(Ordering::SeqCst) {
            // As a full disk does it: as much as fits, then the refusal.
            file.write_all(&bytes[..bytes.len() / 2])?;
            return Err(io::ErrorKind::StorageFull.into());
        }
        file.write_all(bytes)
    }

    fn sync(&self, file: &fs::File) -> io::Result<()> {
        match &self.syncs_left {
            Some(left) if left.fetch_sub(1, Ordering::SeqCst) == 0 => {
                Err(io::Error::other("the disk is dying"))
            }
            _ => file.sync_data(),
        }
    }
}

#[test]
#[rule("S-31")]
fn s31_a_sync_that_failed_is_final() {
    let place = place();
    // One for the new log, one for the first intent; the third fails, and all after it would succeed.
    let dying = Dying { syncs_left: Some(Arc::new(AtomicUsize::new(2))), ..Dying::default() };
    let journal = Journal::open_on(Disk::behind(Box::new(dying)), &place.dir, "r1").unwrap();
    journal.announce(intent("safe", &[])).unwrap();
    assert!(journal.usable().is_ok());
    let first = journal.announce(intent("lost", &[])).unwrap_err().to_string();
    assert!(first.contains("the disk is dying"), "{first}");
    for again in ["lost", "another"] {
        let error = journal.announce(intent(again, &[])).unwrap_err().to_string();
        assert!(error.contains("cannot be trusted any more"), "{error}");
    }
    assert!(journal.usable().is_err(), "an action that leaves nothing to undo must not run either");
    assert!(journal.blobs().keep(b"before").is_err());
    assert!(journal.finish([], []).is_err());
    drop(journal);
    let next = Journal::open(&place.dir, "r2").unwrap();
    assert!(undone(&next).contains(&("r1".into(), "safe".into())));
}

#[test]
#[rule("S-31")]
fn s31_nobody_who_waited_for_a_sync_that_failed_believes_a_later_one() {
    let place = place();
    let dying = Dying { syncs_left: Some(Arc::new(AtomicUsize::new(1))), ..Dying::default() };
    let journal = Journal::open_on(Disk::behind(Box::new(dying)), &place.dir, "r1").unwrap();
    journal.begin().unwrap();
    let journal = &journal;
    let believed: usize = std::thread::scope(|scope| {
        let announce = |at: usize| journal.announce(intent(&format!("s{at}"), &[])).is_ok();
        let waiting: Vec<_> = (0..16).map(|at| scope.spawn(move || announce(at))).collect();
        waiting.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum()
    });
    assert_eq!(believed, 0);
}

#[test]
#[rule("S-39")]
fn s39_a_full_disk_at_the_end_of_a_run_loses_neither_undo_nor_refresh() {
    let place = place();
    let dying = Dying::default();
    let journal = Journal::open_on(Disk::behind(Box::new(dying.clone())), &place.dir, "r1").unwrap();
    journal.announce(intent("conf", &["service"])).unwrap();
    journal.ended(ended("conf", true, false)).unwrap();
    dying.full.store(true, Ordering::SeqCst);
    let with_pending = [("service".to_string(), vec!["conf".to_string()])];
    assert!(journal.finish([], with_pending).is_err());
    drop(journal);
    assert_eq!(JournalSnapshot::read(&place.dir).unwrap().pending.len(), 1);
    let next = Journal::open(&place.dir, "r2").unwrap();
    assert_eq!(pending(&next), ["service"]);
    assert_eq!(undone(&next), [("r1".into(), "conf".into())]);
}

#[test]
#[rule("S-31")]
fn s31_a_line_that_was_torn_is_followed_by_none_until_it_is_mended() {
    let place = place();
    let dying = Dying::default();
    let journal = Journal::open_on(Disk::behind(Box::new(dying.clone())), &place.dir, "r1").unwrap();
    journal.announce(intent("a", &[])).unwrap();
    dying.full.store(true, Ordering::SeqCst);
    assert!(journal.ended(ended("a", true, false)).is_err());
    dying.full.store(false, Ordering::SeqCst);
    assert!(journal.announce(intent("b", &[])).is_err(), "it would become part of the torn line");
    assert!(journal.usable().is_err());
}

#[test]
#[rule("S-31")]
fn s31_a_torn_note_of_a_revert_hides_no_later_one() {
    let place = place();
    let first = Journal::open(&place.dir, "r1").unwrap();
    for state in ["a", "b", "c"] {
        first.announce(intent(state, &[])).unwrap();
        first.ended(ended(state, true, false)).unwrap();
    }
    first.finish([], []).unwrap();
    let dying = Dying::default();
    let journal = Journal::open_on(Disk::behind(Box::new(dying.clone())), &place.dir, "r2").unwrap();
    let undos = journal.undos().unwrap();
    let of = |state: &str| undos.iter().find(|undo| undo.intent.state == state).unwrap();
    dying.full.store(true, Ordering::SeqCst);
    assert!(journal.reverted(of("a")).is_err());
    dying.full.store(false, Ordering::SeqCst);
    journal.reverted(of("b")).unwrap();
    journal.reverted(of("c")).unwrap();
    assert_eq!(undone(&journal), [("r1".into(), "a".into())]);
}

#[test]
#[rule("S-31")]
fn s31_a_line_that_has_rotted_hides_no_later_one() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    for state in ["a", "b"] {
        journal.announce(intent(state, &[])).unwrap();
    }
    journal.finish([], []).unwrap();
    let path = place.dir.path("journal").join("000001-r1.log");
    let text = fs::read_to_string(&path).unwrap().replacen("\"of\":\"a\"", "\"of\":\"X\"", 1);
    fs::write(&path, text).unwrap();
    assert_eq!(undone(&journal), [("r1".into(), "b".into())]);
    let told = journal.damage(None).unwrap();
    assert!(told.len() == 1 && told[0].to_string().contains("line 2"), "{told:?}");
}

#[test]
#[rule("S-31")]
fn s31_the_graph_of_a_run_is_kept_once_however_often_it_runs() {
    use zester_engine::NodeSpec;
    use zester_model::name::StateName;
    let place = place();
    let specs = vec![NodeSpec::new(StateName::new("test.nop", "x"))];
    let graph = Arc::new(Graph::build(specs).unwrap());
    for run in ["r1", "r2"] {
        let journal = Journal::open(&place.dir, run).unwrap();
        journal.describe("web", &graph);
        journal.announce(intent("test.nop:x", &[])).unwrap();
        journal.finish([], []).unwrap();
    }
    assert_eq!(fs::read_dir(place.dir.path("journal/objects")).unwrap().count(), 1);
    let journal = Journal::open(&place.dir, "r3").unwrap();
    let undos = journal.undos().unwrap();
    assert_eq!(journal.graph_of(&undos[0]).unwrap(), Some(RunGraph::of(&graph)));
    assert_eq!(undos[0].scope.as_deref(), Some("web"));
    let logs = log::list(&place.dir.path("journal")).unwrap();
    shrink(&logs, journal.blobs(), &PendingRefreshes::new(), 1, u64::MAX).unwrap();
    assert!(journal.graph_of(&undos[0]).is_ok(), "making room spares the graph of a run that stays");
}

#[test]
#[rule("S-39")]
fn s39_pending_refreshes_that_an_earlier_version_wrote_are_read() {
    let place = place();
    fs::create_dir_all(place.dir.path("journal/objects")).unwrap();
    fs::write(place.dir.path("journal/pending"), r#"{"service": ["conf"]}"#).unwrap();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    assert_eq!(pending(&journal), ["service"]);
    assert!(journal.pending()["service"].changed.contains("conf"));
}

#[test]
#[rule("S-59")]
fn s59_a_refresh_whose_cause_did_not_come_is_withdrawn_and_an_older_one_is_not() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.finish([], [("service".to_string(), vec!["conf".to_string()])]).unwrap();
    let cause = |changed: &str| RefreshCause {
        watcher: "service".into(),
        changed: changed.into(),
        origin: Origin::default(),
    };
    let new = journal.add_pending(vec![cause("conf"), cause("other")]).unwrap();
    assert_eq!(new, [cause("other")]);
    journal.withdraw(&new).unwrap();
    drop(journal);
    let journal = Journal::open(&place.dir, "r2").unwrap();
    assert_eq!(journal.pending()["service"].changed.iter().collect::<Vec<_>>(), ["conf"]);
}

#[test]
#[rule("S-29")]
fn s29_a_dry_run_reads_no_log_of_a_run_that_ended() {
    let place = place();
    drop(Journal::open(&place.dir, "r1").unwrap());
    fs::create_dir(place.dir.path("journal").join("000001-old.log")).unwrap();
    assert!(JournalSnapshot::read(&place.dir).is_err(), "a log that cannot be read");
    assert!(PendingWork::read(&place.dir).unwrap().pending.is_empty(), "nobody asked for it");
}

/// A slow disk that knows how much of the log survives a power cut now.
#[derive(Clone, Default)]
struct PowerCut {
    /// Syncs of the log.
    syncs: Arc<AtomicUsize>,
    /// The first of them that fails.
    fails_at: Option<usize>,
    safe: Arc<AtomicUsize>,
}

impl DiskCalls for PowerCut {
    fn sync(&self, file: &fs::File) -> io::Result<()> {
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Ok(());
        }
        // Long enough for others to write theirs meanwhile.
        std::thread::sleep(std::time::Duration::from_millis(5));
        let number = self.syncs.fetch_add(1, Ordering::SeqCst);
        if Some(number) == self.fails_at {
            return Err(io::Error::other("the disk is dying"));
        }
        self.safe.fetch_max(usize::try_from(meta.len()).unwrap(), Ordering::SeqCst);
        Ok(())
    }
}

/// Workers that announce intents at once; returns those that were called safe.
fn announce_many(journal: &Journal, workers: usize, each: usize) -> BTreeSet<String> {
    let safe = Mutex::new(BTreeSet::new());
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let safe = &safe;
            scope.spawn(move || {
                for number in 0..each {
                    let state = format!("{worker}-{number}");
                    if journal.announce(intent(&state, &[])).is_ok() {
                        safe.lock().unwrap().insert(state);
                    }
                }
            });
        }
    });
    safe.into_inner().unwrap()
}

/// What the log of the run holds once everything that was not synced is gone.
fn after_power_cut(place: &Fixture, disk: &PowerCut) -> BTreeSet<String> {
    let log = log::list(&place.dir.path("journal")).unwrap().remove(0);
    let path = place.dir.path("journal").join(format!("000001-{}.open", log.run_id));
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_len(disk.safe.load(Ordering::SeqCst) as u64).unwrap();
    log.undos().unwrap().into_iter().map(|undo| undo.intent.state).collect()
}

#[test]
#[rule("S-31")]
fn s31_intents_that_are_announced_at_once_share_their_syncs_and_none_is_lost() {
    let place = place();
    let disk = PowerCut::default();
    let journal = Journal::open_on(Disk::behind(Box::new(disk.clone())), &place.dir, "r1").unwrap();
    let safe = announce_many(&journal, 16, 20);
    assert_eq!(safe.len(), 320);
    let syncs = disk.syncs.load(Ordering::SeqCst);
    assert!(syncs <= 160, "{syncs} syncs for 320 intents");
    assert_eq!(after_power_cut(&place, &disk), safe);
}

#[test]
#[rule("S-31")]
fn s31_a_sync_that_failed_has_failed_for_all_who_waited_for_it() {
    let place = place();
    let disk = PowerCut { fails_at: Some(3), ..PowerCut::default() };
    let journal = Journal::open_on(Disk::behind(Box::new(disk.clone())), &place.dir, "r1").unwrap();
    let safe = announce_many(&journal, 16, 20);
    assert!(!safe.is_empty() && safe.len() < 320, "{} of 320", safe.len());
    assert_eq!(disk.syncs.load(Ordering::SeqCst), 4, "nobody tries again what failed");
    assert!(journal.usable().is_err());
    let left = after_power_cut(&place, &disk);
    assert!(safe.is_subset(&left), "called safe and lost: {:?}", safe.difference(&left));
}
