//! A cache that forgets with its process: for simulated peels.

use crate::error::Error;
use crate::reader::{Cache, Work};
use crate::tree::{Tree, TreePath};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use zester_bus::Bytes;
use zester_wire::{ContentHash, Manifest, Revision};

#[derive(Default)]
pub struct MemoryCache(Mutex<Held>);

#[derive(Default)]
struct Held {
    contents: BTreeMap<ContentHash, Bytes>,
    tree: Option<(Revision, BTreeMap<TreePath, Vec<u8>>)>,
}

impl MemoryCache {
    fn lock(&self) -> MutexGuard<'_, Held> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Every file that is in place.
    pub fn files(&self) -> BTreeMap<TreePath, Vec<u8>> {
        self.lock().tree.as_ref().map(|(_, files)| files.clone()).unwrap_or_default()
    }
}

impl Cache for MemoryCache {
    fn current(&self) -> Option<Revision> {
        self.lock().tree.as_ref().map(|(revision, _)| revision.clone())
    }

    fn lacks<'a>(&'a self, tree: &'a Tree) -> Work<'a, Vec<ContentHash>> {
        let held = self.lock();
        let lacking = tree.contents().filter(|hash| !held.contents.contains_key(hash)).cloned().collect();
        Box::pin(std::future::ready(Ok(lacking)))
    }

    fn keep<'a>(&'a self, hash: &'a ContentHash, content: Bytes) -> Work<'a, ()> {
        self.lock().contents.insert(hash.clone(), content);
        Box::pin(std::future::ready(Ok(())))
    }

    fn swap<'a>(&'a self, revision: &'a Revision, _: &'a Manifest, tree: &'a Tree) -> Work<'a, ()> {
        let mut held = self.lock();
        let mut files = BTreeMap::new();
        for (path, file) in &tree.files {
            let mut whole = Vec::new();
            for hash in file.contents() {
                match held.contents.get(hash) {
                    Some(part) => whole.extend_from_slice(part),
                    None => return Box::pin(std::future::ready(Err(Error::missing(hash)))),
                }
            }
            if !file.hash.is_of(&whole) {
                return Box::pin(std::future::ready(Err(Error::tampered(&file.hash))));
            }
            files.insert(path.clone(), whole);
        }
        held.contents.retain(|hash, _| tree.contents().any(|listed| listed == hash));
        held.tree = Some((revision.clone(), files));
        Box::pin(std::future::ready(Ok(())))
    }
}
