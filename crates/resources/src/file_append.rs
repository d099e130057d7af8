//! `file.append`: lines at the end of a file.

use crate::context::Checking;
use crate::file_change::Backup;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Absolute, params};
use zester_host::Fault;

/// Lines at the end of a file.
#[params(kind = "file.append", primary = "path", manual = "file_append.md")]
pub struct Append {
    /// Where the file is.
    path: Absolute,
    /// What is to be there: each line that is nowhere in the file is put at its end.
    #[param(list)]
    text: Vec<String>,
    /// Creates missing parent directories.
    #[param(default)]
    makedirs: bool,
    /// Keeps the replaced file as `PATH~`, or with the suffix given.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

impl FileEdit for Append {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path)
            .makedirs(self.makedirs)
            .backup(self.backup.as_ref())
            .show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let mut text = old.unwrap_or_default().to_string();
        for line in self.text.iter().flat_map(|part| part.lines()) {
            if text.lines().any(|present| present == line) {
                continue;
            }
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.extend([line, "\n"]);
        }
        Ok(Edited::To(text))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |params, promise, world: &'static str| {
        Case::new("file.append", params, promise, move |host| furnish(host, world))
    };
    vec![
        case(json!({ "path": "/f", "text": "b" }), Promise::Converges, "f /f 0604 a"),
        case(json!({ "path": "/f", "text": ["a", "b"] }), Promise::Converges, "f /f 0604 a"),
        case(json!({ "path": "/f", "text": "a" }), Promise::Clean, "f /f 0604 a"),
        case(json!({ "path": "/f", "text": ["a\nb"] }), Promise::Converges, ""),
        case(json!({ "path": "/d/f", "text": "a", "makedirs": true }), Promise::Converges, ""),
        case(json!({ "path": "/d/f", "text": "a" }), Promise::Fails, ""),
        case(json!({ "path": "/l", "text": "b", "backup": true }), Promise::Converges, "f /f 0640 a\nl /l f"),
        case(json!({ "path": "/d", "text": "b" }), Promise::Fails, "d /d 0755"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_managed::Bench;
    use serde_json::json;

    #[tokio::test]
    async fn a_line_is_added_once_and_the_last_one_is_ended_first() {
        let bench = Bench::of("file.append", "f /f 0644 one");
        let (diff, _) = bench.apply(json!({ "path": "/f", "text": ["two", "one", "two"] })).await;
        assert_eq!(bench.host.read("/f".as_ref(), 99).unwrap(), b"one\ntwo\n");
        assert!(diff.contains("+two"), "{diff}");
    }
}
