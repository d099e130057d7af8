//! The paths that the states of a run decide about, edit or need: what none of them may clear away as nobody's.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use zester_host::real::Real;
use zester_host::{Fault, HostRead};
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
    paths: BTreeSet<PathBuf>,
    /// Those whose homes are where the account database says.
    users: BTreeSet<String>,
    /// The paths of each state that puts things inside which only it knows.
    fillers: Vec<Vec<PathBuf>>,
}

impl ManagedPaths {
    pub fn of(bound: &[Arc<dyn Bound>]) -> ManagedPaths {
        ManagedPaths { bound: bound.to_vec(), declared: OnceLock::new() }
    }

    fn declared(&self) -> &Declared {
        self.declared.get_or_init(|| {
            let mut declared = Declared::default();
            for bound in &self.bound {
                let claims = bound.claims();
                let mut own = claims.edits;
                for owned in claims.owned {
                    match owned.item {
                        ManagedItem::Path(path) => own.push(path),
                        ManagedItem::User(name) => drop(declared.users.insert(name)),
                        _ => {}
                    }
                }
                declared.paths.extend(own.iter().chain(&claims.needs).chain(&claims.holds).cloned());
                if claims.fills {
                    declared.fillers.push(own);
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
        let mut paths: BTreeSet<PathBuf> = declared.paths.clone();
        for name in &declared.users {
            paths.extend(host.user(name)?.map(|user| user.home));
        }
        let mut below = BTreeSet::new();
        for path in paths {
            let real = host.real_path(&path).ok();
            for path in [Some(path), real].into_iter().flatten() {
                below.extend(path.strip_prefix(directory).ok().map(Path::to_path_buf));
            }
        }
        Ok(below.into_iter().collect())
    }

    /// How many states fill a directory, or one above it, whichever of its names they know.
    pub fn fillers_of(&self, names: &[&Path]) -> usize {
        let host = Real::new();
        let fills = |path: &PathBuf| {
            let real = host.real_path(path).ok();
            let mut both = [Some(path), real.as_ref()].into_iter().flatten();
            both.any(|path| names.iter().any(|name| name.starts_with(path)))
        };
        self.declared().fillers.iter().filter(|paths| paths.iter().any(fills)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::implicit_order::tests::compiled;
    use zester_host::User;
    use zester_host::overlay::Overlay;
    use zester_rule::rule;

    #[test]
    #[rule("S-57")]
    fn s57_homes_mount_points_and_what_commands_create_are_not_nobodys() {
        let text = "
given: {user.present: [{home: /srv/given}]}
known: {user.present: [{shell: /bin/sh}]}
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
        let below = managed.below_on(&host, Path::new("/srv")).unwrap();
        let below: Vec<&str> = below.iter().map(|path| path.to_str().unwrap()).collect();
        assert_eq!(below, ["app/out", "bin/editor", "conf", "disk", "given", "known", "less/less", "vi/vi"]);
    }
}
