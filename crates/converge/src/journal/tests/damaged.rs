//! What cannot be read any more is told, and taken for nothing else.

use super::*;
/// Spoils the line of a log that holds `part`: its checksum fits no more.
fn spoil(place: &Fixture, log: &str, part: &str) {
    let path = place.dir.path("journal").join(log);
    let text = fs::read_to_string(&path).unwrap();
    let at = text.find(part).unwrap();
    let start = text[..at].rfind('\n').map_or(0, |end| end + 1);
    let mut bytes = text.into_bytes();
    bytes[start] = if bytes[start] == b'0' { b'1' } else { b'0' };
    fs::write(&path, bytes).unwrap();
}

fn damage(journal: &Journal) -> Vec<String> {
    journal.damage(None).unwrap().iter().map(Damage::to_string).collect()
}

#[test]
#[rule("S-31")]
fn s31_only_a_torn_last_line_of_an_open_log_is_passed_over() {
    let place = place();
    let killed = Journal::open(&place.dir, "r1").unwrap();
    killed.announce(intent("a", &[])).unwrap();
    drop(killed);
    let open = place.dir.path("journal").join("000001-r1.open");
    fs::OpenOptions::new()
        .append(true)
        .open(&open)
        .unwrap()
        .write_all(b"0123abcd {\"record\":\"int")
        .unwrap();
    assert!(JournalSnapshot::read(&place.dir).unwrap().damage.is_empty());
    let next = Journal::open(&place.dir, "r2").unwrap();
    assert_eq!(damage(&next), Vec::<String>::new(), "nothing was done for it");
    // A closed log was whole when it was closed; only a note of a revert may have been torn since.
    let closed = place.dir.path("journal").join("000001-r1.log");
    let whole = fs::read(&closed).unwrap();
    fs::write(&closed, [&whole, b"0123abcd {\"record\":\"reve".as_slice()].concat()).unwrap();
    assert_eq!(damage(&next), Vec::<String>::new());
    fs::write(&closed, &whole[..whole.len() - 9]).unwrap();
    assert!(damage(&next)[0].contains("run r1"), "{:?}", damage(&next));
}

#[test]
#[rule("S-31")]
fn s31_records_of_a_newer_release_are_told() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.announce(intent("a", &[])).unwrap();
    journal.finish([], []).unwrap();
    let json = br#"{"record":"from_the_future","state":"b"}"#;
    let line = [format!("{:08x} ", crc32fast::hash(json)).as_bytes(), json, b"\n"].concat();
    let path = place.dir.path("journal").join("000001-r1.log");
    fs::OpenOptions::new().append(true).open(path).unwrap().write_all(&line).unwrap();
    assert!(damage(&journal)[0].contains("newer"), "{:?}", damage(&journal));
    assert_eq!(undone(&journal), [("r1".into(), "a".into())], "the rest can be undone");
}

#[test]
#[rule("S-39")]
fn s39_an_intent_that_has_rotted_in_an_open_log_still_leaves_its_refresh_pending() {
    for part in ["\"intent\"", "of\":"] {
        let place = place();
        let killed = Journal::open(&place.dir, "r1").unwrap();
        killed.announce(intent("conf", &["service"])).unwrap();
        drop(killed);
        let path = place.dir.path("journal").join("000001-r1.open");
        let text = fs::read_to_string(&path).unwrap();
        // A byte of its own words, which is no JSON any more.
        fs::write(&path, text.replacen(part, &part.replace('"', "\\"), 1)).unwrap();
        assert!(JournalSnapshot::read(&place.dir).unwrap().pending.contains_key("service"), "{part}");
        let next = Journal::open(&place.dir, "r2").unwrap();
        assert_eq!(pending(&next), ["service"]);
        assert_eq!(damage(&next).len(), 1);
        assert!(next.notices()[0].contains("line 2"), "{:?}", next.notices());
        assert_eq!(undone(&next), [], "what it says cannot be relied on");
    }
}

#[test]
#[rule("S-31")]
fn s31_making_room_keeps_the_images_of_a_log_that_has_rotted() {
    let place = place();
    let journal = Journal::open(&place.dir, "r1").unwrap();
    journal.begin().unwrap();
    let (image, junk) = (journal.blobs().keep(b"before").unwrap(), journal.blobs().keep(b"junk").unwrap());
    journal.announce(Intent { objects: vec![image.clone()], ..intent("a", &[]) }).unwrap();
    journal.finish([], []).unwrap();
    spoil(&place, "000001-r1.log", "\"intent\"");
    let logs = log::list(&place.dir.path("journal")).unwrap();
    let all = logs[0].bytes().unwrap() + journal.blobs().bytes().unwrap();
    shrink(&logs, journal.blobs(), &PendingRefreshes::new(), 9, all - 1).unwrap();
    assert!(journal.blobs().fetch(&junk).is_err() && journal.blobs().fetch(&image).is_ok());
}

#[test]
#[rule("S-39", "S-43")]
fn s39_a_damaged_list_is_set_aside_and_made_again_from_the_logs() {
    for list in ["pending", "unconfirmed"] {
        let place = place();
        let first = Journal::open(&place.dir, "r1").unwrap();
        first.announce(Intent { confirms: true, ..intent("conf", &["service", "restart"]) }).unwrap();
        first.ended(Ended { unconfirmed: Some(true), ..ended("conf", true, false) }).unwrap();
        first.ended(ended("restart", true, false)).unwrap();
        first.finish([], [("service".to_string(), vec!["conf".to_string()])]).unwrap();
        drop(first);
        let path = place.dir.path("journal").join(list);
        fs::write(&path, b"{\"serv").unwrap();
        let snapshot = JournalSnapshot::read(&place.dir).unwrap();
        assert!(
            snapshot.notices.iter().any(|notice| notice.contains("is damaged")),
            "{:?}",
            snapshot.notices
        );
        assert_eq!(fs::read(&path).unwrap(), b"{\"serv", "who only looks changes nothing");
        let next = Journal::open(&place.dir, "r2").unwrap();
        assert!(next.notices().iter().any(|notice| notice.contains("damaged-")), "{:?}", next.notices());
        assert_eq!(pending(&next), ["service"], "{list}");
        assert!(next.is_unconfirmed("conf"), "{list}");
        drop(next);
        let aside = fs::read_dir(place.dir.path("journal")).unwrap().map(|entry| entry.unwrap().path());
        let aside: Vec<PathBuf> = aside.filter(|path| path.to_string_lossy().contains("damaged-")).collect();
        assert_eq!(fs::read(&aside[0]).unwrap(), b"{\"serv");
        let later = Journal::open(&place.dir, "r3").unwrap();
        assert!(later.notices().is_empty() && pending(&later) == ["service"]);
    }
}
