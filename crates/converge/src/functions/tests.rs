//! What functions take, and what they answer to whom.

use super::*;
use zester_rule::rule;

fn checked(name: &str, positional: &[&str], named: &[(&str, &str)]) -> Result<(), String> {
    let positional = positional.iter().map(|word| json!(word)).collect();
    let named = named.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    find(name).unwrap().check_typed(&Arguments { positional, named })
}

#[test]
#[rule("C-12")]
fn c12_no_word_of_a_function_is_ignored() {
    assert_eq!(checked("facts.get", &["os", "none"], &[]), Ok(()));
    assert_eq!(checked("cmd.shell", &["ls"], &[("cwd", "/"), ("python_shell", "true")]), Ok(()));
    assert_eq!(checked("cmd.run", &[], &[("cmd", "A=b; echo $A")]), Ok(()));
    for (name, positional, named, wanted) in [
        ("facts.items", &["os"][..], &[][..], "it takes no bare word; `os` is one"),
        ("test.echo", &["hello", "world"], &[], "`world` is one word too many; it takes text"),
        ("facts.get", &["a", "b", "c"], &[], "`c` is one word too many; it takes key, default"),
        ("facts.keys", &[], &[("os", "x")], "it takes no parameters; `os=x` is one"),
        ("cmd.shell", &["ls"], &[("cdw", "/")], "there is no parameter `cdw`; did you mean `cwd`?"),
        (
            "cmd.shell",
            &[],
            &[("LANG", "C date")],
            "there is no parameter `LANG`; if `LANG=C date` is its cmd, write cmd='LANG=C date'",
        ),
        ("cmd.shell", &[], &[("cwd", "/")], "`cmd` is missing"),
        ("cmd.shell", &["ls"], &[("cmd", "ls")], "`cmd` is given twice, as a bare word and by name"),
    ] {
        assert_eq!(checked(name, positional, named), Err(wanted.to_string()), "{name}");
    }
}

#[test]
fn a_template_is_told_what_a_function_takes_and_not_how_to_type_it() {
    let named = Map::from_iter([("bogus".to_string(), json!(1))]);
    let arguments = Arguments { positional: vec![json!("ls")], named };
    let told = find("facts.get").unwrap().check(&arguments);
    assert_eq!(told, Err("there is no parameter `bogus`; it takes key, default".to_string()));
}

/// What a template gets of a command, and what somebody gets who calls it.
async fn answers(command: String) -> (Result<Json, String>, Result<Json, String>) {
    let host = LocalHost {
        files: std::sync::Arc::new(zester_host::real::Real::new()),
        processes: std::sync::Arc::new(zester_host::process::Runner::new()),
        handle: Handle::current(),
        events: None,
    };
    let (none, never) = (Json::Null, CancellationToken::new());
    let arguments = Arguments { positional: vec![json!(command)], named: Map::new() };
    let function = find("cmd.run").unwrap();
    tokio::task::block_in_place(|| {
        let template = CallContext::here(&host, &none, &none, &never);
        let told = function.answer(&template, &arguments);
        (told, function.answer(&CallContext { cut_output: true, ..template }, &arguments))
    })
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-10")]
async fn s10_a_template_gets_the_whole_output_of_a_command_or_an_error() {
    let (template, called) = answers("head -c 100000 /dev/zero | tr '\\0' x".to_string()).await;
    assert_eq!(template.unwrap().as_str().map(str::len), Some(100_000));
    assert!(called.unwrap().as_str().unwrap().contains("bytes left out"));
    let most = limits::RENDER_VALUE_BYTES_MAX;
    let (template, _) = answers(format!("head -c {} /dev/zero | tr '\\0' x", most + 1)).await;
    assert!(template.unwrap_err().contains("printed more than 16 MiB"));
}

#[test]
fn every_name_means_one_function() {
    let acting = acting::ACTING.iter().map(|acting| acting.name);
    let trees = crate::tree_functions::OF_TREES.iter().map(|tree| tree.name);
    let names = FUNCTIONS.iter().map(|function| function.name);
    let mut all: Vec<&str> = names.chain(acting).chain(trees).collect();
    all.extend(OTHER_NAMES.iter().map(|(other, _)| *other));
    all.sort_unstable();
    let twice: Vec<&&str> = all.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| &pair[0]).collect();
    assert!(twice.is_empty(), "{twice:?}");
    assert!(OTHER_NAMES.iter().all(|(other, _)| find(other).is_some()));
}

#[test]
fn every_function_says_on_its_line_what_it_takes() {
    for function in FUNCTIONS {
        let (call, _) = function.doc.split_once(": ").unwrap();
        let words = call.split(' ').skip(1);
        let required = words.clone().filter(|word| !word.starts_with('[')).count();
        assert!(call.starts_with(function.name), "{call}");
        assert_eq!(words.count(), function.takes.iter().filter(|takes| !takes.by_name).count(), "{call}");
        assert_eq!(required, function.takes.iter().filter(|takes| takes.required).count(), "{call}");
    }
}
