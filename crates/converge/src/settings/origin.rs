//! Where each setting comes from, for `zester settings show`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;
use zester_model::node::{Node, Value};
use zester_model::source::{FileId, Sources, Span};

/// The place of one value. A list of plain items is one value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Origin {
    /// The names on the way to it; numbers in lists.
    pub path: Vec<String>,
    /// A file, or what was given for this run.
    pub from: String,
    /// None for what stands in no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

/// What spans of values that stand in no file have for a line.
pub(super) const NO_LINE: u32 = 0;

impl Origin {
    /// Of everything below a node.
    pub(super) fn all(root: &Node, sources: &Sources) -> Vec<Origin> {
        let mut found = Vec::new();
        collect(root, sources, &mut Vec::new(), &mut found);
        found
    }

    /// `a:b:0`, as `--setting` and `settings.get` take it.
    pub fn key(&self) -> String {
        self.path.join(":")
    }

    /// `settings/web.zy:3`
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.from),
            None => self.from.clone(),
        }
    }

    fn value<'a>(&self, root: &'a Json) -> Option<&'a Json> {
        self.path.iter().try_fold(root, |at, name| match at {
            Json::Object(map) => map.get(name),
            Json::Array(items) => items.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }
}

fn collect(node: &Node, sources: &Sources, path: &mut Vec<String>, found: &mut Vec<Origin>) {
    let inner: Vec<(String, &Node)> = match &node.value {
        Value::Map(entries) => entries
            .iter()
            .map(|(key, value)| (key.as_text().unwrap_or_default().to_string(), value))
            .collect(),
        Value::List(items) if !is_of_one_place(items) => {
            items.iter().enumerate().map(|(at, item)| (at.to_string(), item)).collect()
        }
        _ => Vec::new(),
    };
    if inner.is_empty() && !path.is_empty() {
        let line = Some(node.span.line).filter(|line| *line != NO_LINE);
        found.push(Origin { path: path.clone(), from: sources.path(node.span.file).to_string(), line });
    }
    for (name, node) in inner {
        path.push(name);
        collect(node, sources, path, found);
        path.pop();
    }
}

/// Plain items of one file.
fn is_of_one_place(items: &[Node]) -> bool {
    let plain = items.iter().all(|item| item.as_map().is_none() && item.as_list().is_none());
    plain && items.windows(2).all(|pair| pair[0].span.file == pair[1].span.file)
}

/// The document of `settings.show`: all values, or those below a key, each with its place.
pub fn document(values: &Json, origins: &[Origin], key: Option<&str>) -> Json {
    let below = |origin: &&Origin| match key {
        None => true,
        // Of a list that is one value, an item may be asked for.
        Some(key) => {
            let own = origin.key();
            own == key || own.starts_with(&format!("{key}:")) || key.starts_with(&format!("{own}:"))
        }
    };
    let row = |origin: &Origin| {
        let value = origin.value(values).cloned().unwrap_or(Json::Null);
        json!({ "key": origin.key(), "value": value, "from": origin.from, "line": origin.line })
    };
    let rows: Vec<Json> = origins.iter().filter(below).map(row).collect();
    let settings = match key {
        None => values.clone(),
        Some(key) => super::walk(values, key).cloned().unwrap_or(Json::Null),
    };
    json!({ "settings": settings, "values": rows })
}

/// Values with their places again, from what a snapshot holds.
pub(super) fn nodes(values: &Json, origins: &[Origin]) -> (Node, Sources) {
    let mut sources = Sources::default();
    let unknown = Span { line: NO_LINE, ..Span::start_of(sources.add("snapshot", "")) };
    let places: HashMap<&[String], Span> = origins
        .iter()
        .map(|origin| {
            let file = sources.add(&origin.from, "");
            (origin.path.as_slice(), at_line(file, origin.line.unwrap_or(NO_LINE)))
        })
        .collect();
    let root = node(values, unknown, &mut Vec::new(), &places);
    (root, sources)
}

pub(super) fn at_line(file: FileId, line: u32) -> Span {
    Span { line, ..Span::start_of(file) }
}

fn node(json: &Json, inherited: Span, path: &mut Vec<String>, places: &HashMap<&[String], Span>) -> Node {
    let span = places.get(path.as_slice()).copied().unwrap_or(inherited);
    match json {
        Json::Object(map) => {
            let entries = map.iter().map(|(key, value)| {
                path.push(key.clone());
                let inner = node(value, span, path, places);
                path.pop();
                (Node::text(span, key.as_str()), inner)
            });
            Node::map(span, entries.collect())
        }
        Json::Array(items) => {
            let items = items.iter().enumerate().map(|(at, item)| {
                path.push(at.to_string());
                let inner = node(item, span, path, places);
                path.pop();
                inner
            });
            Node::list(span, items.collect())
        }
        scalar => Node::from_json(span, scalar),
    }
}

/// No settings at all.
pub(super) fn empty() -> Json {
    Json::Object(Map::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_has_its_place_and_a_snapshot_keeps_it() {
        let mut sources = Sources::default();
        let (a, b) = (sources.add("settings/a.zy", ""), sources.add("settings/b.zy", ""));
        let text = "n: {w: 4}\nl: [1, 2]\nusers:\n  - name: x\nempty: {}\n";
        let mut root = zester_compile::parse_yaml(a, text).unwrap();
        let over = Node::map(
            at_line(b, 7),
            vec![(Node::text(at_line(b, 7), "n"), Node::from_json(at_line(b, 7), &json!({"v": null})))],
        );
        zester_model::merge::Merge::Smart.lay(&mut root, &over);
        let origins = Origin::all(&root, &sources);
        let shown: Vec<String> =
            origins.iter().map(|origin| format!("{} {}", origin.key(), origin.place())).collect();
        assert_eq!(
            shown,
            [
                "n:w settings/a.zy:1",
                "n:v settings/b.zy:7",
                "l settings/a.zy:2",
                "users:0:name settings/a.zy:4",
                "empty settings/a.zy:5"
            ]
        );
        let (again, sources) = nodes(&root.to_json(), &origins);
        assert_eq!(Origin::all(&again, &sources), origins);
        let told = document(&root.to_json(), &origins, Some("n"));
        assert_eq!(told["settings"], json!({"w": 4, "v": null}));
        assert_eq!(told["values"][0], json!({"key": "n:w", "value": 4, "from": "settings/a.zy", "line": 1}));
        assert_eq!(told["values"].as_array().unwrap().len(), 2);
        assert_eq!(document(&root.to_json(), &origins, Some("l:1"))["settings"], json!(2));
    }
}
