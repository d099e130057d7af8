//! What is installed, under the names that apt gives it: those of the machine's own architecture plain, those of another
//! with it (`libc6:i386`).

use std::collections::{BTreeMap, BTreeSet};

/// The package whose architecture is the machine's own.
pub(crate) const NATIVE: &str = "dpkg";

/// Installed packages with their versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    /// The machine's own architecture; where nothing tells it, every one counts as that.
    native: Option<String>,
    versions: BTreeMap<String, String>,
    /// Those that are kept as they are.
    held: BTreeSet<String>,
    /// Those that were removed and left their configuration.
    leftover: BTreeSet<String>,
}

/// What a package manager says of one package.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry<'a> {
    pub(crate) name: &'a str,
    pub(crate) architecture: &'a str,
    pub(crate) version: &'a str,
    pub(crate) held: bool,
    /// Only its configuration is left.
    pub(crate) leftover: bool,
}

impl Installed {
    /// Of a manager that names its packages with their architecture.
    fn of(entries: &[Entry<'_>]) -> Installed {
        let own = entries.iter().find(|entry| entry.name == NATIVE && !entry.leftover);
        let mut found =
            Installed { native: own.map(|entry| entry.architecture.to_string()), ..Installed::default() };
        for entry in entries {
            let key = found.key(&format!("{}:{}", entry.name, entry.architecture));
            if entry.leftover {
                found.leftover.insert(key);
                continue;
            }
            if entry.held {
                found.held.insert(key.clone());
            }
            found.versions.insert(key, entry.version.to_string());
        }
        found
    }

    /// Of a manager whose names are all there is to know.
    pub(crate) fn plain<'a>(entries: impl IntoIterator<Item = (&'a str, String)>) -> Installed {
        let versions = entries.into_iter().map(|(name, version)| (name.to_string(), version)).collect();
        Installed { versions, ..Installed::default() }
    }

    pub(crate) fn hold(&mut self, name: String) {
        self.held.insert(name);
    }

    pub(crate) fn is_held(&self, asked: &str) -> bool {
        self.held.contains(&self.key(asked))
    }

    pub(crate) fn held(&self) -> &BTreeSet<String> {
        &self.held
    }

    /// Whether anything of it is there, be it only its configuration.
    pub(crate) fn has_traces(&self, asked: &str) -> bool {
        self.contains(asked) || self.leftover.contains(&self.key(asked))
    }

    /// The name of apt for what a state calls `name` or `name:architecture`.
    pub(crate) fn key(&self, asked: &str) -> String {
        match asked.split_once(':') {
            Some((name, architecture)) if self.is_own(architecture) => name.to_string(),
            _ => asked.to_string(),
        }
    }

    fn is_own(&self, architecture: &str) -> bool {
        architecture == "all" || self.native.as_deref().is_none_or(|own| own == architecture)
    }

    pub(crate) fn get(&self, asked: &str) -> Option<&String> {
        self.versions.get(&self.key(asked))
    }

    pub(crate) fn contains(&self, asked: &str) -> bool {
        self.get(asked).is_some()
    }

    /// Those of other architectures, for a name that says none: apt takes one of them where there is none of our own.
    pub(crate) fn foreign(&self, asked: &str) -> impl Iterator<Item = (&String, &String)> {
        let beginning = format!("{asked}:");
        let from = self.versions.range(beginning.clone()..);
        from.take_while(move |(name, _)| name.starts_with(&beginning))
    }

    /// By the names of apt.
    pub(crate) fn versions(&self) -> &BTreeMap<String, String> {
        &self.versions
    }
}

/// The name without an architecture.
pub(crate) fn bare(name: &str) -> &str {
    name.split(':').next().unwrap_or_default()
}

/// What dpkg writes down for itself.
pub(super) fn parse_dpkg_status(text: &str) -> Installed {
    let mut entries = Vec::new();
    for paragraph in text.split("\n\n") {
        let (mut name, mut architecture, mut version, mut status) = (None, None, None, None);
        for line in paragraph.lines() {
            // The words of the others are long, and none of our business.
            let place = match line.as_bytes().first() {
                Some(b'P') => line.strip_prefix("Package:").map(|rest| (&mut name, rest)),
                Some(b'A') => line.strip_prefix("Architecture:").map(|rest| (&mut architecture, rest)),
                Some(b'V') => line.strip_prefix("Version:").map(|rest| (&mut version, rest)),
                Some(b'S') => line.strip_prefix("Status:").map(|rest| (&mut status, rest)),
                _ => None,
            };
            if let Some((place, rest)) = place {
                *place = Some(rest.trim());
            }
        }
        let (Some(name), Some(architecture), Some(version), Some(status)) =
            (name, architecture, version, status)
        else {
            continue;
        };
        let (installed, leftover) = (status.ends_with(" installed"), status.ends_with(" config-files"));
        if installed || leftover {
            let held = status.starts_with("hold ");
            entries.push(Entry { name, architecture, version, held, leftover });
        }
    }
    Installed::of(&entries)
}

/// What `dpkg-query` answers in the form of [`super::apt`].
pub(super) fn parse_dpkg_query(text: &str) -> Installed {
    let mut entries = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let [status, name, architecture, version] = fields.as_slice() else { continue };
        // The second letter says what is; the first only what is wanted.
        let (installed, leftover) =
            (status.as_bytes().get(1) == Some(&b'i'), status.as_bytes().get(1) == Some(&b'c'));
        if installed || leftover {
            let held = status.starts_with('h');
            entries.push(Entry { name, architecture, version, held, leftover });
        }
    }
    Installed::of(&entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &Installed) -> Vec<&str> {
        found.versions.keys().map(String::as_str).collect()
    }

    #[test]
    fn only_what_is_installed_counts_not_what_left_its_configuration() {
        let text = "ii \tbash\tamd64\t5.2\nrc \told\tamd64\t1\niU \tunpacked\tamd64\t1\nhi \theld\tall\t2\nun \tnever\t\t\n";
        let found = parse_dpkg_query(text);
        assert_eq!(names(&found), ["bash", "held"]);
        assert!(found.is_held("held") && !found.is_held("bash"));
        assert!(found.has_traces("old") && !found.has_traces("never"));
    }

    #[test]
    fn another_architecture_is_another_package() {
        let text =
            "ii \tlibc6\tamd64\t2.36\nii \tlibc6\ti386\t2.35\nii \tdpkg\tamd64\t1.21\nii \twine32\ti386\t8\n";
        let found = parse_dpkg_query(text);
        assert_eq!(names(&found), ["dpkg", "libc6", "libc6:i386", "wine32:i386"]);
        let version = |asked: &str| found.get(asked).map(String::as_str);
        assert_eq!((version("libc6"), version("libc6:amd64")), (Some("2.36"), Some("2.36")));
        assert_eq!((version("libc6:i386"), version("wine32"), version("libc")), (Some("2.35"), None, None));
        assert_eq!(found.foreign("wine32").count(), 1);
        assert_eq!(found.foreign("wine").count(), 0);
    }

    #[test]
    fn dpkgs_book_is_read_as_dpkg_writes_it() {
        let text = "Package: bash\nEssential: yes\nStatus: install ok installed\nArchitecture: amd64\nVersion: 5.2\n\
                    Description: shell\n Package: not this\n\nPackage: old\nStatus: deinstall ok config-files\n\
                    Architecture: amd64\nVersion: 1\n\n";
        let found = parse_dpkg_status(text);
        assert_eq!(names(&found), ["bash"]);
        assert!(found.has_traces("old") && !found.contains("old"));
    }
}
