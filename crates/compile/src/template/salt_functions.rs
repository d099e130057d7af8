//! Functions that templates call and that need nothing but facts, settings and the files of the tree.
//!
//! One table: what stands in it is answered here, everything else is asked of whoever compiles.

use super::filters::{dump_json, sorted, to_json};
use super::functions::{World, merge, merge_with, walk};
use super::{glob, imports, python};
use crate::yaml::python_emit;
use minijinja::value::{Kwargs, Rest, Serde, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};

type Call = fn(&World, &mut State<'_, '_>, &[Value]) -> Result<Value, Error>;

/// Every function that is answered here.
pub const OWN: &[(&str, Call)] = &[
    ("config.get", |world, _, args| world.lookup(&[&world.settings, &world.facts], args)),
    ("config.items", |world, _, _| Ok(world.settings.clone())),
    ("config.option", |world, _, args| world.lookup(&[&world.settings, &world.facts], args)),
    ("cp.get_file_str", get_file_str),
    ("cp.get_template", get_file_str),
    ("cp.hash_file", hash_file),
    ("cp.list_master", |world, _, args| list(world, args, false)),
    ("cp.list_master_dirs", list_dirs),
    ("cp.list_states", |world, _, args| list(world, args, true)),
    ("data.get", |world, _, args| world.lookup(&[], args)),
    ("defaults.deepcopy", deepcopy),
    ("defaults.get", defaults_get),
    ("defaults.merge", |_, _, args| merged(args, true)),
    ("defaults.update", defaults_update),
    ("facts.filter_by", |world, _, args| filter_by(&world.facts, args)),
    ("facts.get", |world, _, args| world.lookup(&[&world.facts], args)),
    ("file.basename", |_, _, args| {
        path_part(args, |path| path.rsplit('/').next().unwrap_or_default().into())
    }),
    ("file.dirname", |_, _, args| path_part(args, dirname)),
    ("file.join", |_, _, args| {
        let (parts,): (Rest<String>,) = from_args(args)?;
        let joined =
            parts.iter().fold(String::new(), |path, part| match path.is_empty() || part.starts_with('/') {
                true => part.clone(),
                false => format!("{}/{part}", path.trim_end_matches('/')),
            });
        Ok(Value::from(joined))
    }),
    ("file.normpath", |_, _, args| path_part(args, normpath)),
    ("grains.equals", |world, _, args| {
        let (key, wanted): (String, Value) = from_args(args)?;
        let found = walk(&world.facts, &key);
        Ok(Value::from(found.is_some_and(|found| python::text(&found) == python::text(&wanted))))
    }),
    ("grains.fetch", |world, _, args| world.lookup(&[&world.facts], args)),
    ("grains.filter_by", |world, _, args| filter_by(&world.facts, args)),
    ("grains.get", |world, _, args| world.lookup(&[&world.facts], args)),
    ("grains.has_value", |world, _, args| {
        world.lookup(&[&world.facts], args).map(|found| Value::from(found.is_true()))
    }),
    ("grains.item", |world, _, args| items(&world.facts, args)),
    ("grains.items", |world, _, _| Ok(world.facts.clone())),
    ("grains.keys", |world, _, _| Ok(keys(&world.facts))),
    ("grains.ls", |world, _, _| Ok(keys(&world.facts))),
    ("match.filter_by", |world, _, args| match_filter_by(world, args)),
    ("pillar.fetch", |world, _, args| world.lookup(&[&world.settings], args)),
    ("pillar.filter_by", |world, _, args| filter_by(&world.settings, args)),
    ("pillar.get", |world, _, args| world.lookup(&[&world.settings], args)),
    ("pillar.item", |world, _, args| items(&world.settings, args)),
    ("pillar.items", |world, _, _| Ok(world.settings.clone())),
    ("pillar.keys", |world, _, args| world.lookup(&[&world.settings], args).map(|found| keys(&found))),
    ("pillar.ls", |world, _, _| Ok(keys(&world.settings))),
    ("settings.get", |world, _, args| world.lookup(&[&world.settings], args)),
    ("settings.items", |world, _, _| Ok(world.settings.clone())),
    ("slsutil.boolstr", boolstr),
    ("slsutil.file_exists", |world, _, args| exists(world, args, false)),
    ("slsutil.dir_exists", |world, _, args| exists(world, args, true)),
    ("slsutil.path_exists", |world, _, args| {
        let file = exists(world, args, false)?;
        if file.is_true() { Ok(file) } else { exists(world, args, true) }
    }),
    ("slsutil.merge", |_, _, args| merged(args, false)),
    ("slsutil.merge_all", |_, _, args| {
        let (maps, named): (Value, Kwargs) = from_args(args)?;
        let lists = named.get::<Option<bool>>("merge_lists")?.unwrap_or(false);
        check_strategy(named.get::<Option<String>>("strategy")?)?;
        let _renderer = named.get::<Option<String>>("renderer")?;
        named.assert_all_used()?;
        let empty = Value::from_object(indexmap::IndexMap::<Value, Value>::new());
        Ok(maps.try_iter()?.fold(empty, |under, over| merge_with(&under, &over, lists)))
    }),
    ("slsutil.renderer", renderer),
    ("slsutil.serialize", serialize),
    ("slsutil.deserialize", |_, _, args| {
        let (format, text, _named): (String, String, Kwargs) = from_args(args)?;
        imports::load(known_format(&format)?, &text)
    }),
    ("slsutil.update", |_, _, args| merged(args, true)),
];

/// The names of all of them.
pub fn names() -> impl Iterator<Item = &'static str> {
    OWN.iter().map(|(name, _)| *name)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidOperation, message.into())
}

fn keys(map: &Value) -> Value {
    Value::from(map.try_iter().into_iter().flatten().collect::<Vec<Value>>())
}

/// Some of a map, under their own names.
fn items(map: &Value, args: &[Value]) -> Result<Value, Error> {
    let (names, named): (Rest<Value>, Kwargs) = from_args(args)?;
    let default = named.get::<Option<Value>>("default")?.unwrap_or_else(|| Value::from(""));
    let _delimiter = named.get::<Option<String>>("delimiter")?;
    let _sanitize = named.get::<Option<bool>>("sanitize")?;
    named.assert_all_used()?;
    let found = |name: &Value| walk(map, &python::text(name)).unwrap_or_else(|| default.clone());
    let entries: indexmap::IndexMap<Value, Value> =
        names.iter().map(|name| (name.clone(), found(name))).collect();
    Ok(Value::from_object(entries))
}

fn check_strategy(strategy: Option<String>) -> Result<bool, Error> {
    match strategy.as_deref() {
        None | Some("smart" | "recurse") => Ok(true),
        Some("overwrite") => Ok(false),
        Some(other) => {
            let message =
                format!("the strategy `{other}` is not known; there are `smart`, `recurse` and `overwrite`");
            Err(invalid(message))
        }
    }
}

/// `merge(under, over, merge_lists=False)`. With `in_place` a map that the template made changes as well, as in Salt.
fn merged(args: &[Value], in_place: bool) -> Result<Value, Error> {
    let (under, over, named): (Value, Value, Kwargs) = from_args(args)?;
    let lists = named.get::<Option<bool>>("merge_lists")?.unwrap_or(false);
    let deep = check_strategy(named.get::<Option<String>>("strategy")?)?;
    let recursive = named.get::<Option<bool>>("recursive_update")?.unwrap_or(deep);
    let _renderer = named.get::<Option<String>>("renderer")?;
    let in_place = named.get::<Option<bool>>("in_place")?.unwrap_or(in_place);
    let _convert = named.get::<Option<bool>>("convert_none")?;
    named.assert_all_used()?;
    // Nothing laid over something leaves it as it is.
    if over.is_none() || over.is_undefined() {
        return Ok(under);
    }
    let result = if recursive { merge_with(&under, &over, lists) } else { shallow(&under, &over)? };
    if let Some(map) = under.downcast_object_ref::<super::mutable::Map>().filter(|_| in_place) {
        map.update(std::slice::from_ref(&result))?;
    }
    Ok(result)
}

fn shallow(under: &Value, over: &Value) -> Result<Value, Error> {
    let mut entries: indexmap::IndexMap<Value, Value> = indexmap::IndexMap::new();
    for map in [under, over] {
        for key in map.try_iter()? {
            entries.insert(key.clone(), map.get_item(&key)?);
        }
    }
    Ok(Value::from_object(entries))
}

fn deepcopy(_: &World, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (value,): (Value,) = from_args(args)?;
    Ok(Value::from(Serde(to_json(&value)?)))
}

/// `defaults.get('formula:key')`: what `formula/defaults.yaml` says.
fn defaults_get(world: &World, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (key, default): (String, Option<Value>) = from_args(args)?;
    let (formula, rest) = key.split_once(':').unwrap_or((&key, ""));
    let files = world.files();
    let endings = ["yaml", "json"];
    let found = endings.iter().map(|ending| (format!("{formula}/defaults.{ending}"), *ending));
    let Some((path, format)) = found.into_iter().find(|(path, _)| files.contains(path)) else {
        return Ok(default.unwrap_or_else(|| Value::from("")));
    };
    let shared = world.shared.as_ref().ok_or_else(|| invalid("there are no files here"))?;
    let data = imports::import(shared, state, &path, format)?;
    let value = if rest.is_empty() { Some(data) } else { walk(&data, rest) };
    Ok(value.or(default).unwrap_or_else(|| Value::from("")))
}

/// `defaults.update(dest, defaults)`: every map of `dest` gets what `defaults` says and it does not.
fn defaults_update(_: &World, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (dest, defaults, named): (Value, Value, Kwargs) = from_args(args)?;
    let lists = named.get::<Option<bool>>("merge_lists")?.unwrap_or(true);
    let _in_place = named.get::<Option<bool>>("in_place")?;
    let _convert = named.get::<Option<bool>>("convert_none")?;
    named.assert_all_used()?;
    let mut entries: indexmap::IndexMap<Value, Value> = indexmap::IndexMap::new();
    for key in dest.try_iter()? {
        entries.insert(key.clone(), merge_with(&defaults, &dest.get_item(&key)?, lists));
    }
    let result = Value::from_object(entries);
    if let Some(map) = dest.downcast_object_ref::<super::mutable::Map>() {
        map.update(std::slice::from_ref(&result))?;
    }
    Ok(result)
}

fn option(named: &Kwargs, positional: &[Value], index: usize, name: &str) -> Result<Option<Value>, Error> {
    let keyword = named.get::<Option<Value>>(name)?;
    Ok(keyword.or_else(|| positional.get(index).cloned()).filter(|value| !value.is_none()))
}

/// Salt's `filter_by(map, grain='os_family', merge=None, default='default', base=None)`: the first key that is a pattern
/// of the value, or of one of the values.
pub fn filter_by(data: &Value, args: &[Value]) -> Result<Value, Error> {
    let (map, positional, named): (Value, Rest<Value>, Kwargs) = from_args(args)?;
    // `pillar.filter_by` calls its second argument so.
    let pillar = named.get::<Option<Value>>("pillar")?;
    let grain =
        option(&named, &positional, 0, "grain")?.or(pillar).unwrap_or_else(|| Value::from("os_family"));
    let over = option(&named, &positional, 1, "merge")?;
    let default = option(&named, &positional, 2, "default")?.unwrap_or_else(|| Value::from("default"));
    let base = option(&named, &positional, 3, "base")?;
    named.assert_all_used()?;
    let chosen = match walk(data, &python::text(&grain)) {
        Some(list) if list.kind() == ValueKind::Seq => {
            list.try_iter()?.find_map(|value| by_pattern(&map, &python::text(&value)))
        }
        Some(value) => by_pattern(&map, &python::text(&value)),
        None => None,
    };
    let get = |key: &Value| map.get_item(key).ok().filter(|value| !value.is_undefined());
    filtered(chosen.or_else(|| get(&default)), base.and_then(|base| get(&base)), over)
}

fn by_pattern(map: &Value, wanted: &str) -> Option<Value> {
    let keys = map.try_iter().into_iter().flatten();
    let key = keys.into_iter().find(|key| glob::matches(&python::text(key), wanted))?;
    // Python asks whether it is None, and goes on if it is.
    map.get_item(&key).ok().filter(|value| !value.is_none())
}

fn filtered(chosen: Option<Value>, base: Option<Value>, over: Option<Value>) -> Result<Value, Error> {
    let chosen = chosen.filter(|value| !value.is_none());
    let mut result = match (base, chosen) {
        (Some(base), Some(chosen)) if base.kind() == ValueKind::Map => match chosen.kind() {
            ValueKind::Map => merge(&base, &chosen),
            kind => return Err(invalid(format!("filter_by: `base` is a map and what was found is {kind}"))),
        },
        (base, chosen) => chosen.or(base).unwrap_or_else(|| Value::from(())),
    };
    // An empty text or map changes nothing, whatever it is.
    if let Some(over) = over.filter(Value::is_true) {
        if over.kind() != ValueKind::Map {
            return Err(invalid(format!("filter_by: `merge` is a map, not {}", over.kind())));
        }
        result = if result.is_none() { over } else { merge(&result, &over) };
    }
    Ok(result)
}

/// `match.filter_by(map)`: the first key that is a pattern of the id of this machine.
fn match_filter_by(world: &World, args: &[Value]) -> Result<Value, Error> {
    let (map, positional, named): (Value, Rest<Value>, Kwargs) = from_args(args)?;
    let id = option(&named, &positional, 0, "minion_id")?.or_else(|| walk(&world.facts, "id"));
    let over = option(&named, &positional, 1, "merge")?;
    let default = option(&named, &positional, 2, "merge_default")?;
    let default =
        named.get::<Option<Value>>("default")?.or(default).unwrap_or_else(|| Value::from("default"));
    let base = named.get::<Option<Value>>("base")?;
    named.assert_all_used()?;
    let chosen = id.and_then(|id| by_pattern(&map, &python::text(&id)));
    let get = |key: &Value| map.get_item(key).ok().filter(|value| !value.is_undefined());
    filtered(chosen.or_else(|| get(&default)), base.and_then(|base| get(&base)), over)
}

fn path_part(args: &[Value], part: fn(&str) -> String) -> Result<Value, Error> {
    let (path,): (String,) = from_args(args)?;
    Ok(Value::from(part(&path)))
}

fn dirname(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((before, _)) if before.chars().all(|letter| letter == '/') => format!("{before}/"),
        Some((before, _)) => before.trim_end_matches('/').to_string(),
        None => String::new(),
    }
}

fn normpath(path: &str) -> String {
    let absolute = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => drop(parts.pop()),
            ".." if absolute => {}
            part => parts.push(part),
        }
    }
    match (absolute, parts.join("/")) {
        (true, path) => format!("/{path}"),
        (false, path) if path.is_empty() => ".".into(),
        (false, path) => path,
    }
}

/// The path of a file of the tree, whatever scheme and environment it is written with.
fn tree_path(text: &str) -> &str {
    let bare = text.strip_prefix("salt://").or_else(|| text.strip_prefix("zester://")).unwrap_or(text);
    bare.split_once("?saltenv=").map_or(bare, |(path, _)| path).trim_start_matches("./")
}

fn get_file_str(world: &World, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (path, _positional, _named): (String, Rest<Value>, Kwargs) = from_args(args)?;
    // What Salt answers where there is no such file.
    Ok(world.read(tree_path(&path))?.map_or_else(|| Value::from(false), |text| Value::from(text.to_string())))
}

fn hash_file(world: &World, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (path, _positional, _named): (String, Rest<Value>, Kwargs) = from_args(args)?;
    let empty = Value::from_object(indexmap::IndexMap::<Value, Value>::new());
    let Some(text) = world.read(tree_path(&path))? else { return Ok(empty) };
    let digest = super::hashes::digest("sha256", &text).unwrap_or_default();
    Ok(Value::from_pairs([("hash_type", "sha256"), ("hsum", digest.as_str())]))
}

/// Files of the tree below a prefix; as references where states are asked for.
fn list(world: &World, args: &[Value], states: bool) -> Result<Value, Error> {
    let (_environment, prefix, named): (Option<Value>, Option<String>, Kwargs) = from_args(args)?;
    let _saltenv = named.get::<Option<Value>>("saltenv")?;
    let prefix = named.get::<Option<String>>("prefix")?.or(prefix);
    let prefix = prefix.unwrap_or_default();
    let mut found: Vec<String> = match states {
        true => world
            .files()
            .iter()
            .filter(|path| path.ends_with(".sls") || path.ends_with(".zy"))
            .map(|path| crate::reference::name_of(path))
            .collect(),
        false => world.files().into_iter().filter(|path| path.starts_with(&prefix)).collect(),
    };
    found.sort();
    Ok(Value::from(found))
}

fn list_dirs(world: &World, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (_environment, prefix, named): (Option<Value>, Option<String>, Kwargs) = from_args(args)?;
    let prefix = named.get::<Option<String>>("prefix")?.or(prefix);
    let prefix = prefix.unwrap_or_default();
    let mut found = std::collections::BTreeSet::new();
    for path in world.files() {
        let mut directory = crate::reference::directory_of(&path);
        while !directory.is_empty() {
            found.insert(directory.to_string());
            directory = crate::reference::directory_of(directory);
        }
    }
    Ok(Value::from(found.into_iter().filter(|path| path.starts_with(&prefix)).collect::<Vec<_>>()))
}

fn exists(world: &World, args: &[Value], directory: bool) -> Result<Value, Error> {
    let (path, _positional, _named): (String, Rest<Value>, Kwargs) = from_args(args)?;
    let path = tree_path(&path).trim_end_matches('/').to_string();
    let below = format!("{path}/");
    let fits = |file: &String| if directory { file.starts_with(&below) } else { *file == path };
    Ok(Value::from(world.files().iter().any(fits)))
}

fn boolstr(_: &World, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (value, positional, named): (Value, Rest<Value>, Kwargs) = from_args(args)?;
    let yes = option(&named, &positional, 0, "true")?.unwrap_or_else(|| Value::from("true"));
    let no = option(&named, &positional, 1, "false")?.unwrap_or_else(|| Value::from("false"));
    named.assert_all_used()?;
    let truth = match value.as_str() {
        Some(text) => matches!(text.to_lowercase().as_str(), "yes" | "true" | "on" | "1"),
        None => value.is_true(),
    };
    Ok(if truth { yes } else { no })
}

fn known_format(format: &str) -> Result<&'static str, Error> {
    match format {
        "yaml" | "yamlex" => Ok("yaml"),
        "json" => Ok("json"),
        other => Err(invalid(format!("there is no format `{other}` here; there are `yaml` and `json`"))),
    }
}

/// `slsutil.serialize('yaml', value)`.
fn serialize(_: &World, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (format, value, named): (String, Value, Kwargs) = from_args(args)?;
    let json = sorted(to_json(&value)?);
    let flow = named.get::<Option<bool>>("default_flow_style")?;
    let indent = named.get::<Option<usize>>("indent")?.unwrap_or(0);
    let _others: Vec<&str> = named.args().collect();
    Ok(Value::from(match format.as_str() {
        "json" => dump_json(&json, indent.min(16)),
        "python" => python::repr(&Value::from(Serde(json))),
        other => match (known_format(other)?, flow) {
            (_, Some(true)) => python_emit::flow(&json),
            (_, Some(false)) => python_emit::block(&json),
            (_, None) => python_emit::mixed(&json),
        },
    }))
}

/// `slsutil.renderer(path, default_renderer='jinja|yaml')`: the data of a file of the tree.
fn renderer(world: &World, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
    let (positional, named): (Rest<Value>, Kwargs) = from_args(args)?;
    let path = option(&named, &positional, 0, "path")?.map(|path| python::text(&path));
    let text = option(&named, &positional, 1, "string")?.map(|text| python::text(&text));
    let chain = option(&named, &positional, 2, "default_renderer")?;
    let chain = chain.map_or_else(|| "jinja|yaml".to_string(), |chain| python::text(&chain));
    let format = chain.rsplit('|').next().unwrap_or("yaml").trim().to_string();
    let format = if format == "jinja" || format == "text" { "text" } else { known_format(&format)? };
    let _variables: Vec<&str> = named.args().collect();
    let shared = world.shared.as_ref().ok_or_else(|| invalid("there are no files here"))?;
    match (path, text) {
        (Some(path), None) => imports::import(shared, state, tree_path(&path), format),
        (None, Some(text)) => imports::load(format, &text),
        _ => Err(invalid("slsutil.renderer takes a `path`, or a `string` that is no template")),
    }
}
