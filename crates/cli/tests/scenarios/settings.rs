//! Settings of a fleet: where each comes from, what a run is given besides, and a peel that starts without its files.

use crate::daemon::PATIENCE;
use crate::fleet::Fleet;
use serde_json::{Value as Json, json};
use std::path::Path;
use zester_rule::rule;
use zester_testkit::{Server, wait_for};

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, text).unwrap();
}

/// The value of a key, and where it comes from.
fn shown(fleet: &Fleet, key: &str) -> Option<(Json, String)> {
    let output = fleet.zester(&["settings", "show", "p1", key, "--format", "json"]);
    let document: Json = serde_json::from_slice(&output.stdout).ok()?;
    let row = document["values"].get(0)?;
    let place = match row["line"].as_u64() {
        Some(line) => format!("{}:{line}", row["from"].as_str()?),
        None => row["from"].as_str()?.to_string(),
    };
    Some((row["value"].clone(), place))
}

#[test]
#[rule("D-6", "D-8", "D-9", "C-12")]
fn d6_settings_reach_a_peel_say_where_they_come_from_and_outlive_their_files() {
    let server = Server::start();
    let mut fleet = Fleet::new(&server.url());
    let (settings, external) = (fleet.path("settings"), fleet.path("external"));
    write(&settings.join("top.zy"), "'p*': [base, web]\n");
    write(&settings.join("base.zy"), "role: none\nn:\n  w: 4\n");
    write(&settings.join("web.zy"), "role: web\n");
    write(&external.join("p1.yaml"), "rack: b7\n");
    write(
        &fleet.path("states/web.zy"),
        &format!(
            "{}:\n  file.managed:\n    - content: {{{{ settings.role }}}} {{{{ settings.n.w }}}}\n",
            fleet.path("motd").display()
        ),
    );
    let (settings, external) = (settings.display().to_string(), external.display().to_string());
    fleet.start_master_with("m1", &["--settings", &settings, "--settings-ext", &external]);
    let mut fleet = fleet.started(0, 1);
    wait_for("what the master says of the peel", PATIENCE, || shown(&fleet, "rack"));
    assert_eq!(shown(&fleet, "rack").unwrap(), (json!("b7"), "settings/_ext/p1.zy:2".to_string()));
    assert_eq!(shown(&fleet, "role").unwrap(), (json!("web"), "settings/web.zy:1".to_string()));
    assert_eq!(shown(&fleet, "n:w").unwrap(), (json!(4), "settings/base.zy:3".to_string()));
    let text = fleet.zester(&["settings", "show", "p1"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains("n:w") && text.contains("settings/base.zy:3"), "{text}");
    let missing = fleet.zester(&["settings", "show", "p1", "rol"]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no setting `rol`"));

    let applied = |words: &[&str]| {
        let mut all = vec!["p1", "state.apply", "web"];
        all.extend(words);
        let output = fleet.zester(&all);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{words:?}: {said}");
        std::fs::read_to_string(fleet.path("motd")).unwrap()
    };
    assert_eq!(applied(&[]), "web 4");
    assert_eq!(applied(&["--setting", "n:w=8", "pillar={role: db}"]), "db 8");
    assert_eq!(applied(&[]), "web 4");
    let refused = fleet.zester(&["p1", "state.apply", "web", "--setting", "n:w"]);
    assert_eq!(refused.status.code(), Some(1));
    let matched = fleet.json(&["I@rack:b7 and I@role:web", "test.ping"]);
    assert_eq!(matched["peels"]["p1"]["status"], "success", "{matched}");

    // Another bus, on which nobody ever published anything, and no files of earlier days.
    fleet.peels.remove("p1");
    for name in ["p1/settings", "p1/settings.trees"] {
        let path = fleet.path(name);
        let removed = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
        removed.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    let elsewhere = Server::start();
    fleet.urls = elsewhere.url();
    fleet.start_peel("p1");
    wait_for("the peel without its files", PATIENCE, || shown(&fleet, "role"));
    assert_eq!(shown(&fleet, "role").unwrap(), (json!("web"), "settings/web.zy:1".to_string()));
    std::fs::remove_file(fleet.path("motd")).unwrap();
    let output = fleet.zester(&["p1", "state.apply", "web", "--direct"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(std::fs::read_to_string(fleet.path("motd")).unwrap(), "web 4");
}
