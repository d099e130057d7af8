//! `exclude:` takes states and files out again (S-47).

use crate::fixture::*;
use zester_rule::rule;

#[test]
#[rule("S-47")]
fn s47_exclude_takes_states_and_files_out_again() {
    let tree = |top: &str| {
        let text = format!("include: [web, db]\nmine:\n  test.nop: []\n{top}");
        let list = [
            ("c.zy", text.as_str()),
            (
                "web/init.zy",
                "include: [.tls]\nnginx:\n  test.nop: []\n  cmd.run: []\nmany:\n  test.nop: [{names: [m1, m2]}]\n",
            ),
            ("web/tls.zy", "cert:\n  test.nop: [{require_in: [mine]}]\n"),
            ("db.zy", "db:\n  test.nop: []\n"),
        ];
        asked(&list, "c")
    };
    let all = ["cert", "nginx", "m1", "m2", "db", "mine"].map(|id| format!("test.nop:{id}"));
    let left = |top: &str| -> Vec<String> {
        names(&tree(top)).into_iter().filter(|name| name.starts_with("test.nop:")).collect()
    };
    let without = |gone: &[&str]| -> Vec<String> {
        all.iter().filter(|name| !gone.iter().any(|id| name.ends_with(&format!(":{id}")))).cloned().collect()
    };
    assert_eq!(left("exclude:\n  - sls: web.tls\n"), without(&["cert"]));
    assert_eq!(left("exclude:\n  - id: nginx\n"), without(&["nginx"]));
    assert_eq!(names(&tree("exclude: [{id: nginx}]\n")).len(), 5);
    assert_eq!(left("exclude: [web.tls, m1]\n"), without(&["cert", "m1"]));
    assert_eq!(left("exclude: [{id: many}]\n"), without(&["m1", "m2"]));
    assert_eq!(left("exclude: db\n"), without(&["db"]));
    let one = |top: &str| texts(&tree(top)).join("\n");
    assert_eq!(
        one("exclude: [{id: ngnix}]\n"),
        "states/c.zy:4:11: there is no state `ngnix` to exclude [did you mean `nginx`?]"
    );
    assert_eq!(
        one("exclude: [{sls: webb}]\n"),
        "states/c.zy:4:11: no file `webb` is loaded that could be excluded [did you mean `web`?]"
    );
    assert_eq!(
        one("exclude: [{id: db}]\nafter:\n  test.nop: [{require: [db]}]\n"),
        "states/c.zy:6:25: dag: state \"test.nop:after\" requires \"db\", which is excluded {states/c.zy:4:11 excluded here}"
    );
    assert_eq!(
        one("exclude: [{sls: db}]\nafter:\n  test.nop: [{require: [{sls: db}]}]\n"),
        "states/c.zy:6:31: dag: state \"test.nop:after\" requires \"sls:db\", which is excluded {states/c.zy:4:11 excluded here}"
    );
    // What is left of a file is waited for; one that declares nothing is nothing to wait for.
    assert_eq!(one("exclude: [{id: nginx}]\nafter:\n  test.nop: [{require: [{sls: web}]}]\n"), "");
    let included = |exclude: &str| {
        let text = format!("include: [e]\n{exclude}\na:\n  test.nop: [{{require: [{{sls: e}}]}}]\n");
        let list = [
            ("c.zy", text.as_str()),
            ("e.zy", "include: [f]\nb:\n  test.nop: []\n"),
            ("f.zy", "f:\n  test.nop: []\n"),
        ];
        texts(&asked(&list, "c")).join("\n")
    };
    assert_eq!(included("exclude: [{id: b}]"), "", "what it includes is left");
    assert!(included("exclude: [{sls: e}]").contains("which is excluded"));
    assert!(included("exclude: [{id: b}, {id: f}]").contains("which is excluded"));
    let nothing = [("c.zy", "include: [e]\na:\n  test.nop: [{require: [{sls: e}]}]\n"), ("e.zy", "")];
    assert_eq!(texts(&asked(&nothing, "c")), Vec::<String>::new());
    assert!(one("exclude: [{file: x}]\n").contains("`exclude` lists states and files, not a map"));
}
