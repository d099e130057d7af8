//! Interfaces and their addresses.

use crate::{Facts, read};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

pub fn collect(facts: &mut Facts) {
    let interfaces = read::names_in("/sys/class/net").into_iter().map(|name| {
        let address = read::system_line(format!("/sys/class/net/{name}/address"));
        (name, address)
    });
    facts.extend(understand(interfaces.collect(), addresses()));
    let gateway = default_gateway(&read::system_text("/proc/net/route"));
    facts.insert("ip4_gw".into(), gateway.map_or(Value::Bool(false), |address| json!(address.to_string())));
}

/// Every address of every interface, as the kernel tells it.
fn addresses() -> Vec<(String, IpAddr)> {
    let Ok(entries) = nix::ifaddrs::getifaddrs() else { return Vec::new() };
    let known = entries.filter_map(|entry| {
        let address = entry.address?;
        let v4 = address.as_sockaddr_in().map(|socket| IpAddr::V4(socket.ip()));
        let v6 = || address.as_sockaddr_in6().map(|socket| IpAddr::V6(socket.ip()));
        Some((entry.interface_name, v4.or_else(v6)?))
    });
    known.collect()
}

/// Groups addresses by interface and by family. An interface without an address is there with an empty list.
fn understand(hardware: BTreeMap<String, String>, addresses: Vec<(String, IpAddr)>) -> Facts {
    let mut all: BTreeMap<&str, Vec<IpAddr>> =
        hardware.keys().map(|name| (name.as_str(), Vec::new())).collect();
    for (name, address) in &addresses {
        // An alias such as `eth0:1` has addresses and no directory in /sys.
        all.entry(name).or_default().push(*address);
    }
    let by_interface = |wanted: fn(&IpAddr) -> bool| -> Value {
        let texts = |list: &[IpAddr]| -> Value {
            list.iter().filter(|address| wanted(address)).map(ToString::to_string).collect()
        };
        Value::Object(all.iter().map(|(name, list)| ((*name).to_string(), texts(list))).collect())
    };
    let flat = |wanted: fn(&IpAddr) -> bool| -> Value {
        let mut found: Vec<IpAddr> = addresses.iter().map(|(_, address)| *address).filter(&wanted).collect();
        found.sort_unstable();
        found.dedup();
        found.iter().map(ToString::to_string).collect()
    };
    let macs = hardware.iter().filter(|(_, mac)| !mac.is_empty());
    let mut facts = Facts::new();
    facts.insert("ip_interfaces".into(), by_interface(|_| true));
    facts.insert("ip4_interfaces".into(), by_interface(IpAddr::is_ipv4));
    facts.insert("ip6_interfaces".into(), by_interface(IpAddr::is_ipv6));
    facts.insert("ipv4".into(), flat(IpAddr::is_ipv4));
    facts.insert("ipv6".into(), flat(IpAddr::is_ipv6));
    facts.insert(
        "hwaddr_interfaces".into(),
        Value::Object(macs.map(|(name, mac)| (name.clone(), json!(mac))).collect()),
    );
    facts
}

/// The gateway of the route to everywhere: addresses stand in hexadecimal, in the byte order of the machine.
fn default_gateway(routes: &str) -> Option<Ipv4Addr> {
    routes.lines().skip(1).find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |place: usize| fields.get(place).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let everywhere = number(1) == Some(0) && number(7) == Some(0);
        let gateway = number(2).filter(|gateway| everywhere && *gateway != 0)?;
        Some(Ipv4Addr::from(gateway.to_ne_bytes()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-7")]
    fn d7_addresses_are_grouped_by_interface_and_family() {
        let hardware = [("eth0", "52:54:00:12:34:56"), ("lo", "00:00:00:00:00:00"), ("tun0", "")];
        let hardware = hardware.map(|(name, mac)| (name.to_string(), mac.to_string()));
        let addresses = [
            ("lo", "127.0.0.1"),
            ("eth0", "10.0.0.5"),
            ("eth0", "9.0.0.5"),
            ("eth0", "fe80::1"),
            ("eth0:1", "10.0.0.6"),
        ];
        let addresses = addresses.map(|(name, ip)| (name.to_string(), ip.parse().unwrap()));
        let facts = understand(hardware.into(), addresses.into());
        assert_eq!(facts["ipv4"], json!(["9.0.0.5", "10.0.0.5", "10.0.0.6", "127.0.0.1"]));
        assert_eq!(facts["ipv6"], json!(["fe80::1"]));
        assert_eq!(facts["ip_interfaces"]["eth0"], json!(["10.0.0.5", "9.0.0.5", "fe80::1"]));
        assert_eq!(facts["ip6_interfaces"], json!({"eth0": ["fe80::1"], "eth0:1": [], "lo": [], "tun0": []}));
        assert_eq!(
            facts["hwaddr_interfaces"],
            json!({"eth0": "52:54:00:12:34:56", "lo": "00:00:00:00:00:00"})
        );
    }

    #[test]
    #[cfg(target_endian = "little")]
    #[rule("D-7")]
    fn d7_the_gateway_is_that_of_the_default_route() {
        let routes = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\n\
            eth0\t000000AC\t00000000\t0001\t0\t0\t0\t0000FFFF\n\
            eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n";
        assert_eq!(default_gateway(routes), Some(Ipv4Addr::new(10, 0, 0, 1)));
        assert_eq!(default_gateway("Iface\n"), None);
        assert_eq!(default_gateway(""), None);
    }
}
