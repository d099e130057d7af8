//! What an archive holds: tar, plain or compressed, and zip. Nothing of it is written anywhere here.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{Cursor, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use zester_model::limits::{ARCHIVE_BYTES_MAX, ARCHIVE_ENTRIES_MAX, ARCHIVE_RATIO_MAX};

/// Below this an archive may unpack to however much it does.
const RATIO_COUNTS_FROM: u64 = 16 * 1024 * 1024;
/// What an archive may say about permissions: no right to act as another.
const MODE_BITS: u32 = 0o777;
/// Longest target of a link in a zip archive.
const LINK_BYTES_MAX: u64 = 4096;

/// One thing in an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Below the directory that it is unpacked to.
    pub(crate) path: PathBuf,
    pub(crate) mode: Option<u32>,
    pub(crate) body: Body,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    /// Empty where only the names were asked for.
    File(Arc<[u8]>),
    Directory,
    Link(PathBuf),
}

/// What is wanted of it.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Unpack {
    /// How many names are taken off the start of each path.
    pub(crate) strip: usize,
    /// Whether content is needed, or names alone.
    pub(crate) content: bool,
}

/// All that it holds, parents before children, each path once. What could not be unpacked safely is an error.
pub(crate) fn entries(archive: &[u8], unpack: Unpack) -> Result<Vec<Entry>, String> {
    let mut found =
        Collected { unpack, packed: archive.len() as u64, bytes: 0, count: 0, entries: BTreeMap::new() };
    match archive {
        [b'P', b'K', 3 | 5, 4 | 6, ..] => read_zip(archive, &mut found)?,
        _ => read_tar(unpacked(archive)?, &mut found)?,
    }
    found.finish()
}

/// The tar inside, by what the first bytes say about how it is compressed.
fn unpacked(archive: &[u8]) -> Result<Box<dyn Read + '_>, String> {
    Ok(match archive {
        [0x1f, 0x8b, ..] => Box::new(flate2::read::MultiGzDecoder::new(archive)),
        [b'B', b'Z', b'h', ..] => Box::new(bzip2::read::MultiBzDecoder::new(archive)),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Box::new(lzma_rust2::XzReader::new(archive, true)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = ruzstd::decoding::StreamingDecoder::new(archive)
                .map_err(|error| format!("its compression cannot be read: {error}"))?;
            Box::new(decoder)
        }
        _ => Box::new(archive),
    })
}

struct Collected {
    unpack: Unpack,
    packed: u64,
    bytes: u64,
    count: usize,
    entries: BTreeMap<PathBuf, Entry>,
}

impl Collected {
    /// The path of an entry, if it is one that can be unpacked; `None` for what `strip` leaves nothing of.
    fn path(&self, raw: &Path) -> Result<Option<PathBuf>, String> {
        let mut path = PathBuf::new();
        let mut strip = self.unpack.strip;
        for part in raw.components() {
            match part {
                Component::CurDir => {}
                Component::Normal(_) if strip > 0 => strip -= 1,
                Component::Normal(name) => path.push(name),
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(format!("its entry `{}` leads out of the directory", raw.display()));
                }
            }
        }
        Ok((!path.as_os_str().is_empty()).then_some(path))
    }

    fn counted(&mut self) -> Result<(), String> {
        self.count += 1;
        match self.count > ARCHIVE_ENTRIES_MAX {
            true => Err(format!("it holds more than {ARCHIVE_ENTRIES_MAX} entries")),
            false => Ok(()),
        }
    }

    /// Reads the content of a file, within what an archive may unpack to.
    fn content(&mut self, reader: &mut dyn Read) -> Result<Arc<[u8]>, String> {
        let most =
            ARCHIVE_BYTES_MAX.min(self.packed.saturating_mul(ARCHIVE_RATIO_MAX).max(RATIO_COUNTS_FROM));
        let left = most.saturating_sub(self.bytes);
        let mut content = Vec::new();
        let mut limited = reader.take(left + 1);
        let read = match self.unpack.content {
            true => limited.read_to_end(&mut content).map(|bytes| bytes as u64),
            false => std::io::copy(&mut limited, &mut std::io::sink()),
        };
        let read = read.map_err(|error| format!("it is damaged: {error}"))?;
        self.bytes += read;
        if read > left {
            return Err(format!("it unpacks to more than {most} bytes"));
        }
        Ok(content.into())
    }

    fn add(&mut self, path: PathBuf, mode: Option<u32>, body: Body) {
        let mode = mode.map(|mode| mode & MODE_BITS);
        // The last of several of one name counts, as for tar.
        self.entries.insert(path.clone(), Entry { path, mode, body });
    }

    fn finish(mut self) -> Result<Vec<Entry>, String> {
        let above: BTreeSet<PathBuf> = self
            .entries
            .keys()
            .flat_map(|path| path.ancestors().skip(1))
            .filter(|above| !above.as_os_str().is_empty())
            .map(Path::to_path_buf)
            .collect();
        for path in above {
            match self.entries.get(&path).map(|entry| &entry.body) {
                Some(Body::Directory) => {}
                None => self.add(path, None, Body::Directory),
                Some(Body::Link(_) | Body::File(_)) => {
                    return Err(format!(
                        "it holds `{}` both as a directory and as something else",
                        path.display()
                    ));
                }
            }
        }
        Ok(self.entries.into_values().collect())
    }
}

fn read_tar(reader: Box<dyn Read + '_>, found: &mut Collected) -> Result<(), String> {
    let damaged = |error: std::io::Error| format!("it is no archive that can be read: {error}");
    let mut archive = tar::Archive::new(reader);
    let mut any = false;
    for entry in archive.entries().map_err(damaged)? {
        let mut entry = entry.map_err(damaged)?;
        any = true;
        found.counted()?;
        let raw = PathBuf::from(OsStr::from_bytes(&entry.path_bytes()));
        let sort = entry.header().entry_type();
        let Some(path) = found.path(&raw)? else { continue };
        let mode = entry.header().mode().ok();
        if sort.is_dir() {
            found.add(path, mode, Body::Directory);
        } else if sort.is_symlink() {
            let target = entry.link_name_bytes().unwrap_or_default();
            found.add(path, None, Body::Link(PathBuf::from(OsStr::from_bytes(&target))));
        } else if sort.is_hard_link() {
            let target = entry.link_name_bytes().unwrap_or_default();
            let target = found.path(Path::new(OsStr::from_bytes(&target)))?;
            let same = target.and_then(|target| found.entries.get(&target).cloned());
            match same {
                Some(Entry { body: Body::File(content), mode, .. }) => {
                    found.add(path, mode, Body::File(content))
                }
                _ => return Err(format!("its entry `{}` is a link to nothing in it", raw.display())),
            }
        } else if sort.is_file() || sort.is_contiguous() || sort.is_gnu_sparse() {
            let content = found.content(&mut entry)?;
            found.add(path, mode, Body::File(content));
        } else if sort.is_pax_global_extensions() {
            // Says something about the archive, not about a file.
        } else {
            return Err(format!("its entry `{}` is a device or a pipe", raw.display()));
        }
    }
    match any {
        true => Ok(()),
        false => Err("it is no archive, or holds nothing".to_string()),
    }
}

fn read_zip(archive: &[u8], found: &mut Collected) -> Result<(), String> {
    let damaged = |error: zip::result::ZipError| format!("it is no archive that can be read: {error}");
    let mut zip = zip::ZipArchive::new(Cursor::new(archive)).map_err(damaged)?;
    for index in 0..zip.len() {
        found.counted()?;
        let mut file = zip.by_index(index).map_err(damaged)?;
        if file.encrypted() {
            return Err("it is encrypted".to_string());
        }
        let raw = PathBuf::from(OsStr::from_bytes(file.name_raw()));
        let Some(path) = found.path(&raw)? else { continue };
        let mode = file.unix_mode();
        if file.is_dir() {
            found.add(path, mode, Body::Directory);
        } else if file.is_symlink() {
            let mut target = Vec::new();
            let read = (&mut file).take(LINK_BYTES_MAX).read_to_end(&mut target);
            read.map_err(|error| format!("it is damaged: {error}"))?;
            found.add(path, None, Body::Link(PathBuf::from(OsStr::from_bytes(&target))));
        } else {
            let content = found.content(&mut file)?;
            found.add(path, mode, Body::File(content));
        }
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
