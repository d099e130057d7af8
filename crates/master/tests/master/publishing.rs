//! Masters that publish their directories: one at a time, and another where that one is gone.

use crate::fleet::{Fleet, Master, eventually};
use futures_util::future::BoxFuture;
use std::path::Path;
use std::sync::Arc;
use zester_health::State;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::{Checkout, LintRequest, Linter, NamedTree, Publishing, Source, TreeOrigin};
use zester_publish::{Directory, MemoryCache, Reader, TreePath, upload};
use zester_rule::rule;
use zester_wire::*;

const OF: Published = Published::States;

/// A directory of a master.
pub fn directory(files: &[(&str, &str)]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn start(fleet: &Fleet, name: &str, states: &Path) -> Master {
    let link = Link::new(Arc::new(fleet.net.connect(name)));
    let sources = vec![Source::directory(OF, states.to_path_buf())];
    fleet.start_publishing(name, link, Timing::default(), Publishing { sources, ..Publishing::default() })
}

pub async fn manifest(fleet: &Fleet) -> Option<Manifest> {
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

pub async fn content(fleet: &Fleet, name: &str) -> Option<String> {
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

/// Finds a problem in every tree that has a file of this name, for all peels.
struct Picky(&'static str);

impl Linter for Picky {
    fn lint(&self, request: LintRequest) -> BoxFuture<'_, Problems> {
        let found = request.tree.directory.join(self.0).exists();
        Box::pin(std::future::ready(Problems {
            errors: u64::from(found),
            text: format!("error: no\n --> {}/{}:1:1\n", request.tree.name, self.0),
            peels: request.peels.iter().map(|(peel, _)| peel.clone()).filter(|_| found).collect(),
            ..Problems::default()
        }))
    }
}

fn start_picky(fleet: &Fleet, name: &str, states: &Path) -> Master {
    let link = Link::new(Arc::new(fleet.net.connect(name)));
    let sources = vec![Source::directory(OF, states.to_path_buf())];
    let linter = Arc::new(Picky("bad.zy"));
    fleet.start_publishing(
        name,
        link,
        Timing::default(),
        Publishing { sources, linter, ..Publishing::default() },
    )
}

/// Asks as a client does: again and again with the same id.
async fn ask(fleet: &Fleet, request: PublishRequest) -> AdminReply {
    let request = PublishRequest { id: Some(fleet.link.new_token().unwrap()), user: "ann".into(), ..request };
    eventually("an answer", async || {
        let verb = Token::parse("publish").unwrap();
        let asked = AdminRequest::Publish(request.clone());
        let wait = std::time::Duration::from_secs(5);
        let reply = fleet.link.request::<_, AdminReply>(&Subject::Admin { verb }, &asked, wait).await.ok()?;
        let again = reply.error.as_ref().is_some_and(|refusal| refusal.kind.is_retryable());
        (!again).then_some(reply)
    })
    .await
}

pub async fn one_report(fleet: &Fleet, request: PublishRequest) -> PublishReport {
    let reply = ask(fleet, request).await;
    assert_eq!(reply.error, None);
    assert_eq!(reply.published.len(), 1, "{reply:?}");
    reply.published.into_iter().next().unwrap()
}

async fn uploaded(fleet: &Fleet, directory: &Path) -> PublishRequest {
    let directory = Directory::read(directory).unwrap();
    let pages = upload(&fleet.link, OF, &directory).await.unwrap().pages;
    let tree = UploadedTree { published: OF, pages, source: "./mine".into() };
    PublishRequest { trees: vec![tree], ..PublishRequest::default() }
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_whichever_master_is_asked_the_holder_publishes_what_it_has() {
    let fleet = Fleet::new().await;
    let (one, other) = (directory(&[("a.zy", "1")]), directory(&[("a.zy", "2")]));
    let first = start(&fleet, "m1", one.path());
    published(&fleet, 1).await;
    let _others = [start(&fleet, "m2", other.path()), fleet.master("m3").await];
    for _ in 0..8 {
        let report = one_report(&fleet, PublishRequest::default()).await;
        assert_eq!((report.status, report.revision), (PublishStatus::Unchanged, 1));
    }
    drop(first);
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!((report.revision, report.source), (2, other.path().display().to_string()));
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("2"));
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_an_uploaded_tree_stays_until_the_directory_changes_or_is_asked_for() {
    let fleet = Fleet::new().await;
    let (own, mine) = (directory(&[("a.zy", "own")]), directory(&[("a.zy", "mine"), ("b.zy", "b")]));
    let master = start(&fleet, "m1", own.path());
    published(&fleet, 1).await;
    let report = one_report(&fleet, uploaded(&fleet, mine.path()).await).await;
    assert_eq!((report.status, report.revision, report.files), (PublishStatus::Published, 2, 2));
    assert_eq!(
        (report.changes.added.as_slice(), report.changes.changed_count),
        (&["b.zy".to_string()][..], 1)
    );
    let stands = manifest(&fleet).await.unwrap();
    assert_eq!((stands.user.as_str(), stands.source.as_str(), stands.uploaded), ("ann", "./mine", true));
    // Longer than the directory is left alone, and over a restart.
    let told = eventually("it is told", async || complaint(&master)).await;
    assert!(told.starts_with("states differ from revision 2, which ann uploaded"), "{told}");
    drop(master);
    let master = start(&fleet, "m1", own.path());
    eventually("it is told again", async || complaint(&master)).await;
    assert_eq!(manifest(&fleet).await.unwrap().revision, 2);
    // Also where nobody holds the lease at that time.
    std::fs::write(own.path().join("a.zy"), "own, later").unwrap();
    published(&fleet, 3).await;
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("own, later"));
    one_report(&fleet, uploaded(&fleet, mine.path()).await).await;
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Published, 5));
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("own, later"));
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_a_directory_that_caught_up_with_an_upload_is_followed_again() {
    let fleet = Fleet::new().await;
    let (own, mine) = (directory(&[("a.zy", "own")]), directory(&[("a.zy", "mine")]));
    let master = start(&fleet, "m1", own.path());
    published(&fleet, 1).await;
    one_report(&fleet, uploaded(&fleet, mine.path()).await).await;
    drop(master);
    std::fs::write(own.path().join("a.zy"), "mine").unwrap();
    let _master = start(&fleet, "m1", own.path());
    let report = one_report(&fleet, PublishRequest { dry_run: true, ..PublishRequest::default() }).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Unchanged, 2));
    std::fs::write(own.path().join("a.zy"), "later").unwrap();
    published(&fleet, 3).await;
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("later"));
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_masters_without_a_directory_publish_what_is_uploaded_and_nothing_else() {
    let fleet = Fleet::new().await;
    let _masters = [fleet.master("m1").await, fleet.master("m2").await];
    let mine = directory(&[("a.zy", "mine")]);
    let reply = ask(&fleet, PublishRequest::default()).await;
    assert!(reply.error.unwrap().message.ends_with("has no directory of its own"));
    let report = one_report(&fleet, uploaded(&fleet, mine.path()).await).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Published, 1));
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("mine"));
    // They let go of the lease: who has a directory gets it.
    let own = directory(&[("a.zy", "own")]);
    let master = start(&fleet, "m3", own.path());
    eventually("it holds the lease", async || complaint(&master).filter(|why| why.contains("ann uploaded")))
        .await;
}

#[tokio::test(start_paused = true)]
#[rule("D-3")]
async fn d3_an_upload_that_is_not_whole_is_refused() {
    let fleet = Fleet::new().await;
    let (own, mine) = (directory(&[("a.zy", "own")]), directory(&[("a.zy", "mine")]));
    let _master = start(&fleet, "m1", own.path());
    published(&fleet, 1).await;
    let request = uploaded(&fleet, mine.path()).await;
    let bucket = Bucket::of_published(OF).as_str();
    fleet.link.bus().purge(bucket, ContentHash::of(b"mine").as_str(), None).await.unwrap();
    let refusal = ask(&fleet, request).await.error.unwrap();
    assert_eq!(refusal.kind, RefusalKind::Conflict, "{refusal}");
    assert_eq!(manifest(&fleet).await.unwrap().revision, 1);
}

#[tokio::test(start_paused = true)]
#[rule("D-12")]
async fn d12_what_does_not_compile_is_not_published_unless_it_is_forced() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "1")]);
    let master = start_picky(&fleet, "m1", own.path());
    published(&fleet, 1).await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    std::fs::write(own.path().join("bad.zy"), "x").unwrap();
    let told = eventually("it is told", async || complaint(&master)).await;
    assert!(told.starts_with("states are not published: it does not compile: 1 error"), "{told}");
    assert!(told.contains("bad.zy:1:1"), "{told}");
    assert_eq!(manifest(&fleet).await.unwrap().revision, 1, "the old tree stays");
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Refused, 1));
    assert_eq!(report.problems.unwrap().peels, [crate::fleet::peel("web-1")]);
    let dry = PublishRequest { dry_run: true, force: true, ..PublishRequest::default() };
    let report = one_report(&fleet, dry).await;
    assert_eq!(
        (report.status, report.changes.added.as_slice()),
        (PublishStatus::Published, &["bad.zy".to_string()][..])
    );
    assert_eq!((report.problems.unwrap().errors, manifest(&fleet).await.unwrap().revision), (1, 1));
    let forced = PublishRequest { force: true, ..PublishRequest::default() };
    assert_eq!(one_report(&fleet, forced).await.revision, 2);
}

#[tokio::test(start_paused = true)]
#[rule("D-12")]
async fn d12_an_earlier_revision_counts_again_and_stays() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "1")]);
    let master = start(&fleet, "m1", own.path());
    published(&fleet, 1).await;
    std::fs::write(own.path().join("a.zy"), "2").unwrap();
    published(&fleet, 2).await;
    let back = |revision| PublishRequest {
        rollback: Some(Rollback { published: OF, revision }),
        ..PublishRequest::default()
    };
    let refusal = ask(&fleet, back(9)).await.error.unwrap();
    assert_eq!(refusal.message, "there is no revision 9 to go back to");
    let dry = one_report(&fleet, PublishRequest { dry_run: true, ..back(1) }).await;
    assert_eq!((dry.status, dry.revision, dry.changes.changed_count), (PublishStatus::Published, 2, 1));
    let report = one_report(&fleet, back(1)).await;
    assert_eq!((report.status, report.revision, report.moved), (PublishStatus::Published, 3, 0));
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("1"));
    let told = eventually("it is told", async || complaint(&master)).await;
    assert!(told.starts_with("states differ from revision 3, which ann went back to"), "{told}");
    assert_eq!(manifest(&fleet).await.unwrap().revision, 3);
}

/// Compiles nothing before a peel is known, and takes every `!secret` for one that is not sealed.
struct NeedsPeels;

impl Linter for NeedsPeels {
    fn lint(&self, request: LintRequest) -> BoxFuture<'_, Problems> {
        let errors = u64::from(request.peels.is_empty() && request.published == OF);
        Box::pin(std::future::ready(Problems { errors, ..Problems::default() }))
    }

    fn unsealed(&self, _: &str, text: &str) -> Vec<u32> {
        text.contains("!secret").then_some(1).into_iter().collect()
    }
}

pub fn start_with(fleet: &Fleet, sources: Vec<Source>) -> Master {
    let link = Link::new(Arc::new(fleet.net.connect("m1")));
    let linter = Arc::new(NeedsPeels);
    fleet.start_publishing(
        "m1",
        link,
        Timing::default(),
        Publishing { sources, linter, ..Publishing::default() },
    )
}

#[tokio::test(start_paused = true)]
#[rule("D-12")]
async fn d12_what_did_not_compile_is_looked_at_again_when_peels_appear() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "1")]);
    let master = start_with(&fleet, vec![Source::directory(OF, own.path().to_path_buf())]);
    eventually("it is told", async || complaint(&master)).await;
    let began = tokio::time::Instant::now();
    let _web = fleet.peel("web-1").await;
    published(&fleet, 1).await;
    assert!(began.elapsed() < std::time::Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
#[rule("D-6")]
async fn d6_a_secret_that_is_not_sealed_is_never_published() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "a: !secret hunter2")]);
    let _master = start_with(&fleet, vec![Source::directory(Published::Settings, own.path().to_path_buf())]);
    let report = one_report(&fleet, PublishRequest { force: true, ..PublishRequest::default() }).await;
    assert_eq!(report.status, PublishStatus::Refused);
    assert_eq!(report.reason, "a secret is not sealed: a.zy:1");
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_a_directory_without_a_state_file_wipes_nothing() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "1")]);
    let _master = start(&fleet, "m1", own.path());
    published(&fleet, 1).await;
    let mine = directory(&[("README", "x")]);
    let request = uploaded(&fleet, mine.path()).await;
    assert_eq!(one_report(&fleet, request.clone()).await.status, PublishStatus::Refused);
    let report = one_report(&fleet, PublishRequest { allow_empty: true, ..request }).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Published, 2));
}

#[tokio::test(start_paused = true)]
#[rule("D-2", "D-6")]
async fn d2_what_lies_over_settings_neither_undoes_an_upload_nor_is_lost_by_being_away() {
    let of = Published::Settings;
    let fleet = Fleet::new().await;
    let (own, over, mine) =
        (directory(&[("top.zy", "own")]), directory(&[("x.zy", "1")]), directory(&[("top.zy", "mine")]));
    let source =
        Source { over: Some(over.path().to_path_buf()), ..Source::directory(of, own.path().to_path_buf()) };
    let master = start_with(&fleet, vec![source]);
    let told = async || match master.health.state("settings") {
        Some(State::Degraded(why)) => Some(why),
        _ => None,
    };
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!((report.revision, report.files), (1, 2));
    let pages = upload(&fleet.link, of, &Directory::read(mine.path()).unwrap()).await.unwrap().pages;
    let tree = UploadedTree { published: of, pages, source: "./mine".into() };
    let report = one_report(&fleet, PublishRequest { trees: vec![tree], ..PublishRequest::default() }).await;
    assert_eq!((report.revision, report.files), (2, 2), "what lies over it is published with an upload too");
    eventually("it is told", &told).await;
    std::fs::write(over.path().join("x.zy"), "2").unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(400)).await;
    let now = fleet.link.get_latest::<Revision>(&Key::Revision(of)).await.unwrap().unwrap().value;
    assert_eq!(now.revision, 2, "the upload stays");
    std::fs::remove_dir_all(over.path()).unwrap();
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!(report.status, PublishStatus::Refused);
    assert!(report.reason.ends_with("is not there; what was published before stays"), "{}", report.reason);
}

#[tokio::test(start_paused = true)]
#[rule("D-2", "D-6")]
async fn d2_who_was_not_asked_yet_what_lies_over_settings_wipes_none_of_it() {
    let of = Published::Settings;
    let fleet = Fleet::new().await;
    let (own, over) = (directory(&[("top.zy", "own")]), directory(&[]));
    let file = over.path().join("_ext/web-1.zy");
    std::fs::create_dir(over.path().join("_ext")).unwrap();
    std::fs::write(&file, "x: 1").unwrap();
    let source =
        Source { over: Some(over.path().to_path_buf()), ..Source::directory(of, own.path().to_path_buf()) };
    let _master = start_with(&fleet, vec![source]);
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    assert_eq!(one_report(&fleet, PublishRequest::default()).await.files, 2);
    std::fs::remove_file(&file).unwrap();
    let report = one_report(&fleet, PublishRequest::default()).await;
    assert_eq!((report.status, report.revision), (PublishStatus::Refused, 1), "{report:?}");
    assert_eq!(report.reason, "nothing is known for `_ext` yet, and files of it are published: they stay");
    let told = PublishRequest { allow_empty: true, ..PublishRequest::default() };
    assert_eq!(one_report(&fleet, told).await.files, 1, "who says so gets it");
}

/// A directory that notes how often what is there now was asked for.
struct Asked(std::path::PathBuf, Arc<std::sync::atomic::AtomicUsize>);

impl TreeOrigin for Asked {
    fn checkout(&self) -> BoxFuture<'_, Result<Checkout, String>> {
        self.0.checkout()
    }
    fn look_anew(&self, _: bool) {
        self.1.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    }
    fn words(&self) -> String {
        self.0.words()
    }
    fn watched(&self) -> Option<&Path> {
        self.0.watched()
    }
    fn every(&self) -> std::time::Duration {
        self.0.every()
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_who_asks_gets_what_is_there_now() {
    let fleet = Fleet::new().await;
    let (own, count) = (directory(&[("top.zy", "1")]), Arc::<std::sync::atomic::AtomicUsize>::default());
    let origin = Arc::new(Asked(own.path().to_path_buf(), count.clone()));
    let _master = start_with(&fleet, vec![Source { published: Published::Reactor, origin, over: None }]);
    let read = || count.load(std::sync::atomic::Ordering::SeqCst);
    eventually("it is published", async || {
        fleet.link.get_latest::<Revision>(&Key::Revision(Published::Reactor)).await.unwrap()
    })
    .await;
    assert_eq!(read(), 0, "of its own accord it takes what was fetched");
    one_report(&fleet, PublishRequest::default()).await;
    assert_eq!(read(), 1);
}

async fn is_there(fleet: &Fleet, content: &str) -> bool {
    let (bucket, hash) = (Bucket::of_published(OF).as_str(), ContentHash::of(content.as_bytes()));
    fleet.link.bus().get(bucket, hash.as_str()).await.unwrap().is_some()
}

async fn minutes(count: u64) {
    tokio::time::sleep(std::time::Duration::from_secs(60 * count)).await;
}

#[tokio::test(start_paused = true)]
#[rule("D-1")]
async fn d1_what_was_brought_and_not_published_goes_once_no_upload_can_need_it() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "own")]);
    let (mine, bad) = (directory(&[("a.zy", "mine")]), directory(&[("bad.zy", "bad")]));
    let _master = start_picky(&fleet, "m1", own.path());
    published(&fleet, 1).await;
    let dry = PublishRequest { dry_run: true, ..uploaded(&fleet, mine.path()).await };
    assert_eq!(one_report(&fleet, dry).await.status, PublishStatus::Published);
    let report = one_report(&fleet, uploaded(&fleet, bad.path()).await).await;
    assert_eq!(report.status, PublishStatus::Refused);
    minutes(15).await;
    assert!(is_there(&fleet, "mine").await && is_there(&fleet, "bad").await, "it is too young");
    minutes(20).await;
    // Somebody brings it again and has not asked yet.
    uploaded(&fleet, bad.path()).await;
    minutes(15).await;
    assert!(!is_there(&fleet, "mine").await);
    assert!(is_there(&fleet, "bad").await, "an upload that is under way loses nothing");
    minutes(60).await;
    assert!(!is_there(&fleet, "bad").await);
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("own"), "what is published stays");
}

#[tokio::test(start_paused = true)]
#[rule("D-1")]
async fn d1_masters_without_a_directory_come_back_for_what_was_not_published() {
    let fleet = Fleet::new().await;
    let _master = fleet.master("m1").await;
    let mine = directory(&[("a.zy", "mine")]);
    let dry = PublishRequest { dry_run: true, ..uploaded(&fleet, mine.path()).await };
    assert_eq!(one_report(&fleet, dry).await.status, PublishStatus::Published);
    assert!(is_there(&fleet, "mine").await);
    minutes(60).await;
    assert!(!is_there(&fleet, "mine").await);
}

/// The first state file of a tree is gone as soon as the tree was compiled.
struct Loses;

impl Linter for Loses {
    fn lint(&self, request: LintRequest) -> BoxFuture<'_, Problems> {
        if request.published == OF {
            let _gone_already = std::fs::remove_file(request.tree.directory.join("a.zy"));
        }
        Box::pin(std::future::ready(Problems::default()))
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-2")]
async fn d2_what_was_published_is_told_although_the_next_tree_failed() {
    let fleet = Fleet::new().await;
    let link = Link::new(Arc::new(fleet.net.connect("m1")));
    let publishing = Publishing { linter: Arc::new(Loses), ..Publishing::default() };
    let _master = fleet.start_publishing("m1", link, Timing::default(), publishing);
    let (settings, states) = (directory(&[("top.zy", "x: 1")]), directory(&[("a.zy", "a")]));
    let mut request = uploaded(&fleet, states.path()).await;
    let of = Published::Settings;
    let pages = upload(&fleet.link, of, &Directory::read(settings.path()).unwrap()).await.unwrap().pages;
    request.trees.push(UploadedTree { published: of, pages, source: "./settings".into() });
    let reply = ask(&fleet, request).await;
    assert_eq!(reply.error, None);
    let told: Vec<_> = reply.published.iter().map(|one| (one.published, one.status)).collect();
    assert_eq!(told, [(of, PublishStatus::Published), (OF, PublishStatus::Refused)]);
    assert!(reply.published[1].reason.contains("a.zy"), "{}", reply.published[1].reason);
}

/// States do not compile with settings that hold `breaks.zy`, unless they hold `fits.zy`.
struct Together;

impl Linter for Together {
    fn lint(&self, request: LintRequest) -> BoxFuture<'_, Problems> {
        let holds = |tree: &NamedTree, name: &str| tree.directory.join(name).exists();
        let breaks = request.settings.as_ref().is_some_and(|settings| holds(settings, "breaks.zy"));
        let broken = request.published == OF && breaks && !holds(&request.tree, "fits.zy");
        let text = format!("error: no\n --> {}/a.zy:1:1\n", request.tree.name);
        let peels: Vec<PeelId> = request.peels.into_iter().map(|(peel, _)| peel).filter(|_| broken).collect();
        let diagnostics = broken.then(|| text.clone().into()).into_iter().collect();
        let errors = u64::from(broken);
        Box::pin(std::future::ready(Problems { errors, text, diagnostics, peels, ..Problems::default() }))
    }
}

#[tokio::test(start_paused = true)]
#[rule("D-12")]
async fn d12_settings_that_break_the_published_states_are_refused_like_states_that_do_not_compile() {
    let fleet = Fleet::new().await;
    let (settings, states) = (directory(&[("top.zy", "1")]), directory(&[("a.zy", "1")]));
    let sources = vec![
        Source::directory(Published::Settings, settings.path().to_path_buf()),
        Source::directory(OF, states.path().to_path_buf()),
    ];
    let publishing = Publishing { sources, linter: Arc::new(Together), ..Publishing::default() };
    let link = Link::new(Arc::new(fleet.net.connect("m1")));
    let master = fleet.start_publishing("m1", link, Timing::default(), publishing);
    published(&fleet, 1).await;
    let _web = fleet.peel("web-1").await;
    fleet.known("*", 1).await;
    std::fs::write(settings.path().join("breaks.zy"), "x").unwrap();
    let told = eventually("it is told", async || match master.health.state("settings") {
        Some(State::Degraded(why)) => Some(why),
        _ => None,
    })
    .await;
    let words =
        "settings are not published: the published states do not compile with it: 1 error, the first is";
    assert!(told.starts_with(words), "{told}");
    assert!(told.contains("a.zy:1:1"), "{told}");
    let reply = ask(&fleet, PublishRequest::default()).await;
    let report = &reply.published[0];
    assert_eq!((report.published, report.status), (Published::Settings, PublishStatus::Refused));
    assert_eq!(report.problems.as_ref().unwrap().peels, [crate::fleet::peel("web-1")]);
    // An empty directory takes nobody's place: the states that are published count.
    std::fs::remove_file(states.path().join("a.zy")).unwrap();
    let reply = ask(&fleet, PublishRequest::default()).await;
    assert_eq!(reply.published[0].status, PublishStatus::Refused, "{reply:?}");
    std::fs::write(states.path().join("a.zy"), "1").unwrap();
    // States that fit come along: both are published.
    std::fs::write(states.path().join("fits.zy"), "x").unwrap();
    let reply = ask(&fleet, PublishRequest::default()).await;
    let told: Vec<_> = reply.published.iter().map(|one| (one.published, one.revision)).collect();
    assert_eq!(told, [(Published::Settings, 2), (OF, 2)], "{reply:?}");
    // States that do not compile anyway are not the fault of the next settings.
    std::fs::remove_file(states.path().join("fits.zy")).unwrap();
    let forced = ask(&fleet, PublishRequest { force: true, ..PublishRequest::default() }).await;
    assert_eq!(forced.published[1].reason, "it does not compile: 1 error", "what was forced is told");
    assert_eq!(forced.published[1].revision, 3);
    std::fs::write(settings.path().join("s.zy"), "2").unwrap();
    let reply = ask(&fleet, PublishRequest::default()).await;
    assert_eq!(reply.published[0].revision, 3, "{reply:?}");
}
