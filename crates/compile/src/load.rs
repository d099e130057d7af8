//! Reads, renders and composes files, and follows their includes depth-first, each file once (S-5).

use crate::conditional::Conditional;
use crate::diagnostics::Diagnostics;
use crate::reference::{self, directory_of, name_of};
use crate::renderer::{self, Passes};
use crate::template::{Renderer, glob};
use crate::yaml::Composed;
use crate::{Inputs, secrets, yaml};
use crate::{gpg, python_file};
use serde_json::Value as Json;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::node::{Node, Value};
use zester_model::source::{FileId, Sources, Span};

/// One file, ready to be declared or merged.
#[derive(Debug)]
pub struct File {
    /// `web.config`
    pub sls: Arc<str>,
    pub path: String,
    pub root: Node,
    /// Its states run in the order of their declaration.
    pub ordered: bool,
    /// The paths of the files that it includes itself.
    pub includes: Vec<String>,
    /// A `!secret` stands in it.
    pub sealed: bool,
}

impl File {
    /// Written for Salt: what Salt accepts there is accepted (S-49).
    pub fn is_salt(&self) -> bool {
        self.path.ends_with(".sls")
    }
}

pub struct Loaded {
    pub files: Vec<File>,
    pub sources: Sources,
    pub diagnostics: Diagnostics,
    /// Every file that was wanted is there: what they do not declare, nobody does.
    pub complete: bool,
    /// Files that a peel gets by what it says of itself.
    pub by_facts: Vec<ByFacts>,
}

/// A file that a peel gets by what it says of itself.
#[derive(Debug)]
pub struct ByFacts {
    pub path: String,
    /// The target, or the line that a template wrote.
    pub at: Span,
    pub by: FactsIn,
}

/// Where facts are asked.
#[derive(Copy, Clone, Debug, PartialEq)]
pub enum FactsIn {
    Target,
    /// The top file's.
    Template,
    /// That of a file which includes another.
    Include,
}

pub struct Loader<'a, 'scope, 'env> {
    inputs: &'a Inputs<'env>,
    renderer: &'a Renderer<'scope, 'env>,
    pub sources: Sources,
    pub diagnostics: Diagnostics,
    files: Vec<File>,
    complete: bool,
    /// Every path that was begun.
    seen: HashSet<String>,
    /// These are settings: `!secret` has its place here, and nowhere else.
    secrets: bool,
    pub by_facts: Vec<ByFacts>,
    /// What templates decide that asked for facts, by path.
    asking: HashMap<String, Conditional>,
    /// The files that hold one.
    sealed: HashSet<String>,
}

/// A file whose includes are being loaded.
struct Frame {
    file: File,
    includes: std::vec::IntoIter<Include>,
}

/// One reference under `include:`.
struct Include {
    reference: String,
    /// The word `include` itself: what decides about it decides about all that it lists.
    key: Span,
    at: Span,
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
        ("saltenv", renderer.environment()),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_string(), Json::from(value)))
    .collect()
}

impl<'a, 'scope, 'env> Loader<'a, 'scope, 'env> {
    pub fn new(inputs: &'a Inputs<'env>, renderer: &'a Renderer<'scope, 'env>) -> Self {
        Loader {
            inputs,
            renderer,
            sources: Sources::default(),
            diagnostics: Diagnostics::default(),
            files: Vec::new(),
            complete: true,
            seen: HashSet::new(),
            secrets: false,
            by_facts: Vec::new(),
            asking: HashMap::new(),
            sealed: HashSet::new(),
        }
    }

    /// For settings, the only files that may hold secrets.
    pub fn with_secrets(self) -> Self {
        Loader { secrets: true, ..self }
    }

    pub fn finish(self) -> Loaded {
        let Loader { files, sources, diagnostics, complete, by_facts, .. } = self;
        Loaded { files, sources, diagnostics, complete, by_facts }
    }

    /// Loads references and everything they include.
    pub fn load(&mut self, references: impl IntoIterator<Item = (String, Option<Span>)>) {
        for (reference, at) in references {
            if let Some(path) = self.find(&reference, None, at) {
                self.follow(path, at);
            }
        }
    }

    /// Loads files by their paths, whatever they are called, and everything they include.
    pub fn load_files(&mut self, paths: &[String]) {
        for path in paths {
            self.follow(path.clone(), None);
        }
    }

    /// Notes why a file is missing.
    fn fail(&mut self, diagnostic: Diagnostic, at: Option<Span>) {
        self.complete = false;
        self.diagnostics.push(match at {
            Some(span) => diagnostic.at(span),
            None => diagnostic,
        });
    }

    fn find(&mut self, reference: &str, from: Option<&str>, at: Option<Span>) -> Option<String> {
        match reference::find(self.inputs.tree, reference, from) {
            Ok(path) => Some(path),
            Err(failure) => {
                let diagnostic = Diagnostic::new(Kind::Reference, failure.message).maybe_hint(failure.hint);
                self.fail(diagnostic, at);
                None
            }
        }
    }

    /// One file and what it includes, depth-first. Files that include each other are each loaded once.
    fn follow(&mut self, path: String, at: Option<Span>) {
        let mut stack: Vec<Frame> = Vec::new();
        self.enter(path, at, &mut stack);
        while let Some(frame) = stack.last_mut() {
            match frame.includes.next() {
                Some(Include { reference, key, at }) => {
                    let from = frame.file.path.clone();
                    if let Some(path) = self.find(&reference, Some(&from), Some(at)) {
                        // `sls: x` means what x brought in; in Salt's files that is what it was the first to include.
                        let first = !self.seen.contains(&path);
                        if let Some(frame) = stack.last_mut().filter(|frame| first || !frame.file.is_salt()) {
                            frame.file.includes.push(path.clone());
                        }
                        if self.is_by_facts(&from, key, at) {
                            self.by_facts.push(ByFacts { path: path.clone(), at, by: FactsIn::Include });
                        }
                        self.enter(path, Some(at), &mut stack);
                    }
                }
                None => self.files.extend(stack.pop().map(|frame| frame.file)),
            }
        }
    }

    /// Whether what stands in these lines of a file may depend on what the machine says of itself.
    pub fn is_by_facts(&self, path: &str, from: Span, to: Span) -> bool {
        self.asking.get(path).is_some_and(|conditional| conditional.decides(from, to))
    }

    /// Begins one file, unless it is loaded already or cannot be.
    fn enter(&mut self, path: String, at: Option<Span>, stack: &mut Vec<Frame>) {
        if !self.seen.insert(path.clone()) {
            return;
        }
        if self.seen.len() > limits::FILES_MAX {
            let message = format!("more than {} files", limits::FILES_MAX);
            return self.fail(Diagnostic::new(Kind::Reference, message), at);
        }
        match self.read(&path) {
            Ok((root, ordered)) => {
                let includes = self.includes(&root, &path).into_iter();
                let sls = name_of(&path).into();
                let sealed = self.sealed.contains(&path);
                let file = File { sls, path, root, ordered, includes: Vec::new(), sealed };
                stack.push(Frame { file, includes });
            }
            Err(diagnostics) => {
                for diagnostic in diagnostics {
                    let at = diagnostic.span.or(at);
                    self.fail(diagnostic, at);
                }
            }
        }
    }

    /// Reads, renders and composes one file.
    pub fn read(&mut self, path: &str) -> Result<(Node, bool), Vec<Diagnostic>> {
        let unreadable =
            |why: String| vec![Diagnostic::new(Kind::Reference, format!("cannot read `{path}`: {why}"))];
        let text = self.inputs.tree.read(path).map_err(unreadable)?;
        let text = text.ok_or_else(|| unreadable("it does not exist".into()))?;
        // Some editors begin a file with a mark of its encoding; the first line is what follows it.
        let text: Arc<str> = text.strip_prefix('\u{feff}').unwrap_or(&text).into();
        let file = self.sources.add(&self.renderer.shown(path), text.clone());
        let passes = renderer::passes(&text, file).and_then(|passes| match self.secrets {
            true => Ok(passes),
            false => passes.without("gpg", "secrets stand in settings; use `{{ settings.NAME }}` here", file),
        });
        let passes = passes.map_err(|diagnostic| vec![diagnostic])?;
        let root = match passes.python {
            true => {
                self.asking.insert(path.to_string(), Conditional::of_program(file));
                python_file::run(self.inputs, self.renderer, (path, file, &text))?
            }
            false => self.compose(path, file, &text, passes)?,
        };
        Ok((root, passes.ordered || self.inputs.ordered))
    }

    fn compose(
        &mut self,
        path: &str,
        file: FileId,
        text: &Arc<str>,
        passes: Passes,
    ) -> Result<Node, Vec<Diagnostic>> {
        let composed = match passes.template && crate::template::is_template(text) {
            false => yaml::compose_all(text, &mut crate::position::Positions::plain(file, text)),
            true => {
                let variables = variables(path, self.renderer);
                self.renderer.take_asked();
                let rendered = self.renderer.render(&mut self.sources, (path, file), text, variables)?;
                if self.renderer.take_asked() {
                    self.asking.insert(path.to_string(), Conditional::of_template(file, text));
                }
                yaml::compose_all(&rendered.text, &mut rendered.positions(&self.sources, file))
            }
        };
        let Composed { root, diagnostics, sealed } = composed;
        // A key that stands twice hides nothing else that is wrong.
        let Some(root) = root else { return Err(diagnostics) };
        self.diagnostics.extend(diagnostics);
        let (root, messages) = if passes.gpg { gpg::seal(&root) } else { (root, false) };
        if sealed.is_empty() && !messages {
            return Ok(root);
        }
        if !self.secrets {
            self.diagnostics.extend(sealed.into_iter().map(secrets::misplaced).collect());
            return Ok(root);
        }
        // Who may open a message for gpg is a matter of its keys, not of who is assigned the file.
        if !sealed.is_empty() {
            self.sealed.insert(path.to_string());
        }
        Ok(secrets::with_places(&root, &self.sources))
    }

    /// The references that a pattern means, but for the file that says so.
    fn matching(&self, pattern: &str, path: &str) -> Vec<String> {
        let pattern = crate::target::file_name(pattern, path);
        let own = name_of(path);
        let files = self.inputs.tree.files();
        let states = files.iter().filter(|file| file.ends_with(".sls") || file.ends_with(".zy"));
        let mut names: Vec<String> = states.map(|file| name_of(file)).collect();
        names.retain(|name| *name != own && glob::matches(&pattern, name));
        names.sort();
        names.dedup();
        names
    }

    /// The references under `include:`, at the top of a map or as items of an ordered manifest.
    fn includes(&mut self, root: &Node, path: &str) -> Vec<Include> {
        let is_salt = path.ends_with(".sls");
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
                // `- dev: web` names the environment too: all files of one run are of one.
                let item = match item.as_map() {
                    Some([(_, reference)]) if is_salt => reference,
                    _ => item,
                };
                match item.as_text() {
                    Some(text) if is_salt && glob::is_one(text) => {
                        let matching = self.matching(text, path).into_iter();
                        found.extend(matching.map(|reference| Include {
                            reference,
                            key: key.span,
                            at: item.span,
                        }));
                    }
                    Some(text) => {
                        found.push(Include { reference: text.to_string(), key: key.span, at: item.span });
                    }
                    None => {
                        let message = format!("`include` lists references, not {}", item.describe());
                        self.diagnostics.push(Diagnostic::new(Kind::Reference, message).at(item.span));
                    }
                }
            }
        }
        found
    }
}
