//! Publishes this master's directories to the peels while it holds the lease (D-2): when it gets the lease, when a file
//! changes, and every few minutes in case something was missed. Without the lease it says where its own files differ (D-14).

use crate::core::Core;
use crate::held_lease::{HeldLease, LeaseKeeper};
use crate::limits::{PUBLISH_EVERY, PUBLISH_LOOK, PUBLISH_QUIET};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};
use zester_health::State;
use zester_publish::{About, Directory, Error, Fence, Outcome, Pages, Publisher};
use zester_wire::{BadName, Key, Published, Revision};

/// The key of the lease.
const NAME: &str = "publisher";

/// A directory that this master publishes.
#[derive(Clone, Debug)]
pub struct Source {
    pub published: Published,
    pub directory: PathBuf,
}

impl Fence for HeldLease {
    fn holds(&self) -> bool {
        self.is_held()
    }
}

pub struct PublisherTask {
    core: Arc<Core>,
    sources: Vec<Source>,
    lease: HeldLease,
}

impl PublisherTask {
    pub fn new(core: Arc<Core>, sources: Vec<Source>) -> Result<(PublisherTask, LeaseKeeper), BadName> {
        let keeper = LeaseKeeper::new(core.clone(), NAME)?;
        Ok((PublisherTask { core, sources, lease: keeper.held() }, keeper))
    }

    /// Ends only with its task.
    pub async fn run(self) {
        let changed = Arc::new(Notify::new());
        let _watching: Vec<_> =
            self.sources.iter().filter_map(|source| watch(&source.directory, &changed)).collect();
        let (mut held, mut next) = (false, Instant::now());
        loop {
            let holds = self.lease.is_held();
            if holds != held || Instant::now() >= next {
                for source in &self.sources {
                    self.look(source, holds).await;
                }
                (held, next) = (holds, Instant::now() + PUBLISH_EVERY);
            }
            if timeout(PUBLISH_LOOK, changed.notified()).await.is_ok() {
                // An editor writes more than once, and a checkout writes many files.
                while timeout(PUBLISH_QUIET, changed.notified()).await.is_ok() {}
                next = Instant::now();
            }
        }
    }

    async fn look(&self, source: &Source, holds: bool) {
        let what = source.published.as_str();
        let state = match read(source).await {
            Ok(directory) if holds => self.publish(source, &directory).await,
            Ok(directory) => self.compare(source, &directory).await,
            Err(why) => Err(why),
        };
        match state {
            Ok(()) => self.core.health.set(what, State::Up),
            Err(why) => {
                let why = format!("{why} ({})", source.directory.display());
                if self.core.health.state(what) != Some(State::Degraded(why.clone())) {
                    tracing::warn!("{why}");
                }
                self.core.health.set(what, State::Degraded(why));
            }
        }
    }

    async fn publish(&self, source: &Source, directory: &Directory) -> Result<(), String> {
        let about = About {
            master: self.core.id.clone(),
            user: String::new(),
            source: source.directory.display().to_string(),
            commit: String::new(),
            allow_empty: false,
        };
        let publisher = Publisher { link: &self.core.link, published: source.published, fence: &self.lease };
        match publisher.publish(&directory.tree, directory, &about).await {
            Ok(Outcome::Published { revision, moved, bytes }) => {
                let what = source.published.as_str();
                tracing::info!(
                    revision,
                    files = directory.tree.files.len(),
                    moved,
                    bytes,
                    "published {what}"
                );
                Ok(())
            }
            Ok(Outcome::Unchanged { .. } | Outcome::Nothing) => Ok(()),
            // The next holder does it.
            Err(Error::Superseded) => Ok(()),
            Err(error) => Err(format!("{} are not published: {error}", source.published.as_str())),
        }
    }

    /// Another publishes: where its files are not ours, somebody should know (D-14).
    async fn compare(&self, source: &Source, directory: &Directory) -> Result<(), String> {
        let key = Key::Revision(source.published);
        let found = self.core.link.get::<Revision>(&key).await.map_err(|error| error.to_string())?;
        let pages = Pages::of(&directory.tree).map_err(|error| error.to_string())?;
        match found {
            Some(found) if found.value.root != pages.root => {
                let (what, revision) = (source.published.as_str(), found.value.revision);
                Err(format!("{what} differ from revision {revision}, which another master published"))
            }
            _ => Ok(()),
        }
    }
}

async fn read(source: &Source) -> Result<Directory, String> {
    let directory = source.directory.clone();
    let read = tokio::task::spawn_blocking(move || Directory::read(&directory)).await;
    read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Tells of changes below a directory, for as long as what it gives back lives. A directory that cannot be watched is looked
/// at all the same, only later.
fn watch(directory: &Path, changed: &Arc<Notify>) -> Option<notify::RecommendedWatcher> {
    use notify::{EventKind, RecursiveMode, Watcher};
    let changed = changed.clone();
    let told = move |event: Result<notify::Event, notify::Error>| {
        // Reading is no change; who reads to publish would wake himself for ever.
        if !event.is_ok_and(|event| matches!(event.kind, EventKind::Access(_))) {
            changed.notify_one();
        }
    };
    let watching = notify::recommended_watcher(told).and_then(|mut watcher| {
        watcher.watch(directory, RecursiveMode::Recursive)?;
        Ok(watcher)
    });
    watching
        .inspect_err(|error| tracing::warn!("{} is not watched for changes: {error}", directory.display()))
        .ok()
}
