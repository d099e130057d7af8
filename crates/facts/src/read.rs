//! Reading small files of the system, with a bound.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The start of a file, at most `bytes_max` of it. Kernel files have no size to ask for, so the bound is on the read.
pub fn start_of(path: &Path, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    File::open(path)?.take(bytes_max as u64).read_to_end(&mut content)?;
    Ok(content)
}

/// Far more than any file of `/proc`, `/sys` or `/etc` that we look at.
const SYSTEM_FILE_BYTES_MAX: usize = 256 * 1024;

/// A text of the system; empty where it cannot be read, because a fact is then simply not known.
pub fn system_text(path: impl AsRef<Path>) -> String {
    let content = start_of(path.as_ref(), SYSTEM_FILE_BYTES_MAX).unwrap_or_default();
    String::from_utf8_lossy(&content).into_owned()
}

/// The one line that many files of `/sys` hold.
pub fn system_line(path: impl AsRef<Path>) -> String {
    system_text(path).trim_matches(['\n', ' ', '\0']).to_string()
}

/// The names in a directory of the system, sorted.
pub fn names_in(dir: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}
