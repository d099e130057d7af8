//! What formulas ask of a machine beside files, services and commands: accounts, packages, addresses, alternatives; and
//! the log that they write to.

use super::networks::{Network, is_private};
use super::{Access, Arguments, CallContext, Function, Takes, by_name, read_only, text, told, value};
use serde_json::{Value as Json, json};
use std::net::IpAddr;
use std::path::Path;
use zester_model::limits;

/// Where the links of alternatives are.
const ALTERNATIVES_DIR: &str = "/etc/alternatives";

pub(super) fn read(place: &CallContext<'_>, path: &str) -> Result<Option<String>, String> {
    let path = Path::new(path);
    if place.host.stat_followed(path).map_err(|fault| fault.to_string())?.is_none() {
        return Ok(None);
    }
    let bytes =
        place.host.read(path, limits::RENDER_VALUE_BYTES_MAX as u64).map_err(|fault| fault.to_string())?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// The fields of the line of an account in a file like `/etc/passwd`.
fn account(place: &CallContext<'_>, file: &str, name: &str) -> Result<Option<Vec<String>>, String> {
    let text = read(place, file)?.unwrap_or_default();
    let fields = text.lines().map(|line| line.split(':').map(str::to_string).collect::<Vec<_>>());
    Ok(fields.into_iter().find(|fields| fields.first().is_some_and(|first| first == name)))
}

pub const USER_INFO: Function = read_only(
    "user.info",
    &[text("name")],
    "user.info NAME: an account of this machine, or nothing",
    |place, args| {
        let name = args.text(0, "name")?;
        let Some(fields) = account(place, "/etc/passwd", &name)? else { return Ok(json!({})) };
        let at = |index: usize| fields.get(index).cloned().unwrap_or_default();
        let number = |index: usize| at(index).parse::<u64>().map_or(Json::Null, Json::from);
        let groups = read(place, "/etc/group")?.unwrap_or_default();
        let mut member: Vec<&str> = Vec::new();
        for line in groups.lines() {
            let parts: Vec<&str> = line.split(':').collect();
            let (Some(group), Some(id), Some(members)) = (parts.first(), parts.get(2), parts.get(3)) else {
                continue;
            };
            if *id == at(3) || members.split(',').any(|one| one == name) {
                member.push(group);
            }
        }
        member.sort_unstable();
        let comment = at(4);
        let mut office = comment.split(',').map(str::to_string);
        let mut next = || office.next().unwrap_or_default();
        Ok(json!({
            "name": name, "uid": number(2), "gid": number(3), "home": at(5), "shell": at(6), "passwd": at(1),
            "groups": member, "fullname": next(), "roomnumber": next(), "workphone": next(), "homephone": next(),
        }))
    },
);

pub const GROUP_INFO: Function = read_only(
    "group.info",
    &[text("name")],
    "group.info NAME: a group of this machine, or nothing",
    |place, args| {
        let name = args.text(0, "name")?;
        let Some(fields) = account(place, "/etc/group", &name)? else { return Ok(json!({})) };
        let at = |index: usize| fields.get(index).map_or("", String::as_str);
        let members: Vec<&str> = at(3).split(',').filter(|one| !one.is_empty()).collect();
        let gid = at(2).parse::<u64>().map_or(Json::Null, Json::from);
        Ok(json!({ "name": name, "gid": gid, "passwd": at(1), "members": members }))
    },
);

pub const PKG_VERSION_CMP: Function = told(
    "pkg.version_cmp",
    &[text("pkg1"), text("pkg2")],
    "pkg.version_cmp ONE OTHER: -1, 0 or 1, as Debian orders versions",
    |_, args| {
        let order = debian_order(&args.text(0, "pkg1")?, &args.text(1, "pkg2")?);
        Ok(json!(order as i8))
    },
);

/// Debian's order: an epoch, then words and numbers by turns; `~` comes before everything, even the end.
fn debian_order(one: &str, other: &str) -> std::cmp::Ordering {
    fn parts(version: &str) -> (u64, &str, &str) {
        let (epoch, rest) = version.split_once(':').unwrap_or(("0", version));
        let (upstream, revision) = rest.rsplit_once('-').unwrap_or((rest, "0"));
        (epoch.parse().unwrap_or(0), upstream, revision)
    }
    fn weight(letter: Option<char>) -> i32 {
        match letter {
            Some('~') => -1,
            None => 0,
            Some(letter) if letter.is_ascii_alphabetic() => letter as i32,
            Some(letter) => letter as i32 + 256,
        }
    }
    fn compare(mut one: &str, mut other: &str) -> std::cmp::Ordering {
        while !one.is_empty() || !other.is_empty() {
            let word = |text: &str| text.find(|letter: char| letter.is_ascii_digit()).unwrap_or(text.len());
            let (a, rest_one) = one.split_at(word(one));
            let (b, rest_other) = other.split_at(word(other));
            let (mut left, mut right) = (a.chars(), b.chars());
            for _ in 0..a.len().max(b.len()) {
                let order = weight(left.next()).cmp(&weight(right.next()));
                if order.is_ne() {
                    return order;
                }
            }
            let digits =
                |text: &str| text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
            let (a, left) = rest_one.split_at(digits(rest_one));
            let (b, right) = rest_other.split_at(digits(rest_other));
            let (a, b) = (a.trim_start_matches('0'), b.trim_start_matches('0'));
            let order = a.len().cmp(&b.len()).then_with(|| a.cmp(b));
            if order.is_ne() {
                return order;
            }
            (one, other) = (left, right);
        }
        std::cmp::Ordering::Equal
    }
    let (one, other) = (parts(one), parts(other));
    one.0.cmp(&other.0).then_with(|| compare(one.1, other.1)).then_with(|| compare(one.2, other.2))
}

pub const ALTERNATIVES: Function = read_only(
    "alternatives.show_current",
    &[text("name")],
    "alternatives.show_current NAME: what an alternative points at, or false",
    |place, args| {
        let path = Path::new(ALTERNATIVES_DIR).join(args.text(0, "name")?);
        if place.host.stat(&path).map_err(|fault| fault.to_string())?.is_none() {
            return Ok(json!(false));
        }
        let target = place.host.read_link(&path).map_err(|fault| fault.to_string())?;
        Ok(json!(target.display().to_string()))
    },
);

pub const FILE_CONTAINS: Function = read_only(
    "file.contains",
    &[text("path"), text("text")],
    "file.contains PATH TEXT: whether a file holds a text",
    |place, args| {
        let wanted = args.text(1, "text")?;
        Ok(json!(read(place, &args.text(0, "path")?)?.is_some_and(|text| text.contains(&wanted))))
    },
);

pub const FILE_READDIR: Function = read_only(
    "file.readdir",
    &[text("path")],
    "file.readdir PATH: what a directory holds, with `.` and `..`",
    |place, args| {
        let found = place.host.list(Path::new(&args.text(0, "path")?)).map_err(|fault| fault.to_string())?;
        let names = found.iter().map(|name| name.to_string_lossy().into_owned());
        Ok(json!([".".to_string(), "..".to_string()].into_iter().chain(names).collect::<Vec<_>>()))
    },
);

pub const HOSTS: Function = read_only(
    "hosts.list_hosts",
    &[],
    "hosts.list_hosts: the names that /etc/hosts gives each address",
    |place, _| {
        let text = read(place, "/etc/hosts")?.unwrap_or_default();
        let mut found = serde_json::Map::new();
        for line in text.lines().map(|line| line.split('#').next().unwrap_or_default()) {
            let mut words = line.split_whitespace();
            let Some(address) = words.next() else { continue };
            let names: Vec<&str> = words.collect();
            // An address may stand on several lines.
            let all = found.entry(address).or_insert_with(|| json!([]));
            all.as_array_mut().into_iter().for_each(|all| all.extend(names.iter().map(|name| json!(name))));
        }
        Ok(Json::Object(found))
    },
);

/// What both lists of addresses take.
const ADDRESSES: &[Takes] =
    &[value("interface"), by_name("include_loopback", false), by_name("cidr", true), by_name("type", true)];

/// The addresses of this machine that are not those of the loop; of one interface, of one network, of one sort.
fn addresses(place: &CallContext<'_>, args: &Arguments, fact: &str) -> Result<Json, String> {
    let named = |name: &str| args.named.get(name).filter(|given| !given.is_null());
    let interface = args.optional(0, "interface")?;
    let with_loop = args.flag(ADDRESSES.len(), "include_loopback", false)?;
    let within = named("cidr").map(|_| Network::parse(&args.text(ADDRESSES.len(), "cidr")?)).transpose()?;
    let private = match named("type").map(|_| args.text(ADDRESSES.len(), "type")).transpose()?.as_deref() {
        None => None,
        Some("private") => Some(true),
        Some("public") => Some(false),
        Some(other) => return Err(format!("`type`: `{other}` is neither public nor private")),
    };
    let mut found: Vec<&str> = Vec::new();
    for (name, addresses) in place.facts.get(fact).and_then(Json::as_object).into_iter().flatten() {
        if interface.as_deref().is_none_or(|wanted| wanted == name) {
            found.extend(addresses.as_array().into_iter().flatten().filter_map(Json::as_str));
        }
    }
    found.retain(|text| match text.parse() {
        Ok(address) => {
            (with_loop || !IpAddr::is_loopback(&address))
                && within.is_none_or(|network| network.contains(address))
                && private.is_none_or(|private| is_private(address) == private)
        }
        // With a zone (`fe80::1%eth0`) it is in no network that can be named.
        Err(_) => within.is_none() && private.is_none(),
    });
    found.sort_unstable();
    found.dedup();
    Ok(json!(found))
}

pub const NETWORK_ADDRS: Function = told(
    "network.ip_addrs",
    ADDRESSES,
    "network.ip_addrs [INTERFACE]: the IPv4 addresses of this machine, but those of the loop; cidr=10.0.0.0/8 of one network, type= public or private ones",
    |place, args| addresses(place, args, "ip4_interfaces"),
);

pub const NETWORK_ADDRS6: Function = told(
    "network.ip_addrs6",
    ADDRESSES,
    "network.ip_addrs6 [INTERFACE]: the IPv6 addresses of this machine, but those of the loop; cidr=fe80::/10 of one network, type= public or private ones",
    |place, args| addresses(place, args, "ip6_interfaces"),
);

pub const NETWORK_HOSTNAME: Function =
    told("network.get_hostname", &[], "network.get_hostname: the name of this machine", |place, _| {
        Ok(place.facts.get("nodename").or_else(|| place.facts.get("host")).cloned().unwrap_or_default())
    });

pub const MINE_GET: Function = told(
    "mine.get",
    &[
        text("tgt"),
        Takes { required: true, ..text("fun") },
        value("tgt_type"),
        by_name("exclude_minion", false),
    ],
    "mine.get TARGET FUNCTION [TYPE]: what other machines published; nothing on a machine without a master",
    |_, _| Ok(json!({})),
);

const LOG: &[Takes] = &[text("message"), by_name("template", true)];

macro_rules! log_level {
    ($constant:ident, $name:literal, $doc:literal) => {
        pub const $constant: Function = Function {
            name: $name,
            access: Access::Told,
            takes: LOG,
            doc: $doc,
            call: |_, args| write_log($name, args),
        };
    };
}

log_level!(LOG_CRITICAL, "log.critical", "log.critical MESSAGE: tells the log something, from a template");
log_level!(LOG_DEBUG, "log.debug", "log.debug MESSAGE: tells the log something, from a template");
log_level!(LOG_ERROR, "log.error", "log.error MESSAGE: tells the log something, from a template");
log_level!(LOG_INFO, "log.info", "log.info MESSAGE: tells the log something, from a template");
log_level!(LOG_WARNING, "log.warning", "log.warning MESSAGE: tells the log something, from a template");

fn write_log(name: &str, args: &Arguments) -> Result<Json, String> {
    let message = args.text(0, "message")?;
    let template = args.named.get("template").and_then(Json::as_str).unwrap_or("template");
    match name {
        "log.critical" | "log.error" => tracing::error!(template, "{message}"),
        "log.warning" => tracing::warn!(template, "{message}"),
        "log.info" => tracing::info!(template, "{message}"),
        _ => tracing::debug!(template, "{message}"),
    }
    Ok(json!(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::try_function::TestHost;
    use std::cmp::Ordering::{Equal, Greater, Less};
    use zester_rule::rule;

    #[tokio::test(flavor = "multi_thread")]
    async fn addresses_are_those_of_the_interface_and_the_network_that_are_named() {
        let mut machine = TestHost::with(&[]);
        machine.facts = json!({
            "ip4_interfaces": { "lo": ["127.0.0.1"], "eth0": ["10.0.0.5", "203.0.113.7"], "eth1": ["192.168.1.2"] },
            "ip6_interfaces": { "lo": ["::1"], "eth0": ["fe80::1", "2001:db8::5"] },
        });
        for (function, words, wanted) in [
            ("network.ip_addrs", &[][..], json!(["10.0.0.5", "192.168.1.2", "203.0.113.7"])),
            ("network.ip_addrs", &["eth1"], json!(["192.168.1.2"])),
            ("network.ip_addrs", &["cidr=10.0.0.0/8"], json!(["10.0.0.5"])),
            ("network.ip_addrs", &["cidr=0.0.0.0/0", "interface=eth1"], json!(["192.168.1.2"])),
            ("network.ip_addrs", &["lo", "include_loopback=true"], json!(["127.0.0.1"])),
            ("network.ip_addrs", &["type=public"], json!(["203.0.113.7"])),
            ("network.ip_addrs6", &["cidr=2001:db8::/32"], json!(["2001:db8::5"])),
            ("network.ip_addrs6", &["cidr=10.0.0.0/8"], json!([])),
        ] {
            assert_eq!(machine.call(function, words), Ok(wanted), "{function} {words:?}");
        }
        assert!(machine.call("network.ip_addrs", &["cidr=10.0.0.0/99"]).is_err());
        assert_eq!(
            machine.call("network.ip_addrs", &["type=mine"]),
            Err("`type`: `mine` is neither public nor private".into())
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn an_address_on_two_lines_has_the_names_of_both() {
        let machine =
            TestHost::with(&[("/etc/hosts", "10.0.0.2 db\n127.0.0.1 localhost\n10.0.0.2 web # x\n")]);
        let wanted = json!({ "10.0.0.2": ["db", "web"], "127.0.0.1": ["localhost"] });
        assert_eq!(machine.call("hosts.list_hosts", &[]), Ok(wanted));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn only_an_alternative_that_is_not_there_is_none() {
        let machine = TestHost::with(&[("/etc/alternatives/odd", "no link")]);
        machine.link("/etc/alternatives/editor", "/usr/bin/vim");
        assert_eq!(machine.call("alternatives.show_current", &["editor"]), Ok(json!("/usr/bin/vim")));
        assert_eq!(machine.call("alternatives.show_current", &["none"]), Ok(json!(false)));
        assert!(machine.call("alternatives.show_current", &["odd"]).is_err());
    }

    #[test]
    #[rule("S-55")]
    fn s55_versions_are_ordered_as_debian_orders_them() {
        for (one, other, order) in [
            ("1.0", "1.0", Equal),
            ("1.10", "1.9", Greater),
            ("1.0~rc1", "1.0", Less),
            ("1:0.1", "2.0", Greater),
            ("1.0-1", "1.0-2", Less),
            ("2.3a", "2.3", Greater),
            ("1.0+b1", "1.0a", Greater),
            ("007", "7", Equal),
        ] {
            assert_eq!(debian_order(one, other), order, "{one} {other}");
        }
    }
}
