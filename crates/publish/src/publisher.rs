//! The side of the master: content, list, revision, notice, clean-up, in this order and never another.

use crate::error::Error;
use crate::garbage::{expired, garbage};
use crate::limits::{IN_FLIGHT, MANIFESTS_KEPT, PART_BYTES, SWEEP_MAX, TRIES};
use crate::manifest::{Pages, tree_of};
use crate::reader::{Work, pages_of};
use crate::tree::{Tree, TreeFile, TreePath};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::pin::Pin;
use zester_bus::{Bytes, Entry, Kind, Sequence};
use zester_link::{Link, Standing};
use zester_wire::published::notice_token;
use zester_wire::{
    Bucket, ContentHash, Key, Manifest, MasterId, Message, Notice, Published, Revision, Subject, UnixMillis,
    VERSION,
};

/// Every key of a bucket.
const ALL: &str = ">";

pub type Reading<'a> = Pin<Box<dyn Future<Output = Result<Vec<u8>, Error>> + Send + 'a>>;

/// How many contents were moved, and their bytes.
type Transfer<'a> = Pin<Box<dyn Future<Output = Result<(usize, u64), Error>> + Send + 'a>>;

/// Where the publisher reads the files of a tree.
pub trait Content: Send + Sync {
    fn read<'a>(&'a self, path: &'a TreePath) -> Reading<'a>;
}

/// Whether this master may publish: it holds the lease.
pub trait Fence: Send + Sync {
    fn holds(&self) -> bool;
}

/// What a manifest says beside its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub master: MasterId,
    /// Empty where nobody asked.
    pub user: String,
    /// A directory, or a repository.
    pub source: String,
    pub commit: String,
    /// An empty tree may replace one that is not (D-2).
    pub allow_empty: bool,
    /// It is an operator's own tree.
    pub uploaded: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Published {
        revision: u64,
        /// Contents that were moved, the list of files included, and their bytes.
        moved: usize,
        bytes: u64,
    },
    /// The tree was published already.
    Unchanged { revision: u64 },
    /// There is nothing to publish, and never was.
    Nothing,
}

pub struct Publisher<'a> {
    pub link: &'a Link,
    pub published: Published,
    pub fence: &'a dyn Fence,
}

/// What stands in the bucket, as its leader has it.
struct Head {
    revision: Option<Standing<Revision>>,
    manifest: Option<Standing<Manifest>>,
    /// Contents that are there.
    present: BTreeSet<ContentHash>,
    /// Revisions whose manifest is kept.
    kept: Vec<u64>,
}

impl Head {
    /// The revision that counts. What stands there in its place, and counts for nobody, is written over.
    fn named(&self) -> Option<&Revision> {
        self.revision.as_ref().and_then(Standing::record)
    }

    fn newest(&self) -> Option<&Manifest> {
        self.manifest.as_ref().and_then(Standing::record)
    }

    /// Numbers are never used twice, also where a publisher died with one that never came to count.
    fn next_revision(&self) -> u64 {
        let named = self.named().map(|named| named.revision).into_iter();
        let newest = self.newest().map(|manifest| manifest.revision).into_iter();
        named.chain(newest).chain(self.kept.iter().copied()).max().unwrap_or(0).saturating_add(1)
    }
}

/// A tree with its pages, and how its contents are had.
struct Wanted<'a> {
    tree: &'a Tree,
    pages: Pages,
    content: &'a dyn Content,
    rollback_of: Option<u64>,
}

impl Publisher<'_> {
    /// Publishes a tree. When this returns an error, the tree before counts, or the new one does; never anything between.
    pub async fn publish(&self, tree: &Tree, content: &dyn Content, about: &About) -> Result<Outcome, Error> {
        if let Some(path) = tree.clash() {
            return Err(Error::Torn(format!("{path} is a file and a directory")));
        }
        let wanted = Wanted { tree, pages: Pages::of(tree)?, content, rollback_of: None };
        self.publish_wanted(&wanted, about).await
    }

    /// Publishes the tree of an earlier revision as a new one (D-12).
    pub async fn roll_back(&self, revision: u64, about: &About) -> Result<Outcome, Error> {
        let (manifest, tree) = self.revision(revision).await?;
        let pages = Pages::of(&tree)?;
        let wanted = Wanted { tree: &tree, pages, content: &InTheBucket, rollback_of: Some(revision) };
        let about = About {
            source: manifest.source,
            commit: manifest.commit,
            allow_empty: true,
            uploaded: false,
            ..about.clone()
        };
        self.publish_wanted(&wanted, &about).await
    }

    /// The revision that counts, with its files. None where nothing was ever published.
    pub async fn current(&self) -> Result<Option<(Manifest, Tree)>, Error> {
        let Some(named) = self.link.get_latest::<Revision>(&Key::Revision(self.published)).await? else {
            return Ok(None);
        };
        let manifest = self.counting(named.value.revision).await?;
        let tree = self.tree_of(&manifest).await?;
        Ok(Some((manifest, tree)))
    }

    /// The manifest of the revision that counts: the one that is kept, or the newest where that is the same.
    async fn counting(&self, revision: u64) -> Result<Manifest, Error> {
        for key in [Key::ManifestOf(self.published, revision), Key::Manifest(self.published)] {
            let found = self.link.get_latest::<Manifest>(&key).await?;
            if let Some(found) = found.filter(|found| found.value.revision == revision) {
                return Ok(found.value);
            }
        }
        Err(Error::Torn(format!("revision {revision} has no manifest")))
    }

    /// The list of the revision that counts, without its files. None where nothing was ever published.
    pub async fn manifest(&self) -> Result<Option<Manifest>, Error> {
        let Some(named) = self.link.get_latest::<Revision>(&Key::Revision(self.published)).await? else {
            return Ok(None);
        };
        self.counting(named.value.revision).await.map(Some)
    }

    /// A revision that is kept, with its files.
    pub async fn revision(&self, revision: u64) -> Result<(Manifest, Tree), Error> {
        let key = Key::ManifestOf(self.published, revision);
        let found = self.link.get_latest::<Manifest>(&key).await?;
        let manifest = found.ok_or(Error::NoSuchRevision(revision))?.value;
        let tree = self.tree_of(&manifest).await?;
        Ok((manifest, tree))
    }

    async fn publish_wanted(&self, wanted: &Wanted<'_>, about: &About) -> Result<Outcome, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            match self.attempt(wanted, about).await {
                // Another wrote meanwhile; whoever still holds the lease looks what stands there now.
                Err(Error::Superseded) if self.fence.holds() && tries < TRIES => {}
                result => return result,
            }
        }
    }

    async fn attempt(&self, wanted: &Wanted<'_>, about: &About) -> Result<Outcome, Error> {
        let head = self.head().await?;
        let before = match head.newest() {
            Some(manifest) => self.tree_of(manifest).await.ok(),
            None => None,
        };
        if wanted.tree.is_empty() && !about.allow_empty {
            let empty = before.as_ref().is_none_or(Tree::is_empty) && head.revision.is_none();
            return if empty { Ok(Outcome::Nothing) } else { Err(Error::Empty) };
        }
        let (moved, bytes) = self.upload(wanted, &head, before.as_ref()).await?;
        if let Some(named) = head.named().filter(|named| named.root == wanted.pages.root) {
            return Ok(Outcome::Unchanged { revision: named.revision });
        }
        let revision = self.name(wanted, about, &head).await?;
        self.tell(revision).await;
        if let Err(error) = self.clean().await {
            tracing::debug!("old {} could not be removed: {error}", self.published.as_str());
        }
        Ok(Outcome::Published { revision, moved, bytes })
    }

    fn bucket(&self) -> &'static str {
        Bucket::of_published(self.published).as_str()
    }

    fn held(&self) -> Result<(), Error> {
        if self.fence.holds() { Ok(()) } else { Err(Error::Superseded) }
    }

    async fn head(&self) -> Result<Head, Error> {
        let revision = self.link.get_standing(&Key::Revision(self.published)).await?;
        let manifest = self.link.get_standing(&Key::Manifest(self.published)).await?;
        let (mut present, mut kept) = (BTreeSet::new(), Vec::new());
        for key in self.link.bus().keys(self.bucket(), ALL).await? {
            match Key::parse(Bucket::of_published(self.published), &key) {
                Ok(Key::Content(_, hash)) => {
                    present.insert(hash);
                }
                Ok(Key::ManifestOf(_, number)) => kept.push(number),
                _ => {}
            }
        }
        Ok(Head { revision, manifest, present, kept })
    }

    async fn tree_of(&self, manifest: &Manifest) -> Result<Tree, Error> {
        tree_of(manifest, &pages_of(self.link, self.published, manifest).await?)
    }

    /// Brings all contents into the bucket, and gives back how many were moved. What an earlier tree lists is there for sure;
    /// anything else is written again, because whoever published before may just be removing it.
    async fn upload(
        &self,
        wanted: &Wanted<'_>,
        head: &Head,
        before: Option<&Tree>,
    ) -> Result<(usize, u64), Error> {
        let mut listed: BTreeSet<&ContentHash> = before.iter().flat_map(|tree| tree.contents()).collect();
        listed.extend(head.newest().iter().flat_map(|manifest| &manifest.pages));
        if wanted.rollback_of.is_some() {
            listed.extend(wanted.tree.contents().chain(&wanted.pages.order));
        }
        let is_there = |hash: &ContentHash| head.present.contains(hash) && listed.contains(hash);
        let mut seen = BTreeSet::new();
        // Boxed one by one: a stream of closures that borrow would not be `Send`.
        let mut transfers: Vec<Transfer<'_>> = Vec::new();
        for (path, file) in &wanted.tree.files {
            let lacking: BTreeSet<&ContentHash> =
                file.contents().iter().filter(|hash| !is_there(hash)).collect();
            if !lacking.is_empty() && seen.insert(&file.hash) {
                transfers.push(Box::pin(self.put_file(wanted.content, path, file, lacking)));
            }
        }
        for (hash, page) in &wanted.pages.bytes {
            if !is_there(hash) {
                transfers.push(Box::pin(self.put(hash, page)));
            }
        }
        let sum =
            |(count, bytes), (more, large): (usize, u64)| async move { Ok((count + more, bytes + large)) };
        stream::iter(transfers).buffer_unordered(IN_FLIGHT).try_fold((0, 0), sum).await
    }

    /// The parts of a file that are lacking, if it still is what was listed.
    async fn put_file(
        &self,
        content: &dyn Content,
        path: &TreePath,
        file: &TreeFile,
        lacking: BTreeSet<&ContentHash>,
    ) -> Result<(usize, u64), Error> {
        let content = content.read(path).await?;
        if !file.hash.is_of(&content) {
            return Err(Error::Changed(path.clone()));
        }
        let (mut count, mut bytes) = (0, 0);
        for (hash, part) in parts(&content, file) {
            if lacking.contains(hash) {
                let moved = self.put(hash, part).await?;
                (count, bytes) = (count + moved.0, bytes + moved.1);
            }
        }
        Ok((count, bytes))
    }

    async fn put(&self, hash: &ContentHash, content: &[u8]) -> Result<(usize, u64), Error> {
        self.held()?;
        self.link.bus().put(self.bucket(), hash.as_str(), Bytes::copy_from_slice(content)).await?;
        Ok((1, content.len() as u64))
    }

    /// Lists the tree under a new number, and lets it count.
    async fn name(&self, wanted: &Wanted<'_>, about: &About, head: &Head) -> Result<u64, Error> {
        let revision = head.next_revision();
        let manifest = Manifest {
            v: VERSION,
            revision,
            root: wanted.pages.root.clone(),
            pages: wanted.pages.order.clone(),
            files: wanted.tree.files.len() as u64,
            bytes: wanted.tree.bytes(),
            published: self.link.now(),
            master: about.master.clone(),
            user: about.user.clone(),
            source: about.source.clone(),
            commit: about.commit.clone(),
            rollback_of: wanted.rollback_of,
            uploaded: about.uploaded,
        };
        let kept = Key::ManifestOf(self.published, revision);
        self.compare_and_write(&kept, &manifest, None).await?;
        let newest = head.manifest.as_ref().map(|found| found.revision);
        self.compare_and_write(&Key::Manifest(self.published), &manifest, newest).await?;
        let named = Revision { v: VERSION, revision, root: wanted.pages.root.clone() };
        let before = head.revision.as_ref().map(|found| found.revision);
        match self.compare_and_write(&Key::Revision(self.published), &named, before).await {
            // Nobody knows whether it was written, unless it can be read.
            Err(Error::Bus(error)) => {
                let there = self.link.get_latest::<Revision>(&Key::Revision(self.published)).await?;
                let written = there.is_some_and(|found| found.value == named);
                if written { Ok(revision) } else { Err(Error::Bus(error)) }
            }
            result => result.map(|()| revision),
        }
    }

    /// Only if nobody wrote since it was read. The lease fences; comparing fences whoever overslept it.
    async fn compare_and_write<T: Message>(
        &self,
        key: &Key,
        value: &T,
        expected: Option<Sequence>,
    ) -> Result<(), Error> {
        self.held()?;
        let written = match expected {
            Some(expected) => self.link.update(key, value, expected).await,
            None => self.link.create(key, value).await,
        };
        match written {
            Ok(_) => Ok(()),
            Err(error) if error.is_conflict() => Err(Error::Superseded),
            Err(error) => Err(error.into()),
        }
    }

    /// A hint: whoever does not hear it looks by itself, a little later.
    async fn tell(&self, revision: u64) {
        let Ok(bucket) = notice_token(self.published) else { return };
        let notice = Notice { v: VERSION, bucket: bucket.clone(), revision };
        if let Err(error) = self.link.publish(&Subject::Notify { what: bucket }, &notice).await {
            tracing::debug!("the notice of revision {revision} was not sent: {error}");
        }
    }

    /// Removes revisions that are too old to be kept, with what only they list. What nobody lists may be on its way here;
    /// [`Publisher::sweep`] removes that once it is old. Where a kept revision cannot be read, nothing is removed.
    async fn clean(&self) -> Result<(), Error> {
        let head = self.head().await?;
        let (Some(standing), Some(named)) = (&head.revision, head.named()) else { return Ok(()) };
        let (named_at, newest) = (standing.revision, named.revision);
        let old = expired(&head.kept, newest, MANIFESTS_KEPT);
        let kept: Vec<u64> = head.kept.iter().copied().filter(|number| !old.contains(number)).collect();
        let listed = self.listed(&kept).await?;
        for number in old {
            // Of one that is not whole the contents stay until they are swept.
            let mut gone = self.listed(&[number]).await.unwrap_or_default();
            gone.retain(|hash| head.present.contains(hash));
            self.held()?;
            self.link.purge(&Key::ManifestOf(self.published, number)).await?;
            for hash in garbage(&gone, &listed) {
                // What came after the revision that counts is of somebody who publishes it once more and has not listed it yet.
                // Whoever brought it before that finds another revision when it comes to count, and brings it again.
                self.purge_if(hash, |entry| entry.revision < named_at).await?;
            }
        }
        Ok(())
    }

    /// Removes contents that no kept revision lists and that were stored before a time of the server's: what was brought and
    /// never published. Says whether there are more of them, younger or too many for one time. One that somebody brings again
    /// meanwhile stays.
    pub async fn sweep(&self, before: UnixMillis) -> Result<bool, Error> {
        let head = self.head().await?;
        let listed = self.listed(&head.kept).await?;
        let mut sweeps: Vec<Work<'_, bool>> = Vec::new();
        for hash in garbage(&head.present, &listed).take(SWEEP_MAX) {
            sweeps.push(Box::pin(self.purge_if(hash, move |entry| entry.at < before.0)));
        }
        let more = garbage(&head.present, &listed).nth(SWEEP_MAX).is_some();
        let either = |more: bool, stays: bool| async move { Ok(more || stays) };
        stream::iter(sweeps).buffer_unordered(IN_FLIGHT).try_fold(more, either).await
    }

    /// Removes a content if it is old, and still is what was looked at. Whether it stays.
    async fn purge_if(
        &self,
        hash: &ContentHash,
        is_old: impl Fn(&Entry) -> bool + Send,
    ) -> Result<bool, Error> {
        let Some(entry) = self.link.bus().get(self.bucket(), hash.as_str()).await? else { return Ok(false) };
        if !is_old(&entry) {
            return Ok(true);
        }
        self.held()?;
        match self.link.bus().purge(self.bucket(), hash.as_str(), Some(entry.revision)).await {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == Kind::Conflict => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// All contents of these revisions.
    async fn listed(&self, revisions: &[u64]) -> Result<BTreeSet<ContentHash>, Error> {
        let mut listed = BTreeSet::new();
        for number in revisions {
            let key = Key::ManifestOf(self.published, *number);
            let standing = self.link.get_standing::<Manifest>(&key).await?;
            // One that counts for nobody comes back for nobody.
            let Some(manifest) = standing.and_then(|standing| standing.value.ok()) else { continue };
            listed.extend(self.tree_of(&manifest).await?.contents().cloned());
            listed.extend(manifest.pages);
        }
        Ok(listed)
    }
}

/// The contents that a file is stored as.
fn parts<'a>(content: &'a [u8], file: &'a TreeFile) -> Vec<(&'a ContentHash, &'a [u8])> {
    match file.parts.is_empty() {
        true => vec![(&file.hash, content)],
        false => file.parts.iter().zip(content.chunks(PART_BYTES)).collect(),
    }
}

/// A tree of an earlier revision: nothing is read, because everything is there.
struct InTheBucket;

impl Content for InTheBucket {
    fn read<'a>(&'a self, path: &'a TreePath) -> Reading<'a> {
        Box::pin(async move { Err(Error::Torn(format!("{path} of that revision is not there any more"))) })
    }
}

/// The content of some files in memory.
impl Content for BTreeMap<TreePath, Vec<u8>> {
    fn read<'a>(&'a self, path: &'a TreePath) -> Reading<'a> {
        Box::pin(async move { self.get(path).cloned().ok_or_else(|| Error::Changed(path.clone())) })
    }
}
