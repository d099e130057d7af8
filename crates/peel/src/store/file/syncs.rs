//! What the store asks of its disk so that what was written survives a power cut, behind a door that a test can have fail.

use super::{StoreError, io_error};
use std::fs::File;
use std::io;
use std::path::Path;

/// The two calls that a dying disk refuses.
pub trait SyncCalls: Send + Sync {
    /// The content of a file.
    fn content(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// The names in a directory.
    fn names(&self, directory: &File) -> io::Result<()> {
        directory.sync_all()
    }
}

/// The disk itself.
pub(super) struct RealSyncs;
impl SyncCalls for RealSyncs {}

/// Makes names in a directory survive a power cut.
pub(super) fn sync_directory(disk: &dyn SyncCalls, dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|handle| disk.names(&handle)).map_err(|error| io_error("sync", dir, &error))
}
