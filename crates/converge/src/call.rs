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
        if test && function.access == Access::Command {
            return Err(format!("{} has no dry run; nothing was run", function.name));
        }
        let arguments = arguments(function, &words);
        function.check_typed(&arguments).map_err(|why| format!("{}: {why}", function.name))?;
        Ok(Asked::Function { function, arguments })
    }
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
    let words = words.positional.iter().map(quoted).chain(named);
    let text = std::iter::once(kind.name.to_string()).chain(words).collect::<Vec<_>>().join(" ");
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
    let Inputs { facts, settings, origins, secrets, .. } = &surroundings(request, local_host, cancel)?;
    let mut arguments = arguments.clone();
    for value in arguments.positional.iter_mut().chain(arguments.named.values_mut()) {
        by_name::look_up(value, settings)?;
    }
    let local_host = &local_host.with_secrets(secrets, true);
    let here = CallContext::here(local_host, facts, settings, cancel);
    let place = CallContext { cut_output: true, origins, ..here };
    let mut answer = function
        .answer(&place, &arguments)
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
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;
    use zester_rule::rule;

    fn words(line: &[&str]) -> RawArguments {
        RawArguments::parse(&line.iter().map(|word| word.to_string()).collect::<Vec<_>>())
    }

    fn asked(function: &str, line: &[&str], test: bool) -> Result<Asked, String> {
        Asked::read(function, words(line), test)
    }

    fn is_test(function: &str, line: &[&str], flag: bool) -> Result<bool, String> {
        match asked(function, line, flag)? {
            Asked::Apply { test, .. } | Asked::State { test, .. } => Ok(test),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_call_is_known_by_what_was_typed() {
        let typed = |line: &[&str]| match asked("cmd.run", line, false) {
            Ok(Asked::State { kind, words, .. }) => typed(kind, &words),
            other => panic!("{other:?}"),
        };
        assert_eq!(typed(&["sleep 6", "cwd=/tmp"]), "cmd.run 'sleep 6' cwd=/tmp");
        assert_eq!(typed(&["a\nb"]), "cmd.run 'a b'");
        let long = typed(&["x".repeat(500).as_str()]);
        assert!(long.ends_with("x…") && long.chars().count() == TYPED_MAX + 1, "{long}");
    }

    #[test]
    #[rule("S-45")]
    fn s45_no_word_turns_a_check_into_an_apply() {
        for function in ["state.apply", "state.highstate", "test.nop"] {
            for (line, flag, test) in [
                (&[][..], false, false),
                (&[], true, true),
                (&["test=True"], false, true),
                (&["test=on"], true, true),
                (&["test=1"], false, true),
                (&["test=no"], false, false),
                (&["test=False"], false, false),
            ] {
                assert_eq!(is_test(function, line, flag), Ok(test), "{function} {line:?} {flag}");
            }
            for (line, flag) in [
                (&["test=False"][..], true),
                (&["test=0"], true),
                (&["test=True", "test=False"], false),
                (&["test=off", "test=yes"], false),
                (&["test=Ture"], false),
                (&["test=Ture"], true),
                (&["test="], false),
                (&["test=2"], false),
                (&["test=[true]"], false),
            ] {
                assert!(is_test(function, line, flag).is_err(), "{function} {line:?} {flag}");
            }
        }
    }

    #[test]
    #[rule("S-45")]
    fn s45_what_has_no_dry_run_refuses_one() {
        for (function, line) in
            [("state.revert", &["web"][..]), ("cmd.shell", &["rm -r /srv"]), ("cmd.run_all", &["rm -r /srv"])]
        {
            let told = asked(function, line, true).unwrap_err();
            assert!(told.contains(&format!("{function} has no dry run")), "{told}");
            assert!(asked(function, line, false).is_ok());
        }
        assert!(asked("facts.items", &[], true).is_ok(), "what only looks is a dry run anyway");
    }

    #[test]
    #[rule("C-12")]
    fn c12_no_word_of_a_call_is_ignored() {
        for (function, line, wanted) in [
            ("state.highstate", &["web"][..], "takes no reference"),
            ("state.apply", &["web", "concurrency=1"], "`concurrency=1` is none of them"),
            ("state.revert", &["web", "forse=true"], "no parameter `forse`"),
            ("state.revert", &["web", "force=Ture"], "force=Ture is neither true nor false"),
            ("file.managed", &["/a", "/b"], "`/b` is a second one"),
            ("facts.items", &["os"], "it takes no bare word"),
            ("file.managed", &["/a", "mode=1", "mode=2"], "`mode` is given twice"),
        ] {
            let told = asked(function, line, false).unwrap_err();
            assert!(told.contains(wanted), "{told}");
        }
        let revert = asked("state.revert", &["web", "run=2hPx", "force=yes"], false).unwrap();
        assert!(matches!(revert, Asked::Revert { files, run: Some(run), force: true }
            if files.references == ["web"] && run == "2hPx"));
    }

    #[test]
    #[rule("C-12")]
    fn c12_a_state_without_its_primary_parameter_is_refused() {
        for (kind, line) in [
            ("cmd.run", &[][..]),
            ("cmd.run", &[""]),
            ("file.managed", &["content=x"]),
            ("pkg.installed", &[]),
            ("module.run", &[]),
        ] {
            let told = asked(kind, line, false).unwrap_err();
            assert!(told.starts_with(kind) && told.contains("is missing"), "{told}");
        }
        for (kind, line) in [
            ("cmd.run", &["command=ls"][..]),
            ("cmd.run", &["name=ls"]),
            ("pkg.installed", &["pkgs=[a, b]"]),
            ("file.absent", &["names=[/a, /b]"]),
            ("test.ping", &[]),
            ("test.sleep", &["seconds=1"]),
        ] {
            assert!(asked(kind, line, false).is_ok(), "{kind} {line:?}");
        }
    }

    #[test]
    #[rule("C-12")]
    fn c12_a_command_that_looks_like_a_parameter_is_the_command() {
        for line in [&["A=b; echo $A"][..], &["LANG=C date", "cwd=/"]] {
            let Ok(Asked::State { words, .. }) = asked("cmd.run", line, false) else { panic!("{line:?}") };
            assert_eq!(words.positional, [RawValue::Letters(line[0].into())]);
            assert_eq!(words.named.len(), line.len() - 1);
        }
        let Ok(Asked::Function { arguments, .. }) = asked("test.echo", &["a=b"], false) else { panic!() };
        assert_eq!((arguments.positional, arguments.named.len()), (vec![json!("a=b")], 0));
        // A slip is no command, and neither are two, nor one beside the command.
        for (function, line, wanted) in [
            ("cmd.run", &["comand=ls"][..], "its command is missing"),
            ("cmd.run", &["A=b", "B=c"], "its command is missing"),
            ("cmd.shell", &["cdw=/"], "did you mean `cwd`?"),
            ("test.echo", &["hello", "a=b"], "there is no parameter `a`"),
            ("file.managed", &["A=b"], "write path='A=b'"),
        ] {
            let told = asked(function, line, false).unwrap_err();
            assert!(told.contains(wanted), "{told}");
        }
    }

    #[test]
    #[rule("C-15")]
    fn c15_a_text_of_a_function_keeps_its_letters_and_a_value_is_read() {
        let Asked::Function { arguments, .. } = asked("facts.get", &["007", "007"], false).unwrap() else {
            panic!()
        };
        assert_eq!(arguments.positional, [json!("007"), json!(7)]);
    }

    #[test]
    #[rule("R-18")]
    fn r18_the_words_of_an_event_are_its_data() {
        let data = |line: &[&str]| match asked("event.send", line, false) {
            Ok(Asked::State { words, .. }) => {
                assert_eq!(words.positional, [RawValue::Letters("deploy/web".into())]);
                let found = words.named.iter().find(|(key, _)| key == "data");
                Ok(found.map_or(Json::Null, |(_, value)| value.to_wire()))
            }
            Ok(other) => Err(format!("{other:?}")),
            Err(why) => Err(why),
        };
        assert_eq!(data(&["deploy/web"]), Ok(Json::Null));
        assert_eq!(data(&["deploy/web", "version=7", "by=ana"]), Ok(json!({"version": 7, "by": "ana"})));
        let kept = json!({"version": "1.10", "badge": "007", "by": "yes"});
        assert_eq!(data(&["deploy/web", "version=1.10", "badge=007", "by=yes"]), Ok(kept));
        assert_eq!(data(&["deploy/web", "{version: 7}"]), Ok(json!({"version": 7})));
        assert_eq!(
            data(&["deploy/web", "data={version: 7}", "by=ana"]),
            Ok(json!({"version": 7, "by": "ana"}))
        );
        for (line, wanted) in [
            (&["deploy/web", "{a: 1}", "a=2"][..], "`a` is given twice"),
            (&["deploy/web", "word", "a=2"], "`data` is a map"),
            (&["deploy/web", "{a: 1}", "{b: 1}"], "is a second one"),
            (&["a=1"], "its tag is missing"),
        ] {
            let told = data(line).unwrap_err();
            assert!(told.contains(wanted), "{told}");
        }
    }

    /// The plan of one state, made in an empty place.
    async fn planned(kind: &str, line: &[&str]) -> Plan {
        let temp = tempfile::tempdir().unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let request = CompileRequest {
            references: Vec::new(),
            states: Some(temp.path().to_path_buf()),
            settings: Default::default(),
            facts: None,
            id: Some("here".into()),
            ordered: false,
            environment: None,
            only: None,
            access: Access::Command,
            renderers: Default::default(),
            data_dir: None,
        };
        let kind = zester_resources::catalog().get(kind).unwrap();
        let cancel = CancellationToken::new();
        let made = tokio::task::block_in_place(|| plan(kind, &words(line), &request, &local_host, &cancel));
        made.unwrap()
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("C-12")]
    async fn c12_no_word_of_a_call_is_ever_rendered() {
        let temp = tempfile::tempdir().unwrap();
        let ran = temp.path().join("ran");
        let command = format!("{{{{ salt['cmd.run']('touch {}') }}}}", ran.display());
        for words in [
            command.clone(),
            format!("{{% endraw %}}{command}{{% raw %}}"),
            format!("{{%- endraw -%}}{command}{{%- raw -%}}"),
            format!("#!jinja|yaml\n{command}"),
            format!("x\n#!jinja\n{{% endraw %}}{command}"),
        ] {
            let content = format!("content={words}");
            let program = planned("file.managed", &[&words, "path=/x", &content]).await.program;
            assert!(!ran.exists(), "{words}");
            let state = &program.states[0];
            assert_eq!(state.name.as_str(), format!("file.managed:{words}"));
            let given = state.params.iter().find(|param| param.name == "content").unwrap();
            assert_eq!(given.value.as_text(), Some(words.as_str()));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("C-15")]
    async fn c15_a_guard_of_a_call_is_the_command_that_was_typed() {
        for command in ["[ -f /etc/passwd ]", "{ true; }", "{fun: test.echo}", "yes", "'a b' # c", "5", "~"] {
            let given = ["onlyif", "unless", "check_cmd"].map(|key| format!("{key}={command}"));
            let line: Vec<&str> = std::iter::once("x").chain(given.iter().map(String::as_str)).collect();
            let attributes = planned("test.nop", &line).await.program.states[0].attributes.clone();
            assert_eq!(attributes.onlyif, [command]);
            assert_eq!(attributes.unless, [command]);
            assert_eq!(attributes.check_cmd, [command]);
            assert!(attributes.asks.is_empty(), "{command}");
        }
    }

    #[test]
    #[rule("C-15")]
    fn c15_a_text_parameter_keeps_the_letters_and_others_are_read() {
        let managed = zester_resources::catalog().get("file.managed").unwrap();
        let line = ["/x", "content=0x1F", "mode=0644", "source=[a, b]", "makedirs=yes"];
        let text = source(managed, &words(&line)).unwrap();
        for wanted in
            ["\"content\": \"0x1F\"\n", "\"mode\": \"0644\"\n", "\"source\": [a, b]\n", "\"makedirs\": yes\n"]
        {
            assert!(text.contains(wanted), "{text}");
        }
        for letters in ["[main]", "{a: 1}", "~", "null", " 5 ", "1.10 "] {
            let text = source(managed, &words(&["/x", &format!("content={letters}")])).unwrap();
            assert!(text.contains(&format!("\"content\": \"{letters}\"\n")), "{text}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    #[rule("C-15")]
    async fn c15_a_text_keeps_its_quotes_and_all_that_means_something_in_yaml() {
        for letters in [
            "5 # five",
            "yes # no",
            "\"/opt/my prog\"",
            "'q'",
            "&a 5",
            "&a b",
            "!!int 5",
            "!!str 5",
            "*a",
            "yes",
        ] {
            for (kind, key) in
                [("file.managed", "content"), ("file.managed", "source"), ("cmd.run", "command")]
            {
                let given = format!("{key}={letters}");
                let program = planned(kind, &["/x", &given]).await.program;
                let param = program.states[0].params.iter().find(|param| param.name == key).unwrap();
                assert_eq!(param.value.as_text(), Some(letters), "{kind} {key}");
            }
        }
        let program = planned("file.managed", &["/x", "content=x", "makedirs=yes # so be it"]).await.program;
        let makedirs = program.states[0].params.iter().find(|param| param.name == "makedirs").unwrap();
        assert_eq!(makedirs.value.read::<bool>(), Ok(true), "any other type is read as YAML");
    }
}
