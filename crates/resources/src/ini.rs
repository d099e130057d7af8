//! The text of an INI file, edited line by line: what is not named stays as it is.

use crate::text::{self, bare};

/// A file of `[sections]` with lines like `key = value`.
pub(crate) struct Ini {
    lines: Vec<String>,
    end: &'static str,
    separator: String,
}

/// What one line is.
enum Line<'l> {
    Section(&'l str),
    /// Key, what stands between, and value.
    Setting(&'l str, &'l str, &'l str),
    Other,
}

impl Ini {
    pub(crate) fn new(old: &str, separator: &str) -> Ini {
        let end = text::line_end(old);
        let mut lines: Vec<String> = text::lines(old).into_iter().map(str::to_string).collect();
        if let Some(last) = lines.last_mut() {
            *last = text::ended(std::mem::take(last), end);
        }
        Ini { lines, end, separator: separator.to_string() }
    }

    pub(crate) fn text(&self) -> String {
        self.lines.concat()
    }

    fn read<'l>(&self, line: &'l str) -> Line<'l> {
        let line = bare(line);
        let trimmed = line.trim();
        if let Some(inside) = trimmed.strip_prefix('[')
            && let Some((name, _)) = inside.split_once(']')
        {
            return Line::Section(name.trim());
        }
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) || line.starts_with(char::is_whitespace) {
            return Line::Other;
        }
        let mark = self.separator.trim();
        let found = match mark {
            "" => line.find(char::is_whitespace).map(|at| (at, at)),
            mark => line.find(mark).map(|at| (at, at + mark.len())),
        };
        let Some((start, end)) = found else { return Line::Other };
        let key = line[..start].trim_end();
        let value = line[end..].trim();
        let value_at = line.len() - line[end..].trim_start().len();
        Line::Setting(key, &line[key.len()..value_at], value)
    }

    /// The lines of a section, its heading not among them; `None` for those before any section.
    fn range(&self, section: Option<&str>) -> Option<std::ops::Range<usize>> {
        let is_heading = |at: &usize| matches!(self.read(&self.lines[*at]), Line::Section(_));
        let start = match section {
            None => 0,
            Some(name) => {
                let found = (0..self.lines.len()).find(
                    |at| matches!(self.read(&self.lines[*at]), Line::Section(found) if found == name),
                )?;
                found + 1
            }
        };
        let end = (start..self.lines.len()).find(is_heading).unwrap_or(self.lines.len());
        Some(start..end)
    }

    /// The lines of one setting: its own and those indented below it that go on with its value.
    fn setting(&self, section: Option<&str>, key: &str) -> Option<std::ops::Range<usize>> {
        let range = self.range(section)?;
        let at = range
            .clone()
            .find(|at| matches!(self.read(&self.lines[*at]), Line::Setting(found, ..) if found == key))?;
        let goes_on = |at: &usize| {
            let line = bare(&self.lines[*at]);
            line.starts_with(char::is_whitespace) && !line.trim().is_empty()
        };
        let end = (at + 1..range.end).find(|at| !goes_on(at)).unwrap_or(range.end);
        Some(at..end)
    }

    pub(crate) fn sections(&self) -> Vec<String> {
        let names = self.lines.iter().filter_map(|line| match self.read(line) {
            Line::Section(name) => Some(name.to_string()),
            _ => None,
        });
        names.collect()
    }

    pub(crate) fn keys(&self, section: Option<&str>) -> Vec<String> {
        let lines = self.range(section).map(|range| &self.lines[range]).unwrap_or_default();
        let keys = lines.iter().filter_map(|line| match self.read(line) {
            Line::Setting(key, ..) => Some(key.to_string()),
            _ => None,
        });
        keys.collect()
    }

    pub(crate) fn value(&self, section: Option<&str>, key: &str) -> Option<String> {
        let range = self.setting(section, key)?;
        let mut lines = self.lines[range].iter();
        let Line::Setting(_, _, first) = self.read(lines.next()?) else { return None };
        let rest = lines.map(|line| bare(line).trim());
        Some(std::iter::once(first).chain(rest).collect::<Vec<_>>().join("\n"))
    }

    /// Makes the section, at the end, if it is not there.
    pub(crate) fn add_section(&mut self, name: &str) {
        if self.range(Some(name)).is_some() {
            return;
        }
        if self.lines.last().is_some_and(|last| !bare(last).trim().is_empty()) {
            self.lines.push(self.end.to_string());
        }
        self.lines.push(format!("[{name}]{}", self.end));
    }

    /// Removes every section of this name with all that is inside.
    pub(crate) fn remove_section(&mut self, name: &str) {
        while let Some(range) = self.range(Some(name)) {
            self.lines.drain(range.start - 1..range.end);
        }
    }

    pub(crate) fn set(&mut self, section: Option<&str>, key: &str, value: &str) {
        if self.value(section, key).as_deref() == Some(value.trim()) {
            return;
        }
        if let Some(range) = self.setting(section, key) {
            let between = match self.read(&self.lines[range.start]) {
                Line::Setting(_, between, "") if !between.ends_with(' ') => format!("{between} "),
                Line::Setting(_, between, _) => between.to_string(),
                _ => self.between(),
            };
            let line = format!("{key}{between}{}{}", value.trim(), self.end);
            self.lines.splice(range, [line]);
            return;
        }
        if let Some(name) = section {
            self.add_section(name);
        }
        let line = format!("{key}{}{}{}", self.between(), value.trim(), self.end);
        let Some(range) = self.range(section) else { return };
        // Before the empty lines that stand between sections.
        let at = range.clone().rev().find(|at| !bare(&self.lines[*at]).trim().is_empty());
        self.lines.insert(at.map_or(range.start, |at| at + 1), line);
    }

    pub(crate) fn remove(&mut self, section: Option<&str>, key: &str) {
        while let Some(range) = self.setting(section, key) {
            self.lines.drain(range);
        }
    }

    fn between(&self) -> String {
        match self.separator.trim() {
            "" => " ".to_string(),
            ":" => ": ".to_string(),
            mark => format!(" {mark} "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "top = 0\n# head\n[a]\nx=1\nlong = one\n  two\n; note\n\n[b]\nx = 3\n";

    #[test]
    fn values_are_found_by_section() {
        let ini = Ini::new(TEXT, "=");
        assert_eq!(ini.sections(), ["a", "b"]);
        assert_eq!(ini.keys(Some("a")), ["x", "long"]);
        assert_eq!(ini.value(None, "top").as_deref(), Some("0"));
        assert_eq!(ini.value(Some("a"), "x").as_deref(), Some("1"));
        assert_eq!(ini.value(Some("a"), "long").as_deref(), Some("one\ntwo"));
        assert_eq!(ini.value(Some("b"), "long"), None);
        assert_eq!(ini.value(Some("c"), "x"), None);
        assert_eq!(ini.text(), TEXT);
    }

    #[test]
    fn what_is_set_or_removed_leaves_the_rest_as_it_is() {
        let edited = |edit: fn(&mut Ini)| {
            let mut ini = Ini::new(TEXT, "=");
            edit(&mut ini);
            ini.text()
        };
        assert_eq!(edited(|ini| ini.set(Some("a"), "x", "2")), TEXT.replace("x=1", "x=2"));
        assert_eq!(edited(|ini| ini.set(Some("a"), "x", "1")), TEXT);
        assert_eq!(
            edited(|ini| ini.set(Some("a"), "long", "1")),
            TEXT.replace("long = one\n  two", "long = 1")
        );
        assert_eq!(
            edited(|ini| ini.set(Some("a"), "new", "v")),
            TEXT.replace("; note\n", "; note\nnew = v\n")
        );
        assert_eq!(edited(|ini| ini.set(None, "new", "v")), TEXT.replace("# head\n", "# head\nnew = v\n"));
        assert_eq!(edited(|ini| ini.set(Some("c"), "k", "v")), format!("{TEXT}\n[c]\nk = v\n"));
        assert_eq!(edited(|ini| ini.remove(Some("a"), "long")), TEXT.replace("long = one\n  two\n", ""));
        assert_eq!(edited(|ini| ini.remove_section("a")), "top = 0\n# head\n[b]\nx = 3\n");
        assert_eq!(edited(|ini| ini.remove(Some("c"), "x")), TEXT);
    }

    #[test]
    fn separators_and_ends_are_those_of_the_file() {
        let mut ini = Ini::new("[a]\r\nx: 1", ":");
        ini.set(Some("a"), "y", "2");
        assert_eq!(ini.text(), "[a]\r\nx: 1\r\ny: 2\r\n");
    }
}
