//! `firewalld.present`, `firewalld.bind`, `firewalld.service`: zones and services of firewalld.
//!
//! Both are read and changed as firewalld keeps them for good; afterwards it loads what it keeps.

#[cfg(test)]
mod fake_firewalld;
mod service_state;
mod zone_state;

use crate::claims::{Claim, Claims};
use crate::context::Checking;
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::State;
use service_state::ServiceState;
use std::collections::BTreeSet;
use std::path::Path;
use zester_host::{Fault, FaultKind};
use zone_state::{ZoneState, plain_rule};

/// A zone of the firewall.
#[params(kind = "firewalld.present", primary = "name", manual = "firewalld_present.md")]
pub struct Present {
    /// The zone. One that is not there is made.
    name: String,
    /// Whether it is the zone of whatever no zone is said of.
    default: Option<bool>,
    /// Whether packets leave with the address of this machine.
    masquerade: Option<bool>,
    /// What is let in, by the names of firewalld: `http`.
    #[param(list, default)]
    services: Vec<String>,
    /// Takes away services that are not named.
    #[param(default)]
    prune_services: bool,
    /// Ports that are let in: `8080/tcp`, `1000-2000/udp`.
    #[param(list, default)]
    ports: Vec<String>,
    /// Takes away ports that are not named.
    #[param(default)]
    prune_ports: bool,
    /// Ports that lead elsewhere: `80:8080:tcp`, or `80:8080:tcp:10.0.0.5`.
    #[param(list, default)]
    port_fwd: Vec<String>,
    /// Takes away those that are not named.
    #[param(default)]
    prune_port_fwd: bool,
    /// Sorts of ICMP messages that are not let in.
    #[param(list, default)]
    block_icmp: Vec<String>,
    /// Takes away those that are not named.
    #[param(default)]
    prune_block_icmp: bool,
    /// Interfaces that belong to it.
    #[param(list, default)]
    interfaces: Vec<String>,
    /// Takes away interfaces that are not named.
    #[param(default)]
    prune_interfaces: bool,
    /// Addresses and networks that belong to it.
    #[param(list, default)]
    sources: Vec<String>,
    /// Takes away sources that are not named.
    #[param(default)]
    prune_sources: bool,
    /// Rules in the language of firewalld.
    #[param(list, default)]
    rich_rules: Vec<String>,
    /// Takes away rules that are not named.
    #[param(default)]
    prune_rich_rules: bool,
}

/// What belongs to a zone of the firewall.
#[params(kind = "firewalld.bind", primary = "name", manual = "firewalld_bind.md")]
pub struct Bind {
    /// The zone, which must be there.
    name: String,
    /// Interfaces that belong to it.
    #[param(list, default)]
    interfaces: Vec<String>,
    /// Addresses and networks that belong to it.
    #[param(list, default)]
    sources: Vec<String>,
}

/// A service that zones can let in.
#[params(kind = "firewalld.service", primary = "name", manual = "firewalld_service.md")]
pub struct Service {
    /// The service. One that is not there is made.
    name: String,
    /// Its ports, and no others: `8080/tcp`.
    #[param(list)]
    ports: Option<Vec<String>>,
    /// Its protocols, and no others: `gre`.
    #[param(list)]
    protocols: Option<Vec<String>>,
}

/// `80:8080:tcp:10.0.0.5` as firewalld writes it.
fn forward(text: &str) -> Option<String> {
    let parts: Vec<&str> = text.split(':').collect();
    let (from, to, protocol, address) = match parts.as_slice() {
        [from, to, protocol] => (from, to, protocol, ""),
        [from, to, protocol, address @ ..] => return Some(written(from, to, protocol, &address.join(":"))),
        _ => return None,
    };
    Some(written(from, to, protocol, address))
}

fn written(from: &str, to: &str, protocol: &str, address: &str) -> String {
    format!("port={from}:proto={protocol}:toport={to}:toaddr={address}")
}

/// Those that are there and those that are wanted, or the latter alone.
fn set(now: &BTreeSet<String>, wanted: impl IntoIterator<Item = String>, prune: bool) -> BTreeSet<String> {
    let kept = now.iter().filter(|_| !prune).cloned();
    kept.chain(wanted).collect()
}

fn invalid_words(parameter: &'static str, words: &[String]) -> Vec<Invalid> {
    let odd = |word: &&String| word.is_empty() || word.starts_with('-') || word.contains(char::is_whitespace);
    words.iter().filter(odd).map(|word| Invalid::new(parameter, format!("`{word}` cannot be one"))).collect()
}

fn invalid_ports(ports: &[String]) -> Vec<Invalid> {
    let number = |text: &str| text.parse::<u16>().is_ok_and(|number| number > 0);
    let well = |port: &str| {
        let Some((range, protocol)) = port.split_once('/') else { return false };
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        number(first) && number(last) && ["tcp", "udp", "sctp", "dccp"].contains(&protocol)
    };
    let odd = ports.iter().filter(|port| !well(port));
    odd.map(|port| Invalid {
        hint: Some("write it like `8080/tcp` or `1000-2000/udp`".to_string()),
        ..Invalid::new("ports", format!("`{port}` is no port"))
    })
    .collect()
}

fn no_zone(name: &str) -> Fault {
    Fault::new(FaultKind::NotFound, format!("firewalld knows no zone `{name}`"))
        .hint("a `firewalld.present` state makes it")
}

/// States about firewalld come one after the other: each makes it load what it keeps.
fn one_by_one(claims: Claims) -> Claims {
    claims.edits(Path::new("/etc/firewalld/firewalld.conf"))
}

impl Resource for Present {
    type State = ZoneState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &ZoneState, _: &Checking<'_>) -> Result<Want<ZoneState>, Fault> {
        let list = |words: &[String]| words.to_vec();
        Ok(Want::Be(ZoneState {
            exists: true,
            default_zone: if self.default == Some(true) {
                self.name.clone()
            } else {
                now.default_zone.clone()
            },
            masquerade: self.masquerade.unwrap_or(now.masquerade),
            services: set(&now.services, list(&self.services), self.prune_services),
            ports: set(&now.ports, list(&self.ports), self.prune_ports),
            forward_ports: set(
                &now.forward_ports,
                self.port_fwd.iter().filter_map(|text| forward(text)),
                self.prune_port_fwd,
            ),
            icmp_blocks: set(&now.icmp_blocks, list(&self.block_icmp), self.prune_block_icmp),
            interfaces: set(&now.interfaces, list(&self.interfaces), self.prune_interfaces),
            sources: set(&now.sources, list(&self.sources), self.prune_sources),
            rich_rules: set(
                &now.rich_rules,
                self.rich_rules.iter().map(|rule| plain_rule(rule)),
                self.prune_rich_rules,
            ),
        }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = invalid_words("name", std::slice::from_ref(&self.name));
        invalid.extend(invalid_ports(&self.ports));
        for (parameter, words) in [
            ("services", &self.services),
            ("block_icmp", &self.block_icmp),
            ("interfaces", &self.interfaces),
            ("sources", &self.sources),
        ] {
            invalid.extend(invalid_words(parameter, words));
        }
        let odd = self.port_fwd.iter().filter(|text| forward(text).is_none());
        invalid.extend(odd.map(|text| Invalid {
            hint: Some("write it like `80:8080:tcp` or `80:8080:tcp:10.0.0.5`".to_string()),
            ..Invalid::new("port_fwd", format!("`{text}` does not say from where to where"))
        }));
        let odd = self.rich_rules.iter().find(|rule| !rule.trim_start().starts_with("rule"));
        invalid.extend(
            odd.map(|rule| Invalid::new("rich_rules", format!("`{rule}` does not begin with `rule`"))),
        );
        if self.default == Some(false) {
            invalid.push(Invalid::new("default", "say which zone is the default one instead"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let claim = Claim::about(ZoneState::item(&self.key())).with("masquerade", self.masquerade);
        one_by_one(Claims::of(claim.with("default", self.default)))
    }
}

impl Resource for Bind {
    type State = ZoneState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &ZoneState, _: &Checking<'_>) -> Result<Want<ZoneState>, Fault> {
        if !now.exists {
            return Err(no_zone(&self.name));
        }
        let interfaces = set(&now.interfaces, self.interfaces.clone(), false);
        Ok(Want::Be(ZoneState {
            interfaces,
            sources: set(&now.sources, self.sources.clone(), false),
            ..now.clone()
        }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = invalid_words("name", std::slice::from_ref(&self.name));
        invalid.extend(invalid_words("interfaces", &self.interfaces));
        invalid.extend(invalid_words("sources", &self.sources));
        if self.interfaces.is_empty() && self.sources.is_empty() {
            invalid.push(Invalid::new("interfaces", "name `interfaces` or `sources`"));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        one_by_one(Claims::of(Claim::about(ZoneState::item(&self.key()))))
    }
}

impl Resource for Service {
    type State = ServiceState;

    fn key(&self) -> String {
        self.name.clone()
    }

    async fn desired(&self, now: &ServiceState, _: &Checking<'_>) -> Result<Want<ServiceState>, Fault> {
        let wanted = |given: &Option<Vec<String>>, now: &BTreeSet<String>| {
            given.as_ref().map_or_else(|| now.clone(), |given| given.iter().cloned().collect())
        };
        Ok(Want::Be(ServiceState {
            exists: true,
            ports: wanted(&self.ports, &now.ports),
            protocols: wanted(&self.protocols, &now.protocols),
        }))
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = invalid_words("name", std::slice::from_ref(&self.name));
        invalid.extend(invalid_ports(self.ports.as_deref().unwrap_or_default()));
        invalid.extend(invalid_words("protocols", self.protocols.as_deref().unwrap_or_default()));
        invalid
    }

    fn claims(&self) -> Claims {
        let claim = Claim::new(ServiceState::item(&self.key()), "present");
        one_by_one(Claims::of(
            claim.with("ports", self.ports.as_ref()).with("protocols", self.protocols.as_ref()),
        ))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use fake_firewalld::fake_firewalld;
    use serde_json::json;
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, |host| fake_firewalld(host)).with_books(&["/books"])
    };
    vec![
        case("firewalld.present", json!({ "name": "public" }), Promise::Clean),
        case(
            "firewalld.present",
            json!({ "name": "public", "services": ["ssh"], "default": true }),
            Promise::Clean,
        ),
        case("firewalld.present", json!({ "name": "public", "services": ["http"] }), Promise::Converges),
        case(
            "firewalld.present",
            json!({ "name": "public", "services": ["http"], "prune_services": true }),
            Promise::Converges,
        ),
        case(
            "firewalld.present",
            json!({ "name": "web", "ports": ["80/tcp"], "masquerade": true, "default": true, "port_fwd": ["80:8080:tcp"],
                    "rich_rules": ["rule family=ipv4 source address=\"10.0.0.0/8\" accept"] }),
            Promise::Converges,
        ),
        case("firewalld.bind", json!({ "name": "public", "interfaces": ["eth0"] }), Promise::Converges),
        case("firewalld.bind", json!({ "name": "none", "sources": ["10.0.0.1"] }), Promise::Fails),
        case("firewalld.service", json!({ "name": "zesty", "ports": ["99/tcp"] }), Promise::Converges),
        case("firewalld.service", json!({ "name": "ssh", "ports": ["22/tcp"] }), Promise::Clean),
        case(
            "firewalld.service",
            json!({ "name": "ssh", "ports": ["2222/tcp"], "protocols": ["gre"] }),
            Promise::Converges,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::laws::bind_json;
    use serde_json::json;

    #[test]
    fn what_firewalld_would_not_take_is_refused() {
        let told = |params| bind_json("firewalld.present", &params).err().map(|told| told[0].message.clone());
        for port in ["80", "80/http", "0/tcp", "70000/tcp", "5-/udp"] {
            assert_eq!(
                told(json!({ "name": "web", "ports": [port] })),
                Some(format!("`ports` of firewalld.present: `{port}` is no port"))
            );
        }
        assert!(
            told(json!({ "name": "web", "port_fwd": ["80:tcp"] })).unwrap().contains("from where to where")
        );
        assert!(told(json!({ "name": "a b" })).unwrap().contains("cannot be one"));
        assert!(
            told(json!({ "name": "web", "rich_rules": ["accept"] })).unwrap().contains("begin with `rule`")
        );
        assert_eq!(forward("80:8080:tcp:fe80::1").unwrap(), "port=80:proto=tcp:toport=8080:toaddr=fe80::1");
    }
}
