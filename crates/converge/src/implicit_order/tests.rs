//! Whole files through compiler and resources: which edges come of them, and which states contradict each other.

use super::RealPathOf;
use crate::plan::Plan;
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};
use zester_compile::{Ask, CallError, Compiled, Functions, Inputs, Tree, compile};
use zester_model::requisite::EdgeKind;
use zester_rule::rule;

struct OneFile<'a>(&'a str, &'a str);

impl Tree for OneFile<'_> {
    fn read(&self, path: &str) -> Result<Option<String>, String> {
        Ok((path == self.0).then(|| self.1.to_string()))
    }
}

struct NoFunctions;

impl Functions for NoFunctions {
    fn call(&self, name: &str, _: Vec<Json>, _: serde_json::Map<String, Json>) -> Result<Json, CallError> {
        Err(format!("no {name}").into())
    }

    fn names(&self) -> Vec<String> {
        Vec::new()
    }
}

pub(crate) fn compiled(path: &str, text: &str) -> Compiled {
    compiled_from(&OneFile(path, text), &[path])
}

fn compiled_from(tree: &dyn Tree, asked: &[&str]) -> Compiled {
    let nothing = json!({});
    let inputs = Inputs {
        tree,
        tree_name: "states",
        catalog: zester_resources::catalog(),
        facts: &nothing,
        settings: &nothing,
        functions: &NoFunctions,
        id: "here",
        ordered: false,
        environment: zester_compile::BASE,
    };
    compile(&inputs, &Ask::References(asked.iter().map(|path| path.to_string()).collect()))
}

/// Problems if there are any, else advice; one sentence each.
fn said(path: &str, text: &str) -> Vec<String> {
    Plan::diagnostics(compiled(path, text)).iter().map(|diagnostic| diagnostic.message.clone()).collect()
}

/// `a<b` for each auto edge: b waits for a. Ids only.
fn auto(text: &str) -> Vec<String> {
    auto_on(text, None).unwrap_or_else(|said| panic!("{said:?}"))
}

/// The same on a machine, or what is wrong.
fn auto_on(text: &str, meant: Option<&RealPathOf<'_>>) -> Result<Vec<String>, Vec<String>> {
    let mut compiled = compiled("c.zy", text);
    let diagnostics = compiled.diagnostics.clone();
    let joined = crate::plan::bind_and_graph(
        &mut compiled.program,
        &compiled.sources,
        diagnostics,
        &Default::default(),
        meant,
    );
    let said = |found: Vec<zester_model::diagnostic::Diagnostic>| {
        found.into_iter().map(|it| it.message).collect::<Vec<String>>()
    };
    let graph = joined.map_err(said)?.graph;
    let edges =
        graph.ranked().iter().flat_map(|node| graph.needs(*node).iter().map(move |edge| (node, edge)));
    let mut found: Vec<String> = edges
        .filter(|(_, edge)| edge.kind == EdgeKind::Auto)
        .map(|(node, edge)| format!("{}<{}", graph.name(edge.node).id(), graph.name(*node).id()))
        .collect();
    found.sort();
    Ok(found)
}

#[test]
#[rule("S-57")]
fn s57_two_names_of_one_file_are_one_thing_where_a_link_makes_them_one() {
    let on_it = |path: &Path, _: bool| match path.strip_prefix("/alias") {
        // The link itself is not followed.
        Ok(below) if below.as_os_str().is_empty() => path.to_path_buf(),
        Ok(below) => Path::new("/real").join(below),
        Err(_) => path.to_path_buf(),
    };
    let differ = "a:\n  file.managed: {path: /real/z, content: one}\nb:\n  file.managed: {path: /alias/z, content: two}\n";
    assert_eq!(auto(differ), [""; 0]);
    let said = auto_on(differ, Some(&on_it)).unwrap_err();
    assert_eq!(said.len(), 1);
    assert!(said[0].contains("want different things of /real/z (content)"), "{said:?}");
    let edits =
        "a:\n  file.append: {path: /real/z, text: one}\nb:\n  file.append: {path: /alias/z, text: two}\n";
    assert_eq!(auto(edits), [""; 0]);
    assert_eq!(auto_on(edits, Some(&on_it)).unwrap(), ["a<b"]);
    // The link itself comes first all the same.
    let behind = "a:\n  file.symlink: {path: /alias, target: /real}\nb:\n  file.managed: {path: /alias/z, content: two}\n";
    assert_eq!(auto_on(behind, Some(&on_it)).unwrap(), auto(behind));
    assert_eq!(auto(behind), ["a<b"]);
}

#[test]
#[rule("S-57")]
fn s57_a_link_to_a_file_is_that_file_for_whoever_writes_through_it() {
    let on_it = |path: &Path, follows: bool| match follows && path == Path::new("/etc/link") {
        true => PathBuf::from("/etc/file"),
        false => path.to_path_buf(),
    };
    for through in [
        "file.managed: {path: /etc/link, content: two}",
        "file.serialize: {path: /etc/link, dataset: {a: 1}}",
    ] {
        let text = format!("a:\n  file.managed: {{path: /etc/file, content: one}}\nb:\n  {through}\n");
        let said = auto_on(&text, Some(&on_it)).unwrap_err();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].contains("want different things of /etc/file"), "{said:?}");
    }
    for of_link in [
        "file.absent: {path: /etc/link}",
        "file.managed: {path: /etc/link, content: x, follow_symlinks: false}",
    ] {
        let text = format!("a:\n  file.managed: {{path: /etc/file, content: one}}\nb:\n  {of_link}\n");
        assert_eq!(auto_on(&text, Some(&on_it)).unwrap(), [""; 0], "{of_link}");
    }
    let edits = "a:\n  file.append: {path: /etc/link, text: one}\nb:\n  file.managed: {path: /etc/file, content: x}\n";
    assert_eq!(auto_on(edits, Some(&on_it)).unwrap(), ["b<a"]);
}

#[test]
#[rule("S-58")]
fn s58_what_lies_in_an_unpacked_directory_waits_for_the_archive() {
    let text = "
conf: {file.managed: [{path: /srv/app/etc/conf}, {content: x}]}
deep: {file.managed: [{path: /srv/app/lib/deep/file}, {content: x}, {makedirs: true}]}
run: {cmd.run: [{command: ./run}, {cwd: /srv/app/bin}]}
made: {cmd.run: [{command: make}, {creates: /srv/app/made}]}
unpacked: {archive.extracted: [{path: /srv/app}, {source: /a.tar}]}
top: {file.directory: [{path: /srv}]}
";
    let waits = ["unpacked<conf", "unpacked<deep", "unpacked<made", "unpacked<run"];
    let mut expected = vec!["top<unpacked"];
    expected.extend(waits);
    assert_eq!(auto(text), expected);
}

#[test]
#[rule("S-58")]
fn s58_a_file_waits_for_the_state_of_its_nearest_directory() {
    let text = "
f: {file.managed: [{path: /srv/app/etc/deep/conf}, {makedirs: true}]}
inner: {file.directory: [{path: /srv/app/etc}]}
outer: {file.directory: [{path: /srv/app/}, {makedirs: true}]}
link: {file.symlink: [{path: /srv/app/etc/link}, {target: conf}]}
gone: {file.absent: [{path: /srv/app/old}]}
elsewhere: {file.touch: [{path: /srv/application}]}
";
    assert_eq!(auto(text), ["inner<f", "inner<link", "outer<elsewhere", "outer<gone", "outer<inner"]);
}

#[test]
#[rule("S-58")]
fn s58_a_file_waits_for_whoever_makes_its_directory_on_the_way() {
    let text = "
plain: {file.managed: [{path: /srv/made/plain}]}
maker: {file.managed: [{path: /srv/made/deep/file}, {makedirs: true}]}
second: {file.managed: [{path: /srv/made/deep/second}, {makedirs: true}]}
";
    // Two that make the same directory alike do not disturb each other.
    assert_eq!(auto(text), ["maker<plain"]);
}

#[test]
#[rule("S-58")]
fn s58_what_a_shared_directory_looks_like_is_not_chance() {
    let text = "
first: {file.managed: [{path: /srv/made/a}, {makedirs: true}]}
alike: {file.touch: [{path: /srv/made/b}, {makedirs: true}]}
other: {file.managed: [{path: /srv/made/c}, {makedirs: true}, {dir_mode: '0700'}]}
theirs: {file.managed: [{path: /srv/made/d}, {makedirs: true}, {user: web}]}
";
    assert_eq!(auto(text), ["first<other", "other<theirs"]);
}

#[test]
#[rule("S-58")]
fn s58_what_the_user_says_wins_and_auto_order_switches_it_off() {
    let said_so = "
dir: {file.directory: [{path: /srv/x}, {require: [{file: f}]}]}
f: {file.managed: [{path: /srv/x/f}]}
";
    assert_eq!(auto(said_so), Vec::<String>::new());
    let required = "
dir: {file.directory: [{path: /srv/x}]}
f: {file.managed: [{path: /srv/x/f}, {require: [{file: dir}]}]}
";
    assert_eq!(auto(required), Vec::<String>::new());
    let off = "
dir: {file.directory: [{path: /srv/x}]}
f: {file.managed: [{path: /srv/x/f}, {auto_order: false}]}
";
    assert_eq!(auto(off), Vec::<String>::new());
}

#[test]
#[rule("S-57")]
fn s57_two_states_that_want_different_things_of_one_thing_are_an_error_that_shows_both() {
    let text = "
a: {file.managed: [{path: /etc/motd}, {content: A}]}
b: {file.managed: [{path: /etc//motd}, {content: B}]}
c: {file.absent: [{path: /etc/motd}]}
p: {pkg.installed: [{pkgs: [curl, {nginx: '1.2'}]}]}
q: {pkg.removed: [{name: curl}]}
";
    assert_eq!(
        said("c.zy", text),
        [
            "file.managed:a and file.managed:b want different things of /etc/motd (content)",
            "file.managed:a and file.absent:c want different things of /etc/motd",
            "pkg.installed:p and pkg.removed:q want different things of the package curl",
        ]
    );
    let diagnostics = Plan::diagnostics(compiled("c.zy", text));
    assert_eq!(diagnostics[0].span.map(|span| span.line), Some(3));
    assert_eq!(diagnostics[0].labels.iter().map(|label| label.span.line).collect::<Vec<_>>(), [2]);
}

#[test]
#[rule("S-57")]
fn s57_clean_of_what_another_state_takes_as_its_source_is_told() {
    let text = "
whole: {file.directory: [{path: /t/data}, {clean: true}]}
above: {file.directory: [{path: /t}, {clean: true}]}
taken: {file.copy: [{path: /copy}, {source: /t/data}]}
one: {file.copy: [{path: /one}, {source: /u/data/file}]}
part: {file.directory: [{path: /u/data}, {clean: true}]}
";
    for file in ["c.zy", "c.sls"] {
        let told = said(file, text);
        assert_eq!(
            told,
            [
                "`clean` of file.directory:whole removes nothing: file.copy:taken takes all of /t/data as its source"
            ]
        );
    }
}

#[test]
#[rule("S-57")]
fn s57_clean_where_another_state_fills_the_directory_is_an_error_and_in_files_for_salt_a_warning() {
    let text = "
a: {git.latest: [{name: 'https://example.com/a'}, {target: /srv/a}]}
b: {file.directory: [{path: /srv/a/cache}, {clean: true}]}
c: {file.directory: [{path: /srv/b}, {clean: true}]}
d: {archive.extracted: [{path: /srv/b/inside}, {source: /d.tar}, {clean: true}]}
e: {archive.extracted: [{path: /srv/b/inside}, {source: /e.tar}]}
";
    assert_eq!(
        said("c.zy", text),
        [
            "`clean` of file.directory:b removes nothing: git.latest:a fills /srv/a, and only that one knows what is its own",
            "`clean` of archive.extracted:d removes nothing: archive.extracted:e fills /srv/b/inside, and only that one knows what is its own",
        ]
    );
    let forgiven = Plan::diagnostics(compiled("c.sls", text));
    assert!(forgiven.iter().all(|it| it.kind == zester_model::diagnostic::Kind::Lint), "{forgiven:?}");
    assert_eq!(forgiven.iter().filter(|it| it.message.contains("removes nothing")).count(), 2);
}

#[test]
#[rule("S-57")]
fn s57_a_requisite_between_them_makes_it_advice() {
    let text = "
a: {file.managed: [{path: /etc/motd}, {content: A}]}
between: {test.nop: [{require: [{file: a}]}]}
b: {file.absent: [{path: /etc/motd}, {onfail: [{test: between}]}]}
";
    let found = Plan::diagnostics(compiled("c.zy", text));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, zester_model::diagnostic::Kind::Lint);
    assert!(found[0].message.contains("want different things of /etc/motd"), "{found:?}");
}

#[test]
#[rule("S-57")]
fn s57_the_same_intent_is_told_and_runs_one_after_the_other() {
    let text = "
a: {pkg.installed: [{name: curl}]}
b: {pkg.installed: [{pkgs: [curl, wget]}]}
c: {file.directory: [{path: /srv/x}, {mode: '0755'}]}
d: {file.directory: [{path: /srv/x}, {user: web}]}
";
    assert_eq!(
        said("c.zy", text),
        [
            "pkg.installed:a and pkg.installed:b both decide about the package curl",
            "file.directory:c and file.directory:d both decide about /srv/x",
        ]
    );
    assert_eq!(auto(text), ["a<b", "c<d"]);
}

#[test]
#[rule("S-57")]
fn s57_in_a_salt_file_they_run_as_declared_with_a_warning() {
    let text = "
z: {file.managed: [{path: /etc/motd}, {content: A}]}
a: {file.managed: [{path: /etc/motd}, {content: B}]}
";
    let found = Plan::diagnostics(compiled("c.sls", text));
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].kind, zester_model::diagnostic::Kind::Lint);
    assert!(found[0].hint.as_deref().is_some_and(|hint| hint.contains("as declared")), "{found:?}");
    assert_eq!(said("c.zy", text).len(), 1);
}

#[test]
#[rule("S-57")]
fn s57_between_a_salt_file_and_one_of_ours_it_is_an_error() {
    struct Two;
    impl Tree for Two {
        fn read(&self, path: &str) -> Result<Option<String>, String> {
            Ok(match path {
                "ours.zy" => Some("a: {file.managed: [{path: /etc/motd}, {content: A}]}\n".into()),
                "salt.sls" => Some("b: {file.managed: [{path: /etc/motd}, {content: B}]}\n".into()),
                _ => None,
            })
        }
    }
    for asked in [["ours.zy", "salt.sls"], ["salt.sls", "ours.zy"]] {
        let found = Plan::diagnostics(compiled_from(&Two, &asked));
        assert_eq!(found.len(), 1, "{found:?}");
        assert_ne!(found[0].kind, zester_model::diagnostic::Kind::Lint, "{found:?}");
        assert!(found[0].message.contains("want different things of /etc/motd"), "{found:?}");
    }
}

#[test]
#[rule("S-58")]
fn s58_a_state_waits_for_whoever_makes_what_it_reads_or_works_in() {
    let text = "
copy: {file.managed: [{path: /etc/copy}, {source: /srv/./made}]}
either: {file.managed: [{path: /etc/either}, {source: [salt://x, 'file:///srv/made']}]}
script: {cmd.script: [{source: /srv/made}]}
named: {cmd.script: [{command: /srv/made --fast}]}
done: {cmd.run: [{command: 'true'}, {creates: [made]}, {cwd: /srv}]}
inside: {cmd.run: [{command: 'true'}, {cwd: /opt/app/deep}]}
below: {cmd.run: [{command: 'true'}, {cwd: /var/x/y}]}
off: {cmd.run: [{command: 'true'}, {cwd: /opt/app}, {auto_order: false}]}
elsewhere: {cmd.run: [{command: /srv/made}]}
made: {file.managed: [{path: /srv/made}, {content: x}]}
dir: {file.directory: [{path: /opt/app}]}
deep: {file.managed: [{path: /var/x/y/z}, {makedirs: true}]}
";
    let expected =
        ["deep<below", "dir<inside", "made<copy", "made<done", "made<either", "made<named", "made<script"];
    assert_eq!(auto(text), expected);
}

#[test]
#[rule("S-58")]
fn s58_a_directory_made_on_the_way_does_not_keep_the_command_that_creates_it_from_running() {
    let text = "
unpack: {cmd.run: [{command: 'true'}, {creates: /opt/app}]}
conf: {file.managed: [{path: /opt/app/conf}, {makedirs: true}]}
other: {cmd.run: [{command: 'true'}, {creates: /opt/app/done}]}
";
    assert_eq!(auto(text), ["conf<other"]);
}

#[test]
#[rule("S-57")]
fn s57_edits_of_one_file_run_as_declared_after_its_owner_and_are_no_conflict() {
    let text = "
second: {file.append: [{path: /etc/app//conf}, {text: b}]}
first: {file.managed: [{path: /etc/app/conf}, {content: a}, {replace: false}]}
third: {file.append: [{path: /etc/app/conf}, {text: c}]}
other: {file.append: [{path: /etc/app/other}, {text: c}]}
dir: {file.directory: [{path: /etc/app}]}
reads: {cmd.script: [{source: /etc/app/conf}]}
";
    assert_eq!(said("c.zy", text), Vec::<String>::new());
    assert_eq!(
        auto(text),
        [
            "dir<first",
            "dir<other",
            "dir<second",
            "dir<third",
            "first<reads",
            "first<second",
            "first<third",
            "second<reads",
            "second<third",
            "third<reads",
        ]
    );
}
