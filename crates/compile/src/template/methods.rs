//! Python's methods on texts, lists and maps, bounded where they build something larger than what they are given.

use super::budget::Budget;
use super::filters::{check_format, join, replaced_bytes};
use super::sealed::{self, no_secret};
use minijinja::value::{Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Methods that leave what they are called on whole, so that it may hold a secret.
const AROUND: [&str; 5] = ["format", "join", "strip", "lstrip", "rstrip"];

/// Answers a method that the value's own type does not have.
pub fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
    budget: &Budget,
) -> Result<Value, Error> {
    budget.tick()?;
    match (value.kind(), method) {
        (ValueKind::String, _) => {
            let text = value.as_str().unwrap_or_default();
            if !AROUND.contains(&method) {
                no_secret(&format!("`{method}`"), text)?;
                // One may be put in as a whole, in the place of another text.
                let looked_at = if method == "replace" { 1 } else { args.len() };
                let mut looked_at = args.iter().take(looked_at);
                looked_at.try_for_each(|arg| sealed::open(&format!("`{method}`"), arg))?;
            }
            if let Some(answer) = on_text(text, method, args, budget)? {
                return Ok(answer);
            }
        }
        (ValueKind::Map, "iteritems" | "itervalues" | "iterkeys") => {
            let name = method.trim_start_matches("iter");
            return unknown_method_callback(state, value, name, args);
        }
        (ValueKind::Map, "has_key") => {
            let (key,): (Value,) = from_args(args)?;
            return Ok(Value::from(!value.get_item(&key)?.is_undefined()));
        }
        (ValueKind::Seq, "index") => {
            let (wanted,): (Value,) = from_args(args)?;
            sealed::sought("`index`", &wanted, value)?;
            let at = value.try_iter()?.position(|item| item == wanted);
            let missing =
                || Error::new(ErrorKind::InvalidOperation, "index: the list does not hold that value");
            return at.map(Value::from).ok_or_else(missing);
        }
        (ValueKind::Seq, "count") => {
            let (wanted,): (Value,) = from_args(args)?;
            sealed::sought("`count`", &wanted, value)?;
        }
        (
            ValueKind::Seq | ValueKind::Map,
            "append" | "extend" | "insert" | "update" | "pop" | "setdefault",
        ) => {
            let message = format!("`{method}` works on a list or map that the template made with `set`");
            return Err(Error::new(ErrorKind::InvalidOperation, message));
        }
        _ => {}
    }
    budget.cap(unknown_method_callback(state, value, method, args)?)
}

fn on_text(text: &str, method: &str, args: &[Value], budget: &Budget) -> Result<Option<Value>, Error> {
    Ok(Some(match method {
        "format" => {
            check_format(text, args, budget)?;
            return Ok(None);
        }
        "replace" => {
            let (old, new, _): (&str, &str, Option<i32>) = from_args(args)?;
            budget.bytes(replaced_bytes(text, old, new))?;
            return Ok(None);
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            join(items, text, budget)?
        }
        "zfill" | "ljust" | "rjust" | "center" => {
            let (width, fill): (usize, Option<&str>) = from_args(args)?;
            budget.bytes(width.saturating_mul(4))?;
            pad(text, method, width, fill)
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let split = match method {
                "partition" => text.split_once(separator),
                _ => text.rsplit_once(separator),
            };
            let parts = match split {
                Some((before, after)) => [before, separator, after],
                None if method == "partition" => [text, "", ""],
                None => ["", "", text],
            };
            Value::from(parts.map(Value::from).to_vec())
        }
        "rsplit" => {
            let (separator, most): (&str, Option<usize>) = from_args(args)?;
            let mut parts: Vec<&str> = match most {
                Some(most) => text.rsplitn(most.saturating_add(1), separator).collect(),
                None => text.rsplit(separator).collect(),
            };
            parts.reverse();
            Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>())
        }
        "swapcase" => {
            let swap = |letter: char| match letter.is_uppercase() {
                true => letter.to_lowercase().collect::<String>(),
                false => letter.to_uppercase().collect(),
            };
            Value::from(text.chars().map(swap).collect::<String>())
        }
        "encode" | "decode" => Value::from(text),
        _ => return Ok(None),
    }))
}

fn pad(text: &str, method: &str, width: usize, fill: Option<&str>) -> Value {
    let letter =
        fill.and_then(|fill| fill.chars().next()).unwrap_or(if method == "zfill" { '0' } else { ' ' });
    let missing = width.saturating_sub(text.chars().count());
    let filler = |count: usize| letter.to_string().repeat(count);
    Value::from(match method {
        "ljust" => format!("{text}{}", filler(missing)),
        "center" => format!("{}{text}{}", filler(missing / 2), filler(missing - missing / 2)),
        "zfill" if text.starts_with(['-', '+']) => {
            let (sign, digits) = text.split_at(1);
            format!("{sign}{}{digits}", filler(missing))
        }
        _ => format!("{}{text}", filler(missing)),
    })
}
