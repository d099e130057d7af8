//! S-8: the top file, its targets and its environments.

use crate::fixture::*;
use zester_compile::Ask;
use zester_rule::rule;

#[test]
#[rule("S-8")]
fn s8_highstate_is_the_union_of_what_matches() {
    let tree = |top: &'static str| {
        files(&[
            ("top.zy", top),
            ("a.zy", "a:\n  test.nop: []\n"),
            ("b.zy", "b:\n  test.nop: []\n"),
            ("c.zy", "c:\n  test.nop: []\n"),
        ])
    };
    let high = |top| names(&run(&tree(top), &Ask::Highstate, false));
    assert_eq!(high("'web*': [a, b]\n'*': [a]\n'db*': [c]\n"), ["test.nop:a", "test.nop:b"]);
    assert_eq!(high("base:\n  'G@os:Debian and web-*':\n    - c\n"), ["test.nop:c"]);
    assert_eq!(high("base:\n  'os:Debian':\n    - match: grain\n    - c\n"), ["test.nop:c"]);
    assert_eq!(high("{% for x in ['a', 'b'] %}\n'{{ x }}*': [c]\n{% endfor %}\n"), Vec::<String>::new());
    let texts = |top| texts(&run(&tree(top), &Ask::Highstate, false));
    assert_eq!(texts("'web*': [nope]\n").len(), 1);
    assert!(
        texts("'web* and (': [a]\n")[0].starts_with("states/top.zy:1:1"),
        "{:?}",
        texts("'web* and (': [a]\n")
    );
    let none = run(&files(&[]), &Ask::Highstate, false);
    assert!(self::texts(&none).join(" ").contains("there is no `top.zy`"));
}

#[test]
#[rule("S-8")]
fn s8_an_environment_is_a_level_of_the_top_file() {
    let tree = |top: &'static str| {
        let saltenv = "{{ saltenv }}:\n  test.nop: []\n";
        files(&[("top.zy", top), ("a.zy", "a:\n  test.nop: []\n"), ("env.zy", saltenv)])
    };
    let high = |environment, top| run_in(environment, &tree(top), &Ask::Highstate, false);
    let top = "base:\n  '*': [a]\nprod:\n  'web*': [env]\n  'db*': [a]\ndev: {}\n";
    assert_eq!(names(&high("base", top)), ["test.nop:a"]);
    assert_eq!(names(&high("prod", top)), ["test.nop:prod"], "templates see its name");
    assert_eq!(names(&high("dev", top)), Vec::<String>::new());
    // What stands outside of any level is of `base`.
    let mixed = "'*': [a]\nprod:\n  '*': [env]\nbase:\n  'web*': [env]\n";
    assert_eq!(names(&high("base", mixed)), ["test.nop:a", "test.nop:base"]);
    let gone = "states/top.zy:1:1: there is no environment `prdo` in the top file [it has `base`, `prod`, `dev`; choose with --env]";
    assert_eq!(texts(&high("prdo", top)), [gone]);
    let no_base = texts(&high("base", "prod:\n  '*': [a]\n"));
    assert_eq!(
        no_base,
        [
            "states/top.zy:1:1: there is no environment `base` in the top file [it has `prod`; choose with --env]"
        ]
    );
    let target = texts(&high("base", "'web*': {a: b}\n"));
    assert!(target[0].starts_with("states/top.zy:1:1: `web*` is no name of an environment"), "{target:?}");
}

#[test]
#[rule("S-8")]
fn s8_files_by_name_are_compiled_in_an_environment_that_there_is() {
    let list = [("top.zy", "prod:\n  'db*': []\n"), ("env.zy", "{{ saltenv }}:\n  test.nop: []\n")];
    let asked = |environment, list: &[(&str, &str)]| {
        run_in(environment, &files(list), &Ask::References(vec!["env".into()]), false)
    };
    assert_eq!(names(&asked("base", &list)), ["test.nop:base"], "it needs no level");
    assert_eq!(names(&asked("base", &list[1..])), ["test.nop:base"], "and no top file");
    assert_eq!(names(&asked("prod", &list)), ["test.nop:prod"]);
    assert!(texts(&asked("dev", &list))[0].contains("there is no environment `dev`"));
    assert_eq!(names(&asked("dev", &list[1..])), ["test.nop:dev"], "no top file says which there are");
}

#[test]
#[rule("S-8")]
fn s8_every_environment_can_be_asked_for_what_it_gives() {
    let tree = files(&[("top.zy", "base:\n  '*': [a, b]\n  'db*': [c]\nprod:\n  'web*': [b]\n")]);
    let asked = |only| with_inputs(&tree, |inputs| zester_compile::environments(inputs, only));
    let environment = |name: &str, references: &[&str]| zester_compile::Environment {
        name: name.into(),
        references: references.iter().map(|reference| reference.to_string()).collect(),
    };
    assert_eq!(
        asked(None).map_err(drop),
        Ok(vec![environment("base", &["a", "b"]), environment("prod", &["b"])])
    );
    assert_eq!(asked(Some("prod")).map_err(drop), Ok(vec![environment("prod", &["b"])]));
    let (sources, found) = asked(Some("dev")).unwrap_err();
    assert!(text_in(&sources, &found[0]).contains("it has `base`, `prod`"), "{found:?}");
}
