//! Where a path leads when some of it lies in the overlay and some below.

use super::{Attributes, Content, UpperEntry};
use crate::fault::{Fault, FaultKind};
use crate::files::{FileKind, HostRead, Meta};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links one path may lead through; the kernel's own number.
const LINKS_MAX: usize = 40;

/// Something that is there.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Upper(UpperEntry),
    Lower(Meta),
}

/// A path with all links in it followed, and what stands there. Its parent is there and a directory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) found: Option<Layer>,
}

impl Place {
    pub(super) fn kind(&self) -> Option<FileKind> {
        self.found.as_ref().map(|found| found.meta().kind)
    }
}

impl Layer {
    pub(super) fn meta(&self) -> Meta {
        match self {
            Layer::Lower(meta) => meta.clone(),
            Layer::Upper(UpperEntry::Dir { attributes, .. }) => attributes.meta(FileKind::Directory, 0),
            Layer::Upper(UpperEntry::Link { attributes, target }) => {
                attributes.meta(FileKind::Link, target.as_os_str().len() as u64)
            }
            Layer::Upper(UpperEntry::File { attributes, content }) => {
                let size = match content {
                    Content::Own(bytes) => bytes.len() as u64,
                    Content::Lower(_, size) => *size,
                    Content::Unknown => 0,
                };
                attributes.meta(FileKind::File, size)
            }
            Layer::Upper(UpperEntry::Special { attributes, special }) => {
                attributes.meta(FileKind::Special(*special), 0)
            }
            // `find` never hands these out; a harmless answer keeps this free of panics.
            Layer::Upper(UpperEntry::Whiteout) => {
                Attributes::new(0, crate::files::Owner { uid: 0, gid: 0 }).meta(FileKind::File, 0)
            }
        }
    }

    pub(super) fn into_entry(self, lower: &dyn HostRead, path: &Path) -> Result<UpperEntry, Fault> {
        let meta = match self {
            Layer::Upper(entry) => return Ok(entry),
            Layer::Lower(meta) => meta,
        };
        let attributes = Attributes::of(&meta, lower.xattrs(path)?);
        Ok(match meta.kind {
            FileKind::Directory => UpperEntry::Dir { attributes, opaque: false },
            FileKind::File => {
                UpperEntry::File { attributes, content: Content::Lower(path.to_path_buf(), meta.size) }
            }
            FileKind::Link => UpperEntry::Link { attributes, target: lower.read_link(path)? },
            FileKind::Special(special) => UpperEntry::Special { attributes, special },
        })
    }
}

type Entries = BTreeMap<PathBuf, UpperEntry>;

/// What stands at a path whose links are all followed.
fn find(lower: &dyn HostRead, entries: &Entries, path: &Path) -> Result<Option<Layer>, Fault> {
    match entries.get(path) {
        Some(UpperEntry::Whiteout) => return Ok(None),
        Some(entry) => return Ok(Some(Layer::Upper(entry.clone()))),
        None => {}
    }
    let hidden = path.ancestors().skip(1).any(|ancestor| {
        matches!(
            entries.get(ancestor),
            Some(
                UpperEntry::Whiteout
                    | UpperEntry::Dir { opaque: true, .. }
                    | UpperEntry::File { .. }
                    | UpperEntry::Special { .. }
            )
        )
    });
    if hidden {
        return Ok(None);
    }
    Ok(lower.stat(path)?.map(Layer::Lower))
}

fn steps(path: &Path) -> impl DoubleEndedIterator<Item = OsString> + '_ {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name.to_os_string()),
        Component::ParentDir => Some("..".into()),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    })
}

/// Walks a path. `None` where a parent is missing or is no directory; a [`Place`] with nothing found where
/// only the last name is missing.
pub(super) fn resolve(
    lower: &dyn HostRead,
    entries: &Entries,
    path: &Path,
    follow: bool,
) -> Result<Option<Place>, Fault> {
    let mut rest: VecDeque<OsString> = steps(path).collect();
    let mut here = PathBuf::from("/");
    let mut links = 0;
    while let Some(step) = rest.pop_front() {
        if step == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&step);
        let last = rest.is_empty();
        let found = find(lower, entries, &next)?;
        let kind = found.as_ref().map(|found| found.meta().kind);
        match kind {
            Some(FileKind::Link) if !last || follow => {
                links += 1;
                if links > LINKS_MAX {
                    let message =
                        format!("cannot look at {}: too many levels of symbolic links", path.display());
                    return Err(Fault::new(FaultKind::Io, message));
                }
                let target = match found {
                    Some(Layer::Upper(UpperEntry::Link { target, .. })) => target,
                    _ => lower.read_link(&next)?,
                };
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                for step in steps(&target).rev() {
                    rest.push_front(step);
                }
            }
            _ if last => return Ok(Some(Place { path: next, found })),
            Some(FileKind::Directory) => here = next,
            _ => return Ok(None),
        }
    }
    let found = find(lower, entries, &here)?;
    Ok(Some(Place { path: here, found }))
}
