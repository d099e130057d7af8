//! What any state may carry beside its parameters: guards, order, retry, failhard (S-16 to S-19), and what Salt has
//! there that means something else here (S-41).

use crate::declare::Item;
use crate::diagnostics::Diagnostics;
use std::time::Duration;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::duration;
use zester_model::keywords;
use zester_model::limits;
use zester_model::node::{Mismatch, Node, Scalar, ScalarType, Value};
use zester_model::program::{Attributes, FunctionGuard, Retry};
use zester_model::suggest::did_you_mean;

/// Whether a key is an attribute.
pub fn is_one(key: &str) -> bool {
    keywords::ATTRIBUTES.iter().any(|attribute| attribute.word == key)
}

pub const ORDER_FIRST: i64 = -1_000_000;
pub const ORDER_LAST: i64 = 1_000_000;

/// Salt's other global arguments, and what to do instead.
const UNSUPPORTED: [(&str, &str); 3] = [
    (
        "force_mod_watch",
        "write what is to happen once more as a `cmd.wait` or a `module.wait` that watches the same states",
    ),
    ("fire_event", "an `event.wait` that watches this state sends an event when it changed"),
    ("runas_password", "commands change to a user without a password: remove it"),
];

/// What Salt asks for and is so here anyway, or cannot be (S-51): the word, the row of the table, and advice.
const NEEDLESS: [(&str, &str, &str); 5] = [
    ("parallel", "parallel", "states of a level already run in parallel: remove it"),
    ("aggregate", "aggregate", "packages that one state lists are installed together: use `pkgs`"),
    ("reload_modules", "reload_modules", "modules are built in and need no reloading: remove it"),
    (
        "reload_grains",
        "reload_grains",
        "facts are gathered before every run: split what needs new ones into a run of its own",
    ),
    (
        "reload_pillar",
        "reload_pillar",
        "settings are read before every run: split what needs new ones into a run of its own",
    ),
];

/// Advice about a word that does nothing here.
pub fn needless(item: &Item) -> Option<Diagnostic> {
    let (_, code, advice) = NEEDLESS.iter().find(|(word, _, _)| *word == &*item.key)?;
    let message = format!("`{}` does nothing here", item.key);
    Some(Diagnostic::new(Kind::Lint, message).at(item.at).hint(*advice).code(code))
}

fn wrong(node: &Node, message: String) -> Diagnostic {
    Diagnostic::new(Kind::State, message).at(node.span)
}

/// Reads an item if it is an attribute; `None` hands it back.
pub fn read(item: &Item, lenient: bool, attributes: &mut Attributes) -> Option<Result<(), Diagnostic>> {
    let value = &item.value;
    Some(match &*item.key {
        "onlyif" => guards(item, lenient, true, attributes),
        "unless" => guards(item, lenient, false, attributes),
        "check_cmd" => commands(item).map(|list| attributes.check_cmd.extend(list)),
        "order" => order(value).map(|order| attributes.order = order),
        "auto_order" => boolean(item).map(|auto| attributes.auto_order = auto),
        "failhard" => boolean(item).map(|failhard| attributes.failhard = failhard),
        "retry" => retry(value, attributes),
        key if NEEDLESS.iter().any(|(word, _, _)| *word == key) => Ok(()),
        key => {
            let (_, instead) = UNSUPPORTED.iter().find(|(name, _)| *name == key)?;
            Err(Diagnostic::new(Kind::State, format!("`{key}` is not supported"))
                .at(item.at)
                .hint(*instead)
                .code(match key {
                    "fire_event" => "fire_event",
                    "force_mod_watch" => "force_mod_watch",
                    _ => "unknown_parameter",
                }))
        }
    })
}

fn boolean(item: &Item) -> Result<bool, Diagnostic> {
    item.value.read::<bool>().map_err(|mismatch| {
        wrong(&item.value, format!("`{}`: {}", item.key, mismatch.message)).maybe_hint(mismatch.hint)
    })
}

/// The entries of a list, or the one that stands for a list.
fn entries(item: &Item) -> &[Node] {
    item.value.as_list().unwrap_or(std::slice::from_ref(&item.value))
}

fn commands(item: &Item) -> Result<Vec<String>, Diagnostic> {
    entries(item).iter().map(|node| command(&item.key, node)).collect()
}

/// Whether a map in the place of a command names a function.
fn names_function(map: &[(Node, Node)]) -> bool {
    map.iter().any(|(key, _)| key.as_text() == Some("fun"))
}

/// Advises about maps in guards of `.sls` files that name no function: Salt says so in its log, and runs the state.
pub fn guards_of_nothing(item: &Item, diagnostics: &mut Diagnostics) {
    if !["onlyif", "unless"].contains(&&*item.key) {
        return;
    }
    for node in entries(item).iter().filter(|node| node.as_map().is_some_and(|map| !names_function(map))) {
        let message = format!("a map of `{}` names no function: it is passed over", item.key);
        let advice = Diagnostic::new(Kind::Lint, message).at(node.span).code("stray_parameter");
        diagnostics.advise(advice.hint("write the command, or `fun: mod.fn` and `args: […]`"));
    }
}

/// Shell commands, and functions with their arguments (S-47).
fn guards(item: &Item, lenient: bool, wanted: bool, attributes: &mut Attributes) -> Result<(), Diagnostic> {
    for node in entries(item) {
        match node.as_map() {
            // Salt looks for `fun`, says in its log that there is none, and runs the state.
            Some(map) if lenient && !names_function(map) => {}
            Some(map) if names_function(map) => {
                attributes.asks.push(function(&item.key, node, map, wanted)?);
            }
            _ => {
                let commands = if wanted { &mut attributes.onlyif } else { &mut attributes.unless };
                commands.push(command(&item.key, node)?);
            }
        }
    }
    Ok(())
}

/// `{fun: mod.fn, args: […], get_return: key, …}`: what is no such key is an argument by its name.
fn function(key: &str, node: &Node, map: &[(Node, Node)], wanted: bool) -> Result<FunctionGuard, Diagnostic> {
    let mut guard = FunctionGuard {
        function: String::new(),
        args: Vec::new(),
        named: serde_json::Map::new(),
        part: None,
        wanted,
        at: node.span,
    };
    for (name, value) in map {
        let text = || {
            let wrong =
                || wrong(value, format!("`fun` of `{key}` names a function, not {}", value.describe()));
            value.as_text().map(str::to_string).ok_or_else(wrong)
        };
        match name.as_text().unwrap_or_default() {
            "fun" => (guard.function, guard.at) = (text()?, value.span),
            "get_return" => guard.part = Some(text()?),
            "args" => guard.args = entries_of(value).iter().map(Node::to_json).collect(),
            other => {
                guard.named.insert(other.to_string(), value.to_json());
            }
        }
    }
    Ok(guard)
}

fn entries_of(value: &Node) -> &[Node] {
    value.as_list().unwrap_or(std::slice::from_ref(value))
}

fn command(key: &str, node: &Node) -> Result<String, Diagnostic> {
    match &node.value {
        // `onlyif: true` reads as a truth value, and `true` is a command that says the same.
        Value::Scalar(Scalar { scalar_type: ScalarType::Bool(value), .. }) => Ok(value.to_string()),
        Value::Scalar(scalar) if scalar.scalar_type != ScalarType::Null && !scalar.text.trim().is_empty() => {
            Ok(scalar.text.to_string())
        }
        Value::Map(_) => {
            Err(wrong(node, format!("`{key}` takes shell commands, not a map")).hint(if key == "check_cmd" {
                "write the command, as in `nginx -t`"
            } else {
                "write the command, or `fun: mod.fn` and `args: […]`"
            }))
        }
        _ => Err(wrong(node, format!("`{key}` takes a command or a list of them, not {}", node.describe()))),
    }
}

fn order(value: &Node) -> Result<i64, Diagnostic> {
    match &value.value {
        Value::Scalar(scalar) => match (&*scalar.text, scalar.scalar_type) {
            ("first", _) => Some(ORDER_FIRST),
            ("last", _) => Some(ORDER_LAST),
            (_, ScalarType::Int(order)) => Some(order),
            (text, ScalarType::Text) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(|| {
        wrong(value, format!("`order` takes a number, not {}", value.describe()))
            .hint("write a number, `first` or `last`")
    })
}

/// `retry: N`, `retry: true`, or Salt's map. Tries are counted as S-18 says: more tries after the first.
fn retry(value: &Node, attributes: &mut Attributes) -> Result<(), Diagnostic> {
    let mut retry =
        Retry { attempts: limits::RETRY_ATTEMPTS_DEFAULT, interval: limits::RETRY_INTERVAL_DEFAULT };
    let pairs: Vec<&(Node, Node)> = match &value.value {
        Value::Scalar(Scalar { scalar_type: ScalarType::Bool(wanted), .. }) => {
            attributes.retry = wanted.then_some(retry);
            return Ok(());
        }
        Value::Scalar(_) => {
            retry.attempts = attempts(value)?;
            attributes.retry = Some(retry);
            return Ok(());
        }
        Value::Map(entries) => entries.iter().collect(),
        Value::List(items) => {
            if let Some(item) = items.iter().find(|item| item.as_map().is_none()) {
                let message = format!("a list for `retry` holds `key: value`, not {}", item.describe());
                return Err(wrong(item, message).hint("write `retry: 3`, or `- attempts: 3` in the list"));
            }
            items.iter().filter_map(Node::as_map).flatten().collect()
        }
    };
    for (key, value) in pairs {
        match key.as_text().unwrap_or_default() {
            "attempts" => retry.attempts = attempts(value)?,
            "interval" => retry.interval = pause("interval", value)?,
            "splay" => attributes.retry_splay = pause("splay", value)?,
            "until" => match value.read::<bool>() {
                // Until it succeeds is what a retry is.
                Ok(true) => {}
                _ => {
                    let diagnostic =
                        wrong(value, format!("`until` of `retry` is true, not {}", value.describe()));
                    return Err(diagnostic.hint("remove it: a state is tried again exactly when it failed"));
                }
            },
            name => {
                let message = format!("unknown key `{name}` of `retry`");
                let hint = did_you_mean(name, ["attempts", "interval", "until", "splay"]);
                return Err(wrong(key, message).hint(
                    hint.unwrap_or_else(|| "`retry` takes `attempts`, `interval` and `splay`".into()),
                ));
            }
        }
    }
    attributes.retry = Some(retry);
    Ok(())
}

fn attempts(value: &Node) -> Result<u32, Diagnostic> {
    let number = value.read::<i64>().ok().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number <= limits::RETRY_ATTEMPTS_MAX).ok_or_else(|| {
        let most = limits::RETRY_ATTEMPTS_MAX;
        wrong(value, format!("the tries of `retry` are a number up to {most}, not {}", value.describe()))
            .hint("write digits, such as `3`")
    })
}

fn pause(key: &str, value: &Node) -> Result<Duration, Diagnostic> {
    match value.as_text() {
        Some(text) => duration::parse(text).map_err(|sentence| {
            let Mismatch { message, hint, .. } = Mismatch::with_advice(&sentence);
            wrong(value, format!("`{key}` of `retry`: {message}")).maybe_hint(hint)
        }),
        None => Err(wrong(value, format!("`{key}` is a duration, not {}", value.describe()))),
    }
}
