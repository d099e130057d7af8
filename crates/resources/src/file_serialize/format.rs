//! The formats that data can be written in.

use crate::context::Checking;
use crate::ini::Ini;
use serde::Serialize;
use serde_json::{Map, Value as Json};

/// How data becomes text.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Format {
    Json,
    Yaml,
    Toml,
    Ini,
}

crate::params::from_text!(Format, "`yaml`, `json`, `toml` or `ini`", |text| match text {
    "json" => Ok(Format::Json),
    "yaml" | "yaml_safe" => Ok(Format::Yaml),
    "toml" | "tomlmod" => Ok(Format::Toml),
    "ini" | "configparser" => Ok(Format::Ini),
    other => Err(format!(
        "`{other}` is not among `yaml`, `json`, `toml` and `ini`; `file.managed` writes any text"
    )),
});

impl Format {
    pub(super) fn read(self, cx: &Checking<'_>, text: &str) -> Result<Json, String> {
        match self {
            Format::Json => serde_json::from_str(text).map_err(|error| error.to_string()),
            Format::Yaml => cx.files.parse_yaml(text).map_err(|fault| fault.message),
            Format::Toml => toml::from_str(text).map_err(|error| error.message().to_string()),
            Format::Ini => Ok(read_ini(text)),
        }
    }

    pub(super) fn write(
        self,
        cx: &Checking<'_>,
        data: &Json,
        indent: Option<usize>,
        sort: Option<bool>,
    ) -> Result<String, String> {
        match self {
            Format::Json => write_json(&sorted_if(sort.unwrap_or(true), data), indent.unwrap_or(2)),
            Format::Yaml => {
                cx.files.to_yaml(&sorted_if(sort.unwrap_or(true), data)).map_err(|fault| fault.message)
            }
            Format::Toml => toml::to_string_pretty(&sorted_if(sort.unwrap_or(false), data))
                .map_err(|error| format!("TOML cannot hold this: {error}")),
            Format::Ini => write_ini(data),
        }
    }
}

fn write_json(data: &Json, indent: usize) -> Result<String, String> {
    if indent == 0 {
        return Ok(data.to_string());
    }
    let spaces = " ".repeat(indent);
    let mut out = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(spaces.as_bytes());
    let mut serializer = serde_json::Serializer::with_formatter(&mut out, formatter);
    data.serialize(&mut serializer).map_err(|error| error.to_string())?;
    String::from_utf8(out).map_err(|error| error.to_string())
}

fn sorted_if(sort: bool, data: &Json) -> Json {
    match data {
        _ if !sort => data.clone(),
        Json::Object(map) => {
            let mut entries: Vec<(&String, &Json)> = map.iter().collect();
            entries.sort_by_key(|(key, _)| *key);
            Json::Object(
                entries.into_iter().map(|(key, value)| (key.clone(), sorted_if(true, value))).collect(),
            )
        }
        Json::Array(items) => items.iter().map(|item| sorted_if(true, item)).collect(),
        other => other.clone(),
    }
}

/// Maps are laid over maps, everything else replaces what is there.
pub(super) fn merged(under: Json, over: Json) -> Json {
    match (under, over) {
        (Json::Object(mut under), Json::Object(over)) => {
            for (key, value) in over {
                let present = under.remove(&key);
                let value = present.map_or(value.clone(), |present| merged(present, value));
                under.insert(key, value);
            }
            Json::Object(under)
        }
        (_, over) => over,
    }
}

fn read_ini(text: &str) -> Json {
    let ini = Ini::new(text, "=");
    let values = |section: Option<&str>| -> Map<String, Json> {
        let keys = ini.keys(section).into_iter();
        keys.filter_map(|key| ini.value(section, &key).map(|value| (key, value.into()))).collect()
    };
    let mut data = values(None);
    for section in ini.sections() {
        let inside = values(Some(&section));
        data.insert(section, inside.into());
    }
    Json::Object(data)
}

fn write_ini(data: &Json) -> Result<String, String> {
    let Json::Object(map) = data else {
        return Err("an INI file holds a map of sections".to_string());
    };
    let mut ini = Ini::new("", "=");
    for (name, value) in map.iter().filter(|(_, value)| !value.is_object()) {
        ini.set(None, name, &ini_value(name, value)?);
    }
    for (name, value) in map {
        let Json::Object(section) = value else { continue };
        ini.add_section(name);
        for (key, value) in section {
            ini.set(Some(name), key, &ini_value(key, value)?);
        }
    }
    Ok(ini.text())
}

fn ini_value(key: &str, value: &Json) -> Result<String, String> {
    let text = match value {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        Json::Array(items) => {
            let items: Result<Vec<String>, String> = items.iter().map(|item| ini_value(key, item)).collect();
            items?.join(", ")
        }
        Json::Object(_) => return Err(format!("a section cannot hold the map `{key}`")),
        other => other.to_string(),
    };
    match text.contains('\n') {
        true => Err(format!("the value of `{key}` has several lines")),
        false => Ok(text),
    }
}
