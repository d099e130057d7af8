//! `module.run` and `module.wait` of execution functions, in both forms that Salt has (S-20).
//!
//! A function that acts is a kind under another name (`functions/acting.rs`): then it is checked, told and undone as that
//! kind. Any other function is called when the state runs, and what it answers is told; nothing of it can be undone.

use crate::functions::acting::{self, ACTING};
use crate::functions::{self, Arguments, CallContext, FUNCTIONS, Function};
use serde_json::{Map, Value as Json};
use std::sync::Arc;
use zester_host::{BoxFuture, Fault, FaultKind};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::node::Node;
use zester_model::outcome::Details;
use zester_model::program::{Param, State};
use zester_model::source::Span;
use zester_model::suggest::did_you_mean;
use zester_resources::{Applying, Bound, Explanation, FunctionCalls, function_state};

/// Letters of an answer that are told.
const ANSWER_SHOWN_MAX: usize = 400;

/// What functions see besides the machine.
#[derive(Clone, Debug, Default)]
pub struct Known {
    pub facts: Arc<Json>,
    pub settings: Arc<Json>,
}

/// What became of a state of `module.run`.
pub enum Meant {
    /// It is of another kind, or names one: not ours.
    Kind,
    /// A kind by the name of a function: these are the parameters of `module.run` then.
    Acting(Vec<Param>),
    Calls(Box<dyn Bound>),
}

/// One call as it is written.
struct Written {
    name: String,
    place: Span,
    bare: Vec<Node>,
    named: Vec<(String, Span, Node)>,
}

/// What a state means, if it runs a function.
pub fn read(state: &State, known: &Known) -> Result<Meant, Vec<Diagnostic>> {
    let waits = match state.name.kind() {
        "module.run" => false,
        "module.wait" => true,
        _ => return Ok(Meant::Kind),
    };
    let mut written = dotted(&state.params)?;
    if written.is_empty() {
        written.extend(by_name(&state.params)?);
    }
    if written.iter().any(|one| zester_resources::catalog().get(&one.name).is_some()) {
        return Ok(Meant::Kind);
    }
    if let [one] = written.as_slice()
        && let Some(kind) = ACTING.iter().find(|acting| acting.name == one.name)
    {
        return acting_params(kind, one).map(Meant::Acting);
    }
    let mut problems = Vec::new();
    let mut calls = Vec::new();
    for one in &written {
        match prepared(one) {
            Ok(call) => calls.push(call),
            Err(problem) => problems.push(problem),
        }
    }
    match (problems.is_empty(), calls.is_empty()) {
        (false, _) => Err(problems),
        // It names nothing: the kind itself says so best.
        (true, true) => Ok(Meant::Kind),
        (true, false) => Ok(Meant::Calls(function_state(waits, Calls { calls, known: known.clone() }))),
    }
}

fn wrong(message: String, at: Span) -> Diagnostic {
    Diagnostic::new(Kind::State, format!("module.run: {message}")).at(at)
}

/// `- service.restart: [{name: nginx}]`, one or several; a bare value is an argument by its place.
fn dotted(params: &[Param]) -> Result<Vec<Written>, Vec<Diagnostic>> {
    let mut found = Vec::new();
    for param in params.iter().filter(|param| param.name.contains('.')) {
        let (mut bare, mut named) = (Vec::new(), Vec::new());
        let own = std::slice::from_ref(&param.value);
        let items = param.value.as_list().unwrap_or(if param.value.is_null() { &[] } else { own });
        for item in items {
            match item.as_map() {
                Some(map) => named.extend(entries(map)?),
                None => bare.push(item.clone()),
            }
        }
        found.push(Written { name: param.name.clone(), place: param.key, bare, named });
    }
    Ok(found)
}

fn entries(map: &[(Node, Node)]) -> Result<Vec<(String, Span, Node)>, Vec<Diagnostic>> {
    let entry = |(key, value): &(Node, Node)| match key.as_text() {
        Some(name) => Ok((name.to_string(), key.span, value.clone())),
        None => Err(vec![wrong(format!("an argument needs a name, not {}", key.describe()), key.span)]),
    };
    map.iter().map(entry).collect()
}

/// `- name: service.restart` with the arguments beside it; `m_name` is one that is called `name`.
fn by_name(params: &[Param]) -> Result<Option<Written>, Vec<Diagnostic>> {
    let Some(name) = params.iter().find(|param| param.name == "name") else { return Ok(None) };
    let Some(function) = name.value.as_text().filter(|text| text.contains('.')) else { return Ok(None) };
    let mut written =
        Written { name: function.to_string(), place: name.value.span, bare: Vec::new(), named: Vec::new() };
    for param in params.iter().filter(|param| param.name != "name") {
        match (param.name.as_str(), param.value.as_list(), param.value.as_map()) {
            ("args", Some(list), _) => written.bare.extend(list.iter().cloned()),
            ("args", None, None) => written.bare.push(param.value.clone()),
            ("kwargs", _, Some(map)) => written.named.extend(entries(map)?),
            ("kwargs", Some(list), _) => {
                for map in list.iter().filter_map(Node::as_map) {
                    written.named.extend(entries(map)?);
                }
            }
            // Where the answer goes in Salt: it is told here anyway.
            ("returner", ..) => {}
            (word, ..) => {
                let own = word.strip_prefix("m_").unwrap_or(word);
                written.named.push((own.to_string(), param.key, param.value.clone()));
            }
        }
    }
    Ok(Some(written))
}

/// The parameters of `module.run` that name the kind.
fn acting_params(kind: &acting::Acting, call: &Written) -> Result<Vec<Param>, Vec<Diagnostic>> {
    let mut params = vec![Param::new("name", call.place, Node::text(call.place, kind.kind))];
    let bare: Vec<(&'static str, &Node)> = kind.bare_names().zip(&call.bare).collect();
    if let Some(extra) = call.bare.get(bare.len()) {
        let names: Vec<&str> = kind.bare_names().collect();
        let message = format!("{} takes {}; this is one more", kind.name, names.join(", "));
        return Err(vec![wrong(message, extra.span)]);
    }
    // `name` of the kind is called `m_name` beside the name of the kind itself.
    let own = |name: &str| if name == "name" { "m_name".to_string() } else { name.to_string() };
    params.extend(bare.into_iter().map(|(name, value)| Param::new(&own(name), value.span, value.clone())));
    for (name, key, value) in &call.named {
        params.push(Param::new(&own(kind.own_name(name)), *key, value.clone()));
    }
    for (name, value) in kind.said() {
        if !params.iter().any(|param| param.name == *name) {
            params.push(Param::new(name, call.place, Node::text(call.place, *value)));
        }
    }
    Ok(params)
}

/// A function that can be called, with its arguments.
struct Prepared {
    function: &'static Function,
    name: String,
    arguments: Arguments,
}

fn prepared(call: &Written) -> Result<Prepared, Diagnostic> {
    let Some(function) = functions::find(&call.name) else {
        let names = FUNCTIONS.iter().map(|function| function.name);
        let names = names.chain(ACTING.iter().map(|acting| acting.name));
        let hint = did_you_mean(&call.name, names.chain(zester_resources::catalog().names()));
        let hint = hint.unwrap_or_else(|| "use the kind that does it, or a `cmd.run`".into());
        return Err(wrong(format!("unknown function `{}`", call.name), call.place)
            .hint(hint)
            .code("unknown_function"));
    };
    let mut named = Map::new();
    for (name, key, value) in &call.named {
        if named.insert(name.clone(), value.to_json()).is_some() {
            return Err(wrong(format!("`{name}` is given twice"), *key));
        }
    }
    let positional = call.bare.iter().map(Node::to_json).collect();
    let arguments = Arguments { positional, named };
    function.check(&arguments).map_err(|why| wrong(format!("{}: {why}", call.name), call.place))?;
    Ok(Prepared { function, name: call.name.clone(), arguments })
}

struct Calls {
    calls: Vec<Prepared>,
    known: Known,
}

impl FunctionCalls for Calls {
    fn words(&self) -> String {
        self.calls.iter().map(Prepared::words).collect::<Vec<_>>().join(", ")
    }

    fn call<'a>(&'a self, cx: &'a Applying<'a>) -> BoxFuture<'a, Result<Explanation, Fault>> {
        Box::pin(async move {
            let (mut told, mut details) = (Vec::new(), Details::new());
            for call in &self.calls {
                if cx.cancel.is_cancelled() {
                    return Err(Fault::canceled());
                }
                // Functions wait for what they start on the runtime that we stand on.
                let answer = tokio::task::block_in_place(|| call.answer(cx, &self.known));
                let answer = answer.map_err(|why| {
                    Fault::new(FaultKind::CommandFailed, format!("{}: {why}", call.name)).touched()
                })?;
                told.push(format!("{}: {}", call.words(), shown(&answer)));
                details.insert(call.name.clone(), answer);
            }
            Ok(Explanation { diff: told.join("\n"), details })
        })
    }
}

impl Prepared {
    fn words(&self) -> String {
        let value = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_string);
        let Arguments { positional, named } = &self.arguments;
        let named = named.iter().map(|(name, given)| format!("{name}={}", value(given)));
        let words: Vec<String> = positional.iter().map(value).chain(named).collect();
        format!("{}({})", self.name, words.join(", "))
    }

    fn answer(&self, cx: &Applying<'_>, known: &Known) -> Result<Json, String> {
        let handle = tokio::runtime::Handle::current();
        let place = CallContext {
            host: cx.host,
            processes: cx.processes,
            handle: &handle,
            facts: &known.facts,
            settings: &known.settings,
            origins: &[],
            cancel: cx.cancel,
            cut_output: true,
        };
        let answer = self.function.answer(&place, &self.arguments)?;
        // As in Salt: `false`, and a command that failed, are failures.
        let failed = answer == Json::Bool(false)
            || answer.get("retcode").and_then(Json::as_i64).is_some_and(|code| code != 0);
        if failed { Err(format!("it answered {}", shown(&answer))) } else { Ok(answer) }
    }
}

fn shown(answer: &Json) -> String {
    let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_string);
    match text.char_indices().nth(ANSWER_SHOWN_MAX) {
        Some((cut, _)) => format!("{}…", text.get(..cut).unwrap_or_default()),
        None => text,
    }
}
