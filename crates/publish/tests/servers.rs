//! The protocol on a real server: a publisher that stops between any two of its steps, and readers beside it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use zester_bus::nats::{self, Options};
use zester_bus::storage;
use zester_link::Link;
use zester_publish::*;
use zester_rule::rule;
use zester_testkit::Server;
use zester_wire::{MasterId, Published};

const OF: Published = Published::States;
type Files = BTreeMap<TreePath, Vec<u8>>;

async fn link(server: &Server, name: &str) -> Link {
    let bus = nats::connect(Options::new(vec![server.url()], name)).await.unwrap();
    Link::new(Arc::new(bus))
}

fn files(count: usize, changed: usize) -> Files {
    let text =
        |number: usize| format!("file {number} of {}", if number == changed { "another" } else { "this" });
    // Blanks, leading dots, letters of other alphabets, and 200 of them.
    let path = |number: usize| {
        let long = if number % 50 == 3 { "n".repeat(190) } else { String::new() };
        TreePath::parse(&format!("dir {}/.ü-{long}{number}", number % 7)).unwrap()
    };
    (0..count)
        .filter(|number| *number != changed + 1)
        .map(|number| (path(number), text(number).into()))
        .collect()
}

/// Holds for so many steps.
struct Steps(AtomicUsize);

impl Fence for Steps {
    fn holds(&self) -> bool {
        self.0.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
    }
}

fn tree(files: &Files) -> Tree {
    Tree { files: files.iter().map(|(path, content)| (path.clone(), file_of(content, 0o644))).collect() }
}

async fn publish(link: &Link, wanted: &Files, steps: usize) -> Result<Outcome, Error> {
    let tree = tree(wanted);
    let about = About {
        master: MasterId::parse("m1.boot").unwrap(),
        user: String::new(),
        source: String::new(),
        commit: String::new(),
        allow_empty: false,
        uploaded: false,
    };
    let fence = Steps(AtomicUsize::new(steps));
    Publisher { link, published: OF, fence: &fence }.publish(&tree, wanted, &about).await
}

async fn look(link: &Link, cache: &MemoryCache) -> Change {
    Reader { link, published: OF, cache }.look().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-1", "D-3")]
async fn d1_on_a_real_server_a_publisher_that_stops_at_any_step_leaves_one_whole_tree() {
    const ENOUGH: usize = 1_000_000;
    let server = Server::start();
    let (master, peel) = (link(&server, "master").await, link(&server, "peel").await);
    storage::ensure_all(master.bus().as_ref(), &storage::table(), 1).await.unwrap();
    let peels: Vec<MemoryCache> = (0..5).map(|_| MemoryCache::default()).collect();
    let (mut old, mut steps, mut stopped) = (files(40, 0), 0, 0);
    publish(&master, &old, ENOUGH).await.unwrap();
    loop {
        let new = files(40, 1 + steps);
        let outcome = publish(&master, &new, steps).await;
        for cache in &peels {
            look(&peel, cache).await;
        }
        let there = peels[0].files();
        assert!(there == old || there == new, "after {steps} steps");
        assert!(peels.iter().all(|cache| cache.files() == there), "after {steps} steps");
        old = there;
        if outcome.is_ok() {
            break;
        }
        (steps, stopped) = (steps + 1, stopped + 1);
    }
    assert!(stopped >= 4, "{stopped} steps");
    let last = files(40, 39);
    publish(&master, &last, ENOUGH).await.unwrap();
    look(&peel, &peels[0]).await;
    assert_eq!(peels[0].files(), last);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-1")]
async fn d1_of_five_hundred_files_one_change_moves_that_file_and_its_page_to_five_peels() {
    let server = Server::start();
    let (master, peel) = (link(&server, "master").await, link(&server, "peel").await);
    storage::ensure_all(master.bus().as_ref(), &storage::table(), 1).await.unwrap();
    let old = files(500, 700);
    publish(&master, &old, 1_000_000).await.unwrap();
    let peels: Vec<MemoryCache> = (0..5).map(|_| MemoryCache::default()).collect();
    for cache in &peels {
        look(&peel, cache).await;
    }
    // One is another, one is gone.
    let new = files(500, 17);
    let outcome = publish(&master, &new, 1_000_000).await.unwrap();
    let (before, after) = (Pages::of(&tree(&old)).unwrap(), Pages::of(&tree(&new)).unwrap());
    let pages = after.bytes.iter().filter(|(hash, _)| !before.bytes.contains_key(hash));
    let file = "file 17 of another".len() as u64;
    let bytes = file + pages.map(|(_, page)| page.len() as u64).sum::<u64>();
    assert_eq!(outcome, Outcome::Published { revision: 2, moved: 2, bytes });
    for cache in &peels {
        let change = look(&peel, cache).await;
        assert_eq!(change, Change::Now { revision: 2, files: 499, fetched: 1, bytes: file });
        assert_eq!(cache.files(), new);
    }
}
