//! Extended attributes: access lists, capabilities of programs, labels, what users noted.
//!
//! An access list is part of the permissions: the group bits of a mode are its mask then, not what the group may. A
//! file that lost its list and kept its mode is open to whom it was closed. So a thing comes back closed to its group
//! first, then with its list, and only then with its mode.

use crate::files::Owner;
use crate::no_follow;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What is kept of one thing, names and values together.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// The most that Linux lists of one thing, and the largest value it knows.
const LISTED_BYTES_MAX: usize = 64 * 1024;
const VALUE_BYTES_MAX: usize = 64 * 1024;
/// Room for the names of almost everything.
const NAMES_BYTES: usize = 4096;

pub(crate) const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";
const CAPABILITY: &str = "security.capability";
/// What a user, an administrator or a policy gave to a thing. The rest (checksums, what a file system calls its own) is
/// computed by whoever needs it.
const KEPT: [&str; 5] = [ACCESS_LIST, DEFAULT_LIST, CAPABILITY, "security.selinux", "security.SMACK64"];
const KEPT_PREFIXES: [&str; 2] = ["user.", "trusted."];
/// Attributes that belong to the place and go on to the next file there: its label, and what its owner allows and noted
/// there while it is theirs. Not those that speak of the content, above all not `security.capability`: rights were given to
/// the program that was there, not to whatever comes next.
const LABELS: [&str; 2] = ["security.selinux", "security.SMACK64"];
const NOTES_PREFIX: &str = "user.";

/// Whether the next file at the place of this one gets it too.
pub(crate) fn carried(name: &[u8], same_owner: bool) -> bool {
    let of_owner = name == ACCESS_LIST.as_bytes() || name.starts_with(NOTES_PREFIX.as_bytes());
    LABELS.iter().any(|label| label.as_bytes() == name) || (of_owner && same_owner)
}

/// What could not be put back, by name, and why.
pub type Lost = BTreeMap<String, String>;

/// The extended attributes of one thing, as far as they are worth keeping.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Xattrs {
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    kept: BTreeMap<String, Value>,
    /// Those that are there and cannot be brought back: too large, or not ours to give.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    unkept: BTreeSet<String>,
}

/// Text where it is text, numbers of bytes where it is not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Text(String),
    Bytes(Vec<u8>),
}

impl Value {
    fn new(bytes: &[u8]) -> Value {
        match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_string()),
            Err(_) => Value::Bytes(bytes.to_vec()),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Value::Text(text) => text.as_bytes(),
            Value::Bytes(bytes) => bytes,
        }
    }
}

impl Xattrs {
    pub fn is_empty(&self) -> bool {
        self.kept.is_empty() && self.unkept.is_empty()
    }

    pub fn with(mut self, name: &str, value: &[u8]) -> Xattrs {
        self.kept.insert(name.to_string(), Value::new(value));
        self
    }

    /// How many there are.
    pub(crate) fn names(&self) -> usize {
        self.kept.len() + self.unkept.len()
    }

    /// How much there is to keep.
    pub fn bytes(&self) -> u64 {
        self.kept.iter().map(|(name, value)| (name.len() + value.bytes().len()) as u64).sum()
    }

    /// Those that no revert can bring back.
    pub fn unkept(&self) -> impl Iterator<Item = &str> {
        self.unkept.iter().map(String::as_str)
    }

    /// Whether the group bits of the mode are the mask of a list.
    pub fn has_access_list(&self) -> bool {
        self.kept.contains_key(ACCESS_LIST) || self.unkept.contains(ACCESS_LIST)
    }

    /// The mode until the access list is in force: closed to the group, where there is one.
    pub fn mode_without_list(&self, mode: u32) -> u32 {
        if self.has_access_list() { mode & !0o070 } else { mode }
    }

    /// Whether these were lost without the access list.
    pub fn list_in_force(&self, lost: &Lost) -> bool {
        self.has_access_list() && !lost.contains_key(ACCESS_LIST)
    }

    /// What a copy with other content gets, of the same owner or of another.
    pub fn carried(&self, same_owner: bool) -> Xattrs {
        let carried = |name: &String| carried(name.as_bytes(), same_owner);
        let kept = self.kept.iter().filter(|(name, _)| carried(name));
        let unkept = self.unkept.iter().filter(|name| carried(name));
        Xattrs {
            kept: kept.map(|(name, value)| (name.clone(), value.clone())).collect(),
            unkept: unkept.cloned().collect(),
        }
    }

    /// What the next file at this place gets only from a file of the same owner.
    pub fn of_owner(&self) -> impl Iterator<Item = &str> {
        let of_owner = |name: &&str| carried(name.as_bytes(), true) && !carried(name.as_bytes(), false);
        self.kept.keys().chain(&self.unkept).map(String::as_str).filter(of_owner)
    }

    /// What a file loses with its owner.
    pub fn rights(&self) -> Xattrs {
        let kept = self.kept.get_key_value(CAPABILITY);
        let unkept = self.unkept.get(CAPABILITY);
        Xattrs {
            kept: kept.into_iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            unkept: unkept.into_iter().cloned().collect(),
        }
    }

    /// What of these is not among the present ones, or differs there.
    pub fn lacking(&self, present: &Xattrs) -> Xattrs {
        let kept = self.kept.iter().filter(|(name, value)| present.kept.get(*name) != Some(value));
        let there = |name: &String| present.kept.contains_key(name) || present.unkept.contains(name);
        Xattrs {
            kept: kept.map(|(name, value)| (name.clone(), value.clone())).collect(),
            unkept: self.unkept.iter().filter(|name| !there(name)).cloned().collect(),
        }
    }

    /// Sets them one by one, rights of programs last. What fails does not stop the others.
    pub(crate) fn set(&self, set: impl Fn(&str, &[u8]) -> rustix::io::Result<()>) -> Lost {
        let unkept = self.unkept.iter().map(|name| (name.clone(), "it was not kept".to_string()));
        let mut lost: Lost = unkept.collect();
        let (last, first): (Vec<_>, Vec<_>) = self.kept.iter().partition(|(name, _)| *name == CAPABILITY);
        for (name, value) in first.into_iter().chain(last) {
            if let Err(error) = set(name, value.bytes()) {
                lost.insert(name.clone(), crate::fault::plain(&error.into()));
            }
        }
        lost
    }

    /// In memory.
    pub(crate) fn extend(&mut self, other: &Xattrs) -> Lost {
        self.kept.extend(other.kept.clone());
        other.unkept.iter().map(|name| (name.clone(), "it was not kept".to_string())).collect()
    }

    fn keep(&mut self, name: &str, value: &[u8], me: Owner) {
        // Only root can give these back.
        let given = me.uid == 0 || !(name == CAPABILITY || name.starts_with("trusted."));
        let size = (name.len() + value.len()) as u64;
        if given && self.bytes() + size <= KEPT_BYTES_MAX as u64 {
            self.kept.insert(name.to_string(), Value::new(value));
        } else {
            self.unkept.insert(name.to_string());
        }
    }
}

/// Those of whatever is held, opened for reading or not at all.
pub(crate) fn of(held: &OwnedFd, me: Owner) -> rustix::io::Result<Xattrs> {
    let proc_fd_path = no_follow::proc_fd_path(held);
    read(
        me,
        |names| match rustix::fs::listxattr(&*proc_fd_path, &mut *names) {
            // Without /proc it takes a descriptor that is open.
            Err(Errno::NOENT) => rustix::fs::flistxattr(held, names),
            listed => listed,
        },
        |name, value| match rustix::fs::getxattr(&*proc_fd_path, name, &mut *value) {
            Err(Errno::NOENT) => rustix::fs::fgetxattr(held, name, value),
            got => got,
        },
    )
}

/// The capabilities of the program that is held, which it loses with its owner.
pub(crate) fn rights_of(held: &OwnedFd) -> rustix::io::Result<Xattrs> {
    let mut value = [0_u8; 256];
    match rustix::fs::getxattr(no_follow::proc_fd_path(held), CAPABILITY, &mut value[..]) {
        Ok(length) => Ok(Xattrs::default().with(CAPABILITY, value.get(..length).unwrap_or_default())),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(Xattrs::default()),
        Err(error) => Err(error),
    }
}

/// Whether a file has capabilities.
pub(crate) fn has_rights(path: &Path) -> bool {
    rustix::fs::lgetxattr(path, CAPABILITY, &mut [0_u8; 256][..]).is_ok()
}

fn read(
    me: Owner,
    list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&str, &mut [u8]) -> rustix::io::Result<usize>,
) -> rustix::io::Result<Xattrs> {
    let mut few = [0_u8; NAMES_BYTES];
    let mut many = Vec::new();
    let names = match list(&mut few) {
        Ok(length) => few.get(..length),
        Err(Errno::RANGE) => {
            many.resize(LISTED_BYTES_MAX, 0);
            let length = list(&mut many)?;
            many.get(..length)
        }
        // A file system without any.
        Err(Errno::NOTSUP) => None,
        Err(error) => return Err(error),
    };
    let mut found = Xattrs::default();
    let mut value = Vec::new();
    for name in names.unwrap_or_default().split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let Ok(name) = std::str::from_utf8(name) else {
            found.unkept.insert(String::from_utf8_lossy(name).into_owned());
            continue;
        };
        if !KEPT.contains(&name) && !KEPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
            continue;
        }
        value.resize(VALUE_BYTES_MAX, 0);
        match get(name, &mut value) {
            Ok(length) => found.keep(name, value.get(..length).unwrap_or_default(), me),
            // Gone meanwhile.
            Err(Errno::NODATA) => {}
            Err(Errno::ACCESS | Errno::PERM | Errno::NOTSUP | Errno::RANGE) => {
                found.unkept.insert(name.to_string());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

/// Sets them on whatever is held.
pub(crate) fn set(held: &OwnedFd, xattrs: &Xattrs) -> Lost {
    let proc_fd_path = no_follow::proc_fd_path(held);
    xattrs.set(|name, value| rustix::fs::setxattr(&*proc_fd_path, name, value, XattrFlags::empty()))
}

/// Sets them on a new file or directory that has its owner and its [mode without a
/// list](Xattrs::mode_without_list), and then its mode.
pub(crate) fn put_back(file: &File, mode: u32, image: Option<&Xattrs>) -> rustix::io::Result<Lost> {
    let Some(image) = image else { return Ok(Lost::new()) };
    let lost = image.set(|name, value| rustix::fs::fsetxattr(file, name, value, XattrFlags::empty()));
    if image.list_in_force(&lost) {
        rustix::fs::fchmod(file, rustix::fs::Mode::from_raw_mode(mode))?;
    }
    Ok(lost)
}

/// A directory may give a list to everything that is made inside. What comes back has its own, or none.
pub(crate) fn strip_inherited(remove: impl Fn(&str) -> rustix::io::Result<()>) -> rustix::io::Result<()> {
    for name in [ACCESS_LIST, DEFAULT_LIST] {
        match remove(name) {
            Ok(()) | Err(Errno::NODATA | Errno::NOTSUP) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    const ROOT: Owner = Owner { uid: 0, gid: 0 };

    /// Reads a thing with these attributes.
    fn read_of(me: Owner, attributes: &[(&str, &[u8])]) -> Xattrs {
        let names: Vec<u8> = attributes.iter().flat_map(|(name, _)| name.bytes().chain([0])).collect();
        let fill = |from: &[u8], to: &mut [u8]| match to.get_mut(..from.len()) {
            Some(to) => {
                to.copy_from_slice(from);
                Ok(from.len())
            }
            None => Err(Errno::RANGE),
        };
        let value = |name: &str| attributes.iter().find(|(other, _)| *other == name).unwrap().1;
        read(me, |to| fill(&names, to), |name, to| fill(value(name), to)).unwrap()
    }

    #[test]
    #[rule("S-31")]
    fn s31_what_is_too_much_is_named_and_the_rest_is_kept() {
        let (large, small) = ([b'x'; 40_000], b"text");
        let found = read_of(ROOT, &[("user.a", &large), ("user.b", &large), ("user.c", small)]);
        assert_eq!(found.unkept().collect::<Vec<_>>(), ["user.b"]);
        assert_eq!(found.kept.keys().collect::<Vec<_>>(), ["user.a", "user.c"]);
        let lost = found.set(|_, _| Ok(()));
        assert_eq!(lost.into_iter().collect::<Vec<_>>(), [("user.b".into(), "it was not kept".into())]);
    }

    #[test]
    #[rule("S-31")]
    fn s31_only_root_can_give_rights_back_and_checksums_are_nobodys() {
        let there: [(&str, &[u8]); 3] =
            [(CAPABILITY, b"rights"), ("security.evm", b"sum"), ("user.a", b"text")];
        assert_eq!(read_of(Owner { uid: 7, gid: 7 }, &there).unkept().collect::<Vec<_>>(), [CAPABILITY]);
        assert_eq!(read_of(ROOT, &there).unkept().count(), 0);
        assert_eq!(read_of(ROOT, &there).kept.len(), 2);
    }

    #[test]
    fn more_names_than_usual_are_all_read() {
        let names: Vec<String> = (0..1000).map(|number| format!("user.{number:0>20}")).collect();
        let there: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b"x"[..])).collect();
        assert_eq!(read_of(ROOT, &there).names(), 1000);
    }

    #[test]
    #[rule("S-31")]
    fn s31_rights_of_programs_are_set_last_and_survive_the_journal() {
        let all =
            Xattrs::default().with("user.a", b"x").with(CAPABILITY, b"\xff").with(ACCESS_LIST, b"\x02\0");
        let order = std::cell::RefCell::new(Vec::new());
        let lost = all.set(|name, _| {
            order.borrow_mut().push(name.to_string());
            Ok(())
        });
        assert!(lost.is_empty());
        assert_eq!(order.borrow().last().map(String::as_str), Some(CAPABILITY));
        let text = serde_json::to_string(&all).unwrap();
        assert_eq!(serde_json::from_str::<Xattrs>(&text).unwrap(), all);
    }
}
