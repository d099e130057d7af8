//! A host whose writes stay in memory, above any other host.
//!
//! It serves two ends with one implementation. In a dry run it lies over the real machine and collects
//! what the states would do, so that what an earlier state would create counts as there (S-30). In tests it
//! lies above [`EmptyHost`] and is a whole machine of its own, with [`Overlay::snapshot`] to compare before and
//! after.
//!
//! Paths mean what they mean on Linux: parents must exist and be directories, links are followed inside a
//! path, a directory that is not empty cannot be removed.

mod empty_host;
mod resolve;
mod snapshot;

pub use empty_host::EmptyHost;
pub use snapshot::UNKNOWN_FILE;

use crate::digest::sha256_hex;
use crate::download::Download;
use crate::fault::{Fault, FaultKind};
use crate::files::{
    Act, BeforeImage, Body, FileKind, Group, HostRead, HostWrite, Meta, NewFile, Owner, PredictedPackage,
    PredictedState, Seen, Slot, Special, User,
};
use crate::xattrs::{Lost, Xattrs};
use resolve::{Layer, Place};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_model::limits::FILE_BYTES_MAX;

/// What the overlay holds in place of what lies below it.
#[derive(Clone, Debug)]
enum UpperEntry {
    Whiteout,
    /// `opaque`: nothing of the host below shows through, because the directory is a new one.
    Dir {
        attributes: Attributes,
        opaque: bool,
    },
    File {
        attributes: Attributes,
        content: Content,
    },
    Link {
        attributes: Attributes,
        target: PathBuf,
    },
    Special {
        attributes: Attributes,
        special: Special,
    },
}

impl UpperEntry {
    fn attributes(&self) -> Option<&Attributes> {
        match self {
            UpperEntry::Whiteout => None,
            UpperEntry::Dir { attributes, .. }
            | UpperEntry::File { attributes, .. }
            | UpperEntry::Link { attributes, .. }
            | UpperEntry::Special { attributes, .. } => Some(attributes),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Attributes {
    mode: u32,
    owner: Owner,
    atime_ns: i128,
    mtime_ns: i128,
    xattrs: Xattrs,
}

#[derive(Clone, Debug)]
enum Content {
    Own(Arc<[u8]>),
    /// Still the file of the host below, under its path there: a changed mode copies no content.
    Lower(PathBuf, u64),
    /// A command would write it: nobody knows what.
    Unknown,
}

#[derive(Default)]
struct Written {
    entries: BTreeMap<PathBuf, UpperEntry>,
    /// None: somebody who would be gone by then.
    users: HashMap<String, Option<User>>,
    groups: HashMap<String, Option<Group>>,
    packages: HashMap<String, PredictedPackage>,
    /// What lies on servers, by its address: for tests.
    served: HashMap<String, Arc<[u8]>>,
    states: HashMap<Slot, PredictedState>,
    /// Names of one file.
    hard_links: Vec<[PathBuf; 2]>,
}

/// Copy-on-write above another host.
pub struct Overlay {
    lower: Arc<dyn HostRead>,
    written: Mutex<Written>,
}

impl Overlay {
    pub fn over(lower: Arc<dyn HostRead>) -> Overlay {
        Overlay { lower, written: Mutex::new(Written::default()) }
    }

    /// A machine with an empty `/` that belongs to root, who runs it.
    pub fn empty() -> Overlay {
        Overlay::over(Arc::new(EmptyHost))
    }

    pub fn predict_user(&self, user: User) {
        self.written().users.insert(user.name.clone(), Some(user));
    }

    pub fn predict_no_user(&self, name: &str) {
        self.written().users.insert(name.to_string(), None);
    }

    pub fn predict_group(&self, group: Group) {
        self.written().groups.insert(group.name.clone(), Some(group));
    }

    pub fn predict_no_group(&self, name: &str) {
        self.written().groups.insert(name.to_string(), None);
    }

    /// Has a server give this.
    pub fn serve(&self, url: &str, content: &[u8]) {
        self.written().served.insert(url.to_string(), content.into());
    }

    /// Notes that a package would be installed (with a version, where one is known).
    pub fn predict_package(&self, name: &str, version: Option<&str>) {
        self.written()
            .packages
            .insert(name.to_string(), PredictedPackage::Installed(version.map(str::to_string)));
    }

    pub fn predict_package_removed(&self, name: &str) {
        self.written().packages.insert(name.to_string(), PredictedPackage::Removed);
    }

    /// Notes what would become of a thing that is no file.
    pub fn predict_state(&self, slot: Slot, state: PredictedState) {
        self.written().states.insert(slot, state);
    }

    /// Notes that a command would make a file of which nobody knows what it holds. Whoever reads it finds it missing.
    pub fn predict_file(&self, path: &Path, mode: u32) -> Result<(), Fault> {
        let place = self.place("write", path)?;
        let attributes = Attributes::new(mode, self.me());
        self.put(&place, UpperEntry::File { attributes, content: Content::Unknown });
        Ok(())
    }

    fn written(&self) -> MutexGuard<'_, Written> {
        // Every change to the maps is one insert, so a panic elsewhere leaves nothing half done.
        self.written.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// While nothing was written the host below answers by itself, at its own speed.
    fn untouched(&self) -> bool {
        self.written().entries.is_empty()
    }

    /// Something else stands there now: a name of another file no longer.
    fn put(&self, place: &Place, entry: UpperEntry) {
        let mut written = self.written();
        written.hard_links.retain(|names| !names.contains(&place.path));
        written.entries.insert(place.path.clone(), entry);
    }

    /// Where a new thing may be put: the parent is there and a directory.
    fn place(&self, doing: &str, path: &Path) -> Result<Place, Fault> {
        let written = self.written();
        let place = resolve::resolve(&*self.lower, &written.entries, path, false)?;
        match &place {
            Some(place) => Ok(place.clone()),
            None => Err(Fault::io(doing, path, std::io::ErrorKind::NotFound.into())),
        }
    }

    fn existing(&self, doing: &str, path: &Path) -> Result<(Place, Layer), Fault> {
        let place = self.place(doing, path)?;
        match place.found.clone() {
            Some(found) => Ok((place, found)),
            None => Err(Fault::io(doing, path, std::io::ErrorKind::NotFound.into())),
        }
    }

    fn find(&self, path: &Path, follow: bool) -> Result<Option<Place>, Fault> {
        let written = self.written();
        resolve::resolve(&*self.lower, &written.entries, path, follow)
    }

    /// Copies what is there into the overlay with other attributes.
    fn change(&self, doing: &str, path: &Path, edit: impl FnOnce(&mut Attributes)) -> Result<(), Fault> {
        let (place, found) = self.existing(doing, path)?;
        let mut entry = found.into_entry(&*self.lower, &place.path)?;
        match &mut entry {
            UpperEntry::Whiteout => {}
            UpperEntry::Dir { attributes, .. }
            | UpperEntry::File { attributes, .. }
            | UpperEntry::Link { attributes, .. }
            | UpperEntry::Special { attributes, .. } => {
                edit(attributes);
            }
        }
        self.written().entries.insert(place.path, entry);
        Ok(())
    }

    fn xattrs_of(&self, place: &Place, found: Option<&Layer>) -> Result<Xattrs, Fault> {
        match found {
            Some(Layer::Lower(_)) => self.lower.xattrs(&place.path),
            Some(Layer::Upper(entry)) => {
                Ok(entry.attributes().map(|attributes| attributes.xattrs.clone()).unwrap_or_default())
            }
            None => Ok(Xattrs::default()),
        }
    }

    fn names_in(&self, place: &Place) -> Result<Vec<OsString>, Fault> {
        let opaque = matches!(&place.found, Some(Layer::Upper(UpperEntry::Dir { opaque: true, .. })));
        let mut names: BTreeSet<OsString> = BTreeSet::new();
        if !opaque {
            names.extend(self.lower.list(&place.path)?);
        }
        let written = self.written();
        for (path, entry) in written.entries.range(place.path.clone()..) {
            if !path.starts_with(&place.path) {
                break;
            }
            if path.parent() != Some(&place.path) {
                continue;
            }
            let Some(name) = path.file_name() else { continue };
            match entry {
                UpperEntry::Whiteout => names.remove(name),
                _ => names.insert(name.to_os_string()),
            };
        }
        Ok(names.into_iter().collect())
    }
}

fn in_the_way(doing: &str, path: &Path, what: &str) -> Fault {
    Fault::new(FaultKind::InTheWay, format!("cannot {doing} {}: {what}", path.display()))
}

fn now_ns() -> i128 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i128)
}

impl Attributes {
    fn new(mode: u32, owner: Owner) -> Attributes {
        let now = now_ns();
        Attributes { mode, owner, atime_ns: now, mtime_ns: now, xattrs: Xattrs::default() }
    }

    fn of(meta: &Meta, xattrs: Xattrs) -> Attributes {
        let owner = Owner { uid: meta.uid, gid: meta.gid };
        Attributes { mode: meta.mode, owner, atime_ns: meta.atime_ns, mtime_ns: meta.mtime_ns, xattrs }
    }

    fn meta(&self, kind: FileKind, size: u64) -> Meta {
        Meta {
            kind,
            mode: self.mode,
            uid: self.owner.uid,
            gid: self.owner.gid,
            size,
            links: 1,
            mtime_ns: self.mtime_ns,
            atime_ns: self.atime_ns,
        }
    }
}

impl HostRead for Overlay {
    /// Nobody changes it but those who are given it.
    fn without_links(&self) -> &dyn HostRead {
        self
    }

    fn real_path(&self, path: &Path) -> Result<PathBuf, Fault> {
        if self.untouched() {
            return self.lower.real_path(path);
        }
        for ancestor in path.ancestors().skip(1) {
            if let Some(Place { path: real, found: Some(_) }) = self.find(ancestor, true)? {
                return Ok(path.strip_prefix(ancestor).map_or(real.clone(), |rest| real.join(rest)));
            }
        }
        Ok(path.to_path_buf())
    }

    fn stat(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        if self.untouched() {
            return self.lower.stat(path);
        }
        Ok(self.find(path, false)?.and_then(|place| place.found).map(|found| found.meta()))
    }

    fn stat_followed(&self, path: &Path) -> Result<Option<Meta>, Fault> {
        if self.untouched() {
            return self.lower.stat_followed(path);
        }
        Ok(self.find(path, true)?.and_then(|place| place.found).map(|found| found.meta()))
    }

    fn read(&self, path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
        if self.untouched() {
            return self.lower.read(path, limit);
        }
        let place = self.find(path, true)?;
        let missing = || Fault::io("read", path, std::io::ErrorKind::NotFound.into());
        let place = place.ok_or_else(missing)?;
        match place.found.ok_or_else(missing)? {
            Layer::Upper(UpperEntry::File { content: Content::Own(content), .. }) => {
                if content.len() as u64 > limit {
                    return Err(crate::real::too_large(path, limit));
                }
                Ok(content.to_vec())
            }
            Layer::Upper(UpperEntry::File { content: Content::Lower(lower, _), .. }) => {
                self.lower.read(&lower, limit)
            }
            Layer::Upper(UpperEntry::File { content: Content::Unknown, .. }) => {
                let message =
                    format!("what {} holds is not known before the command has run", path.display());
                Err(Fault::new(FaultKind::NotFound, message))
            }
            Layer::Lower(meta) if meta.kind == FileKind::File => self.lower.read(&place.path, limit),
            _ => Err(in_the_way("read", path, "it is not a file")),
        }
    }

    fn read_link(&self, path: &Path) -> Result<PathBuf, Fault> {
        let (place, found) = self.existing("read the link", path)?;
        match found {
            Layer::Upper(UpperEntry::Link { target, .. }) => Ok(target),
            Layer::Lower(_) => self.lower.read_link(&place.path),
            Layer::Upper(_) => Err(in_the_way("read the link", path, "it is not a link")),
        }
    }

    fn list(&self, path: &Path) -> Result<Vec<OsString>, Fault> {
        if self.untouched() {
            return self.lower.list(path);
        }
        let place = self.find(path, true)?;
        match place.filter(|place| place.found.is_some()) {
            Some(place) if place.kind() == Some(FileKind::Directory) => self.names_in(&place),
            Some(_) => Err(in_the_way("list", path, "not a directory")),
            None => Err(Fault::io("list", path, std::io::ErrorKind::NotFound.into())),
        }
    }

    fn xattrs(&self, path: &Path) -> Result<Xattrs, Fault> {
        if self.untouched() {
            return self.lower.xattrs(path);
        }
        let (place, found) = self.existing("read the extended attributes of", path)?;
        self.xattrs_of(&place, Some(&found))
    }

    fn is_mount_point(&self, path: &Path) -> Result<bool, Fault> {
        self.lower.is_mount_point(path)
    }

    fn same_file(&self, one: &Path, other: &Path) -> Result<bool, Fault> {
        if self.untouched() {
            return self.lower.same_file(one, other);
        }
        let (Some(one), Some(other)) = (self.find(one, false)?, self.find(other, false)?) else {
            return Ok(false);
        };
        let linked = |names: &[PathBuf; 2]| names.contains(&one.path) && names.contains(&other.path);
        match (&one.found, &other.found) {
            (None, _) | (_, None) => Ok(false),
            _ if one.path == other.path || self.written().hard_links.iter().any(linked) => Ok(true),
            (Some(Layer::Lower(_)), Some(Layer::Lower(_))) => self.lower.same_file(&one.path, &other.path),
            _ => Ok(false),
        }
    }

    fn user(&self, name: &str) -> Result<Option<User>, Fault> {
        let predicted = self.written().users.get(name).cloned();
        predicted.map_or_else(|| self.lower.user(name), Ok)
    }

    fn group(&self, name: &str) -> Result<Option<Group>, Fault> {
        let predicted = self.written().groups.get(name).cloned();
        predicted.map_or_else(|| self.lower.group(name), Ok)
    }

    fn download(&self, download: &Download<'_>) -> Result<Vec<u8>, Fault> {
        let served = self.written().served.get(download.url).cloned();
        match served {
            Some(content) if content.len() as u64 > download.bytes_max => {
                let message = format!("{} is too large", download.url);
                Err(Fault::new(FaultKind::Unsupported, message))
            }
            Some(content) => Ok(content.to_vec()),
            None => self.lower.download(download),
        }
    }

    fn me(&self) -> Owner {
        self.lower.me()
    }

    /// What an earlier state of the dry run would make or change is ours by then.
    fn may(&self, path: &Path, act: Act) -> Result<(), Fault> {
        // Whom we may give things to does not depend on what is predicted.
        if self.untouched() || matches!(act, Act::New(_)) {
            return self.lower.may(path, act);
        }
        for ancestor in path.ancestors().skip(usize::from(act == Act::Put)) {
            match self.find(ancestor, true)?.and_then(|place| place.found) {
                Some(Layer::Upper(_)) => return Ok(()),
                Some(Layer::Lower(_)) => return self.lower.may(path, act),
                None => {}
            }
        }
        Ok(())
    }

    fn predicted_package(&self, name: &str) -> Option<PredictedPackage> {
        let predicted = self.written().packages.get(name).cloned();
        predicted.or_else(|| self.lower.predicted_package(name))
    }

    fn predicted_state(&self, slot: &Slot) -> Option<PredictedState> {
        let predicted = self.written().states.get(slot).cloned();
        predicted.or_else(|| self.lower.predicted_state(slot))
    }
}

impl HostWrite for Overlay {
    fn acting(&self) -> &dyn HostWrite {
        self
    }

    fn make_special(&self, path: &Path, special: Special, mode: u32, owner: Owner) -> Result<(), Fault> {
        let doing = format!("create {}", special.article());
        let place = self.place(&doing, path)?;
        if place.found.is_some() {
            return Err(in_the_way(&doing, path, "file exists"));
        }
        self.put(&place, UpperEntry::Special { attributes: Attributes::new(mode, owner), special });
        Ok(())
    }

    fn put_file(&self, path: &Path, file: &NewFile<'_>) -> Result<(), Fault> {
        let place = self.place("write", path)?;
        if place.kind() == Some(FileKind::Directory) {
            return Err(in_the_way("write", path, "a directory is in the way"));
        }
        let same_owner = place.found.as_ref().is_some_and(|found| found.meta().uid == file.owner.uid);
        let xattrs = self.xattrs_of(&place, place.found.as_ref())?.carried(same_owner);
        let attributes = Attributes { xattrs, ..Attributes::new(file.mode, file.owner) };
        self.put(&place, UpperEntry::File { attributes, content: Content::Own(file.content.into()) });
        Ok(())
    }

    fn put_file_over(&self, path: &Path, file: &NewFile<'_>, seen: Seen<'_>) -> Result<(), Fault> {
        let kind = self.stat(path)?.map(|meta| meta.kind);
        let unchanged = match (seen, kind) {
            (Seen::Nothing, kind) => kind.is_none(),
            (Seen::File(sha256), Some(FileKind::File)) => {
                sha256_hex(&self.read(path, FILE_BYTES_MAX)?) == sha256
            }
            (Seen::Link(target), Some(FileKind::Link)) => self.read_link(path)? == target,
            (Seen::File(_) | Seen::Link(_), _) => false,
        };
        if unchanged { self.put_file(path, file) } else { Err(Fault::changed_meanwhile(path)) }
    }

    fn make_directory(&self, path: &Path, mode: u32, owner: Owner) -> Result<(), Fault> {
        let place = self.place("create the directory", path)?;
        if place.found.is_some() {
            return Err(in_the_way("create the directory", path, "file exists"));
        }
        self.put(&place, UpperEntry::Dir { attributes: Attributes::new(mode, owner), opaque: true });
        Ok(())
    }

    fn put_link(&self, path: &Path, target: &Path, owner: Owner) -> Result<(), Fault> {
        let place = self.place("create the link", path)?;
        if place.kind() == Some(FileKind::Directory) {
            return Err(in_the_way("create the link", path, "a directory is in the way"));
        }
        let attributes = Attributes::new(0o777, owner);
        self.put(&place, UpperEntry::Link { attributes, target: target.to_path_buf() });
        Ok(())
    }

    fn put_hard_link(&self, path: &Path, target: &Path) -> Result<(), Fault> {
        let (file, found) = self.existing("link to", target)?;
        let place = self.place("create the link", path)?;
        if place.kind() == Some(FileKind::Directory) || file.kind() != Some(FileKind::File) {
            return Err(in_the_way("create the link", path, "a directory is in the way"));
        }
        let entry = found.into_entry(&*self.lower, &file.path)?;
        self.put(&place, entry);
        self.written().hard_links.push([place.path, file.path]);
        Ok(())
    }

    fn restore(&self, path: &Path, image: &BeforeImage<'_>) -> Result<Lost, Fault> {
        let BeforeImage { body, mode, owner, xattrs } = *image;
        match body {
            Body::File(content) => self.put_file(path, &NewFile { content, mode, owner })?,
            Body::Directory => self.make_directory(path, mode, owner)?,
            Body::Link(target) => self.put_link(path, target, owner)?,
            Body::Special(special) => self.make_special(path, special, mode, owner)?,
        }
        self.set_xattrs(path, xattrs)
    }

    fn set_xattrs(&self, path: &Path, xattrs: &Xattrs) -> Result<Lost, Fault> {
        let mut lost = Lost::new();
        self.change("set the extended attributes of", path, |attributes| {
            lost = attributes.xattrs.extend(xattrs);
        })?;
        Ok(lost)
    }

    fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Fault> {
        self.change("set the mode of", path, |attributes| attributes.mode = mode)
    }

    fn set_owner(&self, path: &Path, owner: Owner) -> Result<(), Fault> {
        self.change("set the owner of", path, |attributes| attributes.owner = owner)
    }

    fn set_times(&self, path: &Path, atime_ns: i128, mtime_ns: i128) -> Result<(), Fault> {
        self.change("set the times of", path, |attributes| {
            attributes.atime_ns = atime_ns;
            attributes.mtime_ns = mtime_ns;
        })
    }

    fn remove_file(&self, path: &Path) -> Result<(), Fault> {
        let (place, _) = self.existing("remove", path)?;
        if place.kind() == Some(FileKind::Directory) {
            return Err(in_the_way("remove", path, "is a directory"));
        }
        self.put(&place, UpperEntry::Whiteout);
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Fault> {
        let (place, _) = self.existing("remove the directory", path)?;
        if place.kind() != Some(FileKind::Directory) {
            return Err(in_the_way("remove the directory", path, "not a directory"));
        }
        if !self.names_in(&place)?.is_empty() {
            return Err(in_the_way("remove the directory", path, "directory not empty"));
        }
        self.put(&place, UpperEntry::Whiteout);
        Ok(())
    }

    /// Nothing that happens in memory can be interrupted half-way.
    fn sweep(&self, _: &Path) -> Result<(), Fault> {
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Fault> {
        let (place, found) = self.existing("move", from)?;
        let target = self.place("move to", to)?;
        if target.found.is_some() {
            return Err(in_the_way("move to", to, "file exists"));
        }
        if target.path.starts_with(&place.path) {
            return Err(in_the_way("move to", to, "it lies inside what is moved"));
        }
        let names = match place.kind() {
            Some(FileKind::Directory) => self.names_in(&place)?,
            _ => Vec::new(),
        };
        let mut entry = found.into_entry(&*self.lower, &place.path)?;
        if let UpperEntry::Dir { opaque, .. } = &mut entry {
            *opaque = true;
        }
        self.put(&target, entry);
        for name in names {
            self.rename(&from.join(&name), &to.join(&name))?;
        }
        self.put(&place, UpperEntry::Whiteout);
        Ok(())
    }
}
