//! `pkg.uptodate`: everything that is installed, in the newest version.

use crate::params::{Invalid, params};
use crate::pkg::kind::PackageKind;
use crate::pkg::wanted::WantedList;
use crate::pkg::wish::{Goal, Options, Wish, refuse_odd_names, refuse_odd_repository};

/// Everything that is installed, in the newest version.
#[params(kind = "pkg.uptodate", primary = "name", manual = "pkg_uptodate.md")]
pub struct UpToDate {
    /// A name for the state; it means nothing else.
    #[allow(dead_code, reason = "every state has an id")]
    name: String,
    /// Only these packages, and only where they are installed.
    pkgs: Option<WantedList>,
    /// `true` refreshes the package lists first.
    refresh: Option<bool>,
    /// `false` leaves alone what cannot be upgraded without bringing or removing another package.
    #[param(default = true)]
    dist_upgrade: bool,
    /// `true` changes packages although they are held.
    #[param(default)]
    update_holds: bool,
    /// The release (apt) or repository to take packages from.
    fromrepo: Option<String>,
}

impl PackageKind for UpToDate {
    fn wish(&self) -> Wish {
        let (goal, packages) = match &self.pkgs {
            Some(list) => (Goal::Latest, list.0.clone()),
            None => (Goal::UpToDate { whole: self.dist_upgrade }, Vec::new()),
        };
        let options = Options {
            from: self.fromrepo.clone(),
            only_upgrade: self.pkgs.is_some(),
            update_holds: self.update_holds,
            ..Options::default()
        };
        Wish { options, refresh: self.refresh, ..Wish::new(goal, packages) }
    }

    fn validate(&self) -> Vec<Invalid> {
        let names = self.pkgs.as_ref().map(|list| refuse_odd_names(&list.0, "pkgs")).unwrap_or_default();
        names.into_iter().chain(refuse_odd_repository(self.fromrepo.as_deref())).collect()
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::pkg::fake_apt::fake_apt;
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("pkg.uptodate", params, promise, move |host| fake_apt(host, world))
    };
    vec![
        case(json!({ "name": "all" }), Promise::Converges, "hello 2.9 libhello 1 sl 5"),
        case(json!({ "name": "all" }), Promise::Clean, "hello 2.10 libhello 1 sl 5"),
        case(json!({ "name": "all", "pkgs": ["hello"] }), Promise::Converges, "hello 2.9 libhello 1"),
        case(json!({ "name": "all", "pkgs": ["hello"] }), Promise::Clean, "sl 5"),
    ]
}
