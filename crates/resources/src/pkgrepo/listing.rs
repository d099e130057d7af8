//! Repositories in the files that name them: lines and paragraphs of apt, sections of rpm.

use std::path::Path;

/// One repository of apt: `deb [options] address suite component…`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OneLine {
    /// `deb` or `deb-src`.
    sort: String,
    /// `arch=amd64`, `signed-by=/path`.
    options: Vec<(String, String)>,
    address: String,
    suite: String,
    components: Vec<String>,
}

impl OneLine {
    pub(super) fn parse(line: &str) -> Result<OneLine, String> {
        let wrong = |what: &str| Err(format!("`{line}` {what}; write deb ADDRESS SUITE COMPONENTS"));
        if line.contains('\n') {
            return wrong("is more than one line");
        }
        let (sort, rest) = line.trim().split_once(char::is_whitespace).unwrap_or((line.trim(), ""));
        if sort != "deb" && sort != "deb-src" {
            return wrong("does not begin with deb or deb-src");
        }
        let rest = rest.trim();
        let (options, rest) = match rest.strip_prefix('[') {
            None => ("", rest),
            Some(inside) => match inside.split_once(']') {
                Some(parts) => parts,
                None => return wrong("opens a bracket and does not close it"),
            },
        };
        let option =
            |word: &str| word.split_once('=').map(|(name, value)| (name.to_string(), value.to_string()));
        let Some(options) = options.split_whitespace().map(option).collect::<Option<Vec<_>>>() else {
            return wrong("has an option without a value");
        };
        let mut words = rest.split_whitespace().map(str::to_string);
        let (Some(address), Some(suite)) = (words.next(), words.next()) else {
            return wrong("has no address or no suite");
        };
        let components: Vec<String> = words.collect();
        if components.is_empty() != suite.ends_with('/') {
            return wrong("names components, unless its suite is a path that ends with `/`");
        }
        Ok(OneLine { sort: sort.to_string(), options, address, suite, components })
    }

    /// The same with another suite, other components, for some architectures.
    pub(super) fn with(
        mut self,
        suite: Option<&str>,
        components: Option<Vec<String>>,
        architectures: Option<Vec<String>>,
    ) -> Result<OneLine, String> {
        if let Some(architectures) = architectures {
            self.options.retain(|(name, _)| name != "arch");
            self.options.insert(0, ("arch".into(), architectures.join(",")));
        }
        self.suite = suite.map_or(self.suite, str::to_string);
        self.components = components.unwrap_or(self.components);
        // What was put in may hold anything.
        OneLine::parse(&self.line())
    }

    /// The same, signed by this key.
    pub(super) fn signed_by(mut self, key: Option<&Path>) -> OneLine {
        if let Some(key) = key {
            self.options.retain(|(name, _)| name != "signed-by");
            self.options.push(("signed-by".into(), key.display().to_string()));
        }
        self
    }

    /// Whether both name one repository, whatever they say of it.
    fn is_same(&self, other: &OneLine) -> bool {
        let address = |one: &OneLine| one.address.trim_end_matches('/').to_string();
        self.sort == other.sort && address(self) == address(other) && self.suite == other.suite
    }

    /// A name for its file: `deb.example.com-debian-bookworm`.
    pub(super) fn stem(&self) -> String {
        let address = self.address.split_once(':').map_or(self.address.as_str(), |(_, rest)| rest);
        let text = format!("{}-{}", address.trim_matches('/'), self.suite.trim_matches(['.', '/']));
        let plain = |letter: char| {
            if letter.is_ascii_alphanumeric() || ".-_".contains(letter) { letter } else { '-' }
        };
        let stem: String = text.chars().map(plain).collect();
        let source = if self.sort == "deb-src" { "-src" } else { "" };
        format!("{}{source}", stem.trim_matches('-'))
    }

    fn line(&self) -> String {
        let options: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let options = if options.is_empty() { String::new() } else { format!("[{}] ", options.join(" ")) };
        let components: String = self.components.iter().map(|one| format!(" {one}")).collect();
        format!("{} {options}{} {}{components}", self.sort, self.address, self.suite)
    }

    /// As a paragraph of deb822.
    fn paragraph(&self, disabled: bool) -> String {
        let mut text = String::new();
        if disabled {
            text.push_str("Enabled: no\n");
        }
        text.push_str(&format!("Types: {}\nURIs: {}\nSuites: {}\n", self.sort, self.address, self.suite));
        if !self.components.is_empty() {
            text.push_str(&format!("Components: {}\n", self.components.join(" ")));
        }
        for (name, value) in &self.options {
            let name = match name.as_str() {
                "arch" => "Architectures",
                "signed-by" => "Signed-By",
                "trusted" => "Trusted",
                "lang" => "Languages",
                other => other,
            };
            text.push_str(&format!("{name}: {}\n", value.replace(',', " ")));
        }
        text
    }

    /// The repository of a paragraph, as far as it can be told apart by one.
    fn of_paragraph(text: &str) -> Option<OneLine> {
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            line.map(|value| value.trim().to_string())
        };
        Some(OneLine {
            sort: field("Types")?,
            options: Vec::new(),
            address: field("URIs")?,
            suite: field("Suites")?,
            components: Vec::new(),
        })
    }
}

/// What two states mean that are about one repository.
pub(super) fn identity(name: &str) -> String {
    OneLine::parse(name).map_or_else(|_| name.to_string(), |line| line.stem())
}

/// The id of a repository of rpm.
pub(super) fn is_plain(id: &str) -> bool {
    id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.:".contains(letter))
}

fn is_deb822(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "sources")
}

/// A line that is in use or not, and the repository in it.
fn named_in(line: &str) -> Option<OneLine> {
    OneLine::parse(line.trim_start().trim_start_matches('#').trim_start()).ok()
}

/// The file with this repository in it, once.
pub(super) fn edited(file: &Path, old: &str, wanted: &OneLine, disabled: bool) -> String {
    if is_deb822(file) {
        let new = wanted.paragraph(disabled);
        return replaced_paragraph(old, Some(&new), |text| {
            OneLine::of_paragraph(text).is_some_and(|one| one.is_same(wanted))
        });
    }
    let off = if disabled { "# " } else { "" };
    let new = format!("{off}{}", wanted.line());
    let mut lines: Vec<&str> = Vec::new();
    for line in old.lines() {
        match named_in(line) {
            Some(one) if one.is_same(wanted) => {
                if !lines.contains(&new.as_str()) {
                    lines.push(&new);
                }
            }
            _ => lines.push(line),
        }
    }
    if !lines.contains(&new.as_str()) {
        lines.push(&new);
    }
    if old.lines().eq(lines.iter().copied()) {
        return old.to_string();
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// The file without it.
pub(super) fn removed(file: &Path, old: &str, name: &str) -> String {
    let Ok(wanted) = OneLine::parse(name) else { return replaced_section(old, name, None) };
    if is_deb822(file) {
        return replaced_paragraph(old, None, |text| {
            OneLine::of_paragraph(text).is_some_and(|one| one.is_same(&wanted))
        });
    }
    let kept = old.lines().filter(|line| !named_in(line).is_some_and(|one| one.is_same(&wanted)));
    kept.map(|line| format!("{line}\n")).collect()
}

/// The first paragraph that fits becomes this one, others that fit go; it comes last where none does.
fn replaced_paragraph(old: &str, new: Option<&str>, fits: impl Fn(&str) -> bool) -> String {
    let mut new = new.map(str::trim_end);
    let mut paragraphs: Vec<&str> = Vec::new();
    for paragraph in old.split("\n\n").map(|text| text.trim_matches('\n')).filter(|text| !text.is_empty()) {
        if fits(paragraph) {
            paragraphs.extend(new.take());
        } else {
            paragraphs.push(paragraph);
        }
    }
    paragraphs.extend(new);
    if paragraphs.is_empty() { String::new() } else { format!("{}\n", paragraphs.join("\n\n")) }
}

/// The file with this section of rpm in it.
pub(super) fn rpm_section(old: &str, id: &str, entries: &[(&'static str, String)]) -> String {
    let lines: String = entries.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    replaced_section(old, id, Some(&format!("[{id}]\n{lines}")))
}

fn replaced_section(old: &str, id: &str, new: Option<&str>) -> String {
    let heading = format!("[{id}]");
    let mut sections: Vec<String> = vec![String::new()];
    for line in old.lines() {
        if line.trim_start().starts_with('[') {
            sections.push(String::new());
        }
        if let Some(section) = sections.last_mut() {
            section.push_str(&format!("{line}\n"));
        }
    }
    let mut new = new.map(str::to_string);
    let mut kept: Vec<String> = Vec::new();
    for section in sections.into_iter().filter(|section| !section.is_empty()) {
        if section.lines().next().is_some_and(|line| line.trim() == heading) {
            kept.extend(new.take());
        } else {
            kept.push(section);
        }
    }
    kept.extend(new);
    kept.concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "deb [arch=amd64] https://deb.example.com/debian/ bookworm main contrib";

    #[test]
    fn a_line_of_apt_is_read_and_written() {
        let line = OneLine::parse(LINE).unwrap();
        assert_eq!(line.line(), LINE);
        assert_eq!(line.stem(), "deb.example.com-debian-bookworm");
        assert_eq!(OneLine::parse("deb file:/srv/pool ./").unwrap().stem(), "srv-pool");
        for bad in [
            "",
            "deb",
            "rpm https://x y z",
            "deb https://x",
            "deb https://x stable",
            "deb [arch https://x y z",
            "deb [x] https://x y z",
        ] {
            assert!(OneLine::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_repository_stands_in_its_file_once_and_others_stay() {
        let file = Path::new("/etc/apt/sources.list");
        let line = OneLine::parse(LINE).unwrap().signed_by(Some(Path::new("/k.asc")));
        let old = "# mine\ndeb https://other.example.com stable main\n#deb https://deb.example.com/debian bookworm main\n\
                   deb https://deb.example.com/debian bookworm main\n";
        let new = "deb [arch=amd64 signed-by=/k.asc] https://deb.example.com/debian/ bookworm main contrib";
        let expected = format!("# mine\ndeb https://other.example.com stable main\n{new}\n");
        assert_eq!(edited(file, old, &line, false), expected);
        assert_eq!(edited(file, &expected, &line, false), expected);
        assert_eq!(edited(file, "", &line, true), format!("# {new}\n"));
        assert_eq!(removed(file, &expected, LINE), "# mine\ndeb https://other.example.com stable main\n");
    }

    #[test]
    fn paragraphs_are_kept_apart() {
        let file = Path::new("/etc/apt/sources.list.d/x.sources");
        let line = OneLine::parse(LINE).unwrap().signed_by(Some(Path::new("/k.gpg")));
        let other = "Types: deb\nURIs: https://other.example.com\nSuites: stable\nComponents: main\n";
        let own = "Types: deb\nURIs: https://deb.example.com/debian/\nSuites: bookworm\nComponents: main contrib\n\
                   Architectures: amd64\nSigned-By: /k.gpg\n";
        let expected = format!("{other}\n{own}");
        assert_eq!(edited(file, other, &line, false), expected);
        assert_eq!(edited(file, &expected, &line, false), expected);
        assert!(edited(file, &expected, &line, true).contains("\n\nEnabled: no\nTypes: deb\n"));
        assert_eq!(removed(file, &expected, LINE), other);
    }

    #[test]
    fn sections_of_rpm_are_kept_apart() {
        let entries = [("name", "Extra".to_string()), ("baseurl", "https://x".to_string())];
        let old = "# kept\n[base]\nname=Base\n\n[extra]\nname=Old\nfoo=1\n[more]\nname=More\n";
        let new = rpm_section(old, "extra", &entries);
        assert_eq!(
            new,
            "# kept\n[base]\nname=Base\n\n[extra]\nname=Extra\nbaseurl=https://x\n[more]\nname=More\n"
        );
        assert_eq!(rpm_section(&new, "extra", &entries), new);
        assert_eq!(
            removed(Path::new("/x.repo"), &new, "extra"),
            "# kept\n[base]\nname=Base\n\n[more]\nname=More\n"
        );
    }
}
