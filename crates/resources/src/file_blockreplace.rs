//! `file.blockreplace`: a block of lines between two markers.

use crate::claims::Claims;
use crate::context::Checking;
use crate::edit_text::EditText;
use crate::file_change::Backup;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Absolute, Invalid, Template, params};
use crate::text::pattern::{Flags, Pattern};
use crate::text::{self, bare};
use zester_host::{Fault, FaultKind};
use zester_model::outcome::Details;

/// A block of lines between two markers.
#[params(kind = "file.blockreplace", primary = "path", manual = "file_blockreplace.md")]
pub struct Block {
    /// Where the file is.
    path: Absolute,
    /// What the line above the block holds.
    #[param(default = "#-- start managed zone --".to_string())]
    marker_start: String,
    /// What the line below the block holds.
    #[param(default = "#-- end managed zone --".to_string())]
    marker_end: String,
    /// What stands between them. A list stands for lines.
    #[param(lines)]
    content: Option<String>,
    /// Files to take the content from: `salt://…`, a path below the states directory, or an absolute path on this machine.
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
    /// Puts the block with its markers at the end where they are missing.
    #[param(default)]
    append_if_not_found: bool,
    /// Puts it at the start.
    #[param(default)]
    prepend_if_not_found: bool,
    /// Puts it above the first line that this regular expression finds.
    insert_before_match: Option<String>,
    /// Puts it below the first line that this regular expression finds.
    insert_after_match: Option<String>,
    /// `true` puts a line end behind the content in any case, `false` in none: the end marker follows right behind it. Unset: where
    /// it lacks one.
    append_newline: Option<bool>,
    /// Keeps the replaced file as `PATH~`, or with the suffix given. Default: none, since a revert brings it back.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

fn unsupported(message: String) -> Fault {
    Fault::new(FaultKind::Unsupported, message)
}

impl Block {
    fn text(&self) -> EditText<'_> {
        EditText {
            texts: self.content.as_slice(),
            sources: &self.source,
            template: self.template,
            context: &self.context,
            defaults: &self.defaults,
        }
    }

    /// What stands between the markers, with the ends that the lines of the file have.
    fn content(&self, cx: &Checking<'_>, end: &str) -> Result<String, Fault> {
        let parts = self.text().read(cx)?;
        let ends: String = parts.iter().map(|part| text::with_ends(part, end)).collect();
        let open = parts.last().is_some_and(|last| !last.is_empty() && !last.ends_with('\n'));
        Ok(match self.append_newline {
            Some(false) if open => ends.strip_suffix(end).unwrap_or(&ends).to_string(),
            Some(true) if !open => ends + end,
            _ => ends,
        })
    }

    fn found_at(&self, lines: &[&str], from: usize, marker: &str) -> Option<usize> {
        (from..lines.len()).find(|at| lines[*at].contains(marker))
    }

    /// Replaces the block that is there; `None` where there is none.
    fn replaced(&self, lines: &[&str], content: &str) -> Result<Option<String>, Fault> {
        let Some(start) = self.found_at(lines, 0, &self.marker_start) else { return Ok(None) };
        let Some(end) = self.found_at(lines, start + 1, &self.marker_end) else {
            let message = format!(
                "{} holds `{}` and no `{}` below it: where the block ends is unknown",
                self.path.display(),
                self.marker_start,
                self.marker_end
            );
            return Err(unsupported(message).hint("put the end marker into the file by hand"));
        };
        let mut last = lines[end];
        // Where content may stand before the end marker in its line, it is content there.
        if self.append_newline == Some(false) {
            last = last.find(&self.marker_end).map_or(last, |at| &last[at..]);
        }
        Ok(Some([&*lines[..=start].concat(), content, last, &*lines[end + 1..].concat()].concat()))
    }

    /// Where a new block goes: before the line of this number.
    fn place(&self, lines: &[&str]) -> Result<usize, Fault> {
        if self.prepend_if_not_found {
            return Ok(0);
        }
        if self.append_if_not_found {
            return Ok(lines.len());
        }
        let (pattern, below) = match (&self.insert_before_match, &self.insert_after_match) {
            (Some(pattern), _) => (pattern, 0),
            (None, Some(pattern)) => (pattern, 1),
            (None, None) => {
                let message = format!("{} holds no `{}`", self.path.display(), self.marker_start);
                return Err(
                    unsupported(message).hint("`append_if_not_found: true` puts the block at the end")
                );
            }
        };
        let compiled = Pattern::new(pattern, Flags::NONE).map_err(unsupported)?;
        for (at, line) in lines.iter().enumerate() {
            if compiled.found_in(bare(line)).map_err(unsupported)? {
                return Ok(at + below);
            }
        }
        Err(unsupported(format!("no line of {} matches `{pattern}`", self.path.display())))
    }
}

impl FileEdit for Block {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).backup(self.backup.as_ref()).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, cx: &Checking<'_>) -> Result<Edited, Fault> {
        let Some(old) = old else { return Err(self.file().missing().hint("`file.managed` makes one")) };
        let end = text::line_end(old);
        let content = self.content(cx, end)?;
        if [&self.marker_start, &self.marker_end].iter().any(|marker| content.contains(marker.as_str())) {
            return Err(unsupported("the content holds a marker: the block would end there".to_string()));
        }
        let lines = text::lines(old);
        if let Some(replaced) = self.replaced(&lines, &content)? {
            return Ok(Edited::To(replaced));
        }
        let at = self.place(&lines)?;
        let above = text::ended(lines[..at].concat(), end);
        let below = lines[at..].concat();
        Ok(Edited::To([&above, &self.marker_start, end, &content, &self.marker_end, end, &below].concat()))
    }

    fn needs(&self) -> Claims {
        self.text().needs()
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = self.text().invalid();
        if self.content.is_some() && !self.source.is_empty() {
            invalid.push(Invalid::new("source", "only one of `content` and `source` can give the content"));
        }
        for (parameter, marker) in [("marker_start", &self.marker_start), ("marker_end", &self.marker_end)] {
            if marker.trim().is_empty() || marker.contains('\n') {
                invalid.push(Invalid::new(parameter, "a marker is one line that nothing else holds"));
            }
        }
        if self.marker_start == self.marker_end {
            invalid.push(Invalid::new("marker_end", "it has to differ from `marker_start`"));
        }
        let places = [
            ("append_if_not_found", self.append_if_not_found),
            ("prepend_if_not_found", self.prepend_if_not_found),
            ("insert_before_match", self.insert_before_match.is_some()),
            ("insert_after_match", self.insert_after_match.is_some()),
        ];
        if let Some((parameter, _)) = places.iter().filter(|(_, given)| *given).nth(1) {
            invalid.push(Invalid::new(parameter, "a new block has one place, and two are given"));
        }
        let patterns = [
            ("insert_before_match", &self.insert_before_match),
            ("insert_after_match", &self.insert_after_match),
        ];
        for (parameter, pattern) in patterns {
            if let Some(message) = pattern.as_ref().and_then(|text| Pattern::new(text, Flags::NONE).err()) {
                invalid.push(Invalid::new(parameter, message));
            }
        }
        invalid
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |mut params: serde_json::Value, promise, world: &'static str| {
        params["path"] = json!("/f");
        params["marker_start"] = json!("<<");
        params["marker_end"] = json!(">>");
        Case::new("file.blockreplace", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "content": "b", "append_if_not_found": true }), Promise::Converges, "f /f 0604 a"),
        case(
            json!({ "content": "b", "prepend_if_not_found": true, "backup": true }),
            Promise::Converges,
            "f /f 0604 a",
        ),
        case(json!({ "content": "b", "insert_before_match": "^a" }), Promise::Converges, "f /f 0604 a"),
        case(json!({ "content": "b", "insert_after_match": "^a" }), Promise::Converges, "f /f 0604 a"),
        case(json!({ "content": "b", "insert_after_match": "^x" }), Promise::Fails, "f /f 0604 a"),
        case(json!({ "content": "b" }), Promise::Fails, "f /f 0604 a"),
        case(json!({ "content": "b" }), Promise::Fails, "f /f 0604 <<"),
        case(json!({ "content": "a >> b", "append_if_not_found": true }), Promise::Fails, "f /f 0604 a"),
        case(
            json!({ "source": "/s", "append_if_not_found": true }),
            Promise::Converges,
            "f /f 0604 a\nf /s 0600 text",
        ),
        case(json!({ "content": "b", "append_if_not_found": true }), Promise::Fails, ""),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::{Value as Json, json};

    fn block(mut params: Json, text: &str) -> Option<String> {
        params["marker_start"] = json!("# <<");
        params["marker_end"] = json!("# >>");
        edited("file.blockreplace", params, Some(text))
    }

    #[test]
    fn what_is_between_the_markers_is_replaced_and_nothing_else() {
        let text = "a\n  # << ours\nold\nolder\n  # >> end\nb\n";
        let new = block(json!({ "content": ["x", "y"] }), text);
        assert_eq!(new.as_deref(), Some("a\n  # << ours\nx\ny\n  # >> end\nb\n"));
        let none = block(json!({ "content": "" }), text);
        assert_eq!(none.as_deref(), Some("a\n  # << ours\n  # >> end\nb\n"));
        assert_eq!(block(json!({ "content": "old\nolder\n" }), text), None);
    }

    #[test]
    fn a_missing_block_goes_where_the_state_says() {
        let text = "one\ntwo";
        let cases = [
            (json!({ "append_if_not_found": true }), "one\ntwo\n# <<\nx\n# >>\n"),
            (json!({ "prepend_if_not_found": true }), "# <<\nx\n# >>\none\ntwo"),
            (json!({ "insert_before_match": "^two" }), "one\n# <<\nx\n# >>\ntwo"),
            (json!({ "insert_after_match": "^one" }), "one\n# <<\nx\n# >>\ntwo"),
            (json!({ "insert_after_match": "^two" }), "one\ntwo\n# <<\nx\n# >>\n"),
        ];
        for (mut params, expected) in cases {
            params["content"] = json!("x");
            assert_eq!(block(params.clone(), text).as_deref(), Some(expected), "{params}");
        }
    }

    #[test]
    fn the_line_end_behind_the_content_is_as_the_state_says() {
        let text = "# <<\n# >>\n";
        let with = |content: &str, newline: Json| {
            block(json!({ "content": content, "append_newline": newline }), text)
        };
        assert_eq!(with("x", Json::Null).as_deref(), Some("# <<\nx\n# >>\n"));
        assert_eq!(with("x\n", Json::Null).as_deref(), Some("# <<\nx\n# >>\n"));
        assert_eq!(with("x\n", json!(true)).as_deref(), Some("# <<\nx\n\n# >>\n"));
        let glued = with("x", json!(false));
        assert_eq!(glued.as_deref(), Some("# <<\nx# >>\n"));
        assert_eq!(block(json!({ "content": "x", "append_newline": false }), "# <<\nx# >>\n"), None);
        assert_eq!(
            block(json!({ "content": "x" }), "# <<\r\n# >>\r\n").as_deref(),
            Some("# <<\r\nx\r\n# >>\r\n")
        );
    }

    #[test]
    fn a_block_without_an_end_is_not_guessed() {
        let params = json!({ "content": "x", "marker_start": "<<", "marker_end": ">>" });
        let said = refused("file.blockreplace", params, Some("<<\nold\n"));
        assert!(said.contains("where the block ends is unknown"), "{said}");
        let two = json!({ "content": "x", "append_if_not_found": true, "insert_after_match": "a" });
        assert!(refused("file.blockreplace", two, None).contains("a new block has one place"));
        let same = json!({ "content": "x", "marker_start": "m", "marker_end": "m" });
        assert!(refused("file.blockreplace", same, None).contains("has to differ"));
    }
}
