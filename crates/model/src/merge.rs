//! How the settings of several files become one (D-6): Salt's strategies, on values that keep the place where they stand.

use crate::node::{Node, Value};
use crate::source::Span;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// What becomes of two values under one name. A later file lies over an earlier one in all of them, and what is not of one
/// sort (a map against a text) is replaced.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Merge {
    /// Salt's default, which is `recurse` for every renderer there is here.
    #[default]
    Smart,
    /// Maps are merged, at any depth; lists and everything else are replaced.
    Recurse,
    /// The same, and a list gets the items of the later one that it does not have yet.
    Aggregate,
    /// Whatever stands at the top is replaced whole.
    Overwrite,
}

impl Merge {
    pub const ALL: [Merge; 4] = [Merge::Smart, Merge::Recurse, Merge::Aggregate, Merge::Overwrite];

    pub fn as_str(self) -> &'static str {
        match self {
            Merge::Smart => "smart",
            Merge::Recurse => "recurse",
            Merge::Aggregate => "aggregate",
            Merge::Overwrite => "overwrite",
        }
    }

    /// Lays the entries of one map over another.
    pub fn lay(self, base: &mut Node, over: &Node) -> Vec<Clash> {
        let mut clashes = Vec::new();
        match self {
            Merge::Overwrite => replace_entries(base, over),
            Merge::Smart | Merge::Recurse => merge(base, over, Lists::Replaced, &mut clashes),
            Merge::Aggregate => merge(base, over, Lists::Joined, &mut clashes),
        }
        clashes
    }
}

impl fmt::Display for Merge {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.as_str())
    }
}

impl FromStr for Merge {
    type Err = String;

    fn from_str(text: &str) -> Result<Merge, String> {
        let found = Merge::ALL.into_iter().find(|merge| merge.as_str() == text);
        found.ok_or_else(|| format!("one of {}", Merge::ALL.map(Merge::as_str).join(", ")))
    }
}

/// A map that something else replaced, or the other way round: seldom meant.
#[derive(Clone, Debug, PartialEq)]
pub struct Clash {
    pub name: String,
    pub was: Span,
    pub now: Span,
    /// What it was and what it is, in words.
    pub words: String,
}

#[derive(Copy, Clone)]
enum Lists {
    Replaced,
    Joined,
}

/// Where the entries of a map stand, by name: settings may have thousands.
fn places(entries: &[(Node, Node)]) -> HashMap<String, usize> {
    entries.iter().enumerate().map(|(at, (key, _))| (name(key), at)).collect()
}

fn name(key: &Node) -> String {
    key.as_text().unwrap_or_default().to_string()
}

fn merge(base: &mut Node, over: &Node, lists: Lists, clashes: &mut Vec<Clash>) {
    match (&mut base.value, &over.value, lists) {
        (Value::Map(entries), Value::Map(more), _) => {
            let entries = Arc::make_mut(entries);
            let places = places(entries);
            for (key, value) in more.iter() {
                match places.get(&name(key)) {
                    Some(at) => {
                        let held = &mut entries[*at].1;
                        if held.as_map().is_some() != value.as_map().is_some() && !held.is_null() {
                            clashes.push(Clash {
                                name: name(key),
                                was: held.span,
                                now: value.span,
                                words: format!("{} replaces {}", value.describe(), held.describe()),
                            });
                        }
                        merge(held, value, lists, clashes);
                    }
                    None => entries.push((key.clone(), value.clone())),
                }
            }
        }
        (Value::List(items), Value::List(more), Lists::Joined) => {
            let items = Arc::make_mut(items);
            let had: Vec<serde_json::Value> = items.iter().map(Node::to_json).collect();
            items.extend(more.iter().filter(|item| !had.contains(&item.to_json())).cloned());
        }
        _ => *base = over.clone(),
    }
}

fn replace_entries(base: &mut Node, over: &Node) {
    let (Value::Map(entries), Value::Map(more)) = (&mut base.value, &over.value) else {
        *base = over.clone();
        return;
    };
    let entries = Arc::make_mut(entries);
    let places = places(entries);
    for (key, value) in more.iter() {
        match places.get(&name(key)) {
            Some(at) => entries[*at] = (key.clone(), value.clone()),
            None => entries.push((key.clone(), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::FileId;
    use serde_json::{Value as Json, json};
    use zester_rule::rule;

    fn span(file: u32) -> Span {
        Span::start_of(FileId(file))
    }

    /// Lays each over those before it.
    fn merged(merge: Merge, files: &[Json]) -> (Json, usize) {
        let mut base = Node::map(span(0), Vec::new());
        let mut clashes = 0;
        for (file, json) in files.iter().enumerate() {
            clashes += merge.lay(&mut base, &Node::from_json(span(file as u32), json)).len();
        }
        (base.to_json(), clashes)
    }

    #[test]
    #[rule("D-6")]
    fn d6_maps_lists_and_scalars_merge_as_salt_documents_it() {
        // The examples of `pillar_source_merging_strategy`, and what `dictupdate` does where they are silent.
        let recurse = [
            json!({"foo": 42, "bar": {"element1": true}}),
            json!({"bar": {"element2": true}, "baz": "quux"}),
        ];
        let lists = [json!({"l": [1, 2], "m": {"l": ["a"]}}), json!({"l": [2, 3], "m": {"l": ["b"]}})];
        let sorts = [
            json!({"a": {"x": 1}, "b": [1], "c": 1, "d": {"x": 1}}),
            json!({"a": 2, "b": {"y": 1}, "c": [2], "d": null}),
        ];
        let replaced = json!({"a": 2, "b": {"y": 1}, "c": [2], "d": null});
        let overwrite = [
            json!({"first_key": "blah", "second_key": {"first": 1, "second": 2}}),
            json!({"third_key": "blah", "second_key": {"third": 3}}),
        ];
        for (merge, files, wanted) in [
            (
                Merge::Smart,
                &recurse,
                json!({"foo": 42, "bar": {"element1": true, "element2": true}, "baz": "quux"}),
            ),
            (
                Merge::Recurse,
                &recurse,
                json!({"foo": 42, "bar": {"element1": true, "element2": true}, "baz": "quux"}),
            ),
            (Merge::Overwrite, &recurse, json!({"foo": 42, "bar": {"element2": true}, "baz": "quux"})),
            (Merge::Smart, &lists, json!({"l": [2, 3], "m": {"l": ["b"]}})),
            (Merge::Aggregate, &lists, json!({"l": [1, 2, 3], "m": {"l": ["a", "b"]}})),
            (Merge::Overwrite, &lists, json!({"l": [2, 3], "m": {"l": ["b"]}})),
            (
                Merge::Overwrite,
                &overwrite,
                json!({"first_key": "blah", "second_key": {"third": 3}, "third_key": "blah"}),
            ),
            (Merge::Smart, &sorts, replaced.clone()),
            (Merge::Aggregate, &sorts, replaced.clone()),
            (Merge::Overwrite, &sorts, replaced),
        ] {
            assert_eq!(merged(merge, files).0, wanted, "{merge}");
        }
    }

    #[test]
    #[rule("D-6")]
    fn d6_each_value_keeps_the_place_of_the_file_that_it_comes_from() {
        let mut base = Node::from_json(span(1), &json!({"a": {"x": 1, "y": 1}, "l": [1]}));
        Merge::Aggregate.lay(&mut base, &Node::from_json(span(2), &json!({"a": {"y": 2, "z": 2}, "l": [2]})));
        let map = |node: &Node, name: &str| {
            let entry = node.as_map().unwrap().iter().find(|(key, _)| key.as_text() == Some(name)).unwrap();
            entry.1.clone()
        };
        let file = |name: &str| map(&map(&base, "a"), name).span.file.0;
        assert_eq!((file("x"), file("y"), file("z")), (1, 2, 2));
        let items: Vec<u32> =
            map(&base, "l").as_list().unwrap().iter().map(|item| item.span.file.0).collect();
        assert_eq!(items, [1, 2]);
    }

    #[test]
    fn a_map_that_something_else_replaces_is_told() {
        let files = [json!({"a": {"x": 1}, "b": 1, "n": null}), json!({"a": "web", "b": 2, "n": {"x": 1}})];
        assert_eq!(merged(Merge::Smart, &files).1, 1);
    }

    #[test]
    fn a_strategy_has_a_word() {
        for merge in Merge::ALL {
            assert_eq!(merge.as_str().parse(), Ok(merge));
        }
        assert_eq!("deep".parse::<Merge>(), Err("one of smart, recurse, aggregate, overwrite".to_string()));
    }
}
