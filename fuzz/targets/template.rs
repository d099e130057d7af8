//! Arbitrary text through the template pass: rewritten, rendered, composed, compiled.

#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value as Json, json};
use zester_compile::{Ask, CallError, Functions, Inputs, Tree, compile};
use zester_model::catalog::Catalog;

struct OneFile<'a>(&'a str);

impl Tree for OneFile<'_> {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        Ok((path == "fuzz.zy").then(|| self.0.to_string()))
    }
}

struct Nothing;

impl Functions for Nothing {
    fn call(&self, name: &str, args: Vec<Json>, _: Map<String, Json>) -> Result<Json, CallError> {
        if name == "test.echo" {
            Ok(args.into_iter().next().unwrap_or_default())
        } else {
            Err("no such function".to_string().into())
        }
    }

    fn names(&self) -> Vec<String> {
        vec!["test.echo".into()]
    }
}

fuzz_target!(|text: &str| {
    let catalog = Catalog::default();
    let facts = json!({ "os": "Debian", "num_cpus": 2, "ipv4": ["127.0.0.1"] });
    let settings = json!({ "a": { "b": [1, "two", { "three": 3 }] } });
    let inputs = Inputs {
        tree: &OneFile(text),
        tree_name: "states",
        catalog: &catalog,
        facts: &facts,
        settings: &settings,
        functions: &Nothing,
        id: "fuzz",
        ordered: false,
        environment: zester_compile::BASE,
    };
    let compiled = compile(&inputs, &Ask::References(vec!["fuzz.zy".into()]));
    for diagnostic in &compiled.diagnostics {
        let _ = diagnostic.report(&compiled.sources);
    }
});
