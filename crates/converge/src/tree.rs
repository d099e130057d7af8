//! A directory of states or settings on disk, as the compiler and the resources see it. Nothing outside it can be
//! reached.

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
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
        // A source is read by a run, which a signal ends even while that hangs (S-32); so a pipe may be one.
        match self.load(below, limits::FILE_BYTES_MAX, true) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(Fault::new(
                FaultKind::NotFound,
                format!("there is no file `{below}` below the {} {}", self.called, self.root.display()),
            )),
            Err(why) => Err(Fault::new(FaultKind::Denied, why)),
        }
    }

    fn load(&self, below: &str, limit: u64, may_wait: bool) -> Result<Option<Vec<u8>>, String> {
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
        let fail = |error| Fault::io("read", &path, error).message;
        let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
        // Nobody may come to write into a pipe.
        let flags = if may_wait { flags } else { flags | OFlags::NONBLOCK };
        let file = File::from(rustix::fs::open(&real, flags, Mode::empty()).map_err(|no| fail(no.into()))?);
        let meta = file.metadata().map_err(fail)?;
        if meta.is_dir() {
            return Ok(None);
        }
        if !meta.is_file() && !may_wait {
            return Err(format!("{} is a pipe or a device, and no file", path.display()));
        }
        let mut content = Vec::with_capacity(meta.len().min(limit) as usize + 1);
        file.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(fail)?;
        if content.len() as u64 > limit {
            return Err(format!("{} has more than the {limit} bytes that are read", path.display()));
        }
        Ok(Some(content))
    }
}

impl Tree for DirTree {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        let Some(bytes) = self.load(path, limits::SOURCE_BYTES_MAX as u64, false)? else { return Ok(None) };
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

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-46")]
    fn s46_a_pipe_in_the_place_of_a_file_is_refused_and_holds_up_nobody() {
        let temp = tempfile::tempdir().unwrap();
        let mode = Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            temp.path().join("pipe.zy"),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .unwrap();
        let tree = DirTree::new(temp.path());
        assert!(tree.read("pipe.zy").unwrap_err().contains("is a pipe or a device"));
        fs::create_dir(temp.path().join("dir")).unwrap();
        assert_eq!(tree.read("dir"), Ok(None));
    }
}
