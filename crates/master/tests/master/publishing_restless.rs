//! A tree that changes while it is read is no tree that anybody meant.

use crate::fleet::{Fleet, eventually};
use crate::publishing::{content, directory, manifest};
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::{Checkout, Publishing, Source, TreeOrigin};
use zester_rule::rule;
use zester_wire::*;

/// A directory in which somebody writes one more file each time it is about to be read.
struct Written {
    root: PathBuf,
    left: Mutex<Vec<&'static str>>,
}

impl TreeOrigin for Written {
    fn checkout(&self) -> BoxFuture<'_, Result<Checkout, String>> {
        if let Some(name) = self.left.lock().unwrap().pop() {
            std::fs::write(self.root.join(name), "new").unwrap();
        }
        self.root.checkout()
    }
    fn words(&self) -> String {
        self.root.words()
    }
    fn watched(&self) -> Option<&Path> {
        Some(&self.root)
    }
    fn every(&self) -> std::time::Duration {
        self.root.every()
    }
}

// Not on a clock that is handed in: the system tells of changes in its own time.
#[tokio::test]
#[rule("D-2")]
async fn d2_what_changes_while_it_is_read_is_not_published_by_halves() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "old"), ("b.zy", "old")]);
    let origin = Arc::new(Written { root: own.path().to_path_buf(), left: Mutex::default() });
    let source = Source { published: Published::States, origin: origin.clone(), over: None };
    let link = Link::new(Arc::new(fleet.net.connect("m1")));
    let publishing = Publishing { sources: vec![source], ..Publishing::default() };
    let _master = fleet.start_publishing("m1", link, Timing::default(), publishing);
    eventually("it is published", async || manifest(&fleet).await).await;
    *origin.left.lock().unwrap() = vec!["b.zy", "a.zy"];
    std::fs::write(own.path().join("c.zy"), "new").unwrap();
    eventually("all of it is published", async || {
        (content(&fleet, "b.zy").await.as_deref() == Some("new")).then_some(())
    })
    .await;
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("new"));
    assert_eq!(manifest(&fleet).await.unwrap().revision, 2, "nothing of it was published before");
}
