//! Settings from a file or a directory, and the look-up in them.

use crate::error::Error;
use crate::tree::DirTree;
use serde_json::{Map, Value as Json};
use std::io::Read;
use std::path::Path;
use zester_compile::{Functions, Inputs, SettingsFiles, Tree};
use zester_host::Fault;
use zester_model::catalog::Catalog;
use zester_model::limits;

pub use zester_compile::merge;

/// Walks `a:b:c` through maps, and through lists by number.
pub fn walk<'a>(root: &'a Json, key: &str) -> Option<&'a Json> {
    key.split(':').try_fold(root, |at, part| match at {
        Json::Object(map) => map.get(part),
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// What settings files may see while they are rendered.
pub struct Reading<'a> {
    pub facts: &'a Json,
    pub functions: &'a dyn Functions,
    pub id: &'a str,
}

/// Reads `--settings FILE|DIR`. A directory with a `top.zy` (or `top.sls`) assigns files by target; without one all
/// files count, in the order of their names. Either way they go through the loader of states: templates, `include:`,
/// first lines, a position in every error (S-48).
pub fn read(path: &Path, reading: &Reading<'_>) -> Result<Json, Error> {
    let meta = std::fs::metadata(path).map_err(|error| Error::io("read the settings", path, error))?;
    if !meta.is_dir() {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let directory = path.parent().unwrap_or(Path::new(""));
        let beside =
            DirTree::of_settings(if directory == Path::new("") { Path::new(".") } else { directory });
        let tree = Named { path, name: &name, beside };
        return load(&tree, directory, &SettingsFiles::These(vec![name.clone()]), reading);
    }
    let assigned = ["top.zy", "top.sls"].iter().any(|top| path.join(top).symlink_metadata().is_ok());
    let files = match assigned {
        true => SettingsFiles::Assigned,
        false => SettingsFiles::These(files_in(path)?),
    };
    load(&DirTree::of_settings(path), path, &files, reading)
}

fn load(tree: &dyn Tree, root: &Path, files: &SettingsFiles, reading: &Reading<'_>) -> Result<Json, Error> {
    let inputs = Inputs {
        tree,
        tree_name: &root.display().to_string(),
        catalog: &Catalog::default(),
        facts: reading.facts,
        settings: &Json::Object(Map::new()),
        functions: reading.functions,
        id: reading.id,
        ordered: false,
        environment: zester_compile::BASE,
    };
    zester_compile::settings(&inputs, files)
        .map_err(|(sources, diagnostics)| Error::Diagnostics { diagnostics, sources: Box::new(sources) })
}

/// One file that the user named, whatever it is (a link, a pipe), and the directory beside it for what it includes.
struct Named<'a> {
    path: &'a Path,
    name: &'a str,
    beside: DirTree,
}

impl Tree for Named<'_> {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        if path != self.name {
            return self.beside.read(path);
        }
        let fail = |error| Fault::io("read", self.path, error).message;
        let file = std::fs::File::open(self.path).map_err(fail)?;
        let mut bytes = Vec::new();
        let most = limits::SOURCE_BYTES_MAX as u64;
        std::io::Read::take(file, most + 1).read_to_end(&mut bytes).map_err(fail)?;
        if bytes.len() as u64 > most {
            return Err(format!("it has more than {most} bytes"));
        }
        String::from_utf8(bytes).map(Some).map_err(|_| format!("{path} is not UTF-8 text"))
    }

    fn called(&self) -> &'static str {
        self.beside.called()
    }

    fn files(&self) -> Vec<String> {
        self.beside.files()
    }
}

/// The settings files of a directory without a top file, by name. Those of its directories are for `include:`.
fn files_in(directory: &Path) -> Result<Vec<String>, Error> {
    let fail = |error| Error::io("list the settings", directory, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // `is_dir` follows links, and what cannot be looked at is for the reader to complain about. A hidden file is an
        // editor's (`.#x.zy`).
        let meant = ["zy", "sls", "yaml", "yml", "json"].contains(&ending) && !name.starts_with('.');
        if meant && !path.is_dir() {
            names.push(name.into_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    fn keys_walk_maps_and_lists() {
        let root = json!({"a": {"b": [1, {"c": 2}]}});
        assert_eq!(walk(&root, "a:b:1:c"), Some(&json!(2)));
        assert_eq!(walk(&root, "a:x"), None);
    }

    struct NoFunctions;

    impl Functions for NoFunctions {
        fn call(&self, name: &str, _: Vec<Json>, _: Map<String, Json>) -> Result<Json, String> {
            Err(format!("no {name}"))
        }
        fn names(&self) -> Vec<String> {
            Vec::new()
        }
    }

    /// Reads what files in a fresh directory make, given the path below it that the user names.
    fn of(files: &[(&str, &str)], named: &str) -> Result<Json, Vec<String>> {
        let temp = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = temp.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let reading = Reading { facts: &json!({"os": "Debian"}), functions: &NoFunctions, id: "web-1" };
        let root = temp.path().display().to_string();
        read(&temp.path().join(named), &reading).map_err(|error| match error {
            Error::Diagnostics { diagnostics, sources } => {
                let line = |diagnostic: &zester_model::diagnostic::Diagnostic| {
                    let place = diagnostic.span.map(|span| sources.place(span)).unwrap_or_default();
                    format!("{}: {}", place.replace(&root, ""), diagnostic.message)
                };
                diagnostics.iter().map(line).collect()
            }
            other => vec![other.to_string()],
        })
    }

    #[test]
    #[rule("S-48")]
    fn s48_a_directory_without_a_top_file_is_all_its_files_in_order_and_what_they_include() {
        let files = [
            ("s/20-b.yaml", "a: 2\nos: {{ facts.os }}\n"),
            ("s/10-a.zy", "include: [more.deep]\na: 1\n"),
            ("s/more/deep.sls", "a: 0\ndeep: true\n"),
            ("s/more/other.sls", "never: true\n"),
            ("s/30.json", "{\"json\": 1}"),
            ("s/notes.txt", "no: setting\n"),
            ("s/.#20-b.yaml", "somebody@host.4711:1\n"),
        ];
        assert_eq!(of(&files, "s"), Ok(json!({"a": 2, "deep": true, "os": "Debian", "json": 1})));
        assert_eq!(of(&files, "s/10-a.zy"), Ok(json!({"a": 1, "deep": true})));
    }

    #[test]
    #[rule("S-48")]
    fn s48_a_top_file_of_either_name_keeps_the_settings_of_other_machines_out() {
        for top in ["top.zy", "top.sls"] {
            let files = [
                ("web.sls", "role: web\n"),
                ("db.sls", "password: secret\n"),
                (top, "base:\n  'web*': [web]\n  'db*': [db]\n"),
            ];
            assert_eq!(of(&files, ""), Ok(json!({"role": "web"})), "{top}");
        }
        let both = [("top.zy", ""), ("top.sls", "")];
        assert_eq!(of(&both, ""), Err(vec![": both `top.zy` and `top.sls` exist".to_string()]));
    }

    #[test]
    #[rule("S-48")]
    fn s48_errors_have_places_in_the_file_as_the_user_named_it() {
        let files =
            [("s/a.zy", "#!jinja|yaml|gpg\na: 1\n"), ("s/b.zy", "include: [../x.zy]\nb: {{ nope }}\n")];
        assert_eq!(
            of(&files, "s"),
            Err(vec![
                "/s/a.zy:1:1: unknown renderer `gpg`".to_string(),
                "/s/b.zy:2:7: `nope` is undefined".to_string()
            ])
        );
        let outside = [("s/b.zy", "include:\n  - ../x.zy\n")];
        assert_eq!(
            of(&outside, "s/b.zy"),
            Err(vec!["/s/b.zy:2:5: `../x.zy` leaves the settings directory".to_string()])
        );
    }
}
