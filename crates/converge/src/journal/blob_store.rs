//! Before-images, each under the hash of its content.

use crate::disk::Disk;
use crate::error::Error;
use sha2::{Digest, Sha256};
use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_host::{Fault, FaultKind, GroupSync};
use zester_resources::context::BlobStore;

pub struct FileBlobStore {
    directory: PathBuf,
    disk: Arc<Disk>,
    /// Objects that this run knows to survive a power cut.
    safe: Mutex<HashSet<String>>,
    /// Those who wait for the names of theirs to do so.
    names: Arc<GroupSync<bool>>,
}

impl FileBlobStore {
    pub fn new(directory: PathBuf, disk: Arc<Disk>) -> FileBlobStore {
        FileBlobStore { directory, disk, safe: Mutex::default(), names: Arc::default() }
    }

    /// What all objects take together.
    pub fn bytes(&self) -> Result<u64, Error> {
        Ok(self.entries()?.iter().map(|(_, size)| size).sum())
    }

    /// Removes every object that is not needed; returns the bytes that stay.
    pub fn keep_only(&self, needed: &BTreeSet<String>) -> Result<u64, Error> {
        let mut stay = 0;
        for (name, size) in self.entries()? {
            if needed.contains(&name) {
                stay += size;
                continue;
            }
            let path = self.directory.join(&name);
            fs::remove_file(&path).map_err(|error| Error::io("remove", &path, error))?;
        }
        Ok(stay)
    }

    fn entries(&self) -> Result<Vec<(String, u64)>, Error> {
        let fail = |error| Error::io("list", &self.directory, error);
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(fail)? {
            let entry = entry.map_err(fail)?;
            match entry.metadata() {
                Ok(meta) => found.push((entry.file_name().to_string_lossy().into_owned(), meta.len())),
                // It was renamed since: a before-image that another state is keeping.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(fail(error)),
            }
        }
        Ok(found)
    }
}

impl FileBlobStore {
    fn make_safe(&self, name: &str, content: &[u8]) -> Result<(), Error> {
        if self.safe().contains(name) {
            return Ok(());
        }
        let visit = self.names.enter();
        // The same content may be there already, whole, because it was renamed there; but it may have rotted since, and
        // whoever renamed it may have been killed before the name was safe.
        if !self.is_whole(name, content.len()) {
            self.disk.put(&self.directory.join(name), content)?;
        }
        self.disk.sync_together(visit, || self.disk.sync_directory(&self.directory))?;
        self.safe().insert(name.to_string());
        Ok(())
    }

    fn is_whole(&self, name: &str, size: usize) -> bool {
        let path = self.directory.join(name);
        fs::metadata(&path).is_ok_and(|meta| meta.len() == size as u64)
            && fs::read(&path).is_ok_and(|content| hash(&content) == name)
    }

    fn safe(&self) -> MutexGuard<'_, HashSet<String>> {
        self.safe.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn hash(content: &[u8]) -> String {
    Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect()
}

impl BlobStore for FileBlobStore {
    fn keep(&self, content: &[u8]) -> Result<String, Fault> {
        let name = hash(content);
        self.make_safe(&name, content).map_err(|error| Fault::new(FaultKind::Io, error.to_string()))?;
        Ok(name)
    }

    fn fetch(&self, name: &str) -> Result<Vec<u8>, Fault> {
        if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(Fault::new(FaultKind::Io, format!("`{name}` is not the name of a before-image")));
        }
        let path = self.directory.join(name);
        let content = fs::read(&path).map_err(|error| Fault::io("read the before-image", &path, error))?;
        if hash(&content) != name {
            return Err(Fault::new(FaultKind::Io, format!("the before-image {} is damaged", path.display())));
        }
        Ok(content)
    }
}
