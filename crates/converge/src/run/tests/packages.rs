//! Package states of one level, as a run serves them: by how often the tool is called.

use super::*;
use std::sync::Mutex;
use zester_host::HostRead;
use zester_host::overlay::Overlay;

const DPKG_STATUS: &str = "/var/lib/dpkg/status";

/// A machine in memory whose apt installs whatever it is asked for, but for `no-such`.
struct Apt {
    host: Arc<Overlay>,
    processes: Arc<Scripted>,
}

impl Apt {
    fn new() -> Apt {
        let host = Arc::new(Overlay::empty());
        for directory in ["/var", "/var/lib", "/var/lib/dpkg", "/tmp"] {
            host.make_directory(directory.as_ref(), 0o755, Owner { uid: 0, gid: 0 }).unwrap();
        }
        let turn = Mutex::new(());
        let book = host.clone();
        put(&book, "");
        let processes = Scripted::new().with(move |launch| {
            let _turn = turn.lock().unwrap();
            let line = command_line(launch);
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.iter().position(|word| ["install", "remove"].contains(word))?;
            let (verb, names) = (words[at], &words[at + 1..]);
            if names.contains(&"no-such") {
                return Some(Ok(exit(100, "", "E: Unable to locate package no-such\n")));
            }
            let mut installed: Vec<String> = text(&book).split_whitespace().map(str::to_string).collect();
            let mut plan = String::new();
            for name in names {
                match verb {
                    "install" => plan.push_str(&format!("Inst {name} (1 Fake [all])\n")),
                    _ => plan.push_str(&format!("Remv {name} [1]\n")),
                }
                installed.retain(|one| one != name);
                installed.extend((verb == "install").then(|| name.to_string()));
            }
            if !words.contains(&"--simulate") {
                put(&book, &installed.join(" "));
            }
            Some(Ok(exit(0, &plan, "")))
        });
        Apt { host, processes: Arc::new(processes) }
    }

    /// What was said to apt: `-s install 20`.
    fn calls(&self) -> Vec<String> {
        let ran = self.processes.ran();
        let short = |line: &String| {
            let words: Vec<&str> = line.split_whitespace().collect();
            let at = words.iter().position(|word| ["install", "remove"].contains(word))?;
            let asks = if words.contains(&"--simulate") { "-s " } else { "" };
            Some(format!("{asks}{} {}", words[at], words.len() - at - 1))
        };
        ran.iter().filter_map(short).collect()
    }
}

fn put(host: &Overlay, names: &str) {
    let paragraph = |name: &str| {
        format!("Package: {name}\nStatus: install ok installed\nArchitecture: all\nVersion: 1\n\n")
    };
    let text: String = names.split_whitespace().map(paragraph).collect();
    let file = NewFile { content: text.as_bytes(), mode: 0o644, owner: Owner { uid: 0, gid: 0 } };
    host.put_file(DPKG_STATUS.as_ref(), &file).unwrap();
}

/// The names in the book.
fn text(host: &Overlay) -> String {
    let book = String::from_utf8(host.read(DPKG_STATUS.as_ref(), 1 << 20).unwrap()).unwrap();
    book.lines().filter_map(|line| line.strip_prefix("Package: ")).collect::<Vec<_>>().join(" ")
}

fn fixture(apt: &Apt, states: &str) -> Fixture {
    let mut fixture = Fixture::with(&[("web", states)]);
    fixture.local_host.files = apt.host.clone();
    fixture.local_host.processes = apt.processes.clone();
    fixture
}

fn twenty() -> String {
    (0..20).map(|number| format!("pack-{number}:\n  pkg.installed: []\n")).collect()
}

async fn ran(fixture: &Fixture, mode: Mode, concurrency: usize) -> RunResult {
    let options = Options { concurrency, ..fixture.options(mode) };
    let plan = Some(fixture.plan("web"));
    run(plan, &options, &fixture.local_host, Arc::new(NoObserver), &CancellationToken::new()).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_package_states_of_a_level_are_one_plan_and_one_transaction() {
    let apt = Apt::new();
    let fixture = fixture(&apt, &twenty());
    let dry = ran(&fixture, Mode::Check, 100).await;
    assert!(dry.states.values().all(|state| state.changed), "{dry:?}");
    assert_eq!(apt.calls(), ["-s install 20"]);
    let applied = ran(&fixture, Mode::Apply, 100).await;
    assert_eq!(apt.calls()[1..], ["-s install 20", "install 20"]);
    for state in applied.states.values() {
        let name = state.name.rsplit(':').next().unwrap();
        assert_eq!(state.diff, format!("{name}: new, 1\n"));
    }
    let again = ran(&fixture, Mode::Apply, 100).await;
    assert!(again.states.values().all(|state| !state.changed && state.error.is_empty()), "{again:?}");
    assert_eq!(apt.calls().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31")]
async fn s31_what_a_level_installed_is_taken_back_in_one_transaction() {
    let apt = Apt::new();
    let fixture = fixture(&apt, &twenty());
    ran(&fixture, Mode::Apply, 100).await;
    let reverted = ran(&fixture, Mode::Revert, 100).await;
    assert!(reverted.states.values().all(|state| state.changed), "{reverted:?}");
    assert_eq!(apt.calls()[2..], ["-s remove 20", "remove 20"]);
    assert_eq!(text(&apt.host), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_place_means_one_after_the_other() {
    let apt = Apt::new();
    let fixture = fixture(&apt, "a:\n  pkg.installed: []\nb:\n  pkg.installed: []\n");
    ran(&fixture, Mode::Apply, 1).await;
    assert_eq!(apt.calls(), ["-s install 1", "install 1", "-s install 1", "install 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn guards_and_failures_of_some_keep_nobody_else_waiting() {
    let apt = Apt::new();
    let states = "a:\n  pkg.installed: []\nb:\n  pkg.installed:\n    - refresh: false\n    - name: no-such\n\
                  c:\n  pkg.installed: []\nd:\n  pkg.installed: []\n  test.nop: []\n";
    let fixture = fixture(&apt, states);
    let applied = ran(&fixture, Mode::Apply, 100).await;
    let of =
        |id: &str| applied.states.values().find(|state| state.name == format!("pkg.installed:{id}")).unwrap();
    assert!(of("a").changed && of("c").changed && of("d").changed, "{applied:?}");
    assert_eq!(of("b").error, "apt refuses: Unable to locate package no-such");
    assert_eq!(text(&apt.host), "a c d");
}
