//! Walking what is inside a directory, and along links.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use zester_host::{Fault, FaultKind, FileKind, HostRead, Meta};

/// Directories inside directories; deeper is surely a mistake, and the stack is not endless.
const DEPTH_MAX: usize = 256;

/// Links one path may lead through; the kernel's own number.
const LINKS_MAX: usize = 40;

/// Looks at a path as its user names it. Where something differs, it is looked at again behind all links
/// inside the path, because only that place will be acted on.
pub(crate) fn real_path_now<T>(
    host: &dyn HostRead,
    path: &Path,
    at: impl Fn(&Path) -> Result<Option<T>, Fault>,
) -> Result<Option<T>, Fault> {
    let Some(found) = at(path)? else { return Ok(None) };
    if host.real_path(path)? == path { Ok(Some(found)) } else { at(&followed(host, path, false)?) }
}

/// A path out of a record, as it has to be acted on now: since then a directory on the way may have been moved, and a
/// link left in its place.
pub(crate) fn resolve_again(host: &dyn HostRead, path: &Path) -> Result<PathBuf, Fault> {
    if host.real_path(path)? == path {
        return Ok(path.to_path_buf());
    }
    followed(host, path, false).map_err(|fault| match fault.kind {
        FaultKind::InTheWay => fault.hint(
            "root does not follow it; put the directory back, or give the link to root, and revert again",
        ),
        _ => fault,
    })
}

/// The thing itself behind a path, if a link stands there; the path itself otherwise.
pub(crate) fn behind_links(host: &dyn HostRead, path: &Path) -> Result<PathBuf, Fault> {
    match host.stat(path)? {
        Some(meta) if meta.kind == FileKind::Link => followed(host, path, true),
        _ => Ok(path.to_path_buf()),
    }
}

/// What is still to be walked.
enum Ahead {
    Name(OsString),
    /// All that the link of this user led through is walked: what is reached must be theirs.
    EndOfLink {
        link: PathBuf,
        uid: u32,
    },
}

/// Follows the links inside a path, and with `last` the one at its end.
///
/// Where root acts, a link that another user made is followed only to what belongs to that user. Otherwise
/// whoever owns a directory could lead root to any place of the machine: `~/.ssh` to `/root/.ssh`.
fn followed(host: &dyn HostRead, path: &Path, last: bool) -> Result<PathBuf, Fault> {
    let root = host.me().uid == 0;
    let mut ahead: VecDeque<Ahead> = names(path).collect();
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(next) = ahead.pop_front() {
        let name = match next {
            Ahead::EndOfLink { link, uid } => {
                refuse_strange_ground(host, &here, &link, uid)?;
                continue;
            }
            Ahead::Name(name) if name == ".." => {
                here.pop();
                continue;
            }
            Ahead::Name(name) => name,
        };
        here.push(name);
        let at_end = !ahead.iter().any(|next| matches!(next, Ahead::Name(_)));
        let Some(meta) = host.stat(&here)?.filter(|meta| meta.kind == FileKind::Link && (last || !at_end))
        else {
            continue;
        };
        links += 1;
        if links > LINKS_MAX {
            return Err(Fault::new(FaultKind::Io, format!("too many links behind {}", path.display())));
        }
        let target = host.read_link(&here)?;
        if root && meta.uid != 0 {
            ahead.push_front(Ahead::EndOfLink { link: here.clone(), uid: meta.uid });
        }
        here.pop();
        if target.is_absolute() {
            here = PathBuf::from("/");
        }
        names(&target).rev().for_each(|name| ahead.push_front(name));
    }
    Ok(here)
}

fn names(path: &Path) -> impl DoubleEndedIterator<Item = Ahead> + '_ {
    path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(Ahead::Name(name.to_os_string())),
        Component::ParentDir => Some(Ahead::Name("..".into())),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Theirs is what belongs to them, and a file in a directory that does; of what is missing, the nearest directory
/// counts.
fn refuse_strange_ground(host: &dyn HostRead, here: &Path, link: &Path, uid: u32) -> Result<(), Fault> {
    for above in here.ancestors() {
        match host.stat(above)? {
            Some(meta) if meta.uid == uid => return Ok(()),
            Some(meta) if meta.kind == FileKind::Directory => break,
            Some(_) | None => {}
        }
    }
    let message = format!(
        "{} is a link of user {uid} that leads to {}, which is not theirs",
        link.display(),
        here.display()
    );
    let hint = "root does not follow it; name the place itself, or give the link to root";
    Err(Fault::new(FaultKind::InTheWay, message).hint(hint))
}

/// Called for one thing, with the host to look at it through.
type Visit<'a> = dyn FnMut(&dyn HostRead, &Path, &Meta) -> Result<(), Fault> + 'a;

/// Called for a directory that belongs to another file system.
type Mounted<'a> = dyn FnMut(&Path) -> Result<(), Fault> + 'a;

/// Calls for everything inside, parents before children. No link is followed, not even one that takes the place
/// of a directory meanwhile: what is inside may be somebody else's. What is mounted inside is not entered, and `mounted`
/// is called in its stead.
pub(crate) fn walk(
    host: &dyn HostRead,
    directory: &Path,
    visit: &mut Visit<'_>,
    mounted: &mut Mounted<'_>,
) -> Result<(), Fault> {
    walk_down(host.without_links(), &host.real_path(directory)?, visit, mounted, 0)
}

fn walk_down(
    host: &dyn HostRead,
    directory: &Path,
    visit: &mut Visit<'_>,
    mounted: &mut Mounted<'_>,
    depth: usize,
) -> Result<(), Fault> {
    if depth > DEPTH_MAX {
        let message = format!("{} is more than {DEPTH_MAX} directories deep", directory.display());
        return Err(Fault::new(FaultKind::Unsupported, message));
    }
    for name in host.list(directory)? {
        let path = directory.join(name);
        // It may have gone since it was listed.
        let Some(meta) = host.stat(&path)? else { continue };
        let enters = meta.kind == FileKind::Directory;
        if enters && host.is_mount_point(&path)? {
            mounted(&path)?;
            continue;
        }
        visit(host, &path, &meta)?;
        if enters {
            walk_down(host, &path, visit, mounted, depth + 1)?;
        }
    }
    Ok(())
}
