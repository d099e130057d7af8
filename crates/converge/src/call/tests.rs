//! What words of a call mean.

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

#[tokio::test(flavor = "multi_thread")]
#[rule("S-45", "S-42")]
async fn s45_a_function_that_acts_is_a_run_that_can_be_tried() {
    for (function, line, told) in [
        ("service.restart", &["nginx"][..], "would call service.restart(name=nginx)"),
        ("ps.kill_pid", &["42", "signal=9"], "would call ps.kill_pid(pid=42, signal=9)"),
        ("pkg.refresh_db", &[], "would call pkg.refresh_db()"),
    ] {
        let Ok(Asked::State { kind, words, test: true }) = asked(function, line, true) else {
            panic!("{function}")
        };
        let plan = plan_of(kind, &words).await;
        let mut names = plan.program.states.iter().map(|state| state.name.id().to_string());
        assert_eq!(names.next().unwrap().split(' ').next(), Some(function));
        let explained = plan.bound[0].explain(&drift_of(&plan).await, false);
        assert_eq!(explained.diff, told);
        let plain = asked(function, line, false).unwrap();
        assert!(matches!(plain, Asked::Function { .. }), "{function}");
        assert!(matches!(plain.as_run(false), Asked::State { test: false, .. }), "{function}");
    }
    let looks = asked("service.status", &["nginx"], false).unwrap();
    assert!(matches!(looks.as_run(false), Asked::Function { .. }), "what only looks is no run");
}

async fn drift_of(plan: &Plan) -> zester_resources::Drift {
    let host = zester_host::overlay::Overlay::empty();
    let processes = zester_host::process::fake::Scripted::new();
    let cancel = CancellationToken::new();
    let cx = zester_resources::Checking {
        host: &host,
        query: zester_host::Query::through(&processes),
        files: &zester_resources::laws::FewFiles,
        forced: None,
        dry_run: true,
        cancel: &cancel,
    };
    plan.bound[0].check(&cx).await.unwrap().unwrap()
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
    assert_eq!(data(&["deploy/web", "data={version: 7}", "by=ana"]), Ok(json!({"version": 7, "by": "ana"})));
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
    plan_of(zester_resources::catalog().get(kind).unwrap(), &words(line)).await
}

async fn plan_of(kind: &'static Kind, words: &RawArguments) -> Plan {
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
    let cancel = CancellationToken::new();
    let made = tokio::task::block_in_place(|| plan(kind, words, &request, &local_host, &cancel));
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
    for letters in
        ["5 # five", "yes # no", "\"/opt/my prog\"", "'q'", "&a 5", "&a b", "!!int 5", "!!str 5", "*a", "yes"]
    {
        for (kind, key) in [("file.managed", "content"), ("file.managed", "source"), ("cmd.run", "command")] {
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
