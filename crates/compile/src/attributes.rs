//! What any state may carry beside its parameters: guards, order, retry, failhard (S-16 to S-19), and what Salt has
//! there that means something else here (S-41).

use crate::declare::Item;
use std::time::Duration;
use zester_model::duration;
use zester_model::limits;
use zester_model::node::{Meaning, Mismatch, Node, Scalar, Value};
use zester_model::problem::{Kind, Problem};
use zester_model::program::{Attributes, Retry};
use zester_model::suggest::did_you_mean;

/// The keys read here, to suggest from.
pub const KEYS: [&str; 8] =
    ["onlyif", "unless", "order", "auto_order", "retry", "failhard", "check_cmd", "names"];

pub const ORDER_FIRST: i64 = -1_000_000;
pub const ORDER_LAST: i64 = 1_000_000;

/// Salt's other global arguments, and what to do instead.
const UNSUPPORTED: [(&str, &str); 7] = [
    (
        "fire_event",
        "events go over the bus: run `zester event send` from a `cmd.run` that has `onchanges` on this state",
    ),
    ("parallel", "states of a level already run in parallel: remove it"),
    ("aggregate", "packages that one state lists are installed together: use `pkgs`"),
    ("reload_modules", "modules are built in and need no reloading: remove it"),
    ("reload_grains", "facts are gathered before every run: split what needs new ones into a run of its own"),
    ("reload_pillar", "settings are read before every run: split what needs new ones into a run of its own"),
    ("runas_password", "commands change to a user without a password: remove it"),
];

fn wrong(node: &Node, message: String) -> Problem {
    Problem::new(Kind::State, message).at(node.span)
}

/// Reads an item if it is an attribute; `None` hands it back.
pub fn read(item: &Item, attributes: &mut Attributes) -> Option<Result<(), Problem>> {
    let value = &item.value;
    Some(match &*item.key {
        "onlyif" => commands(item).map(|list| attributes.onlyif.extend(list)),
        "unless" => commands(item).map(|list| attributes.unless.extend(list)),
        "check_cmd" => commands(item).map(|list| attributes.check_cmd.extend(list)),
        "order" => order(value).map(|order| attributes.order = order),
        "auto_order" => boolean(item).map(|auto| attributes.auto_order = auto),
        "failhard" => boolean(item).map(|failhard| attributes.failhard = failhard),
        "retry" => retry(value).map(|retry| attributes.retry = retry),
        key => {
            let (_, instead) = UNSUPPORTED.iter().find(|(name, _)| *name == key)?;
            Err(Problem::new(Kind::State, format!("`{key}` is not supported")).at(item.at).hint(*instead))
        }
    })
}

fn boolean(item: &Item) -> Result<bool, Problem> {
    item.value.read::<bool>().map_err(|mismatch| {
        wrong(&item.value, format!("`{}`: {}", item.key, mismatch.message)).maybe_hint(mismatch.hint)
    })
}

fn commands(item: &Item) -> Result<Vec<String>, Problem> {
    let nodes = match &item.value.value {
        Value::List(list) => list.as_slice(),
        _ => std::slice::from_ref(&item.value),
    };
    nodes.iter().map(|node| command(&item.key, node)).collect()
}

fn command(key: &str, node: &Node) -> Result<String, Problem> {
    match &node.value {
        // `onlyif: true` reads as a truth value, and `true` is a command that says the same.
        Value::Scalar(Scalar { meaning: Meaning::Bool(value), .. }) => Ok(value.to_string()),
        Value::Scalar(scalar) if scalar.meaning != Meaning::Null && !scalar.text.trim().is_empty() => {
            Ok(scalar.text.to_string())
        }
        Value::Map(_) => Err(wrong(node, format!("`{key}` takes shell commands, not functions"))
            .hint("write the command, as in `test -f /etc/x`")),
        _ => Err(wrong(node, format!("`{key}` takes a command or a list of them, not {}", node.describe()))),
    }
}

fn order(value: &Node) -> Result<i64, Problem> {
    match &value.value {
        Value::Scalar(scalar) => match (&*scalar.text, scalar.meaning) {
            ("first", _) => Some(ORDER_FIRST),
            ("last", _) => Some(ORDER_LAST),
            (_, Meaning::Int(order)) => Some(order),
            (text, Meaning::Text) => text.parse().ok(),
            _ => None,
        },
        _ => None,
    }
    .ok_or_else(|| {
        wrong(value, format!("`order` takes a number, not {}", value.describe()))
            .hint("write a number, `first` or `last`")
    })
}

fn retry(value: &Node) -> Result<Option<Retry>, Problem> {
    let mut retry = Retry { attempts: 0, interval: limits::RETRY_INTERVAL_DEFAULT };
    let pairs: Vec<&(Node, Node)> = match &value.value {
        Value::Scalar(_) => {
            retry.attempts = attempts(value)?;
            return Ok(Some(retry));
        }
        Value::Map(entries) => entries.iter().collect(),
        Value::List(items) => items.iter().filter_map(Node::as_map).flatten().collect(),
    };
    let mut given = false;
    for (key, value) in pairs {
        match key.as_text().unwrap_or_default() {
            "attempts" => {
                retry.attempts = attempts(value)?;
                given = true;
            }
            "interval" => retry.interval = interval(value)?,
            // Salt's other keys, so that nobody believes they were heeded.
            "until" | "splay" => {
                let name = key.as_text().unwrap_or_default();
                let problem = wrong(key, format!("`{name}` of `retry` is not supported"));
                return Err(problem.hint("remove it: a state is tried again exactly when it failed"));
            }
            name => {
                let message = format!("unknown key `{name}` of `retry`");
                let hint = did_you_mean(name, ["attempts", "interval"]);
                return Err(wrong(key, message)
                    .hint(hint.unwrap_or_else(|| "`retry` takes `attempts` and `interval`".into())));
            }
        }
    }
    match given {
        true => Ok(Some(retry)),
        false => Err(wrong(value, "`retry` needs `attempts`".into())),
    }
}

fn attempts(value: &Node) -> Result<u32, Problem> {
    let number = value.read::<i64>().ok().and_then(|number| u32::try_from(number).ok());
    number.filter(|number| *number <= limits::RETRY_ATTEMPTS_MAX).ok_or_else(|| {
        let most = limits::RETRY_ATTEMPTS_MAX;
        wrong(value, format!("the tries of `retry` are a number up to {most}, not {}", value.describe()))
            .hint("write digits, such as `3`")
    })
}

fn interval(value: &Node) -> Result<Duration, Problem> {
    match value.as_text() {
        Some(text) => duration::parse(text).map_err(|sentence| {
            let Mismatch { message, hint, .. } = Mismatch::with_advice(&sentence);
            wrong(value, format!("`interval` of `retry`: {message}")).maybe_hint(hint)
        }),
        None => Err(wrong(value, format!("`interval` is a duration, not {}", value.describe()))),
    }
}
