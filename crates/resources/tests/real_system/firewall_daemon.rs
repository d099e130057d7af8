//! firewalld, with a bus, a network and a configuration of the test's own.

use crate::kernel::{OWN_NETWORK, again_in_own_network_with};
use crate::{Bench, Finally, has_program, is_root, ran};
use serde_json::json;
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use zester_testkit::skip;
use zester_testkit::wait_for;

const BUS: &str = "DBUS_SYSTEM_BUS_ADDRESS";

/// A bus on which everybody may do everything.
fn bus_config(socket: &str) -> String {
    format!(
        "<!DOCTYPE busconfig PUBLIC \"-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN\" \
         \"http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd\">\n<busconfig><type>system</type><listen>{socket}</listen>\
         <policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/>\
         </policy></busconfig>\n"
    )
}

fn quiet(program: &str, words: &[&str]) -> Child {
    Command::new(program).args(words).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn listed(words: &[&str]) -> String {
    let output = Command::new("firewall-cmd").args(words).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn zones_and_services_of_firewalld_come_and_go() {
    const TEST: &str = "firewall_daemon::zones_and_services_of_firewalld_come_and_go";
    if !is_root() || !has_program("firewalld") || !has_program("dbus-daemon") {
        skip!("only root can run a firewalld, and it is not installed everywhere");
    }
    if !ran(&["unshare", "-n", "nft", "list", "ruleset"]) {
        skip!("there is no nftables in a network of its own");
    }
    if std::env::var_os(OWN_NETWORK).is_none() {
        let temp = tempfile::tempdir().unwrap();
        let socket = format!("unix:path={}/bus", temp.path().display());
        std::fs::write(temp.path().join("bus.conf"), bus_config(&socket)).unwrap();
        std::fs::create_dir(temp.path().join("etc")).unwrap();
        again_in_own_network_with(TEST, &[(BUS, &socket)]);
        return;
    }
    let socket = std::env::var(BUS).unwrap();
    let top = socket.strip_prefix("unix:path=").unwrap().strip_suffix("/bus").unwrap().to_string();
    let bus = quiet("dbus-daemon", &[&format!("--config-file={top}/bus.conf"), "--nofork"]);
    let mut children = vec![bus];
    wait_for("the bus", Duration::from_secs(20), || {
        std::path::Path::new(&format!("{top}/bus")).exists().then_some(())
    });
    children.push(quiet("firewalld", &["--nofork", "--nopid", "--system-config", &format!("{top}/etc")]));
    let _clean = Finally(move || {
        for child in children.iter_mut().rev() {
            let _killed = child.kill();
            let _ended = child.wait();
        }
    });
    wait_for("firewalld", Duration::from_secs(60), || ran(&["firewall-cmd", "--state"]).then_some(()));

    let bench = Bench::new();
    let default = listed(&["--get-default-zone"]);
    let service = bench
        .apply("firewalld.service", &json!({ "name": "zesty", "ports": ["99/tcp"], "protocols": ["gre"] }));
    let zone = json!({
        "name": "web", "default": true, "masquerade": true, "services": ["http", "zesty"], "ports": ["8080/tcp"],
        "port_fwd": ["80:8080:tcp", "81:8081:tcp:10.0.0.5"], "block_icmp": ["echo-reply"], "interfaces": ["dummy0"],
        "sources": ["10.1.0.0/16"], "rich_rules": ["rule family=ipv4 source address=192.0.2.7 log prefix=\"no way\" drop"],
    });
    let made = bench.apply("firewalld.present", &zone);
    assert!(listed(&["--zone=web", "--list-all"]).contains("ports: 8080/tcp"), "it is loaded");
    assert_eq!(listed(&["--get-default-zone"]), "web\n");
    let bound = bench.apply("firewalld.bind", &json!({ "name": "web", "sources": ["10.2.0.0/16"] }));
    let pruned = bench
        .apply("firewalld.present", &json!({ "name": "web", "services": ["http"], "prune_services": true }));
    assert!(listed(&["--zone=web", "--list-services"]).trim() == "http");
    // Drift by hand.
    assert!(ran(&["firewall-cmd", "--permanent", "--zone=web", "--remove-port=8080/tcp"]));
    let drift = bench.drift("firewalld.present", &zone).unwrap();
    assert_eq!(
        drift,
        "the firewalld zone web: services: http → http, zesty\nthe firewalld zone web: ports:  → 8080/tcp\n"
    );
    assert!(ran(&["firewall-cmd", "--permanent", "--zone=web", "--add-port=8080/tcp"]));
    for applied in [pruned, bound, made, service] {
        assert!(bench.revert(&applied).changed);
    }
    assert_eq!(listed(&["--get-default-zone"]), default);
    assert!(!listed(&["--permanent", "--get-zones"]).contains("web"));
    assert!(!listed(&["--permanent", "--get-services"]).contains("zesty"));
}
