//! The policy of this machine, out of its file: what it does for others, and for whom (I-8). A file that cannot be read is no policy
//! that allows: then the machine answers what is harmless and does nothing else.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use zester_model::diagnostic::Diagnostic;
use zester_model::source::Sources;
use zester_policy::limits::FILE_BYTES_MAX;
use zester_policy::{LocalPolicy, read_local};

/// Problems of one file that are told.
const PROBLEMS_TOLD: usize = 5;
/// Who may write to a file besides its owner.
const OTHERS_WRITE: u32 = 0o022;

/// Why there is no policy in a file that there is.
#[derive(Debug)]
pub enum Unreadable {
    Missing,
    Other(String),
    /// It was read, and this is wrong with it.
    Problems(Vec<Diagnostic>, Box<Sources>),
}

impl Unreadable {
    /// In one sentence.
    pub fn sentence(&self, path: &Path) -> String {
        match self {
            Unreadable::Missing => format!("{} is not there", path.display()),
            Unreadable::Other(why) => why.clone(),
            Unreadable::Problems(problems, sources) => {
                let told = problems.iter().take(PROBLEMS_TOLD).map(|one| {
                    let place =
                        one.span.map_or_else(|| path.display().to_string(), |span| sources.place(span));
                    format!("{place}: {}", one.report(sources).message)
                });
                told.collect::<Vec<_>>().join("; ")
            }
        }
    }
}

/// Reads a policy. Whoever could write to the file could allow itself anything, so nobody but its owner may, and that is root or us.
pub fn read_file(path: &Path, local_zone: &str) -> Result<LocalPolicy, Unreadable> {
    let shown = path.display().to_string();
    let failed = |error: std::io::Error| match error.kind() {
        // A link to what is not there, or not mounted yet, is no absence of a policy.
        ErrorKind::NotFound if std::fs::symlink_metadata(path).is_ok() => {
            Unreadable::Other(format!("{shown} is a link to what is not there"))
        }
        ErrorKind::NotFound => Unreadable::Missing,
        _ => Unreadable::Other(format!("cannot read {shown}: {error}")),
    };
    let found = std::fs::metadata(path).map_err(failed)?;
    if found.len() > FILE_BYTES_MAX {
        return Err(Unreadable::Other(format!("{shown} is larger than {FILE_BYTES_MAX} bytes")));
    }
    let own = own_uid();
    if found.mode() & OTHERS_WRITE != 0 || (found.uid() != 0 && Some(found.uid()) != own) {
        let why = format!("{shown} can be written by others: chown it to root, and chmod 644 it");
        return Err(Unreadable::Other(why));
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    let mut sources = Sources::default();
    let file = sources.add(&shown, text.as_str());
    let read =
        zester_compile::parse_yaml(file, &text).and_then(|node| read_local(&node, &sources, local_zone));
    read.map_err(|problems| Unreadable::Problems(problems, Box::new(sources)))
}

/// Whose process this is.
fn own_uid() -> Option<u32> {
    std::fs::metadata("/proc/self").ok().map(|found| found.uid())
}

/// What is in force.
pub enum InForce {
    /// There is no policy: everything that masters and operators ask is done.
    None,
    Policy(Box<LocalPolicy>),
    /// Only what is harmless.
    Unreadable(String),
}

/// The file, read again whenever it is another.
pub struct PolicyFile {
    path: PathBuf,
    /// Somebody named it: that it is missing is an error.
    named: bool,
    local_zone: String,
    stamp: Option<Option<Stamp>>,
    /// There was one in this life. One that vanishes is not taken back: an editor may be writing it.
    was_there: bool,
    in_force: InForce,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: (u64, u64),
    bytes: u64,
    mode: (u32, u32),
    changed: (i64, i64),
    status: (i64, i64),
}

impl From<Metadata> for Stamp {
    fn from(found: Metadata) -> Stamp {
        Stamp {
            inode: (found.dev(), found.ino()),
            bytes: found.len(),
            mode: (found.mode(), found.uid()),
            changed: (found.mtime(), found.mtime_nsec()),
            status: (found.ctime(), found.ctime_nsec()),
        }
    }
}

impl PolicyFile {
    pub fn new(path: PathBuf, named: bool, local_zone: String) -> PolicyFile {
        let in_force = InForce::Unreadable("the policy has not been read yet".into());
        PolicyFile { path, named, local_zone, stamp: None, was_there: false, in_force }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    /// Looks whether it is another, and reads it then. True: it is.
    pub fn look(&mut self) -> bool {
        let stamp = std::fs::metadata(&self.path).ok().map(Stamp::from);
        if self.stamp == Some(stamp) {
            return false;
        }
        self.stamp = Some(stamp);
        self.in_force = match read_file(&self.path, &self.local_zone) {
            Ok(policy) => InForce::Policy(Box::new(policy)),
            Err(Unreadable::Missing) if !self.named && !self.was_there => InForce::None,
            Err(Unreadable::Missing) if self.was_there => {
                let gone = "is gone; where no policy is wanted any more, restart the peel";
                InForce::Unreadable(format!("{} {gone}", self.path.display()))
            }
            Err(unreadable) => InForce::Unreadable(unreadable.sentence(&self.path)),
        };
        self.was_there |= !matches!(self.in_force, InForce::None);
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use zester_rule::rule;

    fn told(file: &PolicyFile) -> String {
        match file.in_force() {
            InForce::None => "none".into(),
            InForce::Policy(_) => "policy".into(),
            InForce::Unreadable(why) => why.clone(),
        }
    }

    #[test]
    #[rule("I-8")]
    fn i8_a_policy_that_cannot_be_read_is_never_no_policy() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy.yaml");
        let mut file = PolicyFile::new(path.clone(), false, "UTC".into());
        assert!(told(&file).contains("has not been read yet"));
        assert!(file.look() && !file.look());
        assert_eq!(told(&file), "none", "nobody wrote one");
        // What it links to may come with a mount that is not there yet.
        let link = dir.path().join("linked.yaml");
        std::os::unix::fs::symlink(dir.path().join("elsewhere.yaml"), &link).unwrap();
        let mut linked = PolicyFile::new(link, false, "UTC".into());
        linked.look();
        assert!(told(&linked).contains("a link to what is not there"), "{}", told(&linked));
        let mut named = PolicyFile::new(path.clone(), true, "UTC".into());
        named.look();
        assert!(told(&named).contains("is not there"), "one was promised");
        std::fs::write(&path, "read_only: true\n").unwrap();
        assert!(file.look());
        assert_eq!(told(&file), "policy");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(file.look());
        assert!(told(&file).contains("can be written by others"), "{}", told(&file));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        std::fs::write(&path, "read_only: true\nreadonly: true\n").unwrap();
        assert!(file.look());
        assert!(told(&file).contains("policy.yaml:2:1: unknown key `readonly`"), "{}", told(&file));
        std::fs::write(&path, "").unwrap();
        assert!(file.look());
        assert!(told(&file).contains("expected a policy"), "{}", told(&file));
        std::fs::remove_file(&path).unwrap();
        assert!(file.look());
        assert!(told(&file).contains("is gone"), "{}", told(&file));
        std::fs::write(&path, "read_only: true\n").unwrap();
        assert!(file.look());
        assert_eq!(told(&file), "policy", "it is back");
    }
}
