//! Trying new content before it is put in place: `check_cmd` (S-43).

use super::FileChange;
use crate::context::Applying;
use crate::created_dirs::{self, CreatedDirs};
use crate::path_change::PathChange;
use std::borrow::Cow;
use std::path::{Path, PathBuf};
use zester_host::digest::sha256_hex;
use zester_host::{Fault, FaultKind, HostWrite, NewFile, Reserved};
use zester_model::limits::FILE_BYTES_MAX;

/// Processes that try new content of one path at once.
const CANDIDATES_MAX: usize = 4;

impl FileChange {
    /// The candidate stands beside the file, with its mode and owner, for as long as the commands look at it. If they
    /// agree, only the directories are left that the file needs as well, and are returned; if not, nothing is, but
    /// directories that others use by now.
    pub(super) async fn prove(&self, cx: &Applying<'_>) -> Result<CreatedDirs, Fault> {
        let Some(candidate_check) = cx.candidate_check else { return Ok(CreatedDirs::new()) };
        let PathChange { path, after, .. } = &self.step;
        let (Some(mode), Some(owner)) = (after.mode(), after.owner()) else { return Ok(CreatedDirs::new()) };
        let content = match &self.content {
            Some(content) => Cow::Borrowed(content.bytes()),
            None => Cow::Owned(cx.scratch.read(path, FILE_BYTES_MAX)?),
        };
        let new = NewFile { content: &content, mode, owner };
        let mut made = CreatedDirs::new();
        let put = created_dirs::make_then(cx.scratch, &self.made, &mut made, || {
            let (candidate, reserved) = reserve(cx.scratch, &self.candidate_place(path))?;
            let put = self.put_beside(cx.scratch, &candidate, &new);
            Ok((candidate, reserved, put))
        });
        let passed = match put {
            Ok((candidate, _reserved, Ok(()))) => {
                let passed = candidate_check.pass(&candidate).await;
                let removed = cx.scratch.remove_file(&candidate);
                passed.map_err(|fault| Fault { touched: removed.is_err(), ..fault }).and(removed)
            }
            Ok((candidate, _reserved, Err(fault))) if fault.touched => {
                cx.scratch.remove_file(&candidate).and(Err(fault))
            }
            Ok((_, _, Err(fault))) | Err(fault) => Err(fault),
        };
        let Err(fault) = passed else { return Ok(made) };
        let left = created_dirs::give_up(cx.scratch, made);
        if left.is_empty() {
            return Err(fault);
        }
        let undo = serde_json::to_value(FileChange { made: left, ..self.clone() });
        Err(match undo {
            Ok(undo) => fault.having_done(undo),
            Err(_) => fault.touched(),
        })
    }
}

/// The names under which the new content of this path is tried, one for each process that tries some: hidden, and of no
/// ending, so that nobody who reads all files of a directory takes it for one of them.
pub(super) fn candidates(path: &Path) -> impl Iterator<Item = PathBuf> + '_ {
    use std::os::unix::ffi::OsStrExt;
    let digest = sha256_hex(path.file_name().unwrap_or_default().as_bytes());
    let base = format!(".zester-check-{}", digest.get(..16).unwrap_or(&digest));
    (0..CANDIDATES_MAX).map(move |number| match number {
        0 => path.with_file_name(&base),
        _ => path.with_file_name(format!("{base}-{number}")),
    })
}

/// The first of them that no other process has.
fn reserve(host: &dyn HostWrite, path: &Path) -> Result<(PathBuf, Reserved), Fault> {
    for candidate in candidates(path) {
        if let Some(reserved) = host.reserve(&candidate)? {
            return Ok((candidate, reserved));
        }
    }
    let message = format!("{CANDIDATES_MAX} others are trying new content of {} now", path.display());
    Err(Fault::new(FaultKind::InTheWay, message).hint("run it again"))
}

/// Removes the candidates that killed runs left, and what they left of those that were not whole yet.
pub(super) fn sweep(host: &dyn HostWrite, path: &Path) -> Result<(), Fault> {
    for candidate in candidates(path) {
        // Another process may be trying it.
        let reserved = match host.stat(&candidate)? {
            Some(_) => host.reserve(&candidate)?,
            None => None,
        };
        host.sweep(&candidate)?;
        if reserved.is_some() && host.stat(&candidate)?.is_some() {
            host.remove_file(&candidate)?;
        }
    }
    Ok(())
}
