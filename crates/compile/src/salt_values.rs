//! Values of `.sls` files that Salt takes for something else than they look (S-49): Python finds an empty text untrue, and
//! 0 and 1 as good as the truth values.

use crate::declare::Item;
use zester_model::catalog::Parameter;
use zester_model::diagnostic::{Diagnostic, Kind as DiagnosticKind};
use zester_model::node::{Node, Scalar, ScalarType, Value};
use zester_model::program::State;

/// Texts that name something: an empty one names nothing, and the parameter is as good as not given. Others, like the
/// content of a file, may well be empty.
const NAMING: [&str; 17] = [
    "baseurl",
    "cwd",
    "dir_mode",
    "file",
    "file_mode",
    "fromrepo",
    "gpgkey",
    "group",
    "key_url",
    "mirrorlist",
    "mode",
    "owner",
    "runas",
    "source_hash",
    "template",
    "user",
    "version",
];

/// Lists of packages, in which templates leave entries that name none.
const PACKAGES: [&str; 2] = ["pkgs", "sources"];

/// What a value of a file for Salt means.
pub enum Reading {
    AsIs,
    /// It says nothing.
    Unset(Diagnostic),
    Instead(Node),
}

/// Reads the value of a parameter as Salt would.
pub fn read(kind: &str, parameter: &Parameter, item: &Item) -> Reading {
    if let Value::List(items) = &item.value.value
        && PACKAGES.contains(&parameter.name)
        && items.iter().any(Node::is_null)
    {
        let named = items.iter().filter(|item| !item.is_null()).cloned().collect();
        return Reading::Instead(Node::list(item.value.span, named));
    }
    let Value::Scalar(Scalar { text, scalar_type }) = &item.value.value else { return Reading::AsIs };
    match scalar_type {
        ScalarType::Int(number) if parameter.takes == "true or false" => {
            let truth = *number != 0;
            let value = Value::Scalar(Scalar {
                text: truth.to_string().into(),
                scalar_type: ScalarType::Bool(truth),
            });
            Reading::Instead(Node { span: item.value.span, value })
        }
        ScalarType::Text if text.is_empty() && names_something(parameter) => {
            let message = format!("`{}` of {kind} asks for nothing", item.key);
            let advice = Diagnostic::new(DiagnosticKind::Lint, message).at(item.at).hint("remove it");
            Reading::Unset(advice.code("needless_parameter"))
        }
        _ => Reading::AsIs,
    }
}

fn names_something(parameter: &Parameter) -> bool {
    !parameter.required && (!parameter.text && !parameter.collects || NAMING.contains(&parameter.name))
}

/// What means nothing beside the other parameters: passed over in silence by Salt, and a mistake in other files.
pub fn needless_together(kind: &str, state: &State) -> Option<Diagnostic> {
    let names_mode = |node: &Node| node.as_text() == Some("mode");
    let passed_down = state.params.iter().find(|param| param.name == "recurse").is_some_and(|param| {
        names_mode(&param.value) || param.value.as_list().is_some_and(|list| list.iter().any(names_mode))
    });
    let mode = state.params.iter().find(|param| param.name == "file_mode");
    let mode = mode.filter(|_| kind == "file.directory" && !passed_down)?;
    let message = "`file_mode` of file.directory means nothing without `recurse: [mode]`";
    Some(Diagnostic::new(DiagnosticKind::State, message).at(mode.key).code("needless_parameter"))
}
