//! `pkg.held` and `pkg.unheld`: packages that stay in the version that they have, or no longer.

use crate::params::{Invalid, params};
use crate::pkg::kind::PackageKind;
use crate::pkg::wanted::{Wanted, WantedList};
use crate::pkg::wish::{Goal, Wish, refuse_odd_names};

/// Packages that are held in their version.
#[params(kind = "pkg.held", primary = "name", manual = "pkg_held.md")]
pub struct Held {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// `true` lets go of all others that are held.
    #[param(default)]
    replace: bool,
}

/// Packages that are not held.
#[params(kind = "pkg.unheld", primary = "name", manual = "pkg_unheld.md")]
pub struct Unheld {
    /// The package, where `pkgs` lists no others.
    name: String,
    /// Several packages at once.
    #[param(instead_of_primary)]
    pkgs: Option<WantedList>,
    /// `true` lets go of whatever is held.
    #[param(default)]
    all: bool,
}

fn asked(name: &str, pkgs: Option<&WantedList>) -> Vec<Wanted> {
    pkgs.map_or_else(|| vec![Wanted::any(name)], |list| list.0.clone())
}

/// Names, and no versions: a package is held in the one that it has.
fn judge(wish: &Wish, listed: bool) -> Vec<Invalid> {
    let parameter = if listed { "pkgs" } else { "name" };
    let mut invalid = refuse_odd_names(&wish.packages, parameter);
    if wish.packages.is_empty() {
        invalid.push(Invalid::new(parameter, "it names no package"));
    }
    if wish.packages.iter().any(|wanted| wanted.version.is_some()) {
        let hint = Some("pkg.installed takes a version together with `hold: true`".to_string());
        invalid.push(Invalid {
            hint,
            ..Invalid::new(parameter, "a package is held in the version that it has")
        });
    }
    invalid
}

impl PackageKind for Held {
    fn wish(&self) -> Wish {
        Wish::new(Goal::Held { alone: self.replace }, asked(&self.name, self.pkgs.as_ref()))
    }

    fn validate(&self) -> Vec<Invalid> {
        judge(&self.wish(), self.pkgs.is_some())
    }
}

impl PackageKind for Unheld {
    fn wish(&self) -> Wish {
        let asked = if self.all { Vec::new() } else { asked(&self.name, self.pkgs.as_ref()) };
        Wish::new(Goal::Unheld { all: self.all }, asked)
    }

    fn validate(&self) -> Vec<Invalid> {
        if self.all { Vec::new() } else { judge(&self.wish(), self.pkgs.is_some()) }
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
    vec![
        case("pkg.held", json!({ "name": "sl" }), Promise::Converges, "sl 5"),
        case("pkg.held", json!({ "name": "sl" }), Promise::Clean, "sl 5 !sl held"),
        case("pkg.held", json!({ "name": "sl" }), Promise::Fails, ""),
        case("pkg.unheld", json!({ "name": "sl" }), Promise::Converges, "sl 5 !sl held"),
        case("pkg.unheld", json!({ "name": "sl" }), Promise::Clean, ""),
        case("pkg.unheld", json!({ "name": "x", "all": true }), Promise::Converges, "sl 5 !sl held"),
    ]
}
