//! Walking what is inside a directory, and along links.

use std::path::{Path, PathBuf};
use zester_host::{Fault, FaultKind, Look, Meta, Sort};

/// Directories inside directories; deeper is surely a mistake, and the stack is not endless.
const DEPTH_MAX: usize = 256;

/// Links one path may lead through; the kernel's own number.
const LINKS_MAX: usize = 40;

/// The thing itself behind a path, if a link stands there; the path itself otherwise.
pub(crate) fn behind_links(look: &dyn Look, path: &Path) -> Result<PathBuf, Fault> {
    let mut path = path.to_path_buf();
    for _ in 0..LINKS_MAX {
        if look.stat(&path)?.is_none_or(|meta| meta.sort != Sort::Link) {
            return Ok(path);
        }
        let target = look.read_link(&path)?;
        path = path.parent().unwrap_or(Path::new("/")).join(target);
    }
    Err(Fault::new(FaultKind::Io, format!("too many links behind {}", path.display())))
}

/// Calls for everything inside, parents before children. Links are not followed.
pub(crate) fn walk(
    look: &dyn Look,
    directory: &Path,
    visit: &mut dyn FnMut(&Path, &Meta) -> Result<(), Fault>,
) -> Result<(), Fault> {
    walk_down(look, directory, visit, 0)
}

fn walk_down(
    look: &dyn Look,
    directory: &Path,
    visit: &mut dyn FnMut(&Path, &Meta) -> Result<(), Fault>,
    depth: usize,
) -> Result<(), Fault> {
    if depth > DEPTH_MAX {
        let message = format!("{} is more than {DEPTH_MAX} directories deep", directory.display());
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    for name in look.list(directory)? {
        let path = directory.join(name);
        // It may have gone since it was listed.
        let Some(meta) = look.stat(&path)? else { continue };
        visit(&path, &meta)?;
        if meta.sort == Sort::Directory {
            walk_down(look, &path, visit, depth + 1)?;
        }
    }
    Ok(())
}
