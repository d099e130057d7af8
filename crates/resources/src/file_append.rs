//! `file.append` and `file.prepend`: text that a file holds, added at its end or at its start.

use crate::claims::Claims;
use crate::context::Checking;
use crate::edit_text::EditText;
use crate::file_change::Backup;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Absolute, Invalid, Template, params};
use crate::text::{self, bare};
use zester_host::Fault;
use zester_model::outcome::Details;

/// Text at the end of a file.
#[params(kind = "file.append", primary = "path", manual = "file_append.md")]
pub struct Append {
    /// Where the file is.
    path: Absolute,
    /// What is to be there: each that stands nowhere in the file is put at its end, with all its lines.
    #[param(list, default)]
    text: Vec<String>,
    /// Files to take text from: `salt://…`, a path below the states directory, or an absolute path on this machine.
    #[param(list, alias = "sources", default)]
    source: Vec<String>,
    /// `jinja` renders what comes from `source` as a template, which is also the default.
    template: Option<Template>,
    /// Variables for the template.
    #[param(default)]
    context: Details,
    /// Variables for the template that `context` does not set.
    #[param(default)]
    defaults: Details,
    /// White space inside a line and around it makes no other line.
    #[param(default = true)]
    ignore_whitespace: bool,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// Text at the start of a file.
#[params(kind = "file.prepend", primary = "path", manual = "file_prepend.md")]
pub struct Prepend {
    /// Where the file is.
    path: Absolute,
    /// What is to be there: each that stands nowhere in the file is put at its start, in this order.
    #[param(list, default)]
    text: Vec<String>,
    /// Files to take text from: `salt://…`, a path below the states directory, or an absolute path on this machine.
    #[param(list, alias = "sources", default)]
    source: Vec<String>,
    /// `jinja` renders what comes from `source` as a template, which is also the default.
    template: Option<Template>,
    /// Variables for the template.
    #[param(default)]
    context: Details,
    /// Variables for the template that `context` does not set.
    #[param(default)]
    defaults: Details,
    /// The file begins with exactly this text; elsewhere in it does not count.
    #[param(default)]
    header: bool,
    /// White space inside a line and around it makes no other line.
    #[param(default = true)]
    ignore_whitespace: bool,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// Whether the lines of a piece stand in the text, one below the other.
fn stands_in(text: &str, piece: &str, ignore_whitespace: bool) -> bool {
    let same = |line: &str, wanted: &str| match ignore_whitespace {
        true => line.split_whitespace().eq(wanted.split_whitespace()),
        false => line == wanted,
    };
    let wanted: Vec<&str> = piece.lines().collect();
    let lines: Vec<&str> = text::lines(text).into_iter().map(bare).collect();
    let all = |window: &[&str]| window.iter().zip(&wanted).all(|(line, wanted)| same(line, wanted));
    wanted.is_empty() || lines.windows(wanted.len()).any(all)
}

impl Append {
    fn text(&self) -> EditText<'_> {
        EditText {
            texts: &self.text,
            sources: &self.source,
            template: self.template,
            context: &self.context,
            defaults: &self.defaults,
        }
    }
}

impl FileEdit for Append {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path)
            .makedirs(self.makedirs)
            .backup(self.backup.as_ref())
            .show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, cx: &Checking<'_>) -> Result<Edited, Fault> {
        let mut edited = old.unwrap_or_default().to_string();
        let end = text::line_end(&edited);
        for piece in self.text().read(cx)? {
            if !stands_in(&edited, &piece, self.ignore_whitespace) {
                edited = text::ended(edited, end) + &text::with_ends(&piece, end);
            }
        }
        Ok(Edited::To(edited))
    }

    fn needs(&self) -> Claims {
        self.text().needs()
    }

    fn validate(&self) -> Vec<Invalid> {
        self.text().invalid()
    }
}

impl Prepend {
    fn text(&self) -> EditText<'_> {
        EditText {
            texts: &self.text,
            sources: &self.source,
            template: self.template,
            context: &self.context,
            defaults: &self.defaults,
        }
    }
}

impl FileEdit for Prepend {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path)
            .makedirs(self.makedirs)
            .backup(self.backup.as_ref())
            .show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, cx: &Checking<'_>) -> Result<Edited, Fault> {
        let present = old.unwrap_or_default();
        let end = text::line_end(present);
        let pieces = self.text().read(cx)?;
        let with_ends = |pieces: &[String]| -> String {
            pieces.iter().map(|piece| text::with_ends(piece, end)).collect()
        };
        if self.header {
            let header = with_ends(&pieces);
            let begins = text::ended(present.to_string(), end).starts_with(&header);
            return Ok(if begins && old.is_some() { Edited::Same } else { Edited::To(header + present) });
        }
        let mut missing: Vec<String> = Vec::new();
        for piece in pieces {
            let known = stands_in(present, &piece, self.ignore_whitespace)
                || stands_in(&with_ends(&missing), &piece, self.ignore_whitespace);
            if !known {
                missing.push(piece);
            }
        }
        Ok(Edited::To(with_ends(&missing) + present))
    }

    fn needs(&self) -> Claims {
        self.text().needs()
    }

    fn validate(&self) -> Vec<Invalid> {
        self.text().invalid()
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let one = |kind: &'static str, params, promise, world: &'static str| {
        Case::new(kind, params, promise, move |host| furnish(host, world))
    };
    let both = |params: serde_json::Value, promise: Promise, world: &'static str| {
        ["file.append", "file.prepend"].map(|kind| one(kind, params.clone(), promise, world))
    };
    let mut cases: Vec<Case> = [
        both(json!({ "path": "/f", "text": "b" }), Promise::Converges, "f /f 0604 a"),
        both(json!({ "path": "/f", "text": ["a", "b"] }), Promise::Converges, "f /f 0604 a"),
        both(json!({ "path": "/f", "text": "a" }), Promise::Clean, "f /f 0604 a"),
        both(json!({ "path": "/f", "text": ["a\nb"] }), Promise::Converges, ""),
        both(json!({ "path": "/d/f", "text": "a", "makedirs": true }), Promise::Converges, ""),
        both(json!({ "path": "/d/f", "text": "a" }), Promise::Fails, ""),
        both(json!({ "path": "/l", "text": "b", "backup": true }), Promise::Converges, "f /f 0640 a\nl /l f"),
        both(json!({ "path": "/d", "text": "b" }), Promise::Fails, "d /d 0755"),
        both(json!({ "path": "/f", "source": "/s" }), Promise::Converges, "f /f 0604 a\nf /s 0600 b"),
        both(json!({ "path": "/f", "source": "/none" }), Promise::Fails, "f /f 0604 a"),
    ]
    .into_iter()
    .flatten()
    .collect();
    cases.push(one(
        "file.prepend",
        json!({ "path": "/f", "text": "b", "header": true }),
        Promise::Converges,
        "f /f 0604 a",
    ));
    cases.push(one(
        "file.prepend",
        json!({ "path": "/f", "text": "a", "header": true }),
        Promise::Clean,
        "f /f 0604 a",
    ));
    cases
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::json;

    #[test]
    fn a_text_is_added_once_and_the_last_line_is_ended_first() {
        let text = json!({ "text": ["two", "one", "two"] });
        assert_eq!(edited("file.append", text.clone(), Some("one")).as_deref(), Some("one\ntwo\n"));
        assert_eq!(edited("file.prepend", text, Some("one")).as_deref(), Some("two\none"));
    }

    #[test]
    fn a_piece_counts_with_all_its_lines() {
        let text = json!({ "text": "if a\nthen\nfi" });
        let append = |old: &str| edited("file.append", text.clone(), Some(old));
        assert_eq!(append("fi\nif a\n").as_deref(), Some("fi\nif a\nif a\nthen\nfi\n"));
        assert_eq!(append("x\nif a\n  then\nfi\n"), None);
        let exact = json!({ "text": "a b", "ignore_whitespace": false });
        assert_eq!(edited("file.append", exact, Some("a  b\n")).as_deref(), Some("a  b\na b\n"));
        assert_eq!(edited("file.append", json!({ "text": "a b" }), Some("  a  b\n")), None);
        assert_eq!(
            edited("file.append", json!({ "text": "a b" }), Some("ab\r\n")).as_deref(),
            Some("ab\r\na b\r\n")
        );
    }

    #[test]
    fn a_header_stands_at_the_very_start() {
        let header = json!({ "text": ["# one", "# two"], "header": true });
        let prepend = |old: &str| edited("file.prepend", header.clone(), Some(old));
        assert_eq!(prepend("x\n# one\n# two\n").as_deref(), Some("# one\n# two\nx\n# one\n# two\n"));
        assert_eq!(prepend("# one\n# two\nx\n"), None);
        assert_eq!(prepend("# one\n# two"), None);
    }

    #[test]
    fn text_comes_from_the_states_directory_too() {
        let added = edited("file.append", json!({ "source": "salt://run.sh" }), Some("a\n")).unwrap();
        assert!(added.starts_with("a\n") && added.len() > 2, "{added}");
        let said = refused("file.append", json!({ "source": "salt://../x" }), None);
        assert!(said.contains("leaves the states directory"), "{said}");
    }
}
