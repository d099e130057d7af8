//! What cannot be written is said before it is tried.

use crate::scratch::Scratch;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use zester_rule::rule;
use zester_testkit::skip;

const STATES: &str = r#"
new:
  file.managed: [{path: "@T@/d/new"}, {content: x}]
mode:
  file.managed: [{path: "@T@/d/f"}, {mode: "0600"}]
content:
  file.managed: [{path: "@T@/d/g"}, {content: x}]
gone:
  file.absent: [{path: "@T@/d/h"}]
made:
  file.directory: [{path: "@T@/d/x/y"}, {makedirs: true}]
link:
  file.symlink: [{path: "@T@/d/l"}, {target: x}]
"#;

/// Every state fails, with some of these words of the system, and so does the apply.
fn refused(scratch: &Scratch, run: impl Fn(&str) -> Command, words: &[&str]) {
    for mode in ["check", "apply"] {
        let done: crate::scratch::Done = run(mode).output().unwrap().into();
        let result = done.json();
        assert_eq!(done.code, Some(2), "{mode}: {}", done.stderr);
        for (name, state) in result["states"].as_object().unwrap() {
            let error = state["error"].as_str().unwrap();
            let said = words.iter().any(|words| error.contains(words));
            assert!(said, "{mode}, {name}: {error}");
            assert_eq!(state["changed"], false, "{mode}, {name}");
        }
        assert_eq!(result["failed"], 6, "{mode}");
    }
    assert_eq!(scratch.read("d/g").unwrap(), "old");
}

/// The binary as another user; where it is may be closed to others.
fn as_nobody(scratch: &Scratch, words: &[&str]) -> Command {
    let zester = scratch.path("zester");
    if !zester.exists() {
        std::fs::copy(env!("CARGO_BIN_EXE_zester"), &zester).unwrap();
    }
    let template = scratch.command(words);
    let mut command = Command::new(&zester);
    command.args(template.get_args()).current_dir(scratch.root()).uid(65_534).gid(65_534);
    command.envs(template.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

fn scratch() -> Scratch {
    let scratch = Scratch::with(STATES);
    for name in ["f", "g", "h"] {
        scratch.write(&format!("d/{name}"), "old");
        let open = std::fs::Permissions::from_mode(0o644);
        std::fs::set_permissions(scratch.path(&format!("d/{name}")), open).unwrap();
    }
    scratch
}

#[test]
#[rule("S-30")]
fn s30_a_read_only_file_system_fails_in_the_dry_run_too() {
    let scratch = scratch();
    let mount = scratch.fill("mount --bind @T@/d @T@/d && mount -o remount,bind,ro @T@/d");
    let tried = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !tried.is_ok_and(|tried| tried.status.success()) {
        skip!("nothing can be mounted here");
    }
    let run = |mode: &str| {
        let zester = scratch.command(&["--format", "json", mode, "c"]);
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &format!("{mount} && exec \"$@\""), "sh"]).arg(zester.get_program());
        command.args(zester.get_args()).current_dir(scratch.root());
        command.envs(zester.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    };
    refused(&scratch, run, &["read-only file system"]);
}

#[test]
#[rule("S-30")]
fn s30_files_of_root_fail_in_the_dry_run_of_another_user_too() {
    if !rustix::process::geteuid().is_root() {
        skip!("only root can become another user");
    }
    let scratch = scratch();
    give_data_to_nobody(&scratch);
    let run = |mode: &str| as_nobody(&scratch, &["--format", "json", mode, "c"]);
    refused(&scratch, run, &["permission denied", "operation not permitted"]);
}

fn give_data_to_nobody(scratch: &Scratch) {
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scratch.root(), open).unwrap();
    std::fs::create_dir(scratch.path("data")).unwrap();
    std::os::unix::fs::chown(scratch.path("data"), Some(65_534), Some(65_534)).unwrap();
}

/// What would have to be given to root, in a directory that is open to all.
const GIVEN: &str = r#"
new:
  file.managed: [{path: "@T@/d/new"}, {content: x}, {user: root}]
group:
  file.managed: [{path: "@T@/d/group"}, {content: x}, {group: root}]
content:
  file.managed: [{path: "@T@/d/g"}, {content: x}]
made:
  file.directory: [{path: "@T@/d/x/y"}, {makedirs: true}, {user: root}]
link:
  file.symlink: [{path: "@T@/d/l"}, {target: x}, {user: root}]
below:
  file.managed: [{path: "@T@/d/own/new"}, {content: x}, {makedirs: true}, {group: root}]
"#;

#[test]
#[rule("S-30")]
fn s30_what_cannot_be_given_away_fails_in_the_dry_run_too() {
    if !rustix::process::geteuid().is_root() {
        skip!("only root can become another user");
    }
    let scratch = Scratch::with(GIVEN);
    scratch.write("d/g", "old");
    std::fs::set_permissions(scratch.path("d/g"), std::fs::Permissions::from_mode(0o644)).unwrap();
    std::fs::set_permissions(scratch.path("d"), std::fs::Permissions::from_mode(0o777)).unwrap();
    give_data_to_nobody(&scratch);
    let run = |mode: &str| as_nobody(&scratch, &["--format", "json", mode, "c"]);
    refused(&scratch, run, &["operation not permitted"]);
}

#[test]
#[rule("S-39")]
fn s39_a_dry_run_that_cannot_read_what_is_pending_fails() {
    if !rustix::process::geteuid().is_root() {
        skip!("only root can become another user");
    }
    let scratch = Scratch::with("d:\n  file.directory: [{path: \"@T@\"}]\n");
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(scratch.root(), open).unwrap();
    assert_eq!(scratch.zester(&["apply", "c"]).code, Some(0));
    for words in [&["check", "c"][..], &["status"]] {
        let done: crate::scratch::Done = as_nobody(&scratch, words).output().unwrap().into();
        assert_eq!(done.code, Some(1), "{}", done.stdout);
        assert!(done.stderr.contains("is unknown") && done.stderr.contains("--data-dir"), "{}", done.stderr);
    }
}

#[test]
#[rule("S-30")]
fn s30_a_directory_that_can_only_be_written_takes_what_the_dry_run_promised() {
    if !rustix::process::geteuid().is_root() {
        skip!("only root can become another user");
    }
    let scratch = Scratch::with(
        r#"
file:
  file.managed: [{path: "@T@/d/new"}, {content: x}]
link:
  file.symlink: [{path: "@T@/d/l"}, {target: x}]
"#,
    );
    scratch.write("d/g", "old");
    std::fs::set_permissions(scratch.path("d"), std::fs::Permissions::from_mode(0o333)).unwrap();
    give_data_to_nobody(&scratch);
    for mode in ["check", "apply"] {
        let done: crate::scratch::Done =
            as_nobody(&scratch, &["--format", "json", mode, "c"]).output().unwrap().into();
        let result = done.json();
        assert_eq!((&result["failed"], &result["changed"]), (&0.into(), &2.into()), "{mode}: {result}");
    }
    assert_eq!(scratch.read("d/new").unwrap(), "x");
}

#[test]
#[rule("S-30")]
fn s30_packages_fail_in_the_dry_run_of_another_user_too() {
    if !rustix::process::geteuid().is_root() {
        skip!("only root can become another user");
    }
    let scratch =
        Scratch::with("new:\n  pkg.installed: [{name: hello}]\nold:\n  pkg.removed: [{name: dpkg}]\n");
    if !std::path::Path::new("/var/lib/dpkg/status").exists() {
        skip!("what is installed here is not in the hands of dpkg");
    }
    // What would be removed is there on every Debian; the plan is that of an apt which does nothing.
    let tools = [(
        "apt-get",
        "case \"$*\" in *remove*) echo 'Remv dpkg [1]';; *) echo 'Inst hello (2.10 Fake [all])';; esac",
    )];
    for (name, body) in tools {
        scratch.write(&format!("bin/{name}"), &format!("#!/bin/sh\n{body}\n"));
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(scratch.path(&format!("bin/{name}")), open).unwrap();
    }
    give_data_to_nobody(&scratch);
    let path = format!("{}:/usr/bin:/bin", scratch.path("bin").display());
    let result = |mut command: Command| {
        let done: crate::scratch::Done = command.env("PATH", &path).output().unwrap().into();
        done.json()
    };
    let root = result(scratch.command(&["--format", "json", "check", "c", "--data-dir", "@T@/data-of-root"]));
    assert_eq!((&root["failed"], &root["changed"]), (&0.into(), &2.into()), "{root}");
    for mode in ["check", "apply"] {
        let nobody = result(as_nobody(&scratch, &["--format", "json", mode, "c"]));
        assert_eq!((&nobody["failed"], &nobody["changed"]), (&2.into(), &0.into()), "{mode}: {nobody}");
        for state in nobody["states"].as_object().unwrap().values() {
            let error = state["error"].as_str().unwrap();
            assert!(error.contains("only root can change what is installed"), "{mode}: {error}");
        }
    }
}
