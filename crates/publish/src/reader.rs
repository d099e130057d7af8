//! The side of the peel: what counts, what it lacks of that, and whether all of it is what was listed.

use crate::error::Error;
use crate::limits::IN_FLIGHT;
use crate::manifest::tree_of;
use crate::tree::Tree;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::pin::Pin;
use zester_bus::Bytes;
use zester_link::Link;
use zester_wire::{Bucket, ContentHash, Key, Manifest, Published, Revision};

pub type Work<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Where a reader keeps a tree. Whatever fails, the tree before stays whole (D-4).
pub trait Cache: Send + Sync {
    /// The revision that it holds.
    fn current(&self) -> Option<Revision>;
    /// Which contents of a tree it does not hold.
    fn lacks<'a>(&'a self, tree: &'a Tree) -> Work<'a, Vec<ContentHash>>;
    /// Puts a content aside. It has been verified.
    fn keep<'a>(&'a self, hash: &'a ContentHash, content: Bytes) -> Work<'a, ()>;
    /// Makes a tree from what it holds and lets it take the place of the one before, at once.
    fn swap<'a>(&'a self, revision: &'a Revision, manifest: &'a Manifest, tree: &'a Tree) -> Work<'a, ()>;
}

/// What a look came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing was ever published.
    Nothing,
    Unchanged,
    /// Another tree is in place.
    Now {
        revision: u64,
        files: usize,
        fetched: usize,
        bytes: u64,
    },
}

pub struct Reader<'a> {
    pub link: &'a Link,
    pub published: Published,
    pub cache: &'a dyn Cache,
}

impl Reader<'_> {
    /// Looks what counts, and makes the cache hold it.
    pub async fn look(&self) -> Result<Change, Error> {
        let Some(revision) = self.revision().await? else { return Ok(Change::Nothing) };
        if self.cache.current().as_ref() == Some(&revision) {
            return Ok(Change::Unchanged);
        }
        let manifest = self.manifest(&revision).await?;
        let tree = tree_of(&manifest, &pages_of(self.link, self.published, &manifest).await?)?;
        let lacking: BTreeSet<ContentHash> = self.cache.lacks(&tree).await?.into_iter().collect();
        let fetched = lacking.len();
        // Boxed one by one: a stream of closures that borrow would not be `Send`.
        let mut fetches: Vec<Work<'_, u64>> = Vec::new();
        for hash in &lacking {
            fetches.push(Box::pin(self.fetch(hash)));
        }
        let sum = |sum: u64, bytes: u64| async move { Ok(sum.saturating_add(bytes)) };
        let bytes = stream::iter(fetches).buffer_unordered(IN_FLIGHT).try_fold(0, sum).await?;
        self.cache.swap(&revision, &manifest, &tree).await?;
        Ok(Change::Now { revision: revision.revision, files: tree.files.len(), fetched, bytes })
    }

    async fn fetch(&self, hash: &ContentHash) -> Result<u64, Error> {
        let content = content_of(self.link, self.published, hash).await?;
        let bytes = content.len() as u64;
        self.cache.keep(hash, content).await.map(|()| bytes)
    }

    /// A replica that lags may name an older revision. Only the leader is believed that one is taken back, as where the
    /// bucket was made again.
    async fn revision(&self) -> Result<Option<Revision>, Error> {
        let key = Key::Revision(self.published);
        let found = self.link.get::<Revision>(&key).await?.map(|found| found.value);
        let held = self.cache.current().map_or(0, |held| held.revision);
        match found {
            Some(found) if found.revision >= held => Ok(Some(found)),
            _ if held == 0 => Ok(found),
            // Whoever shows an older one may be holding the newer one back (I-12); and a peel with an account of its own cannot ask
            // the leader.
            _ if self.link.trust().is_some() => {
                Err(Error::Older { found: found.map_or(0, |found| found.revision), held })
            }
            _ => Ok(self.link.get_latest::<Revision>(&key).await?.map(|found| found.value)),
        }
    }

    /// The list that the revision names; while the next is being published the newest one is another.
    async fn manifest(&self, revision: &Revision) -> Result<Manifest, Error> {
        let named =
            |manifest: &Manifest| manifest.revision == revision.revision && manifest.root == revision.root;
        for key in [Key::Manifest(self.published), Key::ManifestOf(self.published, revision.revision)] {
            if let Some(found) = self.link.get::<Manifest>(&key).await?
                && named(&found.value)
            {
                return Ok(found.value);
            }
        }
        Err(Error::Torn(format!("revision {} has no manifest", revision.revision)))
    }
}

/// The pages of a manifest, in order. Their hashes are checked by whoever reads them as a tree.
pub(crate) async fn pages_of(
    link: &Link,
    published: Published,
    manifest: &Manifest,
) -> Result<Vec<Vec<u8>>, Error> {
    pages_at(link, published, &manifest.pages).await
}

/// The same of pages that somebody names by their hashes.
pub(crate) async fn pages_at(
    link: &Link,
    published: Published,
    pages: &[ContentHash],
) -> Result<Vec<Vec<u8>>, Error> {
    let mut reads: Vec<Work<'_, Bytes>> = Vec::new();
    for hash in pages {
        reads.push(Box::pin(content_of(link, published, hash)));
    }
    let pages = stream::iter(reads).buffered(IN_FLIGHT);
    pages.map_ok(|page| page.to_vec()).try_collect().await
}

/// A content, verified.
pub(crate) async fn content_of(
    link: &Link,
    published: Published,
    hash: &ContentHash,
) -> Result<Bytes, Error> {
    let bucket = Bucket::of_published(published);
    let entry = link.bus().get(bucket.as_str(), hash.as_str()).await?;
    let content = entry.ok_or_else(|| Error::missing(hash))?.value;
    if hash.is_of(&content) { Ok(content) } else { Err(Error::tampered(hash)) }
}
