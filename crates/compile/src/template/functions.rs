//! What templates can call: `salt['mod.fn'](…)`, and the data they look things up in.
//!
//! `pillar.get`, `grains.get`, `config.get`, `grains.filter_by` and their Zester names are answered here from the
//! settings and facts; everything else is asked of the caller, who decides what may be called.

use crate::CallError;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, Serde, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use serde_json::Value as Json;
use std::fmt;
use std::sync::Arc;
use zester_model::suggest::did_you_mean;

/// Asks the caller of the compiler: function name, positional arguments, named ones.
pub type Ask =
    dyn Fn(&str, Vec<Json>, serde_json::Map<String, Json>) -> Result<Json, CallError> + Send + Sync;

/// What templates look up and call.
pub struct World {
    pub facts: Value,
    pub settings: Value,
    pub ask: Box<Ask>,
    /// Names that `ask` knows.
    pub names: Vec<String>,
}

impl fmt::Debug for World {
    /// Settings hold secrets: nothing of them is ever printed this way.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("World")
    }
}

const OWN: [&str; 18] = [
    "pillar.get",
    "settings.get",
    "pillar.items",
    "settings.items",
    "grains.get",
    "facts.get",
    "grains.items",
    "grains.filter_by",
    "facts.filter_by",
    "config.get",
    "config.option",
    "pillar.keys",
    "grains.keys",
    "grains.has_value",
    "grains.equals",
    "slsutil.merge",
    "slsutil.update",
    "defaults.merge",
];

/// Walks `a:b:c` through maps and lists; a key that holds colons itself is found first.
pub fn walk(value: &Value, path: &str) -> Option<Value> {
    let found = |value: Value| (!value.is_undefined()).then_some(value);
    if let Some(direct) = value.get_item(&Value::from(path)).ok().and_then(found) {
        return Some(direct);
    }
    let (mut head, mut rest) = (value.clone(), path);
    while !rest.is_empty() {
        let (key, tail) = rest.split_once(':').unwrap_or((rest, ""));
        let next = match head.kind() {
            ValueKind::Seq => key.parse::<usize>().ok().and_then(|at| head.get_item_by_index(at).ok()),
            _ => head.get_item(&Value::from(key)).ok(),
        };
        head = next.and_then(found)?;
        rest = tail;
    }
    Some(head)
}

/// `over` laid on `under`, maps merged all the way down.
fn merge(under: &Value, over: &Value) -> Value {
    merge_with(under, over, false)
}

/// `lists`: a list goes behind the list that is there, instead of replacing it.
fn merge_with(under: &Value, over: &Value, lists: bool) -> Value {
    if lists && under.kind() == ValueKind::Seq && over.kind() == ValueKind::Seq {
        let items = |list: &Value| list.try_iter().into_iter().flatten().collect::<Vec<Value>>();
        return Value::from([items(under), items(over)].concat());
    }
    if under.kind() != ValueKind::Map || over.kind() != ValueKind::Map {
        return over.clone();
    }
    let mut entries: indexmap::IndexMap<Value, Value> = indexmap::IndexMap::new();
    for map in [under, over] {
        for key in map.try_iter().into_iter().flatten() {
            let item = map.get_item(&key).unwrap_or_default();
            let joined = match entries.get(&key) {
                Some(old) => merge_with(old, &item, lists),
                None => item,
            };
            entries.insert(key, joined);
        }
    }
    Value::from_object(entries)
}

impl World {
    pub fn call(&self, name: &str, args: &[Value]) -> Result<Value, Error> {
        match name {
            "pillar.get" | "settings.get" => lookup(&[&self.settings], args),
            "grains.get" | "facts.get" => lookup(&[&self.facts], args),
            "config.get" | "config.option" => lookup(&[&self.settings, &self.facts], args),
            "pillar.items" | "settings.items" => Ok(self.settings.clone()),
            "grains.items" => Ok(self.facts.clone()),
            "grains.filter_by" | "facts.filter_by" => self.filter_by(args),
            "pillar.keys" => lookup(&[&self.settings], args).map(|found| keys(&found)),
            "grains.keys" => Ok(keys(&self.facts)),
            "grains.has_value" => lookup(&[&self.facts], args).map(|found| Value::from(found.is_true())),
            "grains.equals" => {
                let (key, wanted): (String, Value) = from_args(args)?;
                let found = walk(&self.facts, &key);
                Ok(Value::from(found.is_some_and(|found| found.to_string() == wanted.to_string())))
            }
            "slsutil.merge" => merged(args, false),
            "slsutil.update" | "defaults.merge" => merged(args, true),
            _ => self.outside(name, args),
        }
    }

    fn outside(&self, name: &str, args: &[Value]) -> Result<Value, Error> {
        if !self.names.iter().any(|known| known == name) {
            let known = self.names.iter().map(String::as_str).chain(OWN);
            let mut message = format!("unknown function `{name}`");
            if let Some(hint) = did_you_mean(name, known) {
                message = format!("{message}; {hint}");
            }
            return Err(Error::new(ErrorKind::UnknownFunction, message));
        }
        let (positional, named): (Rest<Value>, Kwargs) = from_args(args)?;
        let json = |value: &Value| {
            serde_json::to_value(value)
                .map_err(|error| Error::new(ErrorKind::InvalidOperation, format!("{name}: {error}")))
        };
        let positional: Vec<Json> = positional.iter().map(json).collect::<Result<_, _>>()?;
        let mut keywords = serde_json::Map::new();
        for key in named.args() {
            keywords.insert(key.to_string(), json(&named.get::<Value>(key)?)?);
        }
        match (self.ask)(name, positional, keywords) {
            Ok(answer) => Ok(Value::from(Serde(answer))),
            Err(why) => {
                let message = format!("{name}: {why}");
                Err(Error::new(ErrorKind::InvalidOperation, message).with_source(why))
            }
        }
    }

    /// Salt's `grains.filter_by(map, grain='os_family', merge=None, default='default', base=None)`.
    fn filter_by(&self, args: &[Value]) -> Result<Value, Error> {
        let (map, positional, named): (Value, Rest<Value>, Kwargs) = from_args(args)?;
        let option = |index: usize, name: &str| -> Result<Option<Value>, Error> {
            let keyword = named.get::<Option<Value>>(name)?;
            let value = keyword.or_else(|| positional.get(index).cloned());
            Ok(value.filter(|value| !value.is_none()))
        };
        let grain = option(0, "grain")?.unwrap_or_else(|| Value::from("os_family"));
        let over = option(1, "merge")?;
        let default = option(2, "default")?.unwrap_or_else(|| Value::from("default"));
        let base = option(3, "base")?;
        named.assert_all_used()?;
        let fact = walk(&self.facts, grain.as_str().unwrap_or_default());
        let get = |key: &Value| map.get_item(key).ok().filter(|value| !value.is_undefined());
        let chosen = fact.and_then(|fact| get(&fact)).or_else(|| get(&default));
        let under = base.and_then(|base| get(&base));
        let mut result = match (under, chosen) {
            (Some(under), Some(chosen)) => merge(&under, &chosen),
            (under, chosen) => chosen.or(under).unwrap_or_else(|| Value::from(())),
        };
        if let Some(over) = over {
            result = if result.is_none() { over } else { merge(&result, &over) };
        }
        Ok(result)
    }
}

/// `get('a:b', default, merge=False)` in the first of the data that has it.
fn lookup(data: &[&Value], args: &[Value]) -> Result<Value, Error> {
    let (key, default, named): (String, Option<Value>, Kwargs) = from_args(args)?;
    let default = named.get::<Option<Value>>("default")?.or(default);
    let deep = named.get::<Option<bool>>("merge")?.unwrap_or(false);
    let delimiter = named.get::<Option<String>>("delimiter")?.unwrap_or_else(|| ":".into());
    named.assert_all_used()?;
    let key = if delimiter == ":" { key } else { key.replace(&delimiter, ":") };
    let found = data.iter().find_map(|value| walk(value, &key));
    Ok(match (found, default) {
        (Some(found), Some(default)) if deep => merge(&default, &found),
        (Some(found), _) => found,
        (None, Some(default)) => default,
        // What Salt answers.
        (None, None) => Value::from(""),
    })
}

fn keys(map: &Value) -> Value {
    Value::from(map.try_iter().into_iter().flatten().collect::<Vec<Value>>())
}

/// `merge(under, over, merge_lists=False)`. With `in_place` a map that the template made changes as well, as in Salt.
fn merged(args: &[Value], in_place: bool) -> Result<Value, Error> {
    let (under, over, named): (Value, Value, Kwargs) = from_args(args)?;
    let lists = named.get::<Option<bool>>("merge_lists")?.unwrap_or(false);
    let strategy = named.get::<Option<String>>("strategy")?;
    if let Some(other) = strategy.filter(|name| !matches!(name.as_str(), "smart" | "recurse")) {
        let message =
            format!("the strategy `{other}` is not known; `smart` and `recurse` merge maps all the way down");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    let in_place = named.get::<Option<bool>>("in_place")?.unwrap_or(in_place);
    named.assert_all_used()?;
    let result = merge_with(&under, &over, lists);
    if let Some(map) = under.downcast_object_ref::<super::mutable::Map>().filter(|_| in_place) {
        map.update(std::slice::from_ref(&result))?;
    }
    Ok(result)
}

/// `facts` and `settings`: a map whose `get` walks colons.
#[derive(Debug)]
pub struct Data {
    world: Arc<World>,
    facts: bool,
}

impl Data {
    pub fn facts(world: &Arc<World>) -> Value {
        Value::from_object(Data { world: world.clone(), facts: true })
    }

    pub fn settings(world: &Arc<World>) -> Value {
        Value::from_object(Data { world: world.clone(), facts: false })
    }

    fn value(&self) -> &Value {
        if self.facts { &self.world.facts } else { &self.world.settings }
    }
}

impl Object for Data {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.value().get_item(key).ok().filter(|value| !value.is_undefined())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match self.value().try_iter() {
            Ok(keys) => Enumerator::Values(keys.collect()),
            Err(_) => Enumerator::Empty,
        }
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            "get" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                let found = key.as_str().and_then(|key| walk(self.value(), key));
                Ok(found.or(default).unwrap_or_else(|| Value::from(())))
            }
            "filter_by" if self.facts => self.world.filter_by(args),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

/// `salt`: `salt['mod.fn']` is a function, `salt.mod` a module.
#[derive(Debug)]
pub struct Salt(pub Arc<World>);

/// `salt.mod`.
#[derive(Debug)]
struct Module {
    world: Arc<World>,
    name: String,
}

/// `salt['mod.fn']`.
#[derive(Debug)]
struct Function {
    world: Arc<World>,
    name: String,
}

impl Object for Salt {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let (world, name) = (self.0.clone(), key.as_str()?.to_string());
        Some(match name.contains('.') {
            true => Value::from_object(Function { world, name }),
            false => Value::from_object(Module { world, name }),
        })
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        match method {
            // `salt.get('mod.fn')`
            "get" => {
                let (name,): (Value,) = from_args(args)?;
                Ok(self.get_value(&name).unwrap_or_else(|| Value::from(())))
            }
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

impl Object for Module {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let name = format!("{}.{}", self.name, key.as_str()?);
        Some(Value::from_object(Function { world: self.world.clone(), name }))
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        self.world.call(&format!("{}.{method}", self.name), args)
    }
}

impl Object for Function {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, _: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.world.call(&self.name, args)
    }
}
