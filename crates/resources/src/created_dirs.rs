//! Directories that `makedirs` creates, and removes again when they are empty.

use crate::context::Reverting;
use crate::path_text;
use crate::tree;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::{Fault, FaultKind, FileKind, HostRead, HostWrite, Meta, Owner};

/// How often directories are made that others take away again.
const TRIES_MAX: u32 = 64;

/// A directory that is missing and will be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CreatedDir {
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// Top first.
pub(crate) type CreatedDirs = Vec<CreatedDir>;

/// The missing parents of a path, top first. Without `makedirs` a missing parent is a fault.
pub(crate) fn missing_parents(
    host: &dyn HostRead,
    path: &Path,
    makedirs: bool,
    mode: u32,
    owner: Owner,
) -> Result<CreatedDirs, Fault> {
    let mut missing = Vec::new();
    for parent in path.ancestors().skip(1) {
        match host.stat_followed(parent)? {
            Some(meta) if meta.kind == FileKind::Directory => break,
            Some(_) => {
                let message = format!("{} is in the way: it is not a directory", parent.display());
                return Err(Fault::new(FaultKind::InTheWay, message));
            }
            None => {}
        }
        // What is there now but was not a moment ago is another state's directory, unless it is a link.
        match host.stat(parent)?.map(|meta| meta.kind) {
            None => {}
            Some(FileKind::Directory) => break,
            Some(_) => {
                let message = format!("{} is a link that leads nowhere", parent.display());
                return Err(Fault::new(FaultKind::InTheWay, message));
            }
        }
        if !makedirs {
            let message = format!("the directory {} does not exist", parent.display());
            return Err(Fault::new(FaultKind::NotFound, message).hint("`makedirs: true` creates it"));
        }
        missing.push(CreatedDir { path: parent.to_path_buf(), mode, uid: owner.uid, gid: owner.gid });
    }
    missing.reverse();
    Ok(missing)
}

/// Makes what is still missing and acts inside. What was made is added to `made`, also where it fails later: another
/// state of the same level may have been faster, and then the directory is its own to remove. One whose `check_cmd` failed
/// takes its directories away again while they are empty; then they are made once more.
pub(crate) fn make_then<T>(
    host: &dyn HostWrite,
    missing: &[CreatedDir],
    made: &mut CreatedDirs,
    mut act: impl FnMut() -> Result<T, Fault>,
) -> Result<T, Fault> {
    let mut tries = 0;
    loop {
        let ended = make_all(host, missing, made).and_then(|()| act());
        let Err(fault) = ended else { return ended };
        tries += 1;
        let gone = |directory: &CreatedDir| matches!(host.stat(&directory.path), Ok(None));
        if fault.kind != FaultKind::NotFound || tries == TRIES_MAX || !missing.iter().any(gone) {
            return Err(fault);
        }
    }
}

fn make_all(host: &dyn HostWrite, missing: &[CreatedDir], made: &mut CreatedDirs) -> Result<(), Fault> {
    for directory in missing {
        let owner = Owner { uid: directory.uid, gid: directory.gid };
        if make_or_join(host, &directory.path, directory.mode, owner)?.is_none() && !made.contains(directory)
        {
            made.push(directory.clone());
        }
    }
    Ok(())
}

/// Takes those away again that are empty, for whom it was all in vain. Returns those that others use by now.
pub(crate) fn give_up(host: &dyn HostWrite, made: CreatedDirs) -> CreatedDirs {
    let stays = |directory: &CreatedDir| {
        host.remove_directory(&directory.path).is_err() && !matches!(host.stat(&directory.path), Ok(None))
    };
    let mut left: CreatedDirs = made.into_iter().rev().filter(stays).collect();
    left.reverse();
    left
}

/// Makes a directory. Where somebody was faster with one, that one is as good, and is returned.
pub(crate) fn make_or_join(
    host: &dyn HostWrite,
    path: &Path,
    mode: u32,
    owner: Owner,
) -> Result<Option<Meta>, Fault> {
    let mut tries = 0;
    loop {
        let Err(fault) = host.make_directory(path, mode, owner) else { return Ok(None) };
        tries += 1;
        match host.stat(path)? {
            Some(meta) if meta.kind == FileKind::Directory => return Ok(Some(meta)),
            // Somebody was faster, and has taken it away again since.
            None if was_there(&fault) && tries < TRIES_MAX => {}
            _ => return Err(fault),
        }
    }
}

fn was_there(fault: &Fault) -> bool {
    fault.source.as_ref().is_some_and(|error| error.kind() == std::io::ErrorKind::AlreadyExists)
}

/// Removes those that are empty, deepest first, also such that another state of this revert made above `path` and had to
/// leave. What somebody put inside keeps its directory.
pub(crate) fn unmake_all(path: &Path, made: &[CreatedDir], cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
    for directory in made {
        // A process that was killed may have left it under the name that it had before it was whole.
        cx.host.sweep(&tree::resolve_again(cx.host, &directory.path)?)?;
        cx.left.add(&directory.path);
    }
    let mut removed = Vec::new();
    for recorded in path.ancestors().skip(1).filter(|directory| cx.left.holds(directory)) {
        let directory = &tree::resolve_again(cx.host, recorded)?;
        let is_empty = || -> Result<Option<bool>, Fault> {
            match cx.host.stat(directory)? {
                Some(meta) if meta.kind == FileKind::Directory => {
                    Ok(Some(cx.host.list(directory)?.is_empty()))
                }
                _ => Ok(None),
            }
        };
        match is_empty() {
            Ok(Some(true)) => match cx.host.remove_directory(directory) {
                Ok(()) => removed.push(format!("removed {}", directory.display())),
                // Another state may have been faster, or somebody put something inside just now.
                Err(fault) if matches!(is_empty(), Ok(Some(true))) => return Err(fault),
                Err(_) => {}
            },
            Ok(Some(false)) => break,
            Ok(None) => {}
            Err(fault) if fault.kind == FaultKind::NotFound => {}
            Err(fault) => return Err(fault),
        }
        cx.left.forget(recorded);
    }
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use zester_host::overlay::Overlay;
    use zester_host::{Group, User};
    use zester_rule::rule;

    /// The machine, where another state makes a directory between two glances at it.
    struct Between(Overlay);

    impl HostRead for Between {
        fn without_links(&self) -> &dyn HostRead {
            self
        }
        fn real_path(&self, path: &Path) -> Result<PathBuf, Fault> {
            self.0.real_path(path)
        }
        fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
            self.0.stat(path)
        }
        fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault> {
            if path.ends_with("shared") { Ok(None) } else { self.0.stat_followed(path) }
        }
        fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
            self.0.read(path, limit)
        }
        fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
            self.0.read_link(path)
        }
        fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
            self.0.list(path)
        }
        fn user(&self, name: &str) -> Result<Option<User>, Fault> {
            self.0.user(name)
        }
        fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
            self.0.group(name)
        }
        fn me(&self) -> Owner {
            self.0.me()
        }
    }

    #[test]
    #[rule("S-28")]
    fn s28_a_directory_that_another_state_made_a_moment_ago_is_no_dangling_link() {
        let overlay = Overlay::empty();
        let owner = overlay.me();
        overlay.make_directory(Path::new("/srv"), 0o755, owner).unwrap();
        overlay.make_directory(Path::new("/srv/shared"), 0o755, owner).unwrap();
        overlay.put_link(Path::new("/srv/link"), Path::new("nowhere"), owner).unwrap();
        let host = Between(overlay);
        let file = Path::new("/srv/shared/deep/file");
        let made = missing_parents(&host, file, true, 0o755, owner).unwrap();
        assert_eq!(
            made.iter().map(|made| made.path.as_path()).collect::<Vec<_>>(),
            [Path::new("/srv/shared/deep")]
        );
        let file = Path::new("/srv/link/file");
        let fault = missing_parents(&host, file, true, 0o755, owner).unwrap_err();
        assert!(fault.message.contains("a link that leads nowhere"), "{fault}");
    }
}
