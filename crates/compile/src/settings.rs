//! Settings (S-48): the same files, references, includes and templates as states, merged into one map.

use crate::Inputs;
use crate::load::{Loaded, Loader};
use crate::secrets;
use crate::template::with_renderer;
use crate::top::{self, Purpose};
use serde_json::Value as Json;
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::merge::{Clash, Merge};
use zester_model::node::Node;
use zester_model::source::{FileId, Sources, Span};

/// Which files the settings are made of.
#[derive(Clone, Debug)]
pub enum SettingsFiles {
    /// What `top.zy` gives this machine.
    Assigned,
    /// These files below the directory, in this order.
    These(Vec<String>),
}

/// What is to be read.
#[derive(Clone, Debug)]
pub struct SettingsAsk {
    pub files: SettingsFiles,
    /// Files that lie over all of those, in this order.
    pub over: Vec<String>,
    pub merge: Merge,
}

/// Settings of several files as one map, each value with the place that it comes from.
#[derive(Clone, Debug)]
pub struct Settings {
    pub root: Node,
    pub sources: Sources,
    /// What is seldom meant, for `lint`.
    pub advice: Vec<Diagnostic>,
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

/// Reads settings. A file lies over those that it includes, a later one over an earlier one. Whole or not at all: one problem
/// in one file, and there are none (D-6).
pub fn settings(inputs: &Inputs<'_>, ask: &SettingsAsk) -> Result<Settings, (Sources, Vec<Diagnostic>)> {
    with_renderer(inputs.surroundings(), |renderer| {
        let mut loader = Loader::new(inputs, renderer).with_secrets();
        match &ask.files {
            SettingsFiles::Assigned => {
                let references = top::references(inputs, &mut loader, Purpose::Settings);
                loader.load(references);
            }
            SettingsFiles::These(paths) => loader.load_files(paths),
        }
        loader.load_files(&ask.over);
        let mut loaded = loader.finish();
        secrets::refuse_by_facts(&mut loaded);
        let Loaded { files, sources, mut diagnostics, .. } = loaded;
        let mut root = Node::map(Span::start_of(FileId(0)), Vec::new());
        let mut advice = Vec::new();
        for file in files.iter().map(|file| &file.root).filter(|root| !root.is_null()) {
            let Some(entries) = file.as_map() else {
                let message = format!("settings must be a map of names to values, not {}", file.describe());
                diagnostics.push(Diagnostic::new(Kind::Settings, message).at(file.span));
                continue;
            };
            let named = |(key, _): &&(Node, Node)| key.as_text().is_some();
            for (key, _) in entries.iter().filter(|entry| !named(entry)) {
                let message = format!("a setting needs a name, not {}", key.describe());
                diagnostics.push(Diagnostic::new(Kind::Settings, message).at(key.span));
            }
            let meant = entries.iter().filter(named).filter(|(key, _)| key.as_text() != Some("include"));
            let over = Node::map(file.span, meant.cloned().collect());
            advice.extend(ask.merge.lay(&mut root, &over).into_iter().map(clash));
        }
        match diagnostics.is_empty() {
            true => Ok(Settings { root, sources, advice }),
            false => Err((sources, diagnostics.finish())),
        }
    })
}

fn clash(Clash { name, was, now, words }: Clash) -> Diagnostic {
    let told = format!("the setting `{name}`: {words}");
    Diagnostic::new(Kind::Lint, told).at(now).label(was, "what was there before")
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
