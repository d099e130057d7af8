//! State files to compiled states.
//!
//! ```text
//! references ── load: read, render, compose ──► files      (reference, load, renderer, template, yaml, top)
//!        files ── declare, extend, names, use ──► drafts    (declare, manifest, extend, exclude, names)
//!       drafts ── check keys, resolve targets ──► program   (attributes, requisite, target, ordered, assemble)
//!        files ── merge ──► settings                         (settings)
//!       a file ── render, compose, fill in ──► blocks        (reaction)
//! ```
//!
//! The crate is pure: files, facts, settings and functions come in through [`Inputs`], and everything that is wrong
//! with them goes out as [`Diagnostic`]s with the user's own line and column, all of one run at once. The only clock is
//! the one that bounds rendering; the only thread is the one that renders.

mod assemble;
mod attributes;
mod conditional;
mod declare;
mod diagnostics;
pub mod differences;
mod exclude;
mod extend;
mod gpg;
mod lint;
mod load;
mod manifest;
mod meanings;
mod names;
mod ordered;
mod position;
mod python_file;
pub mod reaction;
mod reference;
mod renderer;
pub mod requisite;
mod salt_context;
mod salt_kinds;
mod salt_parameters;
mod salt_signatures;
mod salt_values;
mod secrets;
mod settings;
mod target;
mod template;
mod top;
mod yaml;

pub use lint::lint;
pub use settings::{Settings, SettingsAsk, SettingsFiles, merge, settings};
pub use template::digest_bytes as digest;
pub use template::glob::matches as glob_matches;
pub use template::salt_function_names;
pub use top::{BASE, Environment, environments};

use serde_json::Value as Json;
use std::sync::Arc;
use template::{Surroundings, with_renderer};
use zester_model::catalog::Catalog;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::Node;
use zester_model::program::Program;
use zester_model::source::{FileId, Sources, Span};

/// The states dir as the compiler sees it. Paths are relative, `/`-separated, normalised and never leave the dir.
pub trait Tree {
    /// The text of a file; `None` where there is none, an error where it cannot be read, is too large or not UTF-8, or
    /// is a link that leaves the dir.
    fn read(&self, path: &str) -> Result<Option<String>, String>;

    fn exists(&self, path: &str) -> bool {
        // What exists but cannot be read must not look like what does not exist.
        self.read(path).map_or(true, |text| text.is_some())
    }

    /// What it is, in messages.
    fn called(&self) -> &'static str {
        "states directory"
    }

    /// All files, for "did you mean"; none if that would cost too much.
    fn files(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Why a function gave no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallError {
    Failed(String),
    /// Only the machine that the template is meant for could answer, and this is another one.
    Elsewhere(String),
}

impl From<String> for CallError {
    fn from(message: String) -> CallError {
        CallError::Failed(message)
    }
}

impl std::fmt::Display for CallError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (CallError::Failed(message) | CallError::Elsewhere(message)) = self;
        out.write_str(message)
    }
}

impl std::error::Error for CallError {}

/// `salt['mod.fn'](…)`. Whoever implements it decides what may be called (S-10).
pub trait Functions {
    fn call(
        &self,
        name: &str,
        args: Vec<Json>,
        kwargs: serde_json::Map<String, Json>,
    ) -> Result<Json, CallError>;

    fn names(&self) -> Vec<String>;

    /// Runs a file of `#!py` and gives what its `run()` answers (S-54). `call` is what `__salt__` asks.
    fn python(&self, program: &PythonFile<'_>, call: PythonCall<'_>) -> Result<Json, CallError> {
        let (_, _) = (program, call);
        Err(CallError::Failed("`#!py` is not run here".into()))
    }
}

/// A call of `__salt__['mod.fn'](…)`: the name, bare arguments, named ones.
pub type PythonCall<'a> =
    &'a mut dyn FnMut(&str, Vec<Json>, serde_json::Map<String, Json>) -> Result<Json, String>;

/// A state or settings file that is a program.
#[derive(Debug)]
pub struct PythonFile<'a> {
    /// As messages name it.
    pub shown: &'a str,
    pub text: &'a str,
    /// `sls`, `tplfile`, `saltenv` and their kin.
    pub variables: serde_json::Map<String, Json>,
    pub facts: &'a Json,
    pub settings: &'a Json,
    pub id: &'a str,
    /// The functions that `__salt__` has.
    pub names: Vec<String>,
}

/// Everything a compile looks at.
#[derive(Copy, Clone)]
pub struct Inputs<'a> {
    pub tree: &'a dyn Tree,
    /// The prefix of paths in messages: `states` gives `states/web/init.zy`.
    pub tree_name: &'a str,
    pub catalog: &'a Catalog,
    pub facts: &'a Json,
    pub settings: &'a Json,
    pub functions: &'a dyn Functions,
    /// The id of this peel.
    pub id: &'a str,
    /// `--ordered`: every file as if it began with `#!ordered`.
    pub ordered: bool,
    /// Which level of the top file counts: [`BASE`], or another one that it has.
    pub environment: &'a str,
}

impl<'a> Inputs<'a> {
    fn surroundings(&self) -> Surroundings<'a> {
        Surroundings {
            tree: self.tree,
            tree_name: self.tree_name,
            functions: self.functions,
            facts: self.facts,
            settings: self.settings,
            id: self.id,
            environment: self.environment,
        }
    }
}

/// What is to be compiled.
#[derive(Clone, Debug)]
pub enum Ask {
    /// What `top.zy` assigns to this peel.
    Highstate,
    /// Dotted references, or paths below the states dir.
    References(Vec<String>),
}

/// A compile's result. The program is complete exactly if there are no problems; otherwise it goes as far as it could, for
/// later stages to find theirs.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub program: Program,
    pub sources: Sources,
    pub diagnostics: Vec<Diagnostic>,
    /// What is read as Salt reads it and would be refused in a `.zy` file, or means something else here (S-49).
    pub advice: Vec<Diagnostic>,
    /// What means something else than in Salt, by its row of the table (S-56): for who migrates, not for every run.
    pub differing: Vec<Diagnostic>,
}

/// Compiles states.
pub fn compile(inputs: &Inputs<'_>, ask: &Ask) -> Compiled {
    with_renderer(inputs.surroundings(), |renderer| {
        let mut loader = load::Loader::new(inputs, renderer);
        match ask {
            Ask::References(references) => {
                top::check_environment(inputs, &mut loader);
                loader.load(references.iter().map(|text| (text.clone(), None)));
            }
            Ask::Highstate => {
                let references = top::references(inputs, &mut loader, top::Purpose::States);
                loader.load(references);
            }
        }
        let mut loaded = loader.finish();
        let program = assemble::assemble(inputs, &mut loaded);
        let load::Loaded { sources, mut diagnostics, .. } = loaded;
        meanings::templates(&sources, &mut diagnostics);
        let (advice, differing) = (diagnostics.take_advice(), diagnostics.take_differing());
        let diagnostics = diagnostics.finish();
        Compiled { program, sources, diagnostics, advice, differing }
    })
}

/// Renders one template text (`file.managed` with `template: jinja`) in the same environment as state files.
///
/// `name` is the path to show in messages; a relative one also anchors `./x` in includes. `context` is laid over the
/// usual variables.
pub fn render(
    inputs: &Inputs<'_>,
    name: &str,
    text: &str,
    context: &serde_json::Map<String, Json>,
) -> Result<String, (Sources, Vec<Diagnostic>)> {
    let text: Arc<str> = text.into();
    with_renderer(inputs.surroundings(), |renderer| {
        let mut sources = Sources::default();
        let bare = name.strip_prefix("salt://").or_else(|| name.strip_prefix("zester://")).unwrap_or(name);
        let bare = bare.split_once("?saltenv=").map_or(bare, |(path, _)| path);
        let path = reference::normalise(bare).unwrap_or_else(|| "template".into());
        let file = sources.add(&renderer.shown(&path), text.clone());
        let mut variables = load::variables(&path, renderer);
        variables.insert("source".into(), format!("salt://{path}").into());
        variables.extend(context.clone());
        match renderer.render(&mut sources, (&path, file), &text, variables) {
            Ok(rendered) => Ok(rendered.text),
            Err(diagnostics) => Err((sources, diagnostics)),
        }
    })
}

/// Reads a YAML text that is no template.
pub fn parse_yaml(file: FileId, text: &str) -> Result<Node, Vec<Diagnostic>> {
    yaml::compose(text, &mut position::Positions::plain(file, text))
}

/// What is wrong with a file on every machine: the syntax of its template, and its YAML where it is no template.
pub fn syntax(file: FileId, text: &str) -> Vec<Diagnostic> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let passes = match renderer::passes(text, file) {
        Ok(passes) => passes,
        Err(diagnostic) => return vec![diagnostic],
    };
    if passes.python {
        return Vec::new();
    }
    if !passes.template || !template::is_template(text) {
        return yaml::compose_all(text, &mut position::Positions::plain(file, text)).diagnostics;
    }
    let wrong = template::syntax_error(text).map(|(line, why)| {
        let message = format!("the template cannot be read: {why}");
        Diagnostic::new(Kind::Template, message).at(Span::new(file, line, 1, 1))
    });
    wrong.into_iter().collect()
}

/// Data as a YAML document, a line for each entry. [`parse_yaml`] reads the same data back.
pub fn emit_yaml(value: &Json) -> String {
    yaml::emit::block(value)
}
