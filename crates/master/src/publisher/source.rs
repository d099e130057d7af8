//! Where the trees come from that a master publishes.

use crate::limits::PUBLISH_EVERY;
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zester_publish::{Directory, Error, Pages};
use zester_wire::{ContentHash, Published};

/// A tree that this master publishes while it holds the lease.
#[derive(Clone)]
pub struct Source {
    pub published: Published,
    pub origin: Arc<dyn TreeOrigin>,
}

impl Source {
    pub fn directory(published: Published, directory: PathBuf) -> Source {
        Source { published, origin: Arc::new(directory) }
    }
}

/// A whole tree on this machine's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    pub directory: PathBuf,
    /// Empty where it comes from no repository.
    pub commit: String,
}

/// Brings a tree to this machine: a directory that is there, or a repository.
pub trait TreeOrigin: Send + Sync {
    /// Only whole trees. An error leaves the one before in its place.
    fn checkout(&self) -> BoxFuture<'_, Result<Checkout, String>>;
    /// How people know it.
    fn words(&self) -> String;
    /// A directory whose changes are noticed as they happen.
    fn watched(&self) -> Option<&Path>;
    /// How often it is looked at although nobody told of a change.
    fn every(&self) -> Duration;
}

impl TreeOrigin for PathBuf {
    fn checkout(&self) -> BoxFuture<'_, Result<Checkout, String>> {
        Box::pin(std::future::ready(Ok(Checkout { directory: self.clone(), commit: String::new() })))
    }

    fn words(&self) -> String {
        self.display().to_string()
    }

    fn watched(&self) -> Option<&Path> {
        Some(self)
    }

    fn every(&self) -> Duration {
        PUBLISH_EVERY
    }
}

/// A tree that was read and can be published.
pub struct Ready {
    pub published: Published,
    pub directory: Directory,
    pub root: ContentHash,
    pub source: String,
    pub commit: String,
    /// An operator brought it.
    pub uploaded: bool,
}

impl Ready {
    pub async fn of(source: &Source) -> Result<Ready, String> {
        let Checkout { directory, commit } = source.origin.checkout().await?;
        let read = tokio::task::spawn_blocking(move || Directory::read(&directory)).await;
        let directory = read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        let root = root_of(&directory).map_err(|error| error.to_string())?;
        let words = source.origin.words();
        Ok(Ready { published: source.published, directory, root, source: words, commit, uploaded: false })
    }

    pub fn uploaded(published: Published, directory: Directory, source: String) -> Result<Ready, Error> {
        let root = root_of(&directory)?;
        Ok(Ready { published, directory, root, source, commit: String::new(), uploaded: true })
    }
}

fn root_of(directory: &Directory) -> Result<ContentHash, Error> {
    Pages::of(&directory.tree).map(|pages| pages.root)
}
