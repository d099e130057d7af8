//! `file.comment` and `file.uncomment`: lines that stay in a file without counting, and count again.

use crate::context::Checking;
use crate::file_change::Backup;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::params::{Absolute, Invalid, params};
use crate::text::pattern::{Flags, Pattern};
use crate::text::{self, bare};
use zester_host::{Fault, FaultKind};

/// Lines of a file that are commented out.
#[params(kind = "file.comment", primary = "path", manual = "file_comment.md")]
pub struct Comment {
    /// Where the file is.
    path: Absolute,
    /// A regular expression that the lines begin with.
    regex: String,
    /// What is put before each.
    #[param(default = "#".to_string())]
    char: String,
    /// That no line matches, commented out or not, is no failure.
    #[param(default)]
    ignore_missing: bool,
    /// Keeps the replaced file as `PATH~`, or with the suffix given. Default: none, since a revert brings it back.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// Lines of a file that are not commented out.
#[params(kind = "file.uncomment", primary = "path", manual = "file_uncomment.md")]
pub struct Uncomment {
    /// Where the file is.
    path: Absolute,
    /// A regular expression that the lines begin with, once the comment sign is gone.
    regex: String,
    /// The comment sign that is taken away.
    #[param(default = "#".to_string())]
    char: String,
    /// That no line matches, commented out or not, is no failure.
    #[param(default)]
    ignore_missing: bool,
    /// Keeps the replaced file as `PATH~`, or with the suffix given. Default: none, since a revert brings it back.
    backup: Option<Backup>,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// What both look for.
struct Wanted {
    line: Pattern,
    sign: String,
}

impl Wanted {
    fn new(regex: &str, sign: &str) -> Result<Wanted, String> {
        let core = regex.strip_prefix('^').unwrap_or(regex);
        Ok(Wanted { line: Pattern::new(&format!("^(?:{core})"), Flags::NONE)?, sign: sign.to_string() })
    }

    fn matches(&self, line: &str) -> Result<bool, Fault> {
        self.line.found_in(line).map_err(|message| Fault::new(FaultKind::Unsupported, message))
    }

    /// What a line says behind its comment sign; none where it has none.
    fn commented<'l>(&self, line: &'l str) -> Option<&'l str> {
        line.trim_start().strip_prefix(&self.sign)
    }

    /// The matching line that is commented out, without the sign: as it follows, or without the space that often does.
    fn behind_sign<'l>(&self, line: &'l str) -> Result<Option<&'l str>, Fault> {
        let Some(behind) = self.commented(line) else { return Ok(None) };
        for behind in [behind, behind.trim_start()] {
            if self.matches(behind)? {
                return Ok(Some(behind));
            }
        }
        Ok(None)
    }
}

fn invalid(regex: &str, sign: &str) -> Vec<Invalid> {
    let mut invalid = Vec::new();
    invalid.extend(Wanted::new(regex, sign).err().map(|message| Invalid::new("regex", message)));
    if sign.trim().is_empty() || sign.contains('\n') {
        invalid.push(Invalid::new("char", "a comment sign is what a commented line begins with, like `#`"));
    }
    invalid
}

fn nowhere(path: &Absolute, regex: &str) -> Fault {
    let message = format!("no line of {} matches `{regex}`, commented out or not", path.display());
    Fault::new(FaultKind::Unsupported, message).hint("`ignore_missing: true` passes over it")
}

impl FileEdit for Comment {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).backup(self.backup.as_ref()).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let Some(old) = old else {
            return if self.ignore_missing { Ok(Edited::Same) } else { Err(self.file().missing()) };
        };
        let wanted = Wanted::new(&self.regex, &self.char)
            .map_err(|message| Fault::new(FaultKind::Unsupported, message))?;
        let (mut edited, mut found) = (String::new(), false);
        for line in text::lines(old) {
            let stands = wanted.commented(bare(line)).is_none() && wanted.matches(bare(line))?;
            if stands {
                edited.push_str(&self.char);
            }
            found |= stands || wanted.behind_sign(bare(line))?.is_some();
            edited.push_str(line);
        }
        match found || self.ignore_missing {
            true => Ok(Edited::To(edited)),
            false => Err(nowhere(&self.path, &self.regex)),
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid(&self.regex, &self.char)
    }
}

impl FileEdit for Uncomment {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).backup(self.backup.as_ref()).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let Some(old) = old else {
            return if self.ignore_missing { Ok(Edited::Same) } else { Err(self.file().missing()) };
        };
        let wanted = Wanted::new(&self.regex, &self.char)
            .map_err(|message| Fault::new(FaultKind::Unsupported, message))?;
        let (mut edited, mut found) = (String::new(), false);
        for line in text::lines(old) {
            match wanted.behind_sign(bare(line))? {
                Some(behind) => {
                    edited.extend([text::indentation(line), behind, text::ending(line)]);
                    found = true;
                }
                None => {
                    found |= wanted.matches(bare(line).trim_start())?;
                    edited.push_str(line);
                }
            }
        }
        match found || self.ignore_missing {
            true => Ok(Edited::To(edited)),
            false => Err(nowhere(&self.path, &self.regex)),
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid(&self.regex, &self.char)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |kind: &'static str, mut params: serde_json::Value, promise, world: &'static str| {
        params["path"] = json!("/f");
        Case::new(kind, params, promise, move |host| furnish(host, world))
    };
    vec![
        case("file.comment", json!({ "regex": "^a" }), Promise::Converges, "f /f 0604 ab"),
        case(
            "file.comment",
            json!({ "regex": "^a", "char": "//", "backup": true }),
            Promise::Converges,
            "f /f 0604 ab",
        ),
        case("file.comment", json!({ "regex": "^a" }), Promise::Clean, "f /f 0604 #ab"),
        case("file.comment", json!({ "regex": "^b" }), Promise::Fails, "f /f 0604 ab"),
        case(
            "file.comment",
            json!({ "regex": "^b", "ignore_missing": true }),
            Promise::Clean,
            "f /f 0604 ab",
        ),
        case("file.comment", json!({ "regex": "^b" }), Promise::Fails, ""),
        case("file.uncomment", json!({ "regex": "^a" }), Promise::Converges, "f /f 0604 #ab"),
        case("file.uncomment", json!({ "regex": "^a" }), Promise::Clean, "f /f 0604 ab"),
        case("file.uncomment", json!({ "regex": "^b" }), Promise::Fails, "f /f 0604 #ab"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::json;

    #[test]
    fn a_line_is_commented_out_once_and_counts_again_as_it_was() {
        let text = "ListenAddress ::\n#ListenAddress 0\n  other\n";
        let regex = json!({ "regex": "^ListenAddress ::" });
        let commented = edited("file.comment", regex.clone(), Some(text)).unwrap();
        assert_eq!(commented, "#ListenAddress ::\n#ListenAddress 0\n  other\n");
        assert_eq!(edited("file.comment", regex.clone(), Some(&commented)), None);
        assert_eq!(edited("file.uncomment", regex.clone(), Some(&commented)).as_deref(), Some(text));
        assert_eq!(edited("file.uncomment", regex, Some(text)), None);
    }

    #[test]
    fn space_behind_the_sign_goes_with_it_and_indentation_stays() {
        let text = "\t#   deb x\n# deb y\n";
        let edited = edited("file.uncomment", json!({ "regex": "deb" }), Some(text));
        assert_eq!(edited.as_deref(), Some("\tdeb x\ndeb y\n"));
    }

    #[test]
    fn a_pattern_that_is_nowhere_is_a_fault_that_names_it() {
        for kind in ["file.comment", "file.uncomment"] {
            let said = refused(kind, json!({ "regex": "^nope$" }), Some("a\n"));
            assert!(said.contains("no line of /f matches `^nope$`, commented out or not"), "{said}");
            assert!(refused(kind, json!({ "regex": "(" }), None).contains("no regular expression"));
            assert!(refused(kind, json!({ "regex": "a", "char": " " }), None).contains("comment sign"));
        }
    }
}
