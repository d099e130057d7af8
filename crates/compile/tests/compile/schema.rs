//! The JSON Schema takes what the compiler takes: the README, the docs, every manual page, every example and every tree of
//! these tests; and it refuses what an editor should underline.

use crate::fixture::*;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use zester_compile::{Inputs, parse_yaml, render};
use zester_model::source::FileId;
use zester_rule::rule;

/// Why a value does not fit, with the way to it; `None` if it does. Knows the words of JSON Schema that ours uses.
pub fn misfit(schema: &Json, value: &Json) -> Option<String> {
    fits(schema, schema, value, "").err()
}

fn fits(root: &Json, schema: &Json, value: &Json, way: &str) -> Result<(), String> {
    const KNOWN: [&str; 16] = [
        "$schema",
        "$defs",
        "$ref",
        "title",
        "description",
        "markdownDescription",
        "default",
        "anyOf",
        "enum",
        "type",
        "pattern",
        "items",
        "properties",
        "patternProperties",
        "additionalProperties",
        "required",
    ];
    let object = schema.as_object().ok_or_else(|| format!("{way}: {schema} is no schema"))?;
    for word in object.keys() {
        assert!(KNOWN.contains(&word.as_str()), "`{word}` would not be checked");
    }
    if let Some(reference) = schema["$ref"].as_str() {
        let target = reference.trim_start_matches("#/").split('/').fold(root, |at, part| &at[part]);
        fits(root, target, value, way)?;
    }
    if let Some(forms) = schema["anyOf"].as_array() {
        let errors: Vec<String> = forms.iter().map_while(|form| fits(root, form, value, way).err()).collect();
        // The one that came furthest says most.
        let longest = errors.iter().max_by_key(|error| error.split(": ").next().map_or(0, str::len));
        longest.filter(|_| errors.len() == forms.len()).map_or(Ok(()), |error| Err(error.clone()))?;
    }
    if let Some(choices) = schema["enum"].as_array()
        && !choices.contains(value)
    {
        return Err(format!("{way}: {value} is not one of them"));
    }
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(several) => several.iter().filter_map(Json::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|sort| is_a(sort, value)) {
        return Err(format!("{way}: {value} is no {}", types.join(" or ")));
    }
    if let (Some(pattern), Some(text)) = (schema["pattern"].as_str(), value.as_str())
        && !regex::Regex::new(pattern).unwrap().is_match(text)
    {
        return Err(format!("{way}: {value} does not match {pattern}"));
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        if let Some(items) = schema.get("items") {
            fits(root, items, item, &format!("{way}/{index}"))?;
        }
    }
    let Some(map) = value.as_object() else { return Ok(()) };
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str) {
        map.get(name).map(drop).ok_or_else(|| format!("{way}: {name} is missing"))?;
    }
    for (key, item) in map {
        let way = format!("{way}/{key}");
        let marked = schema["patternProperties"].as_object().into_iter().flatten();
        let marked = marked.filter(|(pattern, _)| regex::Regex::new(pattern).unwrap().is_match(key)).count();
        match (schema["properties"].get(key), &schema["additionalProperties"]) {
            (Some(own), _) => fits(root, own, item, &way)?,
            (None, _) if marked > 0 => {}
            (None, Json::Bool(false)) => return Err(format!("{way}: unknown")),
            (None, Json::Object(_)) => fits(root, &schema["additionalProperties"], item, &way)?,
            _ => {}
        }
    }
    Ok(())
}

fn is_a(sort: &str, value: &Json) -> bool {
    match sort {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other} is no type"),
    }
}

/// Renders a text and holds it against the schema.
fn refused(text: &str) -> Option<String> {
    // What the examples ask for.
    let facts = json!({"host": "web-01", "os": "Debian"});
    let app = json!({"name": "shop", "port": 80, "pages": ["home", "about"]});
    let settings = json!({"root": "/srv", "app": app, "db": {"password": "x"}});
    let rendered = with_inputs(&files(&[]), |inputs| {
        let inputs = Inputs { tree_name: "", facts: &facts, settings: &settings, ..*inputs };
        render(&inputs, "c.zy", text, &serde_json::Map::new())
    });
    let rendered = rendered.unwrap_or_else(|(_, diagnostics)| panic!("{diagnostics:?}\n{text}"));
    let node =
        parse_yaml(FileId(0), &rendered).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}\n{text}"));
    misfit(zester_resources::schema_once(), &node.to_json())
}

/// The `yaml` blocks of a page.
fn blocks(page: &str) -> Vec<String> {
    let parts = page.split("```yaml\n").skip(1);
    parts.map(|part| part.split("```").next().unwrap_or_default().to_string()).collect()
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

#[test]
#[rule("S-3")]
fn s3_the_schema_takes_every_page_that_shows_states() {
    let docs = std::fs::read_dir(workspace().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.chain([workspace().join("README.md")]);
    let mut texts: Vec<(String, String)> = Vec::new();
    for page in pages.filter(|path| path.extension().is_some_and(|end| end == "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        // A schedule names functions too, but declares no state.
        let shows = |block: &String| catalog().names().any(|kind| block.contains(&format!("{kind}:")));
        texts
            .extend(blocks(&text).into_iter().filter(shows).map(|block| (page.display().to_string(), block)));
    }
    assert!(texts.iter().any(|(page, _)| page.ends_with("README.md")), "the README shows no states");
    for kind in catalog().iter() {
        texts.extend(blocks(&kind.doc).into_iter().map(|block| (kind.name.to_string(), block)));
    }
    for place in ["examples", "crates/compile/tests/seeds"] {
        texts.extend(state_files(&workspace().join(place)));
    }
    assert!(texts.len() > 30, "{}", texts.len());
    for (page, text) in texts.iter().filter(|(page, _)| !page.contains("fragment")) {
        assert_eq!(refused(text), None, "{page}:\n{text}");
    }
}

fn state_files(root: &Path) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut rest = vec![root.to_path_buf()];
    while let Some(path) = rest.pop() {
        // Settings and rules declare no states, and a tree for Salt is templates.
        if ["settings", "reactor/reactor", "examples/salt"].iter().any(|place| path.ends_with(place)) {
            continue;
        }
        if path.is_dir() {
            rest.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else if path
            .extension()
            .is_some_and(|end| ["zy", "sls"].contains(&end.to_str().unwrap_or_default()))
        {
            found.push((path.display().to_string(), std::fs::read_to_string(&path).unwrap()));
        }
    }
    found
}

#[test]
#[rule("S-3")]
fn s3_the_schema_takes_every_tree_of_the_conformance_cases() {
    let mut tried = 0;
    let cases = workspace().join("crates/cli/tests/local/conformance");
    for file in ["states.toml", "more/files.toml", "more/extras.toml", "more/requisites.toml"] {
        let text = std::fs::read_to_string(cases.join(file)).unwrap().replace("@T@", "/t");
        let read: toml::Table = text.parse().unwrap();
        for case in read["case"].as_array().unwrap() {
            let written = case.get("files").and_then(|files| files.as_table()).into_iter().flatten();
            let tree: Vec<(&str, &str)> = written
                .filter_map(|(path, text)| Some((path.strip_prefix("states/")?, text.as_str()?)))
                .collect();
            let states = tree.iter().filter(|(path, _)| path.ends_with(".zy") || path.ends_with(".sls"));
            for (path, _) in states.filter(|(path, _)| !path.starts_with("top.")) {
                // What compiles is held against the schema there.
                tried += usize::from(asked(&tree, path).diagnostics.is_empty());
            }
        }
    }
    assert!(tried > 50, "{tried}");
}

#[test]
#[rule("S-3")]
fn s3_the_schema_takes_every_form_that_the_compiler_takes() {
    for text in [
        "/x: file.absent\n",
        "/x:\n  file.managed:\n    - source: salt://x\n",
        "/x:\n  file.managed:\n    - source: [salt://x, salt://y]\n    - mode: 0644\n    - user: 0\n",
        "/x:\n  file.managed:\n    - contents: [a, b]\n    - backup: true\n    - makedirs: 'yes'\n    - replace: no\n",
        "/x:\n  file.directory:\n    - recurse: mode\n    - mode: '0755'\n",
        "/x:\n  file.directory: {recurse: [user, group], user: root}\n",
        "x:\n  cmd.run: [{env: {A: 1}}, {timeout: 5}, {returns: 0}, {creates: /x}, {command: 'true'}]\n",
        "x:\n  cmd.run:\n    - env: [A: b, C=d]\n    - require:\n      - y\n      - test: y\n    - watch: {test: y}\ny:\n  test.nop:\n",
        "x:\n  test.nop:\n    - use: [test: y]\n    - onfail_all: [y]\n    - subscribe_in: [y]\n    - order: last\ny:\n  test.nop: []\n",
        "x:\n  test.nop: [{retry: true}, {onlyif: [{fun: test.echo, args: [x]}, 'true']}, {unless: false}]\n",
        "x:\n  test.nop: [{retry: {attempts: 3, interval: 2m, until: true, splay: 5}}, {failhard: on}]\n",
        "nginx:\n  pkg:\n    - installed\n    - version: 1.10\n",
        "a:\n  test.nop: []\nb:\n  test.nop: []\nexclude:\n  - id: a\n",
        "- file: {/x: {ensure: absent}}\n- package: [vim, {git: {ensure: '2'}}]\n- cmd.run: [also: {}]\n",
        "x:\n  module.run:\n    - file.touch: {path: /x}\n",
        "dirs:\n  file.directory:\n    - names: [/a, /b: [{mode: '0700'}]]\n",
        "",
    ] {
        let compiled = one(text);
        assert_eq!(texts(&compiled), Vec::<String>::new(), "{text}");
        assert!(binds(&compiled), "{text}");
        assert_eq!(refused(text), None, "{text}");
    }
}

#[test]
#[rule("S-3")]
fn s3_the_schema_refuses_what_the_compiler_refuses() {
    for text in [
        "x: 5\n",
        "x:\n  file.manged: []\n",
        "/x:\n  file.managed:\n    - contnet: a\n",
        "/x:\n  file.managed: {makedirs: maybe}\n",
        "/x:\n  file.managed:\n    - content: {a: b}\n",
        "/x:\n  file.directory:\n    - recurse: everything\n",
        "x:\n  test.nop:\n    - prereq_any: [y]\n",
        "x:\n  test.nop:\n    - listen_any: [y]\n",
        "x:\n  test.nop:\n    - require: [[y]]\n",
        "x:\n  test.nop:\n    - order: soon\n",
        "x:\n  test.nop:\n    - retry: {attempt: 3}\n",
        "x:\n  test.nop:\n    - failhard: 5\n",
        "x:\n  test.nop:\n    - fire_event: true\n",
        "x:\n  test.nop: nothing\n",
        "x:\n  test.nop:\n    - loose\n",
        "include: [{a: b}]\n",
        "exclude: [{file: a}]\n",
        "- widget: {x: {}}\n",
        "just a text\n",
    ] {
        let compiled = one(text);
        assert!(!texts(&compiled).is_empty() || !binds(&compiled), "{text}");
        assert!(refused(text).is_some(), "{text}");
    }
}

#[test]
#[rule("S-11")]
fn s11_the_docs_name_every_word_of_the_table() {
    let page = std::fs::read_to_string(workspace().join("docs/requisites.md")).unwrap();
    let words = zester_model::keywords::REQUISITES.iter().map(|it| it.word);
    let words = words.chain(zester_model::keywords::ATTRIBUTES.iter().map(|it| it.word));
    for word in words.chain(zester_model::keywords::FILE_KEYS.iter().map(|(word, _)| *word)) {
        assert!(["`", ":"].iter().any(|end| page.contains(&format!("`{word}{end}"))), "`{word}` is missing");
    }
}
