//! The list of a tree's files, as pages that are content themselves: a change of one file changes one page.

use crate::error::Error;
use crate::limits::{FILES_MAX, PAGE_FILES, PAGES_MAX};
use crate::tree::{Tree, TreeFile, TreePath};
use std::collections::BTreeMap;
use zester_wire::{ContentHash, Manifest, ManifestPage, PublishedFile, VERSION, decode, encode};

/// The pages of a tree, by the hash of their bytes.
#[derive(Clone, Debug)]
pub struct Pages {
    pub order: Vec<ContentHash>,
    pub bytes: BTreeMap<ContentHash, Vec<u8>>,
    pub root: ContentHash,
}

impl Pages {
    /// The same tree has the same pages, whoever makes them.
    pub fn of(tree: &Tree) -> Result<Pages, Error> {
        // A path belongs to a page by its hash, so that a new file moves no other one to another page.
        let count = tree.files.len().div_ceil(PAGE_FILES).max(1).next_power_of_two();
        let mut pages = vec![Vec::new(); count];
        for (path, file) in &tree.files {
            let place = place_of(path) % count;
            if let Some(page) = pages.get_mut(place) {
                page.push(PublishedFile {
                    path: path.to_string(),
                    hash: file.hash.clone(),
                    size: file.size,
                    mode: file.mode,
                    parts: file.parts.clone(),
                });
            }
        }
        let (mut order, mut bytes) = (Vec::with_capacity(count), BTreeMap::new());
        for files in pages {
            let page = encode(&ManifestPage { v: VERSION, files });
            let page = page.map_err(|error| Error::Torn(error.to_string()))?;
            let hash = ContentHash::of(&page);
            order.push(hash.clone());
            bytes.insert(hash, page);
        }
        Ok(Pages { root: Manifest::root_of(&order), order, bytes })
    }
}

fn place_of(path: &TreePath) -> usize {
    let hash = ContentHash::of(path.as_str().as_bytes());
    usize::from_str_radix(hash.as_str().get(..8).unwrap_or("0"), 16).unwrap_or(0)
}

/// The tree that a manifest lists, from its pages. Nothing is believed that the root does not cover, and no path leads out.
pub fn tree_of(manifest: &Manifest, pages: &[Vec<u8>]) -> Result<Tree, Error> {
    if Manifest::root_of(&manifest.pages) != manifest.root {
        return Err(Error::Torn("the manifest does not fit its own root".into()));
    }
    tree_of_pages(&manifest.pages, pages)
}

/// The same of pages that somebody names by their hashes.
pub(crate) fn tree_of_pages(order: &[ContentHash], pages: &[Vec<u8>]) -> Result<Tree, Error> {
    if pages.len() != order.len() {
        return Err(Error::Torn("a page of the manifest is missing".into()));
    }
    if order.len() > PAGES_MAX {
        return Err(Error::Torn(format!("the manifest has more than {PAGES_MAX} pages")));
    }
    let mut tree = Tree::default();
    for (hash, bytes) in order.iter().zip(pages) {
        if !hash.is_of(bytes) {
            return Err(Error::tampered(hash));
        }
        let page: ManifestPage =
            decode(bytes).map_err(|error| Error::Torn(format!("a page of the manifest: {error}")))?;
        for PublishedFile { path, hash, size, mode, parts } in page.files {
            let refused =
                |why: &dyn std::fmt::Display| Error::Torn(format!("the path {path:?} is refused: {why}"));
            let name = TreePath::parse(&path).map_err(|bad| refused(&bad))?;
            let mode = mode & 0o777;
            if tree.files.insert(name, TreeFile { hash, size, mode, parts }).is_some() {
                return Err(refused(&"it is listed twice"));
            }
        }
        if tree.files.len() > FILES_MAX {
            return Err(Error::Torn(format!("it lists more than {FILES_MAX} files")));
        }
    }
    if let Some(path) = tree.clash() {
        return Err(Error::Torn(format!("{path} is a file and a directory")));
    }
    Ok(tree)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;
    use zester_wire::{MasterId, UnixMillis};

    fn tree(count: usize) -> Tree {
        let file = |index: usize| {
            let hash = ContentHash::of(&index.to_le_bytes());
            let path = TreePath::parse(&format!("dir-{}/file {index}", index % 7)).unwrap();
            (path, TreeFile { hash, size: 8, mode: 0o644, parts: Vec::new() })
        };
        Tree { files: (0..count).map(file).collect() }
    }

    fn manifest(pages: &Pages) -> Manifest {
        Manifest {
            v: VERSION,
            revision: 1,
            root: pages.root.clone(),
            pages: pages.order.clone(),
            files: 0,
            bytes: 0,
            published: UnixMillis(0),
            master: MasterId::parse("m1.boot").unwrap(),
            user: String::new(),
            source: String::new(),
            commit: String::new(),
            rollback_of: None,
            uploaded: false,
        }
    }

    fn bytes(pages: &Pages) -> Vec<Vec<u8>> {
        pages.order.iter().map(|hash| pages.bytes[hash].clone()).collect()
    }

    #[test]
    #[rule("D-1")]
    fn d1_a_tree_survives_its_pages_and_one_change_changes_one_of_them() {
        for count in [0, 1, PAGE_FILES, 5_000] {
            let tree = tree(count);
            let pages = Pages::of(&tree).unwrap();
            assert_eq!(tree_of(&manifest(&pages), &bytes(&pages)).unwrap(), tree);
        }
        let (before, mut after) = (tree(5_000), tree(5_000));
        after.files.values_mut().next().unwrap().hash = ContentHash::of(b"new");
        let (before, after) = (Pages::of(&before).unwrap(), Pages::of(&after).unwrap());
        let moved = after.order.iter().filter(|hash| !before.order.contains(hash)).count();
        assert_eq!((moved, before.order.len()), (1, 16));
        assert_ne!(before.root, after.root);
    }

    #[test]
    #[rule("D-3")]
    fn d3_pages_that_were_tampered_with_are_refused() {
        let pages = Pages::of(&tree(3)).unwrap();
        let manifest = manifest(&pages);
        let mut other = bytes(&pages);
        other[0].push(0);
        assert!(matches!(tree_of(&manifest, &other), Err(Error::Torn(_))));
        let renamed = Manifest { root: ContentHash::of(b"x"), ..manifest };
        assert!(matches!(tree_of(&renamed, &bytes(&pages)), Err(Error::Torn(_))));
    }

    /// Whoever may write the manifest could list any path; a peel still writes only below its cache.
    #[test]
    #[rule("D-3")]
    fn d3_a_manifest_with_a_path_that_escapes_is_refused() {
        for path in ["../../etc/cron.d/x", "/etc/passwd", "a/../../b"] {
            let file = PublishedFile {
                path: path.into(),
                hash: ContentHash::of(b"x"),
                size: 1,
                mode: 0o644,
                parts: Vec::new(),
            };
            let page = encode(&ManifestPage { v: VERSION, files: vec![file] }).unwrap();
            let order = vec![ContentHash::of(&page)];
            let pages = Pages { root: Manifest::root_of(&order), order, bytes: BTreeMap::new() };
            let refused = tree_of(&manifest(&pages), &[page]).unwrap_err().to_string();
            assert!(refused.contains(path), "{refused}");
        }
    }
}
