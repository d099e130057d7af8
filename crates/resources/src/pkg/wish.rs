//! What a state wants of packages, in the words that all kinds about packages share.

use super::version::{Acceptance, Order, VersionSpec};
use super::wanted::Wanted;
use crate::params::Invalid;

/// What is to become of packages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Goal {
    Installed,
    /// Installed, in the newest version that can be had.
    Latest,
    /// Everything that is installed, in the newest version. `whole`: also where that brings or removes others.
    UpToDate {
        whole: bool,
    },
    Removed,
    /// Removed, its configuration included.
    Purged,
    /// Kept in the version that it has. `alone`: nothing else is.
    Held {
        alone: bool,
    },
    /// `all`: whatever is held.
    Unheld {
        all: bool,
    },
    /// Fetched and not installed.
    Downloaded,
}

impl Goal {
    /// Whether only the plan tells if there is something to do.
    pub(crate) fn is_for_the_plan_to_say(self) -> bool {
        matches!(self, Goal::Latest | Goal::UpToDate { .. } | Goal::Downloaded)
    }

    /// Whether it takes no transaction: only marks are set.
    pub(crate) fn only_marks(self) -> bool {
        matches!(self, Goal::Held { .. } | Goal::Unheld { .. })
    }
}

/// How a transaction is to be made. States that say the same share one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Options {
    /// Whether what is merely recommended comes along. None: as the manager is configured.
    pub(crate) recommends: Option<bool>,
    /// The release or repository to take packages from.
    pub(crate) from: Option<String>,
    /// What is not installed stays so.
    pub(crate) only_upgrade: bool,
    /// What is held may change all the same.
    pub(crate) update_holds: bool,
    pub(crate) download: bool,
    /// A name may be a capability that some package provides.
    pub(crate) capabilities: bool,
    /// Packages may come without a signature.
    pub(crate) skip_verify: bool,
}

/// What one state wants.
#[derive(Clone, Debug)]
pub struct Wish {
    pub(crate) goal: Goal,
    pub(crate) packages: Vec<Wanted>,
    pub(crate) options: Options,
    /// `true`: the lists are fetched first. `false`: never. None: where a package is not known.
    pub(crate) refresh: Option<bool>,
    /// Whether they are held afterwards. None: as they are.
    pub(crate) hold: Option<bool>,
    pub(crate) ignore_epoch: bool,
    pub(crate) or_newer: bool,
}

impl Wish {
    pub(crate) fn new(goal: Goal, packages: Vec<Wanted>) -> Wish {
        Wish {
            goal,
            packages,
            options: Options::default(),
            refresh: None,
            hold: None,
            ignore_epoch: false,
            or_newer: false,
        }
    }

    /// Whether a version of a package will do.
    pub(crate) fn accepts(&self, wanted: &Wanted, version: &str, order: Order) -> bool {
        let how = Acceptance { order, ignore_epoch: self.ignore_epoch, or_newer: self.or_newer };
        match wanted.spec() {
            None => true,
            Some(spec) => spec.accepts(version, &how),
        }
    }
}

/// Names and versions go onto a command line: nothing in them may be mistaken for an option.
pub(crate) fn refuse_odd_names(asked: &[Wanted], parameter: &'static str) -> Vec<Invalid> {
    let plain = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphanumeric() || first == '_')
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.:_~@".contains(letter))
            // Apt takes these for removing and installing.
            && !text.ends_with('-')
    };
    let mut invalid = Vec::new();
    for Wanted { name, version, .. } in asked {
        if !plain(name) {
            invalid.push(Invalid::new(parameter, format!("`{name}` cannot name a package")));
        }
        let odd = version.as_deref().map(VersionSpec::parse).and_then(Result::err);
        invalid.extend(odd.map(|message| Invalid::new(parameter, message)));
    }
    invalid
}

/// A release or repository, which goes onto a command line too.
pub(crate) fn refuse_odd_repository(from: Option<&str>) -> Option<Invalid> {
    let plain = |text: &str| {
        text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-./:_~".contains(letter))
    };
    let odd = from.filter(|from| !plain(from))?;
    Some(Invalid::new("fromrepo", format!("`{odd}` cannot name a release or a repository")))
}
