//! Event data against reaction files: whatever the data, the structure is what it is with harmless data, or the
//! file is refused. The first lines choose the file, the rest is the data.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value as Json, json};
use zester_compile::Tree;
use zester_compile::reaction::ReactionFile;
use zester_model::node::{Node, Value};

/// Files that say by themselves how many blocks, keys and items they have.
const FILES: [&str; 6] = [
    "b {{ data.v }}:\n  log:\n    message: {{ data.v }}\n    n: \"{{ data.w }} x\"\n",
    "b:\n  dispatch.module:\n    target: {{ data.v }}\n    args: [{{ data.v }}, '{{ data.w }}', x {{ data.v }}]\n",
    "b:\n  log:\n    m: |\n      {{ data.v }}\n       {{ data.w }}\n    o: >-\n      {{ data.w }}\n    n: 1\n",
    "{% macro m(x) %}- {{ x }}: {% endmacro %}b: {log: {m: {{ m(data.v) }}, '{{ data.w }}': {{ data.v | tojson }}}}",
    "{% set x %}{{ data.v }}\n{{ data.w }}{% endset %}b:\n  log:\n    m: {{ x }} # {{ x }}\n    n: {{ x | yaml }}\n",
    "b:\n  log:\n    m: &a {{ data.v }}\n    n: *a\n    ? {{ data.w }}\n    : \"{{ data.v | tojson }}\"\n",
];

struct NoFiles;

impl Tree for NoFiles {
    fn read(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }
}

fn shape(node: &Node) -> Json {
    match &node.value {
        Value::Scalar(_) => json!("-"),
        Value::List(items) => items.iter().map(shape).collect(),
        Value::Map(entries) => {
            json!({ "map": entries.iter().map(|(_, value)| shape(value)).collect::<Json>() })
        }
    }
}

fn render(text: &str, v: &str, w: &str) -> Result<Json, String> {
    let told = |diagnostics: Vec<zester_model::diagnostic::Diagnostic>| diagnostics[0].message.clone();
    let file = ReactionFile::parse("r.zy", text, &NoFiles).map_err(|(_, found)| told(found))?;
    let mut context = Map::new();
    context.insert("data".into(), json!({ "v": v, "w": w }));
    file.render(&context).map(|(node, _)| shape(&node)).map_err(|(_, found)| told(found))
}

fuzz_target!(|input: &str| {
    let mut letters = input.chars();
    let choice = letters.next().map_or(0, |letter| u32::from(letter) as usize);
    let (v, w) = letters.as_str().split_once('\u{1}').unwrap_or((letters.as_str(), "w"));
    let text = FILES[choice % FILES.len()];
    let harmless = render(text, "harmless", "other").expect("these files are good");
    match render(text, v, w) {
        Ok(shape) => assert_eq!(shape, harmless, "{text}"),
        // Two keys may become one, YAML cannot write every character, and no event widens a target.
        Err(why) => {
            let refusals = ["duplicate key", "cannot be read", "may name one peel"];
            assert!(refusals.iter().any(|refusal| why.contains(refusal)), "{why}");
        }
    }
    // Any text is also a file: whatever it says, nothing panics.
    if let Ok(file) = ReactionFile::parse("r.zy", letters.as_str(), &NoFiles) {
        let mut context = Map::new();
        context.insert("data".into(), json!({ "v": v, "w": w }));
        let _ = file.render(&context);
    }
});
