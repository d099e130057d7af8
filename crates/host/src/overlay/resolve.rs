//! Where a path leads when some of it lies in the overlay and some below.

use super::{Attributes, Content, Entry};
use crate::fault::{Fault, FaultKind};
use crate::files::{HostRead, Meta, Sort};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// Links one path may lead through; the kernel's own number.
const LINKS_MAX: usize = 40;

/// Something that is there.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Above(Entry),
    Below(Meta),
}

/// A path with all links in it followed, and what stands there. Its parent is there and a directory.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) found: Option<Found>,
}

impl Place {
    pub(super) fn sort(&self) -> Option<Sort> {
        self.found.as_ref().map(|found| found.meta().sort)
    }
}

impl Found {
    pub(super) fn meta(&self) -> Meta {
        match self {
            Found::Below(meta) => meta.clone(),
            Found::Above(Entry::Dir { attributes, .. }) => attributes.meta(Sort::Directory, 0),
            Found::Above(Entry::Link { attributes, target }) => {
                attributes.meta(Sort::Link, target.as_os_str().len() as u64)
            }
            Found::Above(Entry::File { attributes, content }) => {
                let size = match content {
                    Content::Own(bytes) => bytes.len() as u64,
                    Content::Below(_, size) => *size,
                };
                attributes.meta(Sort::File, size)
            }
            Found::Above(Entry::Special { attributes, special }) => {
                attributes.meta(Sort::Special(*special), 0)
            }
            // `find` never hands these out; a harmless answer keeps this free of panics.
            Found::Above(Entry::Gone) => {
                Attributes::new(0, crate::files::Owner { uid: 0, gid: 0 }).meta(Sort::File, 0)
            }
        }
    }

    pub(super) fn into_entry(self, below: &dyn HostRead, path: &Path) -> Result<Entry, Fault> {
        let meta = match self {
            Found::Above(entry) => return Ok(entry),
            Found::Below(meta) => meta,
        };
        let attributes = Attributes::of(&meta, below.xattrs(path)?);
        Ok(match meta.sort {
            Sort::Directory => Entry::Dir { attributes, opaque: false },
            Sort::File => Entry::File { attributes, content: Content::Below(path.to_path_buf(), meta.size) },
            Sort::Link => Entry::Link { attributes, target: below.read_link(path)? },
            Sort::Special(special) => Entry::Special { attributes, special },
        })
    }
}

type Entries = BTreeMap<PathBuf, Entry>;

/// What stands at a path whose links are all followed.
fn find(below: &dyn HostRead, entries: &Entries, path: &Path) -> Result<Option<Found>, Fault> {
    match entries.get(path) {
        Some(Entry::Gone) => return Ok(None),
        Some(entry) => return Ok(Some(Found::Above(entry.clone()))),
        None => {}
    }
    let hidden = path.ancestors().skip(1).any(|above| {
        matches!(
            entries.get(above),
            Some(Entry::Gone | Entry::Dir { opaque: true, .. } | Entry::File { .. } | Entry::Special { .. })
        )
    });
    if hidden {
        return Ok(None);
    }
    Ok(below.stat(path)?.map(Found::Below))
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
    below: &dyn HostRead,
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
        let found = find(below, entries, &next)?;
        let sort = found.as_ref().map(|found| found.meta().sort);
        match sort {
            Some(Sort::Link) if !last || follow => {
                links += 1;
                if links > LINKS_MAX {
                    let message =
                        format!("cannot look at {}: too many levels of symbolic links", path.display());
                    return Err(Fault::new(FaultKind::Io, message));
                }
                let target = match found {
                    Some(Found::Above(Entry::Link { target, .. })) => target,
                    _ => below.read_link(&next)?,
                };
                if target.is_absolute() {
                    here = PathBuf::from("/");
                }
                for step in steps(&target).rev() {
                    rest.push_front(step);
                }
            }
            _ if last => return Ok(Some(Place { path: next, found })),
            Some(Sort::Directory) => here = next,
            _ => return Ok(None),
        }
    }
    let found = find(below, entries, &here)?;
    Ok(Some(Place { path: here, found }))
}
