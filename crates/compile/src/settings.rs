//! Settings (S-48): the same files, references, includes and templates as states, merged into one map.

use crate::Inputs;
use crate::load::{Loaded, Loader};
use crate::template::with_renderer;
use crate::top::{self, Purpose};
use serde_json::{Map, Value as Json};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::source::Sources;

/// Which files the settings are made of.
#[derive(Clone, Debug)]
pub enum SettingsFiles {
    /// What `top.zy` gives this machine.
    Assigned,
    /// These files below the directory, in this order.
    These(Vec<String>),
}

/// Lays `over` onto `base`: maps merge, everything else is replaced.
pub fn merge(base: &mut Json, over: Json) {
    match (base, over) {
        (Json::Object(base), Json::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Json::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Reads settings. A file lies over those that it includes, a later one over an earlier one.
pub fn settings(inputs: &Inputs<'_>, files: &SettingsFiles) -> Result<Json, (Sources, Vec<Diagnostic>)> {
    with_renderer(inputs.surroundings(), |renderer| {
        let mut loader = Loader::new(inputs, renderer);
        match files {
            SettingsFiles::Assigned => {
                let references = top::references(inputs, &mut loader, Purpose::Settings);
                loader.load(references);
            }
            SettingsFiles::These(paths) => loader.load_files(paths),
        }
        let Loaded { files, sources, mut diagnostics, .. } = loader.finish();
        let mut merged = Json::Object(Map::new());
        for root in files.iter().map(|file| &file.root).filter(|root| !root.is_null()) {
            let Some(entries) = root.as_map() else {
                let message = format!("settings must be a map of names to values, not {}", root.describe());
                diagnostics.push(Diagnostic::new(Kind::Settings, message).at(root.span));
                continue;
            };
            for (key, value) in entries.iter().filter(|(key, _)| key.as_text() != Some("include")) {
                let Some(name) = key.as_text().map(str::to_string) else {
                    let message = format!("a setting needs a name, not {}", key.describe());
                    diagnostics.push(Diagnostic::new(Kind::Settings, message).at(key.span));
                    continue;
                };
                merge(&mut merged, Json::Object(Map::from_iter([(name, value.to_json())])));
            }
        }
        match diagnostics.is_empty() {
            true => Ok(merged),
            false => Err((sources, diagnostics.finish())),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn maps_merge_and_everything_else_is_replaced() {
        let mut base = json!({"a": {"x": 1, "y": [1]}, "b": 1});
        merge(&mut base, json!({"a": {"y": [2]}, "b": {"z": 1}}));
        assert_eq!(base, json!({"a": {"x": 1, "y": [2]}, "b": {"z": 1}}));
    }
}
