//! Salt's common filters, and bounded versions of the engine's own that could build something huge from something small.

use super::budget::Budget;
use super::python;
use super::sealed::{open, plain};
use base64::Engine as _;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, filters};
use serde_json::Value as Json;
use std::sync::Arc;

/// Widest field or indentation that a format may ask for.
const WIDTH_MAX: usize = 100_000;
/// How much larger than its bound the result of a format may be guessed before it is refused unseen.
const FORMAT_SLACK: usize = 8;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Puts every filter into the environment.
pub fn install(env: &mut Environment<'static>, budget: &Arc<Budget>) {
    bounded(env, budget);
    text(env);
    data(env);
    sets(env);
    patterns(env);
    encodings(env);
}

/// Refuses a format whose result would be huge: a field wider than anybody reads, or large values in many fields.
pub fn check_format(format: &str, args: &[Value], budget: &Budget) -> Result<(), Error> {
    let wide = |text: &str| {
        text.split(|letter: char| !letter.is_ascii_digit())
            .any(|digits| digits.len() > 9 || digits.parse::<usize>().is_ok_and(|width| width > WIDTH_MAX))
    };
    // `%*d` and `{:{w}}` take the width from an argument.
    let numbers =
        || args.iter().filter(|arg| arg.kind() == ValueKind::Number).any(|arg| wide(&arg.to_string()));
    let indirect = format.contains('*') || format.contains(":{");
    if wide(format) || indirect && numbers() {
        return Err(budget.pass(format!("a format asks for a field wider than {WIDTH_MAX}")));
    }
    let fields = format.matches(['%', '{']).count();
    let mut largest = 0;
    for arg in args {
        let inner = if arg.is_kwargs() || arg.kind() == ValueKind::Map { arg.try_iter().ok() } else { None };
        let named = inner.into_iter().flatten().filter_map(|key| arg.get_item(&key).ok());
        let lengths = named.chain([arg.clone()]).map(|value| value.as_str().map_or(0, str::len));
        largest = lengths.fold(largest, usize::max);
    }
    // The result is looked at exactly afterwards; this only keeps it from being made.
    budget.bytes(fields.saturating_mul(largest) / FORMAT_SLACK)
}

/// The size that replacing would give.
pub fn replaced_bytes(text: &str, old: &str, new: &str) -> usize {
    let times = if old.is_empty() { text.chars().count() + 1 } else { text.matches(old).count() };
    text.len().saturating_add(times.saturating_mul(new.len()))
}

/// Joins with a bound; undefined items are errors, as everywhere.
pub fn join(items: &Value, separator: &str, budget: &Budget) -> Result<Value, Error> {
    let mut joined = String::new();
    for (index, item) in items.try_iter()?.checked().enumerate() {
        let item = item?;
        if index > 0 {
            joined.push_str(separator);
        }
        match item.as_str() {
            Some(text) => joined.push_str(text),
            None => joined.push_str(&python::text(&item)),
        }
        budget.bytes(joined.len())?;
    }
    Ok(Value::from(joined))
}

fn bounded(env: &mut Environment<'static>, shared: &Arc<Budget>) {
    let budget = shared.clone();
    env.add_filter("join", move |items: &Value, separator: Option<Value>, options: Kwargs| {
        let separator = separator.map(|value| value.to_string()).unwrap_or_default();
        let attribute = options.get::<Option<String>>("attribute")?;
        options.assert_all_used()?;
        match attribute {
            None => join(items, &separator, &budget),
            Some(attribute) => {
                let parts = items.try_iter()?.map(|item| item.get_attr(&attribute));
                join(&Value::from(parts.collect::<Result<Vec<_>, _>>()?), &separator, &budget)
            }
        }
    });
    let budget = shared.clone();
    env.add_filter("indent", move |text: String, given: Rest<Value>, named: Kwargs| {
        indent(&text, &given, &named, &budget)
    });
    let budget = shared.clone();
    env.add_filter("format", move |format: &Value, args: Rest<Value>| {
        let text = format.as_str().ok_or_else(|| invalid("format works on a text"))?;
        check_format(text, &args, &budget)?;
        minijinja::formatting::format(minijinja::formatting::FormatStyle::Printf, text, &args)
    });
    for name in ["batch", "slice"] {
        let budget = shared.clone();
        env.add_filter(name, move |state: &mut State, items: Value, count: usize, fill: Option<Value>| {
            budget.items(count)?;
            match name {
                "batch" => filters::batch(state, items, count, fill),
                _ => filters::slice(state, items, count, fill),
            }
        });
    }
    let budget = shared.clone();
    env.add_filter("list", move |state: &mut State, value: Value| {
        // A text gives an item for every letter.
        budget.items(value.as_str().map_or(0, str::len))?;
        filters::list(state, value)
    });
    let budget = shared.clone();
    env.add_filter("tojson", move |value: &Value, indent: Option<Value>, options: Kwargs| {
        let indent = options.get::<Option<Value>>("indent")?.or(indent);
        let spaces = indent.and_then(|indent| indent.as_usize());
        if spaces.is_some_and(|spaces| spaces > 100) {
            return Err(budget.pass("tojson asks for more than 100 blanks of indentation".into()));
        }
        let sort = options.get::<Option<bool>>("sort_keys")?.unwrap_or(false);
        let _ascii = options.get::<Option<bool>>("ensure_ascii")?;
        options.assert_all_used()?;
        let json = to_json(value)?;
        let json = dump_json(&if sort { sorted(json) } else { json }, spaces.unwrap_or(0));
        budget.bytes(json.len())?;
        Ok(html_safe(&json))
    });
}

fn indent(text: &str, given: &[Value], named: &Kwargs, budget: &Budget) -> Result<String, Error> {
    let width = named.get::<Option<Value>>("width")?.or_else(|| given.first().cloned());
    let width = width.unwrap_or_else(|| Value::from(4));
    let flag = |index: usize, name: &str| -> Result<bool, Error> {
        let keyword = named.get::<Option<bool>>(name)?;
        Ok(keyword.unwrap_or_else(|| given.get(index).is_some_and(Value::is_true)))
    };
    let (first, blank) = (flag(1, "first")?, flag(2, "blank")?);
    named.assert_all_used()?;
    let filler = match (width.as_usize(), width.as_str()) {
        (Some(width), _) if width > WIDTH_MAX => {
            return Err(budget.pass(format!("indent asks for more than {WIDTH_MAX} blanks")));
        }
        (Some(width), _) => " ".repeat(width),
        (None, Some(text)) => text.to_string(),
        (None, None) => return Err(invalid("indent takes a number of blanks or a text")),
    };
    budget.bytes(text.len().saturating_add(text.lines().count().saturating_mul(filler.len())))?;
    let mut indented = String::with_capacity(text.len());
    for (index, line) in text.split('\n').enumerate() {
        if index > 0 {
            indented.push('\n');
        }
        if (index > 0 || first) && (blank || !line.trim().is_empty()) {
            indented.push_str(&filler);
        }
        indented.push_str(line);
    }
    Ok(indented)
}

/// JSON with Python's blanks (`", "`, `": "`), which make it readable as YAML too.
pub(super) fn dump_json(value: &Json, indent: usize) -> String {
    let mut out = String::new();
    dump(value, indent, 0, &mut out);
    out
}

/// The same with the keys of every map in order.
pub(super) fn sorted(value: Json) -> Json {
    match value {
        Json::Array(items) => items.into_iter().map(sorted).collect(),
        Json::Object(map) => {
            let ordered: std::collections::BTreeMap<String, Json> = map.into_iter().collect();
            Json::Object(ordered.into_iter().map(|(key, item)| (key, sorted(item))).collect())
        }
        plain => plain,
    }
}

pub(super) fn to_json(value: &Value) -> Result<Json, Error> {
    serde_json::to_value(value).map_err(|error| invalid(format!("this value has no JSON form: {error}")))
}

fn dump(value: &Json, indent: usize, depth: usize, out: &mut String) {
    let line = |out: &mut String, depth: usize| {
        if indent > 0 {
            out.push('\n');
            out.push_str(&" ".repeat(indent * depth));
        }
    };
    let separator = if indent > 0 { "," } else { ", " };
    match value {
        Json::Array(items) if !items.is_empty() => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { separator } else { "" });
                line(out, depth + 1);
                dump(item, indent, depth + 1, out);
            }
            line(out, depth);
            out.push(']');
        }
        Json::Object(map) if !map.is_empty() => {
            out.push('{');
            for (index, (key, item)) in map.iter().enumerate() {
                out.push_str(if index > 0 { separator } else { "" });
                line(out, depth + 1);
                out.push_str(&Json::from(key.as_str()).to_string());
                out.push_str(": ");
                dump(item, indent, depth + 1, out);
            }
            line(out, depth);
            out.push('}');
        }
        plain => out.push_str(&plain.to_string()),
    }
}

fn html_safe(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026").replace('\'', "\\u0027")
}

fn text(env: &mut Environment<'static>) {
    env.add_filter("quote", |value: &Value| {
        // An empty word in a command line is not what a missing value means: `rm -rf /srv/''`.
        if value.is_undefined() {
            return Err(Error::new(ErrorKind::UndefinedError, "a value to quote is missing"));
        }
        let text = value.to_string();
        let safe = !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"@%+=:,./-_".contains(&byte));
        Ok(if safe { text } else { format!("'{}'", text.replace('\'', "'\"'\"'")) })
    });
    env.add_filter("to_num", |value: &Value| {
        let text = value.to_string();
        let number = text.trim().parse::<i64>().map(Value::from);
        number.or_else(|_| text.trim().parse::<f64>().map(Value::from)).unwrap_or(Value::from(text))
    });
    env.add_filter("basename", |path: String| path.rsplit('/').next().unwrap_or_default().to_string());
    env.add_filter("dirname", |path: String| match path.rsplit_once('/') {
        Some(("", _)) => "/".to_string(),
        Some((before, _)) => before.to_string(),
        None => String::new(),
    });
    env.add_filter("strip", |text: String| text.trim().to_string());
    env.add_filter("is_list", |value: &Value| value.kind() == ValueKind::Seq);
    env.add_filter("is_iter", |value: &Value| {
        matches!(value.kind(), ValueKind::Seq | ValueKind::Iterable | ValueKind::Map)
    });
    // The engine loops over nothing as over an empty list; Python does not.
    env.add_test("iterable", |value: &Value| !value.is_none() && value.try_iter().is_ok());
    env.add_test("list", |value: &Value| value.kind() == ValueKind::Seq && !value.is_tuple());
}

fn data(env: &mut Environment<'static>) {
    for name in ["yaml_encode", "yaml_dquote"] {
        env.add_filter(name, move |value: &Value| match value.kind() {
            ValueKind::String => Ok(Json::from(value.to_string()).to_string()),
            _ if name == "yaml_dquote" => Ok(Json::from(value.to_string()).to_string()),
            ValueKind::Seq | ValueKind::Map => Err(invalid("yaml_encode takes no list or map; use `yaml`")),
            _ => to_json(value).map(|json| json.to_string()),
        });
    }
    env.add_filter("yaml_squote", |value: &Value| format!("'{}'", value.to_string().replace('\'', "''")));
    env.add_filter("load_yaml", |text: String| super::imports::load("yaml", &text));
    env.add_filter("load_json", |text: String| super::imports::load("json", &text));
    env.add_filter("combine", |value: &Value, others: Rest<Value>| {
        let mut entries: indexmap::IndexMap<Value, Value> = indexmap::IndexMap::new();
        for map in std::iter::once(value).chain(others.iter().filter(|other| !other.is_kwargs())) {
            for key in map.try_iter()? {
                entries.insert(key.clone(), map.get_item(&key)?);
            }
        }
        Ok::<_, Error>(Value::from_object(entries))
    });
}

fn sets(env: &mut Environment<'static>) {
    fn list(value: &Value) -> Result<Vec<Value>, Error> {
        value.try_iter()?.checked().collect()
    }
    /// For what compares items.
    fn plain_list(filter: &str, value: &Value) -> Result<Vec<Value>, Error> {
        open(&format!("`{filter}`"), value).and_then(|()| list(value))
    }
    fn unique(items: Vec<Value>) -> Vec<Value> {
        let mut seen: indexmap::IndexSet<Value> = indexmap::IndexSet::new();
        seen.extend(items);
        seen.into_iter().collect()
    }
    env.add_filter("union", |a: &Value, b: &Value| {
        let mut items = plain_list("union", a)?;
        items.extend(plain_list("union", b)?);
        Ok::<_, Error>(unique(items))
    });
    env.add_filter("intersect", |a: &Value, b: &Value| {
        let other: std::collections::HashSet<Value> = plain_list("intersect", b)?.into_iter().collect();
        Ok::<_, Error>(unique(
            plain_list("intersect", a)?.into_iter().filter(|item| other.contains(item)).collect(),
        ))
    });
    env.add_filter("difference", |a: &Value, b: &Value| {
        let other: std::collections::HashSet<Value> = plain_list("difference", b)?.into_iter().collect();
        Ok::<_, Error>(unique(
            plain_list("difference", a)?.into_iter().filter(|item| !other.contains(item)).collect(),
        ))
    });
    env.add_filter("symmetric_difference", |a: &Value, b: &Value| {
        let (left, right) = (plain_list("symmetric_difference", a)?, plain_list("symmetric_difference", b)?);
        let sides: Vec<std::collections::HashSet<Value>> =
            [&left, &right].iter().map(|side| side.iter().cloned().collect()).collect();
        let once = |item: &Value| sides.iter().filter(|side| side.contains(item)).count() == 1;
        Ok::<_, Error>(unique(left.into_iter().chain(right).filter(once).collect()))
    });
    env.add_filter("avg", |items: &Value| {
        let items = list(items)?;
        let numbers: Vec<f64> =
            items.iter().map(|item| f64::try_from(item.clone())).collect::<Result<_, _>>()?;
        Ok::<_, Error>(numbers.iter().sum::<f64>() / (numbers.len().max(1) as f64))
    });
    env.add_filter("exactly_n_true", |items: &Value, count: Option<usize>| {
        Ok::<_, Error>(list(items)?.iter().filter(|item| item.is_true()).count() == count.unwrap_or(1))
    });
    env.add_filter("exactly_one_true", |items: &Value| {
        Ok::<_, Error>(list(items)?.iter().filter(|item| item.is_true()).count() == 1)
    });
}

/// Python's `\1` for the engine's `${1}`.
pub(super) fn python_replacement(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, letters.peek()) {
            ('$', _) => out.push_str("$$"),
            ('\\', Some(digit)) if digit.is_ascii_digit() => {
                out.push_str(&format!("${{{digit}}}"));
                letters.next();
            }
            (letter, _) => out.push(letter),
        }
    }
    out
}

fn patterns(env: &mut Environment<'static>) {
    env.add_filter("regex_escape", |text: String| regex::escape(&text));
}

fn encodings(env: &mut Environment<'static>) {
    for name in ["b64encode", "base64_encode"] {
        env.add_filter(name, move |text: String| Ok::<_, Error>(BASE64.encode(plain(name, text)?)));
    }
    for name in ["b64decode", "base64_decode"] {
        env.add_filter(name, |text: String| {
            let bytes = base64_decode(&text).ok_or_else(|| invalid("this is not base64"))?;
            String::from_utf8(bytes).map_err(|_| invalid("the decoded bytes are not text"))
        });
    }
}

/// As others write it: padded or not, over several lines.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

fn base64_decode(text: &str) -> Option<Vec<u8>> {
    let clean: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    BASE64.decode(clean).ok()
}
