//! `file.replace`: what a pattern finds in a file, replaced.

use crate::context::Checking;
use crate::file_change::Backup;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Absolute, Invalid, params};
use crate::text;
use crate::text::pattern::{Flags, Pattern, Replacement};
use schemars::JsonSchema;
use serde::Deserialize;
use zester_host::{Fault, FaultKind};

/// What a pattern finds in a file, replaced.
#[params(kind = "file.replace", primary = "path", manual = "file_replace.md")]
pub struct Replace {
    /// Where the file is.
    path: Absolute,
    /// A regular expression, as Python has them. `^` and `$` are the ends of each line, unless `flags` says otherwise.
    pattern: String,
    /// What it is replaced by; `\1` and `\g<name>` are groups of what was found.
    #[param(alias = "replacement")]
    repl: String,
    /// How many places are replaced; 0 for all.
    #[param(default)]
    count: usize,
    /// How the pattern is read: names like `IGNORECASE`, `MULTILINE` and `DOTALL`, or Python's number. Default: `MULTILINE`.
    #[param(list)]
    flags: Option<Vec<Flag>>,
    /// Puts `not_found_content` at the end where the pattern is found nowhere.
    #[param(default)]
    append_if_not_found: bool,
    /// Puts it at the start.
    #[param(default)]
    prepend_if_not_found: bool,
    /// What is added then. Unset: `repl`.
    not_found_content: Option<String>,
    /// Takes `repl` as it is, backslashes too.
    #[param(default)]
    backslash_literal: bool,
    /// A missing file is no failure: nothing is done.
    #[param(default)]
    ignore_if_missing: bool,
    /// Keeps the replaced file as `PATH~`, or with the suffix given. Default: none, since a revert brings it back.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// A flag by its name, or several by their number.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged)]
enum Flag {
    Number(u32),
    Name(String),
}

fn unsupported(message: String) -> Fault {
    Fault::new(FaultKind::Unsupported, message)
}

impl Replace {
    fn read_flags(&self) -> Result<Flags, String> {
        let Some(flags) = &self.flags else { return Ok(Flags::MULTI_LINE) };
        flags.iter().try_fold(Flags::NONE, |flags, flag| match flag {
            Flag::Number(bits) => Flags::from_bits(*bits).map(|more| flags.and(more)),
            Flag::Name(name) => flags.with(name),
        })
    }

    fn replacement(&self) -> Result<Replacement, String> {
        match self.backslash_literal {
            true => Ok(Replacement::literal(&self.repl)),
            false => Replacement::new(&self.repl),
        }
    }

    /// What to add to a text that holds no such thing; `None` where it was added before.
    fn added(&self, old: &str) -> Option<String> {
        let wanted = self.not_found_content.as_ref().unwrap_or(&self.repl);
        let end = "\n";
        let line = text::with_ends(wanted, end);
        let stands = format!("\n{}", text::ended(old.to_string(), end)).contains(&format!("\n{line}"));
        if line.is_empty() || stands {
            return None;
        }
        match (self.append_if_not_found, self.prepend_if_not_found) {
            (true, _) => Some(text::ended(old.to_string(), end) + &line),
            (false, true) => Some(line + old),
            (false, false) => None,
        }
    }
}

impl FileEdit for Replace {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).backup(self.backup.as_ref()).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let Some(old) = old else {
            return match self.ignore_if_missing {
                true => Ok(Edited::Same),
                false => Err(self.file().missing().hint("`ignore_if_missing: true` passes over it")),
            };
        };
        // To a pattern a line ends where it ends, whatever ends it.
        let (text, dos) = text::without_returns(old);
        let pattern =
            self.read_flags().and_then(|flags| Pattern::new(&self.pattern, flags)).map_err(unsupported)?;
        let replacement = self.replacement().map_err(unsupported)?;
        let edited = match pattern.replace(&text, &replacement, self.count).map_err(unsupported)? {
            Some(replaced) => Some(replaced),
            None => self.added(&text),
        };
        Ok(edited
            .map_or(Edited::Same, |text| Edited::To(if dos { text.replace('\n', "\r\n") } else { text })))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        let flags = self.read_flags();
        invalid.extend(flags.as_ref().err().map(|message| Invalid::new("flags", message.clone())));
        let pattern = Pattern::new(&self.pattern, flags.unwrap_or(Flags::MULTI_LINE));
        invalid.extend(pattern.as_ref().err().map(|message| Invalid::new("pattern", message.clone())));
        let fits = self.replacement().and_then(|replacement| match &pattern {
            Ok(pattern) => replacement.fits(pattern),
            Err(_) => Ok(()),
        });
        if let Err(message) = fits {
            let hint = Some("`backslash_literal: true` takes the text as it is".into());
            invalid.push(Invalid { hint, ..Invalid::new("repl", message) });
        }
        if self.append_if_not_found && self.prepend_if_not_found {
            let message = "it goes to the start or to the end, not to both";
            invalid.push(Invalid::new("prepend_if_not_found", message));
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
        Case::new("file.replace", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "pattern": "^a", "repl": "b" }), Promise::Converges, "f /f 0604 a"),
        case(json!({ "pattern": "^x", "repl": "b" }), Promise::Clean, "f /f 0604 a"),
        case(json!({ "pattern": "^(a)$", "repl": r"\1", "backup": ".bak" }), Promise::Clean, "f /f 0604 a"),
        case(
            json!({ "pattern": "x", "repl": "b", "append_if_not_found": true }),
            Promise::Converges,
            "f /f 0604 a",
        ),
        case(
            json!({ "pattern": "x", "repl": "b", "prepend_if_not_found": true, "backup": true }),
            Promise::Converges,
            "f /f 0604 a",
        ),
        case(
            json!({ "pattern": "x", "repl": "a", "append_if_not_found": true }),
            Promise::Clean,
            "f /f 0604 a",
        ),
        case(json!({ "pattern": "x", "repl": "b", "ignore_if_missing": true }), Promise::Clean, ""),
        case(json!({ "pattern": "x", "repl": "b" }), Promise::Fails, ""),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::json;

    #[test]
    fn what_is_found_is_replaced_as_often_as_is_said() {
        let text = "Port 22\n#Port 22\nport 23\n";
        let cases = [
            (json!({ "pattern": r"^Port\s+\d+$", "repl": "Port 2222" }), "Port 2222\n#Port 22\nport 23\n"),
            (
                json!({ "pattern": r"^(#?)port\s+\d+$", "repl": r"\1Port 9", "flags": ["IGNORECASE", "MULTILINE"] }),
                "Port 9\n#Port 9\nPort 9\n",
            ),
            (json!({ "pattern": r"^.*\Z", "repl": "gone", "flags": 24 }), "gone"),
            (
                json!({ "pattern": "23", "repl": r"\1", "backslash_literal": true, "count": 1 }),
                "Port 22\n#Port 22\nport \\1\n",
            ),
        ];
        for (params, expected) in cases {
            assert_eq!(
                edited("file.replace", params.clone(), Some(text)).as_deref(),
                Some(expected),
                "{params}"
            );
        }
    }

    #[test]
    fn what_is_not_found_is_added_once() {
        let append = json!({ "pattern": "^x=.*$", "repl": "x=1", "append_if_not_found": true });
        assert_eq!(edited("file.replace", append.clone(), Some("a")).as_deref(), Some("a\nx=1\n"));
        assert_eq!(edited("file.replace", append, Some("a\nx=1\n")), None);
        let other = json!({ "pattern": "^never$", "repl": "r", "not_found_content": "one\ntwo", "prepend_if_not_found": true });
        let once = edited("file.replace", other.clone(), Some("a\r\n")).unwrap();
        assert_eq!(once, "one\r\ntwo\r\na\r\n");
        assert_eq!(edited("file.replace", other, Some(&once)), None);
    }

    #[test]
    fn lines_that_end_otherwise_are_lines_and_end_so_still() {
        let params = json!({ "pattern": "^a=.*$", "repl": "a=1" });
        let replaced = edited("file.replace", params.clone(), Some("x\r\na=0\r\n"));
        assert_eq!(replaced.as_deref(), Some("x\r\na=1\r\n"));
        assert_eq!(edited("file.replace", params, Some("x\r\na=1\r\n")), None);
    }

    #[test]
    fn what_cannot_be_replaced_is_refused_where_it_stands() {
        for (params, words) in [
            (
                json!({ "pattern": "(", "repl": "" }),
                "`pattern` of file.replace: `(` is no regular expression",
            ),
            (json!({ "pattern": "a", "repl": r"\1" }), "the pattern has no group `1`"),
            (json!({ "pattern": "a", "repl": "", "flags": "LOUD" }), "`LOUD` is no flag"),
            (
                json!({ "pattern": "a", "repl": "", "append_if_not_found": true, "prepend_if_not_found": true }),
                "not to both",
            ),
        ] {
            let said = refused("file.replace", params, None);
            assert!(said.contains(words), "{said}");
        }
        let missing = refused("file.replace", json!({ "pattern": "a", "repl": "" }), None);
        assert!(missing.contains("there is no file /f"), "{missing}");
    }
}
