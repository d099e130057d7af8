//! Whole runs of small trees, seen from where the command line and a peel see them.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_converge::Error;
use zester_converge::data_dir::DataDir;
use zester_converge::deadline::Deadline;
use zester_converge::functions::Access;
use zester_converge::inputs::CompileRequest;
use zester_converge::journal::JournalSnapshot;
use zester_converge::local_host::LocalHost;
use zester_converge::lock::{Note, RunLock};
use zester_converge::plan::Plan;
use zester_converge::run::{self, Options};
use zester_converge::run_loop::NoObserver;
use zester_host::process::Runner;
use zester_host::{BoxFuture, Exit, Fault, Launch, OutputSink, Processes};
use zester_model::outcome::{Mode, RunResult};
use zester_rule::rule;

/// Opening a pipe in this way works only while somebody waits at its other end.
const O_NONBLOCK: i32 = 0o4000;

/// A tree `c` in a directory of its own, and what runs of it left.
struct Scratch {
    temp: tempfile::TempDir,
    local_host: LocalHost,
    cancel: CancellationToken,
}

impl Scratch {
    /// `@T@` stands for the directory.
    fn with(states: &str) -> Scratch {
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("states")).unwrap();
        let scratch = Scratch { temp, local_host, cancel: CancellationToken::new() };
        scratch.write(states);
        scratch
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn write(&self, states: &str) {
        let text = states.replace("@T@", &self.temp.path().display().to_string());
        fs::write(self.path("states/c.zy"), text).unwrap();
    }

    async fn run(&self, mode: Mode) -> Result<RunResult, Error> {
        let request = CompileRequest {
            references: vec!["c".into()],
            states: Some(self.path("states")),
            settings: Default::default(),
            facts: None,
            id: Some("here".into()),
            ordered: false,
            environment: None,
            only: None,
            access: Access::Command,
            renderers: Default::default(),
            data_dir: None,
        };
        let plan = tokio::task::block_in_place(|| Plan::make(&request, &self.local_host, &self.cancel))?;
        let options = Options {
            mode,
            data_dir: self.path("data"),
            concurrency: 1,
            deadline: Deadline::none(),
            no_wait: false,
            force: false,
            run: None,
            turns: None,
        };
        run::run(Some(Arc::new(plan)), &options, &self.local_host, Arc::new(NoObserver), &self.cancel).await
    }

    fn data_dir(&self) -> DataDir {
        DataDir::open(&self.path("data")).unwrap()
    }

    fn unconfirmed(&self) -> Vec<String> {
        JournalSnapshot::read(&self.data_dir()).unwrap().unconfirmed.into_iter().collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-43", "S-31")]
async fn s43_a_revert_leads_back_to_what_the_check_cmd_had_said_before() {
    let tree = |mode: &str| {
        format!(
            "tree:\n  file.directory: [{{path: @T@/tree}}, {{mode: \"{mode}\"}}, {{check_cmd: test -e @T@/fine}}]\n"
        )
    };
    let scratch = Scratch::with(&tree("0755"));
    let name = "file.directory:tree";
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().failed, 1);
    assert_eq!(scratch.unconfirmed(), [name]);
    scratch.write(&tree("0700"));
    fs::write(scratch.path("fine"), "").unwrap();
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().failed, 0);
    assert!(scratch.unconfirmed().is_empty());
    assert_eq!(scratch.run(Mode::Revert).await.unwrap().changed, 1);
    assert_eq!(scratch.unconfirmed(), [name], "it is again as it did not pass");
    assert_eq!(scratch.run(Mode::Revert).await.unwrap().changed, 1);
    assert!(!scratch.path("tree").exists());
    assert!(scratch.unconfirmed().is_empty(), "what is gone need not be in place");
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-32", "S-42")]
async fn s32_who_was_given_up_keeps_the_next_run_waiting_until_it_is_gone() {
    let made = "made:\n  file.directory: [{path: @T@/made}]\n";
    let reads = "f:\n  file.managed: [{path: @T@/f}, {source: salt://pipe}, {require: [{file: made}]}]\n";
    let scratch = Scratch::with(&format!("{made}{reads}"));
    assert!(Command::new("mkfifo").arg(scratch.path("states/pipe")).status().unwrap().success());
    let (pipe, cancel) = (scratch.path("states/pipe"), scratch.cancel.clone());
    let cancel_once_it_reads = tokio::spawn(async move {
        loop {
            if let Ok(writer) = OpenOptions::new().write(true).custom_flags(O_NONBLOCK).open(&pipe) {
                cancel.cancel();
                return writer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    let result = scratch.run(Mode::Apply).await.unwrap();
    let writer = cancel_once_it_reads.await.unwrap();
    assert_eq!(result.states["file.managed:f"].details["uninterruptible"], true);

    let scratch = Scratch { cancel: CancellationToken::new(), ..scratch };
    let note = Note {
        run_id: "r".into(),
        mode: Mode::Apply,
        asked: "c".into(),
        call: false,
        before: Vec::new(),
        pid: 1,
        life: String::new(),
        started_at: 1,
    };
    let refused = RunLock::take(&scratch.data_dir(), &note, true, &scratch.cancel, |_| {}).await.unwrap_err();
    assert!(refused.to_string().contains("canceled and hangs"), "{refused}");
    let logs = |extension: &str| {
        let names = fs::read_dir(scratch.path("data/journal")).unwrap().map(|entry| entry.unwrap().path());
        names.filter(|path| path.extension().is_some_and(|found| found == extension)).count()
    };
    assert_eq!((logs("open"), logs("log")), (1, 0), "it may still write");

    drop(writer);
    scratch.write(made);
    assert!(scratch.run(Mode::Apply).await.unwrap().success);
    assert_eq!((logs("open"), logs("log")), (0, 1));
    let runs = zester_converge::history::with_current(&scratch.data_dir(), 9).unwrap();
    assert_eq!(runs.iter().map(|run| run.canceled).collect::<Vec<_>>(), [false, true], "nobody was killed");
}

/// Runs commands as ever, and counts how often it was told to end what had slipped away from them.
struct Counting {
    runner: Runner,
    ended: AtomicUsize,
}

impl Processes for Counting {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        self.runner.run(launch, live, cancel)
    }

    fn kill_everything(&self) -> BoxFuture<'_, Vec<u32>> {
        self.ended.fetch_add(1, Ordering::SeqCst);
        self.runner.kill_everything()
    }
}

/// A peel goes on after the run, so that nothing else would end what got away from its command.
#[tokio::test(flavor = "multi_thread")]
#[rule("S-32")]
async fn s32_a_canceled_run_ends_what_slipped_away_from_its_commands_and_another_does_not() {
    let processes = Arc::new(Counting { runner: Runner::new(), ended: AtomicUsize::new(0) });
    let mut scratch = Scratch::with("a:\n  cmd.run: [{command: \"echo done\"}]\n");
    scratch.local_host.processes = processes.clone();
    assert!(!scratch.run(Mode::Apply).await.unwrap().canceled);
    assert_eq!(processes.ended.load(Ordering::SeqCst), 0, "a server that a state started stays");
    scratch.write("a:\n  cmd.run: [{command: \"touch @T@/begun; sleep 600\"}]\n");
    let (cancel, begun) = (scratch.cancel.clone(), scratch.path("begun"));
    let canceler = tokio::spawn(async move {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    });
    assert!(scratch.run(Mode::Apply).await.unwrap().canceled);
    canceler.await.unwrap();
    assert_eq!(processes.ended.load(Ordering::SeqCst), 1);
}

/// Both watch what was reverted, and the revert is canceled under the first.
#[tokio::test(flavor = "multi_thread")]
#[rule("S-59", "S-39")]
async fn s59_a_refresh_that_a_revert_was_kept_from_stays_pending() {
    let scratch = Scratch::with(
        r#"
conf:
  file.managed: [{path: @T@/conf}, {content: new}]
first:
  cmd.run: [{command: "test ! -e @T@/slow || { touch @T@/begun; sleep 600; }"}, {refresh_only: true}, {watch: [{file: conf}]}]
second:
  cmd.run: [{command: "touch @T@/told"}, {refresh_only: true}, {watch: [{file: conf}]}]
"#,
    );
    fs::write(scratch.path("conf"), "old").unwrap();
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().changed, 3);
    fs::remove_file(scratch.path("told")).unwrap();
    fs::write(scratch.path("slow"), "").unwrap();
    let (cancel, begun) = (scratch.cancel.clone(), scratch.path("begun"));
    let canceler = tokio::spawn(async move {
        while !begun.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cancel.cancel();
    });
    assert!(scratch.run(Mode::Revert).await.unwrap().canceled);
    canceler.await.unwrap();
    assert!(!scratch.path("told").exists());
    let pending = JournalSnapshot::read(&scratch.data_dir()).unwrap().pending;
    assert_eq!(pending.into_keys().collect::<Vec<_>>(), ["cmd.run:first", "cmd.run:second"]);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57", "S-30")]
async fn s57_what_another_state_decides_about_is_nobodys_to_clear_away() {
    let scratch = Scratch::with(
        "tree:\n  file.directory: [{path: @T@/tree}, {clean: true}]\n\
         @T@/tree/own:\n  file.managed: [{content: own}]\n\
         @T@/tree/a/b:\n  file.managed: [{content: b}, {makedirs: true}]\n\
         @T@/tree/edited:\n  file.append: [{text: more}]\n\
         same:\n  file.directory: [{path: @T@/copy}, {mode: \"0755\"}]\n\
         copy:\n  file.recurse: [{path: @T@/copy}, {source: salt://from}, {clean: true}]\n\
         @T@/copy/beside:\n  file.managed: [{content: beside}]\n",
    );
    fs::create_dir(scratch.path("states/from")).unwrap();
    fs::write(scratch.path("states/from/file"), "file").unwrap();
    fs::create_dir_all(scratch.path("tree/stray/deep")).unwrap();
    for stray in ["tree/stray/deep/file", "tree/edited", "tree/old"] {
        fs::write(scratch.path(stray), "").unwrap();
    }
    let names = |directory: &str| {
        let entries = fs::read_dir(scratch.path(directory)).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let checked = scratch.run(Mode::Check).await.unwrap();
    let applied = scratch.run(Mode::Apply).await.unwrap();
    assert_eq!((checked.changed, checked.failed), (applied.changed, applied.failed));
    assert_eq!(applied.failed, 0, "{applied:?}");
    assert_eq!(
        (names("tree"), names("copy")),
        (strings(&["a", "edited", "own"]), strings(&["beside", "file"]))
    );
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().changed, 0);
    scratch.run(Mode::Revert).await.unwrap();
    assert_eq!(names("tree"), ["edited", "old", "stray"], "with all that was cleared away");
    assert!(scratch.path("tree/stray/deep/file").exists());
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57")]
async fn s57_a_directory_that_another_state_fills_and_files_under_another_name_stay() {
    let scratch = Scratch::with(
        "copy:\n  file.recurse: [{path: @T@/copy}, {source: salt://from}]\n\
         only:\n  file.directory: [{path: @T@/copy}, {clean: true}, {mode: \"0750\"}, {require: [{file: copy}]}]\n\
         @T@/alias/y.conf:\n  file.managed: [{content: y}]\n\
         out:\n  file.directory: [{path: @T@/out}, {clean: true}]\n",
    );
    // Where nothing is forgiven, it is an error.
    let Err(Error::Diagnostics { diagnostics, .. }) = scratch.run(Mode::Apply).await else {
        panic!("it ran")
    };
    assert!(
        diagnostics[0].message.contains("`clean` of file.directory:only removes nothing"),
        "{diagnostics:?}"
    );
    fs::rename(scratch.path("states/c.zy"), scratch.path("states/c.sls")).unwrap();
    fs::create_dir(scratch.path("states/from")).unwrap();
    fs::write(scratch.path("states/from/file"), "file").unwrap();
    fs::create_dir(scratch.path("out")).unwrap();
    std::os::unix::fs::symlink("out", scratch.path("alias")).unwrap();
    for stray in ["out/stray", "out/y.conf"] {
        fs::write(scratch.path(stray), "").unwrap();
    }
    let applied = scratch.run(Mode::Apply).await.unwrap();
    assert_eq!(applied.failed, 0, "{applied:?}");
    let told = applied.states.values().any(|state| state.diff.contains("`clean` removes nothing"));
    assert!(told, "{applied:?}");
    assert!(scratch.path("copy/file").exists() && scratch.path("out/y.conf").exists());
    assert!(!scratch.path("out/stray").exists());
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().changed, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57", "S-30")]
async fn s57_what_a_state_above_fills_and_what_others_need_is_not_cleared_away() {
    let scratch = Scratch::with(
        "all:\n  file.recurse: [{path: @T@/all}, {source: salt://from}]\n\
         part:\n  file.directory: [{path: @T@/all/sub}, {clean: true}]\n\
         same:\n  file.recurse: [{path: @T@/all/sub/deep}, {source: salt://more}, {clean: true}]\n\
         build:\n  cmd.run: [{command: \"echo built > @T@/tree/built\"}, {creates: @T@/tree/built}]\n\
         tree:\n  file.directory: [{path: @T@/tree}, {clean: true}]\n",
    );
    fs::rename(scratch.path("states/c.zy"), scratch.path("states/c.sls")).unwrap();
    for directory in ["states/from/sub/deep", "states/more", "tree"] {
        fs::create_dir_all(scratch.path(directory)).unwrap();
    }
    for file in ["states/from/sub/file", "states/from/sub/deep/file", "states/more/more", "tree/stray"] {
        fs::write(scratch.path(file), "").unwrap();
    }
    fs::write(scratch.path("tree/built"), "before").unwrap();
    let applied = scratch.run(Mode::Apply).await.unwrap();
    assert_eq!(applied.failed, 0, "{applied:?}");
    for stays in ["all/sub/file", "all/sub/deep/file", "all/sub/deep/more"] {
        assert!(scratch.path(stays).exists(), "{stays}");
    }
    assert_eq!(fs::read_to_string(scratch.path("tree/built")).unwrap(), "before");
    assert!(!scratch.path("tree/stray").exists());
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().changed, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57")]
async fn s57_who_fills_a_directory_alone_clears_away_what_is_not_its_own() {
    let scratch = Scratch::with(
        "copy:\n  file.recurse: [{path: @T@/copy}, {source: salt://from}, {clean: true}]\n\
         packed:\n  archive.extracted: [{path: @T@/packed}, {source: salt://packed.tar}, {clean: true}]\n",
    );
    for directory in ["states/from/sub", "copy/sub", "packed/top"] {
        fs::create_dir_all(scratch.path(directory)).unwrap();
    }
    for file in ["file", "sub/deep"] {
        fs::write(scratch.path("states/from").join(file), file).unwrap();
    }
    let pack = |name: &str| {
        let states = scratch.path("states");
        let tar = Command::new("tar").args(["-cf", "packed.tar", name]).current_dir(states).status();
        assert!(tar.unwrap().success());
    };
    fs::create_dir(scratch.path("states/top")).unwrap();
    fs::write(scratch.path("states/top/file"), "file").unwrap();
    pack("top");
    let strays = ["copy/stray", "copy/sub/stray", "packed/top/stray"];
    let stray = || strays.iter().for_each(|stray| fs::write(scratch.path(stray), "").unwrap());
    let left = || strays.iter().filter(|stray| scratch.path(stray).exists()).count();
    stray();
    let checked = scratch.run(Mode::Check).await.unwrap();
    let applied = scratch.run(Mode::Apply).await.unwrap();
    assert_eq!((checked.changed, applied.changed, applied.failed), (2, 2, 0), "{applied:?}");
    assert_eq!(left(), 0, "{applied:?}");
    for stays in ["copy/file", "copy/sub/deep", "packed/top/file"] {
        assert!(scratch.path(stays).exists(), "{stays}");
    }
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().changed, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57")]
async fn s57_a_file_behind_links_at_the_end_of_a_path_is_one_file() {
    let scratch = Scratch::with(
        "one:\n  file.managed: [{path: @T@/file}, {content: one}]\n\
         two:\n  file.managed: [{path: @T@/link}, {content: two}]\n",
    );
    fs::write(scratch.path("file"), "before").unwrap();
    std::os::unix::fs::symlink("file", scratch.path("middle")).unwrap();
    std::os::unix::fs::symlink(scratch.path("middle"), scratch.path("link")).unwrap();
    let Err(Error::Diagnostics { diagnostics, .. }) = scratch.run(Mode::Apply).await else {
        panic!("it ran")
    };
    assert!(diagnostics[0].message.contains("want different things of"), "{diagnostics:?}");
    assert_eq!(fs::read_to_string(scratch.path("file")).unwrap(), "before");
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57")]
async fn s57_what_others_write_or_need_through_a_link_at_the_end_stays() {
    let scratch = Scratch::with(
        "written:\n  file.managed: [{path: @T@/link}, {content: written}]\n\
         edited:\n  file.append: [{path: @T@/first}, {text: more}]\n\
         built:\n  cmd.run: [{command: \"echo built > @T@/mark\"}, {creates: @T@/mark}]\n\
         data:\n  file.directory: [{path: @T@/held}, {clean: true}]\n",
    );
    fs::create_dir(scratch.path("held")).unwrap();
    for (link, target) in [
        ("link", "held/written"),
        ("first", "held/second"),
        ("held/second", "beside/edited"),
        ("mark", "held/built"),
    ] {
        let target = if target == "beside/edited" { "edited".into() } else { scratch.path(target) };
        std::os::unix::fs::symlink(target, scratch.path(link)).unwrap();
    }
    for file in ["edited", "built", "stray"] {
        fs::write(scratch.path("held").join(file), "before\n").unwrap();
    }
    for round in 0..3 {
        let applied = scratch.run(Mode::Apply).await.unwrap();
        assert_eq!(applied.failed, 0, "{applied:?}");
        assert_eq!(applied.changed == 0, round > 0, "{applied:?}");
        let read = |name: &str| fs::read_to_string(scratch.path(name)).unwrap();
        assert_eq!((read("link"), read("mark")), ("written".into(), "before\n".into()));
        assert_eq!(read("first"), "before\nmore\n");
        assert!(!scratch.path("held/stray").exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57")]
async fn s57_what_is_filled_through_a_link_is_not_cleared_away() {
    let scratch = Scratch::with(
        "unpacked:\n  archive.extracted: [{name: @T@/link}, {source: @T@/a.tar}, {enforce_toplevel: false}]\n\
         data:\n  file.directory: [{path: @T@/held}, {clean: true}, {require: [{archive: unpacked}]}]\n",
    );
    fs::rename(scratch.path("states/c.zy"), scratch.path("states/c.sls")).unwrap();
    fs::create_dir(scratch.path("held")).unwrap();
    std::os::unix::fs::symlink(scratch.path("held"), scratch.path("link")).unwrap();
    fs::write(scratch.path("inside"), "inside").unwrap();
    let mut tar = Command::new("tar");
    let packed = tar.arg("-C").arg(scratch.path("")).arg("-cf").arg(scratch.path("a.tar")).arg("inside");
    assert!(packed.status().unwrap().success());
    let applied = scratch.run(Mode::Apply).await.unwrap();
    assert_eq!(applied.failed, 0, "{applied:?}");
    assert!(scratch.path("held/inside").exists(), "{applied:?}");
    assert_eq!(scratch.run(Mode::Apply).await.unwrap().changed, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-57")]
async fn s57_a_directory_that_another_state_takes_as_its_source_is_not_emptied() {
    for kind in ["file.copy", "file.recurse"] {
        let scratch = Scratch::with(&format!(
            "all:\n  file.directory: [{{path: @T@/held/sub}}, {{clean: true}}]\n\
             data:\n  file.directory: [{{path: @T@/held}}, {{clean: true}}]\n\
             taken:\n  {kind}: [{{path: @T@/copy}}, {{source: @T@/held}}]\n",
        ));
        fs::create_dir_all(scratch.path("held/sub")).unwrap();
        for file in ["held/file", "held/sub/file"] {
            fs::write(scratch.path(file), "kept").unwrap();
        }
        let applied = scratch.run(Mode::Apply).await.unwrap();
        assert_eq!(applied.failed, 0, "{applied:?}");
        for file in ["held/file", "held/sub/file", "copy/file", "copy/sub/file"] {
            assert!(scratch.path(file).exists(), "{kind} {file}");
        }
    }
}

fn strings(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
