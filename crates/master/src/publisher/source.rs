//! Where the trees come from that a master publishes.

use super::usable;
use crate::limits::PUBLISH_EVERY;
use futures_util::future::BoxFuture;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use zester_publish::{Content, Directory, Error, Pages, Tree};
use zester_wire::{ContentHash, Published};

/// A tree that this master publishes while it holds the lease.
#[derive(Clone)]
pub struct Source {
    pub published: Published,
    pub origin: Arc<dyn TreeOrigin>,
    /// Published with it and over it: what `settings_ext` says of each peel.
    pub over: Option<PathBuf>,
}

impl Source {
    pub fn directory(published: Published, directory: PathBuf) -> Source {
        Source { published, origin: Arc::new(directory), over: None }
    }

    /// Directories whose changes are noticed as they happen.
    pub fn watched(&self) -> impl Iterator<Item = &Path> {
        self.origin.watched().into_iter().chain(self.over.as_deref())
    }

    /// A tree with what lies over those of this source. That it is not there does not mean that it says nothing.
    pub async fn lay_over(&self, ready: Ready) -> Result<Ready, String> {
        let Some(over) = self.over.clone() else { return Ok(ready) };
        if !over.is_dir() {
            return Err(format!("{} is not there; what was published before stays", over.display()));
        }
        let OriginTree { checkout, tree, content } = ready.origin;
        let above = read(over.clone()).await?;
        let silent = if above.tree.is_empty() { directories_in(&over)? } else { Vec::new() };
        let (tree, content) = above.over(tree, content);
        let root = Pages::of(&tree).map_err(|error| error.to_string())?.root;
        Ok(Ready { origin: OriginTree { checkout, tree, content }, root, silent, ..ready })
    }
}

/// A whole tree on this machine's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkout {
    pub directory: PathBuf,
    /// Empty where it comes from no repository.
    pub commit: String,
}

/// A whole tree that was looked through.
pub struct OriginTree {
    pub checkout: Checkout,
    pub tree: Tree,
    pub content: Arc<dyn Content>,
}

impl OriginTree {
    async fn read(checkout: Checkout) -> Result<OriginTree, String> {
        Ok(OriginTree::of(read(checkout.directory).await?, checkout.commit))
    }

    fn of(directory: Directory, commit: String) -> OriginTree {
        let checkout = Checkout { directory: directory.root().to_path_buf(), commit };
        OriginTree { checkout, tree: directory.tree.clone(), content: Arc::new(directory) }
    }
}

/// The names of its directories. Blocks for a moment: it holds a handful.
fn directories_in(root: &Path) -> Result<Vec<String>, String> {
    let entries = std::fs::read_dir(root).map_err(|error| format!("{}: {error}", root.display()))?;
    let directories = entries.flatten().filter(|entry| entry.path().is_dir());
    Ok(directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect())
}

async fn read(root: PathBuf) -> Result<Directory, String> {
    let read = tokio::task::spawn_blocking(move || Directory::read(&root)).await;
    read.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
}

/// Brings a tree to this machine: a directory that is there, or a repository.
pub trait TreeOrigin: Send + Sync {
    /// Only whole trees. An error leaves the one before in its place.
    fn checkout(&self) -> BoxFuture<'_, Result<Checkout, String>>;
    /// The same, read. A simulator has its trees in memory.
    fn read(&self) -> BoxFuture<'_, Result<OriginTree, String>> {
        Box::pin(async move { OriginTree::read(self.checkout().await?).await })
    }
    /// Somebody asks for what is there now: the next look takes nothing that was fetched before. `allow_empty`: what is
    /// empty all at once is meant to be.
    fn look_anew(&self, _allow_empty: bool) {}
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
    pub origin: OriginTree,
    pub root: ContentHash,
    /// The root without what lies over it.
    pub own: ContentHash,
    pub source: String,
    /// An operator brought it.
    pub uploaded: bool,
    /// Directories that lie over it and hold nothing.
    pub silent: Vec<String>,
}

impl Ready {
    pub async fn of(source: &Source) -> Result<Ready, String> {
        let origin = source.origin.read().await?;
        let root = Pages::of(&origin.tree).map_err(|error| error.to_string())?.root;
        let ready = Ready {
            published: source.published,
            origin,
            own: root.clone(),
            root,
            source: source.origin.words(),
            uploaded: false,
            silent: Vec::new(),
        };
        source.lay_over(ready).await
    }

    pub fn uploaded(published: Published, directory: Directory, source: String) -> Result<Ready, Error> {
        let root = Pages::of(&directory.tree)?.root;
        Ok(Ready {
            published,
            origin: OriginTree::of(directory, String::new()),
            own: root.clone(),
            root,
            source,
            uploaded: true,
            silent: Vec::new(),
        })
    }

    /// Whether there is nothing in it that a reader could use: it must not pass for a tree that replaces one (D-2). What lies over
    /// settings does not stand for those that it lies over.
    pub fn holds_nothing(&self, before: Option<&Tree>) -> bool {
        let holds = |tree: &Tree| usable::holds_anything(self.published, tree);
        let lies_over = self.tree().files.keys().any(usable::lies_over);
        !holds(self.tree()) && (!lies_over || before.is_some_and(holds))
    }

    /// A directory that lies over it and holds nothing, where something of it is published: who was never asked, or lost
    /// what was known, says nothing.
    pub fn fell_silent(&self, before: &Tree) -> Option<&str> {
        let published = |name: &str| {
            let mut paths = before.files.keys();
            paths.any(|path| path.as_str().strip_prefix(name).is_some_and(|rest| rest.starts_with('/')))
        };
        self.silent.iter().map(String::as_str).find(|name| published(name))
    }

    pub fn tree(&self) -> &Tree {
        &self.origin.tree
    }
}
