//! Subjects and keys, both ways.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod examples;

use examples::{jid, master, peel, token};
use proptest::prelude::*;
use zester_rule::rule;
use zester_wire::envelope::Addressed;
use zester_wire::*;

fn tag(text: &str) -> Tag {
    Tag::parse(text).unwrap()
}

fn table() -> Vec<(Subject, String)> {
    let (j, p) = (jid(), peel());
    let job = |rest: &str| format!("zester.job.{j}.{rest}");
    vec![
        (Subject::Dispatch, "zester.dispatch".into()),
        (Subject::Command { peel: p.clone() }, "zester.cmd.web-01".into()),
        (Subject::JobDispatch { jid: j.clone() }, job("dispatch")),
        (Subject::JobStatus { jid: j.clone() }, job("status")),
        (Subject::JobCancel { jid: j.clone() }, job("cancel")),
        (Subject::JobAck { jid: j.clone(), peel: p.clone() }, job("ack.web-01")),
        (Subject::JobReturn { jid: j.clone(), peel: p.clone() }, job("return.web-01")),
        (Subject::JobProgress { jid: j.clone(), peel: p.clone() }, job("progress.web-01")),
        (Subject::JobSchedule { jid: j.clone(), peel: p.clone() }, job("schedule.web-01")),
        (Subject::Admin { verb: token("kill") }, "zester.admin.kill".into()),
        (
            Subject::Holder { lease: token("publisher"), verb: token("publish") },
            "zester.holder.publisher.publish".into(),
        ),
        (Subject::TargetResolve, "zester.target.resolve".into()),
        (Subject::PeelList, "zester.peel.list".into()),
        (Subject::Heartbeat { peel: peel() }, "zester.heartbeat.web-01".into()),
        (Subject::Notify { what: token("state-files") }, "zester.notify.state-files".into()),
        (Subject::ReactorTest, "zester.reactor.test".into()),
        (
            Subject::Ledger { origin: token("_master"), token: token("0123456789abcdef") },
            "zester.ledger._master.0123456789abcdef".into(),
        ),
        (
            Subject::Event(EventSubject::Send { peel: p.clone(), tag: tag("a/b") }),
            "zester.event.web-01.send.a.b".into(),
        ),
        (
            Subject::Event(EventSubject::Beacon { peel: p, name: token("disk") }),
            "zester.event.web-01.beacon.disk".into(),
        ),
        (
            Subject::Event(EventSubject::Master { tag: tag("enroll/pending/x") }),
            "zester.event._master.enroll.pending.x".into(),
        ),
        (Subject::Event(EventSubject::Admin { tag: tag("a") }), "zester.event._admin.send.a".into()),
    ]
}

#[test]
fn every_subject_is_built_and_parsed_by_one_table() {
    for (subject, text) in table() {
        assert_eq!(subject.to_string(), text);
        assert_eq!(Subject::parse(&text), Ok(subject), "{text}");
    }
}

#[test]
#[rule("R-2")]
fn r2_what_has_no_shape_of_ours_is_malformed() {
    let j = jid();
    for text in [
        "",
        "zester",
        "zester.dispatch.x",
        "zester.cmd",
        "zester.cmd.*",
        "zester.cmd.>",
        "zester.cmd.a.b",
        "zester.cmd._master",
        "zester.job.*.return.web-01",
        "zester.job.active.cancel",
        "zester.event.web-01",
        "zester.event.web-01.send",
        "zester.event.web-01.send.",
        "zester.event.web-01.send.a..b",
        "zester.event.web-01.send.*",
        "zester.event.web-01.send.a/b",
        "zester.event._other.send.a",
        "zester.event._master",
        "zester.event._admin.a",
        "zester.event.web-01.beacon.a.b",
        "zester.event.web-01.other.a",
        "$KV.jobs.x",
        "ZESTER.dispatch",
    ] {
        assert!(Subject::parse(text).is_err(), "{text}");
    }
    for rest in ["", "ack", "ack.", "ack.*", "ack.web-01.x", "nack.web-01", "dispatch.web-01"] {
        assert!(Subject::parse(&format!("zester.job.{j}.{rest}")).is_err(), "{rest}");
    }
    assert!(Subject::parse(&format!("zester.event._master.{}", "a".repeat(2000))).is_err());
}

#[test]
#[rule("R-2")]
fn r2_the_subject_decides_origin_tag_and_match_key() {
    let keys: Vec<String> = table()
        .into_iter()
        .filter_map(|(subject, _)| match subject {
            Subject::Event(event) => Some(event.match_key()),
            _ => None,
        })
        .collect();
    assert_eq!(keys, ["web-01/a/b", "web-01/beacon/web-01/disk", "_master/enroll/pending/x", "_admin/a"]);
}

#[test]
fn every_key_is_built_and_parsed_by_one_table() {
    for (key, bucket, text) in [
        (Key::Job(jid()), "jobs", jid().to_string()),
        (Key::Active(jid()), "jobs", format!("active.{}", jid())),
        (Key::Return(jid(), peel()), "job-returns", format!("{}.web-01", jid())),
        (Key::Master(master()), "master-heartbeat", "m1.2hPwzBoot".into()),
        (Key::Peel(peel()), "peel-seen", "web-01".into()),
        (Key::Facts(peel()), "facts", "web-01".into()),
        (Key::Lease(token("publisher")), "leases", "publisher".into()),
        (Key::Enrollment(peel()), "enrollments", "peel.web-01".into()),
        (Key::JoinToken(token("0a1b")), "enrollments", "token.0a1b".into()),
    ] {
        assert_eq!((key.bucket().as_str(), key.to_string()), (bucket, text.clone()));
        assert_eq!(key.subject(), format!("$KV.{bucket}.{text}"));
        assert_eq!(Key::parse(key.bucket(), &text), Ok(key));
    }
    for bucket in Bucket::ALL {
        for text in ["", ".", "*", "a.>", "a.b.c", "active.", "active.*"] {
            assert!(Key::parse(bucket, text).is_err(), "{bucket:?} {text}");
        }
    }
}

#[test]
fn a_payload_that_disagrees_with_its_subject_is_caught() {
    let right = Subject::JobReturn { jid: jid(), peel: peel() };
    let other = Subject::JobReturn { jid: jid(), peel: PeelId::parse("web-02").unwrap() };
    let ack = Subject::JobAck { jid: jid(), peel: peel() };
    assert!(examples::returned().check_subject(&right).is_ok());
    assert!(examples::returned().check_subject(&other).is_err());
    assert!(examples::returned().check_subject(&ack).is_err());
    let kill = AdminRequest::Kill { jid: jid(), user: String::new(), reason: String::new() };
    assert!(kill.check_subject(&Subject::Admin { verb: token("kill") }).is_ok());
    assert!(kill.check_subject(&Subject::Admin { verb: token("publish") }).is_err());
    assert!(AdminRequest::Unknown.check_subject(&Subject::Admin { verb: token("kill") }).is_err());
}

fn any_peel() -> impl Strategy<Value = PeelId> {
    "[a-zA-Z0-9][a-zA-Z0-9_-]{0,127}".prop_map(|text| PeelId::parse(&text).unwrap())
}

fn any_token() -> impl Strategy<Value = Token> {
    "[a-zA-Z0-9_-]{1,20}".prop_map(|text| Token::parse(&text).unwrap())
}

fn any_tag() -> impl Strategy<Value = Tag> {
    "[a-zA-Z0-9_-]{1,8}(/[a-zA-Z0-9_-]{1,8}){0,5}".prop_map(|text| Tag::parse(&text).unwrap())
}

fn any_jid() -> impl Strategy<Value = Jid> {
    prop_oneof![
        (1_500_000_000_000u64..4_000_000_000_000, any::<[u8; 16]>())
            .prop_map(|(at, random)| Jid::new(UnixMillis(at), random)),
        "rxn-[0-9a-f]{32}".prop_map(|text| Jid::parse(&text).unwrap()),
    ]
}

fn any_subject() -> impl Strategy<Value = Subject> {
    (0usize..14, any_jid(), any_peel(), any_token(), any_tag()).prop_map(|(which, jid, peel, token, tag)| {
        match which {
            0 => Subject::Command { peel },
            1 => Subject::JobDispatch { jid },
            2 => Subject::JobStatus { jid },
            3 => Subject::JobCancel { jid },
            4 => Subject::JobAck { jid, peel },
            5 => Subject::JobReturn { jid, peel },
            6 => Subject::JobProgress { jid, peel },
            7 => Subject::JobSchedule { jid, peel },
            8 => Subject::Admin { verb: token },
            9 => Subject::Notify { what: token },
            10 => Subject::Event(EventSubject::Send { peel, tag }),
            11 => Subject::Event(EventSubject::Beacon { peel, name: token }),
            12 => Subject::Event(EventSubject::Admin { tag }),
            _ => Subject::Event(EventSubject::Master { tag }),
        }
    })
}

proptest! {
    #[test]
    fn what_is_built_parses_as_itself(subject in any_subject()) {
        prop_assert_eq!(Subject::parse(&subject.to_string()), Ok(subject));
    }

    /// One text, one subject: what parses is built again letter by letter, whatever was thrown at it.
    #[test]
    fn what_parses_is_built_as_it_was(text in "zester\\.(event|job|cmd|admin|notify)(\\.[a-zA-Z0-9_*>/ -]{0,5}){0,4}") {
        if let Ok(subject) = Subject::parse(&text) {
            prop_assert_eq!(subject.to_string(), text);
        }
    }

    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,60}") {
        if let Ok(subject) = Subject::parse(&text) {
            prop_assert_eq!(subject.to_string(), text.clone());
        }
        for bucket in Bucket::ALL {
            if let Ok(key) = Key::parse(bucket, &text) {
                prop_assert_eq!(key.to_string(), text.clone());
            }
        }
    }
}
