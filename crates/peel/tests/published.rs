//! Published trees on a peel's disk, and which directory an execution sees.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fixture;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_bus::memory::{Net, TokioClock};
use zester_bus::storage;
use zester_link::Link;
use zester_model::merge::Merge;
use zester_peel::published::{DiskCache, Freshness, Learned, StatesDirs};
use zester_peel::work::{Local, Options};
use zester_peel::{Outcome, Work};
use zester_publish::{About, Cache, Change, Error, Fence, Publisher, Reader, Tree, TreePath, file_of};
use zester_rule::rule;
use zester_wire::{Bucket, ContentHash, ExecRequest, MasterId, Published, RunRevision};

struct Held;

impl Fence for Held {
    fn holds(&self) -> bool {
        true
    }
}

type Files = BTreeMap<TreePath, Vec<u8>>;

fn files(pairs: &[(&str, &str)]) -> Files {
    pairs.iter().map(|(name, text)| (TreePath::parse(name).unwrap(), text.as_bytes().to_vec())).collect()
}

async fn bus() -> Link {
    let net = Net::new(Arc::new(TokioClock::new()));
    let link = Link::new(Arc::new(net.connect("test")));
    storage::ensure_all(link.bus().as_ref(), &storage::table(), 1).await.unwrap();
    link
}

async fn publish(link: &Link, wanted: &Files) {
    publish_as(Published::States, link, wanted).await;
}

async fn publish_as(published: Published, link: &Link, wanted: &Files) {
    let files = wanted.iter().map(|(path, content)| (path.clone(), file_of(content, 0o755)));
    let tree = Tree { files: files.collect() };
    let about = About {
        master: MasterId::parse("m1.boot").unwrap(),
        user: String::new(),
        source: String::new(),
        commit: "abc".into(),
        allow_empty: true,
        uploaded: false,
    };
    let publisher = Publisher { link, published, fence: &Held };
    publisher.publish(&tree, wanted, &about).await.unwrap();
}

async fn look(link: &Link, cache: &DiskCache) -> Result<Change, Error> {
    Reader { link, published: Published::States, cache }.look().await
}

fn local(
    dir: &Path,
    states: Arc<DiskCache>,
    settings: Option<Arc<DiskCache>>,
    baked: Option<PathBuf>,
) -> Local {
    Local::open(options(dir, states, settings, baked)).unwrap()
}

fn options(
    dir: &Path,
    states: Arc<DiskCache>,
    settings: Option<Arc<DiskCache>>,
    baked: Option<PathBuf>,
) -> Options {
    Options {
        id: "web-1".into(),
        states: baked,
        states_cache: Some(states),
        settings_cache: settings,
        states_freshness: None,
        settings_freshness: None,
        settings: None,
        facts: None,
        data_dir: dir.join("data"),
        concurrency: 4,
        turns: None,
        settings_merge: Merge::default(),
        renderers: Default::default(),
        environment: None,
        startup: None,
        events: None,
    }
}

async fn execute(local: &Local, function: &str, word: &str) -> Outcome {
    let request = ExecRequest { state_id: word.into(), ..fixture::request(fixture::some_jid(), function) };
    local.execute(request, Arc::new(|_| {}), tokio_util::sync::CancellationToken::new()).await
}

/// Everything below a directory.
fn on_disk(root: &Path) -> Files {
    let mut found = Files::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.insert(TreePath::parse(name).unwrap(), std::fs::read(&path).unwrap());
            }
        }
    }
    found
}

#[tokio::test]
#[rule("D-4")]
async fn d4_the_cache_is_the_published_tree_and_only_what_changed_is_fetched() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let live = dir.path().join("states");
    let cache = DiskCache::open(&live).unwrap();
    let old = files(&[("top.zy", "1"), ("a b/ü.zy", "2"), (".hidden", "3"), ("empty", "")]);
    publish(&link, &old).await;
    look(&link, &cache).await.unwrap();
    assert_eq!(on_disk(&live), old);
    let new = files(&[("top.zy", "1"), ("a b/ü.zy", "22")]);
    publish(&link, &new).await;
    let change = look(&link, &cache).await.unwrap();
    assert_eq!(change, Change::Now { revision: 2, files: 2, fetched: 1, bytes: 2 });
    assert_eq!(on_disk(&live), new);
    // A peel that starts again has what it had.
    let again = DiskCache::open(&live).unwrap();
    assert_eq!(look(&link, &again).await.unwrap(), Change::Unchanged);
    assert_eq!(again.pin().unwrap().commit, "abc");
}

#[tokio::test]
#[rule("D-3", "D-4")]
async fn d4_a_fetch_that_fails_half_way_leaves_the_old_tree_whole() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let live = dir.path().join("states");
    let cache = DiskCache::open(&live).unwrap();
    let old = files(&[("a", "1"), ("b", "1")]);
    publish(&link, &old).await;
    look(&link, &cache).await.unwrap();
    publish(&link, &files(&[("a", "2"), ("b", "3")])).await;
    let bucket = Bucket::of_published(Published::States).as_str();
    link.bus().purge(bucket, ContentHash::of(b"3").as_str(), None).await.unwrap();
    assert!(look(&link, &cache).await.is_err());
    assert_eq!(on_disk(&live), old);
    assert_eq!(DiskCache::open(&live).unwrap().pin().unwrap().revision, 1);
}

#[tokio::test]
#[rule("D-4")]
async fn d4_a_tree_that_somebody_removed_comes_back_with_the_next_look() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let live = dir.path().join("states");
    let cache = DiskCache::open(&live).unwrap();
    let tree = files(&[("a", "1")]);
    publish(&link, &tree).await;
    look(&link, &cache).await.unwrap();
    let target = cache.pin().unwrap().path.clone();
    std::fs::remove_dir_all(target).unwrap();
    assert!(cache.pin().is_none());
    assert!(matches!(look(&link, &cache).await.unwrap(), Change::Now { revision: 1, .. }));
    assert_eq!(on_disk(&live), tree);
}

#[tokio::test]
#[rule("D-3")]
async fn d3_a_cached_file_that_somebody_changed_is_fetched_again() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let live = dir.path().join("states");
    let cache = DiskCache::open(&live).unwrap();
    publish(&link, &files(&[("a", "1"), ("b", "1")])).await;
    look(&link, &cache).await.unwrap();
    std::fs::write(live.join("a"), "evil").unwrap();
    let new = files(&[("a", "1"), ("b", "2")]);
    publish(&link, &new).await;
    look(&link, &cache).await.unwrap();
    assert_eq!(on_disk(&live), new);
}

#[tokio::test]
#[rule("D-13")]
async fn d13_a_run_keeps_the_tree_it_began_with() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let cache = DiskCache::open(&dir.path().join("states")).unwrap();
    let trees: Vec<Files> = (0..4).map(|number| files(&[("a", &format!("{number}"))])).collect();
    publish(&link, &trees[0]).await;
    look(&link, &cache).await.unwrap();
    let pinned = cache.pin().unwrap();
    for tree in &trees[1..] {
        publish(&link, tree).await;
        look(&link, &cache).await.unwrap();
    }
    assert_eq!((on_disk(&pinned.path), pinned.revision), (trees[0].clone(), 1));
    let path = pinned.path.clone();
    drop(pinned);
    publish(&link, &trees[1]).await;
    look(&link, &cache).await.unwrap();
    assert!(!path.exists(), "nobody holds it any more");
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-13")]
async fn d13_the_return_of_a_state_run_carries_the_revision_that_it_ran() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let open = |name: &str| Arc::new(DiskCache::open(&dir.path().join(name)).unwrap());
    let (states, settings) = (open("states"), open("settings"));
    for text in ["a:\n  test.nop: []\n", "b:\n  test.nop: []\n"] {
        publish(&link, &files(&[("web.zy", text)])).await;
        look(&link, &states).await.unwrap();
    }
    let local = local(dir.path(), states, Some(settings), None);
    let call = async |function: &str, word: &str| execute(&local, function, word).await;
    let ran = call("state.apply", "web").await;
    assert!(ran.success, "{}", ran.error);
    assert_eq!(ran.revision.unwrap(), RunRevision { states: Some(2), settings: None, commit: "abc".into() });
    // What does not compile ran that revision too; a ping ran none.
    assert_eq!(call("state.apply", "nothing").await.revision.unwrap().states, Some(2));
    assert_eq!(call("test.ping", "").await.revision, None);
}

/// A follower of what is published as `published`, which ends with the runtime.
fn followed(link: &Link, published: Published, cache: &Arc<DiskCache>) -> Freshness {
    let freshness = Freshness::new(link.bus().clone());
    tokio::spawn(freshness.clone().follow(
        link.clone(),
        published,
        published.as_str(),
        cache.clone(),
        Arc::default(),
    ));
    freshness
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-4", "D-13")]
async fn d4_what_was_published_before_a_run_is_what_it_runs() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let states = Arc::new(DiskCache::open(&dir.path().join("states")).unwrap());
    let freshness = followed(&link, Published::States, &states);
    let options =
        Options { states_freshness: Some(freshness), ..options(dir.path(), states.clone(), None, None) };
    let local = Local::open(options).unwrap();
    for number in 1..=10 {
        publish(&link, &files(&[("web.zy", &format!("web-{number}:\n  test.nop: []\n"))])).await;
        let ran = execute(&local, "state.apply", "web").await;
        assert!(ran.success, "{}", ran.error);
        assert_eq!(ran.revision.unwrap().states, Some(number));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-6", "D-9")]
async fn d6_no_states_run_before_it_is_known_whether_there_are_settings() {
    let net = Net::new(Arc::new(TokioClock::new()));
    let (link, dir) = (Link::new(Arc::new(net.connect("test"))), tempfile::tempdir().unwrap());
    storage::ensure_all(link.bus().as_ref(), &storage::table(), 1).await.unwrap();
    let open = |name: &str| Arc::new(DiskCache::open(&dir.path().join(name)).unwrap());
    let (states, settings) = (open("states"), open("settings"));
    publish(&link, &files(&[("web.zy", "a:\n  test.nop: []\n")])).await;
    look(&link, &states).await.unwrap();
    // Nobody has looked yet.
    let freshness = Freshness::new(link.bus().clone());
    let options = Options {
        settings_freshness: Some(freshness.clone()),
        ..options(dir.path(), states, Some(settings.clone()), None)
    };
    let local = Local::open(options).unwrap();
    let ran = execute(&local, "state.apply", "web").await;
    assert!(ran.error.starts_with("settings have not arrived yet: "), "{}", ran.error);
    assert!(ran.error.ends_with("; retry"), "{}", ran.error);
    assert!(execute(&local, "test.ping", "").await.success, "what is no state run goes on");
    net.cut("test");
    let ran = execute(&local, "state.apply", "web").await;
    assert!(ran.success, "without a bus it goes on: {}", ran.error);
    net.heal("test");
    tokio::spawn(freshness.clone().follow(
        link.clone(),
        Published::Settings,
        "settings",
        settings,
        Arc::default(),
    ));
    local.states_appear().await;
    assert_eq!(freshness.learned(), Some(Learned::Nothing));
    let ran = execute(&local, "state.apply", "web").await;
    assert!(ran.success, "none were ever published: {}", ran.error);
}

/// Trees are published and swapped without a pause while states are applied: each run sees the files of one revision, and
/// never those that the machine had before anything was published.
#[tokio::test(flavor = "multi_thread")]
#[rule("D-4", "D-13", "S-36")]
async fn d13_every_run_in_the_middle_of_swaps_sees_one_revision_and_never_falls_back() {
    let applies = if std::env::var_os("ZESTER_SOAK").is_some() { 10_000 } else { 200 };
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let cache = Arc::new(DiskCache::open(&dir.path().join("states")).unwrap());
    let baked = dir.path().join("baked");
    std::fs::create_dir(&baked).unwrap();
    std::fs::write(baked.join("web.zy"), "baked:\n  test.nop: []\n").unwrap();
    let tree = |number: u64| {
        let mut tree = files(&[
            ("web.zy", &format!("include: [other]\nweb-{number}:\n  test.nop: []\n")),
            ("other.zy", &format!("other-{number}:\n  test.nop: []\n")),
        ]);
        tree.extend(files(&[(&format!("only-{number}"), "x")]));
        tree
    };
    publish(&link, &tree(1)).await;
    look(&link, &cache).await.unwrap();
    let local = local(dir.path(), cache.clone(), None, Some(baked));
    let publishing = tokio::spawn(async move {
        for number in 2.. {
            publish(&link, &tree(number)).await;
            look(&link, &cache).await.unwrap();
        }
    });
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..applies {
        let ran = execute(&local, "state.apply", "web").await;
        assert!(ran.success, "{}", ran.error);
        let revision = ran.revision.and_then(|revision| revision.states).unwrap();
        let names: Vec<String> = ran.answer["states"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, [format!("test.nop:other-{revision}"), format!("test.nop:web-{revision}")]);
        seen.insert(revision);
    }
    publishing.abort();
    assert!(seen.len() > 20, "trees were swapped meanwhile: {seen:?}");
}

#[tokio::test(start_paused = true)]
#[rule("S-36")]
async fn s36_the_cache_comes_first_then_the_baked_directory_after_five_looks() {
    let dir = tempfile::tempdir().unwrap();
    let (live, baked) = (dir.path().join("cache"), dir.path().join("baked"));
    let dirs =
        StatesDirs { cache: Some(Arc::new(DiskCache::open(&live).unwrap())), baked: Some(baked.clone()) };
    assert!(dirs.choose(true).await.is_none(), "there is neither");
    std::fs::create_dir(&baked).unwrap();
    let begin = tokio::time::Instant::now();
    assert_eq!(dirs.choose(true).await.unwrap().path, baked);
    assert_eq!(begin.elapsed().as_millis(), 4 * 25, "five looks, 25 ms apart");
    assert_eq!(dirs.choose(false).await.unwrap().path, baked);
    assert_eq!(begin.elapsed().as_millis(), 4 * 25, "a ping does not wait");
    std::fs::create_dir(&live).unwrap();
    std::fs::write(live.join("top.zy"), "").unwrap();
    assert_eq!(dirs.choose(true).await.unwrap().path, live, "files in it are enough");
}

#[tokio::test]
#[rule("S-36", "S-37")]
async fn s36_a_tree_that_was_published_empty_hides_no_baked_directory() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let (live, baked) = (dir.path().join("states"), dir.path().join("baked"));
    let cache = Arc::new(DiskCache::open(&live).unwrap());
    let dirs = StatesDirs { cache: Some(cache.clone()), baked: Some(baked.clone()) };
    publish(&link, &files(&[("a.zy", "1")])).await;
    look(&link, &cache).await.unwrap();
    assert!(dirs.choose(true).await.unwrap().pinned.is_some());
    publish(&link, &files(&[])).await;
    look(&link, &cache).await.unwrap();
    assert!(dirs.choose(true).await.is_none(), "there is neither");
    std::fs::create_dir(&baked).unwrap();
    assert_eq!(dirs.choose(true).await.unwrap().path, baked);
    assert_eq!(dirs.choose(false).await.unwrap().path, baked);
}

#[tokio::test]
#[rule("S-36")]
async fn s36_a_cache_that_cannot_be_read_is_not_an_empty_one() {
    let dir = tempfile::tempdir().unwrap();
    let (live, baked) = (dir.path().join("cache"), dir.path().join("baked"));
    std::fs::create_dir(&baked).unwrap();
    let dirs =
        StatesDirs { cache: Some(Arc::new(DiskCache::open(&live).unwrap())), baked: Some(baked.clone()) };
    // A ring of links: nobody can read it, root neither.
    std::os::unix::fs::symlink(&live, &live).unwrap();
    assert_eq!(dirs.choose(true).await.unwrap().path, live, "the run says what is wrong with it");
    std::fs::remove_file(&live).unwrap();
    std::os::unix::fs::symlink(dir.path().join("nowhere"), &live).unwrap();
    assert_eq!(dirs.choose(true).await.unwrap().path, baked, "there is nothing behind it");
}

/// Each of the later looks counts: files that come just before one of them are found by it.
#[tokio::test(start_paused = true)]
#[rule("S-36")]
async fn s36_a_cache_that_is_filled_before_any_of_the_looks_is_taken() {
    for look in 1..5_u64 {
        let dir = tempfile::tempdir().unwrap();
        let (live, baked) = (dir.path().join("cache"), dir.path().join("baked"));
        std::fs::create_dir(&baked).unwrap();
        let cache = Some(Arc::new(DiskCache::open(&live).unwrap()));
        let dirs = StatesDirs { cache, baked: Some(baked) };
        let begin = tokio::time::Instant::now();
        let fill = async {
            tokio::time::sleep(std::time::Duration::from_millis(look * 25 - 5)).await;
            std::fs::create_dir(&live).unwrap();
            std::fs::write(live.join("top.zy"), "").unwrap();
        };
        let (chosen, ()) = tokio::join!(dirs.choose(true), fill);
        assert_eq!(chosen.unwrap().path, live, "look {look}");
        assert_eq!(begin.elapsed().as_millis(), u128::from(look) * 25);
    }
}

/// Every warning, in words.
#[derive(Clone, Default)]
struct Warnings(Arc<std::sync::Mutex<Vec<String>>>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        struct Words(String);
        impl tracing::field::Visit for Words {
            fn record_debug(&mut self, _: &tracing::field::Field, value: &dyn std::fmt::Debug) {
                self.0.push_str(&format!("{value:?}"));
            }
        }
        let mut words = Words(String::new());
        event.record(&mut words);
        self.0.lock().unwrap().push(words.0);
    }
    fn enter(&self, _: &tracing::span::Id) {}
    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test(start_paused = true)]
#[rule("S-36")]
async fn s36_falling_back_names_both_directories() {
    let warnings = Warnings::default();
    let _heard = tracing::subscriber::set_default(warnings.clone());
    let dir = tempfile::tempdir().unwrap();
    let (live, baked) = (dir.path().join("cache"), dir.path().join("baked"));
    std::fs::create_dir(&baked).unwrap();
    let dirs =
        StatesDirs { cache: Some(Arc::new(DiskCache::open(&live).unwrap())), baked: Some(baked.clone()) };
    dirs.choose(false).await.unwrap();
    assert!(warnings.0.lock().unwrap().is_empty(), "a ping falls back to nothing");
    dirs.choose(true).await.unwrap();
    let told = warnings.0.lock().unwrap().clone();
    let words = format!("no published states in {}; falling back to {}", live.display(), baked.display());
    assert_eq!(told, [words]);
}

#[tokio::test]
#[rule("D-4")]
async fn d4_what_an_earlier_life_left_half_done_is_no_part_of_the_next_tree() {
    use std::os::unix::fs::PermissionsExt;
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let live = dir.path().join("states");
    let cache = DiskCache::open(&live).unwrap();
    let trees = dir.path().join("states.trees");
    std::fs::create_dir(trees.join("staging")).unwrap();
    std::fs::write(trees.join("staging/stray"), "x").unwrap();
    // A part that was cut off has the name of what it should have been.
    std::fs::write(trees.join("parts").join(ContentHash::of(b"1").as_str()), "").unwrap();
    let wanted = files(&[("dir/a", "1"), ("b", "2")]);
    publish(&link, &wanted).await;
    let change = look(&link, &cache).await.unwrap();
    assert_eq!(change, Change::Now { revision: 1, files: 2, fetched: 2, bytes: 2 });
    assert_eq!(on_disk(&live), wanted);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&live.join("b")), mode(&live.join("dir"))), (0o700, 0o700), "for its owner alone");
    assert_eq!(mode(&trees), 0o700);
    assert!(std::fs::read_dir(trees.join("parts")).unwrap().next().is_none(), "nothing is left of them");
    // What was fetched for a tree that never came is not fetched again.
    std::fs::write(trees.join("parts").join(ContentHash::of(b"3").as_str()), "3").unwrap();
    publish(&link, &files(&[("b", "3")])).await;
    let change = look(&link, &cache).await.unwrap();
    assert_eq!(change, Change::Now { revision: 2, files: 1, fetched: 0, bytes: 0 });
}

#[tokio::test]
#[rule("D-4")]
async fn d4_a_link_that_leads_to_no_tree_of_ours_holds_none() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let live = dir.path().join("states");
    let wanted = files(&[("a", "1")]);
    publish(&link, &wanted).await;
    look(&link, &DiskCache::open(&live).unwrap()).await.unwrap();
    let tree = std::fs::read_link(&live).unwrap();
    let record = tree.with_extension("json");
    let held = || DiskCache::open(&live).unwrap().current().map(|revision| revision.revision);
    assert_eq!(held(), Some(1));
    let text = std::fs::read_to_string(&record).unwrap();
    let root = tree.file_name().unwrap().to_str().unwrap();
    std::fs::write(&record, text.replace(root, ContentHash::of(b"other").as_str())).unwrap();
    assert_eq!(held(), None, "it is the record of another tree");
    std::fs::write(&record, "{").unwrap();
    assert_eq!(held(), None, "it is no record");
    std::fs::write(&record, &text).unwrap();
    let elsewhere = dir.path().join(root);
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::remove_file(&live).unwrap();
    std::os::unix::fs::symlink(&elsewhere, &live).unwrap();
    assert_eq!(held(), None, "it leads elsewhere");
    let cache = DiskCache::open(&live).unwrap();
    look(&link, &cache).await.unwrap();
    assert_eq!(on_disk(&live), wanted);
    assert_eq!(held(), Some(1), "the next look makes it whole");
}

#[tokio::test(start_paused = true)]
#[rule("S-36", "S-37")]
async fn s37_states_appear_where_there_were_none() {
    let dir = tempfile::tempdir().unwrap();
    let (live, baked) = (dir.path().join("cache"), dir.path().join("baked"));
    let dirs =
        StatesDirs { cache: Some(Arc::new(DiskCache::open(&live).unwrap())), baked: Some(baked.clone()) };
    let soon = std::time::Duration::from_secs(60);
    assert!(tokio::time::timeout(soon, dirs.appear()).await.is_err(), "there is neither");
    std::fs::create_dir(&baked).unwrap();
    assert!(tokio::time::timeout(soon, dirs.appear()).await.is_err(), "an empty directory is none");
    std::fs::write(baked.join("top.zy"), "").unwrap();
    assert!(tokio::time::timeout(soon, dirs.appear()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-6")]
async fn d6_new_settings_are_rendered_when_they_come_and_the_last_good_ones_outlive_their_cache() {
    use serde_json::json;
    use zester_health::State;
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let data_dir = dir.path().join("data");
    let live = data_dir.join("settings");
    std::fs::create_dir(&data_dir).unwrap();
    let open = || {
        let cache = Arc::new(DiskCache::open(&live).unwrap());
        let options = Options {
            id: "web-1".into(),
            states: None,
            settings: None,
            settings_merge: Merge::Smart,
            states_cache: None,
            settings_cache: Some(cache.clone()),
            states_freshness: None,
            settings_freshness: None,
            facts: None,
            data_dir: data_dir.clone(),
            concurrency: 1,
            turns: None,
            environment: None,
            startup: None,
            events: None,
            renderers: Default::default(),
        };
        (Local::open(options).unwrap(), cache)
    };
    let (local, cache) = open();
    publish(&link, &files(&[("top.zy", "'*': [web]\n"), ("web.zy", "role: {{ facts.id }}\n")])).await;
    look(&link, &cache).await.unwrap();
    assert_eq!(local.render_settings().await, State::Up);
    publish(&link, &files(&[("top.zy", "'*': [web]\n"), ("web.zy", "a: 1\nrole: {{ nope }}\n")])).await;
    look(&link, &cache).await.unwrap();
    let why = "settings/web.zy:2:10: `nope` is undefined";
    assert!(matches!(local.render_settings().await, State::Degraded(told) if told.starts_with(why)));
    // A disk that lost the cache, and no bus.
    drop((local, cache));
    std::fs::remove_file(&live).unwrap();
    std::fs::remove_dir_all(data_dir.join("settings.trees")).unwrap();
    let (local, _cache) = open();
    let shown = local.execute(show(), Arc::new(|_| {}), CancellationToken::new()).await;
    assert!(shown.success, "{}", shown.error);
    let row = json!({"key": "role", "value": "web-1", "from": "settings/web.zy", "line": 1});
    assert_eq!(shown.answer["values"], json!([row]));
}

fn show() -> ExecRequest {
    fixture::request(fixture::some_jid(), "settings.show")
}

/// Files that a state reads while it runs are those of the tree that the run began with, however often that was replaced.
#[tokio::test(flavor = "multi_thread")]
#[rule("D-13")]
async fn d13_a_source_that_is_read_late_is_that_of_the_tree_the_run_began_with() {
    let (link, dir) = (bus().await, tempfile::tempdir().unwrap());
    let open = |name: &str| Arc::new(DiskCache::open(&dir.path().join(name)).unwrap());
    let (states, settings) = (open("states"), open("settings"));
    let path = |name: &str| dir.path().join(name).display().to_string();
    let web = format!(
        "gate:\n  cmd.run:\n    - command: touch {}; until test -e {}; do sleep 0.02; done\n\
         late:\n  file.managed:\n    - path: {}\n    - source: salt://f\n    - require: [{{cmd: gate}}]\n",
        path("began"),
        path("go"),
        path("late")
    );
    let tree = |number: u64| files(&[("web.zy", &web), ("f", &format!("{number}"))]);
    publish_as(Published::Settings, &link, &files(&[("top.zy", "'*': []")])).await;
    Reader { link: &link, published: Published::Settings, cache: settings.as_ref() }.look().await.unwrap();
    publish(&link, &tree(1)).await;
    look(&link, &states).await.unwrap();
    let local = Arc::new(local(dir.path(), states.clone(), Some(settings), None));
    let running = tokio::spawn({
        let local = local.clone();
        async move { execute(&local, "state.apply", "web").await }
    });
    let began = dir.path().join("began");
    zester_testkit::wait_until("the run", std::time::Duration::from_secs(60), async || {
        began.exists().then_some(())
    })
    .await;
    for number in 2..5 {
        publish(&link, &tree(number)).await;
        look(&link, &states).await.unwrap();
    }
    std::fs::write(dir.path().join("go"), "").unwrap();
    let ran = running.await.unwrap();
    assert!(ran.success, "{} {:#}", ran.error, ran.answer);
    assert_eq!(std::fs::read_to_string(dir.path().join("late")).unwrap(), "1");
    let revision = RunRevision { states: Some(1), settings: Some(1), commit: "abc".into() };
    assert_eq!(ran.revision.unwrap(), revision);
}
