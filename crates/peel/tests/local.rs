//! Work on this machine, with a states directory of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod fixture;

use serde_json::{Map, Value, json};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_peel::work::{Local, Options, PUBLIC_KEY, StateEnded};
use zester_peel::{Outcome, Work};
use zester_rule::rule;
use zester_wire::ExecRequest;

struct Place {
    dir: tempfile::TempDir,
    local: Local,
}

impl Place {
    fn new(files: &[(&str, &str)]) -> Place {
        Place::of(None, files)
    }

    /// In an environment of its own.
    fn of(environment: Option<&str>, files: &[(&str, &str)]) -> Place {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["states", "settings"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let here = dir.path().to_str().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text.replace("@T@", here)).unwrap();
        }
        let local = Local::open(Options {
            id: "web-1".into(),
            states: Some(dir.path().join("states")),
            states_cache: None,
            settings_cache: None,
            states_freshness: None,
            settings_freshness: None,
            settings: Some(dir.path().join("settings")),
            settings_merge: Default::default(),
            renderers: Default::default(),
            facts: None,
            data_dir: dir.path().join("data"),
            concurrency: 4,
            turns: None,
            environment: environment.map(String::from),
            startup: None,
            events: None,
        });
        Place { local: local.unwrap(), dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_string()
    }

    async fn call(&self, function: &str, word: &str, args: Value) -> Outcome {
        self.execute(request(function, word, args)).await
    }

    async fn execute(&self, request: ExecRequest) -> Outcome {
        self.local.execute(request, Arc::new(|_| {}), CancellationToken::new()).await
    }
}

fn request(function: &str, word: &str, args: Value) -> ExecRequest {
    let Value::Object(args) = args else { panic!("arguments are a map") };
    ExecRequest { args, state_id: word.into(), ..fixture::request(fixture::some_jid(), function) }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("C-12")]
async fn c12_a_state_file_is_applied_and_its_return_is_the_run_document() {
    let place = Place::new(&[(
        "states/web.zy",
        "'@T@/motd':\n  file.managed:\n    - content: hello\nsmoke:\n  cmd.run:\n    - name: exit 7\n",
    )]);
    let told: Arc<Mutex<Vec<(u64, Value)>>> = Arc::default();
    let teller = told.clone();
    let tell = Arc::new(move |told: StateEnded| teller.lock().unwrap().push((told.total, told.state)));
    let request = request("state.apply", "web", json!({}));
    let outcome = place.local.execute(request, tell, CancellationToken::new()).await;
    assert!(!outcome.success && !outcome.canceled);
    assert!(outcome.error.starts_with("1 of 2 states failed: cmd.run:"), "{}", outcome.error);
    assert_eq!((&outcome.answer["mode"], &outcome.answer["failed"]), (&json!("apply"), &json!(1)));
    assert_eq!(outcome.answer["states"].as_object().unwrap().len(), 2);
    assert_eq!(std::fs::read_to_string(place.path("motd")).unwrap().trim_end(), "hello");
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|(total, state)| *total == 2 && state["name"].is_string()), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[rule("C-5")]
async fn c5_a_test_changes_nothing_however_it_is_asked_for() {
    let place = Place::new(&[("states/web.zy", "'@T@/motd':\n  file.managed:\n    - content: hello\n")]);
    let mut flagged = request("state.apply", "web", json!({}));
    flagged.test = true;
    for request in [flagged, request("state.apply", "web", json!({"test": "True"}))] {
        let outcome = place.execute(request).await;
        assert!(outcome.success, "{}", outcome.error);
        assert_eq!((&outcome.answer["test"], &outcome.answer["changed"]), (&json!(true), &json!(1)));
    }
    let args = json!({"content": "x", "test": true});
    let outcome = place.call("file.managed", &place.text("motd"), args).await;
    assert_eq!((outcome.success, &outcome.answer["test"]), (true, &json!(true)), "{}", outcome.error);
    assert!(!place.path("motd").exists());
}

#[tokio::test(flavor = "multi_thread")]
#[rule("C-3")]
async fn c3_what_does_not_compile_is_told_with_its_place() {
    let place = Place::new(&[("states/web.zy", "a:\n  file.managd:\n    - content: hello\n")]);
    let outcome = place.call("state.apply", "web", json!({})).await;
    assert!(!outcome.success && outcome.error.contains("web.zy:2:"), "{}", outcome.error);
    assert_eq!(outcome.answer["error"]["line"], json!(2));
    assert_eq!(outcome.answer["errors"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("C-12")]
async fn c12_a_state_module_runs_with_what_it_printed_and_its_attributes() {
    let place = Place::new(&[]);
    let outcome = place.call("cmd.run", "echo hi", json!({})).await;
    assert!(outcome.success, "{}", outcome.error);
    let states = outcome.answer["states"].as_object().unwrap();
    assert_eq!(states.values().next().unwrap()["details"]["stdout"].as_str().unwrap().trim(), "hi");
    let outcome = place.call("cmd.run", "echo hi", json!({"onlyif": "false"})).await;
    assert!(outcome.success && outcome.answer["changed"] == json!(0), "{:?}", outcome.answer);
    // As a text, and as what YAML makes of `mode=0640` on a command line.
    for (name, mode) in [("a", json!("0640")), ("b", json!(640))] {
        let args = json!({"content": "yes", "mode": mode});
        let outcome = place.call("file.managed", &place.text(name), args).await;
        assert!(outcome.success, "{}", outcome.error);
        assert_eq!(std::fs::read_to_string(place.path(name)).unwrap().trim_end(), "yes");
        assert_eq!(std::fs::metadata(place.path(name)).unwrap().permissions().mode() & 0o777, 0o640);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("C-12")]
async fn c12_functions_answer_plainly() {
    let place =
        Place::new(&[("settings/top.zy", "base:\n  '*': [web]\n"), ("settings/web.zy", "port: 80\n")]);
    assert_eq!(place.call("facts.get", "id", json!({})).await.answer, json!("web-1"));
    assert_eq!(place.call("test.echo", "", json!({"text": "5"})).await.answer, json!("5"));
    let mut two = request("facts.get", "none", json!({}));
    two.positionals = vec![json!("other")];
    assert_eq!(place.execute(two).await.answer, json!("other"));
    let unknown = place.call("facts.gte", "id", json!({})).await;
    assert!(!unknown.success && unknown.error.contains("facts.get"), "{}", unknown.error);
    let missing = place.call("facts.get", "", json!({})).await;
    assert!(!missing.success && missing.error.contains("`key` is missing"), "{}", missing.error);
    assert_eq!(place.local.facts().await["id"], json!("web-1"));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("J-15")]
async fn j15_a_ping_answers_while_a_run_holds_the_lock() {
    let place = Place::new(&[]);
    let cancel = CancellationToken::new();
    let started = place.text("started");
    let long = request("cmd.run", &format!("touch {started}; sleep 600"), json!({}));
    let running = place.local.execute(long, Arc::new(|_| {}), cancel.clone());
    let ping = async {
        let begun = || async { place.path("started").exists().then_some(()) };
        zester_testkit::wait_until("the long run", Duration::from_secs(30), begun).await;
        let outcome = place.call("test.ping", "", json!({})).await;
        assert!(outcome.success, "{}", outcome.error);
        assert_eq!((&outcome.answer["mode"], &outcome.answer["test"]), (&json!("apply"), &json!(false)));
        cancel.cancel();
    };
    let (outcome, ()) = tokio::join!(running, ping);
    assert!(!outcome.success && outcome.canceled, "{outcome:?}");
    assert_eq!(outcome.answer["canceled"], json!(true));
}

#[tokio::test(flavor = "multi_thread")]
#[rule("C-12")]
async fn c12_graph_and_revert_work_as_locally() {
    let place = Place::new(&[("states/web.zy", "'@T@/motd':\n  file.managed:\n    - content: hello\n")]);
    let graph = place.call("state.graph", "web", json!({})).await;
    assert_eq!(graph.answer["levels"].as_array().unwrap().len(), 1);
    assert!(place.call("state.apply", "web", json!({})).await.success);
    assert!(place.path("motd").exists());
    let reverted = place.call("state.revert", "web", json!({})).await;
    assert!(reverted.success && !place.path("motd").exists(), "{}", reverted.error);
    assert!(place.call("state.apply", "web", json!({})).await.success);
    let reverted = place.call("state.revert", "", json!({})).await;
    assert!(reverted.success && !place.path("motd").exists(), "{}", reverted.error);
    let nothing = place.call("state.revert", "", json!({})).await;
    assert!(!nothing.success && nothing.error.contains("nothing was applied"), "{}", nothing.error);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_highstate_needs_no_name() {
    let place = Place::new(&[
        ("states/top.zy", "base:\n  'web-*': [web]\n"),
        ("states/web.zy", "'@T@/motd':\n  file.managed:\n    - content: hello\n"),
    ]);
    for function in ["state.highstate", "state.apply"] {
        let outcome = place.call(function, "", Value::Object(Map::new())).await;
        assert!(
            outcome.success && outcome.answer["states"].as_object().unwrap().len() == 1,
            "{}",
            outcome.error
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_without_states_and_settings_answers_a_ping() {
    let place = Place::new(&[]);
    for folder in ["states", "settings"] {
        std::fs::remove_dir(place.path(folder)).unwrap();
    }
    for function in ["test.ping", "facts.items", "sys.list_functions"] {
        let outcome = place.call(function, "", json!({})).await;
        assert!(outcome.success, "{function}: {}", outcome.error);
    }
    for function in ["settings.items", "state.apply"] {
        let outcome = place.call(function, "", json!({})).await;
        assert!(!outcome.success, "{function} must say what is missing");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-37")]
async fn s37_without_states_only_states_are_unavailable_and_they_work_once_there_are_some() {
    let place = Place::new(&[]);
    std::fs::remove_dir(place.path("states")).unwrap();
    for function in [
        "state.apply",
        "state.highstate",
        "state.sls",
        "state.show_top",
        "state.show_sls",
        "state.show_highstate",
    ] {
        let word =
            if ["state.apply", "state.sls", "state.show_sls"].contains(&function) { "web" } else { "" };
        let refused = place.call(function, word, json!({})).await;
        assert_eq!(
            refused.error,
            "states engine unavailable: no states directory exists yet (state files not yet synced from KV and no baked states dir); retry after state files are published",
        );
    }
    assert!(place.call("test.ping", "", json!({})).await.success);
    std::fs::create_dir(place.path("states")).unwrap();
    let states = format!("{}:\n  file.managed:\n    - content: hello\n", place.text("motd"));
    std::fs::write(place.path("states/web.zy"), states).unwrap();
    let applied = place.call("state.apply", "web", json!({})).await;
    assert!(applied.success, "{}", applied.error);
    assert_eq!(std::fs::read_to_string(place.path("motd")).unwrap(), "hello");
}

const TOP: &str = "base:\n  '*': [base]\nprod:\n  'web*': [prod]\n  'db*': [base]\n";
const BASE: &str = "'@T@/base':\n  file.managed:\n    - content: base\n";
const PROD: &str = "'@T@/prod':\n  file.managed:\n    - content: {{ saltenv }}\n";

#[tokio::test(flavor = "multi_thread")]
#[rule("S-8", "C-12")]
async fn s8_the_environment_is_that_of_the_call_else_that_of_the_peel_else_base() {
    let files = [("states/top.zy", TOP), ("states/base.zy", BASE), ("states/prod.zy", PROD)];
    let written = |place: &Place| ["base", "prod"].map(|name| place.path(name).exists());
    let place = Place::new(&files);
    assert!(place.call("state.highstate", "", json!({})).await.success);
    assert_eq!(written(&place), [true, false]);
    for (usual, args) in
        [(None, json!({"saltenv": "prod"})), (Some("prod"), json!({})), (Some("dev"), json!({"env": "prod"}))]
    {
        let place = Place::of(usual, &files);
        let outcome = place.call("state.apply", "", args).await;
        assert!(outcome.success, "{}", outcome.error);
        assert_eq!(written(&place), [false, true], "{usual:?}");
        assert_eq!(std::fs::read_to_string(place.path("prod")).unwrap().trim_end(), "prod");
    }
    let outcome = Place::of(Some("dev"), &files).call("state.highstate", "", json!({})).await;
    assert!(outcome.error.contains("top.zy:1:1: there is no environment `dev`"), "{}", outcome.error);
    assert!(outcome.error.contains("it has `base`, `prod`"), "{}", outcome.error);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("S-8", "C-12")]
async fn s8_what_would_run_can_be_asked_for_and_nothing_runs() {
    let place = Place::of(
        Some("prod"),
        &[("states/top.zy", TOP), ("states/base.zy", BASE), ("states/prod.zy", PROD)],
    );
    let top = place.call("state.show_top", "", json!({})).await;
    assert_eq!(top.answer, json!({"base": ["base"], "prod": ["prod"]}), "{}", top.error);
    let one = place.call("state.show_top", "", json!({"saltenv": "prod"})).await;
    assert_eq!(one.answer, json!({"prod": ["prod"]}));
    let name = format!("file.managed:{}", place.text("prod"));
    for outcome in [
        place.call("state.show_highstate", "", json!({})).await,
        place.call("state.show_sls", "prod", json!({})).await,
    ] {
        let shown = &outcome.answer[&name];
        assert_eq!((&shown["sls"], &shown["level"]), (&json!("prod"), &json!(0)), "{}", outcome.error);
        assert_eq!(shown["params"]["content"], "prod", "{shown}");
        assert!(shown["place"].as_str().unwrap().ends_with("states/prod.zy:2:3"), "{shown}");
    }
    assert!(!place.path("prod").exists() && !place.path("base").exists());
    // A template that would run something is not rendered by what only looks.
    std::fs::write(
        place.path("states/runs.zy"),
        "x:\n  test.nop:\n    - name: {{ salt['cmd.run']('id') }}\n",
    )
    .unwrap();
    let outcome = place.call("state.show_sls", "runs", json!({})).await;
    assert!(outcome.error.contains("runs a command"), "{}", outcome.error);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("C-12")]
async fn c12_one_id_runs_with_what_it_requires_and_one_state_as_its_kind_does() {
    let place = Place::new(&[(
        "states/web.zy",
        "a:\n  file.managed: [{path: '@T@/a'}, {content: x}]\n\
         b:\n  file.managed: [{path: '@T@/b'}, {content: x}, {require: [{file: a}]}]\n\
         c:\n  cmd.run: [{command: 'touch @T@/c'}, {watch: [{file: a}]}, {unless: 'false'}]\n\
         d:\n  file.managed: [{path: '@T@/d'}, {content: x}]\n",
    )]);
    let there = || ["a", "b", "c", "d"].map(|name| place.path(name).exists());
    let sls_id = |id: &str, test: bool| {
        let mut request = request("state.sls_id", id, json!({}));
        (request.positionals, request.test) = (vec![json!("web")], test);
        request
    };
    let dry = place.execute(sls_id("b", true)).await;
    assert_eq!((&dry.answer["changed"], there()), (&json!(2), [false; 4]), "{}", dry.error);
    let ran = place.execute(sls_id("b", false)).await;
    assert_eq!((&ran.answer["changed"], there()), (&json!(2), [true, true, false, false]), "{}", ran.error);
    let unknown = place.execute(sls_id("bb", false)).await;
    assert!(unknown.error.contains("no state has the id `bb`; did you mean"), "{}", unknown.error);
    // What watches a state of the part has a pending refresh (S-39).
    let next = place.call("state.sls", "web", json!({})).await;
    assert_eq!(next.answer["states"]["cmd.run:c"]["changed"], true, "{}", next.answer);
    assert!(place.path("c").exists());

    let mut single =
        request("state.single", "file.managed", json!({"name": place.text("s"), "content": "y"}));
    single.test = true;
    assert_eq!(place.execute(single.clone()).await.answer["changed"], 1);
    assert!(!place.path("s").exists());
    single.test = false;
    let outcome = place.execute(single).await;
    assert!(outcome.success && place.path("s").exists(), "{}", outcome.error);
}

const WITH_ROLE: &str = "'@T@/motd':\n  file.managed:\n    - content: {{ settings.role }} {{ pillar.n.w }}\n";

#[tokio::test(flavor = "multi_thread")]
#[rule("D-6", "C-12")]
async fn d6_settings_for_one_run_lie_over_the_files_and_are_no_reference() {
    let place =
        Place::new(&[("states/web.zy", WITH_ROLE), ("settings/a.zy", "role: web\nn:\n  w: 4\n  v: 1\n")]);
    for (args, wanted) in [
        (json!({}), "web 4"),
        (json!({"pillar": "{n: {w: 8}}"}), "web 8"),
        (json!({"settings": {"role": "db"}}), "db 4"),
        (json!({"setting": ["role='007'", "n:w=9"], "pillar": "{role: lost}"}), "007 9"),
    ] {
        let outcome = place.call("state.apply", "web", args.clone()).await;
        assert!(outcome.success, "{args}: {}", outcome.error);
        assert_eq!(outcome.answer["states"].as_object().unwrap().len(), 1);
        assert_eq!(std::fs::read_to_string(place.path("motd")).unwrap(), wanted, "{args}");
    }
    let history = std::fs::read_to_string(place.path("data/history")).unwrap();
    assert!(history.contains("--setting n:w=9"), "the record says what was given: {history}");
    let wrong = place.call("state.apply", "web", json!({"pillar": "web"})).await;
    assert!(!wrong.success && wrong.error.contains("pillar=web is no map"), "{}", wrong.error);
    assert_eq!(place.call("pillar.get", "n:w", json!({})).await.answer, json!(4), "only for that run");
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-6")]
async fn d6_states_never_run_with_settings_that_failed_to_resolve_and_questions_are_answered() {
    let place = Place::new(&[("states/web.zy", WITH_ROLE), ("settings/a.zy", "role: web\nn: {w: 4}\n")]);
    assert!(place.call("state.apply", "web", json!({})).await.success);
    std::fs::write(place.path("settings/b.zy"), "n: {w: {{ nope }}}\n").unwrap();
    std::fs::remove_file(place.path("motd")).unwrap();
    let failed = place.call("state.apply", "web", json!({})).await;
    assert!(!failed.success && failed.error.contains("b.zy:1:11: `nope` is undefined"), "{}", failed.error);
    assert!(!place.path("motd").exists());
    for function in ["test.ping", "facts.items", "grains.items"] {
        assert!(place.call(function, "", json!({})).await.success, "{function}");
    }
    assert!(!place.call("settings.items", "", json!({})).await.success);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-6", "D-9")]
async fn d6_a_peel_whose_settings_files_are_gone_runs_with_the_last_good_ones() {
    let place = Place::new(&[("states/web.zy", WITH_ROLE), ("settings/a.zy", "role: web\nn: {w: 4}\n")]);
    assert!(place.call("state.apply", "web", json!({})).await.success);
    let mode = std::fs::metadata(place.path("data/settings.snapshot")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    std::fs::remove_dir_all(place.path("settings")).unwrap();
    std::fs::remove_file(place.path("motd")).unwrap();
    let outcome = place.call("state.apply", "web", json!({})).await;
    assert!(outcome.success, "{}", outcome.error);
    assert_eq!(std::fs::read_to_string(place.path("motd")).unwrap(), "web 4");
    let shown = place.call("settings.show", "n:w", json!({})).await.answer;
    let from = shown["values"][0]["from"].as_str().unwrap();
    assert!(from.ends_with("settings/a.zy") && shown["values"][0]["line"] == json!(2), "{shown}");
    std::fs::write(place.path("data/settings.snapshot"), "torn").unwrap();
    let failed = place.call("state.apply", "web", json!({})).await;
    assert!(!failed.success && failed.error.contains("are damaged"), "{}", failed.error);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("R-17")]
async fn r17_beacons_are_known_without_the_files_of_their_settings() {
    let place = Place::new(&[("settings/a.zy", "beacons: {service: {services: [nginx]}}\n")]);
    let beacons = json!({"service": {"services": ["nginx"]}});
    assert_eq!(place.local.settings().await.unwrap()["beacons"], beacons);
    std::fs::remove_dir_all(place.path("settings")).unwrap();
    assert_eq!(place.local.settings().await.unwrap()["beacons"], beacons);
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-15", "I-10")]
async fn d15_states_are_shown_without_the_secrets_in_their_names() {
    const SECRET: &str = "correct-horse-battery";
    let states =
        format!("x-{SECRET}:\n  test.nop: []\ny:\n  test.nop:\n    - require: [{{test: x-{SECRET}}}]\n");
    let place = Place::new(&[("states/web.zy", &states)]);
    let key = zester_converge::secrets::key(&place.path("data")).unwrap().unwrap().public();
    let mut random = zester_converge::secrets::Random::default();
    let to = [("web-1".to_string(), key)];
    let sealed =
        zester_secret::Sealed::seal(SECRET, &to, None, &mut |bytes| random.fill(bytes)).unwrap().to_string();
    let block: String = sealed.lines().map(|line| format!("  {line}\n")).collect();
    std::fs::write(place.path("settings/a.zy"), format!("password: !secret |\n{block}")).unwrap();
    for (function, shown) in
        [("state.show_sls", "test.nop:x-<secret>"), ("state.apply", "test.nop:x-<secret>")]
    {
        let outcome = place.call(function, "web", json!({})).await;
        assert!(outcome.success, "{}", outcome.error);
        let states = outcome.answer.get("states").unwrap_or(&outcome.answer);
        assert!(states.get(shown).is_some(), "{:#}", outcome.answer);
        assert!(!outcome.answer.to_string().contains(SECRET), "{:#}", outcome.answer);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[rule("D-10", "D-15")]
async fn d10_a_scheduled_function_gets_the_secret_and_nobody_else_does() {
    let place = Place::new(&[(
        "states/a.zy",
        "'@T@/of-states':\n  file.managed:\n    - content: '{{ settings.app.token }}'\n",
    )]);
    let key = place.local.facts().await[PUBLIC_KEY].as_str().unwrap().to_string();
    let recipients = [("web-1".to_string(), zester_secret::PublicKey::parse(&key).unwrap())];
    let mut roll = 0_u8;
    let mut chance = |bytes: &mut [u8]| {
        bytes.iter_mut().for_each(|byte| {
            roll = roll.wrapping_mul(31).wrapping_add(7);
            *byte = roll;
        });
    };
    let sealed = zester_secret::Sealed::seal("hunter2", &recipients, None, &mut chance).unwrap().to_string();
    let block = |indent: usize| -> String {
        sealed.lines().map(|line| format!("\n{}{line}", " ".repeat(indent))).collect()
    };
    let settings = format!(
        "schedule:\n  shell:\n    function: cmd.run_all\n    interval: 1h\n    args: ['printf %s \"$TOKEN\" > {out}; echo $TOKEN']\n    kwargs:\n      env:\n        TOKEN: !secret |{}\n  \
         file:\n    function: file.managed\n    interval: 1h\n    args: [{file}]\n    kwargs:\n      content: !secret |{}\n  \
         states:\n    function: state.apply\n    interval: 1h\n    args: [a]\n    kwargs:\n      pillar:\n        app:\n          token: !secret |{}\n",
        block(10),
        block(8),
        block(12),
        out = place.text("of-shell"),
        file = place.text("of-file"),
    );
    std::fs::write(place.path("settings/a.zy"), settings).unwrap();
    let given = place.local.settings().await.unwrap();
    for (entry, file) in [("shell", "of-shell"), ("file", "of-file"), ("states", "of-states")] {
        let entry = &given["schedule"][entry];
        // As the document of the schedule and the ledger hold it.
        assert!(!entry.to_string().contains("hunter2"), "{entry}");
        let mut request = request(entry["function"].as_str().unwrap(), "", entry["kwargs"].clone());
        request.positionals = entry["args"].as_array().unwrap().clone();
        let outcome = place.execute(request).await;
        assert!(outcome.success, "{file}: {}", outcome.error);
        assert_eq!(std::fs::read_to_string(place.path(file)).unwrap().trim_end(), "hunter2", "{file}");
        assert!(!outcome.answer.to_string().contains("hunter2"), "{}", outcome.answer);
    }
    std::fs::write(place.path("settings/a.zy"), "schedule: {}\n").unwrap();
    let entry = &given["schedule"]["file"];
    let mut request = request("file.managed", "", entry["kwargs"].clone());
    request.positionals = entry["args"].as_array().unwrap().clone();
    let gone = place.execute(request).await;
    assert!(gone.error.contains("no secret `schedule:file:kwargs:content` any more"), "{}", gone.error);
}
