//! Crontabs.

use crate::{Bench, Finally, has_program, is_root, ran};
use serde_json::json;
use std::path::Path;
use zester_testkit::skip;

const USER: &str = "zester-test-cron";

fn crontab() -> String {
    let output = std::process::Command::new("crontab").args(["-l", "-u", USER]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn clean_up() {
    ran(&["crontab", "-r", "-u", USER]);
    ran(&["userdel", "-f", "-r", USER]);
}

#[test]
fn a_job_comes_changes_and_goes() {
    if !is_root() || !has_program("crontab") || !has_program("useradd") {
        skip!("there is no crontab here, or nobody to have one");
    }
    if !Path::new("/var/spool/cron/crontabs").exists() {
        skip!("cron is not installed, only its programs");
    }
    let bench = Bench::new();
    clean_up();
    let _clean = Finally(clean_up);
    assert!(ran(&["useradd", "-M", USER]));
    let job =
        json!({ "name": "/bin/true", "user": USER, "minute": 5, "identifier": "job", "comment": "hello" });
    let made = bench.apply("cron.present", &job);
    let tag = "# Lines below here are managed by Salt, do not edit";
    assert_eq!(crontab(), format!("{tag}\n# hello SALT_CRON_IDENTIFIER:job\n5 * * * * /bin/true\n"));
    // Drift by hand: the check shows it, and it alone.
    let by_hand = crontab().replace("5 * * * *", "6 * * * *");
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), by_hand).unwrap();
    assert!(ran(&["crontab", "-u", USER, &file.path().display().to_string()]));
    let drift = bench.drift("cron.present", &job).unwrap();
    assert!(drift.contains("-6 * * * * /bin/true\n") && drift.contains("+5 * * * * /bin/true\n"), "{drift}");
    let mended = bench.apply("cron.present", &job);
    assert!(crontab().contains("\n5 * * * * /bin/true\n"));
    bench.revert(&mended);
    assert!(crontab().contains("\n6 * * * * /bin/true\n"));
    bench.apply("cron.present", &job);
    let variable =
        bench.apply("cron.env_present", &json!({ "name": "MAILTO", "value": "root", "user": USER }));
    let gone = bench.apply("cron.absent", &json!({ "name": "/bin/true", "user": USER, "identifier": "job" }));
    assert_eq!(crontab(), format!("{tag}\nMAILTO=root\n"));
    for applied in [gone, variable, made] {
        assert!(bench.revert(&applied).changed);
    }
    assert_eq!(crontab(), "", "there was no crontab");
}
