//! What a machine says of itself (D-7), under the names that Salt users know from grains.
//!
//! One file is one collector. Each has a part that looks (reads `/proc`, `/sys`, `/etc`) and a part that understands, which
//! takes text and is tested with the texts of several distributions. Nothing here starts a process, so that collecting
//! everything takes about a millisecond; the executables in the directory of custom facts are run by the caller.
//!
//! What changes by itself from moment to moment (free memory, load, uptime) is deliberately no fact: facts are published when
//! they change.

mod cpu;
mod custom;
mod disks;
mod host_name;
mod init;
mod kernel;
mod memory;
mod network;
mod os;
mod packages;
mod read;
mod salt;
mod selinux;
mod virtualisation;

pub use custom::Bounds;

use serde_json::{Map, Value};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Facts by name, in the order in which they are shown.
pub type Facts = Map<String, Value>;

/// Reads YAML text, or says what is wrong with it. Given by the caller, so that this crate needs no YAML parser.
pub type ParseYaml<'a> = &'a dyn Fn(&str) -> Result<Value, String>;

/// Runs an executable without arguments and gives what it printed, or says in a sentence why there is nothing: "it …".
/// Given by the caller, who knows how a process is started, bounded and ended.
pub type RunProgram<'a> = &'a dyn Fn(&Path, Bounds) -> Result<String, String>;

/// All facts, and what was wrong on the way.
#[derive(Clone, Debug, Default)]
pub struct Collected {
    pub facts: Facts,
    /// A broken custom fact is left out and named here; it stops nothing.
    pub warnings: Vec<String>,
}

/// Collects everything: what the machine shows, then the custom facts, which may replace any fact but `id`.
pub fn collect(
    id: &str,
    custom_dir: Option<&Path>,
    parse_yaml: ParseYaml<'_>,
    run_program: RunProgram<'_>,
) -> Collected {
    let mut collected = Collected { facts: built_in(id), warnings: Vec::new() };
    if let Some(dir) = custom_dir {
        custom::collect(dir, parse_yaml, run_program, &mut collected);
    }
    collected
}

/// What was looked at ahead.
enum Ahead {
    Nothing,
    Seen(Facts),
    /// Who asked has looked for itself: whatever comes now would be old when somebody asks again.
    TooLate,
}

static AHEAD: Mutex<Ahead> = Mutex::new(Ahead::Nothing);

/// Looks at the machine for whoever is the first to ask. For another thread while the first still reads the words of its
/// command line: it takes about a millisecond, a good part of a run that finds nothing to do.
pub fn look_ahead() {
    let mut ahead = AHEAD.lock().unwrap_or_else(PoisonError::into_inner);
    if matches!(*ahead, Ahead::Nothing) {
        *ahead = Ahead::Seen(of_this_machine());
    }
}

/// The facts that need no custom directory.
pub fn built_in(id: &str) -> Facts {
    // It waits for a look that is under way.
    let ahead = std::mem::replace(&mut *AHEAD.lock().unwrap_or_else(PoisonError::into_inner), Ahead::TooLate);
    let machine = match ahead {
        Ahead::Seen(facts) => facts,
        Ahead::Nothing | Ahead::TooLate => of_this_machine(),
    };
    let mut facts = Facts::new();
    facts.insert("id".into(), id.into());
    facts.extend(machine);
    facts.insert("server_id".into(), salt::server_id(id).into());
    facts
}

/// Those that do not depend on how it is called.
fn of_this_machine() -> Facts {
    let mut facts = Facts::new();
    host_name::collect(&mut facts);
    kernel::collect(&mut facts);
    os::collect(&mut facts);
    init::collect(&mut facts);
    packages::collect(&mut facts);
    cpu::collect(&mut facts);
    memory::collect(&mut facts);
    disks::collect(&mut facts);
    network::collect(&mut facts);
    virtualisation::collect(&mut facts);
    selinux::collect(&mut facts);
    for (name, variable) in [("path", "PATH"), ("shell", "SHELL")] {
        let value = std::env::var_os(variable).unwrap_or_default();
        facts.insert(name.into(), value.to_string_lossy().into());
    }
    salt::collect(&mut facts);
    facts.insert("zester_version".into(), env!("CARGO_PKG_VERSION").into());
    facts
}

/// A fact that is a text, empty where there is none.
fn text<'a>(facts: &'a Facts, name: &str) -> &'a str {
    facts.get(name).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    fn what_was_looked_at_ahead_is_what_the_first_to_ask_would_have_seen() {
        look_ahead();
        let ahead = built_in("web1");
        look_ahead();
        assert!(matches!(*AHEAD.lock().unwrap(), Ahead::TooLate), "nobody gets what is old");
        assert_eq!(ahead.keys().collect::<Vec<_>>(), built_in("web1").keys().collect::<Vec<_>>());
        assert_eq!(ahead["id"], "web1");
    }

    #[test]
    #[rule("D-7")]
    fn d7_every_fact_that_formulas_lean_on_is_there() {
        let collected =
            collect("web1", None, &|_| Err("no yaml here".into()), &|_, _| Err("no programs here".into()));
        for name in [
            "id",
            "host",
            "fqdn",
            "nodename",
            "domain",
            "os",
            "os_family",
            "osrelease",
            "osfullname",
            "oscodename",
            "kernel",
            "kernelrelease",
            "cpuarch",
            "osarch",
            "num_cpus",
            "cpu_model",
            "cpu_flags",
            "mem_total",
            "swap_total",
            "disks",
            "ssds",
            "ip_interfaces",
            "ip4_interfaces",
            "ip6_interfaces",
            "ipv4",
            "ipv6",
            "hwaddr_interfaces",
            "virtual",
            "init",
            "pkg_manager",
            "selinux",
            "path",
            "shell",
            "zester_version",
            "saltversion",
            "saltversioninfo",
            "server_id",
            "pythonversion",
            "fqdn_ip4",
            "fqdn_ip6",
            "fqdns",
            "dns",
            "ip_gw",
            "ip4_gw",
            "ip6_gw",
            "systemd",
            "uid",
            "gid",
            "username",
            "groupname",
            "locale_info",
            "master",
            "kernelparams",
            "efi",
            "ps",
            "num_gpus",
        ] {
            assert!(collected.facts.contains_key(name), "{name} is missing");
        }
        assert_eq!(collected.facts["id"], "web1");
        assert!(collected.facts["num_cpus"].as_u64().is_some_and(|count| count > 0));
        assert!(collected.facts["mem_total"].as_u64().is_some_and(|mebibytes| mebibytes > 0));
        assert!(collected.warnings.is_empty());
    }

    #[test]
    #[rule("D-7")]
    fn d7_facts_do_not_change_by_themselves() {
        assert_eq!(built_in("a"), built_in("a"));
    }
}
