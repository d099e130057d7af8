//! A directory of states or settings on disk, as the compiler and the resources see it. Nothing outside it can be
//! reached.

use rustix::fs::{Mode, OFlags};
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};
use zester_compile::Tree;
use zester_host::{Fault, FaultKind};
use zester_model::limits;
use zester_resources::context::{SourceEntry, SourceSort};

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
        let below = below_tree(uri);
        // A source is read by a run, which a signal ends even while that hangs (S-32); so a pipe may be one.
        match self.load(below, limits::FILE_BYTES_MAX, true) {
            Ok(Some(bytes)) => Ok(bytes),
            Ok(None) => Err(self.missing("file", below)),
            Err(why) => Err(Fault::new(FaultKind::Denied, why)),
        }
    }

    /// Permissions of the file behind it.
    pub fn mode(&self, uri: &str) -> Result<u32, Fault> {
        let below = below_tree(uri);
        match self.real(below) {
            Ok(Some(real)) => fs::metadata(&real)
                .map(|meta| meta.permissions().mode() & 0o7777)
                .map_err(|error| Fault::io("look at", &real, error)),
            Ok(None) => Err(self.missing("file", below)),
            Err(why) => Err(Fault::new(FaultKind::Denied, why)),
        }
    }

    /// All that lies below a directory, sorted; links as links.
    pub fn list(&self, uri: &str) -> Result<Vec<SourceEntry>, Fault> {
        let below = below_tree(uri).trim_end_matches('/');
        let top = match below {
            "" => Ok(Some(self.root.clone())),
            below => self.real(below),
        };
        let top = top.map_err(|why| Fault::new(FaultKind::Denied, why))?;
        let top = top.filter(|top| top.is_dir()).ok_or_else(|| self.missing("directory", below))?;
        let mut found = Vec::new();
        let mut rest = vec![PathBuf::new()];
        while let Some(inside) = rest.pop() {
            let directory = top.join(&inside);
            let fail = |error| Fault::io("list", &directory, error);
            for entry in fs::read_dir(&directory).map_err(fail)? {
                let entry = entry.map_err(fail)?;
                let path = inside.join(entry.file_name());
                let Some(name) = path.to_str() else {
                    let message = format!("{} has a name that is not UTF-8", entry.path().display());
                    return Err(Fault::new(FaultKind::Unsupported, message));
                };
                let fail = |error| Fault::io("look at", &entry.path(), error);
                let meta = entry.metadata().map_err(fail)?;
                let mode = meta.permissions().mode() & 0o7777;
                let sort = if meta.is_symlink() {
                    let target = fs::read_link(entry.path()).map_err(fail)?;
                    SourceSort::Link { target: target.to_string_lossy().into_owned() }
                } else if meta.is_dir() {
                    SourceSort::Directory { mode }
                } else if meta.is_file() {
                    SourceSort::File { mode }
                } else {
                    let message = format!("{} is a pipe or a device, and no file", entry.path().display());
                    return Err(Fault::new(FaultKind::Unsupported, message));
                };
                found.push(SourceEntry { path: name.to_string(), sort });
                if meta.is_dir() {
                    rest.push(path);
                }
            }
            if found.len() > limits::FILES_MAX {
                let message = format!("`{below}` holds more than {} files", limits::FILES_MAX);
                return Err(Fault::new(FaultKind::Unsupported, message));
            }
        }
        found.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(found)
    }

    fn missing(&self, what: &str, below: &str) -> Fault {
        let message =
            format!("there is no {what} `{below}` below the {} {}", self.called, self.root.display());
        Fault::new(FaultKind::NotFound, message)
    }

    /// The thing behind a path below the tree, links followed; none where nothing is.
    fn real(&self, below: &str) -> Result<Option<PathBuf>, String> {
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
        Ok(Some(real))
    }

    fn load(&self, below: &str, limit: u64, may_wait: bool) -> Result<Option<Vec<u8>>, String> {
        let Some(real) = self.real(below)? else { return Ok(None) };
        let path = self.root.join(below);
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

/// A source without the scheme that it may have.
fn below_tree(uri: &str) -> &str {
    uri.strip_prefix("salt://").or_else(|| uri.strip_prefix("zester://")).unwrap_or(uri)
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
    #[rule("S-4")]
    fn s4_a_directory_of_the_tree_is_listed_with_its_links_and_nothing_outside() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir_all(temp.path().join("app/conf/empty")).unwrap();
        fs::write(temp.path().join("app/conf/a"), "a").unwrap();
        fs::set_permissions(temp.path().join("app/conf/a"), fs::Permissions::from_mode(0o750)).unwrap();
        std::os::unix::fs::symlink("a", temp.path().join("app/conf/l")).unwrap();
        std::os::unix::fs::symlink("/etc", temp.path().join("out")).unwrap();
        let tree = DirTree::new(temp.path());
        let listed = tree.list("salt://app/").unwrap();
        let paths: Vec<&str> = listed.iter().map(|entry| entry.path.as_str()).collect();
        assert_eq!(paths, ["conf", "conf/a", "conf/empty", "conf/l"]);
        assert_eq!(listed[1].sort, SourceSort::File { mode: 0o750 });
        assert_eq!(listed[3].sort, SourceSort::Link { target: "a".into() });
        assert_eq!(tree.mode("salt://app/conf/a").unwrap(), 0o750);
        assert_eq!(tree.list("salt://app/conf/a").unwrap_err().kind, FaultKind::NotFound);
        assert_eq!(tree.list("salt://nope").unwrap_err().kind, FaultKind::NotFound);
        assert!(tree.list("salt://../app").unwrap_err().message.contains("leaves"));
        assert!(tree.list("out").unwrap_err().message.contains("a link that leaves"));
    }

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
