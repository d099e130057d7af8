//! A states dir in memory, the catalog of the product, and problems as plain text.

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use zester_compile::{Ask, CallError, Compiled, Functions, Inputs, Tree, compile};
use zester_model::catalog::Catalog;
use zester_model::diagnostic::Diagnostic;
use zester_model::program::State;
use zester_model::source::{FileId, Sources};

pub struct Files(BTreeMap<String, String>);

impl Tree for Files {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        match path {
            "locked.zy" => Err("permission denied".into()),
            _ => Ok(self.0.get(path).cloned()),
        }
    }

    fn files(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }
}

pub fn files(files: &[(&str, &str)]) -> Files {
    Files(files.iter().map(|(path, text)| (path.to_string(), text.to_string())).collect())
}

pub struct Echo;

impl Functions for Echo {
    fn call(
        &self,
        name: &str,
        args: Vec<Json>,
        kwargs: serde_json::Map<String, Json>,
    ) -> Result<Json, CallError> {
        match name {
            "test.echo" => Ok(args.into_iter().next().unwrap_or(Json::Null)),
            "test.kwargs" => Ok(Json::Object(kwargs)),
            "cmd.run" => Err("commands are not allowed here".to_string().into()),
            "file.read" => Err(CallError::Elsewhere("ask it there".into())),
            _ => Err(format!("no {name}").into()),
        }
    }

    fn names(&self) -> Vec<String> {
        ["test.echo", "test.kwargs", "cmd.run", "cmd.run_all", "file.read"].map(String::from).to_vec()
    }
}

/// The kinds of the product.
pub fn catalog() -> &'static Catalog {
    zester_resources::catalog()
}

pub fn facts() -> Json {
    json!({"os": "Debian", "os_family": "Debian", "num_cpus": 4, "nested": {"deep": {"x": 7}}, "roles": ["web", "db"]})
}

pub fn settings() -> Json {
    json!({"app": {"port": 8080, "name": "shop"}, "list": [1, 2], "icon": "\u{100000}\u{108000}"})
}

/// What a compile looks at, in the usual surroundings.
pub fn with_inputs<T>(tree: &Files, work: impl FnOnce(&Inputs<'_>) -> T) -> T {
    work(&Inputs {
        tree,
        tree_name: "states",
        catalog: catalog(),
        facts: &facts(),
        settings: &settings(),
        functions: &Echo,
        id: "web-01",
        ordered: false,
        environment: zester_compile::BASE,
    })
}

pub fn run(tree: &Files, ask: &Ask, ordered: bool) -> Compiled {
    run_in(zester_compile::BASE, tree, ask, ordered)
}

/// The same in another environment.
pub fn run_in(environment: &str, tree: &Files, ask: &Ask, ordered: bool) -> Compiled {
    let compiled = with_inputs(tree, |inputs| compile(&Inputs { ordered, environment, ..*inputs }, ask));
    if compiled.diagnostics.is_empty() && binds(&compiled) {
        fits_the_schema(&compiled);
    }
    compiled
}

/// Whether the values of all states have their types, too.
pub fn binds(compiled: &Compiled) -> bool {
    let bound = |state: &State| zester_resources::bind(state.name.kind(), &state.params, state.span).is_ok();
    compiled.program.states.iter().all(bound)
}

/// Whatever compiles fits the schema; templates and what is very large are left to its own tests.
fn fits_the_schema(compiled: &Compiled) {
    const LARGE: usize = 16 * 1024;
    for file in compiled.sources.iter().filter(|file| file.text.len() < LARGE) {
        // Files for Salt are read as Salt reads them, which is more than the schema takes.
        let states = [".zy", ".yaml"].iter().any(|end| file.path.ends_with(end));
        let plain = !["{{", "{%", "{#"].iter().any(|sign| file.text.contains(sign));
        if states && plain && !file.path.contains("top.") {
            let node = zester_compile::parse_yaml(FileId(0), &file.text).unwrap();
            let misfit = crate::schema::misfit(zester_resources::schema_once(), &node.to_json());
            assert_eq!(misfit, None, "{}:\n{}", file.path, file.text);
        }
    }
}

pub fn asked(list: &[(&str, &str)], reference: &str) -> Compiled {
    run(&files(list), &Ask::References(vec![reference.into()]), false)
}

/// Compiles one file as `c`.
pub fn one(text: &str) -> Compiled {
    asked(&[("c.zy", text)], "c")
}

/// `states/c.zy:3:5: message [hint] {label}`, one line a problem.
pub fn texts(compiled: &Compiled) -> Vec<String> {
    compiled.diagnostics.iter().map(|diagnostic| text(compiled, diagnostic)).collect()
}

pub fn text(compiled: &Compiled, diagnostic: &Diagnostic) -> String {
    text_in(&compiled.sources, diagnostic)
}

pub fn text_in(sources: &Sources, diagnostic: &Diagnostic) -> String {
    let mut line = diagnostic.span.map(|span| format!("{}: ", sources.place(span))).unwrap_or_default();
    line.push_str(&diagnostic.message);
    if let Some(hint) = &diagnostic.hint {
        line.push_str(&format!(" [{hint}]"));
    }
    for label in &diagnostic.labels {
        line.push_str(&format!(" {{{} {}}}", sources.place(label.span), label.text));
    }
    line
}

/// The one problem of a file.
pub fn diagnostic(source: &str) -> String {
    let compiled = one(source);
    let found = texts(&compiled);
    assert_eq!(found.len(), 1, "{found:#?}");
    found[0].clone()
}

pub fn names(compiled: &Compiled) -> Vec<String> {
    assert_eq!(texts(compiled), Vec::<String>::new());
    compiled.program.states.iter().map(|state| state.name.to_string()).collect()
}

pub fn state<'c>(compiled: &'c Compiled, name: &str) -> &'c State {
    assert_eq!(texts(compiled), Vec::<String>::new());
    let found = compiled.program.states.iter().find(|state| state.name.as_str() == name);
    found.unwrap_or_else(|| panic!("no {name} among {:?}", names(compiled)))
}

/// `kind target`, one for each edge.
pub fn edges(compiled: &Compiled, name: &str) -> Vec<String> {
    let target = |index: usize| compiled.program.states[index].name.to_string();
    state(compiled, name).edges.iter().map(|edge| format!("{} {}", edge.kind, target(edge.target))).collect()
}

pub fn prereqs(compiled: &Compiled, name: &str) -> Vec<String> {
    state(compiled, name).prereq.iter().map(|at| compiled.program.states[*at].name.to_string()).collect()
}

/// A parameter as JSON.
pub fn param(compiled: &Compiled, name: &str, parameter: &str) -> Json {
    let state = state(compiled, name);
    let found = state.params.iter().find(|param| param.name == parameter);
    found.unwrap_or_else(|| panic!("{name} has no {parameter}")).value.to_json()
}
