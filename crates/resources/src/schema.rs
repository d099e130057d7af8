//! The state language as a JSON Schema: every kind, its parameters, requisites and attributes.

use crate::bound::entries;
use crate::catalog;
use serde_json::{Map, Value as Json, json};

/// Requisites, with their `_in` and `_any` forms spelled out.
const REQUISITES: [(&str, &str); 6] = [
    ("require", "Waits for these states; skipped if one of them failed."),
    ("watch", "Like `require`; acts again when one of these states changed."),
    ("onchanges", "Runs only if one of these states changed."),
    ("onfail", "Runs only if one of these states failed."),
    ("prereq", "Runs before these states, and only if one of them would change."),
    ("listen", "The same as `watch`."),
];

const ATTRIBUTES: [(&str, &str); 9] = [
    ("onlyif", "Shell commands that must all exit 0, or the state is left alone."),
    ("unless", "Shell commands of which none may exit 0, or the state is left alone."),
    (
        "check_cmd",
        "Shell commands that must all exit 0, or the state has failed: after a change; `file.managed` gets the path of the new content appended, before it is put in place.",
    ),
    ("order", "A number, `first` or `last`: the order inside a level."),
    ("retry", "How many more tries after a failure: a number, or `attempts` and `interval`."),
    ("failhard", "If it fails, later levels are skipped."),
    ("names", "One state for each name."),
    ("subscribe", "The same as `watch`."),
    ("name", "Another name for the main parameter."),
];

/// What `zester schema` prints.
pub fn schema() -> Json {
    let kinds: Map<String, Json> =
        entries().iter().map(|entry| (entry.kind.to_string(), kind(entry))).collect();
    let extend = json!({ "type": "object", "description": "Changes states of included files." });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Zester states",
        "description": "A state file: an id, under it one or more modules with their parameters.",
        "type": "object",
        "properties": {
            "include": { "type": "array", "items": { "type": "string" }, "description": "Other files to load." },
            "extend": extend,
        },
        "additionalProperties": {
            "type": "object",
            "description": "A state. Its id is the main parameter of its modules, where they give none.",
            "properties": kinds,
        },
    })
}

/// A map of parameters, a list of one-key maps, or nothing.
fn kind(entry: &crate::bound::Entry) -> Json {
    let schema = (entry.schema)();
    let described = catalog::catalog().get(entry.kind);
    let mut properties = schema["properties"].as_object().cloned().unwrap_or_default();
    for parameter in described.iter().flat_map(|kind| &kind.parameters) {
        for alias in parameter.aliases {
            let description = format!("The same as `{}`.", parameter.name);
            properties.entry(*alias).or_insert_with(|| json!({ "description": description }));
        }
    }
    for (name, doc) in REQUISITES {
        for (suffix, more) in
            [("", ""), ("_in", " Declared from the other side."), ("_any", " One of them is enough.")]
        {
            let entry = properties.entry(format!("{name}{suffix}"));
            entry.or_insert_with(|| json!({ "description": format!("{doc}{more}") }));
        }
    }
    for (name, doc) in ATTRIBUTES {
        properties.entry(name).or_insert_with(|| json!({ "description": doc }));
    }
    let open = described.is_some_and(|kind| kind.open);
    let one = json!({
        "type": "object", "properties": properties, "additionalProperties": open, "maxProperties": 1, "minProperties": 1,
    });
    let many = json!({ "type": "object", "properties": properties, "additionalProperties": open });
    json!({
        "description": described.map_or("", |kind| kind.summary.as_str()),
        "markdownDescription": described.map_or("", |kind| kind.doc.as_str()),
        "anyOf": [{ "type": "array", "items": one }, many, { "type": "null" }],
    })
}
