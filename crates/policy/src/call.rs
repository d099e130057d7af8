//! One function with its words, as much of it as policies speak of. Where a word can be read in two ways, the more dangerous one counts.

use crate::other_names::other_names;
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use zester_wire::{DispatchRequest, ExecRequest};

/// Modules whose functions run a command that the caller hands over.
const COMMAND_MODULES: [&str; 2] = ["cmd", "exec"];
/// Kinds that keep a command for later, or call any function by name.
const COMMAND_KINDS: [&str; 4] = ["cron.present", "cron.file", "module.run", "module.wait"];
/// Functions that render a template of the caller's choice, which may run commands.
const RENDERING: [&str; 1] = ["cp.get_template"];
/// The word that gives parameters to each of several states.
const NAMES: &str = "names";
/// Words of a state that is called by itself: they hold commands, or a template that may run some.
const COMMAND_WORDS: [&str; 6] = ["onlyif", "unless", "check_cmd", "template", "context", "defaults"];
/// Settings that a caller gives along: the templates of published states may put them into a command.
const OVERRIDES: [&str; 3] = ["settings", "pillar", "setting"];
/// `cmd.*` that only looks.
const LOOKING: [&str; 2] = ["cmd.has_exec", "cmd.which"];
/// Functions that call another one, which their words name.
const CARRIERS: [&str; 3] = ["state.single", "module.run", "module.wait"];

/// What is asked for.
#[derive(Copy, Clone, Debug)]
pub struct Call<'a> {
    pub function: &'a str,
    /// The bare word.
    pub state_id: &'a str,
    pub positionals: &'a [Value],
    pub args: &'a Map<String, Value>,
    pub test: bool,
}

impl<'a> From<&'a ExecRequest> for Call<'a> {
    fn from(request: &'a ExecRequest) -> Call<'a> {
        let ExecRequest { function, state_id, positionals, args, test, .. } = request;
        Call { function, state_id, positionals, args, test: *test }
    }
}

impl<'a> From<&'a DispatchRequest> for Call<'a> {
    fn from(request: &'a DispatchRequest) -> Call<'a> {
        let DispatchRequest { function, state_id, positionals, args, test, .. } = request;
        Call { function, state_id, positionals, args, test: *test }
    }
}

impl Call<'_> {
    fn bare_words(&self) -> impl Iterator<Item = &str> {
        let first = Some(self.state_id).filter(|word| !word.is_empty());
        first.into_iter().chain(self.positionals.iter().filter_map(Value::as_str))
    }

    /// Every function that this may come to: its own name, and those that its words name where it calls another.
    pub fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::from([self.function.to_string()]);
        if !CARRIERS.contains(&self.function) {
            return names;
        }
        let keys = self.args.keys().map(String::as_str);
        let mut texts = Vec::new();
        self.args.values().chain(self.positionals).for_each(|value| texts_in(value, &mut texts));
        let words = self.bare_words().chain(keys).chain(texts);
        names.extend(words.filter(|word| is_function(word)).map(str::to_string));
        names
    }

    /// The same, and whatever else those are called: nothing that is denied can be had by another name.
    pub fn all_names(&self) -> BTreeSet<String> {
        let mut names = self.names();
        let others: Vec<String> = names.iter().flat_map(|name| other_names(name)).collect();
        names.extend(others);
        // Without words it is the highstate.
        if names.contains("state.apply") && self.bare_words().next().is_none() {
            names.insert("state.highstate".into());
        }
        names
    }

    /// The environment that it names; none where it leaves that to the machine.
    pub fn environment(&self) -> Option<&str> {
        ["saltenv", "env"].iter().find_map(|word| self.args.get(*word)).and_then(Value::as_str)
    }

    /// Whether it only tells something, and no command runs for it: what a machine answers under any policy.
    pub fn is_harmless(&self) -> bool {
        let module = self.function.split_once('.').map_or("", |(module, _)| module);
        match self.function {
            "test.ping" | "beacons.list" | "schedule.list" | "schedule.show" => true,
            "service.status" | "service.available" | "service.get_all" => self.args.is_empty(),
            _ => matches!(module, "facts" | "grains" | "settings" | "pillar" | "sys"),
        }
    }

    /// Whether it changes nothing: a dry run of states that were published, or a look at them. A dry run of a state that is called by
    /// itself may run the caller's commands.
    pub fn only_looks(&self) -> bool {
        let shows = self.function == "state.graph" || self.function.starts_with("state.show_");
        let applies =
            matches!(self.function, "state.apply" | "state.sls" | "state.sls_id" | "state.highstate");
        let dry = self.test && !self.args.contains_key("test");
        self.is_harmless() || LOOKING.contains(&self.function) || shows || (applies && dry)
    }

    /// The word by which the caller hands over a command, if there is one.
    pub fn hands_over_command(&self) -> Option<String> {
        for name in self.all_names() {
            let module = name.split_once('.').map_or("", |(module, _)| module);
            let runs = COMMAND_MODULES.contains(&module) && !LOOKING.contains(&name.as_str());
            if runs || COMMAND_KINDS.contains(&name.as_str()) {
                return Some(name);
            }
        }
        let overrides = OVERRIDES.iter().filter(|_| self.is_of_tree());
        let given =
            overrides.copied().find(|word| self.args.contains_key(*word)).map(|word| format!("{word}="));
        given.or_else(|| self.runs_in_dry_run())
    }

    fn is_of_tree(&self) -> bool {
        self.function.starts_with("state.") && self.function != "state.single"
    }

    /// The word by which something of the caller's runs even where nothing is changed: guards run to tell what would be done, and
    /// templates to tell what would be written.
    pub fn runs_in_dry_run(&self) -> Option<String> {
        if self.is_of_tree() {
            return None;
        }
        if let Some(name) = self.names().into_iter().find(|name| RENDERING.contains(&name.as_str())) {
            return Some(name);
        }
        let given = COMMAND_WORDS.iter().find(|word| self.args.contains_key(**word));
        let given = given.map(|word| format!("{word}="));
        given
            .or_else(|| self.args.get(NAMES).and_then(word_in_names).map(|word| format!("{NAMES}= ({word})")))
    }
}

/// What hands over a command among the parameters of single names. Letters are read by the machine, so a word counts that stands in
/// them anywhere; so does a backslash, by which one could be written in another way.
fn word_in_names(names: &Value) -> Option<&'static str> {
    if let Value::String(letters) = names {
        let found = COMMAND_WORDS.iter().copied().find(|word| letters.contains(word));
        return found.or_else(|| letters.contains('\\').then_some("\\"));
    }
    let mut texts = Vec::new();
    texts_in(names, &mut texts);
    COMMAND_WORDS.iter().copied().find(|word| texts.contains(word))
}

fn texts_in<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Value::Object(map) => {
            texts.extend(map.keys().map(String::as_str));
            map.values().for_each(|item| texts_in(item, texts));
        }
        _ => {}
    }
}

/// `mod.fn`, and nothing else.
fn is_function(word: &str) -> bool {
    let is_name = |name: &str| {
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    word.split_once('.').is_some_and(|(module, function)| is_name(module) && is_name(function))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    /// `function`, its bare words, its named ones.
    fn asked<T>(function: &str, bare: &[&str], named: Value, look: impl Fn(&Call<'_>) -> T) -> T {
        let positionals: Vec<Value> = bare.iter().map(|word| json!(word)).collect();
        let args = named.as_object().cloned().unwrap_or_default();
        look(&Call { function, state_id: "", positionals: &positionals, args: &args, test: false })
    }

    #[test]
    #[rule("I-14")]
    fn i14_what_carries_another_function_goes_by_both_names() {
        let names = |function, bare: &[&str], named| asked(function, bare, named, |call| call.names());
        let both = |a: &str, b: &str| BTreeSet::from([a.to_string(), b.to_string()]);
        assert_eq!(
            names("state.single", &["cmd.run", "rm -rf /"], json!({})),
            both("state.single", "cmd.run")
        );
        assert_eq!(names("module.run", &[], json!({"name": "cmd.run"})), both("module.run", "cmd.run"));
        assert_eq!(names("module.run", &[], json!({"cmd.run": ["id"]})), both("module.run", "cmd.run"));
        assert_eq!(
            names("module.run", &[], json!({"names": [{"cmd.run": {"cmd": "id"}}]})),
            both("module.run", "cmd.run")
        );
        assert_eq!(
            names("pkg.installed", &["a.b"], json!({})),
            BTreeSet::from(["pkg.installed".to_string()])
        );
    }

    #[test]
    #[rule("I-8")]
    fn i8_a_command_of_the_caller_is_found_however_it_is_handed_over() {
        let handed = |function, bare: &[&str], named| {
            asked(function, bare, named, |call| call.hands_over_command().is_some())
        };
        for (function, bare, named) in [
            ("cmd.run", &["id"][..], json!({})),
            ("exec.run", &["id"], json!({})),
            ("cmd.script", &["/x"], json!({})),
            ("state.single", &["cmd.run", "id"], json!({})),
            ("module.run", &[], json!({"cmd.run": ["id"]})),
            ("cron.present", &["id"], json!({})),
            ("pkg.installed", &["vim"], json!({"onlyif": "id"})),
            ("state.single", &["pkg.installed", "vim"], json!({"unless": "id"})),
            ("file.managed", &["/x"], json!({"content": "{{ 1 }}", "template": "jinja"})),
            ("state.apply", &["web"], json!({"pillar": {"command": "id"}})),
            ("state.highstate", &[], json!({"setting": "a:b=c"})),
            ("pkg.installed", &[], json!({"names": [{"vim": {"onlyif": "id"}}]})),
            ("pkg.installed", &[], json!({"names": [{"vim": [{"unless": ["id"]}]}]})),
            ("pkg.installed", &[], json!({"names": "[vim: {onlyif: id}]"})),
            ("pkg.installed", &[], json!({"names": "[vim: {\"\\x6fnlyif\": id}]"})),
            ("state.single", &["file.managed"], json!({"names": [{"/x": {"template": "jinja"}}]})),
            ("cp.get_template", &["/tmp/x", "/y"], json!({})),
            ("state.single", &["cp.get_template"], json!({})),
        ] {
            assert!(handed(function, bare, named.clone()), "{function} {bare:?} {named}");
        }
        for (function, bare, named) in [
            ("state.apply", &["web"][..], json!({"saltenv": "prod"})),
            ("pkg.installed", &["vim"], json!({})),
            ("test.ping", &[], json!({})),
            ("cmd.which", &["sh"], json!({})),
            ("pkg.installed", &[], json!({"names": ["vim", {"git": {"version": "1"}}]})),
            ("pkg.installed", &[], json!({"names": "[vim, libc6:amd64]"})),
            ("cp.get_file", &["salt://x", "/y"], json!({})),
        ] {
            assert!(!handed(function, bare, named.clone()), "{function} {bare:?} {named}");
        }
    }

    #[test]
    #[rule("I-8")]
    fn i8_only_what_tells_is_harmless_and_only_dry_runs_of_published_states_look() {
        let harmless = |function| asked(function, &[], json!({}), |call| call.is_harmless());
        for function in ["test.ping", "facts.items", "grains.get", "sys.list_functions", "schedule.list"] {
            assert!(harmless(function), "{function}");
        }
        for function in
            ["schedule.run", "cmd.run", "state.apply", "test.sleep", "", "facts", "service.running"]
        {
            assert!(!harmless(function), "{function}");
        }
        let looks =
            |function, named, test| asked(function, &[], named, |call| Call { test, ..*call }.only_looks());
        assert!(looks("state.apply", json!({}), true) && looks("state.show_sls", json!({}), false));
        assert!(!looks("state.apply", json!({}), false) && !looks("pkg.installed", json!({}), true));
        // Whoever asks for a dry run and denies it gets neither here.
        assert!(!looks("state.apply", json!({"test": false}), true));
    }
}
