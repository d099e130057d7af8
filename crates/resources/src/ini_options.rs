//! `ini.*`: sections and keys of an INI file.

use crate::context::Checking;
use crate::file_edit::{Edited, EditedFile, FileEdit};
use crate::ini::Ini;
use crate::params::{Absolute, Invalid, Sections, params};
use zester_host::Fault;

/// Keys of an INI file with the values that the state says.
#[params(kind = "ini.options_present", primary = "path", manual = "ini_options_present.md")]
pub struct OptionsPresent {
    /// Where the file is. A missing one is created.
    path: Absolute,
    /// Sections with their keys and values; a key with a value beside them stands before any section.
    sections: Sections,
    /// Removes the keys that are not named from the sections that are.
    #[param(default)]
    strict: bool,
    /// What stands between key and value.
    #[param(default = "=".to_string())]
    separator: String,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// Keys that an INI file does not have.
#[params(kind = "ini.options_absent", primary = "path", manual = "ini_options_absent.md")]
pub struct OptionsAbsent {
    /// Where the file is.
    path: Absolute,
    /// Sections with lists of keys; a key beside them stands before any section.
    sections: Sections,
    /// What stands between key and value.
    #[param(default = "=".to_string())]
    separator: String,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// Sections that an INI file has.
#[params(kind = "ini.sections_present", primary = "path", manual = "ini_sections_present.md")]
pub struct SectionsPresent {
    /// Where the file is. A missing one is created.
    path: Absolute,
    /// Names of sections; with keys and values they get these too.
    sections: Sections,
    /// What stands between key and value.
    #[param(default = "=".to_string())]
    separator: String,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// Sections that an INI file does not have.
#[params(kind = "ini.sections_absent", primary = "path", manual = "ini_sections_absent.md")]
pub struct SectionsAbsent {
    /// Where the file is.
    path: Absolute,
    /// Names of sections, which go with all that is inside.
    sections: Sections,
    /// `false` does not show what changes.
    #[param(alias = "show_diff", default = true)]
    show_changes: bool,
}

/// What cannot stand in such a file.
fn invalid(sections: &Sections, needs_values: bool) -> Vec<Invalid> {
    let bad_name =
        sections.named.iter().find(|(name, _)| name.trim().is_empty() || name.contains([']', '\n']));
    let settings =
        || sections.top.iter().chain(sections.named.iter().flat_map(|(_, section)| &section.settings));
    let bad_key = settings().find(|(key, value)| {
        let breaks = |text: &str| text.contains('\n');
        key.trim().is_empty()
            || breaks(key)
            || key.starts_with(['[', '#', ';'])
            || value.as_deref().is_some_and(breaks)
    });
    let no_value = settings().find(|(_, value)| needs_values && value.is_none());
    let mut invalid = Vec::new();
    if sections.top.is_empty() && sections.named.is_empty() {
        invalid.push(Invalid::new("sections", "it names nothing"));
    }
    invalid.extend(
        bad_name.map(|(name, _)| Invalid::new("sections", format!("`{name}` cannot name a section"))),
    );
    invalid.extend(
        bad_key.map(|(key, _)| {
            Invalid::new("sections", format!("`{key}` and its value cannot stand in one line"))
        }),
    );
    invalid.extend(no_value.map(|(key, _)| Invalid::new("sections", format!("`{key}` has no value"))));
    invalid
}

/// Sets all that has a value.
fn set_all(ini: &mut Ini, sections: &Sections) {
    for (key, value) in &sections.top {
        ini.set(None, key, value.as_deref().unwrap_or_default());
    }
    for (name, section) in &sections.named {
        ini.add_section(name);
        for (key, value) in &section.settings {
            ini.set(Some(name), key, value.as_deref().unwrap_or_default());
        }
    }
}

impl FileEdit for OptionsPresent {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let old = old.unwrap_or_default();
        let mut ini = Ini::new(old, &self.separator);
        let before = ini.text();
        set_all(&mut ini, &self.sections);
        for (name, section) in self.sections.named.iter().filter(|_| self.strict) {
            for key in ini.keys(Some(name)) {
                if !section.settings.iter().any(|(wanted, _)| *wanted == key) {
                    ini.remove(Some(name), &key);
                }
            }
        }
        // A last line without its end is no reason to write.
        let after = ini.text();
        Ok(if after == before && !old.is_empty() { Edited::Same } else { Edited::To(after) })
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid(&self.sections, true)
    }
}

impl FileEdit for OptionsAbsent {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let Some(old) = old else { return Ok(Edited::Same) };
        let mut ini = Ini::new(old, &self.separator);
        let before = ini.text();
        for (key, _) in &self.sections.top {
            ini.remove(None, key);
        }
        for (name, section) in &self.sections.named {
            for (key, _) in &section.settings {
                ini.remove(Some(name), key);
            }
        }
        let after = ini.text();
        Ok(if after == before { Edited::Same } else { Edited::To(after) })
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid(&self.sections, false)
    }
}

impl FileEdit for SectionsPresent {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let old = old.unwrap_or_default();
        let mut ini = Ini::new(old, &self.separator);
        let before = ini.text();
        set_all(&mut ini, &self.sections);
        let after = ini.text();
        Ok(if after == before && !old.is_empty() { Edited::Same } else { Edited::To(after) })
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid(&self.sections, true)
    }
}

impl FileEdit for SectionsAbsent {
    fn file(&self) -> EditedFile<'_> {
        EditedFile::new(&self.path).show_changes(self.show_changes)
    }

    fn edit(&self, old: Option<&str>, _: &Checking<'_>) -> Result<Edited, Fault> {
        let Some(old) = old else { return Ok(Edited::Same) };
        let mut ini = Ini::new(old, "=");
        let before = ini.text();
        for (name, _) in &self.sections.named {
            ini.remove_section(name);
        }
        let after = ini.text();
        Ok(if after == before { Edited::Same } else { Edited::To(after) })
    }

    fn validate(&self) -> Vec<Invalid> {
        invalid(&self.sections, false)
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise, furnish};
    use serde_json::json;
    let case = |kind: &'static str, sections: serde_json::Value, promise, world: &'static str| {
        let params = json!({ "path": "/f", "sections": sections });
        Case::new(kind, params, promise, move |host| furnish(host, world))
    };
    vec![
        case("ini.options_present", json!({ "a": { "x": "1" } }), Promise::Converges, "f /f 0604 [a]"),
        case("ini.options_present", json!({ "a": { "x": "1" }, "top": "2" }), Promise::Converges, ""),
        case("ini.options_present", json!({ "top": "1" }), Promise::Clean, "f /f 0604 top=1"),
        case("ini.options_present", json!({ "a": { "x": "1" } }), Promise::Fails, "d /f 0755"),
        case("ini.options_absent", json!({ "top": null, "a": ["x"] }), Promise::Clean, "f /f 0604 top=1"),
        case("ini.options_absent", json!({ "top": "" }), Promise::Converges, "f /f 0604 top=1"),
        case("ini.options_absent", json!({ "a": ["x"] }), Promise::Clean, ""),
        case("ini.sections_present", json!(["a", "b"]), Promise::Converges, "f /f 0604 [a]"),
        case("ini.sections_present", json!(["a"]), Promise::Clean, "f /f 0604 [a]"),
        case("ini.sections_absent", json!(["a"]), Promise::Converges, "f /f 0604 [a]"),
        case("ini.sections_absent", json!(["b"]), Promise::Clean, "f /f 0604 [a]"),
    ]
}

#[cfg(test)]
mod tests {
    use crate::file_edit::try_edit::{edited, refused};
    use serde_json::json;

    const TEXT: &str = "[main]\nkeep = 1\nold=2\n\n[other]\nx = 1\n";

    #[test]
    fn keys_are_set_and_strict_removes_the_others() {
        let sections = json!({ "main": { "old": 3, "new": "yes" } });
        let set = edited("ini.options_present", json!({ "sections": sections }), Some(TEXT));
        assert_eq!(set.as_deref(), Some("[main]\nkeep = 1\nold=3\nnew = yes\n\n[other]\nx = 1\n"));
        let strict =
            edited("ini.options_present", json!({ "sections": sections, "strict": true }), Some(TEXT));
        assert_eq!(strict.as_deref(), Some("[main]\nold=3\nnew = yes\n\n[other]\nx = 1\n"));
    }

    #[test]
    fn keys_and_sections_go() {
        let gone =
            edited("ini.options_absent", json!({ "sections": { "main": ["old", "never"] } }), Some(TEXT));
        assert_eq!(gone.as_deref(), Some("[main]\nkeep = 1\n\n[other]\nx = 1\n"));
        let gone = edited("ini.sections_absent", json!({ "sections": ["main"] }), Some(TEXT));
        assert_eq!(gone.as_deref(), Some("[other]\nx = 1\n"));
    }

    #[test]
    fn what_cannot_stand_in_such_a_file_is_refused() {
        for (sections, words) in [
            (json!({}), "names nothing"),
            (json!({ "a]": { "x": 1 } }), "cannot name a section"),
            (json!({ "a": { "x": "1\n2" } }), "in one line"),
            (json!({ "a": ["x"] }), "has no value"),
        ] {
            let said = refused("ini.options_present", json!({ "sections": sections }), None);
            assert!(said.contains(words), "{said}");
        }
    }
}
