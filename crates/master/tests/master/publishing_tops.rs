//! What takes the place of no tree: one without a top file, and one that holds nothing its readers could use.

use crate::fleet::{Fleet, Master, eventually};
use crate::publishing::{directory, one_report, start_with};
use zester_health::State;
use zester_master::Source;
use zester_rule::rule;
use zester_wire::*;

/// What its `/readyz` says of a tree, once it says these words.
async fn told_of(master: &Master, check: &str, words: &str) -> String {
    eventually(words, async || match master.health.state(check) {
        Some(State::Degraded(why)) => Some(why).filter(|why| why.contains(words)),
        _ => None,
    })
    .await
}

async fn revision_of(fleet: &Fleet, of: Published) -> u64 {
    let found = fleet.link.get_latest::<Revision>(&Key::Revision(of)).await.unwrap();
    found.map_or(0, |found| found.value.revision)
}

#[tokio::test(start_paused = true)]
#[rule("D-6", "D-12")]
async fn d6_settings_whose_top_file_went_are_not_given_to_everybody() {
    let of = Published::Settings;
    let fleet = Fleet::new().await;
    let own = directory(&[("top.zy", "'db*': [db]"), ("db.zy", "a: 1"), ("nobodys.zy", "b: 2")]);
    let master = start_with(&fleet, vec![Source::directory(of, own.path().to_path_buf())]);
    assert_eq!(one_report(&fleet, PublishRequest::default()).await.revision, 1);
    std::fs::remove_file(own.path().join("top.zy")).unwrap();
    let told = told_of(&master, "settings", "top.zy is missing").await;
    assert!(told.contains("(db.zy, nobodys.zy)"), "{told}");
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Refused, 1), "{report:?}");
    // What is given to everybody on purpose is said so.
    let forced = one_report(&fleet, PublishRequest { force: true, ..PublishRequest::default() }).await;
    assert_eq!((forced.status, forced.revision), (PublishStatus::Published, 2), "{forced:?}");
    assert!(forced.reason.contains("top.zy is missing"), "{}", forced.reason);
    // Another master that finds such a revision says so too.
    drop(master);
    let master = start_with(&fleet, vec![Source::directory(of, own.path().to_path_buf())]);
    told_of(&master, "settings", "top.zy is missing").await;
}

#[tokio::test(start_paused = true)]
#[rule("D-2", "R-13")]
async fn d2_a_file_that_nobody_reads_keeps_no_tree_from_counting_as_empty() {
    let fleet = Fleet::new().await;
    let settings = directory(&[("top.zy", "'*': [a]"), ("a.zy", "a: 1")]);
    let rules = directory(&[("top.zy", "[]"), ("a.zy", "{}")]);
    let sources = || {
        vec![
            Source::directory(Published::Settings, settings.path().to_path_buf()),
            Source::directory(Published::Reactor, rules.path().to_path_buf()),
        ]
    };
    let master = start_with(&fleet, sources());
    eventually("both are published", async || {
        let both =
            (revision_of(&fleet, Published::Settings).await, revision_of(&fleet, Published::Reactor).await);
        (both == (1, 1)).then_some(())
    })
    .await;
    // The disk is gone, and the mount point below it shows.
    for mount in [&settings, &rules] {
        std::fs::write(mount.path().join(".keep"), "").unwrap();
        std::fs::remove_file(mount.path().join("a.zy")).unwrap();
        std::fs::remove_file(mount.path().join("top.zy")).unwrap();
    }
    for check in ["settings", "rules"] {
        told_of(&master, check, "there is nothing to publish").await;
    }
    drop(master);
    let master = start_with(&fleet, sources());
    for (check, of) in [("settings", Published::Settings), ("rules", Published::Reactor)] {
        told_of(&master, check, "there is nothing to publish").await;
        assert_eq!(revision_of(&fleet, of).await, 1);
    }
    // Nor do rules load that have no top file.
    std::fs::write(rules.path().join("a.zy"), "{}").unwrap();
    told_of(&master, "rules", "top.zy is missing").await;
    assert_eq!(revision_of(&fleet, Published::Reactor).await, 1);
}

#[tokio::test(start_paused = true)]
#[rule("D-2", "D-6")]
async fn d2_what_lies_over_settings_does_not_stand_for_those_that_are_gone() {
    let of = Published::Settings;
    let fleet = Fleet::new().await;
    let (own, over) = (directory(&[("top.zy", "own")]), directory(&[]));
    std::fs::create_dir(over.path().join("_ext")).unwrap();
    std::fs::write(over.path().join("_ext/web-1.zy"), "x: 1").unwrap();
    let source =
        Source { over: Some(over.path().to_path_buf()), ..Source::directory(of, own.path().to_path_buf()) };
    let _master = start_with(&fleet, vec![source]);
    assert_eq!(one_report(&fleet, PublishRequest::default()).await.files, 2);
    std::fs::remove_file(own.path().join("top.zy")).unwrap();
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Refused, 1), "{report:?}");
}
