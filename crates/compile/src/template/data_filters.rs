//! Salt's filters over maps and lists (`set_dict_key_value`, `to_entries`, …), and what else of Jinja the engine lacks.

use super::filters::to_json;
use super::mutable::Map;
use super::python;
use super::sealed::open;
use minijinja::value::{Kwargs, Rest, Serde, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind};
use serde_json::{Value as Json, json};

/// Columns that a text may be wrapped at.
const COLUMNS_MAX: usize = 10_000;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn data(json: Json) -> Value {
    Value::from(Serde(json))
}

/// Puts everything into the environment.
pub fn install(env: &mut Environment<'static>) {
    nested(env);
    entries(env);
    comparisons(env);
    texts(env);
    env.add_function("ifelse", |args: Rest<Value>| {
        // Conditions and values by turns; a last one alone counts where none is true.
        let chosen = args.chunks(2).find_map(|pair| match pair {
            [condition, value] => condition.is_true().then(|| value.clone()),
            [otherwise] => Some(otherwise.clone()),
            _ => None,
        });
        chosen.unwrap_or_else(|| Value::from(()))
    });
    env.add_function("cycler", |items: Rest<Value>| minijinja_contrib::globals::cycler(items.to_vec()));
    env.add_function("joiner", minijinja_contrib::globals::joiner);
}

type Lay = fn(&mut Json, Json) -> Result<(), Error>;

/// `d | set_dict_key_value('a:b', value)` and its kin: the map with what stands at the end of the path changed.
fn nested(env: &mut Environment<'static>) {
    let set: Lay = |slot, value| {
        *slot = value;
        Ok(())
    };
    let update: Lay = |slot, value| match (slot, value) {
        (Json::Object(map), Json::Object(over)) => {
            map.extend(over);
            Ok(())
        }
        (slot @ Json::Null, over @ Json::Object(_)) => {
            *slot = over;
            Ok(())
        }
        _ => Err(invalid("update_dict_key_value updates a map with a map")),
    };
    let append: Lay = |slot, value| list(slot).map(|list| list.push(value));
    let extend: Lay = |slot, value| {
        let Json::Array(more) = value else { return Err(invalid("extend_dict_key_value takes a list")) };
        list(slot).map(|list| list.extend(more))
    };
    for (name, lay) in [
        ("set_dict_key_value", set),
        ("update_dict_key_value", update),
        ("append_dict_key_value", append),
        ("extend_dict_key_value", extend),
    ] {
        env.add_filter(name, move |map: Value, path: String, value: Value, named: Kwargs| {
            let delimiter = named.get::<Option<String>>("delimiter")?.unwrap_or_else(|| ":".into());
            let _ordered = named.get::<Option<bool>>("ordered_dict")?;
            named.assert_all_used()?;
            let mut json = to_json(&map)?;
            let mut slot = &mut json;
            for key in path.split(delimiter.as_str()) {
                if slot.is_null() {
                    *slot = json!({});
                }
                let Json::Object(map) = slot else {
                    return Err(invalid(format!("{name}: `{key}` of `{path}` is not in a map")));
                };
                slot = map.entry(key).or_insert(Json::Null);
            }
            lay(slot, to_json(&value)?)?;
            let changed = data(json);
            // A map that the template made changes itself, as in Salt.
            match map.downcast_object_ref::<Map>() {
                Some(own) => own.update(std::slice::from_ref(&changed)).map(|()| map.clone()),
                None => Ok(changed),
            }
        });
    }
}

fn list(slot: &mut Json) -> Result<&mut Vec<Json>, Error> {
    if slot.is_null() {
        *slot = json!([]);
    }
    slot.as_array_mut().ok_or_else(|| invalid("what stands there is no list"))
}

fn entries(env: &mut Environment<'static>) {
    env.add_filter("to_entries", |value: &Value| match to_json(value)? {
        Json::Object(map) => {
            let entry = |(key, value)| json!({ "key": key, "value": value });
            Ok(data(map.into_iter().map(entry).collect()))
        }
        Json::Array(items) => {
            let entry = |(at, value): (usize, Json)| json!({ "key": at, "value": value });
            Ok(data(items.into_iter().enumerate().map(entry).collect()))
        }
        _ => Err(invalid("to_entries takes a map or a list")),
    });
    env.add_filter("from_entries", |value: &Value| {
        let mut map = serde_json::Map::new();
        for entry in to_json(value)?.as_array().into_iter().flatten() {
            let fields: std::collections::BTreeMap<String, &Json> =
                entry.as_object().into_iter().flatten().map(|(key, it)| (key.to_lowercase(), it)).collect();
            if let Some(key) = fields.get("key").or_else(|| fields.get("name")) {
                let key = key.as_str().map_or_else(|| key.to_string(), str::to_string);
                map.insert(key, fields.get("value").map_or(Json::Null, |value| (*value).clone()));
            }
        }
        Ok::<_, Error>(data(Json::Object(map)))
    });
    for name in ["json_decode_dict", "json_decode_list", "json_encode_dict", "json_encode_list"] {
        // Texts are texts here: there are no bytes to turn them into.
        env.add_filter(name, |value: Value| value);
    }
    env.add_filter("skip", |_: Value| "");
}

fn comparisons(env: &mut Environment<'static>) {
    env.add_filter("compare_dicts", |old: &Value, new: &Value| {
        open("`compare_dicts`", new)?;
        let (old, new) = (to_json(old)?, to_json(new)?);
        let mut found = serde_json::Map::new();
        let keys = old.as_object().into_iter().chain(new.as_object()).flat_map(|map| map.keys());
        for key in keys {
            let (was, is) = (old.get(key), new.get(key));
            if was != is {
                let shown = |side: Option<&Json>| side.cloned().unwrap_or(json!(""));
                found.insert(key.clone(), json!({ "old": shown(was), "new": shown(is) }));
            }
        }
        Ok::<_, Error>(data(Json::Object(found)))
    });
    env.add_filter("compare_lists", |old: &Value, new: &Value| {
        open("`compare_lists`", new)?;
        let (old, new) = (to_json(old)?, to_json(new)?);
        let only = |of: &Json, other: &Json| -> Vec<Json> {
            let other = other.as_array().cloned().unwrap_or_default();
            of.as_array().into_iter().flatten().filter(|item| !other.contains(item)).cloned().collect()
        };
        let mut found = serde_json::Map::new();
        for (name, items) in [("new", only(&new, &old)), ("old", only(&old, &new))] {
            if !items.is_empty() {
                found.insert(name.into(), items.into());
            }
        }
        Ok::<_, Error>(data(Json::Object(found)))
    });
    env.add_filter("is_empty", |value: &Value| !value.is_true());
    env.add_filter("sorted_ignorecase", |items: &Value| {
        let mut items: Vec<Value> = items.try_iter()?.collect();
        items.sort_by_key(|item| python::text(item).to_lowercase());
        Ok::<_, Error>(items)
    });
    env.add_filter("str_to_num", |value: &Value| {
        let text = python::text(value);
        let whole = text.trim().parse::<i64>().map(Value::from);
        whole.or_else(|_| text.trim().parse::<f64>().map(Value::from)).unwrap_or_else(|_| value.clone())
    });
    env.add_filter("uuid", |value: &Value| uuid(&python::text(value)));
    env.add_filter("ipwrap", |value: &Value| {
        let wrap = |text: String| match text.parse::<std::net::Ipv6Addr>() {
            Ok(_) => format!("[{text}]"),
            Err(_) => text,
        };
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.map(|item| Value::from(wrap(python::text(&item))));
                Ok::<_, Error>(Value::from(items.collect::<Vec<_>>()))
            }
            _ => Ok(Value::from(wrap(python::text(value)))),
        }
    });
}

/// The name-based UUID (version 5) of a text, in the namespace that Salt has for it.
fn uuid(text: &str) -> Result<String, Error> {
    const SPACE: [u8; 16] =
        [0x91, 0x63, 0x3e, 0xbf, 0x1c, 0x86, 0x5e, 0x33, 0x93, 0x5a, 0x28, 0x06, 0x1f, 0x4b, 0x48, 0x0e];
    let bytes = [&SPACE[..], text.as_bytes()].concat();
    let hex = super::hashes::digest_bytes("sha1", &bytes).ok_or_else(|| invalid("there is no sha1"))?;
    let number = u128::from_str_radix(hex.get(..32).unwrap_or_default(), 16)
        .map_err(|_| invalid("a digest that is no number"))?;
    let number = number & !(0xf << 76) | (0x5 << 76);
    let number = number & !(0x3 << 62) | (0x2 << 62);
    let hex = format!("{number:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    Ok([part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)].join("-"))
}

fn texts(env: &mut Environment<'static>) {
    env.add_filter("forceescape", |value: &Value| html(&python::text(value)));
    env.add_filter("striptags", |value: &Value| {
        let (mut text, mut inside) = (String::new(), false);
        for letter in python::text(value).chars() {
            match letter {
                '<' => inside = true,
                '>' if inside => inside = false,
                letter if !inside => text.push(letter),
                _ => {}
            }
        }
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    });
    env.add_filter("filesizeformat", |value: Value, binary: Option<bool>, named: Kwargs| {
        let binary = named.get::<Option<bool>>("binary")?.or(binary).unwrap_or(false);
        named.assert_all_used()?;
        let bytes = f64::try_from(value).map_err(|_| invalid("filesizeformat takes a number"))?;
        let (base, units) = match binary {
            true => (1024.0, ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"]),
            false => (1000.0, ["kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"]),
        };
        if bytes == 1.0 {
            return Ok("1 Byte".to_string());
        }
        if bytes < base {
            return Ok(format!("{} Bytes", bytes as i64));
        }
        let mut size = bytes;
        let mut unit = "";
        for name in units {
            size /= base;
            unit = name;
            if size < base {
                break;
            }
        }
        Ok::<_, Error>(format!("{size:.1} {unit}"))
    });
    env.add_filter("wordwrap", |value: &Value, width: Option<usize>, _rest: Rest<Value>, named: Kwargs| {
        let width = named.get::<Option<usize>>("width")?.or(width).unwrap_or(79).clamp(1, COLUMNS_MAX);
        let line_end = named.get::<Option<String>>("wrapstring")?.unwrap_or_else(|| "\n".into());
        let _long = named.get::<Option<bool>>("break_long_words")?;
        let _hyphens = named.get::<Option<bool>>("break_on_hyphens")?;
        named.assert_all_used()?;
        let text = python::text(value);
        let mut lines: Vec<String> = Vec::new();
        for paragraph in text.lines() {
            let mut line = String::new();
            for word in paragraph.split_whitespace() {
                if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
                    lines.push(std::mem::take(&mut line));
                }
                if !line.is_empty() {
                    line.push(' ');
                }
                line.push_str(word);
            }
            lines.push(line);
        }
        Ok::<_, Error>(lines.join(&line_end))
    });
}

fn html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            letter => out.push(letter),
        }
    }
    out
}
