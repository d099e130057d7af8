//! Functions that belong to templates, called by themselves: data is merged and written, files of the states directory are
//! listed. They are rendered, so that a call says what a template would get.

use super::{Arguments, CallContext, Function, Takes, by_name, maybe, text, told, value};
use crate::inputs::Inputs;
use crate::local_host::LocalHost;
use serde_json::{Map, Value as Json};
use tokio_util::sync::CancellationToken;

/// A value that must be given.
const fn needed(name: &'static str) -> Takes {
    Takes { required: true, ..value(name) }
}

const PATH: &[Takes] = &[text("path")];
const PREFIX: &[Takes] = &[by_name("prefix", true)];
const FILTER: &[Takes] = &[
    needed("lookup_dict"),
    by_name("grain", true),
    by_name("merge", false),
    by_name("default", true),
    by_name("base", true),
];

const fn row(name: &'static str, takes: &'static [Takes], doc: &'static str) -> Function {
    told(name, takes, doc, without_files)
}

pub(super) const TABLE: &[Function] = &[
    row("cp.get_file_str", PATH, "cp.get_file_str PATH: the text of a file of the states directory"),
    row("cp.hash_file", PATH, "cp.hash_file PATH: the digest of a file of the states directory"),
    row(
        "cp.list_master",
        PREFIX,
        "cp.list_master: the files of the states directory; prefix= those below one",
    ),
    row("cp.list_master_dirs", PREFIX, "cp.list_master_dirs: the directories of the states directory"),
    row("cp.list_states", &[], "cp.list_states: the references that can be applied"),
    row("defaults.deepcopy", &[needed("source")], "defaults.deepcopy VALUE: the value"),
    row(
        "defaults.get",
        &[text("key"), value("default")],
        "defaults.get KEY [DEFAULT]: what FORMULA/defaults.yaml says of `FORMULA:KEY`",
    ),
    row(
        "defaults.merge",
        &[needed("dest"), needed("upd"), by_name("merge_lists", false)],
        "defaults.merge MAP MAP: both maps as one, the second over the first, level by level",
    ),
    row(
        "defaults.update",
        &[needed("dest"), needed("defaults"), by_name("merge_lists", false)],
        "defaults.update MAP DEFAULTS: every map of a map, over what is said for all of them",
    ),
    row(
        "grains.equals",
        &[text("key"), needed("value")],
        "grains.equals KEY VALUE: whether a fact has this value",
    ),
    row(
        "grains.filter_by",
        FILTER,
        "grains.filter_by MAP: the entry that fits this machine, by `os_family` unless grain= names another fact",
    ),
    row(
        "pillar.filter_by",
        &[
            needed("lookup_dict"),
            by_name("pillar", true),
            by_name("merge", false),
            by_name("default", true),
            by_name("base", true),
        ],
        "pillar.filter_by MAP: the entry that the setting named by pillar= chooses",
    ),
    row(
        "slsutil.boolstr",
        &[needed("value"), value("true"), value("false")],
        "slsutil.boolstr VALUE [TRUE] [FALSE]: one text or the other",
    ),
    row(
        "slsutil.deserialize",
        &[text("serializer"), text("stream_or_string")],
        "slsutil.deserialize FORMAT TEXT: the data of a text in yaml or json",
    ),
    row("slsutil.dir_exists", PATH, "slsutil.dir_exists PATH: whether the states directory has a directory"),
    row("slsutil.file_exists", PATH, "slsutil.file_exists PATH: whether the states directory has a file"),
    row(
        "slsutil.merge",
        &[needed("obj_a"), needed("obj_b"), by_name("strategy", true), by_name("merge_lists", false)],
        "slsutil.merge MAP MAP: both maps as one, the second over the first, level by level",
    ),
    row(
        "slsutil.merge_all",
        &[needed("lst"), by_name("strategy", true), by_name("merge_lists", false)],
        "slsutil.merge_all LIST: the maps of a list as one, each over those before it",
    ),
    row("slsutil.path_exists", PATH, "slsutil.path_exists PATH: whether the states directory has it"),
    row(
        "slsutil.serialize",
        &[text("serializer"), needed("obj"), by_name("default_flow_style", false), by_name("indent", false)],
        "slsutil.serialize FORMAT VALUE: a value as a text in yaml, json or python",
    ),
    row(
        "slsutil.update",
        &[
            needed("dest"),
            maybe_value("upd"),
            by_name("recursive_update", false),
            by_name("merge_lists", false),
        ],
        "slsutil.update MAP [MAP]: a map with another laid over it",
    ),
];

const fn maybe_value(name: &'static str) -> Takes {
    Takes { text: false, ..maybe(name) }
}

/// Where there is no template and no call by itself: in a state of `module.run`.
fn without_files(_: &CallContext<'_>, _: &Arguments) -> Result<Json, String> {
    Err("it is for templates, and for `zester call`".into())
}

pub(super) fn is_of_templates(function: &Function) -> bool {
    TABLE.iter().any(|own| own.name == function.name)
}

/// What a template would get. The values go in as variables: none of them is read as a template.
pub(super) fn answer(
    function: &Function,
    arguments: &Arguments,
    inputs: &Inputs,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<Json, String> {
    function.check(arguments)?;
    // By their places, as far as that goes: `true` could not be a name there.
    let ordered = function.takes.iter().filter(|takes| !takes.by_name).enumerate();
    let placed: Vec<(&str, &Json)> =
        ordered.map_while(|(at, takes)| Some((takes.name, arguments.get(at, takes.name)?))).collect();
    let given = (0..placed.len()).map(|at| format!("given[{at}]"));
    let others = arguments.named.keys().filter(|name| !placed.iter().any(|(own, _)| own == name));
    let named = others.map(|name| format!("{name}=named['{name}']"));
    let words = given.chain(named).collect::<Vec<_>>().join(", ");
    let expression = format!("{{{{ salt['{}']({words}) | tojson }}}}", function.name);
    let context = Map::from_iter([
        ("given".to_string(), placed.iter().map(|(_, value)| (*value).clone()).collect()),
        ("named".to_string(), Json::Object(arguments.named.clone())),
    ]);
    let rendered = inputs.with(local_host, cancel, |lent| {
        zester_compile::render(lent, "call", &expression, &context).map_err(|(sources, diagnostics)| {
            let why = diagnostics.first().map(|diagnostic| diagnostic.report(&sources).message);
            why.unwrap_or_else(|| "it cannot be rendered".into())
        })
    })?;
    serde_json::from_str(&rendered).map_err(|error| format!("its answer cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{Access, find};
    use crate::inputs::CompileRequest;
    use serde_json::json;
    use std::sync::Arc;

    /// Calls it beside a small tree.
    fn call(name: &str, positional: &[Json], named: &[(&str, Json)]) -> Result<Json, String> {
        let temp = tempfile::tempdir().unwrap();
        for (file, text) in [("web/init.zy", "{}"), ("web/defaults.yaml", "port: 80\nname: {{ 1 + 1 }}\n")] {
            let path = temp.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let request = CompileRequest {
            references: Vec::new(),
            states: Some(temp.path().to_path_buf()),
            settings: Default::default(),
            facts: None,
            id: Some("here".into()),
            ordered: false,
            environment: None,
            only: None,
            access: Access::ReadOnly,
            renderers: Default::default(),
            data_dir: None,
        };
        let named = named.iter().map(|(name, value)| (name.to_string(), value.clone())).collect();
        let arguments = Arguments { positional: positional.to_vec(), named };
        let (function, cancel) = (find(name).unwrap(), CancellationToken::new());
        tokio::task::block_in_place(|| {
            crate::call::answer(function, &arguments, &request, &local_host, &cancel)
                .map_err(|error| error.to_string())
        })
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_templates_call_is_called_by_itself_too() {
        let maps = [json!({ "a": { "b": 1 } }), json!({ "a": { "c": "{{ 7 * 7 }}" } })];
        for (name, positional, named, wanted) in [
            ("slsutil.merge", &maps[..], &[][..], json!({ "a": { "b": 1, "c": "{{ 7 * 7 }}" } })),
            ("slsutil.merge_all", &[json!(maps)], &[], json!({ "a": { "b": 1, "c": "{{ 7 * 7 }}" } })),
            ("slsutil.boolstr", &[json!(true)], &[("true", json!("on"))], json!("on")),
            ("slsutil.serialize", &[json!("json"), json!([1])], &[], json!("[1]")),
            ("slsutil.deserialize", &[json!("yaml"), json!("a: 1")], &[], json!({ "a": 1 })),
            ("slsutil.file_exists", &[json!("web/init.zy")], &[], json!(true)),
            ("defaults.get", &[json!("web:port")], &[], json!(80)),
            ("cp.list_states", &[], &[], json!(["web"])),
            (
                "grains.filter_by",
                &[json!({ "x": 1, "default": 2 })],
                &[("default", json!("default"))],
                json!(2),
            ),
        ] {
            assert_eq!(call(name, positional, named), Ok(wanted), "{name}");
        }
        let why = call("slsutil.merge", &[json!(1)], &[]).unwrap_err();
        assert!(why.contains("`obj_b` is missing"), "{why}");
        let why = call("slsutil.serialize", &[json!("toml"), json!(1)], &[]).unwrap_err();
        assert!(why.contains("there is no format `toml`"), "{why}");
    }

    /// Each of them is one that templates have.
    #[tokio::test(flavor = "multi_thread")]
    async fn every_row_is_a_function_of_templates() {
        for function in TABLE {
            let positional: Vec<Json> =
                function.takes.iter().filter(|takes| takes.required).map(|_| json!("{}")).collect();
            let why = call(function.name, &positional, &[]).err().unwrap_or_default();
            assert!(
                !why.contains("there is no function") && !why.contains("is for templates"),
                "{}: {why}",
                function.name
            );
        }
    }
}
