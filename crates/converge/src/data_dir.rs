//! The directory where a machine remembers: journal, history, lock.

use crate::error::Error;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Opened or made, private to its owner: before-images may hold secrets.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    pub fn open(root: &Path) -> Result<DataDir, Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(root)
            .map_err(|error| Error::io("create the data directory", root, error))?;
        Ok(DataDir { root: root.to_path_buf() })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Puts a small file in place whole: temp, fsync, rename, fsync of the directory.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    let fail = |error| Error::io("write", path, error);
    let directory = path.parent().unwrap_or(Path::new("."));
    let mut temp = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
    temp.write_all(content).map_err(fail)?;
    temp.as_file().sync_data().map_err(fail)?;
    temp.persist(path).map_err(|error| fail(error.error))?;
    sync_directory(directory)
}

/// Makes names in a directory survive a power cut.
pub fn sync_directory(directory: &Path) -> Result<(), Error> {
    fs::File::open(directory)
        .and_then(|handle| handle.sync_all())
        .map_err(|error| Error::io("sync", directory, error))
}

/// Opens a file for appending, readable by its owner only.
pub fn open_append(path: &Path) -> Result<fs::File, Error> {
    fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| Error::io("open", path, error))
}
