//! What was published before, for whoever wants to take it back.

use crate::error::Error;
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

/// Reads it. What another wrote there that is no manifest is passed over.
pub async fn history(link: &Link, published: Published) -> Result<History, Error> {
    let mut manifests = Vec::new();
    let take = |entry: &Entry| manifests.extend(link.record::<Manifest>(entry).map(|found| found.value));
    link.each_entry(Bucket::of_published(published), Key::ALL_MANIFESTS, take).await?;
    let current = link.get_latest::<Revision>(&Key::Revision(published)).await?;
    let current = current.map(|found| found.value.revision);
    // Above it stands what a publisher died with before it counted.
    manifests.retain(|manifest| Some(manifest.revision) <= current);
    manifests.sort_by_key(|manifest| std::cmp::Reverse(manifest.revision));
    Ok(History { manifests, current })
}
