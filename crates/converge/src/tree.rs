//! A directory of states or settings on disk, as the compiler and the resources see it. Nothing outside it can be
//! reached.

use std::fs;
use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use zester_compile::Tree;
use zester_host::{Fault, FaultKind};
use zester_model::limits;

pub struct DirTree {
    root: PathBuf,
    called: &'static str,
}

impl DirTree {
    pub fn new(root: &Path) -> DirTree {
        DirTree { root: root.to_path_buf(), called: "states directory" }
    }

    pub fn of_settings(root: &Path) -> DirTree {
        DirTree { root: root.to_path_buf(), called: "settings directory" }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The file behind `salt://x`, `zester://x` or `x`, as bytes.
    pub fn read_bytes(&self, uri: &str) -> Result<Vec<u8>, Fault> {
        let below = uri.strip_prefix("salt://").or_else(|| uri.strip_prefix("zester://")).unwrap_or(uri);
        match self.load(below, limits::FILE_BYTES_MAX) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(Fault::new(
                FaultKind::NotFound,
                format!("there is no file `{below}` below the {} {}", self.called, self.root.display()),
            )),
            Err(why) => Err(Fault::new(FaultKind::Denied, why)),
        }
    }

    fn load(&self, below: &str, limit: u64) -> Result<Option<Vec<u8>>, String> {
        let plain = Path::new(below).components().all(|part| matches!(part, Component::Normal(_)));
        if !plain || below.is_empty() {
            return Err(format!("`{below}` leaves the {}", self.called));
        }
        let path = self.root.join(below);
        let real = match path.canonicalize() {
            Ok(real) => real,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Ok(None);
            }
            Err(error) => return Err(Fault::io("find", &path, error).message),
        };
        let root = self.root.canonicalize().map_err(|error| Fault::io("find", &self.root, error).message)?;
        if !real.starts_with(&root) {
            return Err(format!("`{below}` is a link that leaves the {}", self.called));
        }
        let meta = fs::metadata(&real).map_err(|error| Fault::io("look at", &path, error).message)?;
        if meta.is_dir() {
            return Ok(None);
        }
        if meta.len() > limit {
            return Err(format!("{} has {} bytes; at most {limit} are read", path.display(), meta.len()));
        }
        fs::read(&real).map(Some).map_err(|error| Fault::io("read", &path, error).message)
    }
}

impl Tree for DirTree {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        let Some(bytes) = self.load(path, limits::SOURCE_BYTES_MAX as u64)? else { return Ok(None) };
        String::from_utf8(bytes).map(Some).map_err(|_| format!("{path} is not UTF-8 text"))
    }

    fn called(&self) -> &'static str {
        self.called
    }

    fn files(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mut rest = vec![PathBuf::new()];
        while let Some(below) = rest.pop() {
            for entry in fs::read_dir(self.root.join(&below)).into_iter().flatten().flatten() {
                let path = below.join(entry.file_name());
                match entry.file_type() {
                    Ok(sort) if sort.is_dir() => rest.push(path),
                    Ok(_) => found.extend(path.to_str().map(str::to_string)),
                    Err(_) => {}
                }
            }
            if found.len() > limits::FILES_MAX {
                return Vec::new();
            }
        }
        found
    }
}
