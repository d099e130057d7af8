//! S-38: every complete example of the founding documents compiles. They stand in `tests/seeds/` as they were written.

use crate::fixture::*;
use serde_json::json;
use std::time::Duration;
use zester_compile::Compiled;
use zester_rule::rule;

fn seed(file: &str) -> String {
    let path = format!("{}/tests/seeds/{file}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

fn manifest(file: &str, extra: &str) -> Compiled {
    asked(&[("m.yaml", &format!("{extra}{}", seed(file)))], "m.yaml")
}

#[test]
#[rule("S-38")]
fn s38_every_complete_state_file_of_seed_001_compiles() {
    for (file, count) in [
        ("declaring", 3),
        ("onchanges", 2),
        ("onfail", 2),
        ("mixed", 4),
        ("inverse", 3),
        ("prereq", 2),
        ("guards", 2),
        ("retry", 1),
        ("names", 3),
        ("module_run", 2),
        ("chain", 3),
        ("fan_out", 4),
        ("fan_in", 4),
        ("diamond", 5),
        ("independent", 4),
        ("cycle", 2),
    ] {
        let compiled = one(&seed(&format!("001_{file}.zy")));
        assert_eq!(names(&compiled).len(), count, "{file}");
    }
}

#[test]
#[rule("S-38")]
fn s38_an_example_that_names_a_state_it_does_not_show_compiles_with_that_state_added() {
    let watch = seed("001_watch.zy");
    assert!(diagnostic(&watch).contains("requires unknown state \"pkg.installed:install_nginx\""));
    let compiled = one(&format!("install_nginx:\n  pkg.installed:\n    - name: nginx\n{watch}"));
    assert_eq!(edges(&compiled, "cmd.run:restart_nginx"), ["watch file.managed:deploy_config"]);
    assert!(
        texts(&manifest("004_refresh_only.yaml", ""))[0]
            .contains("requires unknown state \"file.managed:/etc/nginx/nginx.conf\"")
    );
    let compiled = manifest("004_refresh_only.yaml", "- file: {/etc/nginx/nginx.conf: {}}\n");
    assert_eq!(edges(&compiled, "exec.run:reload-nginx"), ["watch file.managed:/etc/nginx/nginx.conf"]);
}

#[test]
#[rule("S-38")]
fn s38_a_fragment_compiles_inside_a_state() {
    let inside: String = seed("001_fragment.zy").lines().map(|line| format!("    {line}\n")).collect();
    let compiled = one(&format!("nginx:\n  pkg.installed: []\nx:\n  test.nop:\n{inside}"));
    assert_eq!(edges(&compiled, "test.nop:x"), ["require pkg.installed:nginx"]);
}

#[test]
#[rule("S-38")]
fn s38_the_cycle_example_has_the_edges_of_its_cycle() {
    let compiled = one(&seed("001_cycle.zy"));
    assert_eq!(edges(&compiled, "cmd.run:state_a"), ["require cmd.run:state_b"]);
    assert_eq!(edges(&compiled, "cmd.run:state_b"), ["require cmd.run:state_a"]);
}

#[test]
#[rule("S-38")]
fn s38_the_examples_mean_what_their_text_says() {
    let compiled = one(&seed("001_retry.zy"));
    let attributes = &state(&compiled, "cmd.run:fetch_artifact").attributes;
    let retry = attributes.retry.unwrap();
    assert_eq!((retry.attempts, retry.interval, attributes.failhard), (5, Duration::from_secs(15), true));
    assert_eq!(
        names(&one(&seed("001_names.zy"))),
        ["pkg.installed:curl", "pkg.installed:git", "pkg.installed:htop"]
    );
    let inverse = one(&seed("001_inverse.zy"));
    assert_eq!(edges(&inverse, "pkg.installed:redis"), ["require cmd.run:apt_update"]);
    let prereq = one(&seed("001_prereq.zy"));
    assert_eq!(prereqs(&prereq, "cmd.run:drain_lb"), ["cmd.run:deploy_app"]);
    let guards = one(&seed("001_guards.zy"));
    assert_eq!(state(&guards, "cmd.run:extract_release").attributes.unless, ["test -d /opt/app/current"]);
    assert_eq!(state(&guards, "cmd.run:run_migrations").attributes.onlyif.len(), 2);
}

#[test]
#[rule("S-38")]
fn s38_every_manifest_of_seed_004_compiles() {
    assert_eq!(names(&manifest("004_creates.yaml", "")), ["exec.run:extract-archive"]);
    assert_eq!(names(&manifest("004_returns.yaml", "")), ["exec.run:check-status"]);
    assert_eq!(names(&manifest("004_environment.yaml", "")), ["exec.run:build-app"]);
    let subscribe = manifest("004_subscribe.yaml", "");
    assert_eq!(names(&subscribe), ["file.managed:/etc/app/config.yaml", "exec.run:reload-app"]);
    assert_eq!(edges(&subscribe, "exec.run:reload-app"), ["watch file.managed:/etc/app/config.yaml"]);
    let either = manifest("004_command_or_name.yaml", "");
    assert_eq!(
        param(&either, "exec.run:/usr/bin/myapp --config /etc/myapp.conf", "command"),
        param(&either, "exec.run:run-myapp", "command")
    );
    assert_eq!(
        edges(&either, "exec.run:run-myapp"),
        ["order exec.run:/usr/bin/myapp --config /etc/myapp.conf"]
    );
    assert_eq!(
        param(&manifest("004_returns.yaml", ""), "exec.run:check-status", "returns"),
        json!([0, 1, 2])
    );
}
