//! Directories that `makedirs` creates, and removes again when they are empty.

use crate::path_text;
use crate::resource::Reverting;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use zester_host::{Fault, FaultKind, Look, Owner, Sort, Touch};

/// A directory that is missing and will be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Made {
    #[serde(with = "path_text")]
    pub(crate) path: PathBuf,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// The missing parents of a path, top first. Without `makedirs` a missing parent is a fault.
pub(crate) fn missing_parents(
    look: &dyn Look,
    path: &Path,
    makedirs: bool,
    mode: u32,
    owner: Owner,
) -> Result<Vec<Made>, Fault> {
    let mut missing = Vec::new();
    for parent in path.ancestors().skip(1) {
        match look.stat_followed(parent)? {
            Some(meta) if meta.sort == Sort::Directory => break,
            Some(_) => {
                let message = format!("{} is in the way: it is not a directory", parent.display());
                return Err(Fault::new(FaultKind::InTheWay, message));
            }
            None => {}
        }
        if look.stat(parent)?.is_some() {
            let message = format!("{} is a link that leads nowhere", parent.display());
            return Err(Fault::new(FaultKind::InTheWay, message));
        }
        if !makedirs {
            let message = format!("the directory {} does not exist", parent.display());
            return Err(Fault::new(FaultKind::NotFound, message).hint("`makedirs: true` creates it"));
        }
        missing.push(Made { path: parent.to_path_buf(), mode, uid: owner.uid, gid: owner.gid });
    }
    missing.reverse();
    Ok(missing)
}

/// Makes what is still missing; another state of the same level may have been faster.
pub(crate) fn make_all(touch: &dyn Touch, made: &[Made]) -> Result<(), Fault> {
    for directory in made {
        let owner = Owner { uid: directory.uid, gid: directory.gid };
        if let Err(fault) = touch.make_directory(&directory.path, directory.mode, owner) {
            let there =
                touch.stat_followed(&directory.path)?.is_some_and(|meta| meta.sort == Sort::Directory);
            if !there {
                return Err(fault);
            }
        }
    }
    Ok(())
}

/// Removes those that are empty, deepest first. What somebody put inside keeps its directory.
pub(crate) fn unmake_all(made: &[Made], cx: &Reverting<'_>) -> Result<Vec<String>, Fault> {
    let mut removed = Vec::new();
    for directory in made.iter().rev() {
        let path = &directory.path;
        let is_directory = cx.touch.stat(path)?.is_some_and(|meta| meta.sort == Sort::Directory);
        if is_directory && cx.touch.list(path)?.is_empty() {
            cx.touch.remove_directory(path)?;
            removed.push(format!("removed {}", path.display()));
        }
    }
    Ok(removed)
}
