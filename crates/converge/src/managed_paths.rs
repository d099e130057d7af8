//! The paths that the states of a run decide about, edit or need: what none of them may clear away as nobody's.

use crate::real_places::RealPlaces;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use zester_host::real::Real;
use zester_host::{Fault, FaultKind, HostRead};
use zester_resources::Bound;
use zester_resources::claims::ManagedItem;

/// Collected when the first state asks: most runs clear nothing away.
pub struct ManagedPaths {
    bound: Vec<Arc<dyn Bound>>,
    declared: OnceLock<Declared>,
}

/// What the states name, as they name it.
#[derive(Default)]
struct Declared {
    paths: BTreeSet<Named>,
    /// Those whose homes are where the account database says.
    users: BTreeSet<String>,
    /// Those of them who are made where there are none, with the home that the system gives.
    made: BTreeSet<String>,
    /// The paths of each state that puts things inside which only it knows, and those that one takes whole.
    fillers: Vec<Vec<Named>>,
}

/// A path, and whether a link at its end is followed.
type Named = (PathBuf, bool);

/// Where useradd is told what to do when nothing is said.
const USERADD: &str = "/etc/default/useradd";
const USERADD_BYTES_MAX: u64 = 64 * 1024;
/// Where homes are made when nothing is said there either.
const HOMES: &str = "/home";

impl ManagedPaths {
    pub fn of(bound: &[Arc<dyn Bound>]) -> ManagedPaths {
        ManagedPaths { bound: bound.to_vec(), declared: OnceLock::new() }
    }

    fn declared(&self) -> &Declared {
        self.declared.get_or_init(|| {
            let mut declared = Declared::default();
            for bound in &self.bound {
                let claims = bound.claims();
                let own: Vec<Named> =
                    claims.paths().map(|(path, follows)| (path.to_path_buf(), follows)).collect();
                for owned in claims.owned {
                    if let ManagedItem::User(name) = owned.item {
                        declared.users.insert(name);
                    }
                }
                declared.made.extend(claims.makes_user);
                let stands_on = claims.needs.into_iter().chain(claims.holds).map(|path| (path, true));
                declared.paths.extend(own.iter().cloned().chain(stands_on));
                if claims.fills {
                    declared.fillers.push(own);
                }
                if !claims.takes.is_empty() {
                    declared.fillers.push(claims.takes.into_iter().map(|path| (path, true)).collect());
                }
            }
            declared
        })
    }

    /// Those below a directory, each from the directory on; the directory itself as an empty path. Where links lead is looked at
    /// each time: a state before this one may have made them.
    pub fn below(&self, directory: &Path) -> Result<Vec<PathBuf>, Fault> {
        self.below_on(&Real::new(), directory)
    }

    fn below_on(&self, host: &dyn HostRead, directory: &Path) -> Result<Vec<PathBuf>, Fault> {
        let declared = self.declared();
        let mut homes = Vec::new();
        for name in &declared.users {
            match host.user(name)? {
                Some(user) => homes.push((user.home, true)),
                None if declared.made.contains(name) => {
                    homes.push((homes_of_new_users(host)?.join(name), true))
                }
                None => {}
            }
        }
        let places = RealPlaces::on(host);
        let mut below = BTreeSet::new();
        for (path, follows) in declared.paths.iter().chain(&homes) {
            let names = places.names(path, *follows);
            below.extend(
                names.iter().filter_map(|name| name.strip_prefix(directory).ok()).map(Path::to_path_buf),
            );
        }
        Ok(below.into_iter().collect())
    }

    /// How many states fill a directory, or one above it, or take all that lies there, whichever of its names they know.
    pub fn fillers_of(&self, names: &[&Path]) -> usize {
        let host = Real::new();
        let places = RealPlaces::on(&host);
        let fills = |(path, follows): &Named| {
            let known = places.names(path, *follows);
            known.iter().any(|path| names.iter().any(|name| name.starts_with(path)))
        };
        self.declared().fillers.iter().filter(|paths| paths.iter().any(fills)).count()
    }
}

/// The directory in which useradd makes homes.
fn homes_of_new_users(host: &dyn HostRead) -> Result<PathBuf, Fault> {
    let text = match host.read(Path::new(USERADD), USERADD_BYTES_MAX) {
        Ok(text) => String::from_utf8_lossy(&text).into_owned(),
        Err(fault) if fault.kind == FaultKind::NotFound => String::new(),
        Err(fault) => return Err(fault),
    };
    let told = text.lines().filter_map(|line| line.trim().strip_prefix("HOME=")).next_back();
    let told = told.map(|told| told.trim().trim_matches('"')).filter(|told| told.starts_with('/'));
    Ok(PathBuf::from(told.unwrap_or(HOMES)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::implicit_order::tests::compiled;
    use zester_host::overlay::Overlay;
    use zester_host::{HostWrite, NewFile, User};
    use zester_rule::rule;

    #[test]
    #[rule("S-57")]
    fn s57_homes_mount_points_and_what_commands_create_are_not_nobodys() {
        let text = "
given: {user.present: [{home: /srv/given}]}
known: {user.present: [{shell: /bin/sh}]}
fresh: {user.present: [{shell: /bin/sh}]}
gone: {user.absent: []}
mounted: {mount.mounted: [{name: /srv/disk}, {device: /dev/sdb1}, {fstype: ext4}]}
editor: {alternatives.install: [{link: /srv/bin/editor}, {path: /srv/vi/vi}, {priority: 5}]}
pager: {alternatives.set: [{path: /srv/less/less}]}
built: {cmd.run: [{command: make}, {cwd: /srv/app}, {creates: out}]}
conf: {file.append: [{path: /srv/conf}, {text: x}]}
elsewhere: {file.managed: [{path: /etc/motd}, {content: x}]}
";
        let compiled = compiled("c.zy", text);
        assert!(compiled.diagnostics.is_empty(), "{:?}", compiled.diagnostics);
        let bound = compiled.program.states.iter().map(|state| {
            let bound = zester_resources::bind(state.name.kind(), &state.params, state.span);
            Arc::from(bound.unwrap_or_else(|found| panic!("{found:?}")))
        });
        let managed = ManagedPaths::of(&bound.collect::<Vec<_>>());
        let host = Overlay::empty();
        let home = PathBuf::from("/srv/known");
        host.predict_user(User { name: "known".into(), uid: 7, gid: 7, home });
        host.predict_no_user("fresh");
        host.predict_no_user("gone");
        let below = managed.below_on(&host, Path::new("/srv")).unwrap();
        let below: Vec<&str> = below.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(below, ["app/out", "bin/editor", "conf", "disk", "given", "known", "less/less", "vi/vi"]);
        let below = |directory: &str| managed.below_on(&host, Path::new(directory)).unwrap();
        assert_eq!(below("/home"), [PathBuf::from("fresh")], "where useradd would put it");
        let furnished = Overlay::empty();
        for name in ["fresh", "gone", "known", "given"] {
            furnished.predict_no_user(name);
        }
        for path in ["/etc", "/etc/default"] {
            furnished.make_directory(path.as_ref(), 0o755, furnished.me()).unwrap();
        }
        let content = b"# HOME=/no\nGROUP=100\nHOME=/people\n";
        let file = NewFile { content, mode: 0o644, owner: furnished.me() };
        furnished.put_file("/etc/default/useradd".as_ref(), &file).unwrap();
        let below = managed.below_on(&furnished, Path::new("/people")).unwrap();
        assert_eq!(below, [PathBuf::from("fresh"), PathBuf::from("known")]);
    }
}
