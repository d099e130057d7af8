//! A published tree on disk (D-4).
//!
//! ```text
//! <live>                    a link to the tree that counts; replaced by renaming another link over it
//! <live>.trees/<root>/…     one directory a tree; never changed once its link stood
//! <live>.trees/<root>.json  what is known of it
//! <live>.trees/parts/       contents that were fetched for the next one
//! ```
//!
//! A run reads the real path behind the link once and holds a pin on it, so that no swap under it changes anything for it
//! (D-13). Trees that nobody counts on any more and nobody holds are removed at the next swap.

use super::beneath::Beneath;
use super::disk::{DiskEntry, TreeDisk};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_bus::Bytes;
use zester_publish::{Cache, Error, Tree, TreeFile};
use zester_wire::{ContentHash, Manifest, PublishedFile, Revision};

pub struct DiskCache(Arc<Inner>);

struct Inner {
    disk: Arc<dyn TreeDisk>,
    live: PathBuf,
    trees: PathBuf,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    record: Option<Record>,
    /// How many hold each tree.
    pins: BTreeMap<ContentHash, usize>,
}

/// What is known of a tree on disk.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Record {
    revision: Revision,
    #[serde(default)]
    commit: String,
    files: Vec<PublishedFile>,
}

/// The tree that one run sees from its beginning to its end.
pub struct Pinned {
    inner: Arc<Inner>,
    root: ContentHash,
    pub path: PathBuf,
    pub revision: u64,
    pub commit: String,
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let mut held = self.inner.lock();
        if let Some(count) = held.pins.get_mut(&self.root) {
            *count -= 1;
            if *count == 0 {
                held.pins.remove(&self.root);
            }
        }
    }
}

impl DiskCache {
    /// Opens what an earlier life left. Blocks.
    pub fn open(live: &Path) -> Result<DiskCache, Error> {
        let base = live.parent().unwrap_or(Path::new(""));
        let disk = Beneath::open(base).map_err(|error| failed("hold", base, &error))?;
        DiskCache::open_on(Arc::new(disk), live)
    }

    /// The same on another disk.
    pub fn open_on(disk: Arc<dyn TreeDisk>, live: &Path) -> Result<DiskCache, Error> {
        let name = live.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let trees = live.with_file_name(format!("{name}.trees"));
        let parts = trees.join("parts");
        disk.make_dirs(&parts).map_err(|error| failed("create", &parts, &error))?;
        let inner = Inner { disk, live: live.into(), trees, held: Mutex::default() };
        let record = inner.find();
        inner.lock().record = record;
        Ok(DiskCache(Arc::new(inner)))
    }

    /// Holds the tree that counts now. None where there is none.
    pub fn pin(&self) -> Option<Pinned> {
        let mut held = self.0.lock();
        let record = held.record.clone()?;
        let root = record.revision.root;
        let path = self.0.trees.join(root.as_str());
        if !self.0.is_dir(&path) {
            return None;
        }
        *held.pins.entry(root.clone()).or_default() += 1;
        let revision = record.revision.revision;
        Some(Pinned { inner: self.0.clone(), root, path, revision, commit: record.commit })
    }

    pub fn live(&self) -> &Path {
        &self.0.live
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        if !self.0.disk.blocks() {
            return work(&self.0);
        }
        let inner = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| Err(Error::Disk(format!("the cache of files: {error}"))))
    }
}

impl Cache for DiskCache {
    /// A tree that somebody removed is not here, whatever was known of it: the next look brings it back.
    fn current(&self) -> Option<Revision> {
        let revision = self.0.lock().record.as_ref().map(|record| record.revision.clone())?;
        self.0.is_dir(&self.0.tree_dir(&revision.root)).then_some(revision)
    }

    fn lacks<'a>(&'a self, tree: &'a Tree) -> Done<'a, Vec<ContentHash>> {
        let tree = tree.clone();
        Box::pin(self.blocking(move |inner| Ok(inner.lacks(&tree))))
    }

    fn keep<'a>(&'a self, hash: &'a ContentHash, content: Bytes) -> Done<'a, ()> {
        let hash = hash.clone();
        Box::pin(self.blocking(move |inner| {
            let part = inner.part(&hash);
            inner.disk.write(&part, &content, 0o600).map_err(|error| failed("write", &part, &error))
        }))
    }

    fn swap<'a>(&'a self, revision: &'a Revision, manifest: &'a Manifest, tree: &'a Tree) -> Done<'a, ()> {
        let (revision, commit, tree) = (revision.clone(), manifest.commit.clone(), tree.clone());
        Box::pin(self.blocking(move |inner| inner.swap(revision, commit, &tree)))
    }
}

type Done<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

impl Inner {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_dir(&self, path: &Path) -> bool {
        self.disk.entry(path) == Some(DiskEntry::Directory)
    }

    fn part(&self, hash: &ContentHash) -> PathBuf {
        self.trees.join("parts").join(hash.as_str())
    }

    fn tree_dir(&self, root: &ContentHash) -> PathBuf {
        self.trees.join(root.as_str())
    }

    fn record_file(&self, root: &ContentHash) -> PathBuf {
        self.trees.join(format!("{root}.json"))
    }

    /// What the link leads to, if it is a tree of ours.
    fn find(&self) -> Option<Record> {
        let target = self.disk.read_link(&self.live).ok()?;
        let root = ContentHash::parse(target.file_name()?.to_str()?).ok()?;
        if target != self.tree_dir(&root) || !self.is_dir(&target) {
            return None;
        }
        let record: Record = serde_json::from_slice(&self.disk.read(&self.record_file(&root)).ok()?).ok()?;
        (record.revision.root == root).then_some(record)
    }

    /// The files of the tree before, by hash, as far as they are still what they were.
    fn held_files(&self) -> BTreeMap<ContentHash, PathBuf> {
        let Some(record) = self.lock().record.clone() else { return BTreeMap::new() };
        let dir = self.tree_dir(&record.revision.root);
        let intact = |file: &PublishedFile| {
            let path = dir.join(&file.path);
            let content = self.disk.read(&path).ok()?;
            self.disk.is_intact(&file.hash, &content).then(|| (file.hash.clone(), path))
        };
        record.files.iter().filter_map(intact).collect()
    }

    fn lacks(&self, tree: &Tree) -> Vec<ContentHash> {
        let held = self.held_files();
        let lacking = tree.files.values().filter(|file| !held.contains_key(&file.hash));
        let parts = lacking.flat_map(|file| file.contents()).collect::<BTreeSet<_>>();
        let here = |hash: &ContentHash| {
            self.disk.read(&self.part(hash)).is_ok_and(|content| self.disk.is_intact(hash, &content))
        };
        parts.into_iter().filter(|hash| !here(hash)).cloned().collect()
    }

    fn swap(&self, revision: Revision, commit: String, tree: &Tree) -> Result<(), Error> {
        let target = self.tree_dir(&revision.root);
        if !self.is_dir(&target) {
            self.build(tree, &target)?;
        }
        let files = tree.files.iter().map(|(path, file)| PublishedFile {
            path: path.to_string(),
            hash: file.hash.clone(),
            size: file.size,
            mode: file.mode,
            parts: file.parts.clone(),
        });
        let record = Record { revision, commit, files: files.collect() };
        let file = self.record_file(&record.revision.root);
        let text = serde_json::to_vec(&record).map_err(|error| Error::Disk(error.to_string()))?;
        self.disk.write(&file, &text, 0o600).map_err(|error| failed("write", &file, &error))?;
        self.point_to(&target)?;
        self.lock().record = Some(record);
        self.sweep();
        Ok(())
    }

    /// Makes the tree under another name, and gives it its own when all of it is on disk.
    fn build(&self, tree: &Tree, target: &Path) -> Result<(), Error> {
        let staging = self.trees.join("staging");
        self.disk.remove(&staging).map_err(|error| failed("clear", &staging, &error))?;
        self.make_dirs(&staging)?;
        let held = self.held_files();
        for (path, file) in &tree.files {
            let to = staging.join(path.as_str());
            if let Some(parent) = to.parent() {
                self.make_dirs(parent)?;
            }
            let content = match held.get(&file.hash) {
                Some(from) => self.disk.read(from).map_err(|error| failed("read", from, &error))?,
                None => self.assembled(file)?,
            };
            if !self.disk.is_intact(&file.hash, &content) {
                return Err(Error::Torn(format!("{path} is not what the manifest lists")));
            }
            // The owner may read it whatever it was published with.
            let mode = (file.mode & 0o700) | 0o600;
            self.disk.write(&to, &content, mode).map_err(|error| failed("write", &to, &error))?;
        }
        self.disk.rename(&staging, target).map_err(|error| failed("put in place", target, &error))?;
        self.sync_dir(&self.trees)
    }

    fn make_dirs(&self, path: &Path) -> Result<(), Error> {
        self.disk.make_dirs(path).map_err(|error| failed("create", path, &error))
    }

    fn sync_dir(&self, path: &Path) -> Result<(), Error> {
        self.disk.sync_dir(path).map_err(|error| failed("sync", path, &error))
    }

    fn assembled(&self, file: &TreeFile) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        for hash in file.contents() {
            let part = self.part(hash);
            whole.extend(self.disk.read(&part).map_err(|error| failed("read", &part, &error))?);
        }
        Ok(whole)
    }

    /// One rename: whoever opens the live path sees the tree before, or this one.
    fn point_to(&self, target: &Path) -> Result<(), Error> {
        let next = self.trees.join("next");
        self.disk.remove(&next).map_err(|error| failed("clear", &next, &error))?;
        self.disk.link(target, &next).map_err(|error| failed("create", &next, &error))?;
        if self.is_dir(&self.live) {
            // A directory that somebody filled by hand is put aside, never removed.
            let aside = self.trees.join("replaced");
            if self.disk.entry(&aside).is_some() {
                return Err(Error::Disk(format!(
                    "{} is a directory of its own, and so is {}",
                    self.live.display(),
                    aside.display()
                )));
            }
            self.disk.rename(&self.live, &aside).map_err(|error| failed("put aside", &self.live, &error))?;
            tracing::warn!(
                "{} held files that were not published; they are now in {}",
                self.live.display(),
                aside.display()
            );
        }
        self.disk.rename(&next, &self.live).map_err(|error| failed("put in place", &self.live, &error))?;
        self.live.parent().map_or(Ok(()), |above| self.sync_dir(above))
    }

    /// Removes what nobody needs. Best effort: the next swap finds it again.
    fn sweep(&self) {
        let held = self.lock();
        let current = held.record.as_ref().map(|record| record.revision.root.clone());
        for name in self.disk.list(&self.trees).unwrap_or_default() {
            let Ok(root) = ContentHash::parse(name.strip_suffix(".json").unwrap_or(&name)) else { continue };
            if Some(&root) == current.as_ref() || held.pins.contains_key(&root) {
                continue;
            }
            let path = self.trees.join(name);
            if let Err(error) = self.disk.remove(&path) {
                tracing::debug!("{} stays: {error}", path.display());
            }
        }
        let parts = self.trees.join("parts");
        for part in self.disk.list(&parts).unwrap_or_default() {
            let _stays_until_the_next = self.disk.remove(&parts.join(part));
        }
    }
}

fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Disk(format!("cannot {doing} {}: {error}", path.display()))
}
