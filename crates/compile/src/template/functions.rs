//! What templates can call: `salt['mod.fn'](…)`, and the data they look things up in.
//!
//! What needs only settings, facts and the tree is answered by [`super::salt_functions`]; everything else is asked of the
//! caller, who decides what may be called.

use super::environment::Shared;
use super::salt_functions::{self, OWN};
use crate::CallError;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, Serde, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use serde_json::Value as Json;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zester_model::suggest::did_you_mean;

/// Asks the caller of the compiler: function name, positional arguments, named ones.
pub type Ask =
    dyn Fn(&str, Vec<Json>, serde_json::Map<String, Json>) -> Result<Json, CallError> + Send + Sync;

/// The levels of a log that a template may write to.
pub const LOG_LEVELS: [&str; 9] =
    ["all", "critical", "debug", "error", "exception", "fatal", "info", "trace", "warning"];

/// Functions that may be asked for the id and no more (D-6): whatever else is called may answer with any fact.
const ID_ASKED_BY: [&str; 2] = ["facts.get", "grains.get"];

/// The key of `get(key)` and `get(key, default)`: with anything more it may look elsewhere.
fn only_key(args: &[Value]) -> Option<&Value> {
    match args {
        [key] | [key, _] if !args.iter().any(Value::is_kwargs) => Some(key),
        _ => None,
    }
}

/// What templates look up and call.
pub struct World {
    pub facts: Value,
    pub settings: Value,
    pub ask: Box<Ask>,
    /// Names that `ask` knows.
    pub names: Vec<String>,
    /// The files of the tree.
    pub shared: Option<Arc<Shared>>,
}

impl fmt::Debug for World {
    /// Settings hold secrets: nothing of them is ever printed this way.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("World")
    }
}

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
pub fn merge(under: &Value, over: &Value) -> Value {
    merge_with(under, over, false)
}

/// `lists`: a list goes behind the list that is there, instead of replacing it.
pub fn merge_with(under: &Value, over: &Value, lists: bool) -> Value {
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
    pub fn call(&self, state: &mut State<'_, '_>, name: &str, args: &[Value]) -> Result<Value, Error> {
        match ID_ASKED_BY.contains(&name) {
            true => self.asks(only_key(args)),
            false => self.asks(None),
        }
        match OWN.iter().find(|(own, _)| *own == name) {
            Some((_, answer)) => answer(self, state, args),
            None if name.starts_with("log.") => self.log(state, name, args),
            None => self.outside(name, args),
        }
    }

    /// Notes that a template asks the machine something; its id is what others know it by. `what`: the one fact that is asked
    /// for, where that is known.
    fn asks(&self, what: Option<&Value>) {
        if let Some(shared) = &self.shared
            && what.and_then(Value::as_str) != Some("id")
        {
            shared.asked.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a function can be called.
    pub fn knows(&self, name: &str) -> bool {
        OWN.iter().any(|(own, _)| *own == name)
            || self.names.iter().any(|known| known == name)
            || LOG_LEVELS.iter().any(|level| name.strip_prefix("log.") == Some(level))
    }

    /// Whether a module has a function.
    fn knows_module(&self, module: &str) -> bool {
        let fits = |name: &str| name.split_once('.').is_some_and(|(of, _)| of == module);
        module == "log" || OWN.iter().any(|(own, _)| fits(own)) || self.names.iter().any(|name| fits(name))
    }

    /// Every file of the tree.
    pub fn files(&self) -> Vec<String> {
        self.shared.as_ref().map(|shared| shared.files()).unwrap_or_default()
    }

    /// The text of a file of the tree.
    pub fn read(&self, path: &str) -> Result<Option<Arc<str>>, Error> {
        let wrong = |why| Error::new(ErrorKind::InvalidOperation, why);
        let Some(shared) = &self.shared else { return Ok(None) };
        shared.read(&shared.below(path).map_err(wrong)?).map_err(wrong)
    }

    /// `log.warning('…')`: told to whoever compiles, with the template that says it.
    fn log(&self, state: &State<'_, '_>, name: &str, args: &[Value]) -> Result<Value, Error> {
        let (message, values, named): (Value, Rest<Value>, Kwargs) = from_args(args)?;
        let _extra: Vec<&str> = named.args().collect();
        let values: Vec<Json> = values.iter().map(|value| Json::from(super::python::text(value))).collect();
        let level = name.trim_start_matches("log.");
        if !LOG_LEVELS.contains(&level) {
            return self.outside(name, args);
        }
        let mut words = vec![Json::from(super::python::text(&message))];
        words.extend(values);
        let template = state.name().trim_start_matches(super::environment::UNMARKED).to_string();
        let place = serde_json::Map::from_iter([("template".to_string(), Json::from(template))]);
        // Whoever has no log has no use for it.
        if self.names.iter().any(|known| known == name) {
            let _ = (self.ask)(name, words, place);
        }
        Ok(Value::from(""))
    }

    /// `get('a:b', default, merge=False)` in the first of the data that has it.
    pub fn lookup(&self, data: &[&Value], args: &[Value]) -> Result<Value, Error> {
        let (key, rest, named): (Value, Rest<Value>, Kwargs) = from_args(args)?;
        // `None` for a default is one that was given.
        let default = match named.has("default") {
            true => Some(named.get::<Value>("default")?),
            false => rest.first().cloned(),
        };
        let merging = named.get::<Option<Value>>("merge")?.or_else(|| rest.get(1).cloned());
        let merging = merging.filter(Value::is_true);
        let delimiter = named.get::<Option<String>>("delimiter")?.unwrap_or_else(|| ":".into());
        let lists = named.get::<Option<bool>>("merge_nested_lists")?.unwrap_or(true);
        for unused in
            ["saltenv", "pillarenv", "ordered", "omit_opts", "omit_grains", "omit_pillar", "omit_master"]
        {
            let _ = named.get::<Option<Value>>(unused)?;
        }
        for unused in ["wildcard", "sanitize"] {
            let _ = named.get::<Option<Value>>(unused)?;
        }
        named.assert_all_used()?;
        let key = super::python::text(&key);
        let key = if delimiter == ":" { key } else { key.replace(&delimiter, ":") };
        let whole = key.is_empty();
        let found =
            data.iter().find_map(|value| if whole { Some((*value).clone()) } else { walk(value, &key) });
        Ok(match (found, default) {
            (Some(found), Some(default)) if merging.is_some() => {
                let of_two_kinds = found.kind() != default.kind();
                if of_two_kinds {
                    found
                } else {
                    merge_with(&default, &found, lists && found.kind() == ValueKind::Seq)
                }
            }
            (Some(found), _) => found,
            (None, Some(default)) => default,
            // What Salt answers.
            (None, None) => Value::from(""),
        })
    }

    fn outside(&self, name: &str, args: &[Value]) -> Result<Value, Error> {
        if !self.names.iter().any(|known| known == name) {
            let known = self.names.iter().map(String::as_str).chain(OWN.iter().map(|(own, _)| *own));
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

    fn asks(&self, what: Option<&Value>) {
        if self.facts {
            self.world.asks(what);
        }
    }
}

impl Object for Data {
    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        self.asks(Some(key));
        self.value().get_item(key).ok().filter(|value| !value.is_undefined())
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        self.asks(None);
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
            "get" => self.asks(only_key(args)),
            _ => self.asks(None),
        }
        match method {
            "get" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                let found = key.as_str().and_then(|key| walk(self.value(), key));
                Ok(found.or(default).unwrap_or_else(|| Value::from(())))
            }
            "filter_by" if self.facts => salt_functions::filter_by(&self.world.facts, args),
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
pub struct Function {
    world: Arc<World>,
    name: String,
}

impl Object for Salt {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let own = OWN.iter().map(|(own, _)| own.to_string());
        let mut names: Vec<String> = self.0.names.iter().cloned().chain(own).collect();
        names.sort();
        names.dedup();
        Enumerator::Values(names.into_iter().map(Value::from).collect())
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let (world, name) = (self.0.clone(), key.as_str()?.to_string());
        // What does not exist is undefined, so that a template can ask first (S-55).
        match name.contains('.') {
            true => world.knows(&name).then(|| Value::from_object(Function { world: world.clone(), name })),
            false => {
                world.knows_module(&name).then(|| Value::from_object(Module { world: world.clone(), name }))
            }
        }
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
                let (name, default): (Value, Option<Value>) = from_args(args)?;
                Ok(self.get_value(&name).or(default).unwrap_or_else(|| Value::from(())))
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
        self.world.knows(&name).then(|| Value::from_object(Function { world: self.world.clone(), name }))
    }

    fn call_method(
        self: &Arc<Self>,
        state: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        self.world.call(state, &format!("{}.{method}", self.name), args)
    }
}

impl Object for Function {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn call(self: &Arc<Self>, state: &mut State<'_, '_>, args: &[Value]) -> Result<Value, Error> {
        self.world.call(state, &self.name, args)
    }
}
