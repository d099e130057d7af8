//! `file.keyvalue`: keys of a file of lines like `key = value`.

use crate::context::Checking;
use crate::file_change::Backup;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Absolute, Invalid, KeyValues, params};
use crate::text::{self, bare};
use zester_host::{Fault, FaultKind};

/// Keys with the values that the state says.
#[params(kind = "file.keyvalue", primary = "path", manual = "file_keyvalue.md")]
pub struct KeyValue {
    /// Where the file is.
    path: Absolute,
    /// The key, where there is one only.
    key: Option<String>,
    /// Its value.
    value: Option<String>,
    /// Several keys and their values.
    #[param(default)]
    key_values: KeyValues,
    /// What stands between a key and its value. White space stands for any white space.
    #[param(default = "=".to_string())]
    separator: String,
    /// Characters that a line may begin with when it is commented out: a key that stands nowhere else comes back from there.
    uncomment: Option<String>,
    /// Puts keys that are missing at the end.
    #[param(default)]
    append_if_not_found: bool,
    /// Puts them at the start.
    #[param(default)]
    prepend_if_not_found: bool,
    /// Changes nothing: what differs is a failure.
    #[param(default)]
    search_only: bool,
    /// `Key` and `key` are the same.
    #[param(default)]
    key_ignore_case: bool,
    /// `Value` and `value` are the same.
    #[param(default)]
    value_ignore_case: bool,
    /// How many lines of a key are looked at; 0 for all.
    #[param(default = 1)]
    count: usize,
    /// A missing file is no failure: nothing is done.
    #[param(default)]
    ignore_if_missing: bool,
    /// Creates the file where it is missing.
    #[param(default)]
    create_if_missing: bool,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// A line that sets a key.
struct Setting<'l> {
    /// Indentation, without any comment sign.
    indent: &'l str,
    key: &'l str,
    /// The separator with the white space around it.
    between: &'l str,
    value: &'l str,
    commented: bool,
}

impl KeyValue {
    fn wanted(&self) -> impl Iterator<Item = (&str, &str)> {
        let one = self.key.as_deref().zip(self.value.as_deref());
        one.into_iter().chain(self.key_values.0.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    }

    fn read<'l>(&self, line: &'l str) -> Option<Setting<'l>> {
        let line = bare(line);
        let indent = text::indentation(line);
        let signs = self.uncomment.as_deref().unwrap_or_default();
        let inner = &line[indent.len()..];
        let body = inner.trim_start_matches(|char: char| signs.contains(char));
        let commented = body.len() < inner.len();
        let body = if commented { body.trim_start() } else { body };
        let (start, end) = match self.separator.trim() {
            "" => {
                let start = body.find(char::is_whitespace)?;
                (start, start)
            }
            mark => {
                let start = body.find(mark)?;
                (start, start + mark.len())
            }
        };
        let key = body[..start].trim_end();
        let value = body[end..].trim();
        let value_at = body.len() - body[end..].trim_start().len();
        let between = &body[key.len()..value_at];
        Some(Setting { indent, key, between, value, commented })
    }

    fn is_key(&self, found: &str, wanted: &str) -> bool {
        match self.key_ignore_case {
            true => found.to_lowercase() == wanted.to_lowercase(),
            false => found == wanted,
        }
    }

    fn has_value(&self, found: &str, wanted: &str) -> bool {
        match self.value_ignore_case {
            true => found.to_lowercase() == wanted.trim().to_lowercase(),
            false => found == wanted.trim(),
        }
    }

    /// Sets one key in all lines; false where no line is about it.
    fn set(&self, lines: &mut [String], key: &str, value: &str) -> bool {
        let about = |line: &String, commented: bool| {
            self.read(line)
                .is_some_and(|setting| setting.commented == commented && self.is_key(setting.key, key))
        };
        let count = if self.count == 0 { usize::MAX } else { self.count };
        let mut at: Vec<usize> =
            (0..lines.len()).filter(|at| about(&lines[*at], false)).take(count).collect();
        if at.is_empty() {
            at.extend((0..lines.len()).find(|at| about(&lines[*at], true)));
        }
        for at in &at {
            let line = &lines[*at];
            let Some(setting) = self.read(line) else { continue };
            if setting.commented || !self.has_value(setting.value, value) {
                let Setting { indent, key, between, .. } = setting;
                lines[*at] = [indent, key, between, value.trim(), text::ending(line)].concat();
            }
        }
        !at.is_empty()
    }
}

impl FileEdit for KeyValue {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).backup(self.backup.as_ref()).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let old = match old {
            Some(old) => old,
            None if self.create_if_missing => "",
            None if self.ignore_if_missing => return Ok(Edited::Same),
            None => return Err(self.file().missing().hint("`create_if_missing: true` makes one")),
        };
        let end = text::line_end(old);
        let mut lines: Vec<String> = text::lines(old).into_iter().map(str::to_string).collect();
        let mut missing = Vec::new();
        for (key, value) in self.wanted() {
            if !self.set(&mut lines, key, value) {
                missing.push((key, value));
            }
        }
        let added: String =
            missing.iter().map(|(key, value)| format!("{key}{}{value}{end}", self.separator)).collect();
        let present = lines.concat();
        let edited = match (self.append_if_not_found, self.prepend_if_not_found) {
            (true, _) if !added.is_empty() => text::ended(present, end) + &added,
            (_, true) => added + &present,
            _ => {
                if let Some((key, _)) = missing.first() {
                    let message = format!("no line of {} sets `{key}`", self.path.display());
                    let hint = "`append_if_not_found: true` adds one; `uncomment: '#'` looks behind comment signs too";
                    return Err(Fault::new(FaultKind::Unsupported, message).hint(hint));
                }
                present
            }
        };
        if self.search_only && edited != old {
            let message = format!("{} has other values, and `search_only` changes none", self.path.display());
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        Ok(Edited::To(edited))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = Vec::new();
        match (&self.key, &self.value, self.key_values.0.is_empty()) {
            (None, None, true) => {
                invalid.push(Invalid::new(
                    "path",
                    "there is nothing to set: give `key` and `value`, or `key_values`",
                ));
            }
            (Some(_), None, _) => invalid.push(Invalid::new("key", "its `value` is missing")),
            (None, Some(_), _) => invalid.push(Invalid::new("value", "its `key` is missing")),
            (Some(_), Some(_), false) => {
                invalid.push(Invalid::new("key_values", "give `key` and `value`, or `key_values`, not both"));
            }
            _ => {}
        }
        if self.separator.is_empty() {
            invalid.push(Invalid::new("separator", "something has to stand between a key and its value"));
        }
        for (parameter, text) in [("key", &self.key), ("value", &self.value)] {
            if text.as_ref().is_some_and(|text| text.contains('\n')) {
                invalid.push(Invalid::new(parameter, "it has to fit into one line"));
            }
        }
        let mark = self.separator.trim();
        let key = self.wanted().find(|(key, _)| !mark.is_empty() && key.contains(mark) || key.trim() != *key);
        if let Some((key, _)) = key {
            let parameter = if self.key.is_some() { "key" } else { "key_values" };
            invalid.push(Invalid::new(parameter, format!("`{key}` cannot be told from its separator")));
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
        Case::new("file.keyvalue", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "key": "a", "value": "2" }), Promise::Converges, "f /f 0604 a=1"),
        case(json!({ "key": "a", "value": "1" }), Promise::Clean, "f /f 0604 a=1"),
        case(json!({ "key": "a", "value": "2", "uncomment": "#" }), Promise::Converges, "f /f 0604 #a=2"),
        case(json!({ "key": "b", "value": "2" }), Promise::Fails, "f /f 0604 a=1"),
        case(json!({ "key": "a", "value": "2", "search_only": true }), Promise::Fails, "f /f 0604 a=1"),
        case(json!({ "key": "a", "value": "1", "search_only": true }), Promise::Clean, "f /f 0604 a=1"),
        case(
            json!({ "key_values": { "a": "2", "b": "3" }, "append_if_not_found": true, "backup": true }),
            Promise::Converges,
            "f /f 0604 a=1",
        ),
        case(
            json!({ "key": "b", "value": "3", "prepend_if_not_found": true }),
            Promise::Converges,
            "f /f 0604 a=1",
        ),
        case(json!({ "key": "a", "value": "1" }), Promise::Fails, ""),
        case(json!({ "key": "a", "value": "1", "ignore_if_missing": true }), Promise::Clean, ""),
        case(
            json!({ "key": "a", "value": "1", "create_if_missing": true, "append_if_not_found": true }),
            Promise::Converges,
            "",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::json;

    #[test]
    fn a_value_is_set_where_its_key_stands_and_the_line_keeps_its_form() {
        let text = "#Port 22\n  Port = 21 \nName=x\n";
        let cases = [
            (json!({ "key": "Port", "value": "22" }), "#Port 22\n  Port = 22\nName=x\n"),
            (json!({ "key_values": { "Port": 22, "Name": "y" } }), "#Port 22\n  Port = 22\nName=y\n"),
            (
                json!({ "key": "name", "value": "y", "key_ignore_case": true }),
                "#Port 22\n  Port = 21 \nName=y\n",
            ),
        ];
        for (params, expected) in cases {
            assert_eq!(
                edited("file.keyvalue", params.clone(), Some(text)).as_deref(),
                Some(expected),
                "{params}"
            );
        }
        let same = json!({ "key": "Name", "value": "X", "value_ignore_case": true });
        assert_eq!(edited("file.keyvalue", same, Some(text)), None);
    }

    #[test]
    fn a_key_that_is_only_commented_out_comes_back_and_a_live_one_goes_first() {
        let params = json!({ "key": "PermitRootLogin", "value": "no", "separator": " ", "uncomment": "#" });
        let set = |text: &str| edited("file.keyvalue", params.clone(), Some(text));
        assert_eq!(set("# PermitRootLogin yes\nx\n").as_deref(), Some("PermitRootLogin no\nx\n"));
        let both = set("#PermitRootLogin yes\nPermitRootLogin\tyes\n");
        assert_eq!(both.as_deref(), Some("#PermitRootLogin yes\nPermitRootLogin\tno\n"));
        assert_eq!(set("#PermitRootLogin yes\nPermitRootLogin no\n"), None);
    }

    #[test]
    fn so_many_lines_of_a_key_are_set_as_the_state_says() {
        let text = "a=1\na=2\na=3\n";
        let set = |count: usize| {
            edited("file.keyvalue", json!({ "key": "a", "value": "9", "count": count }), Some(text))
        };
        assert_eq!(set(1).as_deref(), Some("a=9\na=2\na=3\n"));
        assert_eq!(set(2).as_deref(), Some("a=9\na=9\na=3\n"));
        assert_eq!(set(0).as_deref(), Some("a=9\na=9\na=9\n"));
    }

    #[test]
    fn a_missing_key_is_added_or_told() {
        let added = json!({ "key": "b", "value": "2", "append_if_not_found": true });
        assert_eq!(edited("file.keyvalue", added, Some("a=1")).as_deref(), Some("a=1\nb=2\n"));
        let said = refused("file.keyvalue", json!({ "key": "b", "value": "2" }), Some("a=1"));
        assert!(said.contains("no line of /f sets `b`"), "{said}");
        for (params, words) in [
            (json!({}), "there is nothing to set"),
            (json!({ "key": "a" }), "its `value` is missing"),
            (json!({ "key": "a=b", "value": "1" }), "cannot be told from its separator"),
            (json!({ "key": "a", "value": "1", "separator": "" }), "something has to stand between"),
        ] {
            assert!(refused("file.keyvalue", params.clone(), None).contains(words), "{params}");
        }
    }
}
