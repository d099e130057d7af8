//! `zester call`: one function on this machine (C-12).

use crate::scratch::Scratch;
use zester_rule::rule;

#[test]
#[rule("C-12")]
fn c12_a_state_module_runs_with_check_apply_and_attributes() {
    let scratch = Scratch::new();
    let words = ["call", "file.managed", "@T@/x", "content=a: b", "mode=0600", "onlyif=true"];
    let mut dry = words.to_vec();
    dry.push("--test");
    assert_eq!(scratch.json(&dry)["changed"], 1);
    assert!(!scratch.path("x").exists());
    let mut salt = words.to_vec();
    salt.push("test=True");
    assert_eq!(scratch.json(&salt)["test"], true, "C-5: test=True is --test");
    assert_eq!(scratch.json(&words)["changed"], 1);
    assert_eq!(scratch.read("x").as_deref(), Some("a: b"));
    assert_eq!(scratch.json(&words)["changed"], 0);
    for guard in ["unless=true", "unless=[ -d @T@ ]", "onlyif=[ -e @T@/no ]"] {
        assert_eq!(scratch.json(&["call", "cmd.run", "touch @T@/y", guard])["changed"], 0, "{guard}");
    }
}

#[test]
#[rule("C-12")]
fn c12_words_are_not_templates() {
    let scratch = Scratch::new();
    scratch.json(&["call", "file.managed", "@T@/x", "content={{ 1 + 1 }} {% if %}"]);
    assert_eq!(scratch.read("x").as_deref(), Some("{{ 1 + 1 }} {% if %}"));
}

#[test]
#[rule("C-12")]
fn c12_a_function_gives_a_plain_answer() {
    let scratch = Scratch::new();
    assert_eq!(scratch.json(&["call", "test.echo", "hi"]), "hi");
    assert_eq!(scratch.zester(&["call", "test.echo", "hi"]).stdout, "hi\n");
    scratch.write("settings.yaml", "a: {b: 5}\n");
    assert_eq!(scratch.json(&["call", "settings.get", "a:b", "--settings", "@T@/settings.yaml"]), 5);
}

#[test]
#[rule("D-7")]
fn d7_facts_items_tells_of_this_machine() {
    let scratch = Scratch::new();
    let facts = scratch.json(&["call", "facts.items", "--id", "orchard-1"]);
    assert_eq!((facts["id"].as_str(), facts["kernel"].as_str()), (Some("orchard-1"), Some("Linux")));
    for key in
        ["os", "os_family", "host", "num_cpus", "mem_total", "cpuarch", "init", "virtual", "zester_version"]
    {
        assert!(!facts[key].is_null(), "{key} is missing");
    }
    scratch.write("facts.yaml", "os: Testix\n");
    assert_eq!(scratch.json(&["call", "facts.get", "os", "--facts", "@T@/facts.yaml"]), "Testix");
}

#[test]
#[rule("C-12")]
fn c12_an_unknown_function_is_named_with_a_suggestion() {
    let done = Scratch::new().zester(&["call", "file.manged", "/x"]);
    assert_eq!(done.code, Some(1));
    assert!(
        done.stderr.contains("`file.manged`") && done.stderr.contains("`file.managed`"),
        "{}",
        done.stderr
    );
}

#[test]
#[rule("C-12")]
fn c12_state_apply_and_its_kin_work_as_the_commands_do() {
    let scratch = Scratch::with("x:\n  file.managed: [{path: \"@T@/x\"}, {content: y}]\n");
    scratch.write("states/top.zy", "base:\n  '*':\n    - c\n");
    assert_eq!(scratch.json(&["call", "state.apply", "c", "test=yes"])["test"], true);
    assert_eq!(scratch.json(&["call", "state.highstate"])["changed"], 1);
    assert_eq!(scratch.json(&["call", "state.apply"])["changed"], 0, "bare state.apply is the highstate");
    assert_eq!(scratch.json(&["call", "state.graph", "c"])["levels"][0][0], "file.managed:x");
    assert_eq!(scratch.json(&["call", "state.revert", "c"])["changed"], 1);
}

#[test]
#[rule("C-12")]
fn c12_a_bad_value_points_at_the_command_line() {
    let done = Scratch::new().zester(&["call", "file.managed", "/x", "contnet=a"]);
    assert_eq!(done.code, Some(1));
    assert!(done.stderr.contains("contnet") && done.stderr.contains("command line"), "{}", done.stderr);
}

#[test]
#[rule("C-12")]
fn c12_people_see_what_a_called_command_printed() {
    let done = Scratch::new().zester(&["call", "cmd.run", "echo hello; echo oops >&2"]);
    assert!(done.stdout.contains("\n     hello\n     oops\n"), "{}", done.stdout);
}

#[test]
#[rule("C-12")]
fn c12_a_call_without_its_primary_parameter_runs_nothing() {
    let scratch = Scratch::new();
    for (words, wanted) in [
        (
            &["call", "cmd.run"][..],
            "cmd.run: its command is missing; give it as a bare word, or as command=…",
        ),
        (&["call", "cmd.run", ""], "its command is missing"),
        (&["call", "file.managed", "content=x"], "its path is missing"),
        (&["call", "cmd.run", "comand=touch @T@/ran"], "its command is missing"),
        (&["call", "cmd.shell", "cdm=touch @T@/ran"], "did you mean `cmd`"),
        (&["call", "cmd.shell", "touch @T@/ran", "more"], "`more` is one word too many"),
        (&["call", "test.echo", "a", "b"], "`b` is one word too many"),
        (&["call", "state.highstate", "c"], "takes no reference"),
        (&["call", "state.apply", "c", "piller={}"], "`piller={}` is none of them"),
    ] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(1), "{words:?}: {}", done.stdout);
        assert!(done.stderr.contains(&scratch.fill(wanted)), "{words:?}: {}", done.stderr);
        assert!(!scratch.path("ran").exists(), "{words:?}");
    }
    for command in ["command=A=b; echo $A", "A=b; echo $A"] {
        let told = scratch.zester(&["call", "cmd.run", command]);
        assert!(told.stdout.contains("\n     b\n"), "{}", told.stdout);
    }
    assert_eq!(scratch.json(&["call", "cmd.shell", "A=b; echo $A"]), "b");
    assert_eq!(scratch.json(&["call", "test.echo", "a=b"]), "a=b");
}

#[test]
#[rule("C-15")]
fn c15_a_text_arrives_with_the_letters_that_were_typed() {
    let scratch = Scratch::new();
    let plain = ["1.10", "007", "0644", "yes", "0x1F", "1e3", "[main]", "{a: 1}", "null", "~", " 5 ", "a: b"];
    let yaml = ["5 # five", "yes # no", "\"/opt/my prog\"", "'q'", "&a 5", "!!int 5"];
    for letters in plain.into_iter().chain(yaml) {
        let content = format!("content={letters}");
        scratch.json(&["call", "file.managed", "@T@/x", &content, "mode=0600"]);
        assert_eq!(scratch.read("x").as_deref(), Some(letters));
        assert_eq!(scratch.json(&["call", "test.echo", letters]), letters);
    }
    assert_eq!(scratch.json(&["call", "settings.get", "none", "007"]), 7, "a value is read");
}

#[test]
#[rule("C-4")]
fn c4_what_a_failed_command_printed_is_shown_once() {
    let done = Scratch::new().zester(&["call", "cmd.run", "echo out; echo oops >&2; echo more >&2; exit 3"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    for line in ["out", "oops", "more"] {
        assert_eq!(done.stdout.lines().filter(|shown| shown.trim() == line).count(), 1, "{}", done.stdout);
    }
}

#[test]
#[rule("C-12")]
fn c12_a_fact_that_is_not_there_is_told() {
    let scratch = Scratch::new();
    let none = scratch.zester(&["call", "facts.get", "oss"]);
    assert_eq!((none.code, none.stdout.as_str()), (Some(0), ""));
    assert!(none.stderr.contains("there is no fact `oss`; did you mean `os`?"), "{}", none.stderr);
    assert!(scratch.zester(&["call", "settings.get", "x"]).stderr.contains("there is no setting `x`"));
    let given = scratch.zester(&["call", "facts.get", "oss", "none"]);
    assert_eq!((given.stdout.as_str(), given.stderr.as_str()), ("none\n", ""));
}

#[test]
fn a_call_that_failed_names_no_line_of_a_file_that_nobody_wrote() {
    let scratch = Scratch::new();
    let failed = scratch.zester(&["call", "cmd.run", "false"]);
    assert_eq!(failed.code, Some(2));
    assert!(failed.stdout.contains("failed: cmd.run:false\n"), "{}", failed.stdout);
    assert!(!failed.stdout.contains("command line"), "{}", failed.stdout);
}
