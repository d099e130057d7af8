//! One requirement, as `pip` and its files write it.

use pep440_rs::{Version, VersionSpecifiers};
use std::str::FromStr;

/// A package that is wanted, and which versions of it will do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Requirement {
    /// In the one spelling that the index compares.
    pub(crate) name: String,
    pub(crate) versions: Option<VersionSpecifiers>,
    /// As `pip` takes it.
    pub(crate) text: String,
}

/// `Foo_Bar.baz` and `foo-bar-baz` are one package.
pub(crate) fn plain_name(name: &str) -> String {
    let mut plain = String::new();
    for letter in name.chars() {
        match letter {
            '-' | '_' | '.' if plain.ends_with('-') => {}
            '-' | '_' | '.' => plain.push('-'),
            other => plain.push(other.to_ascii_lowercase()),
        }
    }
    plain
}

impl Requirement {
    pub(crate) fn parse(text: &str) -> Result<Requirement, String> {
        let text = text.trim();
        if text.contains(';') {
            return Err(format!(
                "`{text}`: a condition behind `;` is not understood; decide it in a template"
            ));
        }
        if text.contains("://") && !text.contains(" @ ") {
            let name =
                text.split_once("#egg=").map(|(_, name)| name.split(['&', '[']).next().unwrap_or_default());
            let Some(name) = name.filter(|name| is_name(name)) else {
                return Err(format!("`{text}` does not say which package it is; put `#egg=NAME` behind it"));
            };
            return Ok(Requirement { name: plain_name(name), versions: None, text: text.to_string() });
        }
        let end = text.find(|letter: char| !is_letter(letter)).unwrap_or(text.len());
        let (name, rest) = text.split_at(end);
        if !is_name(name) {
            return Err(format!("`{text}` cannot name a python package"));
        }
        let rest = rest.trim_start();
        let rest = match rest.strip_prefix('[') {
            Some(extras) => {
                extras.split_once(']').ok_or_else(|| format!("`{text}`: the `[` is not closed"))?.1
            }
            None => rest,
        };
        let wanted = rest.trim().trim_start_matches('(').trim_end_matches(')').trim();
        let versions = match wanted {
            "" => None,
            url if url.starts_with('@') => None,
            wanted => Some(VersionSpecifiers::from_str(wanted).map_err(|_| {
                format!("`{wanted}` of `{text}` is no list of versions; write it like `==1.2` or `>=1.0,<2`")
            })?),
        };
        Ok(Requirement { name: plain_name(name), versions, text: text.to_string() })
    }

    /// Whether a version will do.
    pub(crate) fn allows(&self, version: &str) -> bool {
        let Some(versions) = &self.versions else { return true };
        Version::from_str(version).is_ok_and(|version| versions.contains(&version))
    }

    /// Those of a file, one a line. What a line says besides is refused: it would be passed over.
    pub(crate) fn in_file(text: &str) -> Result<Vec<Requirement>, String> {
        let plain = |line: &str| {
            let comment = line.find(" #").or_else(|| line.starts_with('#').then_some(0));
            line[..comment.unwrap_or(line.len())].trim().to_string()
        };
        let lines = text.lines().map(plain).filter(|line| !line.is_empty());
        lines
            .map(|line| match line.starts_with('-') || line.ends_with('\\') {
                true => Err(format!("the line `{line}` is an option; give it as a parameter of the state")),
                false => Requirement::parse(&line),
            })
            .collect()
    }
}

fn is_letter(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || "-_.".contains(letter)
}

fn is_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphanumeric()) && name.chars().all(is_letter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_requirement_says_which_package_and_which_versions() {
        for (text, name, fits, fits_not) in [
            ("Django", "django", "4.2", ""),
            ("zope.interface_x>=5, <6", "zope-interface-x", "5.10", "6.0"),
            ("requests[socks] == 2.28.*", "requests", "2.28.1", "2.29"),
            ("salt (~=3006.1)", "salt", "3006.9", "3007.0"),
            ("name @ https://example.com/x.whl", "name", "1", ""),
            ("git+https://example.com/x.git@v1#egg=My_Own&subdirectory=a", "my-own", "1", ""),
        ] {
            let read = Requirement::parse(text).unwrap();
            assert_eq!((read.name.as_str(), read.text.as_str()), (name, text));
            assert!(read.allows(fits), "{text} {fits}");
            assert!(fits_not.is_empty() || !read.allows(fits_not), "{text} {fits_not}");
        }
        for wrong in ["", "-r x", "https://example.com/x.whl", "a=1", "a; python_version < '3'", "a[b"] {
            assert!(Requirement::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_file_of_requirements_is_read_line_by_line_and_options_are_refused() {
        let read = Requirement::in_file("# all\nDjango==4.2 # pinned\n\nrequests\n").unwrap();
        assert_eq!(read.iter().map(|one| one.text.as_str()).collect::<Vec<_>>(), ["Django==4.2", "requests"]);
        assert!(Requirement::in_file("-r other.txt\n").unwrap_err().contains("is an option"));
    }
}
