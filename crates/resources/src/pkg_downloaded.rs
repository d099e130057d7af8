//! `pkg.downloaded`: packages that are fetched, and not installed.

use crate::params::{Invalid, params};
use crate::pkg::kind::PackageKind;
use crate::pkg::wanted::{Wanted, WantedList};
use crate::pkg::wish::{Goal, Options, Wish, refuse_odd_names, refuse_odd_repository};

/// Packages that are fetched, and not installed.
#[params(kind = "pkg.downloaded", primary = "name", manual = "pkg_downloaded.md")]
pub struct Downloaded {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once: names, or `name: version`.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// The version: `1.2-3` exactly, or `>=1.2` by comparison. Unset: the newest.
    version: Option<String>,
    /// `true` refreshes the package lists first, `false` never does. Unset: only if a package is not known.
    refresh: Option<bool>,
    /// `false` leaves out packages that are merely recommended. Unset: as the manager is configured.
    install_recommends: Option<bool>,
    /// The release (apt) or repository to take packages from.
    fromrepo: Option<String>,
}

impl PackageKind for Downloaded {
    const UNDOABLE: bool = false;

    fn wish(&self) -> Wish {
        let one = || vec![Wanted { version: self.version.clone(), ..Wanted::any(&self.name) }];
        let asked = self.pkgs.as_ref().map_or_else(one, |list| list.0.clone());
        let options = Options {
            recommends: self.install_recommends,
            from: self.fromrepo.clone(),
            download: true,
            ..Options::default()
        };
        Wish { options, refresh: self.refresh, ..Wish::new(Goal::Downloaded, asked) }
    }

    fn validate(&self) -> Vec<Invalid> {
        let parameter = if self.pkgs.is_some() { "pkgs" } else { "name" };
        let names = refuse_odd_names(&self.wish().packages, parameter);
        names.into_iter().chain(refuse_odd_repository(self.fromrepo.as_deref())).collect()
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::pkg::fake_apt::fake_apt;
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("pkg.downloaded", params, promise, move |host| fake_apt(host, world))
    };
    vec![
        case(json!({ "name": "hello" }), Promise::Converges, ""),
        case(json!({ "name": "sl" }), Promise::Converges, "sl 5"),
        case(json!({ "name": "no-such" }), Promise::Fails, ""),
    ]
}
