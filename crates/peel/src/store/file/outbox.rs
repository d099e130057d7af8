//! The returns on disk: one file each, which appears whole or not at all.

use super::syncs::{SyncCalls, sync_directory};
use super::{StoreError, io_error, locked, make_private};
use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use zester_jobs::dedup::Dispatch;
use zester_wire::{Jid, Return, decode, encode};

/// How the name of a file begins that is not in its place yet.
const UNFINISHED: &str = ".new-";
/// How the name of a file begins whose return cannot be read any more.
const DAMAGED: &str = "damaged-";
/// The checksum before the return.
const SUM_BYTES: usize = 4;
/// All returns on disk together. Beyond it the oldest are truncated, field by field, and say so (J-16).
pub(super) const OUTBOX_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// What is written to see whether the disk takes it: more than a line of the ledger needs.
const CHECK_BYTES: usize = 4 * 1024;
/// What is left of a return that had to make room.
const TRUNCATED_BYTES: usize = 4 * 1024;

pub(super) struct Outbox {
    dir: PathBuf,
    disk: Arc<dyn SyncCalls>,
    bytes_max: u64,
    sizes: Mutex<Sizes>,
}

/// How large the returns on disk are.
#[derive(Default)]
struct Sizes {
    total: u64,
    each: BTreeMap<Dispatch, u64>,
}

impl Sizes {
    fn set(&mut self, dispatch: &Dispatch, bytes: u64) {
        self.remove(dispatch);
        self.total += bytes;
        self.each.insert(dispatch.clone(), bytes);
    }

    fn remove(&mut self, dispatch: &Dispatch) {
        self.total -= self.each.remove(dispatch).unwrap_or_default();
    }

    /// The oldest that can still be made smaller. Job ids begin with the time.
    fn oldest_large(&self) -> Option<Dispatch> {
        let large = |(_, bytes): &(&Dispatch, &u64)| **bytes > (TRUNCATED_BYTES + SUM_BYTES) as u64;
        self.each.iter().find(large).map(|(dispatch, _)| dispatch.clone())
    }
}

impl Outbox {
    pub(super) fn open(dir: &Path, bytes_max: u64, disk: Arc<dyn SyncCalls>) -> Result<Outbox, StoreError> {
        make_private(dir)?;
        let outbox = Outbox { dir: dir.to_path_buf(), disk, bytes_max, sizes: Mutex::default() };
        for name in outbox.names()?.iter().filter(|name| name.starts_with(UNFINISHED)) {
            // Nobody was told of it. If it cannot go now, it is no harm.
            let _left = fs::remove_file(dir.join(name));
        }
        for dispatch in outbox.list()? {
            let path = outbox.path(&dispatch);
            let meta = fs::metadata(&path).map_err(|error| io_error("read", &path, &error))?;
            locked(&outbox.sizes).set(&dispatch, meta.len());
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

    /// Writes a return; where all together are too large then, the oldest are truncated.
    pub(super) fn write(&self, ret: &Return) -> Result<(), StoreError> {
        self.write_one(ret)?;
        loop {
            let sizes = locked(&self.sizes);
            let Some(oldest) = (sizes.total > self.bytes_max).then(|| sizes.oldest_large()).flatten() else {
                return Ok(());
            };
            drop(sizes);
            self.truncate(&oldest)?;
        }
    }

    fn truncate(&self, dispatch: &Dispatch) -> Result<(), StoreError> {
        let Some(ret) = self.read(dispatch)? else {
            locked(&self.sizes).remove(dispatch);
            return Ok(());
        };
        tracing::warn!(
            jid = %dispatch.jid,
            "returns that wait for a master take more than {} bytes; this one was truncated", self.bytes_max
        );
        self.write_one(&ret.fit(TRUNCATED_BYTES))
    }

    fn write_one(&self, ret: &Return) -> Result<(), StoreError> {
        let dispatch = Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch };
        let path = self.path(&dispatch);
        let fail = |error: std::io::Error| io_error("write", &path, &error);
        let bytes = encode(ret).map_err(|error| StoreError(error.to_string()))?;
        let mut temp = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.dir).map_err(fail)?;
        temp.write_all(&crc32fast::hash(&bytes).to_be_bytes()).map_err(fail)?;
        temp.write_all(&bytes).map_err(fail)?;
        self.disk.content(temp.as_file()).map_err(fail)?;
        temp.persist(&path).map_err(|error| fail(error.error))?;
        locked(&self.sizes).set(&dispatch, (bytes.len() + SUM_BYTES) as u64);
        sync_directory(&*self.disk, &self.dir)
    }

    /// Writes and syncs a file that goes again.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        let fail = |error: std::io::Error| io_error("write to", &self.dir, &error);
        let mut temp = tempfile::Builder::new().prefix(UNFINISHED).tempfile_in(&self.dir).map_err(fail)?;
        temp.write_all(&[0; CHECK_BYTES]).map_err(fail)?;
        self.disk.content(temp.as_file()).map_err(fail)
    }

    pub(super) fn read(&self, dispatch: &Dispatch) -> Result<Option<Return>, StoreError> {
        let path = self.path(dispatch);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(io_error("read", &path, &error)),
        };
        match content(&bytes) {
            Ok(ret) => Ok(Some(ret)),
            Err(why) => self.set_aside(dispatch, &why).map(|()| None),
        }
    }

    /// A damaged return will not be whole the next time: its file makes room, and the return counts as lost. It stays for whoever
    /// wants to look into it.
    fn set_aside(&self, dispatch: &Dispatch, why: &str) -> Result<(), StoreError> {
        let path = self.path(dispatch);
        let aside = self.dir.join(format!("{DAMAGED}{}.{}", dispatch.jid, dispatch.epoch));
        fs::rename(&path, &aside).map_err(|error| io_error("set aside", &path, &error))?;
        locked(&self.sizes).remove(dispatch);
        tracing::error!(jid = %dispatch.jid, "a stored return is damaged: {why}; it is now {}", aside.display());
        sync_directory(&*self.disk, &self.dir)
    }

    pub(super) fn remove(&self, dispatches: &[Dispatch]) -> Result<(), StoreError> {
        for dispatch in dispatches {
            let path = self.path(dispatch);
            match fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return Err(io_error("remove", &path, &error));
                }
                _ => locked(&self.sizes).remove(dispatch),
            }
        }
        sync_directory(&*self.disk, &self.dir)
    }
}

/// What a file holds, or what is wrong with it.
fn content(bytes: &[u8]) -> Result<Return, String> {
    let (sum, rest) = bytes.split_at_checked(SUM_BYTES).ok_or("it is too short")?;
    if sum != crc32fast::hash(rest).to_be_bytes() {
        return Err("its checksum is another".into());
    }
    decode(rest).map_err(|error| error.to_string())
}

/// `<jid>.<epoch>`
fn parse(name: &str) -> Option<Dispatch> {
    let (jid, epoch) = name.rsplit_once('.')?;
    Some(Dispatch { jid: Jid::parse(jid).ok()?, epoch: epoch.parse().ok()? })
}
