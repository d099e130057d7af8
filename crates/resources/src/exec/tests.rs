use crate::context::{Applying, Change, Checking, Forced};
use crate::laws::{Case, FewFiles, Promise, bind_json, furnish};
use serde_json::{Value as Json, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use zester_host::overlay::Overlay;
use zester_host::process::Runner;
use zester_host::process::fake::{Scripted, exit};
use zester_host::real::Real;
use zester_host::{Fault, FaultKind, HostRead, HostWrite, NewFile, Query};
use zester_rule::rule;

pub(crate) fn cases() -> Vec<Case> {
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, |host: &Arc<Overlay>| {
            furnish(host, "");
            let made = Arc::downgrade(host);
            // Every command succeeds and leaves `/done`.
            Arc::new(Scripted::new().with(move |_| {
                let host = made.upgrade()?;
                let file = NewFile { content: b"", mode: 0o644, owner: host.me() };
                Some(host.put_file("/done".as_ref(), &file).map(|()| exit(0, "", "")))
            }))
        })
    };
    vec![
        case("exec.run", json!({ "command": "tool" }), Promise::Acts),
        case("exec.run", json!({ "command": "tool", "creates": "/done" }), Promise::Converges),
        case("exec.run", json!({ "command": "tool", "refresh_only": true }), Promise::Clean),
        case("cmd.run", json!({ "command": "tool | more" }), Promise::Acts),
        case("cmd.run", json!({ "command": "tool | more", "creates": ["/done"] }), Promise::Converges),
        case("cmd.wait", json!({ "command": "tool" }), Promise::Clean),
        case("cmd.script", json!({ "command": "salt://run.sh a b", "creates": "/done" }), Promise::Converges),
        case("cmd.script", json!({ "command": "x", "source": "salt://nope" }), Promise::Fails),
    ]
}

struct Asked {
    forced: Option<Forced>,
    cancel: CancellationToken,
}

/// Checks and applies on this machine. `Ok(None)`: nothing to do.
async fn run_as(kind: &str, params: Json, asked: Asked) -> Result<Option<Change>, Fault> {
    let bound = bind_json(kind, &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    let (host, runner) = (Real::new(), Runner::new());
    let checking = Checking {
        host: &host,
        query: Query::through(&runner),
        files: &FewFiles,
        forced: asked.forced,
        dry_run: false,
        cancel: &asked.cancel,
    };
    let Some(drift) = bound.check(&checking).await? else { return Ok(None) };
    let cx = Applying::new(&host, &runner, &asked.cancel);
    bound.apply(&drift, &cx).await.map(Some)
}

async fn run(kind: &str, params: Json) -> Result<Option<Change>, Fault> {
    run_as(kind, params, Asked { forced: None, cancel: CancellationToken::new() }).await
}

async fn stdout(kind: &str, params: Json) -> String {
    let change = run(kind, params).await.unwrap().expect("it runs");
    change.details["stdout"].as_str().unwrap().to_string()
}

#[tokio::test]
#[rule("X-5")]
async fn x5_posix_has_no_shell_and_shell_has_one() {
    let posix = json!({ "command": "/bin/echo 'two words' $HOME * | wc" });
    assert_eq!(stdout("exec.run", posix).await, "two words $HOME * | wc\n");
    assert_eq!(stdout("cmd.run", json!({ "command": "echo one two | wc -w" })).await.trim(), "2");
    let args = json!({ "command": "/bin/echo", "args": ["$HOME", "a b"] });
    assert_eq!(stdout("cmd.run", args).await, "$HOME a b\n");
}

#[tokio::test]
#[rule("X-2")]
async fn x2_exit_codes_are_judged_by_returns_and_the_error_ends_in_stderr() {
    let fault = run("cmd.run", json!({ "command": "echo sorry >&2; exit 3" })).await.unwrap_err();
    assert_eq!(fault.message, "desired state failed: exit code 3 not in [0]\nsorry");
    assert_eq!(fault.kind, FaultKind::CommandFailed);
    assert_eq!((&fault.details["exit_code"], &fault.details["stderr"]), (&json!(3), &json!("sorry\n")));
    let fine = run("cmd.run", json!({ "command": "exit 3", "returns": [0, 3] })).await.unwrap().unwrap();
    assert_eq!(fine.details["exit_code"], 3);
    let fault = run("exec.run", json!({ "command": "/bin/true", "returns": 1 })).await.unwrap_err();
    assert_eq!(fault.message, "desired state failed: exit code 0 not in [1]");
    assert!(fault.touched, "what it did before, only its author knows");
    let fault = run("cmd.run", json!({ "command": "kill -9 $$" })).await.unwrap_err();
    assert_eq!(fault.message, "desired state failed: killed by signal 9 (SIGKILL)");
    assert_eq!(fault.details["signal"], 9);
}

#[tokio::test]
#[rule("X-2")]
async fn x2_what_exists_afterwards_wins_over_the_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let made = dir.path().join("made");
    let params = json!({ "command": format!("touch {}; exit 9", made.display()), "creates": made });
    assert!(run("cmd.run", params.clone()).await.unwrap().unwrap().changed);
    assert!(run("cmd.run", params).await.unwrap().is_none());
}

#[tokio::test]
#[rule("X-1")]
async fn x1_a_trigger_beats_creates_and_refresh_only() {
    let params = json!({ "command": "true", "creates": "/", "refresh_only": true });
    assert!(run("cmd.run", params.clone()).await.unwrap().is_none());
    for (forced, diff) in [(Forced::Watch, "Executed via subscribe"), (Forced::Prereq, "Executed")] {
        let asked = Asked { forced: Some(forced), cancel: CancellationToken::new() };
        let change = run_as("cmd.run", params.clone(), asked).await.unwrap().unwrap();
        assert_eq!(change.diff, diff);
    }
}

#[tokio::test]
#[rule("X-3")]
async fn x3_a_dry_run_says_what_it_would_do() {
    let bound =
        bind_json("exec.run", &json!({ "command": "no-such-program", "cwd": "/nowhere" })).ok().unwrap();
    let (host, runner, cancel) = (Real::new(), Runner::new(), CancellationToken::new());
    for (forced, diff) in [
        (None, "Would have executed"),
        (Some(Forced::Prereq), "Would have executed"),
        (Some(Forced::Watch), "Would have executed via subscribe"),
    ] {
        let cx = Checking {
            host: &host,
            query: Query::through(&runner),
            files: &FewFiles,
            forced,
            dry_run: true,
            cancel: &cancel,
        };
        let drift = bound.check(&cx).await.unwrap().unwrap();
        assert_eq!(bound.explain(&drift, false).diff, diff);
    }
}

#[tokio::test]
#[rule("X-5")]
async fn x5_environment_path_cwd_stdin_and_umask_reach_the_command() {
    let dir = tempfile::tempdir().unwrap();
    let params = json!({
        "command": "echo $CC $(pwd); cat; umask", "cwd": dir.path(), "environment": ["CC=gcc"], "stdin": "in\n", "umask": "027",
    });
    assert_eq!(stdout("cmd.run", params).await, format!("gcc {}\nin\n0027\n", dir.path().display()));
    let fault = run("cmd.run", json!({ "command": "true", "cwd": "/nowhere" })).await.unwrap_err();
    assert_eq!(fault.message, "working directory /nowhere does not exist");
    let fault = run("exec.run", json!({ "command": "no-such", "path": "/usr/bin" })).await.unwrap_err();
    assert_eq!(fault.message, "program `no-such` not found in PATH /usr/bin");
    let fault = run("cmd.run", json!({ "command": "true", "runas": "nobody-here" })).await.unwrap_err();
    assert_eq!(fault.message, "user `nobody-here` does not exist");
}

#[tokio::test]
#[rule("X-6")]
async fn x6_a_timeout_says_so_and_keeps_the_output() {
    let begun = Instant::now();
    // Long enough for the first word on a busy machine.
    let params = json!({ "command": "echo begun; sleep 120 & sleep 120", "timeout": "3s" });
    let fault = run("cmd.run", params).await.unwrap_err();
    assert_eq!((fault.message.as_str(), fault.kind), ("timed out after 3s", FaultKind::TimedOut));
    assert_eq!((&fault.details["stdout"], &fault.details["timed_out"]), (&json!("begun\n"), &json!(true)));
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test]
#[rule("S-32")]
async fn s32_a_cancelled_command_ends_canceled() {
    let cancel = CancellationToken::new();
    let asked = Asked { forced: None, cancel: cancel.clone() };
    let dir = tempfile::tempdir().unwrap();
    let begun = dir.path().join("begun");
    let command = format!("touch {}; sleep 120", begun.display());
    let running = tokio::spawn(run_as("cmd.run", json!({ "command": command }), asked));
    let patience = Duration::from_secs(60);
    zester_testkit::wait_until("the command", patience, async || begun.exists().then_some(())).await;
    cancel.cancel();
    let fault = running.await.unwrap().unwrap_err();
    assert_eq!((fault.message.as_str(), fault.kind), ("canceled", FaultKind::Canceled));
}

#[tokio::test]
#[rule("X-7")]
async fn x7_output_that_is_no_text_is_marked() {
    let change = run("cmd.run", json!({ "command": "printf 'a\\377b'" })).await.unwrap().unwrap();
    assert_eq!(change.details["stdout_lossy"], true);
    assert!(change.details.get("stderr_lossy").is_none());
}

#[tokio::test]
#[rule("S-41")]
async fn s41_a_script_runs_with_its_arguments_and_leaves_nothing_behind() {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("script");
    std::fs::write(&script, "echo \"$1-$2\" $0").unwrap();
    let out =
        stdout("cmd.script", json!({ "command": format!("{} one 'two three'", script.display()) })).await;
    let (words, path) = out.trim().rsplit_once(' ').unwrap();
    assert_eq!(words, "one-two three");
    assert!(!std::path::Path::new(path).exists(), "{path}");
}

#[test]
#[rule("X-5")]
fn x5_bad_values_are_refused_with_the_reason() {
    for (params, part) in [
        (json!({ "command": "/bin/echo 'unbalanced" }), "quote"),
        (json!({ "command": "" }), "`command`"),
        (json!({ "command": "''" }), "`command`"),
        (json!({ "command": "x", "path": "bin:/usr/bin" }), "absolute"),
        (json!({ "command": "x", "environment": ["NOEQUALS"] }), "NOEQUALS"),
        (json!({ "command": "x", "environment": ["=x"] }), "KEY=value"),
        (json!({ "command": "x", "timeout": "soon" }), "soon"),
        (json!({ "command": "x", "returns": [0, 256] }), "256"),
        (json!({ "command": "x", "returns": [-1] }), "-1"),
        (json!({ "command": "x", "source": "salt://x" }), "cmd.script"),
    ] {
        let diagnostics = bind_json("exec.run", &params).err().unwrap_or_default();
        let words =
            diagnostics.iter().map(|diagnostic| format!("{} {:?}", diagnostic.message, diagnostic.hint));
        assert!(words.into_iter().any(|words| words.contains(part)), "{params}: {diagnostics:?}");
    }
    for environment in
        [json!(["A=1", "B=x=y"]), json!({ "A": 1, "B": "x=y" }), json!([{ "A": 1 }, { "B": "x=y" }])]
    {
        let bound = bind_json("exec.run", &json!({ "command": "x", "env": environment })).ok().unwrap();
        let expected = [("A".to_string(), "1".to_string()), ("B".to_string(), "x=y".to_string())];
        assert_eq!(bound.guard_setting().environment, expected);
    }
}

#[test]
#[rule("S-3")]
fn s3_a_command_that_the_kernel_starts_for_nobody_is_refused() {
    let refused = |params: Json| bind_json("cmd.run", &params).err().map(|mut found| found.remove(0).message);
    let text = |bytes: usize| "a".repeat(bytes);
    assert_eq!(refused(json!({ "name": text(131_071) })), None);
    for (params, what) in [
        (json!({ "name": text(131_072) }), "a command"),
        (json!({ "name": "echo", "args": ["x", text(131_072)] }), "an argument"),
        (json!({ "name": "true", "environment": { "A": text(131_070) } }), "a variable"),
    ] {
        let message = refused(params).expect(what);
        assert!(message.contains(&format!("{what} has 131071 bytes at most")), "{message}");
    }
}

#[tokio::test]
#[rule("X-2")]
async fn x2_a_script_may_remove_itself_and_what_cannot_be_removed_hides_no_exit() {
    let dir = tempfile::tempdir().unwrap();
    let script = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        json!({ "command": path, "source": path })
    };
    let change = run("cmd.script", script("self", "rm -- \"$0\"; echo done")).await.unwrap().unwrap();
    assert_eq!(change.details["stdout"], "done\n");
    // Something that no removal of a file takes away.
    let stays = script("stays", "rm -- \"$0\"; mkdir -- \"$0\"; echo \"$0\"; exit 3");
    let fault = run("cmd.script", stays).await.unwrap_err();
    assert!(fault.message.starts_with("desired state failed: exit code 3"), "{fault}");
    assert_eq!(fault.details["exit_code"], 3);
    let left = fault.details["stdout"].as_str().unwrap().trim();
    assert!(fault.details["warning"].as_str().unwrap().contains(left), "{fault:?}");
    std::fs::remove_dir(left).unwrap();
}

#[tokio::test]
#[rule("S-44")]
async fn s44_what_a_command_would_create_is_there_and_nobody_knows_what_it_holds() {
    let host = Arc::new(Overlay::empty());
    furnish(&host, "");
    let (processes, cancel) = (Scripted::new(), CancellationToken::new());
    let bound = |kind: &str, params: Json| {
        bind_json(kind, &params).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"))
    };
    let cx = Checking {
        host: &*host,
        query: Query::through(&processes),
        files: &FewFiles,
        forced: None,
        dry_run: true,
        cancel: &cancel,
    };
    let command = bound("cmd.run", json!({ "command": "tool > /made", "creates": "/made" }));
    let drift = command.check(&cx).await.unwrap().unwrap();
    command.predict(&drift, &host).unwrap();
    assert!(command.check(&cx).await.unwrap().is_none());
    assert!(bound("file.exists", json!({ "path": "/made" })).check(&cx).await.unwrap().is_none());
    for (kind, params) in [
        ("file.append", json!({ "path": "/made", "text": "more" })),
        ("file.comment", json!({ "path": "/made", "regex": "^x" })),
        ("file.managed", json!({ "path": "/made", "content": "whole" })),
    ] {
        let fault = bound(kind, params).check(&cx).await.err().expect(kind);
        assert_eq!(fault.kind, FaultKind::NotFound, "{kind}: {fault}");
        assert!(fault.message.contains("what /made holds is not known before"), "{fault}");
    }
    // Its mode can be said all the same, and then it is known no better.
    let mode = bound("file.managed", json!({ "path": "/made", "mode": "0600" }));
    let drift = mode.check(&cx).await.unwrap().unwrap();
    mode.predict(&drift, &host).unwrap();
    assert_eq!(host.stat("/made".as_ref()).unwrap().unwrap().mode, 0o600);
    assert!(host.read("/made".as_ref(), 10).is_err());
}
