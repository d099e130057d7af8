//! A template that is parsed once and rendered for each event, and whose values stay out of its text (see
//! [`super::fills`]). It calls nothing, and every file that it can reach is read when it is parsed.

use super::environment::{self, Shared, UNMARKED, join};
use super::fills::Fill;
use super::mutable::Maker;
use super::origin;
use super::report::{self, Failure};
use super::rewrite::NamedFile;
use super::serve::{self, Rendered, Surroundings};
use crate::position::span_at;
use crate::{CallError, Functions, Tree};
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::Value as Json;
use std::collections::HashSet;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::source::{FileId, Sources, Span};

/// Files that one reaction may include and import, itself counted.
const FILES_MAX: usize = 64;

/// One parsed template.
pub struct ReactionTemplate {
    name: String,
    file: FileId,
    sources: Sources,
    /// By the index of the template.
    files: Vec<FileId>,
    shared: Arc<Shared>,
    /// One render at a time: the bounds of a render are the engine's.
    engine: Mutex<Engine>,
}

struct Engine {
    env: Environment<'static>,
    maker: Maker,
}

/// A rendered text, what its placeholders stand for, and the files that it came from.
pub struct Filled {
    pub rendered: Rendered,
    pub fills: Vec<Fill>,
}

impl ReactionTemplate {
    /// Parses a text and every file that it names. On failure the sources are those of the diagnostics.
    pub fn parse(
        name: &str,
        text: &Arc<str>,
        tree: &dyn Tree,
    ) -> Result<ReactionTemplate, (Sources, Vec<Diagnostic>)> {
        let shared = Arc::new(Shared::filling(tree.called()));
        let maker = Maker::new(shared.budget.clone());
        let env = environment::build(&shared, &maker, None);
        let mut sources = Sources::default();
        let file = sources.add(name, text.clone());
        let engine = Mutex::new(Engine { env, maker });
        let name = name.to_string();
        let mut template = ReactionTemplate { name, file, sources, files: Vec::new(), shared, engine };
        match template.load(text, tree) {
            Ok(()) => Ok(template),
            Err(diagnostics) => Err((template.sources, diagnostics)),
        }
    }

    pub fn file(&self) -> FileId {
        self.file
    }

    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    fn load(&mut self, text: &Arc<str>, tree: &dyn Tree) -> Result<(), Vec<Diagnostic>> {
        self.learn(&self.name.clone(), text)?;
        let mut waiting = vec![self.name.clone()];
        let mut known: HashSet<String> = waiting.iter().cloned().collect();
        while let Some(name) = waiting.pop() {
            let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
            // What is included into a capture is wanted without marks.
            let unmarked = format!("{UNMARKED}{name}");
            let parsed = [&name, &unmarked].map(|name| engine.env.get_template(name).map(drop));
            drop(engine);
            self.note_files();
            let [parsed, _] = parsed;
            parsed.map_err(|error| vec![self.explain(&Failure::new(&error), &[])])?;
            let Some(loaded) = self.shared.loaded(&name) else { continue };
            for named in loaded.files.clone() {
                let place = loaded.place(&named);
                let at = self.shared.index(&name).and_then(|index| self.files.get(index)).copied();
                let span = span_at(at.unwrap_or(self.file), &loaded.text, place);
                let found = self.find(tree, &name, &named).map_err(|found| vec![found.at(span)])?;
                let Some((path, text)) = found.filter(|(path, _)| known.insert(path.clone())) else {
                    continue;
                };
                if known.len() > FILES_MAX {
                    let message = format!("a reaction includes more than {FILES_MAX} files");
                    return Err(vec![Diagnostic::new(Kind::Template, message).at(span)]);
                }
                self.learn(&path, &text)?;
                if !named.data {
                    waiting.push(path);
                }
            }
        }
        Ok(())
    }

    /// Makes a text known to the engine. What placeholders and marks are made of must not stand in it.
    fn learn(&mut self, name: &str, text: &Arc<str>) -> Result<(), Vec<Diagnostic>> {
        if let Some(at) = text.bytes().position(|byte| byte == 0xf4) {
            let file = self.sources.add(name, text.clone());
            let letter = text.get(at..).and_then(|rest| rest.chars().next()).unwrap_or_default();
            let message = format!("U+{:X} is a private character that is reserved here", u32::from(letter));
            return Err(vec![
                Diagnostic::new(Kind::Template, message).at(span_at(file, text, at..at)).hint("remove it"),
            ]);
        }
        self.shared.learn(name, text.clone());
        Ok(())
    }

    /// The text of a file that a template names; `None` if it may be missing and is.
    fn find(
        &self,
        tree: &dyn Tree,
        from: &str,
        named: &NamedFile,
    ) -> Result<Option<(String, Arc<str>)>, Diagnostic> {
        let Some(name) = &named.name else {
            let message = "a reaction names its files in quotes: an event must not choose them";
            return Err(Diagnostic::new(Kind::Template, message));
        };
        let joined = join(name, from);
        let Some(path) = crate::reference::normalise(&joined) else {
            let message = format!("`{name}` leaves the {}", tree.called());
            return Err(Diagnostic::new(Kind::Reference, message));
        };
        match tree.read(&path) {
            Ok(Some(text)) => Ok(Some((path, text.into()))),
            Ok(None) if named.optional => Ok(None),
            Ok(None) => {
                let message = format!("there is no file `{path}` in the {}", tree.called());
                let near =
                    zester_model::suggest::did_you_mean(&path, tree.files().iter().map(String::as_str));
                Err(Diagnostic::new(Kind::Reference, message).maybe_hint(near))
            }
            Err(why) => Err(Diagnostic::new(Kind::Reference, format!("cannot read `{path}`: {why}"))),
        }
    }

    /// Gives every newly loaded template its entry in the sources.
    fn note_files(&mut self) {
        for loaded in self.shared.since(self.files.len()) {
            let file = self.sources.add(&loaded.name, loaded.text.clone());
            self.files.push(file);
        }
    }

    /// Renders for one event.
    pub fn render(&self, context: &serde_json::Map<String, Json>) -> Result<Filled, Vec<Diagnostic>> {
        let known: Vec<String> = context.keys().cloned().collect();
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        engine.maker.reset();
        self.shared.budget.reset();
        self.shared.take_unreadable();
        let outcome = serve::on_own_stack(|| self.output(&engine.env, context));
        let fills = self.shared.fills.as_ref().map(|fills| fills.take()).unwrap_or_default();
        let marked = outcome.map_err(|failure| match self.shared.take_unreadable() {
            Some(data) => self.imported(data, &failure, &known),
            None => vec![self.explain(&failure, &known)],
        })?;
        drop(engine);
        let file_of = |index: usize| self.files.get(index).copied().unwrap_or(self.file);
        let (text, pieces) = origin::strip(&marked, &self.shared.spots, &file_of);
        Ok(Filled { rendered: Rendered { text, pieces }, fills })
    }

    /// The text that the engine writes, with its marks and placeholders.
    fn output(
        &self,
        env: &Environment<'static>,
        context: &serde_json::Map<String, Json>,
    ) -> Result<String, Failure> {
        let rendered = (|| {
            let template = env.get_template(&self.name)?;
            let output = Mutex::new(Vec::new());
            let sink = Sink { output: &output, shared: &self.shared };
            template.render_captured_to(Value::from(Serde(context)), sink).map(drop)?;
            self.shared.budget.check()?;
            let bytes = output.into_inner().unwrap_or_else(PoisonError::into_inner);
            String::from_utf8(bytes).map_err(|_| Error::new(ErrorKind::InvalidOperation, "no text"))
        })();
        rendered.map_err(|error| Failure::new(&error))
    }

    fn explain(&self, failure: &Failure, known: &[String]) -> Diagnostic {
        let around = Surroundings {
            tree: &Nothing,
            tree_name: "",
            functions: &Nothing,
            facts: &Json::Null,
            settings: &Json::Null,
            id: "",
            environment: "",
        };
        let view = report::View {
            shared: &self.shared,
            files: &self.files,
            file: self.file,
            name: &self.name,
            context: known,
            around: &around,
            reaction: true,
        };
        report::explain(failure, &view)
    }

    /// The problems of imported data, told where it is imported: its text is in no sources of this template.
    fn imported(
        &self,
        data: environment::Unreadable,
        failure: &Failure,
        known: &[String],
    ) -> Vec<Diagnostic> {
        let at = self.explain(failure, known).span.unwrap_or(Span::start_of(self.file));
        let told = |found: &Diagnostic| {
            let place = found.span.map_or(String::new(), |span| format!(":{}:{}", span.line, span.column));
            let message = format!("{}{place}: {}", data.path, found.message);
            Diagnostic { hint: found.hint.clone(), ..Diagnostic::new(Kind::Yaml, message).at(at) }
        };
        data.diagnostics.iter().map(told).collect()
    }
}

/// Takes the output up to its bound, and never the text of a value.
struct Sink<'a> {
    output: &'a Mutex<Vec<u8>>,
    shared: &'a Shared,
}

impl io::Write for Sink<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_all(bytes).map(|()| bytes.len())
    }

    /// The engine calls this for every piece, an empty one too (see `Fills::reaches_output`).
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.shared.fills.as_ref().is_none_or(|fills| !fills.may_write(bytes)) {
            self.shared.budget.pass("a value got into the text of a reaction".into());
            return Err(io::Error::other("a value in the text"));
        }
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        // Marks take room too; they are at most as long as what they mark, give or take.
        if output.len() + bytes.len() > 2 * limits::RENDER_OUTPUT_BYTES_MAX {
            let mib = limits::RENDER_OUTPUT_BYTES_MAX / 1024 / 1024;
            self.shared.budget.pass(format!("the template yields more than {mib} MiB"));
            return Err(io::Error::other("too large"));
        }
        output.extend_from_slice(bytes);
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// No files, no functions.
struct Nothing;

impl Tree for Nothing {
    fn read(&self, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn called(&self) -> &'static str {
        "reactor directory"
    }
}

impl Functions for Nothing {
    fn call(&self, name: &str, _: Vec<Json>, _: serde_json::Map<String, Json>) -> Result<Json, CallError> {
        Err(CallError::Failed(format!("there is no function `{name}` in a reaction")))
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}
