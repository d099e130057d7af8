//! `pkg.installed` and `pkg.latest`: packages that are installed, in the version that the state says, or in the newest.

use crate::params::{Invalid, params};
use crate::pkg::kind::PackageKind;
use crate::pkg::wanted::{SourceList, Wanted, WantedList};
use crate::pkg::wish::{Goal, Options, Wish, refuse_odd_names, refuse_odd_repository};
use crate::source::{Remote, invalid as invalid_source};

/// Packages that are installed.
#[params(kind = "pkg.installed", primary = "name", manual = "pkg_installed.md")]
pub struct Installed {
    /// The package, where `pkgs` or `sources` list no others.
    name: String,
    /// Several packages at once: names, or `name: version`.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// Packages from files: `name: /path/of/it.deb`, or `name: salt://it.deb`.
    #[param(instead_of_primary)]
    sources: Option<SourceList>,
    /// The version: `1.2-3` exactly, `1.2*` for all that begin like that, `>=1.2` or `>=1.2,<2` by comparison,
    /// `latest` for the newest that can be had. Unset: any will do.
    version: Option<String>,
    /// `true`: a newer version than the one named will do.
    #[param(default)]
    allow_updates: bool,
    /// `true`: the epoch does not count, `2.0` also means `1:2.0`.
    #[param(default)]
    ignore_epoch: bool,
    /// `true` refreshes the package lists before installing, `false` never does. Unset: only if a package is
    /// not known. A dry run fetches none, and says that it does not know what they would bring.
    refresh: Option<bool>,
    /// `false` leaves out packages that are merely recommended. Unset: as the manager is configured.
    install_recommends: Option<bool>,
    /// `true` holds the packages in their version, `false` lets them go. Unset: as they are.
    hold: Option<bool>,
    /// `true` changes packages although they are held.
    #[param(default)]
    update_holds: bool,
    /// The release (apt) or repository to take packages from.
    fromrepo: Option<String>,
    /// `true`: what is not installed stays so.
    #[param(default)]
    only_upgrade: bool,
    /// `true` installs packages that nobody has signed.
    #[param(default)]
    skip_verify: bool,
    /// `true` (dnf): a name may be a capability that some package provides.
    #[param(default)]
    resolve_capabilities: bool,
    /// Taken as it comes: lists are fetched only where something is to be installed.
    #[allow(dead_code, reason = "it changes nothing here")]
    cache_valid_time: Option<u64>,
    /// Taken as it comes: names that are not known are never searched for anything alike.
    #[allow(dead_code, reason = "it changes nothing here")]
    skip_suggestions: Option<bool>,
    /// Taken as it comes: a name with an architecture (`libc6:i386`) is what it says.
    #[allow(dead_code, reason = "it changes nothing here")]
    normalize: Option<bool>,
    /// Refused: a state has nothing to do where nothing differs.
    reinstall: Option<bool>,
}

/// `version: latest`, as Salt has it: the state is one of `pkg.latest`.
fn is_newest(wanted: &Wanted) -> bool {
    wanted.version.as_deref() == Some("latest")
}

fn all_newest(asked: &[Wanted]) -> bool {
    !asked.is_empty() && asked.iter().all(is_newest)
}

impl Installed {
    fn asked(&self) -> Vec<Wanted> {
        match (&self.pkgs, &self.sources) {
            (None, None) => vec![Wanted { version: self.version.clone(), ..Wanted::any(&self.name) }],
            (pkgs, sources) => {
                let listed = pkgs.iter().flat_map(|list| &list.0);
                listed.chain(sources.iter().flat_map(|list| &list.0)).cloned().collect()
            }
        }
    }
}

impl PackageKind for Installed {
    fn wish(&self) -> Wish {
        let mut asked = self.asked();
        let goal = if all_newest(&asked) { Goal::Latest } else { Goal::Installed };
        if goal == Goal::Latest {
            asked.iter_mut().for_each(|wanted| wanted.version = None);
        }
        Wish {
            options: Options {
                recommends: self.install_recommends,
                from: self.fromrepo.clone(),
                only_upgrade: self.only_upgrade,
                update_holds: self.update_holds,
                capabilities: self.resolve_capabilities,
                skip_verify: self.skip_verify,
                download: false,
            },
            refresh: self.refresh,
            hold: self.hold,
            ignore_epoch: self.ignore_epoch,
            or_newer: self.allow_updates,
            ..Wish::new(goal, asked)
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        let asked = self.asked();
        let (listed, from_files) = (self.pkgs.is_some(), self.sources.is_some());
        let parameter = if listed {
            "pkgs"
        } else if from_files {
            "sources"
        } else {
            "name"
        };
        let mut invalid = refuse_odd_names(&asked, parameter);
        if self.version.is_some() && (listed || from_files) {
            let message = "with `pkgs`, each package has its own version, `name: version`";
            invalid.push(Invalid::new("version", message));
        }
        if asked.iter().any(is_newest) && !all_newest(&asked) {
            let hint = Some("keep those in a `pkg.latest` of their own".to_string());
            let message = "some in the newest version and others not is more than one state can have";
            invalid.push(Invalid { hint, ..Invalid::new("pkgs", message) });
        }
        for source in asked.iter().filter_map(|wanted| wanted.source.as_deref()) {
            invalid.extend(invalid_source("sources", source, Remote::Refused));
        }
        if self.reinstall == Some(true) {
            let hint = Some("`cmd.run` with `onchanges` can install it anew".to_string());
            invalid.push(Invalid {
                hint,
                ..Invalid::new("reinstall", "nothing is installed that is there already")
            });
        }
        invalid.extend(refuse_odd_repository(self.fromrepo.as_deref()));
        invalid
    }
}

/// Packages in the newest version that can be had.
#[params(kind = "pkg.latest", primary = "name", manual = "pkg_latest.md")]
pub struct Latest {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// `true` refreshes the package lists first, `false` never does. Unset: only if a package is not known.
    refresh: Option<bool>,
    /// `false` leaves out packages that are merely recommended. Unset: as the manager is configured.
    install_recommends: Option<bool>,
    /// `true` holds the packages in their version, `false` lets them go. Unset: as they are.
    hold: Option<bool>,
    /// `true` changes packages although they are held.
    #[param(default)]
    update_holds: bool,
    /// The release (apt) or repository to take packages from.
    fromrepo: Option<String>,
    /// `true`: what is not installed stays so.
    #[param(default)]
    only_upgrade: bool,
    /// `true` installs packages that nobody has signed.
    #[param(default)]
    skip_verify: bool,
    /// Taken as it comes: lists are fetched only where something is to be installed.
    #[allow(dead_code, reason = "it changes nothing here")]
    cache_valid_time: Option<u64>,
    /// Taken as it comes: names that are not known are never searched for anything alike.
    #[allow(dead_code, reason = "it changes nothing here")]
    skip_suggestions: Option<bool>,
}

impl Latest {
    fn asked(&self) -> Vec<Wanted> {
        self.pkgs.as_ref().map_or_else(|| vec![Wanted::any(&self.name)], |list| list.0.clone())
    }
}

impl PackageKind for Latest {
    fn wish(&self) -> Wish {
        Wish {
            options: Options {
                recommends: self.install_recommends,
                from: self.fromrepo.clone(),
                only_upgrade: self.only_upgrade,
                update_holds: self.update_holds,
                skip_verify: self.skip_verify,
                ..Options::default()
            },
            refresh: self.refresh,
            hold: self.hold,
            ..Wish::new(Goal::Latest, self.asked())
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        let asked = self.asked();
        let parameter = if self.pkgs.is_some() { "pkgs" } else { "name" };
        let mut invalid = refuse_odd_names(&asked, parameter);
        if asked.iter().any(|wanted| wanted.version.is_some()) {
            let hint = Some("pkg.installed takes versions".to_string());
            invalid.push(Invalid { hint, ..Invalid::new("pkgs", "the newest has no other version") });
        }
        invalid.extend(refuse_odd_repository(self.fromrepo.as_deref()));
        invalid
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use tests::cases;
