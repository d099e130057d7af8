//! `zester target`, and environments on the fleet.

use crate::up::{SOON, up};
use serde_json::json;
use zester_rule::rule;
use zester_testkit::wait_for;

#[test]
#[rule("D-8", "C-3")]
fn d8_who_matches_who_does_not_and_which_part_said_no() {
    let up = up(3, &[]);
    let told = wait_for("the facts of all peels", SOON, || {
        let told =
            up.zester(&["target", "peel-* and not L@peel-2,nosuch and G@kernel:linux", "--format", "json"]);
        let told: serde_json::Value = serde_json::from_str(&told.stdout).ok()?;
        (told["matching"] == 2).then_some(told)
    });
    assert_eq!((&told["not_matching"], &told["offline"]), (&json!(1), &json!(0)), "{told:#}");
    let of =
        |id: &str| told["peels"].as_array().unwrap().iter().find(|peel| peel["id"] == id).unwrap().clone();
    assert_eq!((&of("peel-1")["matches"], &of("peel-1")["online"]), (&json!(true), &json!(true)));
    assert_eq!(of("peel-2")["said_no"], json!([{"part": "not L@peel-2,nosuch", "found": ""}]));

    let text = up.zester(&["target", "peel-[12] and G@kernel:plan9"]).exits(1);
    for wanted in [
        "3 peels do not match\n",
        " · peel-1  G@kernel:plan9 said no: kernel is Linux\n",
        " · peel-3  peel-[12] said no\n",
        "\nno peel matches\n",
    ] {
        assert!(text.stdout.contains(wanted), "{}", text.stdout);
    }
    let listed = up.zester(&["target", "L@peel-1,nosuch"]).exits(0);
    assert!(listed.stdout.contains("1 peel matches\n ✓ peel-1\n"), "{}", listed.stdout);
    assert!(listed.stdout.contains("no peel is called nosuch"), "{}", listed.stdout);
    let wrong = up.zester(&["target", "peel-1 and ("]).exits(1);
    assert!(wrong.stderr.contains('^') && wrong.stderr.contains("peel-1 and ("), "{}", wrong.stderr);
}

const TOP: &str = "base:\n  '*': [base]\nprod:\n  'peel-1': [prod]\n";

#[test]
#[rule("S-8", "C-12", "S-45")]
fn s8_environments_and_what_shows_them_on_the_fleet() {
    let base = "'@T@/base':\n  file.managed:\n    - content: base\n";
    let prod = "p:\n  file.managed:\n    - name: '@T@/{{ saltenv }}'\n    - content: x\n";
    let up = up(2, &[("top", TOP), ("base", base), ("prod", prod)]);
    let returned = |words: &[&str], peel: &str| up.json(words, 0)["peels"][peel]["return"].clone();
    let top = returned(&["*", "state.show_top"], "peel-2");
    assert_eq!(top, json!({"base": ["base"], "prod": []}));
    let shown = returned(&["peel-1", "state.show_highstate", "--env", "prod"], "peel-1");
    assert_eq!(shown["file.managed:p"]["sls"], "prod", "{shown}");
    let dry = returned(&["peel-1", "state.apply", "--env", "prod", "--test"], "peel-1");
    assert_eq!((&dry["changed"], &dry["test"]), (&json!(1), &json!(true)));
    assert!(!up.path("prod").exists() && !up.path("base").exists());
    returned(&["peel-1", "state.highstate", "saltenv=prod"], "peel-1");
    assert!(up.path("prod").exists() && !up.path("base").exists());
    let by_id = returned(&["peel-1", "state.sls_id", "p", "prod", "--direct"], "peel-1");
    assert_eq!(by_id["states"].as_object().unwrap().len(), 1);
    let single = format!("name={}", up.path("s").display());
    returned(&["peel-1", "state.single", "file.managed", &single, "content=x"], "peel-1");
    assert!(up.path("s").exists());
    let gone = up.zester(&["peel-1", "state.apply", "--env", "prdo"]).exits(2);
    assert!(gone.stdout.contains("there is no environment `prdo`"), "{}", gone.stdout);
    let wrong = up.zester(&["peel-1", "cmd.run", "true", "--env", "prod"]).exits(1);
    assert!(wrong.stderr.contains("--env is for functions of state files"), "{}", wrong.stderr);
}
