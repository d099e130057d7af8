//! Both sides of the protocol on a bus in memory: whatever happens to a publisher, a reader has one tree or the other.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use zester_bus::memory::{Fate, Faults, Leg, Net, TokioClock};
use zester_bus::{Bytes, Delivery, Listen, storage};
use zester_link::Link;
use zester_publish::limits::{MANIFESTS_KEPT, PART_BYTES};
use zester_publish::*;
use zester_rule::rule;
use zester_wire::{
    Bucket, ContentHash, Key, Manifest, ManifestPage, MasterId, Notice, Published, PublishedFile, Revision,
    UnixMillis, encode,
};

const OF: Published = Published::States;
type Files = BTreeMap<TreePath, Vec<u8>>;

fn path(text: &str) -> TreePath {
    TreePath::parse(text).unwrap()
}

fn files(pairs: &[(&str, &str)]) -> Files {
    pairs.iter().map(|(name, text)| (path(name), text.as_bytes().to_vec())).collect()
}

fn tree(files: &Files) -> Tree {
    Tree { files: files.iter().map(|(path, content)| (path.clone(), file_of(content, 0o644))).collect() }
}

fn about(master: &str) -> About {
    About {
        master: MasterId::parse(&format!("{master}.boot")).unwrap(),
        user: String::new(),
        source: "states".into(),
        commit: String::new(),
        allow_empty: false,
        uploaded: false,
    }
}

/// Holds until it is told otherwise.
struct Lease(AtomicBool);

impl Fence for Lease {
    fn holds(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

fn held() -> Lease {
    Lease(AtomicBool::new(true))
}

async fn net() -> Net {
    let net = Net::new(Arc::new(TokioClock::new()));
    let bus = net.connect("set-up");
    storage::ensure_all(&bus, &storage::table(), 1).await.unwrap();
    net
}

fn link(net: &Net, name: &str) -> Link {
    Link::new(Arc::new(net.connect(name)))
}

async fn publish(link: &Link, wanted: &Files) -> Result<Outcome, Error> {
    let fence = held();
    let publisher = Publisher { link, published: OF, fence: &fence };
    publisher.publish(&tree(wanted), wanted, &about("m1")).await
}

async fn look(link: &Link, cache: &MemoryCache) -> Result<Change, Error> {
    Reader { link, published: OF, cache }.look().await
}

/// Nothing of one client gets through after so many of its messages.
struct Dies {
    who: &'static str,
    after: usize,
    sent: Arc<AtomicUsize>,
}

impl Faults for Dies {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        let dead = leg.from == self.who && self.sent.fetch_add(1, Ordering::SeqCst) >= self.after;
        if dead { Vec::new() } else { vec![Duration::ZERO] }
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-1")]
async fn d1_a_tree_reaches_its_readers_and_one_change_moves_that_file_and_its_page() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    assert_eq!(look(&peel, &cache).await.unwrap(), Change::Nothing);
    let mut wanted: Files = (0..500)
        .map(|number| (path(&format!("dir {}/ü-{number}", number % 9)), vec![b'x'; number]))
        .collect();
    let outcome = publish(&master, &wanted).await.unwrap();
    assert!(matches!(outcome, Outcome::Published { revision: 1, .. }), "{outcome:?}");
    let change = look(&peel, &cache).await.unwrap();
    assert!(matches!(change, Change::Now { revision: 1, files: 500, .. }), "{change:?}");
    assert_eq!(cache.files(), wanted);
    assert_eq!(publish(&master, &wanted).await.unwrap(), Outcome::Unchanged { revision: 1 });
    assert_eq!(look(&peel, &cache).await.unwrap(), Change::Unchanged);

    wanted.insert(path("dir 1/ü-1"), b"another text".to_vec());
    wanted.remove(&path("dir 2/ü-2"));
    let outcome = publish(&master, &wanted).await.unwrap();
    // The file and the one page; the file's bytes and no other's.
    assert!(matches!(outcome, Outcome::Published { revision: 2, moved: 2, .. }), "{outcome:?}");
    let change = look(&peel, &cache).await.unwrap();
    assert_eq!(change, Change::Now { revision: 2, files: 499, fetched: 1, bytes: 12 });
    assert_eq!(cache.files(), wanted);
}

#[tokio::test(start_paused = true)]
#[rule("D-1", "D-3")]
async fn d1_a_publisher_that_dies_at_any_step_leaves_the_old_tree_or_the_new_one() {
    let old = files(&[("a", "1"), ("b", "1"), ("gone", "1")]);
    let new = files(&[("a", "1"), ("b", "2"), ("new/c", "1")]);
    let (mut after, mut saw_old) = (0, 0);
    loop {
        let net = net().await;
        publish(&link(&net, "first"), &old).await.unwrap();
        let (peel, cache) = (link(&net, "peel"), MemoryCache::default());
        look(&peel, &cache).await.unwrap();
        net.set_faults(Dies { who: "victim", after, sent: Arc::default() });
        let died = publish(&link(&net, "victim"), &new).await;
        // Who was there before, and who comes anew.
        let fresh = MemoryCache::default();
        for (link, cache) in [(&peel, &cache), (&link(&net, "late"), &fresh)] {
            look(link, cache).await.unwrap_or_else(|error| panic!("after {after}: {error}"));
            assert!(cache.files() == old || cache.files() == new, "after {after}: {:?}", cache.files());
        }
        assert_eq!(cache.files(), fresh.files(), "after {after}");
        saw_old += usize::from(cache.files() == old);
        // Whoever publishes next brings everybody to its tree, under a number that nobody used.
        let last = files(&[("a", "3")]);
        publish(&link(&net, "next"), &last).await.unwrap_or_else(|error| panic!("after {after}: {error}"));
        look(&peel, &cache).await.unwrap();
        assert_eq!(cache.files(), last, "after {after}");
        if died.is_ok() {
            break;
        }
        after += 1;
    }
    assert!(after > 8 && saw_old > 6, "{after} steps, {saw_old} times the old tree");
}

#[tokio::test(start_paused = true)]
#[rule("D-3")]
async fn d3_what_is_missing_or_tampered_with_is_refused_and_the_old_tree_stays() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    let old = files(&[("a", "1")]);
    publish(&master, &old).await.unwrap();
    look(&peel, &cache).await.unwrap();
    let new = files(&[("a", "2")]);
    publish(&master, &new).await.unwrap();
    let hash = ContentHash::of(b"2");
    let bucket = Bucket::of_published(OF).as_str();
    let bus = master.bus();
    bus.put(bucket, hash.as_str(), Bytes::from_static(b"evil")).await.unwrap();
    let torn = look(&peel, &cache).await.unwrap_err();
    assert!(matches!(torn, Error::Torn(_)), "{torn}");
    assert_eq!(cache.files(), old);
    bus.purge(bucket, hash.as_str(), None).await.unwrap();
    assert!(matches!(look(&peel, &cache).await.unwrap_err(), Error::Torn(_)));
    assert_eq!(cache.files(), old);
    // Whoever publishes the same tree again brings back what is missing.
    assert_eq!(publish(&master, &new).await.unwrap(), Outcome::Unchanged { revision: 2 });
    look(&peel, &cache).await.unwrap();
    assert_eq!(cache.files(), new);
}

#[tokio::test(start_paused = true)]
#[rule("D-3")]
async fn d3_a_revision_without_a_manifest_is_no_tree() {
    let net = net().await;
    let (peel, cache) = (link(&net, "peel"), MemoryCache::default());
    let named = Revision { v: 1, revision: 3, root: ContentHash::of(b"x") };
    peel.put(&Key::Revision(OF), &named).await.unwrap();
    assert!(matches!(look(&peel, &cache).await.unwrap_err(), Error::Torn(_)));
    assert!(cache.files().is_empty());
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_an_empty_directory_wipes_nothing_unless_it_is_told_to() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    let (none, some) = (Files::new(), files(&[("a", "1")]));
    assert_eq!(publish(&master, &none).await.unwrap(), Outcome::Nothing);
    publish(&master, &some).await.unwrap();
    assert!(matches!(publish(&master, &none).await, Err(Error::Empty)));
    look(&peel, &cache).await.unwrap();
    assert_eq!(cache.files(), some);
    let fence = held();
    let publisher = Publisher { link: &master, published: OF, fence: &fence };
    let told = About { allow_empty: true, ..about("m1") };
    publisher.publish(&tree(&none), &none, &told).await.unwrap();
    look(&peel, &cache).await.unwrap();
    assert_eq!(cache.files(), none);
}

/// Loses its lease when it reads its second file, and another publishes then.
struct Overslept<'a> {
    files: Files,
    lease: &'a Lease,
    another: (&'a Link, &'a Files),
}

impl Content for Overslept<'_> {
    fn read<'a>(
        &'a self,
        path: &'a TreePath,
    ) -> std::pin::Pin<Box<dyn Future<Output = Result<Vec<u8>, Error>> + Send + 'a>> {
        Box::pin(async move {
            if self.lease.0.swap(false, Ordering::SeqCst) {
                publish(self.another.0, self.another.1).await.unwrap();
            }
            self.files.read(path).await
        })
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_who_lost_the_lease_publishes_nothing_any_more() {
    let net = net().await;
    let (slow, quick) = (link(&net, "slow"), link(&net, "quick"));
    let (old, theirs, ours) = (files(&[("a", "1")]), files(&[("a", "2")]), files(&[("a", "3")]));
    publish(&quick, &old).await.unwrap();
    let lease = held();
    let content = Overslept { files: ours.clone(), lease: &lease, another: (&quick, &theirs) };
    let publisher = Publisher { link: &slow, published: OF, fence: &lease };
    let refused = publisher.publish(&tree(&ours), &content, &about("m2")).await;
    assert!(matches!(refused, Err(Error::Superseded)), "{refused:?}");
    let cache = MemoryCache::default();
    look(&link(&net, "peel"), &cache).await.unwrap();
    assert_eq!(cache.files(), theirs);
}

/// Holds for ever, as a master does whose clock stood still: only comparing is left to stop it.
#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_who_believes_in_a_lease_that_is_gone_is_stopped_by_comparing() {
    let net = net().await;
    let (slow, quick) = (link(&net, "slow"), link(&net, "quick"));
    let (old, theirs, ours) = (files(&[("a", "1")]), files(&[("a", "2")]), files(&[("a", "3")]));
    publish(&quick, &old).await.unwrap();
    let (mine, once) = (held(), held());
    let content = Overslept { files: ours.clone(), lease: &once, another: (&quick, &theirs) };
    let publisher = Publisher { link: &slow, published: OF, fence: &mine };
    // It looks again, and then publishes on top of what it found: one after the other, never both at once.
    let outcome = publisher.publish(&tree(&ours), &content, &about("m2")).await.unwrap();
    assert!(matches!(outcome, Outcome::Published { revision: 3 | 4, .. }), "{outcome:?}");
    let cache = MemoryCache::default();
    look(&link(&net, "peel"), &cache).await.unwrap();
    assert_eq!(cache.files(), ours);
}

#[tokio::test(start_paused = true)]
#[rule("D-12")]
async fn d12_an_old_tree_is_taken_back_without_its_files_and_the_last_twenty_are_kept() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    for number in 1..=25 {
        publish(&master, &files(&[("a", &number.to_string()), ("same", "x")])).await.unwrap();
    }
    let History { manifests, current } = history(&peel, OF).await.unwrap();
    assert_eq!((manifests.len(), current), (MANIFESTS_KEPT, Some(25)));
    assert_eq!(manifests.last().unwrap().revision, 6);
    let fence = held();
    let publisher = Publisher { link: &master, published: OF, fence: &fence };
    assert!(matches!(publisher.roll_back(5, &about("m1")).await, Err(Error::NoSuchRevision(5))));
    let outcome = publisher.roll_back(10, &about("m1")).await.unwrap();
    assert!(matches!(outcome, Outcome::Published { revision: 26, moved: 0, .. }), "{outcome:?}");
    look(&peel, &cache).await.unwrap();
    assert_eq!(cache.files(), files(&[("a", "10"), ("same", "x")]));
    let newest: Manifest = master.get(&Key::Manifest(OF)).await.unwrap().unwrap().value;
    assert_eq!(newest.rollback_of, Some(10));
    // Contents that no kept manifest lists are gone: of 25 different files 20 stay, with a page each, and the common one.
    let keys = master.bus().keys(Bucket::of_published(OF).as_str(), "*").await.unwrap();
    let contents = keys.iter().filter(|key| !key.starts_with('_')).count();
    assert_eq!(contents, 2 * MANIFESTS_KEPT + 1 - 2);
}

#[tokio::test(start_paused = true)]
#[rule("D-3")]
async fn d3_a_bucket_that_was_made_again_is_read_again() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    for text in ["1", "2", "3"] {
        publish(&master, &files(&[("a", text)])).await.unwrap();
    }
    look(&peel, &cache).await.unwrap();
    net.recreate("KV_state-files");
    assert_eq!(look(&peel, &cache).await.unwrap(), Change::Nothing);
    assert_eq!(cache.files(), files(&[("a", "3")]), "nothing is no reason to forget");
    publish(&master, &files(&[("a", "4")])).await.unwrap();
    look(&peel, &cache).await.unwrap();
    assert_eq!(cache.files(), files(&[("a", "4")]));
}

#[tokio::test(start_paused = true)]
#[rule("D-5")]
async fn d5_a_file_above_the_payload_limit_travels_in_parts() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    let large: Vec<u8> = (0..PART_BYTES * 3 + 17).map(|index| (index / 1000) as u8).collect();
    let wanted = Files::from([(path("large"), large), (path("empty"), Vec::new())]);
    publish(&master, &wanted).await.unwrap();
    look(&peel, &cache).await.unwrap();
    assert_eq!(cache.files(), wanted);
}

/// A tree of which something is gone is not published again: it would be torn for everybody.
#[tokio::test(start_paused = true)]
#[rule("D-12", "D-3")]
async fn d12_a_revision_whose_contents_are_gone_does_not_come_back() {
    let net = net().await;
    let (master, fence) = (link(&net, "master"), held());
    for text in ["1", "2"] {
        publish(&master, &files(&[("a", text)])).await.unwrap();
    }
    let bucket = Bucket::of_published(OF).as_str();
    master.bus().purge(bucket, ContentHash::of(b"1").as_str(), None).await.unwrap();
    let publisher = Publisher { link: &master, published: OF, fence: &fence };
    let back = publisher.roll_back(1, &about("m1")).await;
    assert!(back.is_err(), "{back:?}");
    let counts = master.get_latest::<Revision>(&Key::Revision(OF)).await.unwrap().unwrap().value;
    assert_eq!(counts.revision, 2);
}

/// Does something at a message of one client, and may lose it.
struct At<F>(F);

impl<F: FnMut(Leg<'_>) -> bool + Send> Faults for At<F> {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if (self.0)(leg) { vec![Duration::ZERO] } else { Vec::new() }
    }
}

async fn keys(link: &Link) -> Vec<String> {
    link.bus().keys(Bucket::of_published(OF).as_str(), ">").await.unwrap()
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_who_lost_the_lease_brings_no_content_and_removes_nothing() {
    let net = net().await;
    let (master, lease) = (link(&net, "master"), Arc::new(held()));
    let publisher = Publisher { link: &master, published: OF, fence: lease.as_ref() };
    for number in 1..=MANIFESTS_KEPT {
        let files = files(&[("a", &number.to_string())]);
        publisher.publish(&tree(&files), &files, &about("m1")).await.unwrap();
    }
    let before = keys(&master).await;
    // It is lost with the first content, and what comes then is not even tried.
    lease.0.store(false, Ordering::SeqCst);
    let last = files(&[("a", "last")]);
    let refused = publisher.publish(&tree(&last), &last, &about("m1")).await;
    assert!(matches!(refused, Err(Error::Superseded)), "{refused:?}");
    assert_eq!(keys(&master).await, before);
    // It is lost right after the tree counts: the oldest revision is for the next holder to remove.
    lease.0.store(true, Ordering::SeqCst);
    let gone = lease.clone();
    net.set_faults(At(move |leg: Leg<'_>| {
        if leg.subject.starts_with("zester.notify.") {
            gone.0.store(false, Ordering::SeqCst);
        }
        true
    }));
    publisher.publish(&tree(&last), &last, &about("m1")).await.unwrap();
    let after = keys(&master).await;
    assert!(before.iter().all(|key| after.contains(key)), "{before:?} {after:?}");
    assert!(publisher.sweep(UnixMillis(u64::MAX)).await.is_ok(), "there is nothing to sweep");
    lease.0.store(true, Ordering::SeqCst);
    master
        .bus()
        .put(Bucket::of_published(OF).as_str(), ContentHash::of(b"x").as_str(), "x".into())
        .await
        .unwrap();
    lease.0.store(false, Ordering::SeqCst);
    let refused = publisher.sweep(UnixMillis(u64::MAX)).await;
    assert!(matches!(refused, Err(Error::Superseded)), "{refused:?}");
}

/// From its notice on, everything that one client sends takes this long.
struct SlowAfterNotice {
    who: &'static str,
    told: Arc<AtomicBool>,
}

const SLOW: Duration = Duration::from_secs(1);

impl Faults for SlowAfterNotice {
    fn fate(&mut self, leg: Leg<'_>) -> Fate {
        if leg.from == self.who && leg.subject.starts_with("zester.notify.") {
            self.told.store(true, Ordering::SeqCst);
        }
        let slow = leg.from == self.who && self.told.load(Ordering::SeqCst);
        vec![if slow { SLOW } else { Duration::ZERO }]
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-1")]
async fn d1_a_clean_up_that_overslept_takes_nothing_that_the_next_publisher_just_brought() {
    let net = net().await;
    let (slow, next, told) = (link(&net, "slow"), link(&net, "next"), Arc::new(AtomicBool::new(false)));
    for number in 1..=MANIFESTS_KEPT {
        publish(&slow, &files(&[("a", &number.to_string())])).await.unwrap();
    }
    let first = ContentHash::of(b"1");
    let bucket = Bucket::of_published(OF).as_str();
    net.set_faults(SlowAfterNotice { who: "slow", told: told.clone() });
    let cleaning = tokio::spawn({
        let slow = slow.clone();
        async move { publish(&slow, &files(&[("a", "last")])).await }
    });
    while !told.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    // Another has the lease by now and publishes what the oldest revision had: its content is there, its list not yet.
    next.bus().put(bucket, first.as_str(), "1".into()).await.unwrap();
    cleaning.await.unwrap().unwrap();
    told.store(false, Ordering::SeqCst);
    let gone = Key::ManifestOf(OF, 1);
    assert!(slow.get::<Manifest>(&gone).await.unwrap().is_none(), "the oldest revision was cleaned up");
    assert!(
        next.bus().get(bucket, first.as_str()).await.unwrap().is_some(),
        "its content is on its way again"
    );
}

#[tokio::test(start_paused = true)]
#[rule("D-1")]
async fn d1_a_revision_whose_answer_was_lost_is_published_all_the_same() {
    let net = net().await;
    let master = link(&net, "master");
    let mut lost = 0;
    net.set_faults(At(move |leg: Leg<'_>| {
        let answer = leg.to == "master" && leg.subject.ends_with("._revision");
        lost += u32::from(answer);
        !answer || lost > 1
    }));
    let wanted = files(&[("a", "1")]);
    let outcome = publish(&master, &wanted).await.unwrap();
    assert!(matches!(outcome, Outcome::Published { revision: 1, .. }), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
#[rule("D-1")]
async fn d1_whoever_listens_is_told_of_a_revision_and_of_nothing_else() {
    let net = net().await;
    let (master, peel) = (link(&net, "master"), link(&net, "peel"));
    let mut told = peel.bus().subscribe("zester.notify.*", Listen::alone(16)).await.unwrap();
    let wanted = files(&[("a", "1")]);
    publish(&master, &wanted).await.unwrap();
    publish(&master, &wanted).await.unwrap();
    publish(&master, &files(&[("a", "2")])).await.unwrap();
    master.bus().publish("zester.notify.end", Bytes::new()).await.unwrap();
    let mut heard = Vec::new();
    while let Some(Delivery::Message(message)) = told.next().await {
        if message.subject == "zester.notify.end" {
            break;
        }
        assert_eq!(message.subject, "zester.notify.state-files");
        heard.push(peel.open::<Notice>(&message.subject, &message.payload).unwrap().message.revision);
    }
    assert_eq!(heard, [1, 2]);
}

/// Reads of one client are so far behind.
struct Behind(&'static str, Duration);

impl Faults for Behind {
    fn fate(&mut self, _: Leg<'_>) -> Fate {
        vec![Duration::ZERO]
    }

    fn lag(&mut self, client: &str, _: &str) -> Duration {
        if client == self.0 { self.1 } else { Duration::ZERO }
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-3")]
async fn d3_a_server_that_lags_takes_no_revision_back() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    publish(&master, &files(&[("a", "1")])).await.unwrap();
    tokio::time::sleep(Duration::from_secs(10)).await;
    publish(&master, &files(&[("a", "2")])).await.unwrap();
    look(&peel, &cache).await.unwrap();
    net.set_faults(Behind("peel", Duration::from_secs(1)));
    let behind: Revision = peel.get(&Key::Revision(OF)).await.unwrap().unwrap().value;
    assert_eq!(behind.revision, 1, "it is an old answer");
    assert_eq!(look(&peel, &cache).await.unwrap(), Change::Unchanged);
    assert_eq!(cache.files(), files(&[("a", "2")]));
}

#[tokio::test(start_paused = true)]
#[rule("D-3")]
async fn d3_a_manifest_of_another_root_than_the_revision_names_is_no_list_of_it() {
    let net = net().await;
    let (master, peel, cache) = (link(&net, "master"), link(&net, "peel"), MemoryCache::default());
    publish(&master, &files(&[("a", "1")])).await.unwrap();
    let other = Revision { v: 1, revision: 1, root: ContentHash::of(b"another tree") };
    master.put(&Key::Revision(OF), &other).await.unwrap();
    let torn = look(&peel, &cache).await.unwrap_err();
    assert!(matches!(torn, Error::Torn(_)), "{torn}");
    assert!(cache.files().is_empty());
}

/// Every part is what its hash says, and the file is not.
#[tokio::test(start_paused = true)]
#[rule("D-3")]
async fn d3_an_upload_whose_file_is_not_what_its_parts_make_is_refused() {
    let net = net().await;
    let (client, bucket) = (link(&net, "client"), Bucket::of_published(OF).as_str());
    let put = async |content: &[u8]| {
        let hash = ContentHash::of(content);
        client.bus().put(bucket, hash.as_str(), Bytes::copy_from_slice(content)).await.unwrap();
        hash
    };
    let parts = vec![put(b"on").await, put(b"e").await];
    for (whole, size, good) in [(&b"one"[..], 3, true), (b"two", 3, false), (b"one", 4, false)] {
        let hash = ContentHash::of(whole);
        let file = PublishedFile { path: "a".into(), hash, size, mode: 0o644, parts: parts.clone() };
        let page = put(&encode(&ManifestPage { v: 1, files: vec![file] }).unwrap()).await;
        let into = tempfile::tempdir().unwrap();
        let fetched = fetch_tree(&client, OF, &[page], into.path()).await;
        assert_eq!(fetched.is_ok(), good, "{size} {fetched:?}");
        assert_eq!(into.path().join("a").exists(), good);
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-1")]
async fn d1_a_sweep_takes_only_what_is_old_and_listed_nowhere() {
    let net = net().await;
    let (master, fence) = (link(&net, "master"), held());
    let bucket = Bucket::of_published(OF).as_str();
    publish(&master, &files(&[("a", "1")])).await.unwrap();
    publish(&master, &files(&[("a", "2")])).await.unwrap();
    let listed = keys(&master).await;
    let bring = async |content: &'static [u8]| {
        let hash = ContentHash::of(content);
        master.bus().put(bucket, hash.as_str(), Bytes::from_static(content)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(10)).await;
        master.bus().get(bucket, hash.as_str()).await.unwrap().unwrap().at
    };
    bring(b"old").await;
    let young = bring(b"young").await;
    let publisher = Publisher { link: &master, published: OF, fence: &fence };
    assert!(publisher.sweep(UnixMillis(young)).await.unwrap(), "the young one stays");
    assert_eq!(keys(&master).await.len(), listed.len() + 1);
    assert!(!publisher.sweep(UnixMillis(young + 1)).await.unwrap());
    assert_eq!(keys(&master).await, listed);
}
