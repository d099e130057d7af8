//! Nothing on the command line turns a check into an apply (S-45).

use crate::scratch::Scratch;
use zester_rule::rule;

fn scratch() -> Scratch {
    let scratch = Scratch::with("x:\n  file.managed: [{path: \"@T@/x\"}, {content: y}]\n");
    scratch.write("states/top.zy", "base:\n  '*':\n    - c\n");
    scratch
}

#[test]
#[rule("S-45", "C-5")]
fn s45_a_dry_run_that_is_asked_for_and_denied_runs_nothing() {
    let scratch = scratch();
    for words in [
        &["check", "c", "test=no"][..],
        &["check", "c", "test=False"],
        &["check", "test=0"],
        &["apply", "c", "--test", "test=False"],
        &["apply", "c", "test=True", "test=False"],
        &["apply", "c", "test=off", "test=on"],
        &["call", "state.apply", "c", "--test", "test=no"],
        &["call", "state.highstate", "--test", "test=no"],
        &["call", "file.managed", "@T@/x", "content=y", "--test", "test=False"],
    ] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(1), "{words:?}: {}", done.stdout);
        assert!(done.stderr.contains("test=false"), "{words:?}: {}", done.stderr);
        assert!(!scratch.path("x").exists(), "{words:?} applied");
    }
}

#[test]
#[rule("S-45", "C-5")]
fn s45_a_test_that_is_neither_true_nor_false_runs_nothing() {
    let scratch = scratch();
    for words in [
        &["apply", "c", "test=Ture"][..],
        &["apply", "test=Ture"],
        &["apply", "c", "test="],
        &["check", "c", "test=Ture"],
        &["apply", "c", "--test", "test=Ture"],
        &["call", "state.apply", "c", "test=Ture"],
        &["call", "state.highstate", "test=Ture"],
        &["call", "file.managed", "@T@/x", "content=y", "test=Ture"],
        &["call", "cmd.shell", "touch @T@/x", "test=Ture"],
    ] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(1), "{words:?}: {}", done.stdout);
        assert!(done.stderr.contains("neither true nor false"), "{words:?}: {}", done.stderr);
        assert!(!scratch.path("x").exists(), "{words:?} applied");
    }
}

#[test]
#[rule("C-5")]
fn c5_test_takes_four_words_each_way() {
    let scratch = scratch();
    for word in ["test=True", "test=yes", "test=1", "test=ON"] {
        for command in ["apply", "check"] {
            assert_eq!(scratch.json(&[command, "c", word])["test"], true, "{command} {word}");
        }
    }
    assert!(!scratch.path("x").exists());
    for word in ["test=False", "test=no", "test=0", "test=off"] {
        assert_eq!(scratch.json(&["apply", "c", word])["test"], false, "{word}");
    }
    assert!(scratch.path("x").exists());
}

#[test]
#[rule("S-45")]
fn s45_what_has_no_dry_run_refuses_one_instead_of_running() {
    let scratch = scratch();
    scratch.json(&["apply", "c"]);
    for words in [
        &["call", "state.revert", "c", "--test"][..],
        &["call", "state.revert", "c", "test=True"],
        &["revert", "c", "test=True"],
        &["revert", "--test", "c"],
        &["call", "cmd.shell", "rm @T@/x", "--test"],
        &["call", "cmd.run_all", "rm @T@/x", "test=True"],
    ] {
        let done = scratch.zester(words);
        assert_eq!(done.code, Some(1), "{words:?}: {}", done.stdout);
        assert!(scratch.path("x").exists(), "{words:?} ran");
    }
}

#[test]
#[rule("C-5")]
fn c5_check_takes_the_flag_that_says_what_it_does() {
    let scratch = scratch();
    assert_eq!(scratch.json(&["check", "c", "--test"])["test"], true);
    assert!(!scratch.path("x").exists());
}

#[test]
fn a_word_that_is_no_reference_is_told_as_such() {
    let scratch = scratch();
    for command in ["apply", "check", "revert", "graph"] {
        let done = scratch.zester(&[command, "c", "concurrency=1"]);
        assert_eq!(done.code, Some(1), "{}", done.stdout);
        assert!(done.stderr.contains("`concurrency=1` is no reference"), "{}", done.stderr);
    }
    for command in ["apply", "lint"] {
        let done = scratch.zester(&[command, "/etc/hostname"]);
        assert_eq!(done.code, Some(1), "{}", done.stdout);
        assert!(done.stderr.contains("/etc/hostname is no state file"), "{}", done.stderr);
    }
}
