//! Lists and maps that change in place, as Python's do: `{% do xs.append(1) %}`.
//!
//! The engine's own are immutable. Every list or map that a template builds or `set`s is turned into one of these by
//! the source pass. They never hold themselves, and how deep they can nest is bounded, so that nothing that walks
//! them can run out of stack.

use super::budget::{Budget, ITEM_BYTES};
use super::sealed;
use indexmap::IndexMap;
use minijinja::value::{Enumerator, Kwargs, Object, ObjectRepr, Rest, Value, ValueKind, from_args};
use minijinja::{Error, ErrorKind, State};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use zester_model::limits;

/// Levels that may come to hang below values which already hang somewhere. With the stack of the render thread in
/// mind: `environment::STACK_BYTES` leaves each level more than two KiB.
const GROWTH_MAX: usize = 100_000;

/// What both kinds share: the budget, and what is known of their nesting.
#[derive(Debug)]
struct Shape {
    budget: Arc<Budget>,
    growth: Arc<AtomicUsize>,
    /// Levels below, as far as they were known when they were put there.
    height: AtomicUsize,
    /// Stands inside another one.
    held: AtomicBool,
}

#[derive(Debug)]
pub struct List {
    shape: Shape,
    items: Mutex<Vec<Value>>,
}

#[derive(Debug)]
pub struct Map {
    shape: Shape,
    entries: Mutex<IndexMap<Value, Value>>,
}

/// Makes mutable values; one per renderer.
#[derive(Clone, Debug)]
pub struct Maker {
    pub budget: Arc<Budget>,
    growth: Arc<AtomicUsize>,
}

impl Maker {
    pub fn new(budget: Arc<Budget>) -> Maker {
        Maker { budget, growth: Arc::new(AtomicUsize::new(0)) }
    }

    pub fn reset(&self) {
        self.growth.store(0, Ordering::Relaxed);
    }

    fn shape(&self) -> Shape {
        Shape {
            budget: self.budget.clone(),
            growth: self.growth.clone(),
            height: AtomicUsize::new(0),
            held: AtomicBool::new(false),
        }
    }

    /// The mutable twin of a list or map, all the way down; anything else, and what is mutable already, as it is.
    pub fn mutable(&self, value: Value) -> Result<Value, Error> {
        self.budget.tick()?;
        self.convert(value, 0)
    }

    fn convert(&self, value: Value, depth: usize) -> Result<Value, Error> {
        let Some(object) = value.as_object() else { return Ok(value) };
        if object.downcast_ref::<List>().is_some() || object.downcast_ref::<Map>().is_some() {
            return Ok(value);
        }
        if depth > limits::YAML_DEPTH_MAX {
            return Err(self.budget.pass("a value is nested too deep".into()));
        }
        let plain_map = object.downcast_ref::<IndexMap<Value, Value>>().is_some();
        match value.kind() {
            ValueKind::Seq | ValueKind::Iterable if !value.is_tuple() => {
                self.budget.items(value.len().unwrap_or(0))?;
                let list = List { shape: self.shape(), items: Mutex::new(Vec::new()) };
                for item in value.try_iter()?.checked() {
                    let item = self.convert(item?, depth + 1)?;
                    list.shape.adopt(None, &item)?;
                    let mut items = open(&list.items);
                    items.push(item);
                    self.budget.items(items.len())?;
                }
                self.budget.made(open(&list.items).len() * ITEM_BYTES)?;
                Ok(Value::from_object(list))
            }
            ValueKind::Map if plain_map => {
                let map = Map { shape: self.shape(), entries: Mutex::new(IndexMap::new()) };
                for key in value.try_iter()?.checked() {
                    let key = key?;
                    let item = self.convert(value.get_item(&key)?, depth + 1)?;
                    map.shape.adopt(None, &item)?;
                    open(&map.entries).insert(key, item);
                }
                Ok(Value::from_object(map))
            }
            _ => Ok(value),
        }
    }

    /// A tuple whose nesting is bounded like everything else's.
    pub fn tuple(&self, value: Value) -> Result<Value, Error> {
        self.budget.tick()?;
        if height(&value, 0) > limits::YAML_DEPTH_MAX {
            return Err(self.budget.pass("a value is nested too deep".into()));
        }
        Ok(value)
    }
}

/// Levels of a value, as far as it pays to look.
fn height(value: &Value, depth: usize) -> usize {
    let Some(object) = value.as_object() else { return 0 };
    if let Some(list) = object.downcast_ref::<List>() {
        return list.shape.height.load(Ordering::Relaxed) + 1;
    }
    if let Some(map) = object.downcast_ref::<Map>() {
        return map.shape.height.load(Ordering::Relaxed) + 1;
    }
    if depth > limits::YAML_DEPTH_MAX || !value.is_tuple() {
        return 1;
    }
    let below = value.try_iter().map(|items| items.map(|item| height(&item, depth + 1)).max());
    below.ok().flatten().unwrap_or(0) + 1
}

impl Shape {
    /// Called for every value that is put into this one (`me` is its address, for one that others can see already).
    fn adopt(&self, me: Option<*const ()>, child: &Value) -> Result<(), Error> {
        let below = height(child, 0);
        if below == 0 {
            return Ok(());
        }
        if let Some(me) = me
            && holds(child, me, &mut 0, &self.budget)?
        {
            return Err(Error::new(ErrorKind::InvalidOperation, "a list or map cannot hold itself"));
        }
        for shape in child.as_object().into_iter().filter_map(|object| {
            let list = object.downcast_ref::<List>().map(|list| &list.shape);
            list.or_else(|| object.downcast_ref::<Map>().map(|map| &map.shape))
        }) {
            shape.held.store(true, Ordering::Relaxed);
        }
        if self.height.fetch_max(below, Ordering::Relaxed).max(below) > limits::YAML_DEPTH_MAX {
            return Err(self.budget.pass("a value is nested too deep".into()));
        }
        if self.held.load(Ordering::Relaxed)
            && self.growth.fetch_add(below, Ordering::Relaxed) + below > GROWTH_MAX
        {
            return Err(self.budget.pass("a value is nested too deep".into()));
        }
        Ok(())
    }
}

/// Whether `value` is or holds the object at `me`.
fn holds(value: &Value, me: *const (), seen: &mut usize, budget: &Budget) -> Result<bool, Error> {
    let Some(object) = value.as_object() else { return Ok(false) };
    *seen += 1;
    if *seen > super::budget::ITEMS_MAX {
        return Err(budget.pass("a value holds too many others".into()));
    }
    let children: Vec<Value> = if let Some(list) = object.downcast_ref::<List>() {
        if std::ptr::from_ref(list).cast() == me {
            return Ok(true);
        }
        open(&list.items).iter().filter(|item| item.as_object().is_some()).cloned().collect()
    } else if let Some(map) = object.downcast_ref::<Map>() {
        if std::ptr::from_ref(map).cast() == me {
            return Ok(true);
        }
        open(&map.entries).values().filter(|item| item.as_object().is_some()).cloned().collect()
    } else if value.is_tuple() {
        value.try_iter()?.collect()
    } else {
        Vec::new()
    };
    for child in &children {
        if holds(child, me, seen, budget)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A poisoned lock still guards good data: nothing here panics half way.
fn open<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn index_of(index: i64, len: usize) -> Option<usize> {
    let index = if index < 0 { index + len as i64 } else { index };
    usize::try_from(index).ok().filter(|index| *index < len)
}

fn failed(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

impl List {
    fn maker(&self) -> Maker {
        Maker { budget: self.shape.budget.clone(), growth: self.shape.growth.clone() }
    }

    fn take_in(&self, value: Value) -> Result<Value, Error> {
        let value = self.maker().mutable(value)?;
        self.shape.adopt(Some(std::ptr::from_ref(self).cast()), &value)?;
        Ok(value)
    }

    fn extend(&self, values: &Value) -> Result<(), Error> {
        let new: Vec<Value> = values.try_iter()?.checked().collect::<Result<_, _>>()?;
        for value in new {
            let value = self.take_in(value)?;
            let mut items = open(&self.items);
            items.push(value);
            self.shape.budget.items(items.len())?;
        }
        Ok(())
    }

    /// The methods that take nothing in.
    fn rearrange(&self, method: &str, args: &[Value]) -> Result<Value, Error> {
        match method {
            "clear" => {
                open(&self.items).clear();
                Ok(Value::from(()))
            }
            "reverse" => {
                open(&self.items).reverse();
                Ok(Value::from(()))
            }
            "sort" => {
                let (options,): (Kwargs,) = from_args(args)?;
                let reverse = options.get::<Option<bool>>("reverse")?.unwrap_or(false);
                options.assert_all_used()?;
                let mut sorted = open(&self.items).clone();
                sorted.iter().try_for_each(|item| sealed::open("`sort`", item))?;
                sorted.sort();
                if reverse {
                    sorted.reverse();
                }
                *open(&self.items) = sorted;
                Ok(Value::from(()))
            }
            "index" => {
                let (value,): (Value,) = from_args(args)?;
                let items = open(&self.items).clone();
                items.iter().try_for_each(|item| sealed::compared("`index`", &value, item))?;
                let at = items.iter().position(|item| *item == value);
                at.map(Value::from).ok_or_else(|| failed("index: the list does not hold that value"))
            }
            "copy" => Ok(Value::from_object(List {
                shape: self.maker().shape(),
                items: Mutex::new(open(&self.items).clone()),
            })),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}

impl Object for List {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Seq
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        let items = open(&self.items);
        items.get(index_of(key.as_i64()?, items.len())?).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let len = open(&self.items).len();
        if self.shape.budget.visit(len) { Enumerator::Seq(len) } else { Enumerator::Empty }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(open(&self.items).len())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        self.shape.budget.tick()?;
        match method {
            "append" => {
                let (value,): (Value,) = from_args(args)?;
                let value = self.take_in(value)?;
                let mut items = open(&self.items);
                items.push(value);
                self.shape.budget.items(items.len())?;
                Ok(Value::from(()))
            }
            "extend" => {
                let (values,): (Value,) = from_args(args)?;
                self.extend(&values)?;
                Ok(Value::from(()))
            }
            "insert" => {
                let (index, value): (i64, Value) = from_args(args)?;
                let value = self.take_in(value)?;
                let mut items = open(&self.items);
                let len = items.len() as i64;
                let at = if index < 0 { (index + len).max(0) } else { index.min(len) };
                items.insert(at as usize, value);
                self.shape.budget.items(items.len())?;
                Ok(Value::from(()))
            }
            "pop" => {
                let (index,): (Option<i64>,) = from_args(args)?;
                let mut items = open(&self.items);
                let at = index_of(index.unwrap_or(-1), items.len());
                at.map(|at| items.remove(at)).ok_or_else(|| failed("pop: there is no such item"))
            }
            "remove" => {
                let (value,): (Value,) = from_args(args)?;
                let items = open(&self.items).clone();
                items.iter().try_for_each(|item| sealed::compared("`remove`", &value, item))?;
                let found = items.into_iter().enumerate().find(|(_, item)| *item == value);
                let (at, _) = found.ok_or_else(|| failed("remove: the list does not hold that value"))?;
                open(&self.items).remove(at);
                Ok(Value::from(()))
            }
            _ => self.rearrange(method, args),
        }
    }
}

impl Map {
    fn maker(&self) -> Maker {
        Maker { budget: self.shape.budget.clone(), growth: self.shape.growth.clone() }
    }

    fn put(&self, key: Value, value: Value) -> Result<Value, Error> {
        let value = self.maker().mutable(value)?;
        self.shape.adopt(Some(std::ptr::from_ref(self).cast()), &value)?;
        let mut entries = open(&self.entries);
        entries.insert(key, value.clone());
        self.shape.budget.items(entries.len())?;
        Ok(value)
    }

    pub fn update(&self, args: &[Value]) -> Result<(), Error> {
        let (maps, options): (Rest<Value>, Kwargs) = from_args(args)?;
        for map in maps.iter() {
            let keys: Vec<Value> = map.try_iter()?.checked().collect::<Result<_, _>>()?;
            for key in keys {
                if map.kind() == ValueKind::Map {
                    self.put(key.clone(), map.get_item(&key)?)?;
                } else {
                    // A list of pairs.
                    self.put(key.get_item_by_index(0)?, key.get_item_by_index(1)?)?;
                }
            }
        }
        for name in options.args() {
            self.put(Value::from(name), options.get::<Value>(name)?)?;
        }
        options.assert_all_used()
    }
}

impl Object for Map {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        open(&self.entries).get(key).cloned()
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        let keys: Vec<Value> = open(&self.entries).keys().cloned().collect();
        if self.shape.budget.visit(keys.len()) { Enumerator::Values(keys) } else { Enumerator::Empty }
    }

    fn enumerator_len(self: &Arc<Self>) -> Option<usize> {
        Some(open(&self.entries).len())
    }

    fn call_method(
        self: &Arc<Self>,
        _: &mut State<'_, '_>,
        method: &str,
        args: &[Value],
    ) -> Result<Value, Error> {
        self.shape.budget.tick()?;
        match method {
            "update" => self.update(args).map(|()| Value::from(())),
            "setdefault" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                let found = open(&self.entries).get(&key).cloned();
                match found {
                    Some(value) => Ok(value),
                    None => self.put(key, default.unwrap_or_else(|| Value::from(()))),
                }
            }
            "pop" => {
                let (key, default): (Value, Option<Value>) = from_args(args)?;
                let found = open(&self.entries).shift_remove(&key);
                found.or(default).ok_or_else(|| failed("pop: the map has no such key"))
            }
            "clear" => {
                open(&self.entries).clear();
                Ok(Value::from(()))
            }
            "copy" => Ok(Value::from_object(Map {
                shape: self.maker().shape(),
                entries: Mutex::new(open(&self.entries).clone()),
            })),
            _ => Err(Error::from(ErrorKind::UnknownMethod)),
        }
    }
}
