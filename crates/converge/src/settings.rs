//! Settings from a file or a directory, and the look-up in them.

use crate::error::Error;
use crate::tree::DirTree;
use serde_json::{Map, Value as Json};
use std::path::{Path, PathBuf};
use zester_compile::{Functions, Inputs};
use zester_model::catalog::Catalog;
use zester_model::node::Node;
use zester_model::problem::{Kind, Problem};
use zester_model::source::{Sources, Span};
use zester_model::target::{Subject, Target};

/// Walks `a:b:c` through maps, and through lists by number.
pub fn walk<'a>(root: &'a Json, key: &str) -> Option<&'a Json> {
    key.split(':').try_fold(root, |at, part| match at {
        Json::Object(map) => map.get(part),
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        _ => None,
    })
}

/// Lays `over` onto `base`: maps merge, everything else is replaced.
pub fn merge(base: &mut Json, over: Json) {
    match (base, over) {
        (Json::Object(base), Json::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Json::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// What settings files may see while they are rendered.
pub struct Reading<'a> {
    pub facts: &'a Json,
    pub functions: &'a dyn Functions,
    pub id: &'a str,
}

/// Reads `--settings FILE|DIR`. A directory with a `top.zy` assigns files by target; without one all files count, in the
/// order of their names.
pub fn read(path: &Path, reading: &Reading<'_>) -> Result<Json, Error> {
    let meta = std::fs::metadata(path).map_err(|error| Error::io("read the settings", path, error))?;
    let mut shelf = Shelf { reading, sources: Sources::default(), problems: Vec::new() };
    let files = match meta.is_dir() {
        false => vec![path.to_path_buf()],
        true if path.join("top.zy").is_file() => shelf.assigned(path)?,
        true => files_in(path)?,
    };
    let mut merged = Json::Object(Map::new());
    for file in files {
        if let Some(node) = shelf.load(&file)?.filter(|node| !node.is_null()) {
            match node.as_map() {
                Some(_) => merge(&mut merged, node.to_json()),
                None => shelf.problems.push(not_a_map(node.span)),
            }
        }
    }
    match shelf.problems.is_empty() {
        true => Ok(merged),
        false => Err(Error::Problems { problems: shelf.problems, sources: Box::new(shelf.sources) }),
    }
}

/// Settings files while they are read: one list of sources, one list of problems.
struct Shelf<'a> {
    reading: &'a Reading<'a>,
    sources: Sources,
    problems: Vec<Problem>,
}

impl Shelf<'_> {
    /// Renders and reads one file; what is wrong with it is noted.
    fn load(&mut self, path: &Path) -> Result<Option<Node>, Error> {
        let text =
            std::fs::read_to_string(path).map_err(|error| Error::io("read the settings", path, error))?;
        let (catalog, none) = (Catalog::default(), Json::Object(Map::new()));
        let tree = DirTree::new(path.parent().unwrap_or(Path::new(".")));
        let inputs = Inputs {
            tree: &tree,
            tree_name: "",
            catalog: &catalog,
            facts: self.reading.facts,
            settings: &none,
            functions: self.reading.functions,
            id: self.reading.id,
            ordered: false,
        };
        match zester_compile::render_yaml(&inputs, &mut self.sources, &path.display().to_string(), &text) {
            Ok(node) => Ok(Some(node)),
            Err(problems) => {
                self.problems.extend(problems);
                Ok(None)
            }
        }
    }

    /// The files that `top.zy` gives this machine, in its order.
    fn assigned(&mut self, directory: &Path) -> Result<Vec<PathBuf>, Error> {
        let Some(top) = self.load(&directory.join("top.zy"))? else { return Ok(Vec::new()) };
        let Some(mut entries) = top.as_map() else {
            self.problems.push(not_a_map(top.span));
            return Ok(Vec::new());
        };
        if let [(key, inside)] = entries
            && key.as_text() == Some("base")
        {
            entries = inside.as_map().unwrap_or_default();
        }
        let none = Json::Null;
        let subject = Subject { id: self.reading.id, facts: self.reading.facts, settings: &none };
        let mut files = Vec::new();
        for (key, references) in entries {
            match Target::parse(key.as_text().unwrap_or_default()) {
                Ok(target) if !target.matches(&subject) => {}
                Ok(_) => {
                    for reference in references.as_list().unwrap_or_default() {
                        files.extend(self.file_of(directory, reference));
                    }
                }
                Err(error) => self.problems.push(Problem::new(Kind::Target, error.message).at(key.span)),
            }
        }
        Ok(files)
    }

    fn file_of(&mut self, directory: &Path, reference: &Node) -> Option<PathBuf> {
        let name = reference.as_text().unwrap_or_default();
        let below = name.replace('.', "/");
        let plain =
            !below.is_empty() && !below.starts_with('/') && !below.split('/').any(|part| part.is_empty());
        let candidates = [
            format!("{below}.zy"),
            format!("{below}/init.zy"),
            format!("{below}.sls"),
            format!("{below}/init.sls"),
        ];
        let found = candidates.iter().map(|file| directory.join(file)).find(|path| plain && path.is_file());
        if found.is_none() {
            let message = format!("there is no settings file `{name}` below {}", directory.display());
            self.problems.push(Problem::new(Kind::Reference, message).at(reference.span));
        }
        found
    }
}

fn not_a_map(span: Span) -> Problem {
    Problem::new(Kind::Settings, "settings must be a map of names to values").at(span)
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let fail = |error| Error::io("list the settings", directory, error);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let ending = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if ["zy", "sls", "yaml", "yml", "json"].contains(&ending) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn keys_walk_maps_and_lists() {
        let root = json!({"a": {"b": [1, {"c": 2}]}});
        assert_eq!(walk(&root, "a:b:1:c"), Some(&json!(2)));
        assert_eq!(walk(&root, "a:x"), None);
    }

    #[test]
    fn maps_merge_and_everything_else_is_replaced() {
        let mut base = json!({"a": {"x": 1, "y": [1]}, "b": 1});
        merge(&mut base, json!({"a": {"y": [2]}, "b": {"z": 1}}));
        assert_eq!(base, json!({"a": {"x": 1, "y": [2]}, "b": {"z": 1}}));
    }
}
