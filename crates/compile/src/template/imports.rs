//! `import_yaml`, `import_json`, `import_text`: the file is rendered with the importer's variables first, then read
//! (S-50). What is wrong with it is told at its own line.

use super::environment::{Shared, UNMARKED, Unreadable, join};
use super::mutable::Maker;
use super::origin;
use super::serve::is_template;
use crate::position::{Lines, Piece, Positions};
use minijinja::value::{Serde, Value};
use minijinja::{Environment, Error, ErrorKind, State};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::source::{FileId, Span};

/// Imports that may stand inside one another: each takes a part of the stack.
const DEPTH_MAX: usize = 64;

/// Puts the functions that the source pass calls into the environment.
pub fn install(env: &mut Environment<'static>, shared: &Arc<Shared>, maker: &Maker) {
    for format in ["yaml", "json", "text"] {
        let (shared, maker) = (shared.clone(), maker.clone());
        env.add_function(format!("_import_{format}"), move |state: &mut State, name: String| {
            let path = join(&name, state.name());
            maker.mutable(import(&shared, state, path.trim_start_matches(UNMARKED), format)?)
        });
    }
}

fn missing(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::TemplateNotFound, message.into())
}

/// The data of a file below the directory.
pub fn import(shared: &Shared, state: &mut State, path: &str, format: &str) -> Result<Value, Error> {
    let path = shared.below(path).map_err(missing)?;
    let text = shared.read(&path).map_err(missing)?;
    let text = text.ok_or_else(|| missing(format!("`{path}` does not exist")))?;
    let json = match is_template(&text) && shared.fills.is_none() {
        false => read_data(format, &text, &mut Positions::plain(FileId(0), &text)).map_err(|diagnostics| {
            shared.unreadable(Unreadable { path, text, diagnostics, rendered: false })
        }),
        true => {
            let marked = render(shared, state, &path)?;
            read_rendered(shared, format, &marked).map_err(|diagnostics| {
                shared.unreadable(Unreadable { path, text, diagnostics, rendered: true })
            })
        }
    }?;
    shared.remember_keys(&json);
    Ok(Value::from(Serde(json)))
}

/// Renders a file with the variables that are known here.
fn render(shared: &Shared, state: &mut State, path: &str) -> Result<String, Error> {
    let depth = Depth::enter(&shared.importing)?;
    let foreign = shared.foreign.load(Ordering::Relaxed);
    let name = if foreign { format!("{UNMARKED}{path}") } else { path.to_string() };
    let template = state.env().get_template(&name)?;
    let names: Vec<String> = state.known_variables().into_iter().map(|name| name.into_owned()).collect();
    let known = names.into_iter().filter_map(|name| Some((state.lookup(&name)?, name)));
    let context: indexmap::IndexMap<Value, Value> =
        known.map(|(value, name)| (Value::from(name), value)).collect();
    let rendered = template.render(Value::from_object(context))?;
    shared.budget.bytes(rendered.len())?;
    drop(depth);
    Ok(rendered)
}

/// One import inside another.
struct Depth<'a>(&'a AtomicUsize);

impl<'a> Depth<'a> {
    fn enter(count: &'a AtomicUsize) -> Result<Depth<'a>, Error> {
        if count.fetch_add(1, Ordering::Relaxed) >= DEPTH_MAX {
            count.fetch_sub(1, Ordering::Relaxed);
            let message = format!("more than {DEPTH_MAX} imports inside one another");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        Ok(Depth(count))
    }
}

impl Drop for Depth<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads what a template yielded; the spans of problems name templates by their index.
fn read_rendered(shared: &Shared, format: &str, marked: &str) -> Result<serde_json::Value, Vec<Diagnostic>> {
    let index_as_file = |index: usize| FileId(u32::try_from(index).unwrap_or(u32::MAX));
    let (text, mut pieces) = origin::strip(marked, &shared.spots, &index_as_file);
    if pieces.first().is_none_or(|piece| piece.at > 0) {
        let file = pieces.first().map_or(FileId(0), |piece| piece.file);
        pieces.insert(0, Piece { at: 0, file, offset: 0, len: 0, verbatim: true });
    }
    let mut files: Vec<FileId> = pieces.iter().map(|piece| piece.file).collect();
    files.sort();
    files.dedup();
    let loaded: Vec<_> =
        files.into_iter().filter_map(|file| Some((file, shared.by_index(file.0 as usize)?))).collect();
    let lines = loaded.iter().map(|(file, template)| (*file, Lines::new(&template.text))).collect();
    read_data(format, &text, &mut Positions::new(pieces, lines))
}

/// Reads data that a template loads; what is wrong with it has places in its text.
pub fn read_data(
    format: &str,
    text: &str,
    positions: &mut Positions<'_>,
) -> Result<serde_json::Value, Vec<Diagnostic>> {
    match format {
        "text" => Ok(text.into()),
        "json" => serde_json::from_str(text).map_err(|error| {
            let sentence = error.to_string();
            let reason = sentence.split(" at line ").next().unwrap_or_default();
            let place = Span::new(FileId(0), error.line() as u32, error.column() as u32, 1);
            vec![Diagnostic::new(Kind::Yaml, format!("not JSON: {reason}")).at(place)]
        }),
        _ => crate::yaml::compose(text, positions).map(|node| node.to_json()),
    }
}

/// Reads data that stands in a template.
pub fn load(format: &str, text: &str) -> Result<Value, Error> {
    let read = read_data(format, text, &mut Positions::plain(FileId(0), text));
    read.map(|json| Value::from(Serde(json))).map_err(|diagnostics| {
        let first = diagnostics.first();
        let message = first.map_or_else(|| "not YAML".to_string(), |diagnostic| diagnostic.message.clone());
        let place = first.and_then(|diagnostic| diagnostic.span);
        let place = place.map(|span| format!(" (line {}, column {})", span.line, span.column));
        Error::new(ErrorKind::InvalidOperation, format!("{message}{}", place.unwrap_or_default()))
    })
}
