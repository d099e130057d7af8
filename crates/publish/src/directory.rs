//! A tree on this machine's disk, as a publisher sees it: every file below a directory, by hash.

use crate::error::Error;
use crate::limits::{DEPTH_MAX, FILE_BYTES_MAX, FILES_MAX, PART_BYTES, TREE_BYTES_MAX};
use crate::publisher::{Content, Reading};
use crate::tree::{Tree, TreeFile, TreePath};
use std::collections::BTreeSet;
use std::fmt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use zester_wire::ContentHash;

/// Directories of version control, which are no part of what they keep.
const NOT_PUBLISHED: [&str; 3] = [".git", ".hg", ".svn"];

/// A directory that was looked through.
#[derive(Clone, Debug)]
pub struct Directory {
    root: PathBuf,
    pub tree: Tree,
}

/// Everything that keeps a directory from being published, by name (D-5).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryError(pub Vec<String>);

impl fmt::Display for DirectoryError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0.join("\n"))
    }
}

impl std::error::Error for DirectoryError {}

struct Walk {
    /// The real path of the root, which no link leads out of.
    real: PathBuf,
    tree: Tree,
    bytes: u64,
    problems: BTreeSet<String>,
}

impl Directory {
    /// A directory whose files somebody has just written.
    pub(crate) fn of(root: &Path, tree: Tree) -> Directory {
        Directory { root: root.into(), tree }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Looks through a directory. Blocks. One that is not there is empty.
    pub fn read(root: &Path) -> Result<Directory, DirectoryError> {
        let failed = |error: std::io::Error| DirectoryError(vec![format!("{}: {error}", root.display())]);
        let real = match root.canonicalize() {
            Ok(real) => real,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Directory { root: root.into(), tree: Tree::default() });
            }
            Err(error) => return Err(failed(error)),
        };
        let mut walk =
            Walk { real: real.clone(), tree: Tree::default(), bytes: 0, problems: BTreeSet::new() };
        walk.enter(&real, "", 0);
        if walk.tree.files.len() > FILES_MAX {
            walk.problems.insert(format!("{}: more than {FILES_MAX} files", root.display()));
        }
        if walk.bytes > TREE_BYTES_MAX {
            walk.problems.insert(format!("{}: more than {TREE_BYTES_MAX} bytes in all", root.display()));
        }
        match walk.problems.is_empty() {
            true => Ok(Directory { root: real, tree: walk.tree }),
            false => Err(DirectoryError(walk.problems.into_iter().collect())),
        }
    }

    /// Its files, laid over those of another tree. An empty one stays empty: it must not pass for a tree that replaces one (D-2).
    pub fn over(self, mut under: Tree, content: Arc<dyn Content>) -> (Tree, Arc<dyn Content>) {
        if under.is_empty() {
            return (under, content);
        }
        under.files.extend(self.tree.files.clone());
        (under, Arc::new(Layers { over: self, under: content }))
    }
}

/// Contents of which some lie over the others.
struct Layers {
    over: Directory,
    under: Arc<dyn Content>,
}

impl Content for Layers {
    fn read<'a>(&'a self, path: &'a TreePath) -> Reading<'a> {
        match self.over.tree.files.contains_key(path) {
            true => self.over.read(path),
            false => self.under.read(path),
        }
    }
}

impl Walk {
    fn problem(&mut self, below: &str, why: impl fmt::Display) {
        self.problems.insert(format!("{below}: {why}"));
    }

    fn enter(&mut self, directory: &Path, below: &str, depth: usize) {
        if depth > DEPTH_MAX || self.tree.files.len() > FILES_MAX {
            return self.problem(below, format_args!("nested more than {DEPTH_MAX} directories deep"));
        }
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.problem(below, error),
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.problem(below, error),
            };
            let Ok(name) = entry.file_name().into_string() else {
                let name = entry.file_name();
                self.problem(below, format_args!("{} is not UTF-8", name.to_string_lossy()));
                continue;
            };
            if NOT_PUBLISHED.contains(&name.as_str()) {
                continue;
            }
            let below = if below.is_empty() { name } else { format!("{below}/{name}") };
            self.one(&entry.path(), below, depth);
        }
    }

    /// Links are followed, but never out of the tree.
    fn one(&mut self, path: &Path, below: String, depth: usize) {
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) => return self.problem(&below, error),
        };
        if !real.starts_with(&self.real) {
            return self.problem(&below, "it is a link that leads out of the tree");
        }
        match std::fs::metadata(&real) {
            Ok(found) if found.is_dir() => self.enter(&real, &below, depth + 1),
            Ok(found) if found.is_file() => self.file(&real, below, &found),
            Ok(_) => self.problem(&below, "it is neither a file nor a directory"),
            Err(error) => self.problem(&below, error),
        }
    }

    fn file(&mut self, path: &Path, below: String, found: &std::fs::Metadata) {
        if found.len() > FILE_BYTES_MAX {
            let (size, most) = (found.len(), FILE_BYTES_MAX);
            return self
                .problem(&below, format_args!("{size} bytes; a file of at most {most} can be published"));
        }
        let name = match TreePath::parse(&below) {
            Ok(name) => name,
            Err(bad) => return self.problem(&below, bad),
        };
        let content = match std::fs::read(path) {
            Ok(content) => content,
            Err(error) => return self.problem(&below, error),
        };
        self.bytes = self.bytes.saturating_add(content.len() as u64);
        if self.bytes <= TREE_BYTES_MAX {
            self.tree.files.insert(name, file_of(&content, found.permissions().mode() & 0o777));
        }
    }
}

/// How a content stands in a tree.
pub fn file_of(content: &[u8], mode: u32) -> TreeFile {
    let parts = match content.len() > PART_BYTES {
        true => content.chunks(PART_BYTES).map(ContentHash::of).collect(),
        false => Vec::new(),
    };
    TreeFile { hash: ContentHash::of(content), size: content.len() as u64, mode, parts }
}

impl Content for Directory {
    fn read<'a>(&'a self, path: &'a TreePath) -> Reading<'a> {
        let file = self.root.join(path.as_str());
        Box::pin(async move {
            let read = tokio::task::spawn_blocking(move || std::fs::read(file)).await;
            match read {
                Ok(Ok(content)) => Ok(content),
                // It was there a moment ago.
                _ => Err(Error::Changed(path.clone())),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use zester_rule::rule;

    fn names(directory: &Directory) -> Vec<&str> {
        directory.tree.files.keys().map(TreePath::as_str).collect()
    }

    #[test]
    #[rule("D-1")]
    fn d1_any_name_is_published() {
        let root = tempfile::tempdir().unwrap();
        let long = "n".repeat(200);
        let wanted = [".hidden", "a b/c d.zy", "ünïcode.zy", long.as_str(), "top.zy"];
        std::fs::create_dir(root.path().join("a b")).unwrap();
        std::fs::create_dir(root.path().join(".git")).unwrap();
        std::fs::write(root.path().join(".git/config"), "x").unwrap();
        for name in wanted {
            std::fs::write(root.path().join(name), name).unwrap();
        }
        let directory = Directory::read(root.path()).unwrap();
        let mut expected = wanted.to_vec();
        expected.sort_unstable();
        assert_eq!(names(&directory), expected);
        assert_eq!(directory.tree.bytes(), wanted.iter().map(|name| name.len() as u64).sum::<u64>());
    }

    #[test]
    #[rule("D-5")]
    fn d5_what_cannot_be_published_is_refused_by_name_all_at_once() {
        let root = tempfile::tempdir().unwrap();
        symlink("/etc/hostname", root.path().join("out")).unwrap();
        symlink("nowhere", root.path().join("dangling")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            root.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let large = std::fs::File::create(root.path().join("large")).unwrap();
        large.set_len(FILE_BYTES_MAX + 1).unwrap();
        let DirectoryError(problems) = Directory::read(root.path()).unwrap_err();
        for name in ["out", "dangling", "pipe", "large"] {
            assert!(problems.iter().any(|problem| problem.starts_with(name)), "{name}: {problems:?}");
        }
    }

    #[test]
    fn links_inside_the_tree_are_followed_and_a_circle_ends() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("a.zy"), "x").unwrap();
        symlink("a.zy", root.path().join("b.zy")).unwrap();
        assert_eq!(names(&Directory::read(root.path()).unwrap()), ["a.zy", "b.zy"]);
        symlink(".", root.path().join("self")).unwrap();
        assert!(Directory::read(root.path()).is_err());
    }

    #[test]
    #[rule("D-5")]
    fn d5_a_large_file_is_stored_in_parts() {
        let content = vec![7; PART_BYTES * 2 + 1];
        let file = file_of(&content, 0o644);
        assert_eq!((file.parts.len(), file.size), (3, content.len() as u64));
        assert_eq!(file.parts[0], file.parts[1]);
    }

    #[tokio::test]
    #[rule("D-6")]
    async fn d6_another_directory_lies_over_it_and_alone_is_nothing() {
        let (root, over) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir(over.path().join("_ext")).unwrap();
        std::fs::write(over.path().join("_ext/web-1.zy"), "ext").unwrap();
        let both = || {
            let under = Directory::read(root.path()).unwrap();
            Directory::read(over.path()).unwrap().over(under.tree.clone(), Arc::new(under))
        };
        assert!(both().0.is_empty());
        std::fs::write(root.path().join("top.zy"), "top").unwrap();
        let (tree, both) = both();
        assert_eq!(tree.files.keys().map(TreePath::as_str).collect::<Vec<_>>(), ["_ext/web-1.zy", "top.zy"]);
        for (name, content) in [("_ext/web-1.zy", "ext"), ("top.zy", "top")] {
            let path = TreePath::parse(name).unwrap();
            assert_eq!(both.read(&path).await.unwrap(), content.as_bytes());
        }
    }

    #[test]
    fn a_directory_that_is_not_there_is_empty() {
        assert!(Directory::read(Path::new("/nonexistent/states")).unwrap().tree.is_empty());
    }
}
