//! A reader with credentials believes no tree that is older than the one it has.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::storage;
use zester_identity::authority::{self, Fleet, Secrets};
use zester_identity::{KeyKind, KeyPair, Role};
use zester_link::{Clock, Link, SystemClock};
use zester_publish::*;
use zester_rule::rule;
use zester_wire::{Bucket, Key, MasterId, Published};

const OF: Published = Published::States;

struct Held;

impl Fence for Held {
    fn holds(&self) -> bool {
        true
    }
}

async fn publish(link: &Link, text: &str) {
    let wanted = BTreeMap::from([(TreePath::parse("a.zy").unwrap(), text.as_bytes().to_vec())]);
    let tree =
        Tree { files: wanted.iter().map(|(path, text)| (path.clone(), file_of(text, 0o644))).collect() };
    let about = About {
        master: MasterId::parse("m1.boot").unwrap(),
        user: String::new(),
        source: "states".into(),
        commit: String::new(),
        allow_empty: false,
        uploaded: false,
    };
    Publisher { link, published: OF, fence: &Held }.publish(&tree, &wanted, &about).await.unwrap();
}

#[tokio::test(start_paused = true)]
#[rule("I-12")]
async fn i12_a_revision_older_than_what_was_seen_is_refused_also_where_it_is_well_signed() {
    let net = Net::new(Arc::new(TokioClock::new()));
    let broker = Link::new(Arc::new(net.connect("broker")));
    storage::ensure_all(broker.bus().as_ref(), &storage::table(), 1).await.unwrap();
    let mut seed = 0;
    let secrets = Secrets::new(|| {
        seed += 1;
        [seed; 32]
    });
    let (secrets, now) = (secrets.unwrap(), SystemClock.wall());
    let mut roster = authority::first_roster(secrets.issuer.public(), now).unwrap();
    let pair = KeyPair::new(KeyKind::User, [11; 32]).unwrap();
    let who = (Role::Master, "m1");
    let made = Fleet::new(&secrets).member(who, pair, &secrets.core, &mut roster, (now, Duration::ZERO));
    let signed = authority::signed(&authority::renewed(&roster, now), &secrets.core).unwrap();
    let credentials = made.unwrap().with_roster(secrets.core.public(), &signed);
    let link = Link::new(Arc::new(net.connect("m1"))).signed(credentials).unwrap();

    let cache = MemoryCache::default();
    let look = async || Reader { link: &link, published: OF, cache: &cache }.look().await;
    publish(&link, "first").await;
    look().await.unwrap();
    let (bucket, key) = (Bucket::of_published(OF), Key::Revision(OF).to_string());
    let old = broker.bus().get(bucket.as_str(), &key).await.unwrap().unwrap().value;
    publish(&link, "second").await;
    assert!(matches!(look().await.unwrap(), Change::Now { revision: 2, .. }));
    // Whoever owns the store puts the old one back: every signature holds, and still it is not taken.
    broker.bus().put(bucket.as_str(), &key, old).await.unwrap();
    let refused = look().await.unwrap_err();
    assert!(matches!(refused, Error::Older { found: 1, held: 2 }), "{refused}");
    let path = TreePath::parse("a.zy").unwrap();
    assert_eq!(cache.files()[&path], b"second");
    // Nor is a bucket believed that has none at all.
    broker.bus().purge(bucket.as_str(), &key, None).await.unwrap();
    assert!(matches!(look().await.unwrap_err(), Error::Older { found: 0, held: 2 }));
    // A reader that has seen nothing has nothing to compare with: docs/security.md says so.
    publish(&link, "third").await;
    assert!(look().await.is_ok());
    assert_eq!(cache.files()[&path], b"third");
}

#[tokio::test(start_paused = true)]
#[rule("D-1", "D-2", "I-5")]
async fn d2_what_a_revoked_master_published_is_published_over() {
    let net = Net::new(Arc::new(TokioClock::new()));
    let broker = Link::new(Arc::new(net.connect("broker")));
    storage::ensure_all(broker.bus().as_ref(), &storage::table(), 1).await.unwrap();
    let mut seed = 0;
    let secrets = Secrets::new(|| {
        seed += 1;
        [seed; 32]
    });
    let (secrets, now) = (secrets.unwrap(), SystemClock.wall());
    let mut roster = authority::first_roster(secrets.issuer.public(), now).unwrap();
    let mut fleet = Fleet::new(&secrets);
    let mut join = |name: &str, seed: u8, roster: &mut zester_wire::Roster| {
        let pair = KeyPair::new(KeyKind::User, [seed; 32]).unwrap();
        fleet.member((Role::Master, name), pair, &secrets.core, roster, (now, Duration::ZERO)).unwrap()
    };
    let (m1, m2) = (join("m1", 11, &mut roster), join("m2", 12, &mut roster));
    let link = |name: &str, of: authority::Unsealed, roster: &zester_wire::Roster| {
        let signed = authority::signed(&authority::renewed(roster, now), &secrets.core).unwrap();
        let credentials = of.with_roster(secrets.core.public(), &signed);
        Link::new(Arc::new(net.connect(name))).signed(credentials).unwrap()
    };
    let stolen = link("m1", m1, &roster);
    publish(&stolen, "first").await;
    publish(&stolen, "second").await;
    fleet.revoke("m1", &mut roster, now).unwrap();
    let m2 = link("m2", m2, &roster);
    // What counts for nobody is not the same as nothing: a master that took it for that would publish an empty tree.
    let publisher = Publisher { link: &m2, published: OF, fence: &Held };
    assert!(matches!(publisher.manifest().await, Err(Error::Torn(_))));
    let cache = MemoryCache::default();
    let look = async || Reader { link: &m2, published: OF, cache: &cache }.look().await;
    let refused = look().await.unwrap_err();
    assert!(matches!(&refused, Error::Torn(why) if why.contains("revoked")), "{refused}");
    publish(&m2, "third").await;
    assert!(matches!(look().await.unwrap(), Change::Now { revision: 3, .. }), "numbers are never used twice");
    assert_eq!(cache.files()[&TreePath::parse("a.zy").unwrap()], b"third");
    assert!(matches!(publisher.revision(2).await, Err(Error::Torn(_))), "nor does it come back");
}

#[tokio::test(start_paused = true)]
#[rule("D-3", "R-13")]
async fn d3_a_revision_whose_kept_manifest_was_lost_is_not_nothing() {
    let net = Net::new(Arc::new(TokioClock::new()));
    let link = Link::new(Arc::new(net.connect("m1")));
    storage::ensure_all(link.bus().as_ref(), &storage::table(), 1).await.unwrap();
    publish(&link, "first").await;
    let publisher = Publisher { link: &link, published: OF, fence: &Held };
    link.purge(&Key::ManifestOf(OF, 1)).await.unwrap();
    assert_eq!(publisher.manifest().await.unwrap().map(|manifest| manifest.revision), Some(1));
    assert!(publisher.current().await.unwrap().is_some());
    link.purge(&Key::Manifest(OF)).await.unwrap();
    assert!(matches!(publisher.manifest().await, Err(Error::Torn(_))));
    assert!(matches!(publisher.current().await, Err(Error::Torn(_))));
}
