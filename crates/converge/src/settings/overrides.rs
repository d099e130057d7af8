//! Settings for one run: `--setting a:b=c`, and Salt's `pillar='{a: {b: c}}'`. They lie over everything else.

use crate::raw_arguments::{RawArguments, RawValue, given_value};
use serde_json::Value as Json;

/// Names of arguments of `state.*` that hold a map of settings: ours, and Salt's.
const MAPS: [&str; 2] = ["settings", "pillar"];
/// The argument that carries each `--setting` to a peel, with its letters (C-15).
const LINES: &str = "setting";
/// Levels of one key; settings files have far fewer.
const DEPTH_MAX: usize = 64;

/// One value that was given for this run.
#[derive(Clone, Debug, PartialEq)]
pub struct Override {
    pub path: Vec<String>,
    pub value: Json,
    /// As it was given: `--setting a:b=c`.
    pub given: String,
}

impl Override {
    /// Reads `a:b=c`. The value is a YAML scalar or flow collection; what is neither is a text (C-12).
    pub fn parse(text: &str) -> Result<Override, String> {
        let Some((key, value)) = text.split_once('=') else {
            return Err(format!("`{text}` has no value; write KEY=VALUE, as in nginx:workers=4"));
        };
        let path: Vec<String> = key.split(':').map(str::to_string).collect();
        if path.iter().any(String::is_empty) {
            return Err(format!("`{key}` is no key; write names with `:` between, as in nginx:workers"));
        }
        if path.len() > DEPTH_MAX {
            return Err(format!("`{key}` goes deeper than {DEPTH_MAX} levels"));
        }
        let value = given_value(&RawValue::Letters(value.to_string()));
        Ok(Override { path, value, given: format!("--setting {text}") })
    }

    /// Takes those of a call of `state.*` out of its words. Words of anything else stay: they may be its parameters.
    pub fn take(function: &str, words: &mut RawArguments) -> Result<Vec<Override>, String> {
        let mut found = Vec::new();
        if !function.starts_with("state.") {
            return Ok(found);
        }
        for name in MAPS {
            for given in words.take(name) {
                found.extend(Override::of_map(name, &given)?);
            }
        }
        for given in words.take(LINES) {
            // Several travel as a list, and a list is how `zester job list` shows them.
            let lines = match given_value(&given) {
                Json::Array(lines) => lines,
                _ => vec![Json::String(given.shown())],
            };
            for line in lines {
                let line =
                    line.as_str().ok_or_else(|| format!("{LINES}={line} is no text; write KEY=VALUE"))?;
                found.push(Override::parse(line)?);
            }
        }
        Ok(found)
    }

    fn of_map(name: &str, given: &RawValue) -> Result<Vec<Override>, String> {
        let shown = given.shown();
        match given_value(given) {
            Json::Object(map) => Ok(map
                .into_iter()
                .map(|(key, value)| Override { path: vec![key], value, given: format!("{name}={shown}") })
                .collect()),
            _ => Err(format!("{name}={shown} is no map; write {name}='{{a: {{b: c}}}}', or --setting a:b=c")),
        }
    }

    /// Adds `--setting`s to the words of a call, as they travel to a peel.
    pub fn add_to(lines: &[String], function: &str, words: &mut RawArguments) -> Result<(), String> {
        if lines.is_empty() {
            return Ok(());
        }
        if !function.starts_with("state.") {
            return Err(format!(
                "--setting is for states, such as state.apply; {function} has no use for it"
            ));
        }
        for line in lines {
            Override::parse(line).map_err(|why| format!("--setting: {why}"))?;
        }
        let lines = lines.iter().map(|line| Json::String(line.clone())).collect();
        words.named.push((LINES.to_string(), RawValue::Value(Json::Array(lines))));
        Ok(())
    }

    /// As a map with this one value in it.
    pub(super) fn nested(&self) -> Json {
        let inside = |value, name: &String| Json::Object([(name.clone(), value)].into_iter().collect());
        self.path.iter().rev().fold(self.value.clone(), inside)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    fn words(line: &[&str]) -> RawArguments {
        RawArguments::parse(&line.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    #[test]
    #[rule("C-12")]
    fn c12_a_setting_is_a_key_and_a_yaml_value() {
        for (text, wanted) in [
            ("a=1", json!({"a": 1})),
            ("a:b=c", json!({"a": {"b": "c"}})),
            ("a:b:c=yes", json!({"a": {"b": {"c": true}}})),
            ("a='yes'", json!({"a": "yes"})),
            ("a=x=y", json!({"a": "x=y"})),
            ("a=", json!({"a": ""})),
            ("a=[1, b]", json!({"a": [1, "b"]})),
            ("a=it is # text", json!({"a": "it is # text"})),
            ("url=http://x:1/", json!({"url": "http://x:1/"})),
        ] {
            assert_eq!(Override::parse(text).map(|one| one.nested()), Ok(wanted), "{text}");
        }
        for wrong in ["a", "", "=x", "a::b=x", ":a=x", "a:=x"] {
            let told = Override::parse(wrong).unwrap_err();
            assert!(told.contains("as in nginx:workers"), "{told}");
        }
    }

    #[test]
    #[rule("C-12")]
    fn c12_settings_of_a_run_are_no_references_and_survive_the_bus() {
        let mut sent = words(&["web", "pillar={a: {b: c}}"]);
        Override::add_to(&["x:y=1.10".into(), "z='007'".into()], "state.apply", &mut sent).unwrap();
        let named = sent.named.iter().map(|(key, value)| (key.clone(), value.to_wire())).collect();
        let mut came = RawArguments::of_values(Some("web"), &[], &named);
        let found = Override::take("state.apply", &mut came).unwrap();
        let nested: Vec<Json> = found.iter().map(Override::nested).collect();
        assert_eq!(nested, [json!({"a": {"b": "c"}}), json!({"x": {"y": 1.10}}), json!({"z": "007"})]);
        let given: Vec<&str> = found.iter().map(|one| one.given.as_str()).collect();
        assert_eq!(given, ["pillar={a: {b: c}}", "--setting x:y=1.10", "--setting z='007'"]);
        assert_eq!(came, words(&["web"]));
    }

    #[test]
    #[rule("C-12")]
    fn c12_what_is_no_map_is_told_and_what_is_no_state_keeps_its_words() {
        let told = Override::take("state.apply", &mut words(&["pillar=web"])).unwrap_err();
        assert!(told.starts_with("pillar=web is no map; write pillar='{a: {b: c}}'"), "{told}");
        let mut other = words(&["x", "settings=1"]);
        assert_eq!(Override::take("file.managed", &mut other), Ok(Vec::new()));
        assert_eq!(other, words(&["x", "settings=1"]));
        let told = Override::add_to(&["a=1".into()], "cmd.run", &mut other).unwrap_err();
        assert!(told.contains("cmd.run has no use for it"), "{told}");
        let told = Override::add_to(&["a".into()], "state.apply", &mut other).unwrap_err();
        assert!(told.starts_with("--setting: `a` has no value"), "{told}");
    }
}
