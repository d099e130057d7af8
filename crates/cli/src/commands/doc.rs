//! `zester doc`

use crate::answer::{self, Answer, Failure};
use crate::app::App;
use crate::exit::Exit;
use crate::output::{manual, wrap};
use serde_json::json;
use std::io::IsTerminal;
use zester_converge::functions::acting::ACTING;
use zester_converge::functions::{self, FUNCTIONS};
use zester_converge::tree_functions::OF_TREES;
use zester_model::catalog::Kind;
use zester_model::suggest::did_you_mean;

/// Pages about the language itself, the same that the project's docs hold.
pub(crate) const TOPICS: &[(&str, &str)] = &[
    ("requisites", include_str!("../../../../docs/requisites.md")),
    ("templates", include_str!("../../../../docs/templates.md")),
];

/// Show the built-in reference
///
/// Without a name, lists every kind of state and every function; with `file`, those of one module; with `file.managed`,
/// the whole page. `requisites` and `templates` explain the language.
#[derive(clap::Args, Debug)]
pub struct Doc {
    /// A module (`file`), a kind of state (`file.managed`), a function (`facts.items`) or a topic (`requisites`)
    #[arg(value_name = "MOD[.FN]")]
    pub name: Option<String>,
}

pub fn run(args: Doc, app: &mut App) -> answer::Result {
    let catalog = zester_resources::catalog();
    let paint = app.output.paint();
    let name = args.name.unwrap_or_default();
    let answer = if let Some(kind) = catalog.get(&name) {
        Answer::Document { json: page(kind), text: manual::page(kind, paint) }
    } else if let Some(function) = functions::find(&name) {
        let json = json!({ "name": name, "doc": function.doc });
        Answer::Document { json, text: format!("{}\n", function.doc) }
    } else if let Some(acting) = ACTING.iter().find(|acting| acting.name == name) {
        let kind = acting.kind;
        let json = json!({ "name": name, "doc": acting.doc, "kind": kind });
        let text = format!("{}\n\nIt is a run of the kind {kind}: `zester doc {kind}`\n", acting.doc);
        Answer::Document { json, text }
    } else if let Some(function) = OF_TREES.iter().find(|function| function.name == name) {
        let json = json!({ "name": name, "doc": function.doc });
        Answer::Document { json, text: format!("{}\n", function.doc) }
    } else if let Some((topic, page)) = TOPICS.iter().find(|(topic, _)| *topic == name) {
        Answer::Document {
            json: json!({ "name": topic, "doc": page }),
            text: manual::plain_markdown(page, paint),
        }
    } else {
        let module = |full: &str| name.is_empty() || full.split('.').next() == Some(&name);
        let kinds: Vec<&Kind> = catalog.iter().filter(|kind| module(kind.name)).collect();
        let mut functions: Vec<_> = FUNCTIONS.iter().filter(|function| module(function.name)).collect();
        functions.sort_by_key(|function| function.name);
        let mut acting: Vec<_> = ACTING.iter().filter(|acting| module(acting.name)).collect();
        acting.sort_by_key(|acting| acting.name);
        let trees: Vec<_> = OF_TREES.iter().filter(|function| module(function.name)).collect();
        if kinds.is_empty() && functions.is_empty() && acting.is_empty() && trees.is_empty() {
            let known = catalog.names().chain(FUNCTIONS.iter().map(|function| function.name));
            let known = known.chain(ACTING.iter().map(|acting| acting.name));
            let known = known.chain(OF_TREES.iter().map(|function| function.name)).chain(["state"]);
            let modules = catalog.names().filter_map(|name| name.split('.').next());
            let topics = TOPICS.iter().map(|(topic, _)| *topic);
            let hint = did_you_mean(&name, known.chain(modules).chain(topics))
                .unwrap_or("`zester doc` lists what there is".into());
            return Err(Failure::usage(format!("there is no module, kind or function `{name}`; {hint}")));
        }
        let json = json!({
            "states": kinds.iter().map(|kind| json!({ "name": kind.name, "summary": kind.summary })).collect::<Vec<_>>(),
            "functions": functions.iter().map(|f| json!({ "name": f.name, "doc": f.doc })).collect::<Vec<_>>(),
            "acting_functions": acting.iter().map(|f| json!({ "name": f.name, "doc": f.doc, "kind": f.kind })).collect::<Vec<_>>(),
            "tree_functions": trees.iter().map(|f| json!({ "name": f.name, "doc": f.doc })).collect::<Vec<_>>(),
        });
        Answer::Document { json, text: manual::index(&kinds, &functions, &acting, &trees, paint) }
    };
    Ok((for_a_terminal(answer), Exit::Good))
}

/// What goes to a file or a pager keeps its lines.
fn for_a_terminal(answer: Answer) -> Answer {
    match answer {
        Answer::Document { json, text } if std::io::stdout().is_terminal() => {
            Answer::Document { json, text: wrap::wrap(&text, wrap::WIDTH) }
        }
        answer => answer,
    }
}

fn page(kind: &Kind) -> serde_json::Value {
    let parameters: Vec<_> = kind
        .parameters
        .iter()
        .map(|p| json!({ "name": p.name, "aliases": p.aliases, "required": p.required, "takes": p.takes, "doc": p.doc }))
        .collect();
    json!({ "name": kind.name, "summary": kind.summary, "doc": kind.doc, "primary": kind.primary, "parameters": parameters })
}
