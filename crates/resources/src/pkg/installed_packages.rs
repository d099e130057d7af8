//! What is installed, under the names that apt gives it: those of the machine's own architecture plain, those of another
//! with it (`libc6:i386`).

use std::collections::BTreeMap;

/// The package whose architecture is the machine's own.
pub(crate) const NATIVE: &str = "dpkg";

/// Installed packages with their versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Installed {
    /// The machine's own architecture; where nothing tells it, every one counts as that.
    native: Option<String>,
    versions: BTreeMap<String, String>,
}

impl Installed {
    /// From name, architecture and version of each.
    fn of(entries: &[(&str, &str, &str)]) -> Installed {
        let native = entries.iter().find(|(name, ..)| *name == NATIVE).map(|(_, own, _)| own.to_string());
        let mut found = Installed { native, versions: BTreeMap::new() };
        for (name, architecture, version) in entries {
            let key = found.key(&format!("{name}:{architecture}"));
            found.versions.insert(key, version.to_string());
        }
        found
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
        let field = |name: &str| paragraph.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let installed = field("Status:").is_some_and(|status| status.ends_with(" installed"));
        let fields = (field("Package:"), field("Architecture:"), field("Version:"));
        if let (true, (Some(name), Some(architecture), Some(version))) = (installed, fields) {
            entries.push((name, architecture, version));
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
        if status.as_bytes().get(1) == Some(&b'i') {
            entries.push((*name, *architecture, *version));
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
        assert_eq!(names(&parse_dpkg_query(text)), ["bash", "held"]);
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
        assert_eq!(parse_dpkg_status(text), Installed::of(&[("bash", "amd64", "5.2")]));
    }
}
