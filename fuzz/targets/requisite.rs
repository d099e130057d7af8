//! Arbitrary text through the requisite parser: alone, and as the value of a requisite in a state file.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value as Json};
use zester_compile::requisite::{parse_target, relation};
use zester_compile::{Ask, CallError, Functions, Inputs, Tree, compile};

struct OneFile(String);

impl Tree for OneFile {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        Ok((path == "fuzz.zy").then(|| self.0.clone()))
    }
}

struct Nothing;

impl Functions for Nothing {
    fn call(&self, _: &str, _: Vec<Json>, _: Map<String, Json>) -> Result<Json, CallError> {
        Err("nothing can be called".to_string().into())
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

fuzz_target!(|text: &str| {
    let _ = relation(text);
    let _ = parse_target(text);
    let (key, value) = text.split_once(' ').unwrap_or(("require", text));
    let lines = [
        format!("    - {key}: {value}").replace('\n', " "),
        format!("    - watch_in: {value}").replace('\n', " "),
    ];
    let file = format!("#!yaml\na:\n  test.nop:\n{}\nb:\n  test.nop:\n{}\n", lines[0], lines[1]);
    let inputs = Inputs {
        tree: &OneFile(file),
        tree_name: "states",
        catalog: zester_resources::catalog(),
        facts: &Json::Null,
        settings: &Json::Null,
        functions: &Nothing,
        id: "fuzz",
        ordered: false,
        environment: zester_compile::BASE,
    };
    let compiled = compile(&inputs, &Ask::References(vec!["fuzz.zy".into()]));
    for state in &compiled.program.states {
        assert!(state.edges.iter().all(|edge| edge.target < compiled.program.states.len()));
    }
});
