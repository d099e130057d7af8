//! How a fleet of `zester up` ends.

use crate::up::{SOON, processes, up};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::process::Command;
use zester_testkit::wait_for;

#[test]
fn up_takes_everything_down_in_order_and_leaves_nothing() {
    let mut up = up(2, &[]);
    let config = up.directory.join("nats-server.conf").display().to_string();
    let homes = ["master", "peel-1", "peel-2"].map(|name| up.directory.join(name).display().to_string());
    assert_eq!(processes(&config).len(), 1);
    // The token is in no command line.
    let token = up.url.trim_start_matches("nats://").split('@').next().unwrap().to_string();
    let listed = Command::new("ps").args(["-eo", "args"]).output().unwrap();
    assert!(!String::from_utf8_lossy(&listed.stdout).contains(&token));
    assert!(up.path("zester/up.url").exists());

    assert_eq!(up.take_down(), Some(0));
    for text in homes.iter().chain([&config]) {
        assert!(processes(text).is_empty(), "{text}");
    }
    assert!(!up.directory.exists() && !up.path("zester/up.url").exists());
    let gone = up.zester(&["*", "test.ping", "--nats", &up.url]).exits(1);
    assert!(
        gone.stderr.contains("there is no bus at nats://127.0.0.1:") && !gone.stderr.contains(&token),
        "{}",
        gone.stderr
    );
}

#[test]
fn what_up_started_ends_with_it_even_when_it_is_killed() {
    let mut up = up(1, &[]);
    let config = up.directory.join("nats-server.conf").display().to_string();
    let homes = ["master", "peel-1"].map(|name| up.directory.join(name).display().to_string());
    kill(Pid::from_raw(up.process.id().cast_signed()), Signal::SIGKILL).unwrap();
    up.process.wait().unwrap();
    for text in homes.iter().chain([&config]) {
        wait_for("the end of what up started", SOON, || processes(text).is_empty().then_some(()));
    }
    std::fs::remove_dir_all(&up.directory).unwrap();
}

#[test]
fn a_second_up_says_that_one_runs_and_one_with_a_name_lives_beside_it() {
    let up = up(1, &[("web", "x:\n  test.nop: []\n")]);
    let second = up.zester(&["up", "--peels", "1"]).exits(1);
    let host = up.url.rsplit_once('@').unwrap().1;
    for wanted in [format!("pid {}", up.process.id()), format!("nats://{host}"), "--name".to_string()] {
        assert!(second.stderr.contains(&wanted), "{wanted}: {}", second.stderr);
    }
    assert!(!second.stderr.contains('@'), "no token: {}", second.stderr);

    let nowhere = up.zester(&["up", "--name", "c", "--states", "/nosuch"]).exits(1);
    assert!(nowhere.stderr.contains("--states /nosuch: there is no such directory"), "{}", nowhere.stderr);

    let mut named = up.beside("b", 1);
    assert_ne!(named.url, up.url);
    assert!(up.zester(&["up", "--name", "b"]).exits(1).stderr.contains("--name b"));
    up.json(&["peel-1", "test.ping", "--nats", &named.url], 0);
    assert_eq!(named.take_down(), Some(0));
    assert_eq!(up.json(&["*", "test.ping"], 0)["peels"].as_object().unwrap().len(), 1);
}
