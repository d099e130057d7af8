//! Trees of files from masters to peels, and the operator who brings, looks at and takes back some.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use serde_json::Value as Json;
use std::time::Duration;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

/// How long a master that died keeps its lease.
const LEASE: Duration = Duration::from_secs(15);
/// For a machine that is busy: what a look, a publish and the question for it may take.
const MARGIN: Duration = Duration::from_secs(20);

fn newest(fleet: &Fleet) -> Option<Json> {
    let output = fleet.zester(&["publish", "--history", "--of", "states", "--format", "json"]);
    let history: Json = serde_json::from_slice(&output.stdout).ok()?;
    history["states"].as_array()?.first().cloned()
}

fn published(fleet: &Fleet, revision: u64, patience: Duration) -> Json {
    wait_for(&format!("revision {revision}"), patience, || {
        newest(fleet).filter(|manifest| manifest["revision"] == revision)
    })
}

fn write(fleet: &Fleet, name: &str, text: &str) {
    let path = fleet.path(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

#[test]
#[rule("D-2")]
fn d2_by_default_another_master_publishes_a_change_within_15_s_of_the_kill_of_the_holder() {
    let server = Server::start();
    let mut fleet = Fleet::with_default_timing(&server.url());
    write(&fleet, "states/a.zy", "a:\n  test.nop: []\n");
    fleet.start_master("m1");
    published(&fleet, 1, PATIENCE);
    fleet.start_master("m2");
    let ready = "whoever reaches the bus can give orders";
    wait_for("the other master", PATIENCE, || fleet.masters["m2"].said().contains(ready).then_some(()));
    fleet.masters.get_mut("m1").unwrap().kill();
    write(&fleet, "states/b.zy", "b:\n  test.nop: []\n");
    let manifest = published(&fleet, 2, LEASE + MARGIN);
    assert_eq!((&manifest["master"], &manifest["files"]), (&"m2".into(), &2.into()), "{manifest:#}");
}

#[test]
#[rule("D-2", "D-12", "D-13")]
fn d12_a_tree_is_uploaded_refused_forced_shown_and_taken_back() {
    let server = Server::start();
    let fleet = Fleet::start(&server.url(), 1, 1);
    wait_for("the facts of the peel are known", PATIENCE, || {
        let answer = fleet.zester(&["G@id:p1", "test.ping", "--timeout", "10s"]);
        answer.status.success().then_some(())
    });
    write(&fleet, "mine/web.zy", "one:\n  test.nop: []\n");
    write(&fleet, "mine/.a name with blanks/ü.txt", "x");
    let first = fleet.json(&["publish", "--states", "mine"]);
    let report = &first["published"][0];
    assert_eq!((&report["status"], &report["revision"]), (&"published".into(), &1.into()), "{first:#}");
    assert_eq!((&report["files"], &report["changes"]["added_count"]), (&2.into(), &2.into()), "{first:#}");
    let same = fleet.zester(&["publish", "--states", "mine"]);
    assert!(String::from_utf8_lossy(&same.stdout).contains("unchanged"), "{same:?}");

    write(&fleet, "mine/web.zy", "one:\n  test.nopp: []\n");
    for words in [vec!["publish", "--states", "mine"], vec!["publish", "--states", "mine", "--dry-run"]] {
        let refused = fleet.zester(&words);
        let said = String::from_utf8_lossy(&refused.stdout).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{said}");
        assert!(said.contains("mine/web.zy:2:3"), "{said}");
        assert!(said.contains("~ web.zy") && said.contains("does not compile for 1 peel: p1"), "{said}");
    }
    assert_eq!(newest(&fleet).unwrap()["revision"], 1);
    let forced = fleet.json(&["publish", "--states", "mine", "--force"]);
    assert_eq!(forced["published"][0]["revision"], 2, "{forced:#}");

    let back = fleet.json(&["publish", "--rollback", "1"]);
    assert_eq!(
        (&back["published"][0]["revision"], &back["published"][0]["moved"]),
        (&3.into(), &0.into()),
        "{back:#}"
    );
    let row = newest(&fleet).unwrap();
    assert_eq!((&row["rollback_of"], &row["current"]), (&1.into(), &true.into()), "{row:#}");
    let table = fleet.zester(&["publish", "--history"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        table.contains("*     3") && table.contains("revision 1 again") && table.contains("+0 ~1 -0"),
        "{table}"
    );

    // The peel runs what counts, and says which.
    let ran = wait_for("the peel has revision 3", PATIENCE, || {
        let ran = fleet.json(&["p1", "state.apply", "web"]);
        let job = fleet.job(ran["jid"].as_str()?);
        (job["returns"]["p1"]["revision"]["states"] == 3).then_some(job)
    });
    assert_eq!(ran["status"], "complete", "{ran:#}");
    let shown = fleet.zester(&["job", "show", ran["jid"].as_str().unwrap()]);
    assert!(String::from_utf8_lossy(&shown.stdout).contains("states revision 3\n"), "{shown:?}");
    let none = fleet.zester(&["publish", "--rollback", "99"]);
    let said = String::from_utf8_lossy(&none.stderr).into_owned();
    assert!(said.contains("there is no revision 99 to go back to; `zester publish --history`"), "{said}");
}

fn git(fleet: &Fleet, words: &[&str]) -> String {
    let who = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "init.defaultBranch=main"];
    let ran = std::process::Command::new("git").args(who).args(words).current_dir(fleet.dir.path()).output();
    let ran = ran.unwrap();
    assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_string()
}

fn commit(fleet: &Fleet, name: &str, text: &str) -> String {
    write(fleet, &format!("work/{name}"), text);
    git(fleet, &["-C", "work", "add", "."]);
    git(fleet, &["-C", "work", "commit", "--quiet", "-m", "x"]);
    git(fleet, &["-C", "work", "push", "--quiet", "origin", "HEAD:main"]);
    git(fleet, &["-C", "work", "rev-parse", "HEAD"])
}

#[test]
#[rule("D-2", "D-12")]
fn d2_a_master_publishes_from_a_repository_what_compiles_with_its_commit() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    git(&fleet, &["init", "--quiet", "--bare", "bare.git"]);
    git(&fleet, &["clone", "--quiet", "bare.git", "work"]);
    let first = commit(&fleet, "states/web.zy", "one:\n  test.nop: []\n");
    let url = fleet.path("bare.git").display().to_string();
    let from = format!("states_git={{url: \"{url}\", ref: main, subdir: states}}");
    fleet.start_master_with("m1", &["--set", &from]);
    let manifest = published(&fleet, 1, PATIENCE);
    assert_eq!((&manifest["commit"], &manifest["files"]), (&first.into(), &1.into()), "{manifest:#}");
    let second = commit(&fleet, "states/web.zy", "two:\n  test.nop: []\n");
    let report = wait_for("the second commit", PATIENCE, || {
        let answer = fleet.json(&["publish"]);
        (answer["published"][0]["revision"] == 2).then(|| answer["published"][0].clone())
    });
    assert_eq!(report["commit"], second.as_str(), "{report:#}");
    commit(&fleet, "states/web.zy", "two:\n  test.nop: [\n");
    let refused = wait_for("the third is refused", PATIENCE, || {
        let output = fleet.zester(&["publish"]);
        (output.status.code() == Some(1)).then(|| String::from_utf8_lossy(&output.stdout).into_owned())
    });
    assert!(refused.contains("revision 2 stays") && refused.contains("web.zy:"), "{refused}");
}

#[test]
fn without_a_master_nobody_publishes_and_that_is_said() {
    let server = Server::start();
    let fleet = Fleet::new(&server.url());
    let output = fleet.zester(&["publish", "--states", "nowhere"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere is no directory"), "{output:?}");
    let output = fleet.zester(&["publish", "--history"]);
    assert!(!output.status.success(), "{output:?}");
}
