//! `file.line`: one line of a file, at the place that the state says.

use crate::context::Checking;
use crate::file_change::Backup;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Absolute, Invalid, Mode, params};
use crate::text::pattern::{Flags, Pattern};
use crate::text::{self, bare, indentation};
use schemars::JsonSchema;
use serde::Deserialize;
use zester_host::{Fault, FaultKind};

/// One line of a file.
#[params(kind = "file.line", primary = "path", manual = "file_line.md")]
pub struct Line {
    /// Where the file is.
    path: Absolute,
    /// What is to be done: `ensure` has it next to `before` or `after`, `insert` puts it there or at `location`, `replace` puts it in the
    /// place of the lines that `match`, `delete` removes these.
    mode: LineMode,
    /// The line. Only `delete` needs none.
    content: Option<String>,
    /// A regular expression that the lines to replace or delete hold. Unset: `content`.
    r#match: Option<String>,
    /// A regular expression that the line below holds.
    before: Option<String>,
    /// A regular expression that the line above holds.
    after: Option<String>,
    /// Where `insert` puts it: `start` or `end` of the file.
    location: Option<Location>,
    /// Gives it the indentation of the line that it replaces or stands beside.
    #[param(default = true)]
    indent: bool,
    /// Creates the file where it is missing.
    #[param(default)]
    create: bool,
    /// A missing file is no failure: nothing is done.
    #[param(default)]
    quiet: bool,
    /// Whom the file belongs to: a name or a number. Unset: as it is.
    #[param(alias = "owner")]
    user: Option<String>,
    /// Which group it belongs to: a name or a number. Unset: as it is.
    group: Option<String>,
    /// Permissions of the file, like `0644`. Unset: as they are.
    file_mode: Option<Mode>,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// What is done with the line.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum LineMode {
    Ensure,
    Insert,
    Replace,
    Delete,
}

/// An end of the file.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Location {
    Start,
    End,
}

/// Where a line that is to stand somewhere belongs.
enum Place {
    /// Before the line of this number.
    New(usize),
    /// In the stead of the line of this number.
    Instead(usize),
    /// It stands there.
    Taken,
}

impl FileEdit for Line {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).backup(self.backup.as_ref()).show_changes(self.show_changes).owned(
            self.user.as_deref(),
            self.group.as_deref(),
            self.file_mode,
        )
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let old = match old {
            Some(old) => old,
            None if self.quiet && !self.create => return Ok(Edited::Same),
            None if !self.create => return Err(self.file().missing().hint("`create: true` makes one")),
            None => "",
        };
        let end = text::line_end(old);
        let lines = text::lines(old);
        let edited = match self.mode {
            LineMode::Delete => {
                let pattern = self.pattern(self.r#match.as_ref().or(self.content.as_ref()))?;
                let mut kept = Vec::new();
                for line in lines {
                    if !found(&pattern, line)? {
                        kept.push(line);
                    }
                }
                kept.concat()
            }
            LineMode::Replace => {
                let pattern = self.pattern(self.r#match.as_ref().or(self.content.as_ref()))?;
                let mut replaced = String::new();
                for line in lines {
                    match found(&pattern, line)? {
                        true => replaced.extend([&*self.line_like(line), text::ending(line)]),
                        false => replaced.push_str(line),
                    }
                }
                replaced
            }
            LineMode::Insert | LineMode::Ensure => {
                let mut lines: Vec<String> = lines.into_iter().map(str::to_string).collect();
                match self.place(&lines)? {
                    Place::Taken => return Ok(Edited::Same),
                    Place::Instead(at) => {
                        lines[at] = self.line_like(&lines[at]) + text::ending(&lines[at]);
                    }
                    Place::New(at) => {
                        let beside = self.beside(at, lines.len());
                        let line =
                            beside.map_or_else(|| self.wanted().to_string(), |at| self.line_like(&lines[at]));
                        if let Some(above) = at.checked_sub(1) {
                            lines[above] = text::ended(std::mem::take(&mut lines[above]), end);
                        }
                        lines.insert(at, line + end);
                    }
                }
                lines.concat()
            }
        };
        Ok(Edited::To(edited))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = crate::ownership::invalid(self.user.as_deref(), self.group.as_deref());
        let placed = self.before.is_some() || self.after.is_some();
        match self.mode {
            LineMode::Delete if self.content.is_none() && self.r#match.is_none() => {
                invalid.push(Invalid::new("mode", "`delete` needs `match` or `content`"));
            }
            LineMode::Ensure if !placed => {
                let mut unplaced = Invalid::new("mode", "`ensure` needs `before` or `after`");
                unplaced.hint = Some("`file.append` has a line wherever in the file".into());
                invalid.push(unplaced);
            }
            LineMode::Insert if !placed && self.location.is_none() => {
                invalid.push(Invalid::new("mode", "`insert` needs `before`, `after` or `location`"));
            }
            LineMode::Insert if placed && self.location.is_some() => {
                invalid.push(Invalid::new("location", "`before` and `after` say already where"));
            }
            _ => {}
        }
        if self.location.is_some() && self.mode != LineMode::Insert {
            invalid.push(Invalid::new("location", "only `mode: insert` has one"));
        }
        match self.content.as_deref() {
            None if self.mode != LineMode::Delete => {
                invalid.push(Invalid::new("mode", "the line is missing: give it as `content`"));
            }
            Some(content) if bare(content).contains(['\n', '\r']) => {
                let mut several = Invalid::new("content", "this is more than one line");
                several.hint = Some("`file.blockreplace` manages several".into());
                invalid.push(several);
            }
            _ => {}
        }
        let patterns = [("match", &self.r#match), ("before", &self.before), ("after", &self.after)];
        for (parameter, pattern) in patterns {
            if let Some(message) = pattern.as_ref().and_then(|text| Pattern::new(text, Flags::NONE).err()) {
                invalid.push(Invalid::new(parameter, message));
            }
        }
        invalid
    }
}

fn unsupported(message: String) -> Fault {
    Fault::new(FaultKind::Unsupported, message)
}

fn found(pattern: &Pattern, line: &str) -> Result<bool, Fault> {
    pattern.found_in(bare(line)).map_err(unsupported)
}

impl Line {
    fn wanted(&self) -> &str {
        bare(self.content.as_deref().unwrap_or_default())
    }

    fn pattern(&self, text: Option<&String>) -> Result<Pattern, Fault> {
        Pattern::new(text.map_or("", |text| bare(text)), Flags::NONE).map_err(unsupported)
    }

    /// The line as it is to stand in the place of this one, or beside it.
    fn line_like(&self, other: &str) -> String {
        match self.indent {
            true => format!("{}{}", indentation(other), self.wanted().trim_start()),
            false => self.wanted().to_string(),
        }
    }

    /// Whether a line is it already, wherever it begins where that is taken from the lines around it.
    fn is_it(&self, line: &str) -> bool {
        match self.indent {
            true => bare(line).trim() == self.wanted().trim(),
            false => bare(line) == self.wanted(),
        }
    }

    /// The line whose indentation counts, where it is to be put before the line `at`.
    fn beside(&self, at: usize, lines: usize) -> Option<usize> {
        let below = (at < lines).then_some(at);
        let above = at.checked_sub(1);
        match (&self.before, &self.after) {
            (None, Some(_)) => above,
            (Some(_), _) => below,
            (None, None) => below.or(above),
        }
    }

    fn place(&self, lines: &[String]) -> Result<Place, Fault> {
        let before = self.before.as_ref().map(|pattern| self.only(lines, "before", pattern)).transpose()?;
        let after = self.after.as_ref().map(|pattern| self.only(lines, "after", pattern)).transpose()?;
        let is_at = |at: Option<usize>| at.and_then(|at| lines.get(at)).is_some_and(|line| self.is_it(line));
        let at = match (before, after) {
            (Some(before), Some(after)) => return self.between(lines, before, after),
            (Some(before), None) if is_at(before.checked_sub(1)) => return Ok(Place::Taken),
            (Some(before), None) => before,
            (None, Some(after)) if is_at(Some(after + 1)) => return Ok(Place::Taken),
            (None, Some(after)) => after + 1,
            (None, None) if self.location == Some(Location::Start) => {
                if is_at(Some(0)) {
                    return Ok(Place::Taken);
                }
                0
            }
            (None, None) => {
                if is_at(lines.len().checked_sub(1)) {
                    return Ok(Place::Taken);
                }
                lines.len()
            }
        };
        Ok(Place::New(at))
    }

    fn between(&self, lines: &[String], before: usize, after: usize) -> Result<Place, Fault> {
        if before <= after {
            let path = self.path.display();
            return Err(unsupported(format!(
                "{path}: the line of `before` stands above the line of `after`"
            )));
        }
        let inside = &lines[after + 1..before];
        match (self.mode, inside) {
            (_, inside) if inside.iter().any(|line| self.is_it(line)) => Ok(Place::Taken),
            (LineMode::Ensure, [_]) => Ok(Place::Instead(after + 1)),
            (LineMode::Ensure, [_, _, ..]) => {
                let (path, count) = (self.path.display(), inside.len());
                let message = format!(
                    "{path}: {count} lines stand between `after` and `before`, and one can be replaced"
                );
                Err(unsupported(message).hint("name a nearer line"))
            }
            _ => Ok(Place::New(before)),
        }
    }

    /// The only line that holds this.
    fn only(&self, lines: &[String], parameter: &str, pattern: &str) -> Result<usize, Fault> {
        let compiled = Pattern::new(pattern, Flags::NONE).map_err(unsupported)?;
        let mut places = Vec::new();
        for (at, line) in lines.iter().enumerate() {
            if found(&compiled, line)? {
                places.push(at);
            }
        }
        match places[..] {
            [only] => Ok(only),
            [] => {
                let message =
                    format!("no line of {} matches `{pattern}` (`{parameter}`)", self.path.display());
                Err(unsupported(message))
            }
            [..] => {
                let (count, path) = (places.len(), self.path.display());
                let message =
                    format!("{count} lines of {path} match `{pattern}` (`{parameter}`), and one is meant");
                Err(unsupported(message).hint("say more of the line"))
            }
        }
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |mode: &str, mut params: serde_json::Value, promise, world: &'static str| {
        params["path"] = json!("/f");
        params["mode"] = json!(mode);
        Case::new("file.line", params, promise, move |host| furnish(host, world))
    };
    vec![
        case("delete", json!({ "match": "^a" }), Promise::Converges, "f /f 0604 a"),
        case("delete", json!({ "match": "^b" }), Promise::Clean, "f /f 0604 a"),
        case("replace", json!({ "match": "^a", "content": "b" }), Promise::Converges, "f /f 0604 a"),
        case("replace", json!({ "match": "^x", "content": "b" }), Promise::Clean, "f /f 0604 a"),
        case("ensure", json!({ "content": "b", "after": "^a" }), Promise::Converges, "f /f 0604 a"),
        case(
            "ensure",
            json!({ "content": "b", "before": "^a", "backup": true }),
            Promise::Converges,
            "f /f 0604 a",
        ),
        case("ensure", json!({ "content": "b", "after": "x" }), Promise::Fails, "f /f 0604 a"),
        case("insert", json!({ "content": "b", "location": "end" }), Promise::Converges, "f /f 0604 a"),
        case("insert", json!({ "content": "b", "location": "start" }), Promise::Converges, "f /f 0604 a"),
        case("insert", json!({ "content": "a", "location": "start" }), Promise::Clean, "f /f 0604 a"),
        case("insert", json!({ "content": "b", "location": "start" }), Promise::Fails, ""),
        case("insert", json!({ "content": "b", "location": "end", "quiet": true }), Promise::Clean, ""),
        case(
            "insert",
            json!({ "content": "b", "location": "end", "create": true, "file_mode": "0600", "user": "web" }),
            Promise::Converges,
            "",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::json;

    const TEXT: &str = "[a]\n  x = 1\n  y = 2\n[b]\n";

    #[test]
    fn a_line_goes_where_the_state_says() {
        let edit = |params| edited("file.line", params, Some(TEXT));
        let cases = [
            (
                json!({ "mode": "insert", "location": "start", "content": "z" }),
                "z\n[a]\n  x = 1\n  y = 2\n[b]\n",
            ),
            (
                json!({ "mode": "insert", "location": "end", "content": "z" }),
                "[a]\n  x = 1\n  y = 2\n[b]\nz\n",
            ),
            (
                json!({ "mode": "insert", "after": "x =", "content": "z" }),
                "[a]\n  x = 1\n  z\n  y = 2\n[b]\n",
            ),
            (
                json!({ "mode": "ensure", "before": "y =", "content": "z" }),
                "[a]\n  x = 1\n  z\n  y = 2\n[b]\n",
            ),
            (
                json!({ "mode": "ensure", "after": "x =", "content": "z", "indent": false }),
                "[a]\n  x = 1\nz\n  y = 2\n[b]\n",
            ),
            (
                json!({ "mode": "ensure", "after": "x =", "before": r"\[b\]", "content": "y = 3" }),
                "[a]\n  x = 1\n  y = 3\n[b]\n",
            ),
            (
                json!({ "mode": "replace", "match": r"^\s*y\b", "content": "y = 3" }),
                "[a]\n  x = 1\n  y = 3\n[b]\n",
            ),
            (json!({ "mode": "delete", "match": r"^\s*[xy]" }), "[a]\n[b]\n"),
            (json!({ "mode": "delete", "content": "x = 1" }), "[a]\n  y = 2\n[b]\n"),
        ];
        for (params, expected) in cases {
            assert_eq!(edit(params.clone()).as_deref(), Some(expected), "{params}");
        }
    }

    #[test]
    fn a_line_that_is_there_is_left_alone() {
        for params in [
            json!({ "mode": "ensure", "after": "x =", "content": "y = 2" }),
            json!({ "mode": "ensure", "before": "y =", "content": "x = 1" }),
            json!({ "mode": "ensure", "after": r"\[a\]", "before": r"\[b\]", "content": "y = 2" }),
            json!({ "mode": "insert", "location": "end", "content": "[b]" }),
            json!({ "mode": "replace", "match": "y =", "content": "y = 2" }),
            json!({ "mode": "delete", "match": "nothing" }),
        ] {
            assert_eq!(edited("file.line", params.clone(), Some(TEXT)), None, "{params}");
        }
    }

    #[test]
    fn the_end_of_other_lines_is_kept_and_the_last_one_gets_its_end() {
        let params = json!({ "mode": "insert", "location": "end", "content": "b" });
        assert_eq!(edited("file.line", params.clone(), Some("x\r\na")).as_deref(), Some("x\r\na\r\nb\r\n"));
        assert_eq!(edited("file.line", params, Some("a")).as_deref(), Some("a\nb\n"));
        let params = json!({ "mode": "replace", "match": "a", "content": "b" });
        assert_eq!(edited("file.line", params, Some("x\r\na")).as_deref(), Some("x\r\nb"));
    }

    #[test]
    fn what_cannot_be_placed_is_said() {
        let text = "a\nb\nc\na\n";
        let fault = |params| refused("file.line", params, Some(text));
        let twice = fault(json!({ "mode": "ensure", "after": "a", "content": "x" }));
        assert!(twice.contains("2 lines of /f match `a` (`after`), and one is meant"), "{twice}");
        let nowhere = fault(json!({ "mode": "ensure", "before": "q", "content": "x" }));
        assert!(nowhere.contains("no line of /f matches `q` (`before`)"), "{nowhere}");
        let wide = refused(
            "file.line",
            json!({ "mode": "ensure", "after": "a", "before": "d", "content": "x" }),
            Some("a\nb\nc\nd\n"),
        );
        assert!(wide.contains("2 lines stand between"), "{wide}");
        let crossed = refused(
            "file.line",
            json!({ "mode": "ensure", "after": "b", "before": "a", "content": "x" }),
            Some("a\nb\n"),
        );
        assert!(crossed.contains("stands above"), "{crossed}");
    }

    #[test]
    fn parameters_that_do_not_fit_are_refused_where_they_stand() {
        for (params, words) in [
            (json!({ "mode": "ensure", "content": "x" }), "needs `before` or `after`"),
            (json!({ "mode": "insert", "content": "x" }), "needs `before`, `after` or `location`"),
            (json!({ "mode": "delete" }), "needs `match` or `content`"),
            (json!({ "mode": "replace", "match": "x" }), "the line is missing"),
            (json!({ "mode": "replace", "match": "(", "content": "x" }), "is no regular expression"),
            (json!({ "mode": "delete", "content": "a\nb" }), "more than one line"),
            (
                json!({ "mode": "replace", "match": "x", "content": "y", "location": "end" }),
                "only `mode: insert`",
            ),
        ] {
            let said = refused("file.line", params.clone(), None);
            assert!(said.contains(words), "{params}: {said}");
        }
    }
}
