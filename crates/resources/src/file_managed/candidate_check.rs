//! Trying new content before it is put in place: `check_cmd` (S-43).

use super::{Drift, Managed, put_beside};
use crate::created_dirs::CreatedDir;
use crate::path_change::PathChange;
use crate::path_state::PathState;
use crate::resource::Applying;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use zester_host::digest::sha256_hex;
use zester_host::{Fault, HostWrite, NewFile, Owner};
use zester_model::limits::FILE_BYTES_MAX;

impl Managed {
    /// The candidate stands beside the file, with its mode and owner, for as long as the commands look at it. Whether
    /// they agree or not, nothing of it is left.
    pub(super) async fn prove(&self, drift: &Drift, cx: &Applying<'_>) -> Result<(), Fault> {
        let Some(candidate_check) = cx.candidate_check else { return Ok(()) };
        let PathChange { path, after, .. } = &drift.step;
        let PathState::File { mode, uid, gid, .. } = after else { return Ok(()) };
        let content = match &drift.content {
            Some(content) => Cow::Borrowed(content),
            None => Cow::Owned(cx.scratch.read(path, FILE_BYTES_MAX)?),
        };
        let new = NewFile { content: &content, mode: *mode, owner: Owner { uid: *uid, gid: *gid } };
        let candidate = candidate(path);
        let made = make_missing(cx.scratch, &drift.made)?;
        let passed = match put_beside(cx.scratch, &candidate, &new, drift) {
            Ok(()) => {
                let passed = candidate_check.pass(&candidate).await;
                let removed = cx.scratch.remove_file(&candidate);
                passed.map_err(|fault| Fault { touched: removed.is_err(), ..fault }).and(removed)
            }
            Err(fault) if fault.touched => cx.scratch.remove_file(&candidate).and(Err(fault)),
            Err(fault) => Err(fault),
        };
        let unmade = made.iter().rev().try_for_each(|path| cx.scratch.remove_directory(path));
        passed.map_err(|fault| Fault { touched: fault.touched || unmade.is_err(), ..fault }).and(unmade)
    }
}

/// The one name under which the new content of this path is tried: hidden, and of no ending, so that nobody who reads
/// all files of a directory takes it for one of them.
fn candidate(path: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let digest = sha256_hex(path.file_name().unwrap_or_default().as_bytes());
    path.with_file_name(format!(".zester-check-{}", digest.get(..16).unwrap_or(&digest)))
}

/// Removes the candidate that a killed run left, and what it left of one that was not whole yet.
pub(super) fn sweep(host: &dyn HostWrite, path: &Path) -> Result<(), Fault> {
    let candidate = candidate(path);
    host.sweep(&candidate)?;
    match host.stat(&candidate)? {
        Some(_) => host.remove_file(&candidate),
        None => Ok(()),
    }
}

/// The directories that the candidate needs, as far as they were not there.
fn make_missing(host: &dyn HostWrite, wanted: &[CreatedDir]) -> Result<Vec<PathBuf>, Fault> {
    let mut made = Vec::new();
    for directory in wanted {
        if host.stat_followed(&directory.path)?.is_some() {
            continue;
        }
        let owner = Owner { uid: directory.uid, gid: directory.gid };
        host.make_directory(&directory.path, directory.mode, owner)?;
        made.push(directory.path.clone());
    }
    Ok(made)
}
