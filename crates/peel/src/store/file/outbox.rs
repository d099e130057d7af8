//! The returns on disk: one file each, which appears whole or not at all.

use super::{StoreError, io_error, make_private};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use zester_jobs::dedup::Dispatch;
use zester_wire::{Jid, Return, decode, encode};

/// How the name of a file begins that is not in its place yet.
const UNFINISHED: &str = ".new-";
/// The checksum before the return.
const SUM_BYTES: usize = 4;

pub(super) struct Outbox {
    dir: PathBuf,
}

impl Outbox {
    pub(super) fn open(dir: &Path) -> Result<Outbox, StoreError> {
        make_private(dir)?;
        let outbox = Outbox { dir: dir.to_path_buf() };
        for name in outbox.names()?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            // Nobody was told of it. If it cannot go now, it is no harm.
            let _left = fs::remove_file(dir.join(name));
        }
        Ok(outbox)
    }

    fn names(&self) -> Result<Vec<String>, StoreError> {
        let fail = |error: std::io::Error| io_error("list", &self.dir, &error);
        let mut names = Vec::new();
        for found in fs::read_dir(&self.dir).map_err(fail)? {
            names.extend(found.map_err(fail)?.file_name().into_string());
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Whose returns are here.
    pub(super) fn list(&self) -> Result<Vec<Dispatch>, StoreError> {
        Ok(self.names()?.iter().filter_map(|name| parse(name)).collect())
    }

    fn path(&self, dispatch: &Dispatch) -> PathBuf {
        self.dir.join(format!("{}.{}", dispatch.jid, dispatch.epoch))
    }

    pub(super) fn write(&self, ret: &Return) -> Result<(), StoreError> {
        let path = self.path(&Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch });
        let fail = |error: std::io::Error| io_error("write", &path, &error);
        let bytes = encode(ret).map_err(|error| StoreError(error.to_string()))?;
        let mut temp = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.dir).map_err(fail)?;
        temp.write_all(&crc32fast::hash(&bytes).to_be_bytes()).map_err(fail)?;
        temp.write_all(&bytes).map_err(fail)?;
        temp.as_file().sync_data().map_err(fail)?;
        temp.persist(&path).map_err(|error| fail(error.error))?;
        sync_directory(&self.dir)
    }

    pub(super) fn read(&self, dispatch: &Dispatch) -> Result<Option<Return>, StoreError> {
        let path = self.path(dispatch);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path, &error)),
        };
        let damaged = |why: &str| StoreError(format!("{} is damaged: {why}", path.display()));
        let (sum, rest) = bytes.split_at_checked(SUM_BYTES).ok_or_else(|| damaged("it is too short"))?;
        if sum != crc32fast::hash(rest).to_be_bytes() {
            return Err(damaged("its checksum is another"));
        }
        decode(rest).map(Some).map_err(|error| damaged(&error.to_string()))
    }

    pub(super) fn remove(&self, dispatches: &[Dispatch]) -> Result<(), StoreError> {
        for dispatch in dispatches {
            let path = self.path(dispatch);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(io_error("remove", &path, &error));
                }
                _ => {}
            }
        }
        sync_directory(&self.dir)
    }
}

/// `<jid>.<epoch>`
fn parse(name: &str) -> Option<Dispatch> {
    let (jid, epoch) = name.rsplit_once('.')?;
    Some(Dispatch { jid: Jid::parse(jid).ok()?, epoch: epoch.parse().ok()? })
}

/// Makes names in a directory survive a power cut.
pub(super) fn sync_directory(dir: &Path) -> Result<(), StoreError> {
    File::open(dir).and_then(|handle| handle.sync_all()).map_err(|error| io_error("sync", dir, &error))
}
