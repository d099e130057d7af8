//! What the language promises, as a user sees it.

use crate::scratch::Scratch;
use zester_rule::rule;

#[test]
#[rule("S-48")]
fn s48_settings_of_another_machine_and_ciphertext_stay_out() {
    let scratch =
        Scratch::with("x:\n  test.configurable_test_state: [{changes: {{ pillar.web | default(false) }}}]\n");
    scratch.write("settings/top.sls", "base:\n  'web*': [web]\n  'db*': [db]\n");
    scratch.write("settings/web.sls", "include: [.more]\n");
    scratch.write("settings/more.sls", "web: true\n");
    scratch.write(
        "settings/db.sls",
        "#!yaml|gpg\nsecret: |\n  -----BEGIN PGP MESSAGE-----\n\n  aGVsbG8=\n  -----END PGP MESSAGE-----\n",
    );
    assert_eq!(scratch.json(&["check", "c", "--id", "web-1"])["changed"], 1);
    assert_eq!(scratch.json(&["check", "c", "--id", "other"])["changed"], 0);
    let refused = scratch.zester(&["check", "c", "--id", "db-1"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--> settings/db.sls:3:3"), "{}", refused.stderr);
}

#[test]
#[rule("S-47", "S-16")]
fn s47_a_guard_that_asks_a_function_decides_in_check_and_apply() {
    let scratch = Scratch::with(
        r#"
asked:
  cmd.run: [{command: "echo a >> @T@/log"}, {onlyif: [{fun: file.file_exists, args: ["@T@/flag"]}]}]
not_asked:
  cmd.run: [{command: "echo b >> @T@/log"}, {unless: [{fun: file.file_exists, path: "@T@/flag"}]}]
by_code:
  cmd.run: [{command: "true"}, {onlyif: [{fun: cmd.run_all, args: ["exit 0"], get_return: retcode}]}]
"#,
    );
    for (before, changed) in [(false, "b\n"), (true, "a\n")] {
        if before {
            scratch.write("flag", "");
            std::fs::remove_file(scratch.path("log")).unwrap();
        }
        assert_eq!(scratch.json(&["check", "c"])["changed"], 1);
        let applied = scratch.json(&["apply", "c"]);
        assert_eq!((&applied["changed"], &applied["failed"]), (&1.into(), &0.into()));
        assert_eq!(scratch.read("log").as_deref(), Some(changed));
    }
}

#[test]
#[rule("C-7")]
fn c7_lint_says_of_another_file_that_it_is_no_state_file() {
    let scratch = Scratch::new();
    scratch.write("hostname", "web-01\n");
    let refused = scratch.zester(&["lint", "./hostname"]);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("./hostname is no state file"), "{}", refused.stderr);
}
