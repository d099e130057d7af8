//! The disk of a simulated peel, as far as published trees lie on it: it fails now and then, gives back something else now
//! and then, and after every step a run may begin (D-3, D-4).

use crate::Mutation;
use crate::dice::Dice;
use crate::observed::Observed;
use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use zester_peel::published::{DiskEntry, TreeDisk};
use zester_wire::ContentHash;

/// How often of a thousand times a step fails, or a content is not what was written.
const FAILS: u64 = 3;
const SPOILS: u64 = 20;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Held {
    File(Vec<u8>),
    Directory,
    Link(PathBuf),
}

type Entries = BTreeMap<PathBuf, Held>;

pub struct MemoryDisk {
    entries: Mutex<Entries>,
    dice: Dice,
    mutation: Mutation,
    observed: Observed,
    /// Looks at what a run would see.
    look: Box<dyn Fn(BTreeMap<String, Vec<u8>>) + Send + Sync>,
    live: PathBuf,
}

impl MemoryDisk {
    pub fn new(
        live: &Path,
        dice: Dice,
        (mutation, observed): (Mutation, Observed),
        look: impl Fn(BTreeMap<String, Vec<u8>>) + Send + Sync + 'static,
    ) -> MemoryDisk {
        let entries = Mutex::default();
        MemoryDisk { entries, dice, mutation, observed, look: Box::new(look), live: live.into() }
    }

    fn lock(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What a run that began now would see, by the paths below its directory.
    pub fn live(&self) -> BTreeMap<String, Vec<u8>> {
        let entries = self.lock();
        let root = match entries.get(&self.live) {
            Some(Held::Link(target)) => target.clone(),
            _ => self.live.clone(),
        };
        files_below(&entries, &root)
    }

    /// One step, and a look after it. It may fail, and then did nothing.
    fn step<T>(&self, step: impl FnOnce(&mut Entries) -> io::Result<T>) -> io::Result<T> {
        if self.dice.happens(FAILS) {
            self.observed.count("failed step of a tree disk");
            return Err(io::Error::other("the disk is full"));
        }
        let done = step(&mut self.lock());
        (self.look)(self.live());
        done
    }

    /// As a rename would not do it: file by file.
    fn rename_in_place(&self, from: &Path) -> io::Result<()> {
        let Some(Held::Link(target)) = self.lock().remove(from) else { return Err(missing(from)) };
        let files = files_below(&self.lock(), &target);
        let old: Vec<String> = self.live().into_keys().collect();
        let mut entries = self.lock().clone();
        if !matches!(entries.get(&self.live), Some(Held::Directory)) {
            entries.insert(self.live.clone(), Held::Directory);
            let linked = self.live();
            entries.extend(linked.into_iter().map(|(path, bytes)| (self.live.join(path), Held::File(bytes))));
            *self.lock() = entries;
        }
        for (path, bytes) in &files {
            self.lock().insert(self.live.join(path), Held::File(bytes.clone()));
            (self.look)(self.live());
        }
        for path in old.iter().filter(|path| !files.contains_key(*path)) {
            self.lock().remove(&self.live.join(path));
        }
        Ok(())
    }
}

fn missing(path: &Path) -> io::Error {
    io::Error::new(ErrorKind::NotFound, path.display().to_string())
}

fn files_below(entries: &Entries, root: &Path) -> BTreeMap<String, Vec<u8>> {
    let file = |(path, held): (&PathBuf, &Held)| match held {
        Held::File(bytes) => {
            Some((path.strip_prefix(root).ok()?.to_string_lossy().into_owned(), bytes.clone()))
        }
        _ => None,
    };
    entries.iter().filter(|(path, _)| *path != root).filter_map(file).collect()
}

impl TreeDisk for MemoryDisk {
    fn entry(&self, path: &Path) -> Option<DiskEntry> {
        self.lock().get(path).map(|held| match held {
            Held::File(_) => DiskEntry::File,
            Held::Directory => DiskEntry::Directory,
            Held::Link(_) => DiskEntry::Link,
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let Some(Held::File(bytes)) = self.lock().get(path).cloned() else { return Err(missing(path)) };
        if self.dice.happens(SPOILS) && path.extension().is_none_or(|end| end != "json") {
            self.observed.count("spoiled content");
            return Ok(b"spoiled".to_vec());
        }
        Ok(bytes)
    }

    fn read_link(&self, path: &Path) -> io::Result<PathBuf> {
        match self.lock().get(path) {
            Some(Held::Link(target)) => Ok(target.clone()),
            _ => Err(missing(path)),
        }
    }

    fn list(&self, path: &Path) -> io::Result<Vec<String>> {
        let entries = self.lock();
        let here = entries.keys().filter(|entry| entry.parent() == Some(path));
        Ok(here.filter_map(|entry| Some(entry.file_name()?.to_string_lossy().into_owned())).collect())
    }

    fn write(&self, path: &Path, content: &[u8], _: u32) -> io::Result<()> {
        self.step(|entries| {
            entries.insert(path.into(), Held::File(content.into()));
            Ok(())
        })
    }

    fn make_dirs(&self, path: &Path) -> io::Result<()> {
        self.step(|entries| {
            for above in path.ancestors() {
                entries.entry(above.into()).or_insert(Held::Directory);
            }
            Ok(())
        })
    }

    fn link(&self, target: &Path, at: &Path) -> io::Result<()> {
        self.step(|entries| {
            entries.insert(at.into(), Held::Link(target.into()));
            Ok(())
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        if self.mutation == Mutation::SwapInPlace && to == self.live {
            return self.rename_in_place(from);
        }
        if to == self.live {
            self.observed.count("new tree in place");
        }
        self.step(|entries| {
            let moved: Vec<PathBuf> = entries.keys().filter(|path| path.starts_with(from)).cloned().collect();
            if moved.is_empty() {
                return Err(missing(from));
            }
            for old in moved {
                let below = old.strip_prefix(from).map(Path::to_path_buf).unwrap_or_default();
                let new = if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) };
                if let Some(held) = entries.remove(&old) {
                    entries.insert(new, held);
                }
            }
            Ok(())
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step(|entries| {
            entries.retain(|entry, _| !entry.starts_with(path));
            Ok(())
        })
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.step(|_| Ok(()))
    }

    fn is_intact(&self, hash: &ContentHash, content: &[u8]) -> bool {
        self.mutation == Mutation::NoHashCheck || hash.is_of(content)
    }

    /// Nothing happens beside the one thread of a life, or it would not be the same each time.
    fn blocks(&self) -> bool {
        false
    }
}
