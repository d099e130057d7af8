//! Filters, tests and functions of Salt's templates that the engine lacks or that mean something else there, with Salt's
//! own keyword arguments.

use super::budget::Budget;
use super::filters::{dump_json, replaced_bytes, sorted};
use super::mutable::Maker;
use super::python;
use super::sealed::{no_secret, open, plain};
use crate::yaml::python_emit;
use minijinja::value::{Kwargs, Rest, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State};
use std::net::IpAddr;
use std::sync::Arc;

/// Hosts of a network that are listed.
const HOSTS_MAX: usize = 65_536;

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

/// Puts everything into the environment.
pub fn install(env: &mut Environment<'static>, budget: &Arc<Budget>, maker: &Maker) {
    values(env, maker);
    writers(env, budget);
    texts(env, budget);
    choices(env);
    addresses(env);
}

fn values(env: &mut Environment<'static>, maker: &Maker) {
    for name in ["dict", "odict", "OrderedDict"] {
        let maker = maker.clone();
        env.add_function(name, move |args: Rest<Value>, named: Kwargs| {
            let map = maker.mutable(Value::from_object(indexmap::IndexMap::<Value, Value>::new()))?;
            if let Some(map) = map.downcast_object_ref::<super::mutable::Map>() {
                let given: Vec<Value> = args.iter().cloned().chain([Value::from(named)]).collect();
                map.update(&given)?;
            }
            Ok::<_, Error>(map)
        });
    }
    env.add_function("_concat", |left: Value, right: Value| {
        for side in [&left, &right] {
            if side.is_undefined() {
                return Err(Error::new(ErrorKind::UndefinedError, "a value to join is missing"));
            }
        }
        Ok(Value::from(python::text(&left) + &python::text(&right)))
    });
    env.add_filter("string", |value: &Value| python::text(value));
    env.add_filter("default", default);
    env.add_filter("d", default);
    env.add_test("callable", |value: &Value| {
        value.kind() == ValueKind::Plain && !value.is_undefined() && is_callable(value)
    });
    env.add_filter("random", |state: &mut State, items: Value| {
        let items: Vec<Value> = items.try_iter()?.collect();
        // The same choice for the same file and list: what a template yields does not change by itself.
        let seed = format!("{}{items:?}", state.name());
        let digest = super::hashes::digest("md5", &seed).unwrap_or_default();
        let number = digest.get(..8).and_then(|digits| usize::from_str_radix(digits, 16).ok()).unwrap_or(0);
        let at = number % items.len().max(1);
        items.get(at).cloned().ok_or_else(|| invalid("random: the list is empty"))
    });
    env.add_filter("to_bool", |value: &Value| match value.as_str() {
        Some(text) => matches!(text.to_lowercase().as_str(), "yes" | "1" | "true"),
        None if value.kind() == ValueKind::Number => {
            f64::try_from(value.clone()).is_ok_and(|number| number > 0.0)
        }
        None => value.is_true(),
    });
    env.add_filter(
        "method_call",
        |state: &mut State, value: Value, method: String, args: Rest<Value>, named: Kwargs| {
            let mut given: Vec<Value> = args.iter().cloned().collect();
            if named.args().next().is_some() {
                given.push(Value::from(named));
            }
            value.call_method(state, &method, &given)
        },
    );
    env.add_filter("unique", |items: Value, _positional: Rest<Value>, _named: Kwargs| {
        // Salt's own filter: the first of each, letter by letter.
        let mut seen: indexmap::IndexSet<Value> = indexmap::IndexSet::new();
        for item in items.try_iter()? {
            seen.insert(item);
        }
        Ok::<_, Error>(seen.into_iter().collect::<Vec<Value>>())
    });
    env.add_function("_method", |value: Value, name: String| {
        let own = value.get_item(&Value::from(name.as_str())).ok().filter(|found| !found.is_undefined());
        own.unwrap_or_else(|| Value::from_object(Bound { value, name }))
    });
}

/// `d['get']`: a method that is reached like a key.
#[derive(Debug)]
struct Bound {
    value: Value,
    name: String,
}

impl minijinja::value::Object for Bound {
    fn repr(self: &Arc<Self>) -> minijinja::value::ObjectRepr {
        minijinja::value::ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.value.call_method(state, &self.name, args)
    }
}

fn is_callable(value: &Value) -> bool {
    let text = value.to_string();
    value.downcast_object_ref::<super::functions::Function>().is_some()
        || value.downcast_object_ref::<Bound>().is_some()
        || text.starts_with("<macro")
        || text.contains("function")
}

/// `default(value='', boolean=False)`.
fn default(value: Value, positional: Rest<Value>, named: Kwargs) -> Result<Value, Error> {
    let fallback = named.get::<Option<Value>>("default_value")?.or_else(|| positional.first().cloned());
    let boolean = match named.get::<Option<Value>>("boolean")? {
        Some(flag) => flag.is_true(),
        None => positional.get(1).is_some_and(Value::is_true),
    };
    named.assert_all_used()?;
    let keep = !value.is_undefined() && (!boolean || value.is_true());
    Ok(if keep { value } else { fallback.unwrap_or_else(|| Value::from("")) })
}

fn writers(env: &mut Environment<'static>, shared: &Arc<Budget>) {
    let budget = shared.clone();
    env.add_filter("json", move |value: &Value, positional: Rest<Value>, named: Kwargs| {
        let sort = named.get::<Option<bool>>("sort_keys")?;
        let sort = sort.unwrap_or_else(|| positional.first().is_none_or(Value::is_true));
        let indent = named.get::<Option<usize>>("indent")?;
        let indent = indent.or_else(|| positional.get(1).and_then(Value::as_usize));
        named.assert_all_used()?;
        let mut json = super::filters::to_json(value)?;
        if sort {
            json = sorted(json);
        }
        let text = dump_json(&json, indent.unwrap_or(0).min(16));
        budget.bytes(text.len())?;
        Ok::<_, Error>(text)
    });
    env.add_filter("yaml", |value: &Value, positional: Rest<Value>, named: Kwargs| {
        let flow = named.get::<Option<bool>>("flow_style")?;
        let flow = flow.unwrap_or_else(|| positional.first().is_none_or(Value::is_true));
        named.assert_all_used()?;
        let json = sorted(super::filters::to_json(value)?);
        let text = if flow { python_emit::flow(&json) } else { python_emit::block(&json) };
        Ok::<_, Error>(text.trim().to_string())
    });
    env.add_filter("python", |value: &Value| {
        let value = Value::from(minijinja::value::Serde(sorted(super::filters::to_json(value)?)));
        Ok::<_, Error>(python::repr(&value))
    });
    env.add_filter("pprint", |value: &Value, _positional: Rest<Value>, _named: Kwargs| python::repr(value));
    env.add_filter("dict_to_sls_yaml_params", |value: &Value, _positional: Rest<Value>, named: Kwargs| {
        let _flow = named.get::<Option<bool>>("flow_style")?;
        named.assert_all_used()?;
        let json = super::filters::to_json(value)?;
        let Some(map) = json.as_object() else { return Err(invalid("dict_to_sls_yaml_params takes a map")) };
        let list = map.iter().map(|(key, item)| serde_json::json!({ (key.as_str()): item })).collect();
        Ok(python_emit::block(&serde_json::Value::Array(list)))
    });
}

fn pattern(pattern: &str, named: &Kwargs, positional: &[Value]) -> Result<regex::Regex, Error> {
    let flag = |name: &str, at: usize| -> Result<bool, Error> {
        let given = named.get::<Option<bool>>(name)?;
        Ok(given.unwrap_or_else(|| positional.get(at).is_some_and(Value::is_true)))
    };
    regex::RegexBuilder::new(pattern)
        .case_insensitive(flag("ignorecase", 0)?)
        .multi_line(flag("multiline", 1)?)
        .size_limit(1024 * 1024)
        .build()
        .map_err(|error| invalid(format!("`{pattern}` is not a pattern: {error}")))
}

fn texts(env: &mut Environment<'static>, shared: &Arc<Budget>) {
    let budget = shared.clone();
    env.add_filter(
        "replace",
        move |text: &Value, old: String, new: String, positional: Rest<Value>, named: Kwargs| {
            let count =
                named.get::<Option<usize>>("count")?.or_else(|| positional.first().and_then(Value::as_usize));
            named.assert_all_used()?;
            let text = plain("replace", python::text(text))?;
            no_secret("`replace`", &old)?;
            budget.bytes(replaced_bytes(&text, &old, &new))?;
            Ok::<_, Error>(match count {
                Some(count) => text.replacen(&old, &new, count),
                None => text.replace(&old, &new),
            })
        },
    );
    let budget = shared.clone();
    env.add_filter(
        "regex_replace",
        move |text: String, wanted: String, new: String, positional: Rest<Value>, named: Kwargs| {
            let expression = pattern(&wanted, &named, &positional)?;
            named.assert_all_used()?;
            [&text, &wanted].into_iter().try_for_each(|text| no_secret("`regex_replace`", text))?;
            let new = super::filters::python_replacement(&new);
            budget.bytes(expression.find_iter(&text).count().saturating_mul(new.len()))?;
            Ok::<_, Error>(expression.replace_all(&text, new.as_str()).into_owned())
        },
    );
    for name in ["regex_search", "regex_match"] {
        env.add_filter(name, move |text: String, wanted: String, positional: Rest<Value>, named: Kwargs| {
            no_secret(&format!("`{name}`"), &wanted)?;
            let wanted = if name == "regex_match" { format!("^(?:{wanted})") } else { wanted };
            let expression = pattern(&wanted, &named, &positional)?;
            named.assert_all_used()?;
            let Some(found) = expression.captures(&text) else { return Ok(Value::from(())) };
            // Without a group of its own the whole match is the only one.
            let from = usize::from(found.len() > 1);
            let group = |group: Option<regex::Match<'_>>| {
                group.map_or(Value::from(()), |it| Value::from(it.as_str()))
            };
            let groups: Vec<Value> = found.iter().skip(from).map(group).collect();
            Ok::<_, Error>(Value::from(minijinja::value::Tuple::from(groups)))
        });
    }
    env.add_filter("path_join", |first: String, rest: Rest<String>| {
        let parts = rest.iter().map(|part| part.trim_start_matches('/')).filter(|part| !part.is_empty());
        parts.fold(first, |path, part| match path.is_empty() || path.ends_with('/') {
            true => format!("{path}{part}"),
            false => format!("{path}/{part}"),
        })
    });
    env.add_filter("urlencode", |value: &Value| {
        let pairs: Vec<(Value, Value)> = match value.kind() {
            ValueKind::Map => {
                let keys: Vec<Value> = value.try_iter()?.collect();
                keys.into_iter()
                    .map(|key| Ok((key.clone(), value.get_item(&key)?)))
                    .collect::<Result<_, Error>>()?
            }
            ValueKind::Seq | ValueKind::Iterable => value
                .try_iter()?
                .map(|pair| Ok((pair.get_item_by_index(0)?, pair.get_item_by_index(1)?)))
                .collect::<Result<_, Error>>()?,
            _ => return Ok::<_, Error>(percent(&python::text(value), b"/")),
        };
        let word = |value: &Value| percent(&python::text(value), b"").replace("%20", "+");
        let words: Vec<String> =
            pairs.iter().map(|(key, value)| format!("{}={}", word(key), word(value))).collect();
        Ok(words.join("&"))
    });
    env.add_filter("center", |text: String, width: Option<usize>| {
        let width = width.unwrap_or(80).min(10_000);
        let missing = width.saturating_sub(text.chars().count());
        // Python puts the odd blank to the left where the width is odd too.
        let left = missing / 2 + (missing & width & 1);
        format!("{}{text}{}", " ".repeat(left), " ".repeat(missing - left))
    });
    for name in ["strftime", "date_format"] {
        env.add_filter(name, |value: &Value, format: Option<String>| {
            super::dates::strftime(value, format.as_deref().unwrap_or("%Y-%m-%d"))
        });
    }
    for name in ["sha1", "sha256", "sha512", "md5"] {
        env.add_filter(name, move |value: &Value| {
            let text = plain(name, python::text(value))?;
            super::hashes::digest(name, &text).ok_or_else(|| invalid(format!("there is no digest `{name}`")))
        });
    }
}

fn percent(text: &str, safe: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte.is_ascii_alphanumeric() || b"_.-~".contains(&byte) || safe.contains(&byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn choices(env: &mut Environment<'static>) {
    env.add_filter("check_whitelist_blacklist", |value: String, args: Kwargs| {
        let list = |name: &str| -> Result<Option<Vec<String>>, Error> {
            let given = args.get::<Option<Value>>(name)?.filter(Value::is_true);
            given.iter().try_for_each(|given| open("`check_whitelist_blacklist`", given))?;
            Ok(given.map(|given| match given.as_str() {
                Some(text) => text.split(',').map(|part| part.trim().to_string()).collect(),
                None => given.try_iter().into_iter().flatten().map(|item| python::text(&item)).collect(),
            }))
        };
        let (white, black) = (list("whitelist")?, list("blacklist")?);
        args.assert_all_used()?;
        let fits = |list: &[String]| list.iter().any(|pattern| super::glob::matches(pattern, &value));
        let listed = white.as_deref().is_none_or(fits);
        Ok::<_, Error>(listed && !black.as_deref().is_some_and(fits))
    });
    env.add_filter("traverse", |value: &Value, path: String, positional: Rest<Value>, named: Kwargs| {
        let default = named.get::<Option<Value>>("default")?.or_else(|| positional.first().cloned());
        let delimiter = named.get::<Option<String>>("delimiter")?;
        named.assert_all_used()?;
        let path = delimiter.map_or(path.clone(), |delimiter| path.replace(&delimiter, ":"));
        Ok::<_, Error>(super::functions::walk(value, &path).or(default).unwrap_or_else(|| Value::from(())))
    });
    env.add_test("match", |text: String, wanted: String, positional: Rest<Value>, named: Kwargs| {
        no_secret("the test `match`", &wanted)?;
        let found = pattern(&format!("^(?:{wanted})"), &named, &positional)?;
        named.assert_all_used()?;
        Ok::<_, Error>(found.is_match(&text))
    });
}

/// An address, with the length of its network where one is given.
fn address(text: &str) -> Option<(IpAddr, Option<u8>)> {
    let (host, bits) =
        text.trim().split_once('/').map_or((text.trim(), None), |(host, bits)| (host, Some(bits)));
    let host: IpAddr = host.parse().ok()?;
    let most = if host.is_ipv4() { 32 } else { 128 };
    let bits = match bits {
        Some(bits) => Some(bits.parse::<u8>().ok().filter(|bits| *bits <= most)?),
        None => None,
    };
    Some((host, bits))
}

fn addresses(env: &mut Environment<'static>) {
    for (name, version) in
        [("ipaddr", 0), ("ipv4", 4), ("ipv6", 6), ("is_ip", 0), ("is_ipv4", 4), ("is_ipv6", 6)]
    {
        let asks = name.starts_with("is_");
        env.add_filter(name, move |value: &Value, _positional: Rest<Value>, _named: Kwargs| {
            let fits = |value: &Value| {
                let found = value.as_str().and_then(address);
                found.is_some_and(|(host, _)| version == 0 || host.is_ipv4() == (version == 4))
            };
            if asks {
                return Ok(Value::from(fits(value)));
            }
            match value.kind() {
                ValueKind::Seq | ValueKind::Iterable => {
                    Ok(Value::from(value.try_iter()?.filter(|item| fits(item)).collect::<Vec<_>>()))
                }
                _ => Ok::<_, Error>(if fits(value) { value.clone() } else { Value::from(()) }),
            }
        });
    }
    env.add_filter("network_hosts", |value: String, _positional: Rest<Value>, _named: Kwargs| {
        Ok::<_, Error>(hosts(&value)?.into_iter().map(|host| host.to_string()).collect::<Vec<_>>())
    });
    env.add_filter("network_size", |value: String, _positional: Rest<Value>, _named: Kwargs| {
        let (host, bits) = address(&value).ok_or_else(|| invalid(format!("`{value}` is no network")))?;
        let most: u8 = if host.is_ipv4() { 32 } else { 128 };
        let free = u32::from(most - bits.unwrap_or(most));
        Ok::<_, Error>(Value::from(1_i128.checked_shl(free).unwrap_or(i128::MAX)))
    });
}

/// The hosts of a network, without its own address and that of everybody.
fn hosts(text: &str) -> Result<Vec<IpAddr>, Error> {
    let no = || invalid(format!("`{text}` is no network"));
    let (host, bits) = address(text).ok_or_else(no)?;
    let most: u8 = if host.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(most);
    let free = u32::from(most - bits);
    let number = match host {
        IpAddr::V4(host) => u128::from(u32::from(host)),
        IpAddr::V6(host) => u128::from(host),
    };
    let size = 1_u128.checked_shl(free).unwrap_or(0);
    if free > 127 || size as usize > HOSTS_MAX + 2 {
        return Err(invalid(format!("`{text}` has more than {HOSTS_MAX} hosts")));
    }
    let first = number & !(size - 1);
    let (from, to) = match (host.is_ipv4(), free) {
        (_, 0 | 1) => (first, first + size),
        (true, _) => (first + 1, first + size - 1),
        (false, _) => (first + 1, first + size),
    };
    let made = |number: u128| match host.is_ipv4() {
        true => IpAddr::from((number as u32).to_be_bytes()),
        false => IpAddr::from(number.to_be_bytes()),
    };
    Ok((from..to).map(made).collect())
}
