//! The files that git tracks, and the root they stand under.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace root: this crate's parent.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}

/// Tracked files, and new ones that git does not ignore, relative to the root.
pub fn files() -> Vec<String> {
    let listed = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
        .unwrap_or_default();
    let mut files: Vec<String> =
        listed.lines().map(str::to_string).filter(|file| root().join(file).is_file()).collect();
    files.sort();
    files.dedup();
    files
}

pub fn rust_files() -> Vec<String> {
    files().into_iter().filter(|file| file.ends_with(".rs")).collect()
}

pub fn read(file: &str) -> String {
    std::fs::read_to_string(root().join(file)).unwrap_or_default()
}

/// What cargo says of the workspace and of all that it depends on, without a network.
pub fn metadata() -> Option<serde_json::Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--offline"])
        .current_dir(root())
        .output();
    serde_json::from_slice(&output.ok()?.stdout).ok()
}
