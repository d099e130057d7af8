//! What a template may do with a secret: hand it on, as a whole (D-15).
//!
//! It sees a placeholder, of which nothing may be computed: neither of one alone nor of a list or a map that holds one, and with
//! none as an argument. The source pass guards what stands in the template; here are the guard, and what guards itself: filters that
//! compare items or use another filter or a test by its name, and tests that compare two values.

use minijinja::value::{Kwargs, Rest, Value, ValueKind, ValueOrKwargs};
use minijinja::{Environment, Error, ErrorKind, State, filters, tests};
use serde_json::Value as Json;
use std::borrow::Cow;
use zester_model::limits::YAML_DEPTH_MAX;

/// Filters that leave a text whole, so that it may be a secret.
pub(super) const LEAVES_WHOLE: &[&str] = &[
    "d",
    "default",
    "format",
    "join",
    "json",
    "safe",
    "string",
    "strip",
    "tojson",
    "trim",
    "yaml",
    "yaml_dquote",
    "yaml_encode",
    "yaml_squote",
    "is_list",
    "is_iter",
];
/// Filters that hand on what a list or a map holds without looking at it, or that look at it here. Of a text they would take a part.
const HANDS_ON: &[&str] = &[
    "append_dict_key_value",
    "attr",
    "batch",
    "bool",
    "chain",
    "combine",
    "count",
    "dict_to_sls_yaml_params",
    "dictsort",
    "exactly_n_true",
    "exactly_one_true",
    "extend_dict_key_value",
    "first",
    "flatten",
    "from_entries",
    "groupby",
    "is_empty",
    "items",
    "json_decode_dict",
    "json_decode_list",
    "json_encode_dict",
    "json_encode_list",
    "last",
    "length",
    "list",
    "map",
    "max",
    "method_call",
    "min",
    "pprint",
    "python",
    "reject",
    "rejectattr",
    "reverse",
    "select",
    "selectattr",
    "sequence",
    "set_dict_key_value",
    "skip",
    "slice",
    "sort",
    "sum",
    "to_bool",
    "to_entries",
    "traverse",
    "update_dict_key_value",
    "zip",
];
/// Tests that ask what sort of value it is, and not what it says.
pub(super) const ASKS_SORT: &[&str] = &[
    "boolean",
    "callable",
    "defined",
    "false",
    "float",
    "integer",
    "iterable",
    "list",
    "mapping",
    "none",
    "number",
    "safe",
    "sequence",
    "string",
    "true",
    "undefined",
];

/// How far something looks into a value that it computes with.
#[derive(Copy, Clone, Debug, PartialEq)]
pub(super) enum Reach {
    /// Only at a text.
    Itself,
    /// At the items of a list too, or at the keys of a map.
    Items,
    /// At all of a list, or at the keys of a map.
    Keys,
    /// At everything.
    All,
}

impl Reach {
    const EACH: [Reach; 4] = [Reach::Itself, Reach::Items, Reach::Keys, Reach::All];

    /// How the guard in a template names it.
    pub fn word(self) -> &'static str {
        match self {
            Reach::Itself => "itself",
            Reach::Items => "items",
            Reach::Keys => "keys",
            Reach::All => "all",
        }
    }

    /// How far a filter looks, if at all.
    pub fn of_filter(name: &str) -> Option<Reach> {
        match name {
            _ if LEAVES_WHOLE.contains(&name) => None,
            _ if HANDS_ON.contains(&name) => Some(Reach::Itself),
            _ => Some(Reach::All),
        }
    }

    /// How far a comparison looks into what is compared with a value that stands in the template.
    pub fn against(constant: Option<&Value>) -> Reach {
        match constant {
            Some(value) if !has_parts(value) => Reach::Itself,
            _ => Reach::All,
        }
    }

    /// The same for what is looked for in a list that stands there.
    pub fn into_constant(list: Option<&Value>) -> Reach {
        let flat = |list: &Value| !list.try_iter().into_iter().flatten().any(|item| has_parts(&item));
        if list.is_some_and(flat) { Reach::Itself } else { Reach::All }
    }

    fn finds(self, value: &Value) -> bool {
        let keys = |value: &Value| value.try_iter().into_iter().flatten().any(|key| is_sealed(&key));
        match (self, value.kind()) {
            (Reach::All, _) | (Reach::Keys, ValueKind::Seq | ValueKind::Iterable) => holds(value, 0),
            (Reach::Keys, ValueKind::Map)
            | (Reach::Items, ValueKind::Map | ValueKind::Seq | ValueKind::Iterable) => keys(value),
            _ => is_sealed(value),
        }
    }
}

/// Whether what it is equal to must be looked into.
fn has_parts(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Map | ValueKind::Seq | ValueKind::Iterable)
        && value.try_iter().is_ok_and(|mut items| items.next().is_some())
}

fn is_sealed(value: &Value) -> bool {
    value.as_str().is_some_and(zester_model::secret::holds_placeholder)
}

/// Whether a secret is anywhere in it. Values of templates are not nested deeper than that.
fn holds(value: &Value, depth: usize) -> bool {
    if is_sealed(value) {
        return true;
    }
    let below = |item: &Value| depth <= YAML_DEPTH_MAX && holds(item, depth + 1);
    match value.kind() {
        ValueKind::Map => value
            .try_iter()
            .into_iter()
            .flatten()
            .any(|key| is_sealed(&key) || value.get_item(&key).is_ok_and(|item| below(&item))),
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().into_iter().flatten().any(|item| below(&item))
        }
        _ => false,
    }
}

fn refused(what: &str) -> Error {
    let message =
        format!("{what} of a secret: a template can only insert it as a whole, without a filter or a test");
    Error::new(ErrorKind::InvalidOperation, message)
}

/// A text that holds no secret.
pub(super) fn no_secret(what: &str, text: &str) -> Result<(), Error> {
    match zester_model::secret::holds_placeholder(text) {
        true => Err(refused(what)),
        false => Ok(()),
    }
}

/// The same, of a filter and what it works on.
pub(super) fn plain(filter: &str, text: String) -> Result<String, Error> {
    no_secret(&format!("`{filter}`"), &text).map(|()| text)
}

/// Nothing with a secret in it.
pub(super) fn open(what: &str, value: &Value) -> Result<(), Error> {
    within(what, value, Reach::All)
}

fn within(what: &str, value: &Value, reach: Reach) -> Result<(), Error> {
    if reach.finds(value) { Err(refused(what)) } else { Ok(()) }
}

/// Two values that are compared: nobody looks into a list to see that it is no number.
pub(super) fn compared(what: &str, left: &Value, right: &Value) -> Result<(), Error> {
    for (value, other) in [(left, right), (right, left)] {
        within(what, value, if has_parts(other) { Reach::All } else { Reach::Itself })?;
    }
    Ok(())
}

/// A value that is looked for in another one.
pub(super) fn sought(what: &str, value: &Value, others: &Value) -> Result<(), Error> {
    match others.kind() {
        ValueKind::Seq | ValueKind::Iterable => {
            others.try_iter().into_iter().flatten().try_for_each(|item| compared(what, value, &item))
        }
        // In a map only the keys count.
        _ => within(what, value, Reach::Itself).and_then(|()| within(what, others, Reach::Items)),
    }
}

/// Whether any text in it stands for a secret.
pub(super) fn holds_secret(value: &Json) -> bool {
    let mut rest = vec![value];
    while let Some(value) = rest.pop() {
        match value {
            Json::String(text) if zester_model::secret::holds_placeholder(text) => return true,
            Json::Array(items) => rest.extend(items),
            Json::Object(map) => rest.extend(map.values()),
            _ => {}
        }
    }
    false
}

/// Puts all of it into the environment, over what is there of the same names.
pub fn install(env: &mut Environment<'static>) {
    env.add_filter("_open", |value: Value, what: &str, reach: &str| {
        let reach = Reach::EACH.into_iter().find(|known| known.word() == reach).unwrap_or(Reach::All);
        within(what, &value, reach).map(|()| value)
    });
    by_name(env);
    by_order(env);
    comparing_tests(env);
}

/// The name of a filter among arguments.
fn name_at(args: &[ValueOrKwargs], at: usize) -> Option<&str> {
    args.get(at).and_then(|arg| arg.as_str())
}

/// What an item is looked at by.
fn attribute_of(item: Value, attribute: &str) -> Value {
    // One without it is told by the filter itself.
    attribute.split('.').try_fold(item, |item, part| item.get_attr(part)).unwrap_or_default()
}

/// Refuses a filter or a test by its name where it computes with an item, or with an attribute of one, and that is a secret.
fn refuse_named(
    filter: &str,
    items: &Value,
    attribute: Option<&str>,
    name: Option<&str>,
    reach: impl Fn(&str) -> Option<Reach>,
) -> Result<(), Error> {
    let Some((name, reach)) = name.and_then(|name| Some((name, reach(name)?))) else { return Ok(()) };
    let what = format!("`{filter}` with `{name}`");
    for item in items.try_iter().into_iter().flatten() {
        let item = match attribute {
            Some(attribute) => attribute_of(item, attribute),
            None => item,
        };
        within(&what, &item, reach)?;
    }
    Ok(())
}

/// How far a test looks into what it is asked of. Those that compare say themselves what they do beyond that.
fn of_test(name: &str) -> Option<Reach> {
    (!ASKS_SORT.contains(&name)).then_some(Reach::Itself)
}

/// What the engine says of a filter or a test that it does not know, with its name: it is one of the arguments here.
fn naming<T>(name: Option<&str>, done: Result<T, Error>) -> Result<T, Error> {
    done.map_err(|error| match (error.kind(), error.detail(), name) {
        (ErrorKind::UnknownFilter, None, Some(name)) => {
            Error::new(ErrorKind::UnknownFilter, format!("filter {name} is unknown"))
        }
        (ErrorKind::UnknownTest, None, Some(name)) => {
            Error::new(ErrorKind::UnknownTest, format!("test {name} is unknown"))
        }
        _ => error,
    })
}

/// Filters of the engine that use a filter or a test by its name: nothing of it stands in the template for the source pass to see.
fn by_name(env: &mut Environment<'static>) {
    env.add_filter("map", |state: &mut State, items: Value, args: Rest<ValueOrKwargs>| {
        refuse_named("map", &items, None, name_at(&args, 0), Reach::of_filter)?;
        let name = name_at(&args, 0).map(String::from);
        naming(name.as_deref(), filters::map(state, items, args))
    });
    type Named<'a> = Option<Cow<'a, str>>;
    env.add_filter("select", |state: &mut State, items: Value, test: Named, args: Rest<ValueOrKwargs>| {
        refuse_named("select", &items, None, test.as_deref(), of_test)?;
        naming(test.clone().as_deref(), filters::select(state, items, test, args))
    });
    env.add_filter("reject", |state: &mut State, items: Value, test: Named, args: Rest<ValueOrKwargs>| {
        refuse_named("reject", &items, None, test.as_deref(), of_test)?;
        naming(test.clone().as_deref(), filters::reject(state, items, test, args))
    });
    env.add_filter(
        "selectattr",
        |state: &mut State, items: Value, attr: Cow<str>, test: Named, args: Rest<ValueOrKwargs>| {
            refuse_named("selectattr", &items, Some(&attr), test.as_deref(), of_test)?;
            naming(test.clone().as_deref(), filters::selectattr(state, items, attr, test, args))
        },
    );
    env.add_filter(
        "rejectattr",
        |state: &mut State, items: Value, attr: Cow<str>, test: Named, args: Rest<ValueOrKwargs>| {
            refuse_named("rejectattr", &items, Some(&attr), test.as_deref(), of_test)?;
            naming(test.clone().as_deref(), filters::rejectattr(state, items, attr, test, args))
        },
    );
}

/// What a filter compares items by: them, or attributes of theirs.
fn refuse_keys(filter: &str, items: &Value, attributes: Option<&str>) -> Result<(), Error> {
    let what = format!("`{filter}`");
    let Some(attributes) = attributes else { return open(&what, items) };
    for item in items.try_iter().into_iter().flatten() {
        for attribute in attributes.split(',') {
            open(&what, &attribute_of(item.clone(), attribute.trim()))?;
        }
    }
    Ok(())
}

fn attribute_in(named: &Kwargs) -> Result<Option<String>, Error> {
    // Peeked at: the filter itself says what it does not know.
    if named.has("attribute") { named.get("attribute") } else { Ok(None) }
}

/// Filters that compare or add up items: by an attribute they look at nothing else.
fn by_order(env: &mut Environment<'static>) {
    env.add_filter("sort", |state: &State, items: Value, named: Kwargs| {
        refuse_keys("sort", &items, attribute_in(&named)?.as_deref())?;
        filters::sort(state, items, named)
    });
    env.add_filter("min", |state: &State, items: Value, named: Kwargs| {
        refuse_keys("min", &items, attribute_in(&named)?.as_deref())?;
        filters::min(state, items, named)
    });
    env.add_filter("max", |state: &State, items: Value, named: Kwargs| {
        refuse_keys("max", &items, attribute_in(&named)?.as_deref())?;
        filters::max(state, items, named)
    });
    type Named<'a> = Option<Cow<'a, str>>;
    env.add_filter("sum", |state: &State, items: Value, by: Named, start: Option<Value>, named: Kwargs| {
        let attribute = by.as_deref().map(str::to_string).or(attribute_in(&named)?);
        refuse_keys("sum", &items, attribute.as_deref())?;
        filters::sum(state, items, by.as_deref(), start, named)
    });
    env.add_filter("groupby", |items: Value, by: Named, named: Kwargs| {
        let attribute = by.as_deref().map(str::to_string).or(attribute_in(&named)?);
        refuse_keys("groupby", &items, attribute.as_deref())?;
        filters::groupby(items, by.as_deref(), named)
    });
    env.add_filter("dictsort", |map: &Value, named: Kwargs| {
        if named.get::<Option<&str>>("by")? == Some("value") {
            open("`dictsort`", map)?;
        }
        filters::dictsort(map, named)
    });
}

type Compares = fn(&Value, &Value) -> bool;

/// Tests that compare two values. Their names come from a list as often as from the template.
fn comparing_tests(env: &mut Environment<'static>) {
    let all: [(&[&str], Compares); 7] = [
        (&["eq", "equalto", "=="], tests::is_eq),
        (&["ne", "!="], tests::is_ne),
        (&["lt", "lessthan", "<"], tests::is_lt),
        (&["le", "<="], tests::is_le),
        (&["gt", "greaterthan", ">"], tests::is_gt),
        (&["ge", ">="], tests::is_ge),
        (&["sameas"], tests::is_sameas),
    ];
    for (names, compare) in all {
        for name in names {
            let what = format!("the test `{name}`");
            env.add_test(*name, move |left: &Value, right: &Value| {
                compared(&what, left, right).map(|()| compare(left, right))
            });
        }
    }
    env.add_test("in", |state: &State, value: &Value, others: &Value| {
        sought("the test `in`", value, others)?;
        tests::is_in(state, value, others)
    });
    env.add_test("startingwith", |text: Cow<str>, start: Cow<str>| {
        no_secret("the test `startingwith`", &start).map(|()| tests::is_startingwith(text, start))
    });
    env.add_test("endingwith", |text: Cow<str>, end: Cow<str>| {
        no_secret("the test `endingwith`", &end).map(|()| tests::is_endingwith(text, end))
    });
}
