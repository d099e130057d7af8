//! What kinds of state exist and which parameters each takes, as data.
//!
//! The compiler needs this to name mistakes, the documentation to be written; neither needs the code behind a kind.

use indexmap::IndexMap;
use std::sync::LazyLock;

/// One parameter of a kind.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: &'static str,
    /// Other names users of the field write for it.
    pub aliases: &'static [&'static str],
    pub required: bool,
    /// What it takes, in words: `path`, `true or false`, `list of texts`.
    pub takes: String,
    /// Takes a list or a map. On a command line `[a]` is one only then, and otherwise a text (C-15).
    pub collects: bool,
    /// Takes a text. On a command line it is the letters as they were typed, quotes and all (C-15).
    pub text: bool,
    pub doc: String,
}

/// One kind of state: `file.managed`.
#[derive(Clone, Debug)]
pub struct Kind {
    pub name: &'static str,
    /// One line.
    pub summary: String,
    /// The manual page, Markdown.
    pub doc: String,
    /// The parameter that defaults to the state id; `name` is its alias everywhere.
    pub primary: &'static str,
    /// Whether a state means nothing without it, as those that only try something out do.
    pub primary_required: bool,
    /// Parameters that say what to manage instead of the primary one: `pkgs`.
    pub instead_of_primary: &'static [&'static str],
    pub parameters: Vec<Parameter>,
    /// Accepts parameters that it does not know itself (`module.run` hands them on).
    pub open: bool,
}

impl Kind {
    /// Finds a parameter by name or alias; `name` finds the primary one.
    pub fn parameter(&self, name: &str) -> Option<&Parameter> {
        let by_name = self.parameters.iter().find(|p| p.name == name || p.aliases.contains(&name));
        by_name.or_else(|| {
            (name == "name").then(|| self.parameters.iter().find(|p| p.name == self.primary)).flatten()
        })
    }

    /// The own name of the parameter that a key means, whichever of its names was written; any other key means itself.
    pub fn canonical_name<'k>(&self, key: &'k str) -> &'k str {
        self.parameter(key).map_or(key, |parameter| parameter.name)
    }
}

/// All kinds, by name. A kind is described when it is first asked for: a run names a few of them, and each describes
/// every parameter it has.
#[derive(Debug, Default)]
pub struct Catalog {
    kinds: IndexMap<&'static str, LazyLock<Kind>>,
}

impl Catalog {
    pub fn new(kinds: impl IntoIterator<Item = (&'static str, fn() -> Kind)>) -> Catalog {
        Catalog { kinds: kinds.into_iter().map(|(name, describe)| (name, LazyLock::new(describe))).collect() }
    }

    pub fn get(&self, name: &str) -> Option<&Kind> {
        self.kinds.get(name).map(|kind| &**kind)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Kind> {
        self.kinds.values().map(|kind| &**kind)
    }

    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.kinds.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    static DESCRIBED: AtomicUsize = AtomicUsize::new(0);

    fn described(name: &'static str) -> Kind {
        DESCRIBED.fetch_add(1, Ordering::Relaxed);
        Kind {
            name,
            summary: String::new(),
            doc: String::new(),
            primary: "name",
            primary_required: false,
            instead_of_primary: &[],
            parameters: Vec::new(),
            open: false,
        }
    }

    #[test]
    fn a_kind_that_nobody_asks_for_is_not_described() {
        let catalog = Catalog::new([
            ("a.one", (|| described("a.one")) as fn() -> Kind),
            ("a.two", || described("a.two")),
        ]);
        assert_eq!(catalog.names().collect::<Vec<_>>(), ["a.one", "a.two"]);
        assert!(catalog.get("a.three").is_none());
        assert_eq!(DESCRIBED.load(Ordering::Relaxed), 0);
        assert_eq!(catalog.get("a.two").map(|kind| kind.name), Some("a.two"));
        assert_eq!(catalog.get("a.two").map(|kind| kind.name), Some("a.two"));
        assert_eq!(DESCRIBED.load(Ordering::Relaxed), 1);
        assert_eq!(catalog.iter().count(), 2);
        assert_eq!(DESCRIBED.load(Ordering::Relaxed), 2);
    }
}
