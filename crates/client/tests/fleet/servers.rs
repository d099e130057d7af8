//! What only a real server can show.

use crate::world::{job, put_job};
use std::sync::Arc;
use std::time::Duration;
use zester_bus::nats::{Options, connect};
use zester_bus::storage;
use zester_client::Client;
use zester_link::Link;
use zester_testkit::Server;
use zester_wire::JobStatus;

/// After how long at most the server gives up what it has in memory and nobody reads.
const FORGETS: Duration = Duration::from_secs(15);
const LOOKS: usize = 4;

/// The server goes on to answer: it counts its records, lists none or all of them, and says that each is not there.
#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_whose_disk_is_gone_is_not_empty() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path());
    let bus = connect(Options::new(vec![server.url()], "operator")).await.unwrap();
    let link = Link::new(Arc::new(bus));
    storage::ensure_all(link.bus().as_ref(), &storage::table(), 1).await.unwrap();
    let client = Client::new(link.clone());
    assert!(client.jobs(10).await.unwrap().is_empty(), "there was none yet");
    put_job(&link, &job(&link, &link.new_jid(), &["web-1"], JobStatus::Complete)).await;
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        std::fs::remove_dir_all(entry.unwrap().path()).unwrap();
    }
    let mut told = None;
    for _ in 0..LOOKS {
        match client.jobs(10).await {
            Err(error) => {
                told = Some(error);
                break;
            }
            // It is still in memory, and a look keeps it there.
            Ok(jobs) => assert_eq!(jobs.len(), 1, "it says that there are no jobs"),
        }
        tokio::time::sleep(FORGETS).await;
    }
    let error = told.unwrap();
    assert!(error.to_string().contains("counts 1 records in the bucket `jobs`"), "{error}");
}
