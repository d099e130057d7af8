//! The two sides of a render: the compiling thread, which holds the states dir and the functions, and the rendering
//! one, which holds the engine. They talk by messages; each waits while the other works.

use super::environment::{self, Outside, Shared, UNMARKED, Unreadable};
use super::mutable::Maker;
use super::origin;
use super::report::{self, Failure};
use crate::position::{Lines, Piece, Positions};
use crate::{CallError, Functions, Tree};
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error};
use serde_json::Value as Json;
use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, PoisonError};
use std::thread::{Builder, Scope};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::source::{FileId, Sources};

pub type Reply<T> = SyncSender<T>;

/// What the rendering thread says to the compiling one.
pub enum RenderRequest {
    Read(String, Reply<Result<Option<String>, String>>),
    Files(Reply<Vec<String>>),
    Call {
        name: String,
        args: Vec<Json>,
        named: serde_json::Map<String, Json>,
        reply: Reply<Result<Json, CallError>>,
    },
    Done(Result<String, Failure>),
}

/// One template to render.
struct Job {
    name: String,
    context: serde_json::Map<String, Json>,
    /// The last line of the file is a whole one, and so is that of the output.
    ends_line: bool,
}

/// What templates see of the world, lent for one compile.
#[derive(Copy, Clone)]
pub struct Surroundings<'a> {
    pub tree: &'a dyn Tree,
    /// The prefix of paths in messages.
    pub tree_name: &'a str,
    pub functions: &'a dyn Functions,
    pub facts: &'a Json,
    pub settings: &'a Json,
    pub id: &'a str,
    pub environment: &'a str,
}

/// A rendered text and where its pieces come from.
#[derive(Debug)]
pub struct Rendered {
    pub text: String,
    pub pieces: Vec<Piece>,
}

impl Rendered {
    /// The positions of the text, for the composer.
    pub fn positions<'s>(&self, sources: &'s Sources, file: FileId) -> Positions<'s> {
        let mut pieces = self.pieces.clone();
        if pieces.first().is_none_or(|piece| piece.at > 0) {
            pieces.insert(0, Piece { at: 0, file, offset: 0, len: 0, verbatim: true });
        }
        let mut files: Vec<FileId> = pieces.iter().map(|piece| piece.file).collect();
        files.sort();
        files.dedup();
        let lines = files
            .into_iter()
            .map(|file| (file, Lines::new(sources.get(file).map_or("", |source| source.text.as_ref()))));
        Positions::new(pieces, lines.collect())
    }
}

/// Whether a text is a template at all.
pub fn is_template(text: &str) -> bool {
    text.contains("{{") || text.contains("{%") || text.contains("{#")
}

/// Renders the templates of one compile. The thread starts with the first that needs it.
pub struct Renderer<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    surroundings: Surroundings<'env>,
    live: RefCell<Option<RenderThread>>,
    /// The entries in the caller's sources of what was rendered itself, by name.
    rendered: RefCell<HashMap<String, FileId>>,
    /// The entries of all templates loaded, by their index.
    files: RefCell<Vec<FileId>>,
}

struct RenderThread {
    jobs: SyncSender<Job>,
    requests: Receiver<RenderRequest>,
    shared: Arc<Shared>,
}

/// Runs `body` with a renderer.
pub fn with_renderer<'env, R>(
    surroundings: Surroundings<'env>,
    body: impl for<'scope> FnOnce(&Renderer<'scope, 'env>) -> R,
) -> R {
    std::thread::scope(|scope| {
        let (live, rendered, files) = (RefCell::new(None), RefCell::default(), RefCell::default());
        body(&Renderer { scope, surroundings, live, rendered, files })
    })
}

impl<'scope, 'env> Renderer<'scope, 'env> {
    /// The path of a file as messages show it.
    pub fn shown(&self, path: &str) -> String {
        match self.surroundings.tree_name {
            "" => path.to_string(),
            name => format!("{}/{path}", name.trim_end_matches('/')),
        }
    }

    pub fn environment(&self) -> &str {
        self.surroundings.environment
    }

    /// Whether a template asked what the machine says of itself since this was asked last.
    pub fn take_asked(&self) -> bool {
        let live = self.live.borrow();
        live.as_ref().is_some_and(|live| live.shared.asked.swap(false, Ordering::Relaxed))
    }

    /// Renders one text. `name` is its path below the states dir, `file` its entry in `sources`.
    pub fn render(
        &self,
        sources: &mut Sources,
        (name, file): (&str, FileId),
        text: &Arc<str>,
        context: serde_json::Map<String, Json>,
    ) -> Result<Rendered, Vec<Diagnostic>> {
        if !is_template(text) {
            let piece = Piece { at: 0, file, offset: 0, len: text.len(), verbatim: true };
            return Ok(Rendered { text: text.to_string(), pieces: vec![piece] });
        }
        self.start().map_err(|diagnostic| vec![diagnostic.at(zester_model::source::Span::start_of(file))])?;
        let live = self.live.borrow();
        let Some(live) = live.as_ref() else { return Err(Vec::new()) };
        live.shared.learn(name, text.clone());
        self.rendered.borrow_mut().insert(name.to_string(), file);
        let known: Vec<String> = context.keys().cloned().collect();
        live.shared.take_unreadable();
        let mut foreign = origin::is_foreign(text);
        let mut outcome = Ok(String::new());
        if !foreign {
            live.shared.foreign.store(false, Ordering::Relaxed);
            outcome = self.run(live, name.to_string(), context.clone());
            foreign = live.shared.foreign.load(Ordering::Relaxed);
        }
        if foreign {
            // Something holds what marks are made of: render without marks, and live with plainer positions.
            outcome = self.run(live, format!("{UNMARKED}{name}"), context);
        }
        self.note_files(sources, live);
        let files = self.files.borrow();
        match outcome {
            Ok(text) if foreign => {
                let len = text.len();
                Ok(Rendered { text, pieces: vec![Piece { at: 0, file, offset: 0, len, verbatim: true }] })
            }
            Ok(marked) => {
                let file_of = |index: usize| files.get(index).copied().unwrap_or(file);
                let (text, pieces) = origin::strip(&marked, &live.shared.spots, &file_of);
                Ok(Rendered { text, pieces })
            }
            Err(error) => {
                let view = report::View {
                    shared: &live.shared,
                    files: &files,
                    file,
                    name,
                    context: &known,
                    around: &self.surroundings,
                    reaction: false,
                };
                let diagnostic = report::explain(&error, &view);
                Err(match live.shared.take_unreadable() {
                    Some(data) => self.imported(sources, data, &diagnostic),
                    None => vec![diagnostic],
                })
            }
        }
    }

    /// The problems of imported data, where they stand, with the statement that imports it.
    fn imported(&self, sources: &mut Sources, data: Unreadable, at: &Diagnostic) -> Vec<Diagnostic> {
        let files = self.files.borrow();
        let plain = (!data.rendered).then(|| sources.add(&self.shown(&data.path), data.text));
        let file_of = |named: FileId| plain.or_else(|| files.get(named.0 as usize).copied()).unwrap_or(named);
        let moved = |mut diagnostic: Diagnostic| {
            let labels = diagnostic.labels.iter_mut().map(|label| &mut label.span);
            diagnostic.span.iter_mut().chain(labels).for_each(|span| span.file = file_of(span.file));
            match at.span {
                Some(span) => diagnostic.label(span, "imported here"),
                None => diagnostic,
            }
        };
        data.diagnostics.into_iter().map(moved).collect()
    }

    /// Gives every newly loaded template its entry in `sources`.
    fn note_files(&self, sources: &mut Sources, live: &RenderThread) {
        let mut files = self.files.borrow_mut();
        let rendered = self.rendered.borrow();
        for loaded in live.shared.since(files.len()) {
            let known = rendered.get(&loaded.name).copied();
            files.push(known.unwrap_or_else(|| sources.add(&self.shown(&loaded.name), loaded.text.clone())));
        }
    }

    fn start(&self) -> Result<(), Diagnostic> {
        let mut live = self.live.borrow_mut();
        if live.is_some() {
            return Ok(());
        }
        let (jobs, job_list) = sync_channel::<Job>(1);
        let (requests, request_list) = sync_channel(1);
        let shared = Arc::new(Shared::new(requests.clone(), self.surroundings.tree.called()));
        let outside = Outside {
            facts: self.surroundings.facts.clone(),
            settings: self.surroundings.settings.clone(),
            names: self.surroundings.functions.names(),
            id: self.surroundings.id.to_string(),
        };
        let theirs = shared.clone();
        let thread = Builder::new().name("render".into()).stack_size(environment::STACK_BYTES);
        let started = thread.spawn_scoped(self.scope, move || work(&job_list, &requests, &theirs, outside));
        started.map_err(|error| {
            Diagnostic::new(Kind::Template, format!("cannot start a thread to render templates: {error}"))
        })?;
        *live = Some(RenderThread { jobs, requests: request_list, shared });
        Ok(())
    }

    /// Hands a job over and serves what it asks for until it is done.
    fn run(
        &self,
        live: &RenderThread,
        name: String,
        context: serde_json::Map<String, Json>,
    ) -> Result<String, Failure> {
        let gone = || Failure::plain("the rendering thread is gone");
        let ends_line = live.shared.ends_line(name.trim_start_matches(UNMARKED));
        live.jobs.send(Job { name, context, ends_line }).map_err(|_| gone())?;
        loop {
            match live.requests.recv() {
                Ok(RenderRequest::Read(path, reply)) => {
                    // A renderer that no longer listens has failed already and will say so.
                    let _ = reply.send(self.surroundings.tree.read(&path));
                }
                Ok(RenderRequest::Files(reply)) => {
                    let _ = reply.send(self.surroundings.tree.files());
                }
                Ok(RenderRequest::Call { name, args, named, reply }) => {
                    let _ = reply.send(self.surroundings.functions.call(&name, args, named));
                }
                Ok(RenderRequest::Done(outcome)) => return outcome,
                Err(_) => return Err(gone()),
            }
        }
    }
}

/// Runs one render on a stack of the size that renders need, in the thread that asks: a thread for each would cost more than
/// what most of them do.
pub fn on_own_stack<R>(work: impl FnOnce() -> Result<R, Failure>) -> Result<R, Failure> {
    let grown = || stacker::grow(environment::STACK_BYTES, work);
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(grown))
        .unwrap_or_else(|_| Err(Failure::plain("the template engine failed on this template")))
}

/// The rendering thread: one job after the other until nobody sends any more.
fn work(jobs: &Receiver<Job>, requests: &SyncSender<RenderRequest>, shared: &Arc<Shared>, outside: Outside) {
    let maker = Maker::new(shared.budget.clone());
    let mut env = environment::build(shared, &maker, Some(outside));
    for job in jobs {
        shared.budget.reset();
        maker.reset();
        let rendering =
            std::panic::AssertUnwindSafe(|| render(&env, shared, &job).map_err(|error| Failure::new(&error)));
        let outcome = std::panic::catch_unwind(rendering)
            .unwrap_or_else(|_| Err(Failure::plain("the template engine failed on this template")));
        // The next job of this name may bring another text.
        env.remove_template(&job.name);
        if requests.send(RenderRequest::Done(outcome)).is_err() {
            return;
        }
    }
}

fn render(env: &Environment<'static>, shared: &Shared, job: &Job) -> Result<String, Error> {
    let template = env.get_template(&job.name)?;
    let context: serde_json::Value = Json::Object(job.context.clone());
    let output = std::sync::Mutex::new(Vec::new());
    let writer = Bounded { output: &output, shared };
    let rendered = template.render_captured_to(Value::from(Serde(context)), writer);
    rendered.map(drop)?;
    shared.budget.check()?;
    let bytes = output.into_inner().unwrap_or_else(PoisonError::into_inner);
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::new(minijinja::ErrorKind::InvalidOperation, "the output is not text"))?;
    Ok(if job.ends_line { text + "\n" } else { text })
}

/// Takes the output up to its bound.
struct Bounded<'a> {
    output: &'a std::sync::Mutex<Vec<u8>>,
    shared: &'a Shared,
}

impl io::Write for Bounded<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        // Marks take room too; they are at most as long as what they mark, give or take.
        if output.len() + bytes.len() > 2 * limits::RENDER_OUTPUT_BYTES_MAX {
            let mib = limits::RENDER_OUTPUT_BYTES_MAX / 1024 / 1024;
            self.shared.budget.pass(format!("the template yields more than {mib} MiB"));
            return Err(io::Error::other("too large"));
        }
        output.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
