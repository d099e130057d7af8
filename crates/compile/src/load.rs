//! Reads, renders and composes files, and follows their includes depth-first, each file once (S-5).

use crate::problems::Problems;
use crate::reference::{self, directory_of, name_of};
use crate::template::Renderer;
use crate::{Inputs, yaml};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use zester_model::limits;
use zester_model::node::{Node, Value};
use zester_model::problem::{Kind, Problem};
use zester_model::source::{FileId, Sources, Span};

/// One state file, ready to be declared.
#[derive(Debug)]
pub struct File {
    /// `web.config`
    pub sls: Arc<str>,
    pub path: String,
    pub root: Node,
    /// Its states run in the order of their declaration.
    pub ordered: bool,
}

pub struct Loaded {
    pub files: Vec<File>,
    pub sources: Sources,
    pub problems: Problems,
}

pub struct Loader<'a, 'scope, 'env> {
    inputs: &'a Inputs<'env>,
    renderer: &'a Renderer<'scope, 'env>,
    pub sources: Sources,
    pub problems: Problems,
    files: Vec<File>,
    /// Every path that was begun.
    seen: HashMap<String, ()>,
}

/// A file whose includes are being loaded.
struct Frame {
    file: File,
    includes: std::vec::IntoIter<(String, Span)>,
}

/// The variables that tell a template which file it is.
pub fn variables(path: &str, renderer: &Renderer<'_, '_>) -> serde_json::Map<String, Json> {
    let directory = directory_of(path);
    let shown_directory = if directory.is_empty() { "." } else { directory };
    let sls = name_of(path);
    [
        ("sls", sls.as_str()),
        ("slspath", directory),
        ("slsdotpath", directory.replace('/', ".").as_str()),
        ("tpldir", shown_directory),
        ("tpldot", directory.replace('/', ".").as_str()),
        ("tplfile", path),
        ("tplpath", renderer.shown(path).as_str()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), Json::from(value)))
    .collect()
}

/// What the first line of a file asks for.
#[derive(Debug, PartialEq)]
enum Shebang {
    Ordered,
    Plain,
    Rendered,
    Unknown(String),
}

fn shebang(text: &str) -> Shebang {
    let Some(line) = text.lines().next().and_then(|line| line.strip_prefix("#!")) else {
        return Shebang::Rendered;
    };
    match line.trim() {
        "ordered" => Shebang::Ordered,
        "yaml" => Shebang::Plain,
        "jinja|yaml" | "jinja | yaml" | "jinja" => Shebang::Rendered,
        other => Shebang::Unknown(other.to_string()),
    }
}

impl<'a, 'scope, 'env> Loader<'a, 'scope, 'env> {
    pub fn new(inputs: &'a Inputs<'env>, renderer: &'a Renderer<'scope, 'env>) -> Self {
        Loader {
            inputs,
            renderer,
            sources: Sources::default(),
            problems: Problems::default(),
            files: Vec::new(),
            seen: HashMap::new(),
        }
    }

    pub fn finish(self) -> Loaded {
        Loaded { files: self.files, sources: self.sources, problems: self.problems }
    }

    /// Loads references and everything they include.
    pub fn load(&mut self, references: impl IntoIterator<Item = (String, Option<Span>)>) {
        for (reference, at) in references {
            let mut stack: Vec<Frame> = Vec::new();
            self.enter(&reference, at, &mut stack);
            while let Some(frame) = stack.last_mut() {
                match frame.includes.next() {
                    Some((include, at)) => self.enter(&include, Some(at), &mut stack),
                    None => self.files.extend(stack.pop().map(|frame| frame.file)),
                }
            }
        }
    }

    /// Begins one file, unless it is loaded already or cannot be.
    fn enter(&mut self, reference: &str, at: Option<Span>, stack: &mut Vec<Frame>) {
        let from = stack.last().map(|frame| frame.file.path.clone());
        let fail = |problems: &mut Problems, problem: Problem| {
            problems.push(match at {
                Some(span) => problem.at(span),
                None => problem,
            });
        };
        let path = match reference::find(self.inputs.tree, reference, from.as_deref()) {
            Ok(path) => path,
            Err(failure) => {
                let problem = Problem::new(Kind::Reference, failure.message).maybe_hint(failure.hint);
                return fail(&mut self.problems, problem);
            }
        };
        if let Some(first) = stack.iter().position(|frame| frame.file.path == path) {
            let mut names: Vec<&str> = stack.iter().skip(first).map(|frame| &*frame.file.sls).collect();
            names.push(names.first().copied().unwrap_or_default());
            let problem = Problem::new(Kind::Reference, format!("include cycle: {}", names.join(" -> ")));
            let hint = match names.as_slice() {
                [_, _] => "a file need not include itself: remove this line",
                _ => "remove one of these includes, or move what both files need into a third",
            };
            return fail(&mut self.problems, problem.hint(hint));
        }
        if self.seen.insert(path.clone(), ()).is_some() {
            return;
        }
        if self.seen.len() > limits::FILES_MAX {
            let message = format!("more than {} state files", limits::FILES_MAX);
            return fail(&mut self.problems, Problem::new(Kind::Reference, message));
        }
        match self.read(&path) {
            Ok((root, ordered)) => {
                let includes = self.includes(&root);
                let file = File { sls: name_of(&path).into(), path, root, ordered };
                stack.push(Frame { file, includes: includes.into_iter() });
            }
            Err(problems) => {
                for problem in problems {
                    match problem.span {
                        Some(_) => self.problems.push(problem),
                        None => fail(&mut self.problems, problem),
                    }
                }
            }
        }
    }

    /// Reads, renders and composes one file.
    pub fn read(&mut self, path: &str) -> Result<(Node, bool), Vec<Problem>> {
        let unreadable =
            |why: String| vec![Problem::new(Kind::Reference, format!("cannot read `{path}`: {why}"))];
        let text = self.inputs.tree.read(path).map_err(unreadable)?;
        let text: Arc<str> = text.ok_or_else(|| unreadable("it does not exist".into()))?.into();
        let file = self.sources.add(&self.renderer.shown(path), text.clone());
        let kind = shebang(&text);
        if let Shebang::Unknown(name) = &kind {
            let problem = Problem::new(Kind::Template, format!("unknown renderer `{name}`"));
            let hint = "state files are Jinja and YAML; `#!ordered` is the only first line with a meaning";
            return Err(vec![problem.at(Span::start_of(file)).hint(hint)]);
        }
        let root = self.compose(path, file, &text, kind != Shebang::Plain)?;
        Ok((root, kind == Shebang::Ordered || self.inputs.ordered))
    }

    fn compose(
        &mut self,
        path: &str,
        file: FileId,
        text: &Arc<str>,
        template: bool,
    ) -> Result<Node, Vec<Problem>> {
        if !template || !crate::template::is_template(text) {
            return yaml::compose(text, &mut crate::position::Positions::plain(file, text));
        }
        let variables = variables(path, self.renderer);
        let rendered = self.renderer.render(&mut self.sources, (path, file), text, variables)?;
        let mut positions = rendered.positions(&self.sources, file);
        yaml::compose(&rendered.text, &mut positions)
    }

    /// The references under `include:`, at the top of a map or as items of an ordered manifest.
    fn includes(&mut self, root: &Node) -> Vec<(String, Span)> {
        let maps: Vec<&Node> = match &root.value {
            Value::Map(_) => vec![root],
            Value::List(items) => items.iter().collect(),
            Value::Scalar(_) => Vec::new(),
        };
        let mut found = Vec::new();
        for (key, value) in maps.iter().filter_map(|map| map.as_map()).flatten() {
            if key.as_text() != Some("include") {
                continue;
            }
            let items = value.as_list().unwrap_or(std::slice::from_ref(value));
            for item in items.iter().filter(|item| !item.is_null()) {
                match item.as_text() {
                    Some(text) => found.push((text.to_string(), item.span)),
                    None => {
                        let message = format!("`include` lists references, not {}", item.describe());
                        self.problems.push(Problem::new(Kind::Reference, message).at(item.span));
                    }
                }
            }
        }
        found
    }
}
