//! The machine's own name. Only what stands on the machine is asked: a DNS query could take seconds.

use crate::{Facts, read};

pub fn collect(facts: &mut Facts) {
    let nodename = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let names = understand(&nodename, &read::system_text("/etc/hosts"));
    facts.insert("host".into(), names.host.into());
    facts.insert("fqdn".into(), names.fqdn.into());
    facts.insert("domain".into(), names.domain.into());
    facts.insert("localhost".into(), nodename.clone().into());
    facts.insert("nodename".into(), nodename.into());
    facts.insert("machine_id".into(), read::system_line("/etc/machine-id").into());
}

#[derive(Debug, PartialEq)]
struct Names {
    host: String,
    fqdn: String,
    domain: String,
}

/// A name with a dot is complete; else `/etc/hosts` may know the complete one.
fn understand(nodename: &str, hosts: &str) -> Names {
    let fqdn = match nodename.contains('.') {
        true => nodename.to_string(),
        false => complete_name(nodename, hosts).unwrap_or(nodename).to_string(),
    };
    let (host, domain) = fqdn.split_once('.').unwrap_or((&fqdn, ""));
    Names { host: host.to_string(), domain: domain.to_string(), fqdn: fqdn.clone() }
}

/// The first dotted name on a line of `/etc/hosts` that also says `nodename`, or that begins with it.
fn complete_name<'a>(nodename: &str, hosts: &'a str) -> Option<&'a str> {
    let lines = hosts.lines().map(|line| line.split('#').next().unwrap_or_default());
    lines.map(str::split_whitespace).find_map(|words| {
        let names: Vec<&str> = words.skip(1).collect();
        let belongs = |name: &&&str| name.split('.').next() == Some(nodename);
        let named = names.contains(&nodename) || names.iter().any(|name| belongs(&name));
        let dotted = names.iter().find(|name| name.contains('.') && belongs(name));
        named.then(|| dotted.copied()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_the_complete_name_comes_from_the_node_or_from_hosts() {
        let hosts = "127.0.0.1 localhost localhost.localdomain\n127.0.1.1\tweb1.example.com web1 # me\n::1 ip6-localhost\n";
        for (nodename, hosts, host, fqdn, domain) in [
            ("web1", hosts, "web1", "web1.example.com", "example.com"),
            ("web1", "", "web1", "web1", ""),
            ("web1", "127.0.0.1 localhost web1\n", "web1", "web1", ""),
            ("web1", "10.0.0.5 web10.example.com web10", "web1", "web1", ""),
            ("db.internal", hosts, "db", "db.internal", "internal"),
            ("localhost", hosts, "localhost", "localhost.localdomain", "localdomain"),
        ] {
            let expected = Names { host: host.into(), fqdn: fqdn.into(), domain: domain.into() };
            assert_eq!(understand(nodename, hosts), expected, "{nodename}");
        }
    }
}
