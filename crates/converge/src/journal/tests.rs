//! The journal's promises, crash by crash.

use super::*;
use serde_json::json;
use std::io::Write;
use zester_resources::resource::Vault;
use zester_rule::rule;

struct Place {
    _temp: tempfile::TempDir,
    dir: DataDir,
}

fn place() -> Place {
    let temp = tempfile::tempdir().unwrap();
    let dir = DataDir::open(temp.path()).unwrap();
    Place { _temp: temp, dir }
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
    }
}

fn ended(state: &str, changed: bool, failed: bool) -> Ended {
    Ended { state: state.into(), changed, failed, ..Ended::default() }
}

fn owed(journal: &Journal) -> Vec<String> {
    journal.owed().keys().cloned().collect()
}

fn undone(journal: &Journal) -> Vec<(String, String)> {
    journal.undos().unwrap().into_iter().map(|undo| (undo.run_id, undo.intent.state)).collect()
}

#[test]
fn a_run_that_changes_nothing_writes_no_log() {
    let place = place();
    Journal::open(&place.dir, "r1").unwrap().finish([]).unwrap();
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
        journal.finish([]).unwrap();
    }
    let journal = Journal::open(&place.dir, "r3").unwrap();
    assert_eq!(undone(&journal), [("r2".into(), "a".into()), ("r1".into(), "a".into())]);
    let newest = journal.undos().unwrap().remove(0);
    journal.reverted(&newest).unwrap();
    assert_eq!(undone(&journal), [("r1".into(), "a".into())]);
}

#[test]
#[rule("S-31")]
fn s31_an_apply_that_did_nothing_leaves_nothing_to_undo_but_a_failed_one_may() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    for state in ["clean", "failed", "cut off"] {
        journal.announce(intent(state, &[])).unwrap();
    }
    journal.ended(ended("clean", false, false)).unwrap();
    journal.ended(ended("failed", false, true)).unwrap();
    let states: Vec<_> = undone(&journal).into_iter().map(|(_, state)| state).collect();
    assert_eq!(states, ["cut off", "failed"]);
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
fn s39_a_run_cut_off_after_the_change_owes_the_refresh() {
    for end in [None, Some(ended("conf", true, false))] {
        let place = place();
        let killed = Journal::open(&place.dir, "r1").unwrap();
        killed.announce(intent("conf", &["service"])).unwrap();
        if let Some(end) = end {
            killed.ended(end).unwrap();
        }
        drop(killed);
        let next = Journal::open(&place.dir, "r2").unwrap();
        assert_eq!(owed(&next), ["service"]);
        drop(next);
        assert_eq!(
            owed(&Journal::open(&place.dir, "r3").unwrap()),
            ["service"],
            "it stays owed until it is given"
        );
        assert_eq!(Glance::read(&place.dir).unwrap().owed.len(), 1);
    }
}

#[test]
#[rule("S-39")]
fn s39_nothing_is_owed_for_an_apply_that_changed_nothing_or_whose_watcher_ran() {
    let place = place();
    let killed = Journal::open(&place.dir, "r1").unwrap();
    killed.announce(intent("conf", &["service"])).unwrap();
    killed.ended(ended("conf", false, false)).unwrap();
    killed.announce(intent("other", &["restart"])).unwrap();
    killed.ended(ended("other", true, false)).unwrap();
    killed.announce(intent("restart", &[])).unwrap();
    killed.ended(ended("restart", true, false)).unwrap();
    drop(killed);
    assert_eq!(owed(&Journal::open(&place.dir, "r2").unwrap()), Vec::<String>::new());
}

#[test]
#[rule("S-43")]
fn s43_a_failure_that_touched_something_owes_the_refresh_whatever_a_later_try_finds() {
    let touched = || Ended { touched: true, ..ended("conf", false, true) };
    let tries = [
        (vec![ended("conf", false, true)], 0),
        (vec![touched()], 1),
        (vec![touched(), ended("conf", false, false)], 1),
        (vec![ended("conf", false, true), touched(), ended("conf", false, true)], 1),
    ];
    for (ends, owing) in tries {
        let place = place();
        let killed = Journal::open(&place.dir, "r1").unwrap();
        for end in ends {
            killed.announce(intent("conf", &["service"])).unwrap();
            killed.ended(end).unwrap();
        }
        drop(killed);
        assert_eq!(owed(&Journal::open(&place.dir, "r2").unwrap()).len(), owing);
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
        assert_eq!(Glance::read(&place.dir).unwrap().unconfirmed.contains("conf"), expected);
        let next = Journal::open(&place.dir, "r2").unwrap();
        assert_eq!(next.is_unconfirmed("conf"), expected);
        next.set_unconfirmed("conf", false).unwrap();
        drop(next);
        assert!(!Journal::open(&place.dir, "r3").unwrap().is_unconfirmed("conf"));
    }
}

#[test]
#[rule("S-39")]
fn s39_a_refresh_is_settled_by_the_watcher_alone() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.finish([("service".to_string(), vec!["conf".to_string()])]).unwrap();
    let next = Journal::open(&place.dir, "r2").unwrap();
    next.refreshed("somebody else").unwrap();
    assert_eq!(owed(&next), ["service"]);
    next.refreshed("service").unwrap();
    drop(next);
    assert_eq!(owed(&Journal::open(&place.dir, "r3").unwrap()), Vec::<String>::new());
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
    let name = journal.vault().keep(b"old content").unwrap();
    assert_eq!(journal.vault().fetch(&name).unwrap(), b"old content");
    fs::write(place.dir.path("journal").join("objects").join(&name), b"rotten").unwrap();
    assert!(journal.vault().fetch(&name).unwrap_err().message.contains("damaged"));
    assert!(journal.vault().fetch("../pending").is_err());
}

#[test]
fn the_oldest_runs_give_way_and_their_before_images_with_them() {
    let place = place();
    for run in 0..3 {
        let journal = Journal::open(&place.dir, &format!("r{run}")).unwrap();
        let object = journal.vault().keep(format!("before {run}").as_bytes()).unwrap();
        journal.announce(Intent { objects: vec![object], ..intent("a", &[]) }).unwrap();
        journal.finish([]).unwrap();
    }
    let directory = place.dir.path("journal");
    let vault = ObjectVault::new(directory.join("objects"));
    let logs = log::list(&directory).unwrap();
    shrink(&logs, &vault, 2, u64::MAX).unwrap();
    let runs: Vec<_> = undos_in(&directory).unwrap().into_iter().map(|undo| undo.run_id).collect();
    assert_eq!(runs, ["r2", "r1"]);
    assert_eq!(vault.bytes().unwrap(), 16, "two images of eight bytes are left");
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
    let object = journal.vault().keep(b"before").unwrap();
    journal.announce(Intent { objects: vec![object.clone()], ..intent("a", &[]) }).unwrap();
    assert_eq!(log::list(&directory).unwrap().len(), limits::JOURNAL_RUNS_MAX + 1, "one old run gave way");
    assert_eq!(journal.vault().fetch(&object).unwrap(), b"before");
}

#[test]
#[rule("S-31")]
fn s31_every_try_of_a_retried_state_can_be_undone() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    for (number, end) in [(1, ended("a", false, true)), (2, ended("a", true, false))] {
        journal.announce(Intent { undo: Some(json!(number)), ..intent("a", &[]) }).unwrap();
        journal.ended(end).unwrap();
    }
    let values: Vec<_> = journal.undos().unwrap().into_iter().map(|undo| undo.value).collect();
    assert_eq!(values, [json!(2), json!(1)]);
    let newest = journal.undos().unwrap().remove(0);
    journal.reverted(&newest).unwrap();
    assert_eq!(undone(&journal), []);
}
