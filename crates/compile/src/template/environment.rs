//! The engine as templates see it, on the thread that renders.
//!
//! The engine wants everything it holds to live as long as itself, while the states dir and the functions are only
//! lent to us. So rendering has a thread of its own that asks for files and calls by message (see [`super::serve`]);
//! it also gets a stack large enough for the deepest value that the bounds allow.

use super::budget::Budget;
use super::fills::{Fill, Fills};
use super::functions::{Data, Salt, World};
use super::mutable::Maker;
use super::origin::{self, Spots};
use super::rewrite::{NamedFile, Pass, Passed, Rewritten};
use super::serve::{RenderRequest, Reply};
use super::{
    data_filters, filters, formula_filters, imports, methods, python, salt_filters, sealed, statements,
};
use minijinja::machinery::parse;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Object, Rest, Serde, Value, ValueKind, ValueOrKwargs};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zester_model::diagnostic::Diagnostic;
use zester_model::limits;

/// See `mutable::GROWTH_MAX`. Only what is touched is ever taken from the machine.
pub const STACK_BYTES: usize = 256 * 1024 * 1024;
/// What the engine counts for one include; a macro counts less.
const INCLUDE_COST: usize = 10;
/// Keys of imported data that are kept to suggest from.
const KEYS_KEPT_MAX: usize = 10_000;
/// Stands before the name of a template that is wanted without marks.
pub const UNMARKED: char = '\u{1}';

/// One template as it was loaded: the user's text and the way back to it.
#[derive(Debug)]
pub struct Loaded {
    /// The name without [`UNMARKED`]: the path below the states dir.
    pub name: String,
    pub text: Arc<str>,
    statements: Rewritten,
    pass: Rewritten,
    /// What the template sets itself.
    pub names: Vec<String>,
    /// Keys of the maps that it writes down.
    pub keys: Vec<String>,
    /// The files that it includes or imports.
    pub files: Vec<NamedFile>,
}

impl Loaded {
    /// Where the name of a file stands that this template names.
    pub fn place(&self, named: &NamedFile) -> std::ops::Range<usize> {
        let range = self.statements.back_range(named.range.clone());
        let end = range.end.min(self.text.len());
        range.start.min(end)..end
    }

    /// The stretch of the user's text for one of what the engine saw, without blanks around it.
    pub fn back(&self, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
        let range = self.statements.back_range(self.pass.back_range(range));
        let end = range.end.min(self.text.len());
        let start = range.start.min(end);
        let part = self.text.get(start..end).unwrap_or("");
        let blank = part.len() - part.trim_start().len();
        start + blank..start + blank + part.trim().len()
    }
}

/// What the rendering thread and the compiling one both look at.
#[derive(Debug)]
pub struct Shared {
    pub budget: Arc<Budget>,
    pub spots: Spots,
    loaded: Mutex<Vec<Arc<Loaded>>>,
    /// By the name the engine knows.
    by_name: Mutex<HashMap<String, usize>>,
    /// Texts that need not be read.
    known: Mutex<HashMap<String, Arc<str>>>,
    /// Where files and functions are asked for; nowhere if every file is known.
    requests: Option<SyncSender<RenderRequest>>,
    /// Keeps the values of tags out of the text.
    pub fills: Option<Fills>,
    /// Why the last import of data failed.
    unreadable: Mutex<Option<Unreadable>>,
    /// Keys of imported data, to suggest from.
    keys: Mutex<BTreeSet<String>>,
    /// What the directory of the templates is called.
    called: &'static str,
    /// Settings hold secrets: templates must not compute with one.
    guarding: AtomicBool,
    /// A template asked what the machine says of itself, beyond its id (D-6).
    pub asked: AtomicBool,
    /// A value held characters of the kind that marks are made of.
    pub foreign: AtomicBool,
    /// Imports that are under way, one inside another.
    pub importing: AtomicUsize,
}

fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub fn new(requests: SyncSender<RenderRequest>, called: &'static str) -> Shared {
        Shared { requests: Some(requests), ..Shared::alone(called) }
    }

    /// For templates that call nothing and whose files are all known, and whose values stay out of the text.
    pub fn filling(called: &'static str) -> Shared {
        Shared { fills: Some(Fills::default()), ..Shared::alone(called) }
    }

    fn alone(called: &'static str) -> Shared {
        Shared {
            budget: Arc::new(Budget::new()),
            spots: Spots::default(),
            loaded: Mutex::default(),
            by_name: Mutex::default(),
            known: Mutex::default(),
            requests: None,
            fills: None,
            unreadable: Mutex::default(),
            keys: Mutex::default(),
            called,
            guarding: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            foreign: AtomicBool::new(false),
            importing: AtomicUsize::new(0),
        }
    }

    pub fn learn(&self, name: &str, text: Arc<str>) {
        open(&self.known).insert(name.to_string(), text);
    }

    /// Whether a known text ends with a line break.
    pub fn ends_line(&self, name: &str) -> bool {
        open(&self.known).get(name).is_some_and(|text| text.ends_with('\n'))
    }

    pub fn loaded(&self, name: &str) -> Option<Arc<Loaded>> {
        let index = self.index(name)?;
        open(&self.loaded).get(index).cloned()
    }

    /// The data that could not be read, if that is what a render failed for.
    pub fn take_unreadable(&self) -> Option<Unreadable> {
        open(&self.unreadable).take()
    }

    /// Notes data that could not be read and gives the error that stands for it.
    pub fn unreadable(&self, data: Unreadable) -> Error {
        let error = Error::new(ErrorKind::InvalidOperation, format!("`{}` cannot be read", data.path));
        *open(&self.unreadable) = Some(data);
        error
    }

    pub fn by_index(&self, index: usize) -> Option<Arc<Loaded>> {
        open(&self.loaded).get(index).cloned()
    }

    /// Notes the keys of a map, of its maps and of those of its lists.
    pub fn remember_keys(&self, data: &serde_json::Value) {
        let mut keys = open(&self.keys);
        let mut rest = vec![data];
        while let Some(value) = rest.pop().filter(|_| keys.len() < KEYS_KEPT_MAX) {
            match value {
                serde_json::Value::Object(map) => {
                    keys.extend(map.keys().cloned());
                    rest.extend(map.values());
                }
                serde_json::Value::Array(items) => rest.extend(items),
                _ => {}
            }
        }
    }

    /// Every name that a template of this compile sets, and every key of a map that it writes or imports.
    pub fn all_names(&self) -> BTreeSet<String> {
        let loaded = open(&self.loaded);
        let names = loaded.iter().flat_map(|loaded| loaded.names.iter().chain(&loaded.keys));
        names.chain(open(&self.keys).iter()).cloned().collect()
    }

    /// The templates loaded since there were `count` of them.
    pub fn since(&self, count: usize) -> Vec<Arc<Loaded>> {
        open(&self.loaded).iter().skip(count).cloned().collect()
    }

    /// The index of a template by the name the engine knows.
    pub fn index(&self, name: &str) -> Option<usize> {
        open(&self.by_name).get(name).copied()
    }

    /// Asks the compiling thread and waits.
    fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> RenderRequest) -> Result<T, String> {
        let (reply, answer) = std::sync::mpsc::sync_channel(1);
        let gone = || "the compile has ended".to_string();
        let requests = self.requests.as_ref().ok_or_else(gone)?;
        requests.send(request(reply)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())
    }

    /// Every file of the directory.
    pub fn files(&self) -> Vec<String> {
        self.ask(RenderRequest::Files).unwrap_or_default()
    }

    /// A path below the directory: no scheme, no `..` that leaves it.
    pub fn below(&self, name: &str) -> Result<String, String> {
        below(name).ok_or_else(|| format!("`{name}` leaves the {}", self.called))
    }

    pub fn read(&self, name: &str) -> Result<Option<Arc<str>>, String> {
        if let Some(text) = open(&self.known).get(name) {
            return Ok(Some(text.clone()));
        }
        if self.requests.is_none() {
            return Ok(None);
        }
        let unreadable = |why: String| format!("cannot read `{name}`: {why}");
        let text: Option<Arc<str>> = self
            .ask(|reply| RenderRequest::Read(name.to_string(), reply))?
            .map_err(unreadable)?
            .map(Arc::from);
        if let Some(text) = &text {
            self.learn(name, text.clone());
        }
        Ok(text)
    }

    /// The loader of the engine: reads a template and rewrites it.
    fn load(&self, wanted: &str, syntax: &SyntaxConfig) -> Result<Option<String>, Error> {
        let name = wanted.trim_start_matches(UNMARKED);
        // Not "not found": an include that may be missing may still not reach outside.
        let refused = |message| Error::new(ErrorKind::InvalidOperation, message);
        let path = self.below(name).map_err(refused)?;
        let text = match self.read(&path).map_err(refused)? {
            Some(text) => text,
            None => return Ok(None),
        };
        let marked = !wanted.starts_with(UNMARKED);
        if marked && origin::is_foreign(&text) {
            self.foreign.store(true, Ordering::Relaxed);
        }
        let statements = statements::rewrite(&text, syntax);
        let mut loaded = open(&self.loaded);
        let index = loaded.len();
        let Passed { rewritten: pass, names, keys, files } =
            match parse(&statements.text, wanted, syntax.clone()) {
                Ok(tree) => {
                    let spots = marked.then_some((&self.spots, index));
                    let guarding = self.guarding.load(Ordering::Relaxed);
                    let mut pass =
                        Pass::new(&statements.text, spots, self.fills.is_some()).guarding(guarding);
                    pass.stmt(&tree, true);
                    pass.finish()
                }
                // The engine will find the same mistake and say where it is.
                Err(_) => Passed { rewritten: Rewritten::unchanged(&statements.text), ..Passed::default() },
            };
        let rewritten = pass.text.clone();
        loaded.push(Arc::new(Loaded { name: path, text, statements, pass, names, keys, files }));
        open(&self.by_name).insert(wanted.to_string(), index);
        Ok(Some(rewritten))
    }
}

fn below(name: &str) -> Option<String> {
    let bare = name.strip_prefix("salt://").or_else(|| name.strip_prefix("zester://")).unwrap_or(name);
    crate::reference::normalise(bare)
}

/// A value on its way to the output, with the mark of the tag that yields it.
#[derive(Debug)]
struct Marked {
    mark: u32,
    value: Value,
    /// The value is a text that `tojson`, `yaml` or the like made.
    encoded: bool,
}

impl Object for Marked {}

/// What is wrong with a template whoever renders it: the line, and a sentence.
pub fn syntax_error(text: &str) -> Option<(u32, String)> {
    let statements = statements::rewrite(text, &syntax());
    let error = parse(&statements.text, "template", syntax()).err()?;
    let line = error.line().and_then(|line| u32::try_from(line).ok()).unwrap_or(1);
    Some((line.max(1), error.detail().unwrap_or("it cannot be read").to_string()))
}

/// The syntax of Salt's templates: blocks are neither trimmed nor stripped, and the last line break
/// of a file is none of its text: Salt puts it back behind what was rendered, whatever the last tag stripped.
pub fn syntax() -> SyntaxConfig {
    SyntaxConfig::builder().build().unwrap_or_default()
}

/// A file of data that a template imports and that is not what it should be.
#[derive(Debug)]
pub struct Unreadable {
    pub path: String,
    pub text: Arc<str>,
    /// Their spans are places of this text, whatever file they name; of what was rendered, they name templates by their
    /// index.
    pub diagnostics: Vec<Diagnostic>,
    pub rendered: bool,
}

/// What the world outside gives to templates.
pub struct Outside {
    pub facts: serde_json::Value,
    pub settings: serde_json::Value,
    pub names: Vec<String>,
    pub id: String,
}

/// Builds the engine; without an outside there are no facts, settings and functions.
pub fn build(shared: &Arc<Shared>, maker: &Maker, outside: Option<Outside>) -> Environment<'static> {
    let mut env = Environment::new();
    // Makes errors say which name was undefined. They also carry the values of variables then, which are secrets:
    // `report::Failure` leaves those behind, on this thread.
    env.set_debug(true);
    env.set_syntax(syntax());
    env.set_undefined_behavior(UndefinedBehavior::Strict);
    env.set_auto_escape_callback(|_| AutoEscape::None);
    env.set_recursion_limit(limits::RENDER_DEPTH_MAX * INCLUDE_COST);
    env.set_fuel(Some(limits::RENDER_STEPS_MAX));
    let (loader, grammar) = (shared.clone(), syntax());
    env.set_loader(move |name| loader.load(name, &grammar));
    env.set_path_join_callback(|name, parent| join(name, parent).into());
    let budget = shared.budget.clone();
    env.set_unknown_method_callback(move |state, value, method, args| {
        methods::call(state, value, method, args, &budget)
    });
    match shared.fills.is_some() {
        true => filling_formatter(&mut env, shared),
        false => formatter(&mut env, shared),
    }
    filters::install(&mut env, &shared.budget);
    formula_filters::install(&mut env, &shared.budget);
    own_filters(&mut env, shared, maker);
    own_functions(&mut env, shared, maker);
    imports::install(&mut env, shared, maker);
    salt_filters::install(&mut env, &shared.budget, maker);
    data_filters::install(&mut env);
    sealed::install(&mut env);
    if let Some(outside) = outside {
        globals(&mut env, shared, outside);
    }
    env
}

/// `./x` and `../x` are relative to the template that names them; anything else to the states dir.
pub fn join(name: &str, parent: &str) -> String {
    let unmarked = name.starts_with(UNMARKED) || parent.starts_with(UNMARKED);
    let (name, parent) = (name.trim_start_matches(UNMARKED), parent.trim_start_matches(UNMARKED));
    let joined = match name.starts_with("./") || name.starts_with("../") {
        true => match parent.rsplit_once('/') {
            Some((dir, _)) => format!("{dir}/{name}"),
            None => name.to_string(),
        },
        false => name.to_string(),
    };
    let path = below(&joined).unwrap_or(joined);
    if unmarked { format!("{UNMARKED}{path}") } else { path }
}

fn formatter(env: &mut Environment<'static>, shared: &Arc<Shared>) {
    let shared = shared.clone();
    env.set_formatter(move |out, _, value| {
        let value = match value.downcast_object_ref::<Marked>() {
            Some(marked) => {
                out.write_str(&origin::encode(marked.mark))?;
                &marked.value
            }
            None => value,
        };
        let mut writer = Counting { out, shared: &shared, failed: None };
        let written = python::write_text(value, &mut writer);
        match (writer.failed, written) {
            (Some(error), _) => Err(error),
            (None, written) => Ok(written?),
        }
    });
}

/// Puts a placeholder where the value of a tag belongs, unless a capture asks for its text.
fn filling_formatter(env: &mut Environment<'static>, shared: &Arc<Shared>) {
    let shared = shared.clone();
    env.set_formatter(move |out, _, value| {
        let Some(fills) = &shared.fills else { return Ok(()) };
        let (mark, value, encoded) = match value.downcast_object_ref::<Marked>() {
            Some(marked) => (Some(marked.mark), &marked.value, marked.encoded),
            None => (None, value, false),
        };
        if fills.reaches_output(out)? {
            let fill = Fill::of(value, encoded, &shared.budget)?;
            if let Some(mark) = mark {
                out.write_str(&origin::encode(mark))?;
            }
            out.write_str(&fills.keep(fill, &shared.budget)?)?;
            return Ok(());
        }
        let mut writer = Counting { out, shared: &shared, failed: None };
        let written = fills.as_text(|| python::write_text(value, &mut writer));
        match (writer.failed, written) {
            (Some(error), _) => Err(error),
            (None, written) => Ok(written?),
        }
    });
}

/// Counts what a tag yields, also into captures, and stops it at the bound.
struct Counting<'a, 'o, 'e> {
    out: &'a mut minijinja::Output<'o>,
    shared: &'e Shared,
    failed: Option<Error>,
}

impl std::fmt::Write for Counting<'_, '_, '_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        if let Err(error) = self.shared.budget.emit(text.len()) {
            self.failed = Some(error);
            return Err(std::fmt::Error);
        }
        if origin::is_foreign(text) {
            self.shared.foreign.store(true, Ordering::Relaxed);
        }
        self.out.write_str(text)
    }
}

/// The filters that the source pass inserts.
fn own_filters(env: &mut Environment<'static>, shared: &Arc<Shared>, maker: &Maker) {
    env.add_filter("_at", |value: Value, mark: u32| match value.is_undefined() {
        // Left as it is, so that the engine says which name it was.
        true => value,
        false => Value::from_object(Marked { mark, value, encoded: false }),
    });
    env.add_filter("_encoded_at", |value: Value, mark: u32| {
        Value::from_object(Marked { mark, value, encoded: true })
    });
    let budget = shared.budget.clone();
    env.add_filter("_cap", move |value: Value| budget.cap(value));
    for format in ["yaml", "json", "text"] {
        let (maker, budget) = (maker.clone(), shared.budget.clone());
        env.add_filter(format!("_load_{format}"), move |text: String| {
            budget.made(text.len())?;
            maker.mutable(imports::load(format, &text)?)
        });
    }
}

/// The functions that the source pass inserts, and those of the engine that we replace.
fn own_functions(env: &mut Environment<'static>, shared: &Arc<Shared>, maker: &Maker) {
    super::varargs::add(env);
    let own = maker.clone();
    env.add_function("_mut", move |value: Value| own.mutable(value));
    let own = maker.clone();
    env.add_function("_tuple", move |value: Value| own.tuple(value));
    let budget = shared.budget.clone();
    env.add_function("_count", move |bytes: usize| budget.emit(bytes).map(|()| ""));
    let budget = shared.budget.clone();
    env.add_function("_capped", move |value: Value| budget.cap(value));
    let budget = shared.budget.clone();
    env.add_function("_tick", move || budget.tick().map(|()| true));
    env.add_function("_plain", |name: Value| match name.kind() {
        ValueKind::String => Value::from(format!("{UNMARKED}{name}")),
        _ => match name.try_iter() {
            Ok(names) => Value::from(names.map(|name| format!("{UNMARKED}{name}")).collect::<Vec<_>>()),
            Err(_) => name,
        },
    });
    let own = maker.clone();
    env.add_function("namespace", move |start: Option<ValueOrKwargs>| match start {
        None => minijinja::functions::namespace(None),
        Some(start) => {
            let start = start.into_value();
            let mut entries: indexmap::IndexMap<Value, Value> = indexmap::IndexMap::new();
            for key in start.try_iter()? {
                entries.insert(key.clone(), own.mutable(start.get_item(&key)?)?);
            }
            let start = Value::from_object(entries);
            minijinja::functions::namespace(Some(ValueOrKwargs::from(start)))
        }
    });
    env.add_function("raise", |message: Rest<Value>| {
        let words: Vec<String> = message.iter().map(Value::to_string).collect();
        Err::<Value, _>(Error::new(ErrorKind::InvalidOperation, words.join(" ")))
    });
    env.remove_global("debug");
}

fn globals(env: &mut Environment<'static>, shared: &Arc<Shared>, outside: Outside) {
    shared.guarding.store(sealed::holds_secret(&outside.settings), Ordering::Relaxed);
    let asked = shared.clone();
    let world = Arc::new(World {
        facts: Value::from(Serde(outside.facts)),
        settings: Value::from(Serde(outside.settings)),
        names: outside.names,
        shared: Some(shared.clone()),
        ask: Box::new(move |name, args, named| {
            let begun = std::time::Instant::now();
            let answer =
                asked.ask(|reply| RenderRequest::Call { name: name.to_string(), args, named, reply });
            asked.budget.forgive(begun.elapsed());
            answer?
        }),
    });
    for name in ["facts", "grains"] {
        env.add_global(name, Data::facts(&world));
    }
    for name in ["settings", "pillar"] {
        env.add_global(name, Data::settings(&world));
    }
    env.add_global("salt", Value::from_object(Salt(world)));
    env.add_global("id", Value::from(outside.id.as_str()));
    let options = [("id", outside.id.as_str()), ("saltenv", "base")];
    env.add_global("opts", Value::from_pairs(options));
    env.add_global("saltenv", Value::from("base"));
    env.add_global("env", Value::from("base"));
}
