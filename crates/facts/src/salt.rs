//! Facts that formulas ask for by Salt's names: gateways, name servers, who we are, and the Salt whose language we speak.

use crate::{Facts, read, text};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

/// The release of Salt whose language state files are read in.
const SALT_VERSION: &str = "3008.0";
const SALT_VERSION_INFO: [u32; 2] = [3008, 0];
/// The Python that formulas expect behind that release.
const PYTHON_VERSION: [u32; 3] = [3, 10, 0];

pub fn collect(facts: &mut Facts) {
    let mut put = |name: &str, value: Value| {
        facts.insert(name.into(), value);
    };
    put("saltversion", SALT_VERSION.into());
    put("saltversioninfo", json!(SALT_VERSION_INFO));
    let [major, minor, patch] = PYTHON_VERSION;
    put("pythonversion", json!([major, minor, patch, "final", 0]));
    put("master", master(&read::system_text("/etc/zester/zester.yaml")).into());
    put("kernelparams", kernel_parameters(&read::system_line("/proc/cmdline")));
    put("efi", Path::new("/sys/firmware/efi").is_dir().into());
    put("ps", "ps -efHww".into());
    put("num_gpus", read::names_in("/sys/class/drm").iter().filter(|name| is_card(name)).count().into());
    put("dns", name_servers(&read::system_text("/etc/resolv.conf")));
    let (gateway4, gateway6) = (
        gateway4(&read::system_text("/proc/net/route")),
        gateway6(&read::system_text("/proc/net/ipv6_route")),
    );
    put("ip_gw", (gateway4.is_some() || gateway6.is_some()).into());
    put("ip4_gw", gateway4.map_or(Value::from(false), |it| it.to_string().into()));
    put("ip6_gw", gateway6.map_or(Value::from(false), |it| it.to_string().into()));
    put("systemd", systemd());
    let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    put("uid", uid.into());
    put("gid", gid.into());
    put("username", name_of(&read::system_text("/etc/passwd"), uid).into());
    put("groupname", name_of(&read::system_text("/etc/group"), gid).into());
    put("locale_info", locale());
    let names = [text(facts, "fqdn").to_string(), text(facts, "host").to_string()];
    let (ip4, ip6) = addresses_of(&read::system_text("/etc/hosts"), &names);
    facts.insert("fqdn_ip4".into(), ip4);
    facts.insert("fqdn_ip6".into(), ip6);
    facts.insert(
        "fqdns".into(),
        json!(names.iter().take(1).filter(|it| it.contains('.')).collect::<Vec<_>>()),
    );
}

/// A number that stays with the name.
pub fn server_id(id: &str) -> u32 {
    let digest = Sha256::digest(id.as_bytes());
    let last = digest.iter().rev().take(4).rev().fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    last & 0x7fff_ffff
}

/// The first master that the configuration names; Salt's own default where it names none.
fn master(config: &str) -> String {
    let line = config.lines().find_map(|line| line.strip_prefix("master:"));
    let name = line.map(|rest| rest.trim().trim_matches(['"', '\''])).filter(|name| !name.is_empty());
    name.unwrap_or("salt").to_string()
}

fn kernel_parameters(line: &str) -> Value {
    let pair = |word: &str| match word.split_once('=') {
        Some((key, value)) => json!([key, value.trim_matches('"')]),
        None => json!([word, null]),
    };
    line.split_whitespace().map(pair).collect()
}

fn is_card(name: &str) -> bool {
    name.strip_prefix("card").is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn name_servers(text: &str) -> Value {
    let words = |key: &str| -> Vec<String> {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(key));
        lines
            .filter(|rest| rest.starts_with(char::is_whitespace))
            .flat_map(str::split_whitespace)
            .map(str::to_string)
            .collect()
    };
    let servers = words("nameserver");
    let (ip6, ip4): (Vec<&String>, Vec<&String>) = servers.iter().partition(|server| server.contains(':'));
    json!({
        "nameservers": servers, "ip4_nameservers": ip4, "ip6_nameservers": ip6, "sortlist": words("sortlist"),
        "domain": words("domain").first().cloned().unwrap_or_default(), "search": words("search"),
        "options": words("options"),
    })
}

fn gateway4(table: &str) -> Option<Ipv4Addr> {
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.into_iter().find_map(|fields| {
        let (target, gateway) = (fields.get(1)?, fields.get(2)?);
        let number = u32::from_str_radix(gateway, 16).ok()?;
        (*target == "00000000" && number != 0).then(|| Ipv4Addr::from(number.to_le_bytes()))
    })
}

fn gateway6(table: &str) -> Option<Ipv6Addr> {
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.into_iter().find_map(|fields| {
        let (target, length, gateway) = (fields.first()?, fields.get(1)?, fields.get(4)?);
        let number = u128::from_str_radix(gateway, 16).ok()?;
        (target.bytes().all(|byte| byte == b'0') && *length == "00" && number != 0)
            .then(|| Ipv6Addr::from(number))
    })
}

/// The version stands in the name of the library that all its programs share.
fn systemd() -> Value {
    for directory in
        ["/usr/lib/systemd", "/lib/systemd", "/usr/lib/x86_64-linux-gnu/systemd", "/usr/lib64/systemd"]
    {
        let names = read::names_in(directory);
        let version =
            names.iter().find_map(|name| name.strip_prefix("libsystemd-shared-")?.strip_suffix(".so"));
        if let Some(version) = version {
            let version: String = version.chars().take_while(char::is_ascii_digit).collect();
            return json!({ "version": version, "features": "" });
        }
    }
    json!({})
}

/// The name behind a number in a file like `/etc/passwd`.
fn name_of(accounts: &str, number: u32) -> String {
    let number = number.to_string();
    let fields = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let found = fields.into_iter().find(|fields| fields.get(2) == Some(&number.as_str()));
    found.and_then(|fields| fields.first().map(|name| (*name).to_string())).unwrap_or_default()
}

fn locale() -> Value {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let value = variable("LC_ALL").or_else(|| variable("LANG")).unwrap_or_else(|| "C".into());
    let (language, encoding) = value.split_once('.').unwrap_or((value.as_str(), "UTF-8"));
    let zone = read::system_line("/etc/timezone");
    json!({
        "defaultlanguage": language, "defaultencoding": encoding, "detectedencoding": "utf-8",
        "timezone": if zone.is_empty() { "UTC".to_string() } else { zone },
    })
}

/// The addresses that `/etc/hosts` gives a name.
fn addresses_of(hosts: &str, names: &[String]) -> (Value, Value) {
    let (mut ip4, mut ip6): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for line in hosts.lines().map(|line| line.split('#').next().unwrap_or_default()) {
        let mut words = line.split_whitespace();
        let Some(address) = words.next() else { continue };
        if words.any(|word| names.iter().any(|name| name == word)) {
            let list = if address.contains(':') { &mut ip6 } else { &mut ip4 };
            list.push(address.to_string());
        }
    }
    (json!(ip4), json!(ip6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_what_salt_calls_facts_is_read_from_the_files_that_know_it() {
        assert_eq!(server_id("minion"), 279_719_642, "what Salt gives this name");
        assert_eq!(
            kernel_parameters("quiet root=/dev/sda1"),
            json!([["quiet", null], ["root", "/dev/sda1"]])
        );
        let route = "Iface Destination Gateway\neth0 0000FEA9 00000000\neth0 00000000 010200C0\n";
        assert_eq!(gateway4(route), Some(Ipv4Addr::new(192, 0, 2, 1)));
        assert_eq!(gateway4("head\n"), None);
        let dns = name_servers("nameserver 10.0.0.1\nnameserver ::1\nsearch a b\n");
        assert_eq!(dns["ip6_nameservers"], json!(["::1"]));
        assert_eq!(dns["search"], json!(["a", "b"]));
        assert_eq!(name_of("root:x:0:0::/root:/bin/sh\n", 0), "root");
        let (ip4, ip6) = addresses_of("127.0.0.1 localhost web # x\n::1 web\n", &["web".into()]);
        assert_eq!((ip4, ip6), (json!(["127.0.0.1"]), json!(["::1"])));
        assert_eq!(master("master: 'nats.example.org'\n"), "nats.example.org");
        assert_eq!(master(""), "salt");
    }
}
