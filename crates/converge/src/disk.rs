//! What the memory of a machine asks of its disk, behind a door that a test can have fail.

use crate::error::Error;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::OnceLock;
use zester_host::Visit;

/// The two calls that a full or dying disk refuses.
pub trait DiskCalls: Send + Sync {
    fn write(&self, mut file: &File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }
}

/// The disk itself.
struct Real;
impl DiskCalls for Real {}

/// The disk under one journal.
///
/// A sync that failed is final: the kernel may have dropped what it could not write and forgotten about it, so that a
/// second sync succeeds and says nothing about the first. From then on nothing is called safe any more.
pub struct Disk {
    door: Box<dyn DiskCalls>,
    failed: OnceLock<String>,
}

impl Disk {
    pub fn real() -> Disk {
        Disk::behind(Box::new(Real))
    }

    pub fn behind(door: Box<dyn DiskCalls>) -> Disk {
        Disk { door, failed: OnceLock::new() }
    }

    /// Whether everything that was called safe still is.
    pub fn trusted(&self) -> Result<(), Error> {
        match self.failed.get() {
            None => Ok(()),
            Some(why) => Err(Error::other(format!("the journal cannot be trusted any more: {why}"))),
        }
    }

    pub fn write(&self, file: &File, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        self.door.write(file, bytes).map_err(|error| Error::io("write", path, error))
    }

    pub fn sync(&self, file: &File, path: &Path) -> Result<(), Error> {
        self.trusted()?;
        self.door.sync(file).map_err(|error| {
            let error = Error::io("sync", path, error);
            // Whoever was first has said it.
            let _said = self.failed.set(error.to_string());
            error
        })
    }

    /// Makes names in a directory survive a power cut.
    pub fn sync_directory(&self, directory: &Path) -> Result<(), Error> {
        let handle = File::open(directory).map_err(|error| Error::io("open", directory, error))?;
        self.sync(&handle, directory)
    }

    /// Waits for a sync together with all who need the same one. If it fails it has failed for all of them.
    pub fn sync_together(
        &self,
        visit: Visit<bool>,
        sync: impl FnOnce() -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut failed = None;
        let is_safe = visit.sync(|| sync().map_err(|error| failed = Some(error)).is_ok());
        match failed {
            Some(error) => Err(error),
            None if is_safe => Ok(()),
            None => {
                self.trusted()?;
                Err(Error::other("what was written could not be synced"))
            }
        }
    }

    /// Puts a small file in place whole: temp, fsync, rename, fsync of the directory.
    pub fn replace(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        self.put(path, content)?;
        self.sync_directory(path.parent().unwrap_or(Path::new(".")))
    }

    /// The same without the last step: its content survives a power cut, its name may not yet.
    pub fn put(&self, path: &Path, content: &[u8]) -> Result<(), Error> {
        let fail = |error| Error::io("write", path, error);
        let directory = path.parent().unwrap_or(Path::new("."));
        let temp = tempfile::NamedTempFile::new_in(directory).map_err(fail)?;
        self.write(temp.as_file(), path, content)?;
        self.sync(temp.as_file(), path)?;
        temp.persist(path).map(drop).map_err(|error| fail(error.error))
    }

    /// Appends a line to a file that other lines were appended to before. What an earlier write left half-done goes
    /// first: the new line would become part of it.
    pub fn append_line(&self, path: &Path, line: &[u8]) -> Result<(), Error> {
        cut_torn_end(path)?;
        self.write(&open_append(path)?, path, line)
    }
}

/// Cuts off what stands after the last whole line; whether there was anything.
pub fn cut_torn_end(path: &Path) -> Result<bool, Error> {
    let fail = |error| Error::io("mend", path, error);
    let mut file = match File::options().read(true).write(true).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(fail(error)),
    };
    if ends_whole(&mut file).map_err(fail)? {
        return Ok(false);
    }
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).map_err(fail)?;
    let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    file.set_len(whole as u64).map_err(fail)?;
    Ok(true)
}

fn ends_whole(file: &mut File) -> io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Opens a file for appending, readable by its owner only.
pub fn open_append(path: &Path) -> Result<File, Error> {
    File::options()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)
        .map_err(|error| Error::io("open", path, error))
}
