use super::*;
use crate::disk::{Disk, DiskCalls};
use crate::functions::Access;
use crate::inputs::CompileRequest;
use crate::journal::PendingRefreshes;
use crate::run_loop::NoObserver;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use zester_engine::NodeId;
use zester_host::process::fake::{Scripted, command_line, exit};
use zester_host::{HostWrite, NewFile, Owner};
use zester_rule::rule;

mod packages;
mod two_trees;

/// How long a test waits for something that must come.
const PATIENCE: Duration = Duration::from_secs(60);

/// Refuses one sync and takes all that follow.
struct FailsOnce(AtomicUsize);

impl DiskCalls for FailsOnce {
    fn sync(&self, file: &File) -> io::Result<()> {
        match self.0.fetch_sub(1, Ordering::SeqCst) {
            0 => Err(io::Error::other("the disk is dying")),
            _ => file.sync_data(),
        }
    }
}

fn dying_after(syncs: usize) -> Disk {
    Disk::behind(Box::new(FailsOnce(AtomicUsize::new(syncs))))
}

/// A states dir, a data dir, and a place for what the states make.
struct Fixture {
    temp: tempfile::TempDir,
    local_host: LocalHost,
}

impl Fixture {
    /// `@T@` in a text stands for the directory of everything.
    fn with(files: &[(&str, &str)]) -> Fixture {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("states")).unwrap();
        let local_host = LocalHost {
            files: Arc::new(zester_host::real::Real::new()),
            processes: Arc::new(zester_host::process::Runner::new()),
            handle: tokio::runtime::Handle::current(),
            events: None,
        };
        let place = Fixture { temp, local_host };
        for (name, text) in files {
            place.write(&format!("states/{name}.zy"), text);
        }
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.temp.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text.replace("@T@", &self.temp.path().display().to_string())).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn data_dir(&self) -> DataDir {
        DataDir::open(&self.path("data")).unwrap()
    }

    fn pending(&self) -> PendingRefreshes {
        PendingWork::read(&self.data_dir()).unwrap().pending
    }

    fn pending_watchers(&self) -> Vec<String> {
        self.pending().into_keys().collect()
    }

    fn plan(&self, reference: &str) -> Arc<Plan> {
        self.plan_in("states", reference)
    }

    fn plan_in(&self, tree: &str, reference: &str) -> Arc<Plan> {
        let request = CompileRequest {
            references: vec![reference.into()],
            states: Some(self.path(tree)),
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
        let cancel = CancellationToken::new();
        Arc::new(tokio::task::block_in_place(|| Plan::make(&request, &self.local_host, &cancel)).unwrap())
    }

    fn options(&self, mode: Mode) -> Options {
        Options {
            mode,
            data_dir: self.path("data"),
            concurrency: 1,
            deadline: Deadline::none(),
            no_wait: false,
            force: false,
            run: None,
            turns: None,
        }
    }

    /// Runs as a task of its own.
    fn start(
        &self,
        mode: Mode,
        reference: Option<&str>,
        observer: Arc<dyn Observer>,
    ) -> tokio::task::JoinHandle<RunResult> {
        let plan = reference.map(|reference| self.plan(reference));
        let (options, local_host) = (self.options(mode), self.local_host.clone());
        tokio::spawn(async move {
            run(plan, &options, &local_host, observer, &CancellationToken::new()).await.unwrap()
        })
    }

    async fn apply(&self, reference: &str) -> RunResult {
        self.start(Mode::Apply, Some(reference), Arc::new(NoObserver)).await.unwrap()
    }
}

async fn until_there(path: &Path) {
    let there = async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, there).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31")]
async fn s31_nothing_runs_any_more_once_the_journal_cannot_be_trusted() {
    let place = Fixture::with(&[(
        "c",
        "a:\n  file.managed: [{path: @T@/a}, {content: x}]\n\
         b:\n  file.managed: [{path: @T@/b}, {content: x}, {order: 1}]\n\
         c:\n  cmd.run: [{command: touch @T@/c}, {order: 2}]\n",
    )]);
    // The graph and its directory, the new log, the first intent; then the disk begins to die.
    let journal = Arc::new(Journal::open_on(dying_after(4), &place.data_dir(), "r1").unwrap());
    let (options, cancel) = (place.options(Mode::Apply), CancellationToken::new());
    let context = RunContext {
        options: &options,
        local_host: &place.local_host,
        observer: Arc::new(NoObserver),
        cancel: &cancel,
        key: None,
    };
    let ran = context.apply(place.plan("c"), Some(journal)).await.unwrap();
    let there: Vec<bool> = ["a", "b", "c"].iter().map(|name| place.path(name).exists()).collect();
    assert_eq!(there, [true, false, false]);
    let errors: Vec<&str> = ran.states.iter().map(|state| state.error.as_str()).collect();
    assert!(errors[1].contains("the disk is dying"), "{errors:?}");
    assert!(errors[2].contains("cannot be trusted any more"), "{errors:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31", "S-59")]
async fn s31_a_revert_tells_what_it_did_when_the_journal_fails_behind_it() {
    let place = Fixture::with(&[(
        "c",
        "a:\n  file.managed: [{path: @T@/a}, {content: x}]\n\
         b:\n  file.managed: [{path: @T@/b}, {content: x}]\n\
         w:\n  cmd.run: [{command: 'true'}, {refresh_only: true}, {watch: [{file: a}, {file: b}]}]\n",
    )]);
    assert!(place.apply("c").await.success);
    place.write("b", "theirs");
    // The pending refreshes that the revert adds, and their directory; then the disk begins to die.
    let journal = Arc::new(Journal::open_on(dying_after(2), &place.data_dir(), "r2").unwrap());
    let (options, cancel) = (place.options(Mode::Revert), CancellationToken::new());
    let context = RunContext {
        options: &options,
        local_host: &place.local_host,
        observer: Arc::new(NoObserver),
        cancel: &cancel,
        key: None,
    };
    let ran = context.revert(Some(place.plan("c")), journal).await.unwrap();
    assert!(!place.path("a").exists());
    let of = |name: &str| ran.states.iter().find(|state| state.name == name).unwrap();
    assert!(of("file.managed:a").changed && of("file.managed:b").failed());
    assert!(ran.troubles.iter().any(|trouble| trouble.contains("the disk is dying")), "{:?}", ran.troubles);
    assert_eq!(ran.pending, [("cmd.run:w".to_string(), vec!["file.managed:a".to_string()])]);
}

/// A command that says that it has begun and waits to be let go.
const WAITS: &str =
    "touch @T@/begun; n=0; until test -e @T@/go || test $((n += 1)) -gt 1500; do sleep 0.02; done";

#[tokio::test(flavor = "multi_thread")]
#[rule("S-39", "S-59")]
async fn s39_a_revert_notes_the_next_of_a_chain_as_pending_before_it_runs() {
    let place = Fixture::with(&[(
        "c",
        &"a:\n  file.managed: [{path: @T@/a}, {content: x}]\n\
          w1:\n  cmd.run: [{command: echo w1 >> @T@/log}, {refresh_only: true}, {watch: [{file: a}]}]\n\
          w2:\n  cmd.run: [{command: '@WAITS@'}, {refresh_only: true}, {watch: [{cmd: w1}]}]\n"
            .replace("@WAITS@", WAITS),
    )]);
    place.write("go", "");
    assert!(place.apply("c").await.success);
    fs::remove_file(place.path("go")).unwrap();
    fs::remove_file(place.path("begun")).unwrap();
    let reverting = place.start(Mode::Revert, Some("c"), Arc::new(NoObserver));
    until_there(&place.path("begun")).await;
    // What the next run would find, were this one killed here.
    let pending = place.pending();
    place.write("go", "");
    assert!(reverting.await.unwrap().success);
    assert_eq!(pending.keys().collect::<Vec<_>>(), ["cmd.run:w2"]);
    assert_eq!(pending["cmd.run:w2"].changed.iter().collect::<Vec<_>>(), ["cmd.run:w1"]);
    assert_eq!(place.pending_watchers(), [""; 0]);
}

/// Hears that a run waits for another.
#[derive(Default)]
struct Waiting(tokio::sync::Notify);

impl Observer for Waiting {
    fn notice(&self, text: &str) {
        if text.starts_with("waiting for the lock held by pid") {
            self.0.notify_one();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31", "S-42")]
async fn s31_a_bare_revert_undoes_the_run_that_it_waited_for() {
    let place = Fixture::with(&[
        ("va", "a:\n  file.managed: [{path: @T@/a}, {content: x}]\n"),
        (
            "vb",
            &"slow:\n  cmd.run: [{command: '@WAITS@'}]\n\
              b:\n  file.managed: [{path: @T@/b}, {content: x}, {require: [{cmd: slow}]}]\n"
                .replace("@WAITS@", WAITS),
        ),
    ]);
    assert!(place.apply("va").await.success);
    let applying = place.start(Mode::Apply, Some("vb"), Arc::new(NoObserver));
    until_there(&place.path("begun")).await;
    let waiting = Arc::new(Waiting::default());
    let reverting = place.start(Mode::Revert, None, waiting.clone());
    tokio::time::timeout(PATIENCE, waiting.0.notified()).await.unwrap();
    place.write("go", "");
    let applied = applying.await.unwrap();
    assert!(applied.success && reverting.await.unwrap().success);
    assert!(place.path("a").exists() && !place.path("b").exists());
    let last = history::last(&place.data_dir(), 1).unwrap();
    assert_eq!(last[0].asked, format!("run {}", applied.run_id));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31")]
async fn s31_a_bare_revert_of_nothing_says_so_and_lets_go_of_the_lock() {
    let place = Fixture::with(&[("c", "a:\n  file.managed: [{path: @T@/a}, {content: x}]\n")]);
    let options = Options { no_wait: true, ..place.options(Mode::Revert) };
    for _ in 0..2 {
        let cancel = CancellationToken::new();
        let told = run(None, &options, &place.local_host, Arc::new(NoObserver), &cancel).await.unwrap_err();
        assert_eq!(told.to_string(), "nothing was applied here that could be reverted");
    }
    assert!(crate::lock::last_holder(&place.data_dir()).unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-44")]
async fn s44_what_a_package_may_bring_or_take_is_unknown_and_not_missing() {
    for (kind, found, simulated) in [
        ("pkg.installed", "", "Inst hello (2.10 Fake [all])\n"),
        (
            "pkg.removed",
            "Package: hello\nStatus: install ok installed\nArchitecture: all\nVersion: 2.10\n\n",
            "Remv hello [2.10]\n",
        ),
    ] {
        let states = format!(
            "hello: {{{kind}: []}}\n\
             below: {{file.managed: [{{path: /srv/hello/conf}}, {{require: [{{{kind}: hello}}]}}]}}\n\
             owned: {{file.managed: [{{path: /srv/conf}}, {{user: hello}}, {{require: [{{{kind}: hello}}]}}]}}\n"
        );
        let apt = Scripted::new().with(move |launch| {
            Some(Ok(match command_line(launch) {
                line if line.contains("--simulate") => exit(0, simulated, ""),
                _ => return None,
            }))
        });
        let mut place = Fixture::with(&[("c", &states)]);
        place.local_host = in_memory(apt);
        let book = NewFile { content: found.as_bytes(), mode: 0o644, owner: Owner { uid: 0, gid: 0 } };
        place.local_host.files.put_file("/var/lib/dpkg/status".as_ref(), &book).unwrap();
        let ran = place.start(Mode::Check, Some("c"), Arc::new(NoObserver)).await.unwrap();
        let told: Vec<_> =
            ran.states.values().map(|state| (&state.error, state.details.get("unknown"))).collect();
        let (none, unknown) = (String::new(), serde_json::json!(true));
        assert_eq!(told, [(&none, None), (&none, Some(&unknown)), (&none, Some(&unknown))], "{kind}");
    }
}

/// A machine with next to nothing on it, where these programs answer.
fn in_memory(programs: Scripted) -> LocalHost {
    let files = Overlay::empty();
    let owner = Owner { uid: 0, gid: 0 };
    for path in ["/srv", "/var", "/var/lib", "/var/lib/dpkg", "/var/lib/dpkg/updates"] {
        files.make_directory(path.as_ref(), 0o755, owner).unwrap();
    }
    let installed_packages = NewFile { content: b"", mode: 0o644, owner };
    files.put_file("/var/lib/dpkg/status".as_ref(), &installed_packages).unwrap();
    let (files, processes) = (Arc::new(files), Arc::new(programs));
    LocalHost { files, processes, handle: tokio::runtime::Handle::current(), events: None }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-47")]
async fn s47_splay_adds_some_of_its_time_to_the_pause_between_tries() {
    let states =
        "some: {test.nop: [{retry: {attempts: 3, interval: 1, splay: 8}}]}\nnone: {test.nop: [{retry: 3}]}\n";
    let place = Fixture::with(&[("c", states)]);
    let (plan, options, cancel) = (place.plan("c"), place.options(Mode::Apply), CancellationToken::new());
    let observer: Arc<dyn Observer> = Arc::new(NoObserver);
    let context = RunContext {
        options: &options,
        local_host: &place.local_host,
        observer: observer.clone(),
        cancel: &cancel,
        key: None,
    };
    let executor = context.executor(plan.clone(), plan.graph.clone(), None, Default::default(), observer);
    let drawn: BTreeSet<Duration> = (0..64).map(|_| executor.splay(NodeId(0))).collect();
    assert!(drawn.len() > 1 && drawn.iter().all(|pause| *pause <= Duration::from_secs(8)), "{drawn:?}");
    assert!(drawn.last() > Some(&Duration::from_secs(1)), "{drawn:?}");
    assert_eq!(executor.splay(NodeId(1)), Duration::ZERO);
}

/// The configuration changes, something fails, and the restart depends on both.
const WITH_PENDING: &str = "conf:\n  file.managed: [{path: @T@/conf}, {content: v1}]\n\
    gate:\n  cmd.run: [{command: test -e @T@/open}, {require: [{file: conf}]}]\n\
    reload:\n  cmd.run: [{command: echo reload >> @T@/log}, {refresh_only: true}, {watch: [{file: conf}]}]\n";
const RESTART: &str = "restart:\n  cmd.run: [{command: echo restart >> @T@/log}, {refresh_only: true}, \
    {watch: [{file: conf}]}, {require: [{cmd: gate}]}]\n";

/// `reload` ran, the refresh of `restart` is pending.
async fn with_pending() -> Fixture {
    let place = Fixture::with(&[("m1", &format!("{WITH_PENDING}{RESTART}"))]);
    assert!(!place.apply("m1").await.success);
    assert_eq!(place.pending_watchers(), ["cmd.run:restart"]);
    assert_eq!(place.read("log"), "reload\n");
    place.write("open", "");
    place
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-39")]
async fn s39_a_watcher_that_moved_to_another_file_is_refreshed_there() {
    let place = with_pending().await;
    place.write("states/m1.zy", WITH_PENDING);
    place.write("states/m2.zy", &format!("include: [m1]\n{RESTART}"));
    assert!(place.apply("m1").await.success);
    // Who watched beside it is not it under a new name.
    assert_eq!(
        (place.pending_watchers(), place.read("log")),
        (vec!["cmd.run:restart".into()], "reload\n".into())
    );
    assert!(place.apply("m2").await.success);
    assert_eq!((place.pending_watchers(), place.read("log")), (vec![], "reload\nrestart\n".into()));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-39")]
async fn s39_a_watcher_that_was_renamed_inherits_and_its_fellow_does_not() {
    let place = with_pending().await;
    let renamed = RESTART.replace("restart:", "again:");
    place.write("states/m1.zy", &format!("{WITH_PENDING}{renamed}"));
    assert!(place.apply("m1").await.success);
    assert_eq!((place.pending_watchers(), place.read("log")), (vec![], "reload\nrestart\n".into()));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-39")]
async fn s39_who_watches_only_a_part_of_what_changed_is_no_successor() {
    let two =
        WITH_PENDING.replace("conf:\n", "more:\n  file.managed: [{path: @T@/more}, {content: v1}]\nconf:\n");
    let both = RESTART.replace("watch: [{file: conf}]", "watch: [{file: conf}, {file: more}]");
    let place = Fixture::with(&[("m1", &format!("{two}{both}"))]);
    assert!(!place.apply("m1").await.success);
    place.write("open", "");
    place.write("states/m1.zy", &format!("{two}{}", RESTART.replace("restart:", "other:")));
    assert!(place.apply("m1").await.success);
    assert_eq!(
        (place.pending_watchers(), place.read("log")),
        (vec!["cmd.run:restart".into()], "reload\n".into())
    );
}
