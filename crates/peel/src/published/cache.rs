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

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_bus::Bytes;
use zester_publish::{Cache, Error, Tree, TreeFile};
use zester_wire::{ContentHash, Manifest, PublishedFile, Revision};

/// Only its owner looks into a cache: state files may hold what is not for everybody.
const DIR_MODE: u32 = 0o700;

pub struct DiskCache(Arc<Inner>);

struct Inner {
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
        let name = live.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let trees = live.with_file_name(format!("{name}.trees"));
        let parts = trees.join("parts");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(DIR_MODE)
            .create(&parts)
            .map_err(|error| failed("create", &parts, &error))?;
        let inner = Inner { live: live.into(), trees, held: Mutex::default() };
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
        if !path.is_dir() {
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
        let inner = self.0.clone();
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.unwrap_or_else(|error| Err(Error::Disk(format!("the cache of files: {error}"))))
    }
}

impl Cache for DiskCache {
    fn current(&self) -> Option<Revision> {
        self.0.lock().record.as_ref().map(|record| record.revision.clone())
    }

    fn lacks<'a>(&'a self, tree: &'a Tree) -> Done<'a, Vec<ContentHash>> {
        let tree = tree.clone();
        Box::pin(self.blocking(move |inner| Ok(inner.lacks(&tree))))
    }

    fn keep<'a>(&'a self, hash: &'a ContentHash, content: Bytes) -> Done<'a, ()> {
        let hash = hash.clone();
        Box::pin(self.blocking(move |inner| {
            write_new(&inner.part(&hash), &content, 0o600)
                .map_err(|error| failed("write", &inner.part(&hash), &error))
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
        let target = std::fs::read_link(&self.live).ok()?;
        let root = ContentHash::parse(target.file_name()?.to_str()?).ok()?;
        if target != self.tree_dir(&root) || !target.is_dir() {
            return None;
        }
        let record: Record = serde_json::from_slice(&std::fs::read(self.record_file(&root)).ok()?).ok()?;
        (record.revision.root == root).then_some(record)
    }

    /// The files of the tree before, by hash, as far as they are still what they were.
    fn held_files(&self) -> BTreeMap<ContentHash, PathBuf> {
        let Some(record) = self.lock().record.clone() else { return BTreeMap::new() };
        let dir = self.tree_dir(&record.revision.root);
        let intact = |file: &PublishedFile| {
            let path = dir.join(&file.path);
            let content = std::fs::read(&path).ok()?;
            file.hash.is_of(&content).then(|| (file.hash.clone(), path))
        };
        record.files.iter().filter_map(intact).collect()
    }

    fn lacks(&self, tree: &Tree) -> Vec<ContentHash> {
        let held = self.held_files();
        let lacking = tree.files.values().filter(|file| !held.contains_key(&file.hash));
        let parts = lacking.flat_map(|file| file.contents()).collect::<BTreeSet<_>>();
        let here =
            |hash: &ContentHash| std::fs::read(self.part(hash)).is_ok_and(|content| hash.is_of(&content));
        parts.into_iter().filter(|hash| !here(hash)).cloned().collect()
    }

    fn swap(&self, revision: Revision, commit: String, tree: &Tree) -> Result<(), Error> {
        let target = self.tree_dir(&revision.root);
        if !target.is_dir() {
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
        write_new(&file, &text, 0o600).map_err(|error| failed("write", &file, &error))?;
        self.point_to(&target)?;
        self.lock().record = Some(record);
        self.sweep();
        Ok(())
    }

    /// Makes the tree under another name, and gives it its own when all of it is on disk.
    fn build(&self, tree: &Tree, target: &Path) -> Result<(), Error> {
        let staging = self.trees.join("staging");
        let cleared = std::fs::remove_dir_all(&staging);
        if let Err(error) = cleared
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(failed("clear", &staging, &error));
        }
        make_dirs(&staging)?;
        let held = self.held_files();
        for (path, file) in &tree.files {
            let to = staging.join(path.as_str());
            if let Some(parent) = to.parent() {
                make_dirs(parent)?;
            }
            let content = match held.get(&file.hash) {
                Some(from) => std::fs::read(from).map_err(|error| failed("read", from, &error))?,
                None => self.assembled(file)?,
            };
            if !file.hash.is_of(&content) {
                return Err(Error::Torn(format!("{path} is not what the manifest lists")));
            }
            // The owner may read it whatever it was published with.
            let mode = (file.mode & 0o700) | 0o600;
            write_new(&to, &content, mode).map_err(|error| failed("write", &to, &error))?;
        }
        std::fs::rename(&staging, target).map_err(|error| failed("put in place", target, &error))?;
        sync_dir(&self.trees)
    }

    fn assembled(&self, file: &TreeFile) -> Result<Vec<u8>, Error> {
        let mut whole = Vec::new();
        for hash in file.contents() {
            let part = self.part(hash);
            whole.extend(std::fs::read(&part).map_err(|error| failed("read", &part, &error))?);
        }
        Ok(whole)
    }

    /// One rename: whoever opens the live path sees the tree before, or this one.
    fn point_to(&self, target: &Path) -> Result<(), Error> {
        let next = self.trees.join("next");
        match std::fs::remove_file(&next) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed("clear", &next, &error));
            }
            _ => {}
        }
        symlink(target, &next).map_err(|error| failed("create", &next, &error))?;
        let found = std::fs::symlink_metadata(&self.live);
        if found.is_ok_and(|found| found.is_dir()) {
            // A directory that somebody filled by hand is put aside, never removed.
            let aside = self.trees.join("replaced");
            if aside.exists() {
                return Err(Error::Disk(format!(
                    "{} is a directory of its own, and so is {}",
                    self.live.display(),
                    aside.display()
                )));
            }
            std::fs::rename(&self.live, &aside).map_err(|error| failed("put aside", &self.live, &error))?;
            tracing::warn!(
                "{} held files that were not published; they are now in {}",
                self.live.display(),
                aside.display()
            );
        }
        std::fs::rename(&next, &self.live).map_err(|error| failed("put in place", &self.live, &error))?;
        self.live.parent().map_or(Ok(()), sync_dir)
    }

    /// Removes what nobody needs. Best effort: the next swap finds it again.
    fn sweep(&self) {
        let held = self.lock();
        let current = held.record.as_ref().map(|record| record.revision.root.clone());
        let Ok(entries) = std::fs::read_dir(&self.trees) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let Ok(root) = ContentHash::parse(name.strip_suffix(".json").unwrap_or(name)) else { continue };
            if Some(&root) == current.as_ref() || held.pins.contains_key(&root) {
                continue;
            }
            let path = entry.path();
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            if let Err(error) = removed {
                tracing::debug!("{} stays: {error}", path.display());
            }
        }
        let parts = self.trees.join("parts");
        for part in std::fs::read_dir(&parts).into_iter().flatten().flatten() {
            let _stays_until_the_next = std::fs::remove_file(part.path());
        }
    }
}

fn make_dirs(path: &Path) -> Result<(), Error> {
    let made = std::fs::DirBuilder::new().recursive(true).mode(DIR_MODE).create(path);
    made.map_err(|error| failed("create", path, &error))
}

/// Under another name first, and on disk before it has its own.
fn write_new(path: &Path, content: &[u8], mode: u32) -> std::io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let temp = path.with_file_name(name);
    let mut file =
        std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(mode).open(&temp)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    file.write_all(content)?;
    file.sync_all()?;
    std::fs::rename(&temp, path)
}

fn sync_dir(path: &Path) -> Result<(), Error> {
    let synced = std::fs::File::open(path).and_then(|dir| dir.sync_all());
    synced.map_err(|error| failed("sync", path, &error))
}

fn failed(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Disk(format!("cannot {doing} {}: {error}", path.display()))
}
