//! The engine's errors in our words, at the place where the user wrote the mistake.

use super::environment::{Loaded, Shared, UNMARKED, syntax};
use super::serve::Surroundings;
use super::statements::unclosed;
use crate::CallError;
use crate::position::span_at;
use minijinja::{Error, ErrorKind};
use std::sync::Arc;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::source::{FileId, Span};
use zester_model::suggest::did_you_mean;

/// Longer expressions are not repeated in a message: the caret shows them.
const SHOWN_LETTERS_MAX: usize = 60;

/// What is needed to find a place.
pub struct View<'a> {
    pub shared: &'a Shared,
    /// By the index of the template.
    pub files: &'a [FileId],
    /// The template that was to be rendered, by its entry and by its name.
    pub file: FileId,
    pub name: &'a str,
    /// The variables that it was given.
    pub context: &'a [String],
    pub around: &'a Surroundings<'a>,
    /// It is a reaction, which has nothing but its event.
    pub reaction: bool,
}

impl View<'_> {
    fn template(&self, name: &str) -> Option<(Arc<Loaded>, FileId)> {
        let file = self.files.get(self.shared.index(name)?).copied()?;
        Some((self.shared.loaded(name)?, file))
    }

    /// The nearest key of a map: of those that templates write or import, then of the settings and facts.
    fn any_key(&self, wrong: &str) -> Option<String> {
        self.any_name(wrong).or_else(|| {
            let mut keys = Vec::new();
            let mut rest = vec![self.around.settings, self.around.facts];
            while let Some(map) = rest.pop().and_then(|value| value.as_object()) {
                keys.extend(map.keys().map(String::as_str));
                rest.extend(map.values().filter(|value| value.is_object()));
            }
            did_you_mean(wrong, keys)
        })
    }

    /// The nearest of all names and keys that templates of this compile set, write or import.
    fn any_name(&self, wrong: &str) -> Option<String> {
        let names = self.shared.all_names();
        did_you_mean(wrong, names.iter().map(String::as_str).filter(|name| *name != wrong))
    }
}

/// What the rendering thread says of an error: nothing but texts and a place.
#[derive(Debug)]
pub struct Failure {
    kind: ErrorKind,
    detail: String,
    /// The template, by the name the engine knows.
    name: Option<String>,
    /// In what the engine saw of it.
    range: Option<std::ops::Range<usize>>,
    /// A function had no answer because this is another machine.
    elsewhere: bool,
}

impl Failure {
    pub fn new(error: &Error) -> Failure {
        let elsewhere = is_elsewhere(error);
        let error = innermost(error);
        Failure {
            kind: error.kind(),
            detail: error.detail().unwrap_or_default().to_string(),
            name: error.name().map(str::to_string),
            range: error.range(),
            elsewhere,
        }
    }

    pub fn plain(message: &str) -> Failure {
        let (kind, detail) = (ErrorKind::InvalidOperation, message.to_string());
        Failure { kind, detail, name: None, range: None, elsewhere: false }
    }
}

/// The innermost error of a chain: an include that fails wraps the one that says why.
fn innermost(error: &Error) -> &Error {
    let mut found = error;
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(inner) = inner.downcast_ref::<Error>()
            && inner.name().is_some()
        {
            found = inner;
        }
        source = inner.source();
    }
    found
}

fn is_elsewhere(error: &Error) -> bool {
    let mut chain = std::iter::successors(std::error::Error::source(error), |inner| inner.source());
    chain.any(|inner| matches!(inner.downcast_ref(), Some(CallError::Elsewhere(_))))
}

/// Turns an error of the engine into a problem.
pub fn explain(error: &Failure, view: &View<'_>) -> Diagnostic {
    let diagnostic = explained(error, view);
    let kind = if error.elsewhere { Kind::Elsewhere } else { diagnostic.kind };
    Diagnostic { kind, ..unknown_function(diagnostic, error, view) }
}

/// A call of a function that there is none of: the engine only sees that something undefined is called (S-55).
fn unknown_function(diagnostic: Diagnostic, error: &Failure, view: &View<'_>) -> Diagnostic {
    if diagnostic.message.starts_with("unknown function `") {
        return diagnostic.code("unknown_function");
    }
    let Some((loaded, _)) = error.name.as_deref().and_then(|name| view.template(name)) else {
        return diagnostic;
    };
    let Some(range) = error.range.clone() else { return diagnostic };
    // The engine points at the call, or at what follows the name.
    let range = loaded.back(range);
    let line = loaded.text.get(..range.start).and_then(|text| text.rfind('\n')).map_or(0, |at| at + 1);
    let part = loaded.text.get(line..).and_then(|rest| rest.lines().next()).unwrap_or_default();
    let known = view.around.functions.names();
    let own = super::salt_functions::OWN.iter().map(|(own, _)| *own);
    let is_known = |name: &str| known.iter().any(|known| known == name) || own.clone().any(|own| own == name);
    let missing = called(part).into_iter().find(|name| !name.starts_with("log.") && !is_known(name));
    let undefined = diagnostic.message.contains("undefined") || diagnostic.message.contains("not callable");
    match missing.filter(|_| undefined) {
        Some(name) => {
            let names = known.iter().map(String::as_str).chain(own);
            let hint = did_you_mean(&name, names);
            Diagnostic { message: format!("unknown function `{name}`"), hint, ..diagnostic }
                .code("unknown_function")
        }
        None => diagnostic,
    }
}

/// The functions that a line of a template calls through `salt`.
fn called(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    for part in line.split("salt").skip(1) {
        let name = match part.as_bytes().first() {
            Some(b'[') => part.split(['\'', '"']).nth(1).unwrap_or_default(),
            Some(b'.') => {
                let end = part
                    .get(1..)
                    .and_then(|rest| rest.find(|it: char| !it.is_alphanumeric() && !"_.".contains(it)));
                part.get(1..end.map_or(part.len(), |end| end + 1)).unwrap_or_default()
            }
            _ => "",
        };
        if name.split('.').filter(|word| !word.is_empty()).count() == 2 {
            found.push(name.to_string());
        }
    }
    found
}

fn explained(error: &Failure, view: &View<'_>) -> Diagnostic {
    let place = error.name.as_deref().and_then(|name| view.template(name));
    let range = error.range.clone();
    let span = match (&place, &range) {
        (Some((loaded, file)), Some(range)) => {
            let range = named(&loaded.text, loaded.back(range.clone()), error);
            span_at(*file, &loaded.text, range)
        }
        _ => Span::start_of(view.file),
    };
    let bound = view.shared.budget.check().err().and_then(|error| error.detail().map(str::to_string));
    if let Some(message) = bound {
        return Diagnostic::new(Kind::Template, message).at(span).note("templates are bounded; see `limits`");
    }
    let detail = error.detail.as_str();
    // An operation on nothing, or a call of it: it is the nothing that is wrong.
    let called = detail.strip_suffix(" is unknown").filter(|_| error.kind == ErrorKind::UnknownFunction);
    if let Some(name) = called.or(inside(detail, "(`", "` is undefined")).filter(|name| is_path(name)) {
        return undefined(Some(name), place.as_ref(), view).at(span);
    }
    match error.kind {
        ErrorKind::UndefinedError => {
            // Across files the engine loses the name; the source still has it.
            let written = place
                .as_ref()
                .zip(range)
                .and_then(|((loaded, _), range)| loaded.text.get(loaded.back(range)).map(str::to_string));
            let name = quoted(detail).filter(|name| is_path(name)).map(str::to_string);
            let name = name.or_else(|| written.clone().filter(|text| is_path(text)));
            match (name, written) {
                (None, Some(text)) if !text.contains('\n') && text.chars().count() <= SHOWN_LETTERS_MAX => {
                    let diagnostic =
                        Diagnostic::new(Kind::Template, format!("`{}` is undefined", text.trim()));
                    diagnostic.at(span)
                }
                (name, _) => undefined(name.as_deref(), place.as_ref(), view).at(span),
            }
        }
        ErrorKind::OutOfFuel => {
            let message = format!("the template takes more than {} steps", limits::RENDER_STEPS_MAX);
            Diagnostic::new(Kind::Template, message).at(span)
        }
        ErrorKind::TemplateNotFound => {
            let plain = detail.replace(UNMARKED, "").replace("\\u{1}", "");
            let name = plain.split(['\'', '"']).nth(1).filter(|_| !plain.contains('`'));
            let called = view.around.tree.called();
            let message = name.map(|name| format!("there is no file `{name}` in the {called}"));
            Diagnostic::new(Kind::Reference, message.unwrap_or(plain)).at(span)
        }
        ErrorKind::SyntaxError => syntax_diagnostic(detail, span, place.as_ref()),
        // A method of nothing: it is the nothing that is wrong.
        ErrorKind::UnknownMethod if detail.starts_with("undefined has no method") => {
            let name = quoted(detail).map(str::to_string).or_else(|| {
                let (loaded, _) = place.as_ref()?;
                let before = loaded.text.get(..loaded.back(range?).start)?;
                let name = before.rsplit(|letter: char| !letter.is_alphanumeric() && !"_.".contains(letter));
                name.into_iter().next().filter(|name| is_path(name)).map(str::to_string)
            });
            undefined(name.as_deref(), place.as_ref(), view).at(span)
        }
        ErrorKind::UnknownMethod => {
            let hint = detail.rsplit("has no method named ").next().and_then(|name| view.any_name(name));
            other(error, detail).at(span).maybe_hint(hint)
        }
        _ => other(error, detail).at(span),
    }
}

/// What stands between two marks.
fn inside<'t>(text: &'t str, open: &str, close: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(open)?;
    rest.split_once(close).map(|(name, _)| name)
}

/// Text inside the first pair of backquotes.
fn quoted(detail: &str) -> Option<&str> {
    detail.split('`').nth(1)
}

/// Narrows a stretch to the name that an error is about. The engine points at the whole expression, or at what comes
/// behind the name: a method, a filter, a further key.
fn named(text: &str, range: std::ops::Range<usize>, error: &Failure) -> std::ops::Range<usize> {
    let about_a_name = matches!(error.kind, ErrorKind::UndefinedError | ErrorKind::UnknownMethod);
    let Some(name) = quoted(&error.detail).filter(|name| about_a_name && is_path(name)) else { return range };
    let written = [name.to_string(), name.replace('\'', "\"")];
    let inside = text.get(range.clone()).unwrap_or("");
    let line = text.get(..range.start).and_then(|before| before.rfind('\n')).map_or(0, |at| at + 1);
    let before = text.get(line..range.start).unwrap_or("");
    // The name may begin before the stretch and end in it.
    let around = text.get(line..range.end).unwrap_or("");
    let found = written.iter().find_map(|name| {
        let at = inside.find(name).map(|at| range.start + at);
        let at = at.or_else(|| around.rfind(name).filter(|_| !before.is_empty()).map(|at| line + at));
        at.map(|at| at..at + name.len())
    });
    found.unwrap_or(range)
}

/// A name with attributes and keys, as in `pillar['a'].b`.
fn is_path(text: &str) -> bool {
    text.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.[]'\"".contains(&byte))
}

fn undefined(name: Option<&str>, place: Option<&(Arc<Loaded>, FileId)>, view: &View<'_>) -> Diagnostic {
    let Some(name) = name else {
        return Diagnostic::new(Kind::Template, "a value is undefined");
    };
    let (root, rest) = match name.find(['.', '[']) {
        Some(at) => (&name[..at], &name[at..]),
        None => (name, ""),
    };
    let own = place.map(|(loaded, _)| loaded.names.clone()).unwrap_or_default();
    if let Some(hint) = absent(root).filter(|_| view.reaction && !own.iter().any(|name| name == root)) {
        return Diagnostic::new(Kind::Template, format!("a reaction has no `{root}`")).hint(hint);
    }
    // What is included sees the names of the one that includes it.
    let includer = view.shared.loaded(view.name).map(|loaded| loaded.names.clone()).unwrap_or_default();
    let given = own.iter().chain(&includer).chain(view.context).map(String::as_str);
    let names: &[&str] = if view.reaction { &[] } else { &NAMES };
    let known = || names.iter().copied().chain(given.clone());
    if rest.is_empty() || !known().any(|known| known == root) {
        // Of `grain.os` it is `grain` that nobody knows.
        let diagnostic = Diagnostic::new(Kind::Template, format!("`{root}` is undefined"));
        let near = did_you_mean(root, known().filter(|name| *name != root));
        return diagnostic.maybe_hint(near.or_else(|| view.any_name(root)));
    }
    let diagnostic = Diagnostic::new(Kind::Template, format!("`{name}` is undefined"));
    let separators = ['.', '[', ']', '\'', '"'];
    let keys: Vec<&str> = rest.split(separators).filter(|key| !key.is_empty()).collect();
    let data = match root {
        "facts" | "grains" => view.around.facts,
        "settings" | "pillar" => view.around.settings,
        // A map of the template's own: the nearest key of any that there is.
        _ => return diagnostic.maybe_hint(keys.last().and_then(|key| view.any_key(key))),
    };
    let Some((wrong, before)) = keys.split_last() else { return diagnostic };
    let map = before.iter().try_fold(data, |map, key| map.get(key)).and_then(|map| map.as_object());
    let near = map.and_then(|map| did_you_mean(wrong, map.keys().map(String::as_str)));
    let default = format!("give it a default: `{root}.get('{}', …)`", keys.join(":"));
    diagnostic.hint(near.unwrap_or(default))
}

/// A `{{`, `{%` or `{#` that runs to the end of the file.
fn unclosed_sign(detail: &str, span: Span, place: Option<&(Arc<Loaded>, FileId)>) -> Option<Diagnostic> {
    let signs = [("{{", "}}", "variable block"), ("{#", "#}", "comment"), ("{%", "%}", "block")];
    let (sign, close, _) = signs.into_iter().find(|(_, _, what)| {
        let open = format!("unexpected end of input, expected end of {what}");
        detail == open || *what == "comment" && detail == "unexpected end of comment"
    })?;
    let found = place.and_then(|(loaded, file)| {
        let at = loaded.text.rfind(sign)?;
        Some(span_at(*file, &loaded.text, at..at + sign.len()))
    });
    let diagnostic = Diagnostic::new(Kind::Template, format!("`{sign}` is never closed"));
    Some(diagnostic.at(found.unwrap_or(span)).hint(format!("add `{close}` behind it")))
}

fn syntax_diagnostic(detail: &str, span: Span, place: Option<&(Arc<Loaded>, FileId)>) -> Diagnostic {
    let ends = detail.contains("unexpected end of input") || detail.contains("unexpected end of raw");
    if let Some((loaded, file)) = place.filter(|_| ends)
        && let Some((word, range)) = unclosed(&loaded.text, &syntax())
    {
        let message = format!("`{{% {word} %}}` is never closed");
        return Diagnostic::new(Kind::Template, message)
            .at(span_at(*file, &loaded.text, range))
            .hint(format!("add `{{% end{word} %}}`"));
    }
    if let Some(diagnostic) = unclosed_sign(detail, span, place) {
        return diagnostic;
    }
    let message = match detail.strip_prefix("unknown statement ") {
        Some(name) if name.starts_with("end") || matches!(name, "elif" | "else") => {
            let opens = name.strip_prefix("end").unwrap_or("if");
            let message = format!("`{{% {name} %}}` has no `{{% {opens} %}}` above it");
            return Diagnostic::new(Kind::Template, message)
                .at(span)
                .hint("remove it, or add what it closes");
        }
        Some(name) => {
            let known = [
                "if",
                "elif",
                "else",
                "endif",
                "for",
                "endfor",
                "set",
                "endset",
                "macro",
                "endmacro",
                "call",
                "endcall",
                "filter",
                "endfilter",
                "include",
                "import",
                "from",
                "do",
                "with",
                "endwith",
                "raw",
                "import_yaml",
                "import_json",
                "import_text",
                "load_yaml",
                "load_json",
                "endload",
                "block",
                "endblock",
                "extends",
                "break",
                "continue",
            ];
            let hint = did_you_mean(name, known);
            let diagnostic = Diagnostic::new(Kind::Template, format!("unknown statement `{name}`"));
            return diagnostic.at(span).maybe_hint(hint);
        }
        None => format!("template syntax: {detail}"),
    };
    Diagnostic::new(Kind::Template, message).at(span)
}

fn other(error: &Failure, detail: &str) -> Diagnostic {
    let hidden = |name: &str| name.starts_with('_');
    match error.kind {
        ErrorKind::UnknownFilter => {
            let name = detail.split_whitespace().nth(1).unwrap_or(detail);
            let diagnostic = Diagnostic::new(Kind::Template, format!("unknown filter `{name}`"));
            diagnostic.maybe_hint(did_you_mean(name, FILTERS.iter().copied().filter(|name| !hidden(name))))
        }
        ErrorKind::UnknownTest => {
            let name = detail.split_whitespace().nth(1).unwrap_or(detail);
            Diagnostic::new(Kind::Template, format!("unknown test `{name}`"))
        }
        ErrorKind::UnknownMethod => Diagnostic::new(Kind::Template, format!("unknown method: {detail}")),
        ErrorKind::UnknownFunction if detail.starts_with("unknown function") => {
            let (message, hint) = detail.split_once("; ").unwrap_or((detail, ""));
            let diagnostic = Diagnostic::new(Kind::Template, message);
            diagnostic.maybe_hint((!hint.is_empty()).then(|| hint.to_string()))
        }
        ErrorKind::UnknownFunction => Diagnostic::new(Kind::Template, format!("unknown function: {detail}")),
        kind if detail.is_empty() => Diagnostic::new(Kind::Template, kind.to_string()),
        // The engine's bound on includes and macros is not one of ours.
        _ if detail.contains("recursion limit") => {
            let message = format!("templates nest more than {} levels deep", limits::RENDER_DEPTH_MAX);
            Diagnostic::new(Kind::Template, message)
        }
        _ => Diagnostic::new(Kind::Template, detail.to_string()),
    }
}

/// What a template of a state has and a reaction has not, and what there is instead.
fn absent(name: &str) -> Option<&'static str> {
    match name {
        "salt" => Some("it calls nothing itself: start a job with `dispatch.module`"),
        "facts" | "grains" => Some("`origin_facts` holds the facts of the peel that sent the event"),
        "settings" | "pillar" => Some("settings are for peels: let the state that it starts use them"),
        "id" | "opts" => Some("`event.peel` is the peel that sent the event"),
        _ => None,
    }
}

/// What every template knows.
const NAMES: [&str; 12] = [
    "facts", "grains", "settings", "pillar", "salt", "sls", "slspath", "tpldir", "tplfile", "tplpath", "id",
    "opts",
];

/// Names to suggest from.
const FILTERS: [&str; 85] = [
    "abs",
    "attr",
    "avg",
    "b64decode",
    "b64encode",
    "basename",
    "batch",
    "bool",
    "capitalize",
    "combine",
    "count",
    "default",
    "dictsort",
    "difference",
    "dirname",
    "escape",
    "exactly_n_true",
    "exactly_one_true",
    "first",
    "flatten",
    "float",
    "format",
    "groupby",
    "human_to_bytes",
    "indent",
    "int",
    "intersect",
    "is_ip",
    "is_ipv4",
    "is_ipv6",
    "is_iter",
    "is_list",
    "items",
    "join",
    "json",
    "last",
    "length",
    "lines",
    "list",
    "load_json",
    "load_yaml",
    "lower",
    "map",
    "max",
    "md5",
    "min",
    "path_join",
    "pprint",
    "quote",
    "regex_escape",
    "regex_match",
    "regex_replace",
    "regex_search",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "sequence",
    "sha256",
    "sha512",
    "slice",
    "sort",
    "split",
    "string",
    "strip",
    "sum",
    "symmetric_difference",
    "title",
    "to_bool",
    "to_camelcase",
    "to_snake_case",
    "to_num",
    "tojson",
    "traverse",
    "trim",
    "truncate",
    "union",
    "unique",
    "upper",
    "wordcount",
    "yaml",
    "yaml_encode",
];
