//! What was published before, for whoever wants to take it back.

use crate::error::Error;
use crate::manifest::tree_of;
use crate::reader::pages_of;
use crate::tree::{Tree, TreeDiff};
use zester_bus::Entry;
use zester_link::Link;
use zester_wire::{Bucket, Key, Manifest, Published, Revision};

/// The revisions that are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Newest first.
    pub manifests: Vec<Manifest>,
    /// Which of them counts.
    pub current: Option<u64>,
}

/// One of them, with what it changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PastRevision {
    pub manifest: Manifest,
    pub is_current: bool,
    /// Against the one before it; none where that is not kept, or cannot be read.
    pub changes: Option<TreeDiff>,
}

/// Reads it. What another wrote there that is no manifest is passed over.
pub async fn history(link: &Link, published: Published) -> Result<History, Error> {
    let mut manifests = Vec::new();
    let bucket = Bucket::of_published(published);
    let take =
        |entry: &Entry| manifests.extend(link.record::<Manifest>(bucket, entry).map(|found| found.value));
    link.each_entry(bucket, Key::ALL_MANIFESTS, take).await?;
    let current = link.get_latest::<Revision>(&Key::Revision(published)).await?;
    let current = current.map(|found| found.value.revision);
    // Above it stands what a publisher died with before it counted.
    manifests.retain(|manifest| Some(manifest.revision) <= current);
    manifests.sort_by_key(|manifest| std::cmp::Reverse(manifest.revision));
    Ok(History { manifests, current })
}

impl History {
    /// What each revision changed.
    pub async fn with_changes(self, link: &Link, published: Published) -> Vec<PastRevision> {
        let mut past = Vec::new();
        // Oldest first: each is compared with the one that was read before it.
        let mut before: Option<Tree> = None;
        for (at, manifest) in self.manifests.into_iter().rev().enumerate() {
            let tree = match pages_of(link, published, &manifest).await {
                Ok(pages) => tree_of(&manifest, &pages).ok(),
                Err(_) => None,
            };
            let first = at == 0 && manifest.revision == 1;
            let changes = match (&tree, &before) {
                (Some(tree), Some(before)) => Some(tree.since(before)),
                (Some(tree), None) if first => Some(tree.since(&Tree::default())),
                _ => None,
            };
            before = tree;
            let is_current = Some(manifest.revision) == self.current;
            past.push(PastRevision { manifest, is_current, changes });
        }
        past.reverse();
        past
    }
}
