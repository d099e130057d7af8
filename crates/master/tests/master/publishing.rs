//! Masters that publish their directories: one at a time, and another where that one is gone.

use crate::fleet::{Fleet, Master, eventually};
use std::path::Path;
use std::sync::Arc;
use zester_health::State;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::Source;
use zester_publish::{MemoryCache, Reader, TreePath};
use zester_rule::rule;
use zester_wire::*;

const OF: Published = Published::States;

/// A directory of a master.
fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn start(fleet: &Fleet, name: &str, states: &Path) -> Master {
    let link = Link::new(Arc::new(fleet.net.connect(name)));
    let source = Source { published: OF, directory: states.to_path_buf() };
    fleet.start_publishing(name, link, Timing::default(), vec![source])
}

async fn manifest(fleet: &Fleet) -> Option<Manifest> {
    let named = fleet.link.get_latest::<Revision>(&Key::Revision(OF)).await.unwrap()?.value;
    let key = Key::ManifestOf(OF, named.revision);
    fleet.link.get_latest::<Manifest>(&key).await.unwrap().map(|found| found.value)
}

async fn published(fleet: &Fleet, revision: u64) -> Manifest {
    eventually("the revision is published", async || {
        manifest(fleet).await.filter(|manifest| manifest.revision == revision)
    })
    .await
}

async fn content(fleet: &Fleet, name: &str) -> Option<String> {
    let cache = MemoryCache::default();
    Reader { link: &fleet.link, published: OF, cache: &cache }.look().await.unwrap();
    let files = cache.files();
    files.get(&TreePath::parse(name).unwrap()).map(|bytes| String::from_utf8(bytes.clone()).unwrap())
}

/// What its `/readyz` says of the states; none while all is well.
fn complaint(master: &Master) -> Option<String> {
    match master.health.state("states") {
        Some(State::Degraded(why)) => Some(why),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-2", "D-14")]
async fn d2_d14_of_two_masters_one_publishes_and_the_other_says_that_its_files_differ() {
    let fleet = Fleet::new().await;
    let (one, other) = (directory(&[("a.zy", "1")]), directory(&[("a.zy", "2")]));
    let first = start(&fleet, "m1", one.path());
    assert_eq!(published(&fleet, 1).await.master, first.id);
    let second = start(&fleet, "m2", other.path());
    let told = eventually("the other compares", async || complaint(&second)).await;
    assert!(told.starts_with("states differ from revision 1, which another master published"), "{told}");
    assert!(told.contains(other.path().to_str().unwrap()), "{told}");
    assert!(second.health.report().0, "it is degraded, not down");
    assert_eq!(complaint(&first), None);
    // Its own changes change nothing for the fleet; what the holder has does.
    std::fs::write(other.path().join("a.zy"), "3").unwrap();
    std::fs::write(one.path().join("a.zy"), "4").unwrap();
    assert_eq!(published(&fleet, 2).await.master, first.id);
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("4"));
    std::fs::write(other.path().join("a.zy"), "4").unwrap();
    eventually("they are the same", async || complaint(&second).is_none().then_some(())).await;
    assert_eq!(manifest(&fleet).await.unwrap().revision, 2);
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_when_the_holder_dies_another_publishes_its_own_directory() {
    let fleet = Fleet::new().await;
    let (one, other) = (directory(&[("a.zy", "1")]), directory(&[("a.zy", "2")]));
    let first = start(&fleet, "m1", one.path());
    published(&fleet, 1).await;
    let second = start(&fleet, "m2", other.path());
    eventually("the other is there", async || complaint(&second)).await;
    drop(first);
    let manifest = published(&fleet, 2).await;
    assert_eq!(manifest.master, second.id);
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("2"));
    eventually("it has nothing to complain of", async || complaint(&second).is_none().then_some(())).await;
    // Who comes back finds the lease taken.
    let first = start(&fleet, "m1", one.path());
    let told = eventually("it compares", async || complaint(&first)).await;
    assert!(told.starts_with("states differ from revision 2"), "{told}");
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_a_directory_that_was_emptied_or_is_gone_wipes_nothing() {
    let fleet = Fleet::new().await;
    let dir = directory(&[("a.zy", "1")]);
    let states = dir.path().join("states");
    std::fs::create_dir(&states).unwrap();
    std::fs::write(states.join("a.zy"), "1").unwrap();
    let master = start(&fleet, "m1", &states);
    published(&fleet, 1).await;
    std::fs::remove_file(states.join("a.zy")).unwrap();
    let told = eventually("it is told", async || complaint(&master)).await;
    assert!(told.starts_with("states are not published: there is nothing to publish"), "{told}");
    std::fs::remove_dir(&states).unwrap();
    drop(master);
    // One that never had the directory is no danger either.
    let master = start(&fleet, "m2", &dir.path().join("never"));
    eventually("it is told", async || complaint(&master)).await;
    assert_eq!(manifest(&fleet).await.unwrap().revision, 1);
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("1"));
}
