//! What the words of a call on the fleet mean, and that none is ignored.

use crate::up::{Up, up};
use std::process::Stdio;
use zester_rule::rule;

const TOUCH: &str = "t:\n  file.managed: [{path: \"@T@/ran\"}, {content: x}]\n";

fn refused(up: &Up, words: &[&str], wanted: &str) {
    let done = up.zester(words).exits(1);
    assert!(done.stderr.contains(wanted), "{words:?}: {}", done.stderr);
    assert!(!up.path("ran").exists(), "{words:?} ran");
}

#[test]
#[rule("S-45", "C-12", "C-15", "C-3")]
fn s45_c12_c15_words_on_the_fleet_are_read_as_on_one_machine() {
    let up = up(2, &[("t", TOUCH)]);
    let touch = format!("touch {}", up.path("ran").display());
    for (words, wanted) in [
        (&["peel-1", "state.apply", "t", "test=Ture"][..], "neither true nor false"),
        (&["peel-1", "state.apply", "t", "--test", "test=False"], "asked for and denied"),
        (&["peel-1", "state.apply", "t", "test=1", "--direct", "test=0"], "asked for and denied"),
        (&["peel-1", "state.highstate", "t"], "takes no reference"),
        (&["peel-1", "state.apply", "t", "concurrency=1"], "`concurrency=1` is none of them"),
        (&["peel-1", "state.revert", "t", "--test"], "state.revert has no dry run"),
        (&["peel-1", "cmd.shell", &touch, "--test"], "cmd.shell has no dry run"),
        (&["peel-1", "cmd.run"], "its command is missing"),
        (&["peel-1", "cmd.run", &format!("comand={touch}")], "its command is missing"),
        (&["peel-1,peel-2", "test.ping"], "a list of ids is `L@peel-1,peel-2`"),
        (&["!peel-1", "test.ping"], "write `not peel-1`"),
        (&["peel-1", "test.echo", "a", "b"], "`b` is one word too many"),
        (&["", "test.ping"], "the target is empty"),
    ] {
        refused(&up, words, wanted);
    }

    for letters in ["1.10", "007", "0644", "yes", "0x1F", "[main]", "null", "5 # five", "'q'"] {
        let (path, content) = (up.path("x").display().to_string(), format!("content={letters}"));
        for direct in [&[][..], &["--direct"]] {
            let words = [&["peel-1", "file.managed", &path, &content, "mode=0600"][..], direct].concat();
            up.json(&words, 0);
            assert_eq!(std::fs::read_to_string(up.path("x")).unwrap(), letters, "{direct:?}");
        }
        assert_eq!(up.json(&["peel-1", "test.echo", letters], 0)["peels"]["peel-1"]["return"], letters);
    }
    for direct in [&[][..], &["--direct"]] {
        let told = up.json(&[&["peel-1", "test.echo", "a=b"][..], direct].concat(), 0);
        assert_eq!(told["peels"]["peel-1"]["return"], "a=b");
        let ran = up.json(&[&["peel-1", "cmd.run", "FOO=bar env"][..], direct].concat(), 0);
        let printed = &ran["peels"]["peel-1"]["return"]["states"]["cmd.run:FOO=bar env"]["details"]["stdout"];
        assert!(printed.as_str().is_some_and(|text| text.contains("FOO=bar\n")), "{ran}");
    }
    let guarded = up.json(&["peel-1", "cmd.run", "true", "onlyif=[ -d / ]", "timeout=5"], 0);
    assert_eq!(guarded["peels"]["peel-1"]["return"]["changed"], 1, "a guard is a command: {guarded}");

    // A name that nobody has is said, and missing.
    let done = up.zester(&["L@peel-1,nosuch", "test.ping"]).exits(3);
    assert!(done.stderr.contains("no peel is called nosuch"), "{}", done.stderr);
    assert!(done.stdout.contains("missing: nosuch"), "{}", done.stdout);
    assert!(!done.stdout.contains("job retry"), "there is nobody to ask again: {}", done.stdout);
    let document = up.json(&["L@peel-1,nosuch", "test.ping", "--direct"], 3);
    assert_eq!(document["peels"]["nosuch"]["status"], "missing");
    up.json(&["L@peel-1,peel-2 and not L@nosuch", "test.ping"], 0);

    let done = up.zester(&["peel-1", "test.ping", "--async"]).exits(0);
    assert_eq!(done.stdout.split_whitespace().count(), 1, "the jid and nothing else: {}", done.stdout);
    // Only what is over can be done again.
    up.zester(&["job", "watch", done.stdout.trim()]).exits(0);
    let again = up.zester(&["job", "retry", done.stdout.trim(), "--async"]).exits(0);
    assert_eq!(again.stdout.split_whitespace().count(), 1, "{}", again.stdout);
}

/// Every way to the same function: here, by a master, past the masters, and once more as a new job.
#[test]
#[rule("C-12", "C-15")]
fn c12_c15_a_value_arrives_alike_on_every_path() {
    let up = up(1, &[]);
    let file = up.path("x");
    let path = file.display().to_string();
    let arrived = || {
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::remove_file(&file).unwrap();
        text
    };
    for letters in [
        "1.10", "007", "0644", "yes", "No", "0x1F", "1e3", "1_000", "~", "null", "[a, 1]", "{a: 1}", " 5 ",
        "a=b",
    ] {
        let content = format!("content={letters}");
        let words = ["file.managed", &path, &content, "mode=0640"];
        up.json(&[&["call"], &words[..]].concat(), 0);
        let local = arrived();
        assert_eq!(local, letters);
        let job = up.json(&[&["peel-1"], &words[..]].concat(), 0);
        assert_eq!(arrived(), local, "by a master");
        up.json(&[&["peel-1"], &words[..], &["--direct"]].concat(), 0);
        assert_eq!(arrived(), local, "past the masters");
        up.json(&["job", "retry", job["jid"].as_str().unwrap()], 0);
        assert_eq!(arrived(), local, "as a retry");
    }
}

#[test]
#[rule("C-13")]
fn c13_an_answer_of_the_fleet_that_cannot_be_printed_keeps_its_exit_code() {
    let up = up(1, &[]);
    let on_a_full_disk = |words: &[&str]| {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = up.command(words).stdout(full).stderr(Stdio::piped()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for format in ["text", "json", "yaml"] {
        for words in
            [&["*", "test.ping"][..], &["job", "list"], &["peel", "list"], &["*", "test.ping", "--async"]]
        {
            let words = [words, &["--format", format]].concat();
            let (code, said) = on_a_full_disk(&words);
            assert_eq!(code, Some(2), "{words:?}: {said}");
            assert!(said.contains("the output could not be written"), "{words:?}: {said}");
        }
        let failed = on_a_full_disk(&["*", "test.fail_without_changes", "--format", format]);
        assert_eq!(failed.0, Some(2), "{}", failed.1);
        let missing = on_a_full_disk(&["L@peel-1,nosuch", "test.ping", "--format", format]);
        assert_eq!(missing.0, Some(3), "{}", missing.1);
    }
    let mut gone = up.spawn(&["*", "test.fail_without_changes"]);
    drop(gone.stdout.take());
    assert_eq!(gone.wait().unwrap().code(), Some(2));
}
