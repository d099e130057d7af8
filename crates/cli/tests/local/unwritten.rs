//! What could not be printed never turns a failure into a success (C-13).

use crate::scratch::{Done, Scratch};
use std::process::Stdio;
use zester_rule::rule;

fn scratch() -> Scratch {
    let scratch = Scratch::new();
    scratch.write("states/good.zy", "a:\n  test.succeed_with_changes: []\n");
    scratch.write("states/bad.zy", "a:\n  test.fail_without_changes: []\n");
    scratch.write("states/broken.sls", "a:\n  test.nopp: []\n");
    scratch
}

/// Runs it with a full disk as its output.
fn on_a_full_disk(scratch: &Scratch, words: &[&str]) -> Done {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    scratch.command(words).stdout(full).stderr(Stdio::piped()).output().unwrap().into()
}

/// Runs it with a reader that has gone.
fn without_a_reader(scratch: &Scratch, words: &[&str]) -> Done {
    let mut child = scratch.spawn(words);
    drop(child.stdout.take());
    child.wait_with_output().unwrap().into()
}

const GOOD: &[&[&str]] = &[
    &["apply", "good"],
    &["check", "good"],
    &["call", "test.echo", "hi"],
    &["call", "test.ping"],
    &["graph", "good"],
    &["lint", "states/good.zy"],
    &["status"],
    &["doc"],
    &["doc", "file.managed"],
    &["schema"],
    &["version"],
];

const FAILED: &[(&[&str], i32)] = &[
    (&["apply", "bad"], 2),
    (&["check", "bad"], 2),
    (&["call", "test.fail_without_changes"], 2),
    (&["lint"], 1),
    (&["apply", "broken"], 1),
    (&["revert", "--run", "nonsense"], 1),
];

const FORMATS: [&str; 3] = ["text", "json", "yaml"];

#[test]
#[rule("C-13")]
fn c13_a_good_run_whose_output_is_lost_says_so_and_is_exit_code_two() {
    let scratch = scratch();
    for words in GOOD {
        for format in FORMATS {
            let words = [*words, &["--format", format]].concat();
            let done = on_a_full_disk(&scratch, &words);
            assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
            let said = "error: the output could not be written: no space left on device\n";
            assert!(done.stderr.ends_with(said), "{words:?}: {}", done.stderr);
        }
    }
    for words in [&["--help"][..], &["apply", "--help"], &["--version"], &["completions", "bash"]] {
        let done = on_a_full_disk(&scratch, words);
        assert_eq!(done.code, Some(2), "{words:?}: {}", done.stderr);
    }
}

#[test]
#[rule("C-13")]
fn c13_a_failure_whose_output_is_lost_stays_that_failure() {
    let scratch = scratch();
    for (words, code) in FAILED {
        for format in FORMATS {
            let words = [*words, &["--format", format]].concat();
            assert_eq!(on_a_full_disk(&scratch, &words).code, Some(*code), "full: {words:?}");
            assert_eq!(without_a_reader(&scratch, &words).code, Some(*code), "gone: {words:?}");
        }
    }
}

#[test]
#[rule("C-13")]
fn c13_a_reader_may_go_when_it_has_read_enough() {
    let scratch = scratch();
    for words in GOOD {
        for format in FORMATS {
            let words = [*words, &["--format", format]].concat();
            let done = without_a_reader(&scratch, &words);
            assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{words:?}");
        }
    }
}
