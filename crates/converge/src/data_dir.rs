//! The directory where a machine remembers: journal, history, lock.
//!
//! Whoever can write there decides what a revert does, so it must belong to the caller (or root) and be writable by
//! nobody else (C-14). The same holds for the way to it: in a directory that others can write to, a name is only as good as
//! its owner, and whoever owns a directory on the way can put another one in its place.

use crate::disk::Disk;
use crate::error::Error;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs::{self, Metadata};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Component, Path, PathBuf};

/// Symbolic links that are followed on the way.
const LINKS_MAX: usize = 40;
const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o002;
const OTHERS_PASS: u32 = 0o001;
const GROUP_WRITES: u32 = 0o020;
const GROUP_PASSES: u32 = 0o010;
const ANYBODY_ELSE_WRITES: u32 = 0o022;

/// Opened or made, private to its owner: before-images may hold secrets.
#[derive(Clone, Debug)]
pub struct DataDir {
    root: PathBuf,
}

impl DataDir {
    pub fn open(root: &Path) -> Result<DataDir, Error> {
        PathWalk::new(root)?.walk()?;
        Ok(DataDir { root: root.to_path_buf() })
    }

    /// The one that is there, for those who only read; `None` where nothing is.
    pub fn existing(root: &Path) -> Result<Option<DataDir>, Error> {
        match is_readable(root)? {
            true => DataDir::open(root).map(Some),
            false => Ok(None),
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    pub fn root(&self) -> &Path {
        &self.root
    }
}

/// Whether a directory of the data is there. One that cannot be read is an error: nobody knows what it holds.
pub(crate) fn is_readable(directory: &Path) -> Result<bool, Error> {
    match fs::read_dir(directory) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => {
            let why = fail("read", directory, error);
            Err(Error::other(format!(
                "what earlier runs left to do is unknown: {why}; run this as its owner, or name a data directory of \
                 your own with --data-dir"
            )))
        }
    }
}

/// Puts a small file in place whole: temp, fsync, rename, fsync of the directory.
pub fn replace_file(path: &Path, content: &[u8]) -> Result<(), Error> {
    Disk::real().replace(path, content)
}

/// From `/` to a data directory, step by step, links by their own owners.
struct PathWalk<'a> {
    root: &'a Path,
    me: u32,
    at: PathBuf,
    rest: VecDeque<OsString>,
    links: usize,
}

impl<'a> PathWalk<'a> {
    fn new(root: &'a Path) -> Result<PathWalk<'a>, Error> {
        let whole = std::path::absolute(root).map_err(|error| fail("find", root, error))?;
        let me = rustix::process::geteuid().as_raw();
        let mut way = PathWalk { root, me, at: PathBuf::from("/"), rest: VecDeque::new(), links: 0 };
        way.go_on(&whole);
        Ok(way)
    }

    fn walk(&mut self) -> Result<(), Error> {
        while let Some(name) = self.rest.pop_front() {
            if name == ".." {
                self.at.pop();
                continue;
            }
            let next = self.at.join(name);
            let meta = look_or_make(&next).map_err(|error| self.unusable(&error))?;
            if meta.is_symlink() {
                self.follow(&next, &meta)?;
            } else if !meta.is_dir() {
                return Err(self.refused(format!("{} is not a directory", next.display()), None));
            } else {
                if !self.rest.is_empty() {
                    self.judge(&next, &meta)?;
                }
                self.at = next;
            }
        }
        // Wherever the last step led, up or through a link: this is what others must not write to.
        let meta = look_or_make(&self.at).map_err(|error| self.unusable(&error))?;
        self.judge(&self.at, &meta)
    }

    fn follow(&mut self, link: &Path, meta: &Metadata) -> Result<(), Error> {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(self.refused("too many symbolic links lead to it".into(), None));
        }
        if !self.trusts(meta) {
            return Err(self.refused(format!("{} is a link of uid {}", link.display(), meta.uid()), None));
        }
        let target = fs::read_link(link).map_err(|error| self.unusable(&fail("read", link, error)))?;
        if target.is_absolute() {
            self.at = PathBuf::from("/");
        }
        self.go_on(&target);
        Ok(())
    }

    fn judge(&self, directory: &Path, meta: &Metadata) -> Result<(), Error> {
        let shown = directory.display();
        if !self.trusts(meta) {
            return Err(self.refused(format!("{shown} belongs to uid {}", meta.uid()), None));
        }
        let last = self.rest.is_empty();
        let too_open = match last {
            true => meta.mode() & ANYBODY_ELSE_WRITES != 0,
            false => meta.mode() & STICKY == 0 && self.can_be_changed_on_the_way(directory, meta),
        };
        match too_open {
            false => Ok(()),
            true => {
                let others = meta.mode() & OTHERS_WRITE != 0;
                let who = if last {
                    "go-w"
                } else if others {
                    "o-w"
                } else {
                    "g-w"
                };
                if !last && !others {
                    let hint = format!("`chmod {who} {shown}`, or name one elsewhere with --data-dir");
                    let gid = meta.gid();
                    return Err(self.refused(format!("the group {gid} can write to {shown}"), Some(hint)));
                }
                let hint = format!("`chmod {who} {shown}` if nobody else has used it");
                Err(self.refused(format!("others can write to {shown}"), Some(hint)))
            }
        }
    }

    /// Whether somebody else could put another directory in the place of the next one. A group that holds the caller alone, as
    /// many systems give one to each user, and that of root are nobody else; nor is one that cannot get there.
    fn can_be_changed_on_the_way(&self, directory: &Path, meta: &Metadata) -> bool {
        let by_group = meta.mode() & GROUP_WRITES != 0 && !self.is_nobody_else(meta.gid());
        meta.mode() & OTHERS_WRITE != 0 || by_group && !self.is_out_of_reach(directory, meta.gid())
    }

    /// Whether a directory lies below one that a group cannot pass.
    fn is_out_of_reach(&self, directory: &Path, gid: u32) -> bool {
        let stops = |above: &Path| {
            // What cannot be looked at stops nobody.
            let Ok(meta) = fs::symlink_metadata(above) else { return false };
            let (by_group, by_others) = (meta.mode() & GROUP_PASSES != 0, meta.mode() & OTHERS_PASS != 0);
            match meta.gid() == gid {
                true => !by_group,
                // Whoever is in that group may be in this one as well.
                false => !by_others && (!by_group || self.is_nobody_else(meta.gid())),
            }
        };
        directory.ancestors().skip(1).any(stops)
    }

    fn is_nobody_else(&self, gid: u32) -> bool {
        gid == 0 || is_private_group(gid, self.me)
    }

    /// Of the caller or of root.
    fn trusts(&self, meta: &Metadata) -> bool {
        meta.uid() == self.me || meta.uid() == 0
    }

    fn go_on(&mut self, path: &Path) {
        for part in path.components().rev() {
            match part {
                Component::Normal(name) => self.rest.push_front(name.to_os_string()),
                Component::ParentDir => self.rest.push_front("..".into()),
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
    }

    fn unusable(&self, why: &Error) -> Error {
        let root = self.root.display();
        Error::other(format!(
            "the data directory {root} cannot be used: {why}; name one of your own with --data-dir"
        ))
    }

    fn refused(&self, why: String, hint: Option<String>) -> Error {
        let root = self.root.display();
        let hint = hint.unwrap_or("name one of your own with --data-dir".into());
        Error::other(format!("the data directory {root} cannot be trusted: {why}; {hint}"))
    }
}

/// Whether a group holds a user alone. What neither the books nor the name service say is not so.
fn is_private_group(gid: u32, uid: u32) -> bool {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
    let user = nix::unistd::User::from_uid(uid.into()).ok().flatten().map(|user| user.name);
    let group = nix::unistd::Group::from_gid(gid.into()).ok().flatten();
    let named = user.zip(group.map(|group| (group.name, group.mem)));
    is_alone_in(gid, uid, &users, &groups, named)
}

/// By the lines of `/etc/passwd` and `/etc/group`, it lists nobody else and is nobody else's own. `named` is what the name service
/// says of the user, and of the group with its members. That does not tell whose own group it is: where user or group are in no
/// book, the group must be called like the user.
fn is_alone_in(
    gid: u32,
    uid: u32,
    users: &str,
    groups: &str,
    named: Option<(String, (String, Vec<String>))>,
) -> bool {
    let fields = |line: &str| line.split(':').map(str::to_string).collect::<Vec<_>>();
    let number = |fields: &[String], at: usize| fields.get(at).and_then(|field| field.parse::<u32>().ok());
    let users: Vec<Vec<String>> = users.lines().map(fields).collect();
    let groups: Vec<Vec<String>> =
        groups.lines().map(fields).filter(|group| number(group, 2) == Some(gid)).collect();
    let mut names: Vec<String> = users
        .iter()
        .filter(|user| number(user, 2) == Some(uid))
        .filter_map(|user| user.first().cloned())
        .collect();
    let in_books = !names.is_empty() && !groups.is_empty();
    let mut members: Vec<String> = groups
        .iter()
        .filter_map(|group| group.get(3))
        .flat_map(|members| members.split(','))
        .map(str::to_string)
        .collect();
    let mut called_alike = false;
    if let Some((user, (group, more))) = named {
        called_alike = user == group;
        names.push(user);
        members.extend(more);
    }
    let lists_others = members.iter().any(|member| !member.is_empty() && !names.contains(member));
    let others = users.iter().any(|user| number(user, 3) == Some(gid) && number(user, 2) != Some(uid));
    (in_books || called_alike) && !lists_others && !others
}

/// What stands there, without following it; what does not is made, for its owner alone.
fn look_or_make(path: &Path) -> Result<Metadata, Error> {
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        found => return found.map_err(|error| fail("look at", path, error)),
    }
    match fs::DirBuilder::new().mode(0o700).create(path) {
        // Somebody was faster, and is judged like anybody else.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        made => made.map_err(|error| fail("create", path, error))?,
    }
    fs::symlink_metadata(path).map_err(|error| fail("look at", path, error))
}

fn fail(doing: &str, path: &Path, error: std::io::Error) -> Error {
    Error::io(doing, path, error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use zester_rule::rule;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(path: &Path) -> String {
        DataDir::open(path).unwrap_err().to_string()
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_data_dir_is_made_for_its_owner_alone() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("a/b");
        DataDir::open(&path).unwrap();
        for made in [temp.path().join("a"), path] {
            assert_eq!(fs::metadata(made).unwrap().mode() & 0o7777, 0o700);
        }
    }

    #[test]
    #[rule("C-14")]
    fn c14_one_that_cannot_be_made_is_named_whole_with_a_hint() {
        // Nobody, not even root, can make a directory there.
        let why = refusal(Path::new("/proc/state/zester"));
        assert!(why.starts_with("the data directory /proc/state/zester cannot be used: "), "{why}");
        assert!(why.contains("cannot create /proc/state: ") && why.contains("--data-dir"), "{why}");
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_data_dir_that_others_can_write_to_is_refused_with_a_hint() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("data");
        DataDir::open(&path).unwrap();
        for mode in [0o770, 0o777, 0o1777] {
            chmod(&path, mode);
            let why = refusal(&path);
            assert!(why.contains("others can write") && why.contains("chmod go-w"), "{why}");
        }
        chmod(&path, 0o755);
        assert!(DataDir::open(&path).is_ok());
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_way_that_others_can_change_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let open = temp.path().join("open");
        fs::create_dir(&open).unwrap();
        chmod(&open, 0o777);
        assert!(refusal(&open.join("data")).contains("others can write"));
        assert!(!open.join("data").exists(), "nothing is made there");
        chmod(&open, 0o1777);
        assert!(DataDir::open(&open.join("data")).is_ok(), "a shared directory with the sticky bit is fine");
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_way_that_a_group_can_change_is_refused_with_a_hint() {
        let temp = tempfile::tempdir().unwrap();
        let shared = temp.path().join("shared");
        fs::create_dir(&shared).unwrap();
        chmod(temp.path(), 0o755);
        if rustix::process::geteuid().as_raw() != 0 {
            zester_testkit::skip!("only root can give a directory to a group");
        }
        chown(&shared, None, Some(12_345)).unwrap();
        chmod(&shared, 0o775);
        let why = refusal(&shared.join("data"));
        assert!(why.contains("the group 12345 can write") && why.contains("chmod g-w"), "{why}");
        assert!(!shared.join("data").exists(), "nothing is made there");
        chmod(&shared, 0o1775);
        DataDir::open(&shared.join("data")).unwrap();
        chown(&shared, None, Some(0)).unwrap();
        chmod(&shared, 0o775);
        DataDir::open(&shared.join("data")).unwrap();
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_group_that_holds_its_user_alone_is_nobody_else() {
        let users =
            "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nbob:x:1001:1001::/:/bin/sh\n";
        let alone = |groups: &str| is_alone_in(1000, 1000, users, groups, None);
        for groups in ["ann:x:1000:\n", "bob:x:1001:\nann:x:1000:ann\n", "staff:x:1000:\n"] {
            assert!(alone(groups), "{groups:?}");
        }
        for groups in ["", "ann:x:1000:bob\n", "ann:x:1000:ann,bob\n", "ann:x:7:\n"] {
            assert!(!alone(groups), "{groups:?}");
        }
        assert!(!is_alone_in(1000, 1001, users, "ann:x:1000:\n", None), "not the caller's");
        assert!(is_alone_in(50, 0, users, "staff:x:50:\n", None), "nobody's");
        let fellow = format!("{users}eve:x:1002:1000::/:/bin/sh\n");
        assert!(!is_alone_in(1000, 1000, &fellow, "ann:x:1000:\n", None), "somebody else's own");
    }

    #[test]
    #[rule("C-14")]
    fn c14_the_group_of_a_user_whom_only_the_name_service_knows_is_called_like_the_user() {
        let users = "root:x:0:0::/root:/bin/sh\n";
        let alone = |group: &str, members: &[&str]| {
            let members = members.iter().map(ToString::to_string).collect();
            let named = Some(("ann".to_string(), (group.to_string(), members)));
            is_alone_in(5000, 5000, users, "", named)
        };
        assert!(alone("ann", &[]) && alone("ann", &["ann"]));
        assert!(!alone("ann", &["ann", "bob"]));
        // It may be the own group of everybody there, and lists none of them.
        assert!(!alone("domain users", &[]));
    }

    #[test]
    #[rule("C-14")]
    fn c14_what_a_group_cannot_get_to_it_cannot_change() {
        if rustix::process::geteuid().as_raw() != 0 {
            zester_testkit::skip!("only root can give a directory to a group");
        }
        let temp = tempfile::tempdir().unwrap();
        let shared = temp.path().join("closed/shared");
        fs::create_dir_all(&shared).unwrap();
        chmod(temp.path(), 0o755);
        chown(&shared, None, Some(12_345)).unwrap();
        chmod(&shared, 0o775);
        let closed = temp.path().join("closed");
        for (gid, mode, reached) in [
            (0, 0o755, true),
            (0, 0o700, false),
            (0, 0o710, false),
            (12_345, 0o705, false),
            (12_345, 0o710, true),
        ] {
            chown(&closed, None, Some(gid)).unwrap();
            chmod(&closed, mode);
            assert_eq!(DataDir::open(&shared.join("data")).is_err(), reached, "{gid} {mode:o}");
        }
        chown(&closed, None, Some(54_321)).unwrap();
        chmod(&closed, 0o710);
        assert!(DataDir::open(&shared.join("data")).is_err(), "who is in both groups gets there");
    }

    #[test]
    #[rule("C-14")]
    fn c14_links_are_followed_and_a_file_is_no_directory() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("real")).unwrap();
        symlink("real", temp.path().join("link")).unwrap();
        DataDir::open(&temp.path().join("link/data")).unwrap();
        assert!(temp.path().join("real/data").is_dir());
        fs::write(temp.path().join("file"), "").unwrap();
        assert!(refusal(&temp.path().join("file")).contains("not a directory"));
        symlink("loop", temp.path().join("loop")).unwrap();
        assert!(refusal(&temp.path().join("loop")).contains("too many"));
    }

    #[test]
    fn what_is_not_there_is_none_and_what_cannot_be_read_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        assert!(DataDir::existing(&temp.path().join("none")).unwrap().is_none());
        assert!(!temp.path().join("none").exists(), "nothing is made");
        assert!(DataDir::existing(temp.path()).unwrap().is_some());
        fs::write(temp.path().join("file"), "").unwrap();
        let why = DataDir::existing(&temp.path().join("file/below")).unwrap_err().to_string();
        assert!(why.contains("unknown") && why.contains("--data-dir"), "{why}");
    }

    #[test]
    #[rule("C-14")]
    fn c14_where_the_way_ends_is_judged_by_whatever_name_it_is_reached() {
        let temp = tempfile::tempdir().unwrap();
        let open = temp.path().join("open");
        fs::create_dir_all(open.join("sub")).unwrap();
        for (name, target) in [("up", "open/sub/.."), ("straight", "open"), ("open/here", ".")] {
            symlink(target, temp.path().join(name)).unwrap();
        }
        chmod(&open, 0o1777);
        let ways = ["open/sub/..", "open/sub/../sub/..", "open/sub/./../", "up", "straight", "open/here"];
        for way in ways {
            let why = refusal(&temp.path().join(way));
            assert!(why.contains("others can write") && why.contains("chmod go-w"), "{way}: {why}");
        }
        DataDir::open(&temp.path().join("up/sub/../data")).unwrap();
        chmod(&open, 0o755);
        for way in ways {
            DataDir::open(&temp.path().join(way)).unwrap();
        }
    }

    #[test]
    #[rule("C-14")]
    fn c14_what_another_user_made_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let (theirs, link) = (temp.path().join("theirs"), temp.path().join("link"));
        fs::create_dir(&theirs).unwrap();
        symlink(temp.path(), &link).unwrap();
        if rustix::process::geteuid().as_raw() != 0 {
            zester_testkit::skip!("only root can give a directory away");
        }
        chown(&theirs, Some(12_345), None).unwrap();
        std::os::unix::fs::lchown(&link, Some(12_345), None).unwrap();
        for path in [theirs.clone(), theirs.join("below"), link.join("data")] {
            let why = refusal(&path);
            assert!(why.contains("uid 12345") && why.contains("--data-dir"), "{why}");
        }
        assert!(!theirs.join("below").exists());
    }
}
