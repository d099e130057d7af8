//! A tree that an operator brings: its contents go to the bucket, where they mean nothing until the master that may publish
//! names them; that master fetches them, verified, into a directory of its own.

use crate::directory::Directory;
use crate::error::Error;
use crate::limits::{FILE_BYTES_MAX, IN_FLIGHT, PAGES_MAX, PART_BYTES, TREE_BYTES_MAX};
use crate::manifest::{Pages, tree_of, tree_of_pages};
use crate::publisher::Content;
use crate::reader::{Work, content_of, pages_at, pages_of};
use crate::tree::{Tree, TreeFile, TreePath};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use std::collections::BTreeSet;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use zester_bus::Bytes;
use zester_link::Link;
use zester_wire::{Bucket, ContentHash, Key, Manifest, Published, Revision};

/// What was brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uploaded {
    /// The list of files, by which a master finds them.
    pub pages: Vec<ContentHash>,
    pub moved: usize,
    pub bytes: u64,
}

/// Puts every content of a tree into its bucket that the revision that counts does not list. Others may be there and about to be
/// removed: those are brought again, which keeps them.
pub async fn upload(link: &Link, published: Published, directory: &Directory) -> Result<Uploaded, Error> {
    let bucket = Bucket::of_published(published);
    let listed: BTreeSet<ContentHash> = match current(link, published).await {
        Ok(Some(tree)) => tree.contents().cloned().collect(),
        // Where nothing whole is there, all of it is brought; that the bus is away is found next.
        Ok(None) | Err(_) => BTreeSet::new(),
    };
    let keys = link.bus().keys(bucket.as_str(), ">").await?;
    let present: BTreeSet<ContentHash> = keys
        .iter()
        .filter_map(|key| match Key::parse(bucket, key) {
            Ok(Key::Content(_, hash)) if listed.contains(&hash) => Some(hash),
            _ => None,
        })
        .collect();
    let pages = Pages::of(&directory.tree)?;
    let mut seen = BTreeSet::new();
    let mut puts: Vec<Work<'_, (usize, u64)>> = Vec::new();
    for (path, file) in &directory.tree.files {
        if file.contents().iter().any(|hash| !present.contains(hash)) && seen.insert(&file.hash) {
            puts.push(Box::pin(put_file(link, bucket, directory, path, file)));
        }
    }
    for (hash, page) in &pages.bytes {
        puts.push(Box::pin(put(link, bucket, hash, page)));
    }
    let sum = |(count, bytes), (more, large): (usize, u64)| async move { Ok((count + more, bytes + large)) };
    let (moved, bytes) = stream::iter(puts).buffer_unordered(IN_FLIGHT).try_fold((0, 0), sum).await?;
    Ok(Uploaded { pages: pages.order, moved, bytes })
}

/// The tree that counts.
async fn current(link: &Link, published: Published) -> Result<Option<Tree>, Error> {
    let Some(named) = link.get_latest::<Revision>(&Key::Revision(published)).await? else { return Ok(None) };
    let key = Key::ManifestOf(published, named.value.revision);
    let Some(found) = link.get_latest::<Manifest>(&key).await? else { return Ok(None) };
    tree_of(&found.value, &pages_of(link, published, &found.value).await?).map(Some)
}

async fn put_file(
    link: &Link,
    bucket: Bucket,
    directory: &Directory,
    path: &TreePath,
    file: &TreeFile,
) -> Result<(usize, u64), Error> {
    let content = directory.read(path).await?;
    if !file.hash.is_of(&content) {
        return Err(Error::Changed(path.clone()));
    }
    let (mut count, mut bytes) = (0, 0);
    let size = if file.parts.is_empty() { content.len().max(1) } else { PART_BYTES };
    let parts: Vec<&[u8]> = if content.is_empty() { vec![&[]] } else { content.chunks(size).collect() };
    for (hash, part) in file.contents().iter().zip(parts) {
        let moved = put(link, bucket, hash, part).await?;
        (count, bytes) = (count + moved.0, bytes + moved.1);
    }
    Ok((count, bytes))
}

async fn put(link: &Link, bucket: Bucket, hash: &ContentHash, content: &[u8]) -> Result<(usize, u64), Error> {
    link.bus().put(bucket.as_str(), hash.as_str(), Bytes::copy_from_slice(content)).await?;
    Ok((1, content.len() as u64))
}

/// Fetches a tree by its pages into an empty directory. Nothing is believed that its hash does not cover.
pub async fn fetch_tree(
    link: &Link,
    published: Published,
    pages: &[ContentHash],
    into: &Path,
) -> Result<Directory, Error> {
    if pages.len() > PAGES_MAX {
        return Err(Error::Torn(format!("the list of files has more than {PAGES_MAX} pages")));
    }
    let tree = tree_of_pages(pages, &pages_at(link, published, pages).await?)?;
    if let Some((path, _)) = tree.files.iter().find(|(_, file)| file.size > FILE_BYTES_MAX) {
        return Err(Error::Torn(format!("{path} has more than {FILE_BYTES_MAX} bytes")));
    }
    if tree.bytes() > TREE_BYTES_MAX {
        return Err(Error::Torn(format!("it has more than {TREE_BYTES_MAX} bytes in all")));
    }
    let mut fetches: Vec<Work<'_, ()>> = Vec::new();
    for (path, file) in &tree.files {
        fetches.push(Box::pin(fetch_file(link, published, into, path, file)));
    }
    stream::iter(fetches).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await?;
    Ok(Directory::of(into, tree))
}

async fn fetch_file(
    link: &Link,
    published: Published,
    into: &Path,
    path: &TreePath,
    file: &TreeFile,
) -> Result<(), Error> {
    let mut whole = Vec::new();
    for hash in file.contents() {
        whole.extend_from_slice(&content_of(link, published, hash).await?);
        if whole.len() as u64 > file.size {
            return Err(Error::Torn(format!("{path} is larger than it is listed")));
        }
    }
    if !file.hash.is_of(&whole) || whole.len() as u64 != file.size {
        return Err(Error::Torn(format!("{path} is not what the list says")));
    }
    let (to, mode) = (into.join(path.as_str()), file.mode | 0o600);
    let written = tokio::task::spawn_blocking(move || write(&to, &whole, mode)).await;
    written.unwrap_or_else(|error| Err(Error::Disk(error.to_string())))
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    let failed = |error: std::io::Error| Error::Disk(format!("cannot write {}: {error}", path.display()));
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(failed)?;
    }
    let mut file =
        std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    std::io::Write::write_all(&mut file, content).map_err(failed)?;
    file.set_permissions(std::fs::Permissions::from_mode(mode)).map_err(failed)
}

/// How a tree differs from an earlier one that may not be there.
pub fn changes_of(tree: &Tree, before: Option<&Tree>) -> crate::tree::TreeDiff {
    tree.since(before.unwrap_or(&Tree::default()))
}
