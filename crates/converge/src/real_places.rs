//! Where the paths of a run really are, links followed.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use zester_host::{Fault, FileKind, HostRead, Names};

/// How many links at the end of a path are followed, one to the next: what the system itself does.
const LINKS_MAX: usize = 40;

/// From how many questions about one directory on it is read as a whole, which costs as much as a few of them.
const LISTED_FROM: usize = 32;
/// A directory that holds more names is asked for each.
const NAMES_MAX: usize = 4096;

/// Remembers each directory: many paths of a run lie in few of them.
pub struct RealPlaces<'a> {
    host: &'a dyn HostRead,
    directories: RefCell<HashMap<PathBuf, Directory>>,
}

struct Directory {
    real: PathBuf,
    asked: usize,
    /// The names in it that are links, where they are known.
    links: Option<Names>,
}

impl<'a> RealPlaces<'a> {
    pub fn on(host: &'a dyn HostRead) -> RealPlaces<'a> {
        RealPlaces { host, directories: RefCell::default() }
    }

    /// `follows`: a link at the end of the path as well. The path itself where that cannot be told: its state says why.
    pub fn of(&self, path: &Path, follows: bool) -> PathBuf {
        let real = self.in_its_directory(path);
        let real = real.and_then(|(real, may_be_link)| match follows && may_be_link {
            true => self.behind(real, &mut |_| {}),
            false => Ok(real),
        });
        real.unwrap_or_else(|_| path.to_path_buf())
    }

    /// All that the path stands on: its own name, where that really is, and with `follows` each link at its end and the thing
    /// itself. As far as it can be told: its state says why it cannot.
    pub fn names(&self, path: &Path, follows: bool) -> Vec<PathBuf> {
        let mut names = vec![path.to_path_buf()];
        let Ok((real, may_be_link)) = self.in_its_directory(path) else { return names };
        names.push(real.clone());
        if follows && may_be_link {
            let _its_state_says_why = self.behind(real, &mut |next| names.push(next.to_path_buf()));
        }
        names
    }

    /// The path in the real directory, and whether it may be a link there.
    fn in_its_directory(&self, path: &Path) -> Result<(PathBuf, bool), Fault> {
        let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
            return Ok((self.host.real_path(path)?, true));
        };
        let mut directories = self.directories.borrow_mut();
        if let Some(known) = directories.get_mut(directory) {
            known.asked += 1;
            if known.asked == LISTED_FROM {
                // Where that fails, each is asked for and says why.
                known.links = self.host.links_in(&known.real, NAMES_MAX).unwrap_or_default();
            }
            let may_be_link = known.links.as_ref().is_none_or(|links| links.contains(name));
            return Ok((known.real.join(name), may_be_link));
        }
        let whole = self.host.real_path(path)?;
        if let Some(real) = whole.parent() {
            let known = Directory { real: real.to_path_buf(), asked: 1, links: None };
            directories.insert(directory.to_path_buf(), known);
        }
        Ok((whole, true))
    }

    /// The thing itself, where links stand at the end of a path. `passing` hears where each leads.
    fn behind(&self, mut path: PathBuf, passing: &mut dyn FnMut(&Path)) -> Result<PathBuf, Fault> {
        for _ in 0..LINKS_MAX {
            if self.host.stat(&path)?.is_none_or(|meta| meta.kind != FileKind::Link) {
                break;
            }
            let target = self.host.read_link(&path)?;
            let target = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
            path = self.host.real_path(&target)?;
            passing(&path);
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use zester_rule::rule;

    #[test]
    #[rule("S-57")]
    fn s57_a_link_is_followed_however_many_paths_lie_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        std::fs::create_dir(top.join("d")).unwrap();
        symlink("d", top.join("way")).unwrap();
        for name in ["file", "other"] {
            std::fs::write(top.join("d").join(name), "x").unwrap();
        }
        symlink("file", top.join("d/link")).unwrap();
        let host = zester_host::real::Real::new();
        let places = RealPlaces::on(&host);
        for round in 0..2 * LISTED_FROM {
            for (asked, followed) in [("way/link", "d/file"), ("d/other", "d/other"), ("d/none", "d/none")] {
                assert_eq!(places.of(&top.join(asked), true), top.join(followed), "{round}");
            }
            assert_eq!(places.of(&top.join("way/link"), false), top.join("d/link"), "{round}");
        }
    }
}
