//! Kinds as data: names, parameters and docs, out of the types that implement them.

use crate::bound;
use crate::params::Params;
use schemars::generate::SchemaSettings;
use serde_json::Value as Json;
use std::sync::OnceLock;
use zester_model::catalog::{Catalog, Kind, Parameter};

/// Everything the compiler and the documentation need to know about the kinds. A kind generates a schema for it when it
/// is first asked for.
pub fn catalog() -> &'static Catalog {
    static CATALOG: OnceLock<Catalog> = OnceLock::new();
    CATALOG.get_or_init(|| Catalog::new(bound::entries().iter().map(|entry| (entry.kind, entry.describe))))
}

/// The schema of a resource's parameters, without references to elsewhere.
pub(crate) fn parameters_schema<P: Params>() -> Json {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    settings.into_generator().into_root_schema_for::<P>().to_value()
}

/// The same for editors: every form in which the compiler reads these parameters.
pub(crate) fn written_schema<P: Params>() -> Json {
    let mut schema = parameters_schema::<P>();
    for (name, parameter) in schema["properties"].as_object_mut().into_iter().flatten() {
        let (list, lines) = (P::LISTS.contains(&name.as_str()), P::LINES.contains(&name.as_str()));
        *parameter = crate::schema::as_written(parameter, list, lines);
    }
    schema
}

pub(crate) fn describe<P: Params>() -> Kind {
    let schema = parameters_schema::<P>();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    let parameters = properties.map(|(name, property)| Parameter {
        name: kept(name),
        aliases: P::ALIASES.iter().find(|(own, _)| own == name).map_or(&[], |(_, aliases)| *aliases),
        required: required.contains(&name.as_str()) && name != P::PRIMARY,
        takes: takes(property, P::LISTS.contains(&name.as_str())),
        collects: collects(property) || P::LISTS.contains(&name.as_str()),
        text: text(property) || P::LISTS.contains(&name.as_str()) && text(&property["items"]),
        doc: property["description"].as_str().unwrap_or_default().to_string(),
    });
    Kind {
        name: P::KIND,
        summary: P::DOC.lines().next().unwrap_or_default().to_string(),
        doc: P::DOC.to_string(),
        primary: P::PRIMARY,
        primary_required: required.contains(&P::PRIMARY),
        instead_of_primary: P::INSTEAD_OF_PRIMARY,
        parameters: parameters.collect(),
        open: false,
    }
}

/// A name that lives as long as the program. There are a few hundred, and each is kept once.
fn kept(name: &str) -> &'static str {
    use std::collections::HashSet;
    use std::sync::{Mutex, PoisonError};
    static NAMES: Mutex<Option<HashSet<&'static str>>> = Mutex::new(None);
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_default();
    if let Some(known) = names.get(name) {
        return known;
    }
    let name: &'static str = Box::leak(name.to_string().into_boxed_str());
    names.insert(name);
    name
}

/// Whether a parameter may be a list or a map. One that takes anything may.
fn collects(property: &Json) -> bool {
    let forms = property["anyOf"].as_array().or_else(|| property["oneOf"].as_array());
    if let Some(forms) = forms {
        return forms.iter().any(collects);
    }
    let is_one = |sort: &Json| sort == "array" || sort == "object";
    match &property["type"] {
        Json::Null => property["enum"].is_null() && property["const"].is_null(),
        Json::Array(sorts) => sorts.iter().any(is_one),
        sort => is_one(sort),
    }
}

/// Whether a parameter may be a text. One that takes anything is none: it wants the value.
fn text(property: &Json) -> bool {
    let forms = property["anyOf"].as_array().or_else(|| property["oneOf"].as_array());
    if let Some(forms) = forms {
        return forms.iter().any(text);
    }
    let choices = property["enum"].as_array().into_iter().flatten();
    let sorts = property["type"].as_array().into_iter().flatten();
    choices.chain([&property["const"]]).any(Json::is_string)
        || sorts.chain([&property["type"]]).any(|sort| sort == "string")
}

/// What a parameter takes, in words.
fn takes(property: &Json, or_one: bool) -> String {
    if let Some(said) = property["x-takes"].as_str() {
        return said.to_string();
    }
    if let Some(choices) = property["enum"].as_array() {
        let words: Vec<&str> = choices.iter().filter_map(Json::as_str).collect();
        return words.join(" or ");
    }
    if let Some(forms) = property["anyOf"].as_array().or_else(|| property["oneOf"].as_array()) {
        let words = forms.iter().filter(|form| form["type"] != "null").map(|form| takes(form, false));
        let words: Vec<String> = words.filter(|word| word != "anything").collect();
        return words.join(" or ");
    }
    if let Some(one) = property["const"].as_str() {
        return one.to_string();
    }
    let sort = match &property["type"] {
        Json::String(sort) => Some(sort.as_str()),
        Json::Array(sorts) => sorts.iter().filter_map(Json::as_str).find(|sort| *sort != "null"),
        _ => None,
    };
    match sort {
        Some("string") => "text".to_string(),
        Some("boolean") => "true or false".to_string(),
        Some("integer") => "whole number".to_string(),
        Some("number") => "number".to_string(),
        Some("object") => "map".to_string(),
        Some("array") if or_one => format!("{0} or list of {0}s", takes(&property["items"], false)),
        Some("array") => format!("list of {}s", takes(&property["items"], false)),
        _ => "anything".to_string(),
    }
}
