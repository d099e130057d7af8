//! A tree of files as a value: what stands where, by hash. No content, no disk.

use crate::limits::{DEPTH_MAX, NAME_BYTES_MAX, PATH_BYTES_MAX};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use zester_wire::ContentHash;

/// A path that stays below the root it is put under (D-3).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TreePath(Arc<str>);

/// Why a text is no path of a tree.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BadPath(pub &'static str);

impl fmt::Display for BadPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for BadPath {}

impl TreePath {
    pub fn parse(text: &str) -> Result<TreePath, BadPath> {
        if text.is_empty() {
            return Err(BadPath("it is empty"));
        }
        if text.len() > PATH_BYTES_MAX {
            return Err(BadPath("it is longer than 1024 bytes"));
        }
        if text.contains('\0') {
            return Err(BadPath("it holds a NUL"));
        }
        let names = text.split('/');
        if names.clone().count() > DEPTH_MAX {
            return Err(BadPath("it nests more than 64 directories"));
        }
        for name in names {
            match name {
                "" => return Err(BadPath("it holds an empty name, or begins with a slash")),
                "." | ".." => return Err(BadPath("it leads out of the tree")),
                name if name.len() > NAME_BYTES_MAX => {
                    return Err(BadPath("it holds a name of more than 255 bytes"));
                }
                _ => {}
            }
        }
        Ok(TreePath(text.into()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TreePath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeFile {
    pub hash: ContentHash,
    pub size: u64,
    /// Permission bits.
    pub mode: u32,
    /// The contents that it is stored as, in order: its own, or its parts.
    pub parts: Vec<ContentHash>,
}

impl TreeFile {
    /// The contents that make up the file, in order.
    pub fn contents(&self) -> &[ContentHash] {
        if self.parts.is_empty() { std::slice::from_ref(&self.hash) } else { &self.parts }
    }
}

/// All files of a tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    pub files: BTreeMap<TreePath, TreeFile>,
}

impl Tree {
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    pub fn bytes(&self) -> u64 {
        self.files.values().fold(0, |sum, file| sum.saturating_add(file.size))
    }

    /// Every content that a reader needs.
    pub fn contents(&self) -> impl Iterator<Item = &ContentHash> {
        self.files.values().flat_map(TreeFile::contents)
    }

    /// A name that is a file in one place and a directory in another cannot be put on a disk.
    pub fn clash(&self) -> Option<&TreePath> {
        self.files.keys().find(|path| {
            let below = format!("{path}/");
            let next = self.files.range(TreePath(below.as_str().into())..).next();
            next.is_some_and(|(next, _)| next.as_str().starts_with(&below))
        })
    }

    /// What a reader of `before` sees change.
    pub fn since(&self, before: &Tree) -> TreeDiff {
        let mut diff = TreeDiff::default();
        for (path, file) in &self.files {
            match before.files.get(path) {
                None => diff.added.push(path.clone()),
                Some(old) if old != file => diff.changed.push(path.clone()),
                Some(_) => {}
            }
        }
        diff.removed = before.files.keys().filter(|path| !self.files.contains_key(path)).cloned().collect();
        diff
    }
}

/// How two trees differ, by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TreeDiff {
    pub added: Vec<TreePath>,
    pub changed: Vec<TreePath>,
    pub removed: Vec<TreePath>,
}

impl TreeDiff {
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.changed.is_empty() && self.removed.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-3", "I-11")]
    fn d3_no_path_leads_out_of_its_tree() {
        let long = format!("a/{}", "x".repeat(255));
        for good in ["web/init.zy", ".hidden", "with blanks/ü.txt", "-rf", "a..b", long.as_str()] {
            assert!(TreePath::parse(good).is_ok(), "{good}");
        }
        let (name, path) = ("x".repeat(256), "x/".repeat(600));
        for bad in
            ["", "/etc/passwd", "..", "a/../b", "a//b", "a/", "./a", "a\0b", name.as_str(), path.as_str()]
        {
            assert!(TreePath::parse(bad).is_err(), "{bad}");
        }
    }

    fn file(text: &str) -> TreeFile {
        TreeFile { hash: ContentHash::of(text.as_bytes()), size: 1, mode: 0o644, parts: Vec::new() }
    }

    fn tree(files: &[(&str, &str)]) -> Tree {
        let pairs = files.iter().map(|(path, text)| (TreePath::parse(path).unwrap(), file(text)));
        Tree { files: pairs.collect() }
    }

    #[test]
    fn what_changed_is_named() {
        let before = tree(&[("a", "1"), ("b", "1"), ("c", "1")]);
        let after = tree(&[("a", "1"), ("b", "2"), ("d", "1")]);
        let diff = after.since(&before);
        let names = |paths: &[TreePath]| paths.iter().map(TreePath::to_string).collect::<Vec<_>>();
        assert_eq!(names(&diff.added), ["d"]);
        assert_eq!(names(&diff.changed), ["b"]);
        assert_eq!(names(&diff.removed), ["c"]);
        assert!(before.since(&before).is_empty());
    }

    #[test]
    fn a_file_that_is_a_directory_elsewhere_is_found() {
        assert_eq!(tree(&[("a", "1"), ("a-b", "1"), ("a/b", "1")]).clash().unwrap().as_str(), "a");
        assert_eq!(tree(&[("a", "1"), ("a-b", "1"), ("ab/c", "1")]).clash(), None);
    }
}
