//! Filters that formulas of the field use beside the common ones.

use super::budget::Budget;
use super::sealed::{open, plain};
use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use std::sync::Arc;
use zester_model::limits::YAML_DEPTH_MAX;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Puts them into the environment.
pub fn install(env: &mut Environment<'static>, budget: &Arc<Budget>) {
    words(env);
    lists(env, budget);
    remainder(env, budget);
}

fn words(env: &mut Environment<'static>) {
    env.add_filter("to_snake_case", |text: String| snake_case(&text));
    env.add_filter("to_camelcase", |text: String, options: Kwargs| {
        let upper = options.get::<Option<bool>>("uppercamel")?.unwrap_or(false);
        options.assert_all_used()?;
        Ok::<_, Error>(camel_case(&text, upper))
    });
    env.add_filter("contains_whitespace", |text: String| text.contains(char::is_whitespace));
    env.add_filter("is_hex", |text: String| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    env.add_filter("to_bytes", |value: Value| value);
    env.add_filter("wordcount", |text: String| text.split_whitespace().count());
    env.add_filter("truncate", |text: String, length: Option<usize>| {
        let (text, length) = (plain("truncate", text)?, length.unwrap_or(255));
        Ok::<String, Error>(match text.chars().count() > length {
            true => text.chars().take(length.saturating_sub(3)).chain("...".chars()).collect(),
            false => text,
        })
    });
    env.add_filter("human_to_bytes", |text: Value| {
        let text = text.to_string();
        human_to_bytes(&text).ok_or_else(|| invalid(format!("`{text}` is not a size like `10G`")))
    });
}

fn snake_case(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 4);
    for letter in text.chars() {
        if letter.is_uppercase() && !out.is_empty() && !out.ends_with('_') {
            out.push('_');
        }
        out.extend(letter.to_lowercase());
    }
    out
}

fn camel_case(text: &str, upper: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for (index, part) in text.split('_').enumerate() {
        let mut letters = part.chars();
        match letters.next() {
            Some(first) if index > 0 || upper => out.extend(first.to_uppercase()),
            Some(first) => out.push(first),
            None => continue,
        }
        out.extend(letters);
    }
    out
}

fn human_to_bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(digits)?;
    let power = match unit.trim().to_ascii_lowercase().trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * 1024f64.powi(power)) as u64)
}

fn lists(env: &mut Environment<'static>, shared: &Arc<Budget>) {
    let budget = shared.clone();
    env.add_filter("flatten", move |items: Value, levels: Option<usize>| {
        // A list may hold itself: it is opened so often and no more.
        let levels = levels.map(|levels| levels.min(YAML_DEPTH_MAX));
        let mut out = Vec::new();
        flatten(&items, levels.unwrap_or(YAML_DEPTH_MAX), &budget, &mut out)?;
        Ok::<_, Error>(out)
    });
    env.add_filter("sequence", |value: Value| match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => value,
        _ => Value::from(vec![value]),
    });
    env.add_filter("substring_in_list", |text: String, items: Value| {
        open("`substring_in_list`", &items)?;
        let mut found = false;
        for item in items.try_iter()?.checked() {
            found |= item?.as_str().is_some_and(|item| item.contains(&text));
        }
        Ok::<_, Error>(found)
    });
}

fn flatten(items: &Value, levels: usize, budget: &Budget, out: &mut Vec<Value>) -> Result<(), Error> {
    for item in items.try_iter()?.checked() {
        let item = item?;
        match item.kind() {
            ValueKind::Seq | ValueKind::Iterable if levels > 0 => {
                flatten(&item, levels - 1, budget, out)?;
            }
            _ => out.push(item),
        }
        budget.items(out.len())?;
    }
    Ok(())
}

/// `a % b`: Python formats if `a` is a text, and gives the remainder otherwise.
fn remainder(env: &mut Environment<'static>, shared: &Arc<Budget>) {
    let budget = shared.clone();
    env.add_function("_rem", move |left: Value, right: Value| {
        let Some(format) = left.as_str() else { return number_remainder(&left, &right) };
        let args: Vec<Value> = match right.is_tuple() {
            true => right.try_iter()?.collect(),
            false => vec![right],
        };
        super::filters::check_format(format, &args, &budget)?;
        let style = minijinja::formatting::FormatStyle::Printf;
        minijinja::formatting::format(style, format, &args).map(Value::from)
    });
}

/// With the sign of the divisor, as in Python.
fn number_remainder(left: &Value, right: &Value) -> Result<Value, Error> {
    let impossible = || invalid(format!("there is no remainder of {left} and {right}"));
    if left.kind() != ValueKind::Number || right.kind() != ValueKind::Number {
        let (left, right) = (left.kind(), right.kind());
        let message = format!("`%` takes two numbers, or a text and its values, not {left} and {right}");
        return Err(invalid(message));
    }
    if let (Ok(a), Ok(b)) = (i128::try_from(left.clone()), i128::try_from(right.clone()))
        && left.is_integer()
        && right.is_integer()
    {
        let rest = a.checked_rem(b).ok_or_else(impossible)?;
        let adjust = rest != 0 && (rest < 0) != (b < 0);
        return Ok(Value::from(if adjust { rest + b } else { rest }));
    }
    let (a, b) = (f64::try_from(left.clone())?, f64::try_from(right.clone())?);
    if b == 0.0 {
        return Err(impossible());
    }
    let rest = a % b;
    Ok(Value::from(if rest != 0.0 && (rest < 0.0) != (b < 0.0) { rest + b } else { rest }))
}
