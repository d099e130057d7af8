//! The state language as a JSON Schema: every kind, its parameters, requisites and attributes, in every form that the
//! compiler takes. The words come from the compiler's own table.

use crate::bound::{KindEntry, entries};
use crate::catalog;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use zester_model::keywords::{ATTRIBUTES, FILE_KEYS, MANIFEST_TYPES, REQUISITES, Takes};

/// What the compiler reads as a truth value, also where quotes made it a text.
const TRUTH: &str = "^([Tt][Rr][Uu][Ee]|[Yy][Ee][Ss]|[Oo][Nn]|[Ff][Aa][Ll][Ss][Ee]|[Nn][Oo]|[Oo][Ff][Ff])$";

/// The schema, made once.
pub fn schema_once() -> &'static Json {
    static MADE: OnceLock<Json> = OnceLock::new();
    MADE.get_or_init(schema)
}

/// What `zester schema` prints.
pub fn schema() -> Json {
    let kinds: Map<String, Json> =
        entries().iter().map(|entry| (entry.kind.to_string(), kind(entry.kind))).collect();
    let parameters: Map<String, Json> =
        entries().iter().map(|entry| (entry.kind.to_string(), parameters(entry))).collect();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Zester states",
        "description": "A state file: an id, under it one or more modules with their parameters.",
        "anyOf": [{ "$ref": "#/$defs/file" }, { "$ref": "#/$defs/manifest" }, { "type": "null" }],
        "$defs": {
            "file": file(),
            "manifest": manifest(),
            "state": state(&kinds),
            "parameters": parameters,
            "scalar": { "type": ["string", "number", "boolean"] },
            "targets": targets(),
            "commands": one_or_many(&[json!({ "$ref": "#/$defs/scalar" })]),
            "guards": one_or_many(&[json!({ "$ref": "#/$defs/scalar" }), function()]),
            "retry": retry(),
        },
    })
}

fn described(mut schema: Json, doc: &str) -> Json {
    schema["description"] = doc.into();
    schema
}

fn any_of(forms: Vec<Json>) -> Json {
    match forms.as_slice() {
        [one] => one.clone(),
        _ => json!({ "anyOf": forms }),
    }
}

/// One of the forms, or a list of them.
fn one_or_many(forms: &[Json]) -> Json {
    let mut all = forms.to_vec();
    all.push(json!({ "type": "array", "items": any_of(forms.to_vec()) }));
    any_of(all)
}

fn truth() -> Vec<Json> {
    vec![json!({ "type": "boolean" }), json!({ "type": "string", "pattern": TRUTH })]
}

fn file() -> Json {
    let reference = json!({ "type": ["string", "number", "null"] });
    let excluded = json!({ "anyOf": [
        { "type": ["string", "number"] },
        { "type": "object", "properties": { "sls": { "$ref": "#/$defs/scalar" }, "id": { "$ref": "#/$defs/scalar" } },
          "additionalProperties": false },
    ] });
    let extended = json!({ "type": ["object", "null"], "additionalProperties": { "$ref": "#/$defs/state" } });
    let properties: Map<String, Json> = FILE_KEYS
        .iter()
        .map(|(word, doc)| {
            let form = match *word {
                "extend" => extended.clone(),
                "exclude" => one_or_many(std::slice::from_ref(&excluded)),
                _ => one_or_many(std::slice::from_ref(&reference)),
            };
            (word.to_string(), described(form, doc))
        })
        .collect();
    json!({ "type": "object", "properties": properties, "additionalProperties": { "$ref": "#/$defs/state" } })
}

/// What stands below an id: kinds with their parameters, or the short form `id: file.absent`.
fn state(kinds: &Map<String, Json>) -> Json {
    let mut modules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (module, function) in kinds.keys().filter_map(|kind| kind.split_once('.')) {
        modules.entry(module).or_default().push(function);
    }
    let mut properties = kinds.clone();
    for (module, functions) in modules {
        // Salt's old form, `pkg: [installed]`; and `extend` may leave the function out.
        let items = json!({ "anyOf": [{ "enum": functions }, { "type": "object" }] });
        let old = json!({ "anyOf": [{ "enum": functions }, { "type": "array", "items": items }, { "type": "object" }] });
        properties.insert(module.to_string(), described(old, "The function stands among the parameters."));
    }
    let names: Vec<&String> = kinds.keys().collect();
    json!({
        "description": "A state. Its id is the main parameter of its modules, where they give none.",
        "anyOf": [
            { "enum": names },
            // Editors and generators leave marks like `__sls__`.
            { "type": "object", "properties": properties, "patternProperties": { "^__": {} }, "additionalProperties": false },
        ],
    })
}

/// `- file: {/etc/x: {ensure: absent}}`
fn manifest() -> Json {
    let parameters = json!({ "type": ["object", "array", "null"] });
    let named = json!({ "type": "object", "additionalProperties": parameters });
    let entry = one_or_many(&[json!({ "$ref": "#/$defs/scalar" }), named]);
    let words = MANIFEST_TYPES.into_iter().chain(entries().iter().map(|entry| entry.kind));
    let mut properties: Map<String, Json> = words.map(|word| (word.to_string(), entry.clone())).collect();
    for (word, _) in FILE_KEYS.iter().filter(|(word, _)| *word != "extend") {
        properties.insert((*word).to_string(), json!({ "$ref": format!("#/$defs/file/properties/{word}") }));
    }
    json!({
        "type": "array",
        "description": "An ordered manifest: each entry waits for the one before it.",
        "items": { "type": "object", "properties": properties, "additionalProperties": false },
    })
}

/// `- module.function:id`, `- module: id`, or one of them without the list.
fn targets() -> Json {
    let by_module = json!({ "type": "object", "additionalProperties": { "$ref": "#/$defs/scalar" } });
    one_or_many(&[json!({ "$ref": "#/$defs/scalar" }), by_module, json!({ "type": "null" })])
}

fn function() -> Json {
    json!({ "type": "object", "properties": { "fun": { "type": "string" }, "args": {}, "get_return": { "type": "string" } }, "required": ["fun"] })
}

fn retry() -> Json {
    let duration = json!({ "type": ["string", "number"] });
    let tries = json!({ "anyOf": [{ "type": "integer" }, { "type": "string", "pattern": "^[0-9]+$" }] });
    let properties =
        json!({ "attempts": tries, "interval": duration, "splay": duration, "until": { "enum": [true] } });
    let map = json!({ "type": "object", "properties": properties, "additionalProperties": false });
    json!({ "anyOf": [{ "type": "boolean" }, tries, map, { "type": "array", "items": map }] })
}

/// What every state takes, whatever its kind.
fn common() -> Map<String, Json> {
    let mut properties = Map::new();
    for requisite in &REQUISITES {
        let targets = json!({ "$ref": "#/$defs/targets" });
        properties.insert(requisite.word.to_string(), described(targets, requisite.doc));
    }
    for attribute in &ATTRIBUTES {
        let form = match attribute.takes {
            Takes::Commands => json!({ "$ref": "#/$defs/commands" }),
            Takes::Guards => json!({ "$ref": "#/$defs/guards" }),
            Takes::Retry => json!({ "$ref": "#/$defs/retry" }),
            Takes::Truth => any_of(truth()),
            Takes::Order => json!({ "anyOf": [
                { "type": "integer" }, { "enum": ["first", "last"] }, { "type": "string", "pattern": "^-?[0-9]+$" },
            ] }),
            Takes::Names => one_or_many(&[json!({ "$ref": "#/$defs/scalar" }), json!({ "type": "object" })]),
        };
        properties.insert(attribute.word.to_string(), described(form, attribute.doc));
    }
    properties
}

/// A map of parameters, a list of maps, or nothing.
fn kind(name: &str) -> Json {
    let known = catalog::catalog().get(name);
    let map = json!({ "$ref": format!("#/$defs/parameters/{name}") });
    json!({
        "description": known.map_or("", |kind| kind.summary.as_str()),
        "markdownDescription": known.map_or("", |kind| kind.doc.as_str()),
        "anyOf": [{ "type": "array", "items": map }, map, { "type": "null" }],
    })
}

/// What a state of one kind may carry.
fn parameters(entry: &KindEntry) -> Json {
    let known = catalog::catalog().get(entry.kind);
    let mut properties: Map<String, Json> = Map::new();
    for (name, parameter) in (entry.schema)()["properties"].as_object().into_iter().flatten() {
        properties.insert(name.clone(), parameter.clone());
    }
    for parameter in known.iter().flat_map(|kind| &kind.parameters) {
        let own = properties.get(parameter.name).cloned().unwrap_or_else(|| json!({}));
        let primary = known.is_some_and(|kind| kind.primary == parameter.name).then_some("name");
        for alias in parameter.aliases.iter().copied().chain(primary) {
            let same = described(own.clone(), &format!("The same as `{}`.", parameter.name));
            properties.entry(alias).or_insert(same);
        }
    }
    for (word, form) in common() {
        properties.entry(word).or_insert(form);
    }
    let open = known.is_some_and(|kind| kind.open);
    json!({ "type": "object", "properties": properties, "additionalProperties": open })
}

/// A parameter's schema as widely as the compiler reads it: scalars as texts, texts as truth values, and `null`, which
/// says nothing. `list`: one value stands for a list of it. `lines`: a list stands for the lines of a text.
pub(crate) fn as_written(parameter: &Json, list: bool, lines: bool) -> Json {
    let mut forms = widened(parameter);
    if list {
        let items = forms.iter().filter_map(|form| form.get("items").cloned()).collect::<Vec<_>>();
        forms.extend(items);
    }
    if lines {
        forms.push(json!({ "type": "array", "items": { "$ref": "#/$defs/scalar" } }));
    }
    forms.push(json!({ "type": "null" }));
    let mut written = any_of(forms);
    for key in ["description", "default"] {
        if let Some(said) = parameter.get(key) {
            written[key] = said.clone();
        }
    }
    written
}

fn widened(schema: &Json) -> Vec<Json> {
    let several = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    if let Some(forms) = several {
        return forms.iter().flat_map(widened).collect();
    }
    if schema.get("enum").is_some() || schema.get("const").is_some() {
        return vec![schema.clone()];
    }
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one.as_str()],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ => return vec![json!({})],
    };
    types.into_iter().flat_map(|sort| of_type(sort, schema)).collect()
}

fn of_type(sort: &str, schema: &Json) -> Vec<Json> {
    match sort {
        "string" => vec![json!({ "$ref": "#/$defs/scalar" })],
        "boolean" => truth(),
        "integer" => {
            vec![
                json!({ "type": "integer" }),
                json!({ "type": "string", "pattern": "^\\s*[+-]?[0-9]+\\s*$" }),
            ]
        }
        "array" => {
            let items = schema.get("items").map_or_else(|| json!({}), |items| any_of(widened(items)));
            vec![json!({ "type": "array", "items": items })]
        }
        // A list of one-key maps is a map, too.
        "object" => vec![json!({ "type": ["object", "array"] })],
        "null" => Vec::new(),
        other => vec![json!({ "type": other })],
    }
}
