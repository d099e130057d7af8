//! `sys.*`: what there is to call, told by itself.

use super::acting::ACTING;
use super::{FUNCTIONS, Function, find, maybe, text, told};
use crate::tree_functions::OF_TREES;
use serde_json::{Map, Value as Json, json};

pub(super) const TABLE: &[Function] = &[
    told(
        "sys.argspec",
        &[maybe("name")],
        "sys.argspec [NAME]: what a function takes, or all of a module, or all",
        |_, args| {
            let wanted = args.optional(0, "name")?;
            let one = |function: &Function| {
                let names: Vec<&str> = function.takes.iter().map(|takes| takes.name).collect();
                let required = function.takes.iter().filter(|takes| takes.required).map(|takes| takes.name);
                (
                    function.name.to_string(),
                    json!({ "args": names, "required": required.collect::<Vec<_>>() }),
                )
            };
            let fits =
                |function: &&Function| wanted.as_deref().is_none_or(|wanted| is_of(function.name, wanted));
            found(FUNCTIONS.iter().filter(fits).map(one).collect(), wanted.as_deref())
        },
    ),
    told(
        "sys.doc",
        &[maybe("name")],
        "sys.doc [NAME]: a line about a function, or about all of a module, or all",
        |_, args| {
            let wanted = args.optional(0, "name")?;
            // Another name of a function is as good.
            let asked = wanted.as_deref().map(|name| find(name).map_or(name, |function| function.name));
            let docs = all_functions().filter(|(name, _)| asked.is_none_or(|wanted| is_of(name, wanted)));
            found(docs.map(|(name, doc)| (name.to_string(), json!(doc))).collect(), wanted.as_deref())
        },
    ),
    told(
        "sys.list_functions",
        &[maybe("module")],
        "sys.list_functions [MODULE]: the names of all execution functions, or those of a module",
        |_, args| {
            let wanted = args.optional(0, "module")?;
            let fits = |name: &&str| wanted.as_deref().is_none_or(|wanted| is_of(name, wanted));
            let mut names: Vec<&str> = all_functions().map(|(name, _)| name).filter(fits).collect();
            names.sort_unstable();
            Ok(json!(names))
        },
    ),
    told("sys.list_modules", &[], "sys.list_modules: the modules that have execution functions", |_, _| {
        Ok(json!(modules(all_functions().map(|(name, _)| name))))
    }),
    told(
        "sys.list_state_functions",
        &[maybe("module")],
        "sys.list_state_functions [MODULE]: the names of all kinds of state, or those of a module",
        |_, args| {
            let wanted = args.optional(0, "module")?;
            let fits = |name: &&str| wanted.as_deref().is_none_or(|wanted| is_of(name, wanted));
            let mut names: Vec<&str> = zester_resources::catalog().names().filter(fits).collect();
            names.sort_unstable();
            Ok(json!(names))
        },
    ),
    told(
        "sys.list_state_modules",
        &[],
        "sys.list_state_modules: the modules that have kinds of state",
        |_, _| Ok(json!(modules(zester_resources::catalog().names()))),
    ),
    told(
        "sys.state_argspec",
        &[text("name")],
        "sys.state_argspec NAME: what a kind of state takes",
        |_, args| {
            let name = args.text(0, "name")?;
            let Some(kind) = zester_resources::catalog().get(&name) else {
                return Err(format!("there is no kind of state `{name}`"));
            };
            let names: Vec<&str> = kind.parameters.iter().map(|parameter| parameter.name).collect();
            let required =
                kind.parameters.iter().filter(|parameter| parameter.required).map(|parameter| parameter.name);
            Ok(json!({ name: { "args": names, "required": required.collect::<Vec<_>>() } }))
        },
    ),
    told(
        "sys.state_doc",
        &[maybe("name")],
        "sys.state_doc [NAME]: the manual page of a kind of state, or a line about all of a module",
        |_, args| {
            let wanted = args.optional(0, "name")?;
            let catalog = zester_resources::catalog();
            if let Some(kind) = wanted.as_deref().and_then(|name| catalog.get(name)) {
                return Ok(json!({ kind.name: kind.doc }));
            }
            let fits = |name: &str| wanted.as_deref().is_none_or(|wanted| is_of(name, wanted));
            let kinds = catalog.iter().filter(|kind| fits(kind.name));
            found(kinds.map(|kind| (kind.name.to_string(), json!(kind.summary))).collect(), wanted.as_deref())
        },
    ),
];

/// Names and docs of all that can be called and is no kind of state.
fn all_functions() -> impl Iterator<Item = (&'static str, &'static str)> {
    let plain = FUNCTIONS.iter().map(|function| (function.name, function.doc));
    let acting = ACTING.iter().map(|acting| (acting.name, acting.doc));
    plain.chain(acting).chain(OF_TREES.iter().map(|function| (function.name, function.doc)))
}

/// `file` and `file.find` name themselves, and `file` all of its functions.
fn is_of(name: &str, wanted: &str) -> bool {
    name == wanted || name.split('.').next() == Some(wanted)
}

fn modules<'a>(names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut modules: Vec<&str> = names.filter_map(|name| name.split('.').next()).collect();
    modules.sort_unstable();
    modules.dedup();
    modules
}

/// Of what is asked for by name, nothing is an error.
fn found(found: Map<String, Json>, wanted: Option<&str>) -> Result<Json, String> {
    match wanted {
        Some(wanted) if found.is_empty() => Err(format!("there is no function and no module `{wanted}`")),
        _ => Ok(Json::Object(found)),
    }
}

#[cfg(test)]
mod tests {
    use crate::functions::try_function::TestHost;
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread")]
    async fn what_there_is_tells_of_itself() {
        let machine = TestHost::with(&[]);
        let doc = machine.call("sys.doc", &["test.ping"]).unwrap();
        assert_eq!(doc, json!({ "test.ping": "test.ping: true" }));
        assert_eq!(
            machine.call("sys.doc", &["pillar.get"]).unwrap().as_object().map(serde_json::Map::len),
            Some(1)
        );
        let spec = machine.call("sys.argspec", &["file.grep"]).unwrap();
        assert_eq!(
            spec["file.grep"],
            json!({ "args": ["path", "pattern"], "required": ["path", "pattern"] })
        );
        let names = machine.call("sys.list_functions", &["ps"]).unwrap();
        assert!(names.as_array().unwrap().iter().all(|name| name.as_str().unwrap().starts_with("ps.")));
        for module in ["file", "pkg", "user", "state"] {
            assert!(
                machine.call("sys.list_modules", &[]).unwrap().as_array().unwrap().contains(&json!(module)),
                "{module}"
            );
        }
        assert!(
            machine.call("sys.list_state_functions", &["nftables"]).unwrap().as_array().unwrap().len() > 5
        );
        assert!(
            machine.call("sys.state_doc", &["file.managed"]).unwrap()["file.managed"]
                .as_str()
                .unwrap()
                .contains("```yaml")
        );
        assert_eq!(
            machine.call("sys.doc", &["nothing"]),
            Err("there is no function and no module `nothing`".into())
        );
    }
}
