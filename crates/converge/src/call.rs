//! One function as a run of its own: `zester call file.managed /etc/motd content=hello`.
//!
//! The words are read once, here, for the command line, the fleet's command line and the peel alike: what is asked
//! ([`Asked`]), or a sentence that says which word is wrong. No word is ever ignored, and none turns a check into an apply.

use crate::error::Error;
use crate::functions::acting::{self, ACTING};
use crate::functions::{self, Access, Arguments, CallContext, FUNCTIONS, Function};
use crate::inputs::{CompileRequest, Inputs};
use crate::local_host::LocalHost;
use crate::plan::Plan;
use crate::raw_arguments::{
    ParameterShape, RawArguments, RawValue, given_value, lettered_value, quoted, truth,
};
use crate::secrets::{self, by_name};
use crate::tree_functions::{self, FilesAsked};
use serde_json::Value as Json;
use std::fmt::Write;
use tokio_util::sync::CancellationToken;
use zester_compile::{Ask, Tree};
use zester_model::catalog::Kind;
use zester_model::keywords::{ATTRIBUTES, Takes};
use zester_model::secret::without_placeholders;
use zester_model::suggest::did_you_mean;
use zester_resources::shell_words;

pub use crate::tree_functions::OF_TREES;

/// What the one file is called in messages.
const SHOWN: &str = "command line";
/// The kind whose words may be anything: they are what it sends.
const EVENT_SEND: &str = "event.send";
/// The kind that calls functions.
const CALLS: &str = "module.run";
/// Letters of a call that are remembered.
const TYPED_MAX: usize = 80;

/// What `MOD.FN` and its words ask for.
#[derive(Debug)]
pub enum Asked {
    /// `state.apply`, and without references the highstate.
    Apply {
        files: FilesAsked,
        test: bool,
    },
    Revert {
        files: FilesAsked,
        run: Option<String>,
        force: bool,
    },
    Graph(FilesAsked),
    /// The states that files declare, after their templates.
    ShowStates(FilesAsked),
    /// What the top file gives this machine, in one environment or in each.
    ShowTop {
        environment: Option<String>,
    },
    /// One state.
    State {
        kind: &'static Kind,
        words: RawArguments,
        test: bool,
    },
    Function {
        function: &'static Function,
        arguments: Arguments,
    },
    /// Nobody here knows such a function.
    Unknown,
}

impl Asked {
    /// Reads the words. `test` tells whether a dry run was asked for beside them.
    pub fn read(function: &str, mut words: RawArguments, test: bool) -> Result<Asked, String> {
        let test = dry_run(test, words.take("test"))?;
        if let Some(name) = words.twice() {
            return Err(format!("{function}: `{name}` is given twice"));
        }
        if function == tree_functions::SINGLE {
            return tree_functions::single(words, test);
        }
        let (function, words) = acting::translated(function, words)?;
        let function = function.as_str();
        let words = with_bare_word(function, words);
        let words = if function == EVENT_SEND { event_words(words)? } else { words };
        if OF_TREES.iter().any(|tree| tree.name == function) {
            return tree_functions::read(function, words, test);
        }
        if let Some(kind) = zester_resources::catalog().get(function) {
            check_words(kind, &words)?;
            return Ok(Asked::State { kind, words, test });
        }
        let Some(function) = functions::find(function) else { return Ok(Asked::Unknown) };
        if test && function.access == Access::Command && !function.acts() {
            return Err(format!("{} has no dry run; nothing was run", function.name));
        }
        let arguments = arguments(function, &words);
        function.check_typed(&arguments).map_err(|why| format!("{}: {why}", function.name))?;
        let asked = Asked::Function { function, arguments };
        if test { Ok(asked.as_run(true)) } else { Ok(asked) }
    }

    /// A function that acts, as a state of a run; anything else stays as it is.
    pub fn as_run(self, test: bool) -> Asked {
        match self {
            Asked::Function { function, arguments } if function.acts() => {
                let kind = zester_resources::catalog().get(CALLS);
                match kind {
                    Some(kind) => Asked::State { kind, words: called(function, &arguments), test },
                    None => Asked::Function { function, arguments },
                }
            }
            other => other,
        }
    }
}

/// The words of a state that calls a function: `name` of the function itself is `m_name` there.
fn called(function: &Function, arguments: &Arguments) -> RawArguments {
    let ordered = function.takes.iter().filter(|takes| !takes.by_name).map(|takes| takes.name.to_string());
    let placed = ordered.zip(arguments.positional.iter().cloned());
    let given: Vec<(String, Json)> = placed.chain(arguments.named.clone()).collect();
    let word = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_string);
    let shown: Vec<String> = given.iter().map(|(_, value)| word(value)).collect();
    let id = std::iter::once(function.name.to_string()).chain(shown).collect::<Vec<_>>().join(" ");
    let mut named = vec![("name".to_string(), RawValue::Letters(function.name.to_string()))];
    named.extend(given.into_iter().map(|(name, value)| {
        let name = if name == "name" { "m_name".to_string() } else { name };
        (name, if value.is_string() { RawValue::Letters(word(&value)) } else { RawValue::Value(value) })
    }));
    RawArguments { positional: vec![RawValue::Letters(id)], named }
}

/// Whether it is a dry run: `--test` and `test=True` are the same (C-5), and nothing takes either back (S-45).
pub fn dry_run(flag: bool, words: Vec<RawValue>) -> Result<bool, String> {
    let mut test = flag;
    let mut denied = false;
    for word in words {
        match truth(&word) {
            Some(true) => test = true,
            Some(false) => denied = true,
            None => {
                let word = word.shown();
                return Err(format!("test={word} is neither true nor false; write test=true, or --test"));
            }
        }
    }
    match (test, denied) {
        (true, true) => Err("a dry run is asked for and denied (test=false); nothing was run".to_string()),
        (test, _) => Ok(test),
    }
}

/// `cmd.run 'LANG=C date'`, `test.echo a=b`: where the bare word is missing, the one `k=v` whose name is no parameter, and
/// looks like none, is that word.
pub fn with_bare_word(function: &str, mut words: RawArguments) -> RawArguments {
    let kind = zester_resources::catalog().get(function);
    let mut names: Vec<&str> = ATTRIBUTES.iter().map(|attribute| attribute.word).collect();
    names.extend(["test", "names"]);
    let missing = match (kind, functions::find(function)) {
        (Some(kind), _) => {
            let own = kind.parameters.iter();
            names.extend(own.flat_map(|one| std::iter::once(one.name).chain(one.aliases.iter().copied())));
            // Only a command may look like `k=v`; a path or a package that does is more likely a mistake.
            kind.primary == "command" && check_words(kind, &words).is_err()
        }
        (None, Some(function)) => {
            names.extend(function.takes.iter().map(|takes| takes.name));
            let first = function.takes.iter().find(|takes| takes.required && !takes.by_name);
            first.is_some_and(|first| first.text && words.named.iter().all(|(key, _)| key != first.name))
        }
        (None, None) => false,
    };
    let is_strange = |key: &str| !names.contains(&key) && did_you_mean(key, names.iter().copied()).is_none();
    let mut strange = words.named.iter().enumerate().filter(|(_, (key, _))| is_strange(key));
    if let (true, true, Some((place, _)), None) =
        (missing, words.positional.is_empty(), strange.next(), strange.next())
    {
        let (key, value) = words.named.remove(place);
        words.positional.push(RawValue::Letters(format!("{key}={}", value.shown())));
    }
    words
}

/// `event.send TAG version=7 …` and `event.send TAG '{version: 7}'`: what is no word of every state is data.
fn event_words(mut words: RawArguments) -> Result<RawArguments, String> {
    let mut data = match words.take("data").as_slice() {
        [] if words.positional.len() == 2 => words.positional.pop().map(|word| given_value(&word)),
        [] => None,
        [one] => Some(given_value(one)),
        _ => return Err(format!("{EVENT_SEND}: `data` is given twice")),
    };
    let is_of_states = |key: &str| {
        ATTRIBUTES.iter().any(|attribute| attribute.word == key) || ["tag", "name", "names"].contains(&key)
    };
    let (own, more): (Vec<_>, Vec<_>) = words.named.into_iter().partition(|(key, _)| is_of_states(key));
    words.named = own;
    if !more.is_empty() {
        let data = data.get_or_insert_with(|| Json::Object(Default::default()));
        let Json::Object(fields) = data else {
            return Err(format!("{EVENT_SEND}: `data` is a map, or `key=value` words"));
        };
        for (key, word) in more {
            if fields.insert(key.clone(), lettered_value(&word)).is_some() {
                return Err(format!("{EVENT_SEND}: `{key}` is given twice"));
            }
        }
    }
    words.named.extend(data.map(|data| ("data".to_string(), RawValue::Value(data))));
    Ok(words)
}

/// One bare word at most, and none missing.
fn check_words(kind: &Kind, words: &RawArguments) -> Result<(), String> {
    let Kind { name, primary, .. } = kind;
    if let Some(extra) = words.positional.get(1) {
        let extra = extra.shown();
        return Err(format!("{name} takes one bare word, its {primary}; `{extra}` is a second one"));
    }
    let says_what = |key: &str| {
        let is_primary = kind.parameter(key).is_some_and(|parameter| parameter.name == *primary);
        is_primary || key == "names" || kind.instead_of_primary.contains(&key)
    };
    let given = words.positional.first().is_some_and(|word| !word.shown().is_empty());
    if !kind.primary_required || given || words.named.iter().any(|(key, _)| says_what(key)) {
        return Ok(());
    }
    // `A=b; echo $A` may have been meant as the command.
    let taken = words.named.iter().find(|(key, _)| kind.parameter(key).is_none());
    let understood = match taken {
        Some((key, value)) => {
            let word = format!("{key}={}", value.shown());
            format!(
                "; `{word}` was read as the parameter `{key}`, and if it is the {primary}, write {primary}='{word}'"
            )
        }
        None => format!("; give it as a bare word, or as {primary}=…"),
    };
    Err(format!("{name}: its {primary} is missing{understood}"))
}

/// The words as a function takes them: a text keeps its letters, anything else is read (C-15).
fn arguments(function: &Function, words: &RawArguments) -> Arguments {
    let read = |word: &RawValue, text: bool| match word {
        RawValue::Letters(letters) if text => letters.as_str().into(),
        word => given_value(word),
    };
    let ordered = function.takes.iter().filter(|takes| !takes.by_name).map(|takes| takes.text);
    let ordered = ordered.chain(std::iter::repeat(true));
    let is_text = |key: &str| function.takes.iter().any(|takes| takes.name == key && takes.text);
    Arguments {
        positional: words.positional.iter().zip(ordered).map(|(word, text)| read(word, text)).collect(),
        named: words.named.iter().map(|(key, word)| (key.clone(), read(word, is_text(key)))).collect(),
    }
}

/// A plan of one state, written down as a small state file so that every rule and every message is the same.
pub fn plan(
    kind: &Kind,
    words: &RawArguments,
    request: &CompileRequest,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<Plan, Error> {
    let inputs = surroundings(request, local_host, cancel)?;
    let words = &by_name::look_up_words(words, &inputs.settings)?;
    let text = source(kind, words)?;
    let tree = OneFile { text };
    let mut compiled = inputs.with(local_host, cancel, |lent| {
        let lent = zester_compile::Inputs { tree: &tree, tree_name: "", ..*lent };
        zester_compile::compile(&lent, &Ask::References(vec![format!("{SHOWN}.zy")]))
    });
    compiled.sources.rename(&format!("{SHOWN}.zy"), SHOWN);
    let secrets = inputs.secrets.clone();
    let plan = Plan::from_compiled(inputs, compiled, typed(kind, words));
    let mut plan = plan.map_err(|error| secrets::hidden(error, &secrets))?;
    plan.call = true;
    Ok(plan)
}

/// The call as it was typed, on one line and not too long.
fn typed(kind: &Kind, words: &RawArguments) -> String {
    let quoted = |value: &RawValue| shell_words::quoted(&value.shown());
    let named = words.named.iter().map(|(key, value)| format!("{key}={}", quoted(value)));
    let all = words.positional.iter().map(quoted).chain(named);
    let text = match words.positional.as_slice() {
        // Its id is the call of the function, as it was typed.
        [RawValue::Letters(id)] if kind.name == CALLS => id.clone(),
        _ => std::iter::once(kind.name.to_string()).chain(all).collect::<Vec<_>>().join(" "),
    };
    let text = without_placeholders(&text);
    let line = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut shown: String = line.take(TYPED_MAX).collect();
    if text.chars().nth(TYPED_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// What a function answers, called on this host.
pub fn answer(
    function: &Function,
    arguments: &Arguments,
    request: &CompileRequest,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<Json, Error> {
    let inputs = surroundings(request, local_host, cancel)?;
    let Inputs { facts, settings, origins, secrets, .. } = &inputs;
    let mut arguments = arguments.clone();
    for value in arguments.positional.iter_mut().chain(arguments.named.values_mut()) {
        by_name::look_up(value, settings)?;
    }
    let local_host = &local_host.with_secrets(secrets, true);
    let here = CallContext::here(local_host, facts, settings, cancel);
    let place = CallContext { cut_output: true, origins, ..here };
    let mut answer = function
        .answer_beside_files(&place, &arguments, (&inputs, local_host))
        .map_err(|why| secrets::hidden(Error::other(format!("{}: {why}", function.name)), secrets))?;
    secrets.hide_in_json(&mut answer);
    Ok(answer)
}

/// The settings of this machine for somebody who keeps them: a secret of the schedule is the name of its setting, any other is
/// `<secret>`.
pub fn settings(
    request: &CompileRequest,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<Json, Error> {
    let Inputs { mut settings, secrets, .. } = surroundings(request, local_host, cancel)?;
    by_name::name_all(&mut settings);
    if let Json::Object(all) = &mut settings {
        let others = all.iter_mut().filter(|(key, _)| *key != by_name::KEPT);
        others.for_each(|(_, value)| secrets.hide_in_json(value));
    }
    Ok(settings)
}

/// Facts, settings and the states dir, which need not exist for one function.
fn surroundings(
    request: &CompileRequest,
    local_host: &LocalHost,
    cancel: &CancellationToken,
) -> Result<Inputs, Error> {
    let here = CompileRequest { references: Vec::new(), ..request.clone() };
    match &here.states {
        Some(_) => Inputs::gather(&here, local_host, cancel),
        None => Inputs::gather_anywhere(&here, local_host, cancel),
    }
}

fn source(kind: &Kind, words: &RawArguments) -> Result<String, Error> {
    let fail = |_| Error::other("the call could not be written down");
    let id = words.positional.first().map_or_else(|| kind.name.to_string(), RawValue::shown);
    // The user's words are never a template, whatever stands in them: the first line leaves Jinja out (S-47).
    let mut text = format!("#!yaml\n{}:\n  {}:\n", quoted(&id), kind.name);
    for (key, value) in &words.named {
        writeln!(text, "    - {}: {}", quoted(key), value.written(wanted(kind, key))).map_err(fail)?;
    }
    if words.named.is_empty() {
        text.push_str("    []\n");
    }
    Ok(text)
}

/// What a key takes. What is no parameter is an attribute of every state.
fn wanted(kind: &Kind, key: &str) -> ParameterShape {
    if let Some(parameter) = kind.parameter(key) {
        return ParameterShape { text: parameter.text, collects: parameter.collects };
    }
    let attribute = ATTRIBUTES.iter().find(|attribute| attribute.word == key);
    match attribute.map(|attribute| attribute.takes) {
        // `[ -f /etc/x ]` is a command and no list.
        Some(Takes::Commands | Takes::Guards) => ParameterShape { text: true, collects: false },
        Some(Takes::Names) => ParameterShape { text: true, collects: true },
        _ => ParameterShape { text: false, collects: true },
    }
}

struct OneFile {
    text: String,
}

impl Tree for OneFile {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        Ok((path == format!("{SHOWN}.zy")).then(|| self.text.clone()))
    }
}

/// The sentence for a function that does not exist.
pub fn unknown(name: &str) -> String {
    let known = zester_resources::catalog().names().chain(FUNCTIONS.iter().map(|function| function.name));
    let known = known.chain(ACTING.iter().map(|acting| acting.name));
    let hint = did_you_mean(name, known.chain(OF_TREES.iter().map(|tree| tree.name)))
        .unwrap_or("`zester doc` lists what there is".into());
    format!("there is no function `{name}`; {hint}")
}

#[cfg(test)]
mod tests;
