//! What starts and keeps the services.

use crate::{Facts, read};
use std::path::Path;

pub fn collect(facts: &mut Facts) {
    let link = std::fs::read_link("/sbin/init").unwrap_or_default();
    let init = understand(
        Path::new("/run/systemd/system").is_dir(),
        Path::new("/run/openrc").is_dir(),
        &read::system_line("/proc/1/comm"),
        &link.to_string_lossy(),
    );
    facts.insert("init".into(), init.into());
}

/// systemd and OpenRC leave a directory in `/run` when they are in charge; else the first process tells.
fn understand(systemd: bool, openrc: bool, first_process: &str, init_link: &str) -> &'static str {
    match first_process {
        _ if systemd => "systemd",
        _ if openrc => "openrc",
        "systemd" => "systemd",
        "runit" | "runit-init" => "runit",
        "s6-svscan" => "s6",
        "dinit" => "dinit",
        "init" if init_link.ends_with("busybox") => "busybox",
        "init" if init_link.ends_with("upstart") => "upstart",
        "init" => "sysvinit",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_the_init_in_charge_is_named_not_the_one_installed() {
        for (systemd, openrc, comm, link, expected) in [
            (true, false, "systemd", "/lib/systemd/systemd", "systemd"),
            (false, true, "init", "/bin/busybox", "openrc"),
            (false, false, "sh", "/lib/systemd/systemd", "unknown"),
            (false, false, "init", "/bin/busybox", "busybox"),
            (false, false, "init", "", "sysvinit"),
            (false, false, "runit", "", "runit"),
        ] {
            assert_eq!(understand(systemd, openrc, comm, link), expected, "{comm} {link}");
        }
    }
}
