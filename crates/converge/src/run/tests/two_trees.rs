//! Two trees that share a data directory and call their states alike.

use super::*;

/// Everything that a run says.
#[derive(Default)]
struct Notices(Mutex<Vec<String>>);

impl Observer for Notices {
    fn notice(&self, text: &str) {
        self.0.lock().unwrap().push(text.to_string());
    }
}

/// `tA` and `tB` both have `conf`, each for a file of its own, and `reload`, which watches it.
fn two_trees() -> Fixture {
    let place = Fixture::with(&[]);
    for tree in ["A", "B"] {
        fs::create_dir(place.path(&format!("t{tree}"))).unwrap();
        place.write(&format!("t{tree}/web.zy"), &web(tree, ""));
    }
    place
}

/// `gate` keeps `reload` from running.
fn web(tree: &str, gate: &str) -> String {
    format!(
        "conf:\n  file.managed: [{{path: @T@/{tree}.conf}}, {{content: v1}}]\n\
         gate:\n  cmd.run: [{{command: 'true {gate}'}}]\n\
         reload:\n  cmd.run: [{{command: echo {tree} >> @T@/log}}, {{refresh_only: true}}, \
         {{watch: [{{file: conf}}]}}, {{require: [{{cmd: gate}}]}}]\n"
    )
}

async fn run_in(place: &Fixture, tree: &str, mode: Mode) -> (RunResult, Vec<String>) {
    let (observer, plan) = (Arc::new(Notices::default()), place.plan_in(tree, "web"));
    let (options, cancel) = (place.options(mode), CancellationToken::new());
    let ran = run(Some(plan), &options, &place.local_host, observer.clone(), &cancel).await.unwrap();
    let notices = observer.0.lock().unwrap().clone();
    (ran, notices)
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31")]
async fn s31_a_revert_leaves_alone_what_another_tree_did_under_the_same_name() {
    let place = two_trees();
    assert!(run_in(&place, "tA", Mode::Apply).await.0.success);
    let (reverted, notices) = run_in(&place, "tB", Mode::Revert).await;
    assert!(place.path("A.conf").exists() && reverted.changed == 0, "{reverted:?}");
    assert!(
        notices.iter().any(|notice| notice.contains("file.managed:conf") && notice.contains("/tA")),
        "{notices:?}"
    );
    // Its own is found below the other's.
    assert!(run_in(&place, "tB", Mode::Apply).await.0.success);
    assert!(run_in(&place, "tA", Mode::Revert).await.0.success);
    assert!(!place.path("A.conf").exists() && place.path("B.conf").exists());
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31")]
async fn s31_a_tree_that_was_renamed_or_copied_finds_its_records() {
    for keep in [false, true] {
        let place = two_trees();
        assert!(run_in(&place, "tA", Mode::Apply).await.0.success);
        fs::create_dir(place.path("moved")).unwrap();
        fs::copy(place.path("tA/web.zy"), place.path("moved/web.zy")).unwrap();
        if !keep {
            fs::remove_dir_all(place.path("tA")).unwrap();
        }
        assert!(run_in(&place, "moved", Mode::Revert).await.0.success);
        assert!(!place.path("A.conf").exists());
    }
}

/// The composed name of what it sets stands in no record.
#[tokio::test(flavor = "multi_thread")]
#[rule("S-31")]
async fn s31_a_tree_that_was_renamed_finds_the_records_of_things_with_composed_names() {
    if !Path::new("/usr/bin/git").exists() {
        zester_testkit::skip!("there is no git");
    }
    let place = two_trees();
    fs::create_dir_all(place.path("repo/.git")).unwrap();
    fs::write(place.path("repo/.git/HEAD"), "ref: refs/heads/main\n").unwrap();
    fs::write(place.path("repo/.git/config"), "").unwrap();
    let text = "x.y:\n  git.config_set: [{value: told}, {repo: @T@/repo}]\n";
    place.write("tA/web.zy", text);
    let (applied, _) = run_in(&place, "tA", Mode::Apply).await;
    assert!(applied.success, "{applied:?}");
    assert!(place.read("repo/.git/config").contains("told"));
    place.write("tB/web.zy", text);
    let (reverted, notices) = run_in(&place, "tB", Mode::Revert).await;
    assert!(reverted.changed == 0 && notices.iter().any(|notice| notice.contains("/tA")), "{notices:?}");
    fs::rename(place.path("tA"), place.path("renamed")).unwrap();
    assert!(run_in(&place, "renamed", Mode::Revert).await.0.success);
    assert!(!place.read("repo/.git/config").contains("told"));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-39")]
async fn s39_a_pending_refresh_is_given_by_the_watchers_name_from_whatever_directory_the_tree_comes() {
    let place = two_trees();
    for release in ["rel/41", "rel/42"] {
        fs::create_dir_all(place.path(release)).unwrap();
    }
    place.write("rel/41/web.zy", &web("A", "; exit 1"));
    assert!(!run_in(&place, "rel/41", Mode::Apply).await.0.success);
    assert_eq!(place.pending_watchers(), ["cmd.run:reload"]);
    // The one before is still there, and the file is as the next one has it.
    place.write("rel/42/web.zy", &web("A", ""));
    assert!(run_in(&place, "rel/42", Mode::Apply).await.0.success);
    assert_eq!((place.read("log"), place.pending_watchers()), ("A\n".into(), vec![]));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-39")]
async fn s39_the_next_revision_of_a_published_tree_gives_what_the_last_left_pending() {
    let place = two_trees();
    fs::create_dir(place.path("states.trees")).unwrap();
    let revision = |digit: &str| format!("states.trees/{}", digit.repeat(64));
    fs::rename(place.path("tA"), place.path(&revision("1"))).unwrap();
    place.write(&format!("{}/web.zy", revision("1")), &web("A", "; exit 1"));
    assert!(!run_in(&place, &revision("1"), Mode::Apply).await.0.success);
    fs::create_dir(place.path(&revision("2"))).unwrap();
    place.write(&format!("{}/web.zy", revision("2")), &web("A", ""));
    assert!(run_in(&place, &revision("2"), Mode::Apply).await.0.success);
    assert_eq!((place.read("log"), place.pending_watchers()), ("A\n".into(), vec![]));
    assert!(run_in(&place, &revision("2"), Mode::Revert).await.0.success);
    assert!(!place.path("A.conf").exists());
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-31")]
async fn s31_a_revert_with_a_record_that_has_rotted_undoes_the_rest_and_fails() {
    for force in [false, true] {
        let place = Fixture::with(&[(
            "web",
            "a:\n  file.managed: [{path: @T@/a}, {content: x}]\nb:\n  file.managed: [{path: @T@/b}, {content: x}]\n",
        )]);
        let applied = place.apply("web").await;
        let log = place.path("data/journal").join(format!("000001-{}.log", applied.run_id));
        let text = fs::read_to_string(&log).unwrap();
        let rotten = text.replacen(
            "\"intent\",\"state\":\"file.managed:a\"",
            "\"intent\",\"state\":\"file.managed:A\"",
            1,
        );
        assert_ne!(text, rotten);
        fs::write(&log, rotten).unwrap();
        for named in [Some(applied.run_id.clone()), None] {
            let options = Options { force, run: named.clone(), ..place.options(Mode::Revert) };
            let plan = named.is_none().then(|| place.plan("web"));
            let cancel = CancellationToken::new();
            let ran = run(plan, &options, &place.local_host, Arc::new(NoObserver), &cancel).await;
            assert!(!place.path("b").exists() && place.path("a").exists());
            let error = ran.map_or_else(|error| error.to_string(), |ran| ran.error);
            // Of a run with nothing else to undo there is nothing to force.
            assert_eq!(error.contains(&applied.run_id), !force, "{error}");
        }
    }
}
