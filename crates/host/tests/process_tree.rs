//! Cancel and timeout leave no process, whatever the command did to get away (X-6, S-32).
//!
//! Every command sleeps for a number of seconds that no other process on the machine uses, so a scan of
//! `/proc` finds each of its processes, wherever it hides.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests, their helpers included")]

use std::collections::HashSet;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;
use zester_host::process::Runner;
use zester_host::{Exit, Fault, Launch, Processes};
use zester_rule::rule;
use zester_testkit::wait_until;

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Processes whose command line holds the text.
fn alive(text: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    pids.filter(|pid| *pid != std::process::id()).filter(holds).collect()
}

fn zombies_of_ours() -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mine = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit(") ").next().unwrap_or_default();
        let mut fields = rest.split(' ');
        fields.next() == Some("Z") && fields.next() == Some(&std::process::id().to_string())
    };
    pids.filter(mine).collect()
}

/// A number that appears in the command line of this one command only.
fn number(run: usize) -> String {
    format!("4711.{}{run:03}", std::process::id())
}

/// The ways to get away.
fn shapes(sleep: &str) -> Vec<String> {
    vec![
        format!("sleep {sleep}"),
        format!("sleep {sleep} & sleep {sleep}; true"),
        format!("(sleep {sleep} & sleep {sleep}) & sleep {sleep}"),
        format!("setsid sh -c 'sleep {sleep} & sleep {sleep}' & sleep {sleep}"),
        format!("(setsid sleep {sleep} &) & sleep {sleep}"),
        format!(
            "(setsid sh -c 'setsid sleep {sleep} & exec sleep {sleep}' > /dev/null 2>&1 &) & sleep {sleep}"
        ),
        // Ignores SIGTERM itself and in its children, which inherit it.
        format!("trap '' TERM; sleep {sleep} & sleep {sleep}; sleep {sleep}"),
        format!("(setsid sh -c \"trap '' TERM; sleep {sleep}; sleep {sleep}\" &) & sleep {sleep}"),
        // Starts something new when it is told to end.
        format!("trap 'setsid sleep {sleep} & exit' TERM; sleep {sleep} & wait"),
        // Leads a new group inside the session, and loses its mark.
        format!("env -i setsid sh -c 'sleep {sleep} & sleep {sleep}' & sleep {sleep}"),
    ]
}

async fn run(launch: &Launch, cancel: &CancellationToken) -> Result<Exit, Fault> {
    Runner::new().run(launch, None, cancel).await
}

async fn one_run(index: usize) -> (String, Exit) {
    let sleep = number(index);
    let shapes = shapes(&sleep);
    let mut launch = Launch::shell(shapes[index % shapes.len()].clone());
    let cancel = CancellationToken::new();
    if index.is_multiple_of(2) {
        launch.timeout = Some(Duration::from_millis(400));
    } else {
        let cancel = cancel.clone();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(400)).await;
            cancel.cancel();
        });
    }
    let exit = run(&launch, &cancel).await.unwrap();
    assert_eq!(
        (exit.timed_out, exit.canceled),
        (index.is_multiple_of(2), !index.is_multiple_of(2)),
        "run {index}"
    );
    (sleep, exit)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[rule("X-6", "S-32")]
async fn x6_s32_a_hundred_cancelled_and_timed_out_runs_leave_no_process() {
    let begun = Instant::now();
    let runs: Vec<_> = (0..100).map(|index| tokio::spawn(one_run(index))).collect();
    for run in runs {
        let (sleep, exit) = run.await.unwrap();
        assert!(exit.survivors.is_empty(), "{sleep}: {:?}", exit.survivors);
        assert_eq!(alive(&format!("sleep\0{sleep}")), Vec::<u32>::new(), "{sleep} is still there");
    }
    assert_eq!(alive(&format!("4711.{}", std::process::id())), Vec::<u32>::new());
    let deadline = Instant::now() + PATIENCE;
    while !zombies_of_ours().is_empty() {
        assert!(Instant::now() < deadline, "zombies stay: {:?}", zombies_of_ours());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    println!("100 runs in {:?}", begun.elapsed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[rule("S-32")]
async fn s32_what_cleared_every_trace_ends_with_its_command_or_with_the_run() {
    let sleep = number(900);
    // No mark, no group, no session, no parent.
    let evader =
        format!("env -i setsid sh -c '(setsid sleep {sleep} > /dev/null 2>&1 &)' & sleep 0.2; sleep {sleep}");
    let cancel = CancellationToken::new();
    let mut launch = Launch::shell(evader.clone());
    launch.timeout = Some(Duration::from_millis(600));
    run(&launch, &cancel).await.unwrap();
    assert_eq!(
        alive(&format!("sleep\0{sleep}")),
        Vec::<u32>::new(),
        "alone, it is known to be the command's"
    );
    let other_command = Launch::shell(format!("sleep {}", number(901)));
    let other_cancel = CancellationToken::new();
    let beside = async { run(&other_command, &other_cancel).await };
    let evading = async {
        run(&launch, &cancel).await.unwrap();
        other_cancel.cancel();
    };
    let (other, ()) = tokio::join!(beside, evading);
    other.unwrap();
    assert_eq!(Runner::new().kill_everything().await, Vec::<u32>::new());
    assert_eq!(alive(&format!("sleep\0{sleep}")), Vec::<u32>::new(), "the end of the run ends it");
}

/// What a trap starts is told nothing: a command that cleans up has the grace for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[rule("X-6")]
async fn x6_a_command_that_cleans_up_is_left_to_it() {
    let scratch = tempfile::tempdir().unwrap();
    let (begun, said) = (scratch.path().join("begun"), scratch.path().join("said"));
    let sleep = number(900);
    // Each round starts a process of its own, long enough for several looks at the tree; one that is ended tells. It
    // goes on by itself until it is told, whoever else is told before it.
    let script = format!(
        "trap 'for n in 1 2 3 4; do sleep 0.1 || echo disturbed >> {said}; done; echo clean >> {said}; exit' TERM; \
         sleep {sleep} & touch {begun}; until false; do sleep 0.05; done",
        said = said.display(),
        begun = begun.display(),
    );
    let cancel = CancellationToken::new();
    let told = cancel.clone();
    let waits = tokio::spawn(async move {
        wait_until("the command", PATIENCE, async || begun.exists().then_some(())).await;
        told.cancel();
    });
    run(&Launch::shell(script), &cancel).await.unwrap();
    waits.await.unwrap();
    assert_eq!(std::fs::read_to_string(said).unwrap(), "clean\n");
    assert!(alive(&sleep).is_empty());
}

#[tokio::test]
#[rule("X-6")]
async fn x6_what_a_command_leaves_in_the_background_is_left_alone_and_reaped() {
    let sleep = number(800);
    let cancel = CancellationToken::new();
    let begun = Instant::now();
    let launch = Launch::shell(format!("sleep {sleep} & echo $!; sleep 0.1 & echo started"));
    let exit = run(&launch, &cancel).await.unwrap();
    assert!(begun.elapsed() < PATIENCE, "it must not hang on the pipe");
    assert!(exit.stdout.text.ends_with("started\n") && exit.code == Some(0));
    assert_eq!(Runner::new().kill_everything().await, Vec::<u32>::new());
    assert_eq!(alive(&format!("sleep\0{sleep}")).len(), 1, "a server stays");
    let pid: i32 = exit.stdout.text.lines().next().unwrap().parse().unwrap();
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL).unwrap();
    let deadline = Instant::now() + PATIENCE;
    while std::path::Path::new(&format!("/proc/{pid}")).exists() {
        assert!(Instant::now() < deadline, "it stays a zombie");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
#[rule("S-32")]
async fn s32_an_uninterruptible_command_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let (begun, go) = (dir.path().join("begun"), dir.path().join("go"));
    let cancel = CancellationToken::new();
    let mut launch = Launch::shell(format!(
        "touch {}; until test -e {}; do sleep 0.02; done; echo done",
        begun.display(),
        go.display()
    ));
    launch.uninterruptible = true;
    launch.timeout = Some(Duration::from_millis(1));
    let canceler = cancel.clone();
    let running = tokio::spawn(async move { run(&launch, &cancel).await });
    wait_until("the command", PATIENCE, async || begun.exists().then_some(())).await;
    canceler.cancel();
    // One thread, and timers in their order: whoever runs the command has heard of both when this is over.
    tokio::time::sleep(Duration::from_millis(20)).await;
    std::fs::write(&go, "").unwrap();
    let exit = running.await.unwrap().unwrap();
    assert_eq!((exit.code, exit.stdout.text.as_str()), (Some(0), "done\n"));
    assert_eq!((exit.timed_out, exit.canceled), (true, true));
}

#[tokio::test]
#[rule("S-32")]
async fn s32_a_run_that_is_dropped_takes_its_processes_along() {
    let sleep = number(700);
    let launch = Launch::shell(format!("(setsid sleep {sleep} &) & sleep {sleep}"));
    let cancel = CancellationToken::new();
    let dropped = tokio::time::timeout(Duration::from_millis(500), run(&launch, &cancel)).await;
    assert!(dropped.is_err());
    let deadline = Instant::now() + PATIENCE;
    while !alive(&format!("sleep\0{sleep}")).is_empty() {
        assert!(Instant::now() < deadline, "{:?}", alive(&format!("sleep\0{sleep}")));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[rule("S-28")]
async fn s28_a_thousand_commands_at_once_with_few_descriptors_keep_their_own_limit() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, 1024, hard).unwrap();
    let begun = Instant::now();
    let one = || async {
        let launch = Launch::shell("sleep 0.5; ulimit -Sn");
        run(&launch, &CancellationToken::new()).await.unwrap()
    };
    let runs: Vec<_> = (0..1000).map(|_| tokio::spawn(one())).collect();
    let mut limits = HashSet::new();
    for run in runs {
        let exit = run.await.unwrap();
        assert_eq!(exit.code, Some(0), "{exit:?}");
        limits.insert(exit.stdout.text);
    }
    assert_eq!(limits, HashSet::from(["1024\n".to_string()]));
    println!("1000 commands in {:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(60));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[rule("X-6")]
async fn x6_a_service_that_cleared_its_environment_outlives_a_run_cancelled_later() {
    let (service, killed) = (number(600), number(601));
    let cancel = CancellationToken::new();
    let starter =
        Launch::shell(format!("env -i sh -c '(setsid sleep {service} > /dev/null 2>&1 &)'; sleep 0.2"));
    assert_eq!(run(&starter, &cancel).await.unwrap().code, Some(0));
    let mut launch = Launch::shell(format!("sleep {killed}"));
    launch.timeout = Some(Duration::from_millis(200));
    assert!(run(&launch, &cancel).await.unwrap().timed_out);
    assert_eq!(Runner::new().kill_everything().await, Vec::<u32>::new());
    let left = alive(&format!("sleep\0{service}"));
    assert_eq!(left.len(), 1, "what `service x start` started is not ours to end");
    let pid = nix::unistd::Pid::from_raw(left[0] as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGKILL).unwrap();
}
