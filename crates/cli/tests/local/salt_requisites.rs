//! Salt's own requisite cases, read from a checkout of Salt that `ZESTER_SALT_CHECKOUT` names: each ends as in Salt, or stands
//! here with its row of the table of differences.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use zester_compile::differences;
use zester_rule::rule;
use zester_testkit::skip;

/// Cases that end otherwise, and the row that says why.
const OTHERWISE: [(&str, &str); 23] = [
    ("test_aggregate::test_aggregate_requisites", "custom_module"),
    ("test_listen::test_listen_in_requisite", "listen"),
    ("test_listen::test_listen_in_requisite_resolution", "listen"),
    ("test_listen::test_listen_in_requisite_resolution_names", "listen"),
    ("test_listen::test_listen_requisite", "listen"),
    ("test_listen::test_listen_requisite_no_state_module", "listen"),
    ("test_listen::test_listen_requisite_not_exist", "unknown_state"),
    ("test_listen::test_listen_requisite_resolution", "listen"),
    ("test_listen::test_listen_requisite_resolution_names", "listen"),
    ("test_mixed::test_issue_46762_prereqs_on_a_state_with_unfulfilled_requirements", "prereq"),
    ("test_mixed::test_requisites_mixed_require_prereq_use_1", "prereq_circle"),
    ("test_mixed::test_requisites_mixed_require_prereq_use_2", "prereq_circle"),
    ("test_mixed::test_requisites_mixed_require_prereq_use_5", "prereq_circle"),
    ("test_onlyif::test_onlyif_req_retcode", "unknown_function"),
    ("test_prereq::test_requisites_prereq_fail_in_prereq", "prereq"),
    ("test_prereq::test_requisites_prereq_simple_ordering_and_errors_2", "requisite_map"),
    ("test_prereq::test_requisites_prereq_simple_ordering_and_errors_6", "sequential"),
    ("test_require::test_issue_59922_conflict_in_name_and_id_for_require_in", "sequential"),
    ("test_require::test_parallel_state_with_requires_on_parallel", "parallel"),
    ("test_require::test_requisites_require_ordering_and_errors_4", "requisite_map"),
    ("test_unless::test_unless_req_retcode", "unknown_function"),
    ("test_watch::test_watch_fires_when_force_mod_watch_is_set", "force_mod_watch"),
    ("test_watch::test_watch_in", "watch_test"),
];

#[test]
#[rule("S-12", "S-56")]
fn s56_requisite_cases_of_salt_end_as_in_salt_or_stand_in_the_table() {
    let Ok(checkout) = std::env::var("ZESTER_SALT_CHECKOUT") else {
        skip!("ZESTER_SALT_CHECKOUT names no checkout of Salt");
    };
    let python = std::env::var("ZESTER_PYTHON").unwrap_or_else(|_| "python3".into());
    let there = Command::new(&python).args(["-c", "import json"]).stderr(Stdio::null()).status();
    if !there.is_ok_and(|status| status.success()) {
        skip!("Python is not installed");
    }
    let output = Command::new(&python)
        .args(["-c", include_str!("salt/requisite_cases.py"), &checkout, env!("CARGO_BIN_EXE_zester")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let verdicts: BTreeMap<String, String> = serde_json::from_slice(&output.stdout).unwrap();
    assert!(verdicts.len() > 50, "{checkout} has only {} cases", verdicts.len());
    let mut wrong = Vec::new();
    for (case, verdict) in &verdicts {
        let listed = OTHERWISE.iter().find(|(listed, _)| listed == case);
        match (verdict.as_str(), listed) {
            ("skipped by Salt", _) | ("same", None) => {}
            ("same", Some(_)) => {
                wrong.push(format!("{case} ends as in Salt: it is none of the list any more"))
            }
            (_, Some((_, row))) if differences::find(row).is_some() => {}
            (_, Some((_, row))) => {
                wrong.push(format!("{case} stands for `{row}`, which is no row of the table"))
            }
            (verdict, None) => wrong.push(format!("{case}: {verdict}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
