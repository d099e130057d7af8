//! What a state decides about and what it stands on, known before anything is looked at.
//!
//! From these `converge` tells two states that want different things of one path (S-57), and puts what obviously comes
//! first before what needs it (S-58).

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Component, Path, PathBuf};

/// Something of the machine that one state can decide about as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ManagedItem {
    Path(PathBuf),
    Package(String),
    Service(String),
    User(String),
    Group(String),
    /// Whatever else has a name: `Named("cron job", "backup of root")`.
    Named(&'static str, String),
}

impl fmt::Display for ManagedItem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ManagedItem::Path(path) => write!(out, "{}", path.display()),
            ManagedItem::Package(name) => write!(out, "the package {name}"),
            ManagedItem::Service(name) => write!(out, "the service {name}"),
            ManagedItem::User(name) => write!(out, "the user {name}"),
            ManagedItem::Group(name) => write!(out, "the group {name}"),
            ManagedItem::Named(what, name) => write!(out, "the {what} {name}"),
        }
    }
}

/// A thing, and what is wanted of it. What is not named may be any way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub item: ManagedItem,
    /// Aspect and the hash of its value: values are only ever compared, and the content of a file is large.
    intent: Vec<(&'static str, u64)>,
}

impl Claim {
    /// `is`: what the thing is to be: a file, absent, installed.
    pub(crate) fn new(item: ManagedItem, is: &'static str) -> Claim {
        Claim { item, intent: vec![("is", hash_of(&is))] }
    }

    /// A state that says nothing about what the thing is, only about an aspect of it.
    pub(crate) fn about(item: ManagedItem) -> Claim {
        Claim { item, intent: Vec::new() }
    }

    /// One more aspect, where the state says something about it.
    pub(crate) fn with(mut self, aspect: &'static str, value: Option<impl Hash>) -> Claim {
        self.intent.extend(value.map(|value| (aspect, hash_of(&value))));
        self
    }

    /// The first aspect in which two states want different things.
    pub fn disagrees(&self, other: &Claim) -> Option<&'static str> {
        let differs = |(aspect, value): &&(&'static str, u64)| {
            other.intent.iter().any(|(theirs, wanted)| theirs == aspect && wanted != value)
        };
        self.intent.iter().find(differs).map(|(aspect, _)| *aspect)
    }
}

fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// What one state has to do with the things of the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    pub owned: Vec<Claim>,
    /// Files whose text it edits, and does not decide about as a whole: they are edited one after the other (S-57).
    pub edits: Vec<PathBuf>,
    /// Users and groups that it names and that must be there first.
    pub accounts: Vec<ManagedItem>,
    /// Paths that it looks at and does not decide about: whoever does comes first.
    pub needs: Vec<PathBuf>,
    /// Paths that must not go with what is nobody's, though it says nothing of what lies inside, and nobody waits for them: a
    /// home, the link of an alternative.
    pub holds: Vec<PathBuf>,
    /// Directories out of which it takes all that lies there, to put it elsewhere: each is among its `needs` as well.
    pub takes: Vec<PathBuf>,
    /// A user whom it makes where there is none, with the home that the system gives.
    pub makes_user: Option<String>,
    /// The directory that its command runs in, which must be there first.
    pub works_in: Option<PathBuf>,
    /// A link at the end of its paths is followed: what it leads to is what it decides about.
    pub follows: bool,
    /// All that lies inside its paths may be its own, and only it knows what is.
    pub fills: bool,
    /// It removes from its paths what is nobody's.
    pub clears: bool,
    /// `makedirs`: missing parents are made, like this.
    pub makes_parents: Option<String>,
}

impl Claims {
    /// A state that decides about one path, however it is spelt.
    pub(crate) fn path(path: &Path, is: &'static str) -> Claim {
        Claim::new(ManagedItem::Path(as_meant(path)), is)
    }

    pub(crate) fn of(owned: Claim) -> Claims {
        Claims { owned: vec![owned], ..Claims::default() }
    }

    pub(crate) fn accounts(mut self, user: Option<&str>, group: Option<&str>) -> Claims {
        self.accounts.extend(user.map(|name| ManagedItem::User(name.to_string())));
        self.accounts.extend(group.map(|name| ManagedItem::Group(name.to_string())));
        self
    }

    /// A state that edits a file, however its path is spelt.
    pub(crate) fn edits(mut self, path: &Path) -> Claims {
        self.edits.push(as_meant(path));
        self
    }

    /// The same by what its paths mean on a machine, where that is known: a path, and whether a link at its end is followed. Edits
    /// follow it.
    pub fn with_paths(&self, meant: &dyn Fn(&Path, bool) -> PathBuf) -> Claims {
        let owned = |claim: &Claim| {
            let item = match &claim.item {
                ManagedItem::Path(path) => ManagedItem::Path(meant(path, self.follows)),
                other => other.clone(),
            };
            Claim { item, intent: claim.intent.clone() }
        };
        Claims {
            owned: self.owned.iter().map(owned).collect(),
            edits: self.edits.iter().map(|path| meant(path, true)).collect(),
            takes: self.takes.iter().map(|path| meant(path, true)).collect(),
            ..self.clone()
        }
    }

    /// The paths that it decides about or edits, and whether a link at their end is followed.
    pub fn paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        let owned = self.owned.iter().filter_map(|claim| match &claim.item {
            ManagedItem::Path(path) => Some((path.as_path(), self.follows)),
            _ => None,
        });
        owned.chain(self.edits.iter().map(|path| (path.as_path(), true)))
    }

    /// Whether it decides about anything, or edits it.
    pub fn touches(&self) -> bool {
        !self.owned.is_empty() || !self.edits.is_empty()
    }

    /// Paths of this machine that it needs, however they are spelt; others mean something else and are left out.
    pub(crate) fn needs<'a>(mut self, paths: impl IntoIterator<Item = &'a Path>) -> Claims {
        self.needs.extend(paths.into_iter().filter(|path| path.is_absolute()).map(as_meant));
        self
    }

    /// A source on this machine that may be a directory, and is then taken whole.
    pub(crate) fn takes<'a>(mut self, paths: impl IntoIterator<Item = &'a Path>) -> Claims {
        let paths: Vec<&Path> = paths.into_iter().filter(|path| path.is_absolute()).collect();
        self.takes.extend(paths.iter().copied().map(as_meant));
        self.needs(paths)
    }

    /// Paths that it would miss.
    pub(crate) fn holds<'a>(mut self, paths: impl IntoIterator<Item = &'a Path>) -> Claims {
        self.holds.extend(paths.into_iter().map(as_meant));
        self
    }

    /// A state that puts things into its directories that no other state can tell from what is nobody's.
    pub(crate) fn fills(self) -> Claims {
        Claims { fills: true, ..self }
    }

    pub(crate) fn follows(self, follows: bool) -> Claims {
        Claims { follows, ..self }
    }

    pub(crate) fn clears(self, clears: bool) -> Claims {
        Claims { clears, ..self }
    }

    pub(crate) fn works_in(mut self, directory: Option<&Path>) -> Claims {
        self.works_in = directory.map(as_meant);
        self
    }

    /// With `makedirs`, everything that decides how a made parent looks.
    pub(crate) fn makes_parents(mut self, makedirs: bool, how: impl fmt::Debug) -> Claims {
        self.makes_parents = makedirs.then(|| format!("{how:?}"));
        self
    }
}

/// The path without `.`, `..` and doubled slashes. Links are not followed: nothing is looked at yet.
fn as_meant(path: &Path) -> PathBuf {
    let mut meant = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(meant.pop()),
            other => meant.push(other),
        }
    }
    meant
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-57")]
    fn s57_one_path_is_one_thing_however_it_is_spelt() {
        let item = |path: &str| Claims::path(Path::new(path), "a file").item;
        for spelt in ["/d/y", "/d/../d/y", "//d//./y", "/d/y/", "/../d/x/../y"] {
            assert_eq!(item(spelt), ManagedItem::Path("/d/y".into()), "{spelt}");
        }
        assert_eq!(item("/.."), ManagedItem::Path("/".into()));
    }
}
