//! `pkg.removed` and `pkg.purged`: packages that are not installed.

use crate::params::{Invalid, params};
use crate::pkg::kind::PackageKind;
use crate::pkg::wanted::{Wanted, WantedList};
use crate::pkg::wish::{Goal, Wish, refuse_odd_names};

/// Packages that are not installed.
#[params(kind = "pkg.removed", primary = "name", manual = "pkg_removed.md")]
pub struct Removed {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once: names, or `name: version`.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// Only where it has this version.
    version: Option<String>,
    /// `true`: the epoch does not count, `2.0` also means `1:2.0`.
    #[param(default)]
    ignore_epoch: bool,
    /// Taken as it comes: a name with an architecture (`libc6:i386`) is what it says.
    #[allow(dead_code, reason = "it changes nothing here")]
    normalize: Option<bool>,
}

/// Packages that are not installed, and whose configuration is gone.
#[params(kind = "pkg.purged", primary = "name", manual = "pkg_purged.md")]
pub struct Purged {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once: names, or `name: version`.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// Only where it has this version.
    version: Option<String>,
    /// `true`: the epoch does not count, `2.0` also means `1:2.0`.
    #[param(default)]
    ignore_epoch: bool,
    /// Taken as it comes: a name with an architecture (`libc6:i386`) is what it says.
    #[allow(dead_code, reason = "it changes nothing here")]
    normalize: Option<bool>,
}

fn asked(name: &str, pkgs: Option<&WantedList>, version: Option<&str>) -> Vec<Wanted> {
    let one = || vec![Wanted { version: version.map(str::to_string), ..Wanted::any(name) }];
    pkgs.map_or_else(one, |list| list.0.clone())
}

impl PackageKind for Removed {
    fn wish(&self) -> Wish {
        let asked = asked(&self.name, self.pkgs.as_ref(), self.version.as_deref());
        Wish { ignore_epoch: self.ignore_epoch, ..Wish::new(Goal::Removed, asked) }
    }

    fn validate(&self) -> Vec<Invalid> {
        let parameter = if self.pkgs.is_some() { "pkgs" } else { "name" };
        refuse_odd_names(&self.wish().packages, parameter)
    }
}

impl PackageKind for Purged {
    fn wish(&self) -> Wish {
        let asked = asked(&self.name, self.pkgs.as_ref(), self.version.as_deref());
        Wish { ignore_epoch: self.ignore_epoch, ..Wish::new(Goal::Purged, asked) }
    }

    fn validate(&self) -> Vec<Invalid> {
        let parameter = if self.pkgs.is_some() { "pkgs" } else { "name" };
        refuse_odd_names(&self.wish().packages, parameter)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::pkg::fake_apt::fake_apt;
    use serde_json::json;
    let case = |kind, params, promise, world: &'static str| {
        Case::new(kind, params, promise, move |host| fake_apt(host, world))
    };
    let removed = |params, promise, world| case("pkg.removed", params, promise, world);
    let purged = |params, promise, world| case("pkg.purged", params, promise, world);
    let both = json!({ "name": "x", "pkgs": ["hello", "sl"] });
    vec![
        removed(json!({ "name": "hello" }), Promise::Clean, ""),
        removed(json!({ "name": "hello" }), Promise::Converges, "hello 2.10 libhello 1"),
        removed(json!({ "name": "libhello" }), Promise::Converges, "hello 2.10 libhello 1"),
        removed(both, Promise::Converges, "hello 2.10 libhello 1 sl 5"),
        removed(json!({ "name": "libhello:i386" }), Promise::Clean, "libhello 1"),
        removed(json!({ "name": "libhello:i386" }), Promise::Converges, "libhello 1 libhello:i386 1"),
        removed(json!({ "name": "libhello" }), Promise::Clean, "libhello:i386 1"),
        removed(json!({ "name": "libhello:amd64" }), Promise::Converges, "libhello 1 libhello:i386 1"),
        removed(json!({ "name": "sl", "version": "<5" }), Promise::Clean, "sl 5"),
        removed(json!({ "name": "sl", "version": ">=5" }), Promise::Converges, "sl 5"),
        purged(json!({ "name": "hello" }), Promise::Clean, ""),
        purged(json!({ "name": "hello" }), Promise::Converges, "hello 2.10 libhello 1"),
    ]
}
