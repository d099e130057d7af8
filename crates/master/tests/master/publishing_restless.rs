//! A tree that changes while it is read is no tree that anybody meant.

use crate::fleet::{Fleet, eventually};
use crate::publishing::{content, directory, manifest};
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use zester_jobs::Timing;
use zester_link::Link;
use zester_master::limits::PUBLISH_QUIET;
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
    fn every(&self) -> Duration {
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

/// Within this the system surely told of a change.
const TOLD: Duration = Duration::from_millis(50);
const ATTEMPTS: usize = 20;

async fn asked(fleet: &Fleet) -> Result<u64, Refusal> {
    let id = Some(fleet.link.new_token().unwrap());
    let asked = AdminRequest::Publish(PublishRequest { id, user: "ann".into(), ..PublishRequest::default() });
    let subject = Subject::Admin { verb: Token::parse("publish").unwrap() };
    let reply: AdminReply = eventually("an answer", async || {
        fleet.link.request(&subject, &asked, Duration::from_secs(5)).await.ok()
    })
    .await;
    reply.error.map_or(Ok(reply.published.first().map_or(0, |report| report.revision)), Err)
}

#[tokio::test]
#[rule("D-2")]
async fn d2_nor_is_it_where_an_operator_asks() {
    let fleet = Fleet::new().await;
    let own = directory(&[("a.zy", "old"), ("b.zy", "old"), ("c.zy", "old")]);
    let origin = Arc::new(Written { root: own.path().to_path_buf(), left: Mutex::default() });
    let source = Source { published: Published::States, origin: origin.clone(), over: None };
    let link = Link::new(Arc::new(fleet.net.connect("m1")));
    let publishing = Publishing { sources: vec![source], ..Publishing::default() };
    let _master = fleet.start_publishing("m1", link, Timing::default(), publishing);
    eventually("it is published", async || manifest(&fleet).await).await;
    assert_eq!(asked(&fleet).await, Ok(1));
    // It changes while it is read for the operator, and once more when it is read again.
    *origin.left.lock().unwrap() = vec!["b.zy", "a.zy"];
    let told = |refusal: Refusal| {
        assert_eq!(refusal.kind, RefusalKind::Unavailable);
        assert!(refusal.message.contains("change just now; ask again"), "{refusal:?}");
    };
    told(asked(&fleet).await.unwrap_err());
    eventually("all of it is published", async || {
        (content(&fleet, "b.zy").await.as_deref() == Some("new")).then_some(())
    })
    .await;
    assert_eq!(content(&fleet, "a.zy").await.as_deref(), Some("new"));
    assert_eq!(manifest(&fleet).await.unwrap().revision, 2, "nothing of it was published before");
    // Nor while whoever writes may not be done. Where the answer comes later than that, nothing is shown.
    for count in 0..ATTEMPTS {
        let begun = std::time::Instant::now();
        std::fs::write(own.path().join("c.zy"), count.to_string()).unwrap();
        tokio::time::sleep(TOLD).await;
        let answer = asked(&fleet).await;
        if begun.elapsed() < PUBLISH_QUIET {
            told(answer.unwrap_err());
            return;
        }
    }
}
