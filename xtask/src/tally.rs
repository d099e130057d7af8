//! How a test run ended: what passed, what failed, and what was skipped by name and why. A skipped test ends well for the
//! runner, so it is taken out of what passed.

use crate::{stated, tree};
use std::collections::BTreeSet;
use std::process::ExitCode;

/// One test that ran.
#[derive(Debug, PartialEq, Eq)]
struct Case {
    /// `zester-host::commands`: the package and the binary of it.
    binary: String,
    /// `tests::x5_a_command_ends`
    name: String,
    failed: bool,
}

/// One test that says it could not run.
struct Skip {
    /// `commands::tests::x5_a_command_ends`: the crate first.
    test: String,
    why: String,
}

/// Reads the report of nextest and the record of skipped tests, and prints the end of a test run.
pub fn run(report: Option<String>, record: Option<String>) -> ExitCode {
    let (Some(report), Some(record)) = (report, record) else {
        eprintln!("usage: cargo xtask tally JUNIT SKIPPED");
        return ExitCode::FAILURE;
    };
    let Ok(text) = std::fs::read_to_string(&report) else {
        eprintln!("tally: no test ran: {report} was not written");
        return ExitCode::FAILURE;
    };
    let skips = read_skips(&std::fs::read_to_string(&record).unwrap_or_default());
    let files = tree::rust_files();
    let stating = files.iter().flat_map(|file| stated::tests(file, &tree::read(file)));
    let end = tally(&read_cases(&text), &skips, &stating.collect::<Vec<_>>());
    for line in &end.said {
        println!("{line}");
    }
    if end.good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct End {
    said: Vec<String>,
    good: bool,
}

fn tally(cases: &[Case], skips: &[Skip], stating: &[stated::Test]) -> End {
    let mut said = Vec::new();
    let reason = |case: &Case| skips.iter().find(|skip| skip.is(case) && !case.failed);
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    for case in cases {
        if case.failed {
            failed += 1;
            said.push(format!("failed: {} {}", case.binary, case.name));
        } else if let Some(skip) = reason(case) {
            skipped += 1;
            said.push(format!("skipped: {} {}: {}", case.binary, case.name, skip.why));
        } else {
            passed += 1;
        }
    }
    // A file that no binary includes can state what it likes.
    let mut absent = 0;
    let stating: Vec<&stated::Test> = stating.iter().filter(|test| !test.rules.is_empty()).collect();
    for test in stating.iter().filter(|test| !test.name.starts_with('$')) {
        if !cases.iter().any(|case| case.is(test)) {
            absent += 1;
            said.push(format!("absent: {}: {} states a rule and did not run", test.place, test.name));
        }
    }
    let ran = |test: &stated::Test| cases.iter().any(|case| case.is(test) && reason(case).is_none());
    let named: BTreeSet<&String> = stating.iter().flat_map(|test| &test.rules).collect();
    let shown: BTreeSet<&String> =
        stating.iter().filter(|test| ran(test)).flat_map(|test| &test.rules).collect();
    let unshown: Vec<&str> = named.difference(&shown).map(|rule| rule.as_str()).collect();
    if skipped > 0 && !unshown.is_empty() {
        said.push(format!("not shown on this machine: {}", unshown.join(", ")));
    }
    said.push(format!("{passed} passed, {failed} failed, {skipped} skipped"));
    End { said, good: failed == 0 && absent == 0 && passed > 0 }
}

impl Case {
    fn is(&self, test: &stated::Test) -> bool {
        let package = self.binary.split("::").next().unwrap_or_default();
        let home = match package.strip_prefix("zester-") {
            Some(name) => format!("crates/{name}/"),
            None => format!("{package}/"),
        };
        test.place.starts_with(&home) && self.name.rsplit("::").next() == Some(&test.name)
    }
}

impl Skip {
    /// The crate of a test is its binary, or the package where that is the library's own.
    fn is(&self, case: &Case) -> bool {
        let Some((from, name)) = self.test.split_once("::") else { return false };
        let binary = case.binary.rsplit(['/', ':']).next().unwrap_or_default();
        name == case.name && binary.replace('-', "_") == from
    }
}

fn read_cases(report: &str) -> Vec<Case> {
    let cases = report.split("<testcase").skip(1);
    cases
        .map(|case| {
            let case = case.split("</testcase>").next().unwrap_or_default();
            let tag = case.split('>').next().unwrap_or_default();
            let attribute = |name: &str| {
                let (_, value) = tag.split_once(&format!(" {name}=\"")).unwrap_or_default();
                value.split('"').next().unwrap_or_default().to_string()
            };
            let failed = case.contains("<failure") || case.contains("<error");
            Case { binary: attribute("classname"), name: attribute("name"), failed }
        })
        .collect()
}

fn read_skips(record: &str) -> Vec<Skip> {
    let lines = record.lines().filter_map(|line| line.split_once('\t'));
    lines.map(|(test, why)| Skip { test: test.to_string(), why: why.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<testsuites name="nextest-run" tests="4">
    <testsuite name="zester-host::commands" tests="2">
        <testcase name="x5_another_user" classname="zester-host::commands" time="0.1">
        </testcase>
        <testcase name="x5_plain" classname="zester-host::commands" time="0.1"/>
    </testsuite>
    <testsuite name="zester-model">
        <testcase name="tests::s1_fails" classname="zester-model" time="0.1">
            <failure message="&lt;testcase" type="test failure">said</failure>
        </testcase>
        <testcase name="tests::x5_another_user" classname="zester-model" time="0.1">
        </testcase>
    </testsuite>
</testsuites>"#;

    fn stating(file: &str, rule: &str, name: &str) -> stated::Test {
        stated::tests(file, &format!("#[test]\n#[rule(\"{rule}\")]\nfn {name}() {{}}")).remove(0)
    }

    #[test]
    fn what_was_skipped_is_no_pass_and_is_named_with_its_reason() {
        let skips = read_skips("commands::x5_another_user\tneeds root\n");
        let end = tally(&read_cases(REPORT), &skips, &[]);
        assert_eq!(
            end.said,
            [
                "skipped: zester-host::commands x5_another_user: needs root",
                "failed: zester-model tests::s1_fails",
                "2 passed, 1 failed, 1 skipped"
            ]
        );
        assert!(!end.good);
    }

    #[test]
    fn a_test_of_the_library_is_known_by_its_package() {
        let end = tally(&read_cases(REPORT), &read_skips("zester_model::tests::x5_another_user\twhy\n"), &[]);
        assert_eq!(end.said[1], "skipped: zester-model tests::x5_another_user: why");
    }

    #[test]
    fn a_rule_that_only_skipped_tests_state_was_not_shown() {
        let tests = [stating("crates/host/tests/commands.rs", "X-5", "x5_another_user")];
        let skips = read_skips("commands::x5_another_user\tneeds root\n");
        let end = tally(&read_cases(REPORT), &skips, &tests);
        assert!(end.said.contains(&"not shown on this machine: X-5".to_string()), "{:?}", end.said);
        let more = [&tests[..], &[stating("crates/host/tests/commands.rs", "X-5", "x5_plain")]].concat();
        let end = tally(&read_cases(REPORT), &skips, &more);
        assert_eq!(end.said.len(), 3, "{:?}", end.said);
    }

    #[test]
    fn a_test_that_states_a_rule_and_never_ran_fails_the_run() {
        let report = REPORT.replace("<failure", "<system-out");
        assert!(tally(&read_cases(&report), &[], &[]).good);
        let orphan = [stating("crates/host/tests/orphan.rs", "X-5", "x5_orphan")];
        let end = tally(&read_cases(&report), &[], &orphan);
        assert!(!end.good);
        assert_eq!(
            end.said[0],
            "absent: crates/host/tests/orphan.rs:3: x5_orphan states a rule and did not run"
        );
    }

    #[test]
    fn a_run_of_nothing_is_no_good_run() {
        assert!(!tally(&[], &[], &[]).good);
    }
}
