//! `network.*`: interfaces, routes, connections, and arithmetic with addresses.

use super::status::text as file_text;
use super::{Access, CallContext, Function, Takes, read_only, text, told, value};
use serde_json::{Map, Value as Json, json};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zester_host::Launch;

pub(super) const TABLE: &[Function] = &[
    read_only(
        "network.active_tcp",
        &[],
        "network.active_tcp: connections of TCP that are open",
        |place, _| {
            let mut found = connections(&file_text(place, "/proc/net/tcp")?);
            found.extend(connections(&file_text(place, "/proc/net/tcp6").unwrap_or_default()));
            Ok(json!(found))
        },
    ),
    read_only("network.arp", &[], "network.arp: the hardware addresses of neighbours", |place, _| {
        let text = file_text(place, "/proc/net/arp")?;
        let line = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            Some((words.get(3)?.to_string(), json!(words.first()?)))
        };
        Ok(Json::Object(text.lines().skip(1).filter_map(line).collect()))
    }),
    Function {
        name: "network.connect",
        access: Access::Command,
        takes: &[text("host"), Takes { text: false, ..text("port") }],
        doc: "network.connect HOST PORT: whether something answers there (TCP)",
        call: |place, args| {
            let (host, port) = (args.text(0, "host")?, args.text(1, "port")?);
            let number = port.parse::<u16>().ok().filter(|port| *port > 0);
            let number = number.ok_or_else(|| format!("`port`: `{port}` is no port"))?;
            let limit = std::time::Duration::from_secs(5);
            let connected = place.handle.block_on(async {
                let connecting = tokio::net::TcpStream::connect((host.as_str(), number));
                tokio::select! {
                    ended = tokio::time::timeout(limit, connecting) => Ok(ended),
                    () = place.cancel.cancelled() => Err("canceled".to_string()),
                }
            })?;
            let (result, comment) = match connected {
                Ok(Ok(_)) => (true, format!("connected to {host} port {number}")),
                Ok(Err(error)) => (false, format!("cannot connect to {host} port {number}: {error}")),
                Err(_) => (false, format!("{host} port {number} gave no answer in {} s", limit.as_secs())),
            };
            Ok(json!({ "result": result, "comment": comment }))
        },
    },
    told(
        "network.convert_cidr",
        &[text("cidr")],
        "network.convert_cidr NETWORK: network, netmask and broadcast of `10.0.0.0/24`",
        |_, args| {
            let Network { first, mask, last } = Network::parse(&args.text(0, "cidr")?)?;
            Ok(
                json!({ "network": first.to_string(), "netmask": mask.to_string(), "broadcast": last.to_string() }),
            )
        },
    ),
    read_only(
        "network.default_route",
        &[value("family")],
        "network.default_route [FAMILY]: where packets go by default; FAMILY is inet or inet6",
        |place, args| {
            let routes = routes(place, args.get(0, "family").and_then(Json::as_str))?;
            Ok(json!(
                routes
                    .into_iter()
                    .filter(|route| route["destination"] == "0.0.0.0" || route["destination"] == "::/0")
                    .collect::<Vec<_>>()
            ))
        },
    ),
    told(
        "network.hw_addr",
        &[text("iface")],
        "network.hw_addr INTERFACE: its hardware address",
        |place, args| {
            let name = args.text(0, "iface")?;
            let found = place.facts.get("hwaddr_interfaces").and_then(|all| all.get(&name)).cloned();
            found.ok_or_else(|| format!("there is no interface `{name}`"))
        },
    ),
    told(
        "network.in_subnet",
        &[text("cidr")],
        "network.in_subnet NETWORK: whether an address of this machine is in a network",
        |place, args| {
            let network = Network::parse(&args.text(0, "cidr")?)?;
            Ok(json!(addresses(place).into_iter().any(|own| network.contains(own))))
        },
    ),
    told(
        "network.interface",
        &[text("iface")],
        "network.interface NAME: the addresses of an interface",
        |place, args| {
            let name = args.text(0, "iface")?;
            interfaces(place).remove(&name).ok_or_else(|| format!("there is no interface `{name}`"))
        },
    ),
    told(
        "network.interface_ip",
        &[text("iface")],
        "network.interface_ip NAME: the first IPv4 address of an interface",
        |place, args| {
            let name = args.text(0, "iface")?;
            let found = place.facts.get("ip4_interfaces").and_then(|all| all.get(&name));
            let found = found.ok_or_else(|| format!("there is no interface `{name}`"))?;
            Ok(found.get(0).cloned().unwrap_or_default())
        },
    ),
    told("network.interfaces", &[], "network.interfaces: all interfaces with their addresses", |place, _| {
        Ok(Json::Object(interfaces(place)))
    }),
    told(
        "network.is_loopback",
        &[text("ip_addr")],
        "network.is_loopback ADDRESS: whether an address is of the loop",
        |_, args| Ok(json!(address(&args.text(0, "ip_addr")?)?.is_loopback())),
    ),
    told(
        "network.is_private",
        &[text("ip_addr")],
        "network.is_private ADDRESS: whether an address is a private one",
        |_, args| Ok(json!(is_private(address(&args.text(0, "ip_addr")?)?))),
    ),
    Function {
        name: "network.ping",
        access: Access::Command,
        takes: &[text("host"), value("return_boolean")],
        doc: "network.ping HOST [BOOLEAN]: what ping says, or whether it was answered",
        call: |place, args| {
            let host = args.text(0, "host")?;
            let mut launch = Launch::argv(["ping", "-c", "4", "--", &host]);
            launch.timeout = Some(zester_model::limits::TEMPLATE_COMMAND_TIMEOUT);
            let exit = place.handle.block_on(place.processes.run(&launch, None, place.cancel));
            let exit = exit.map_err(|fault| fault.to_string())?;
            match args.flag(1, "return_boolean", false)? {
                true => Ok(json!(exit.code == Some(0))),
                false => Ok(json!(format!("{}{}", exit.stdout.text, exit.stderr.text))),
            }
        },
    },
    read_only(
        "network.routes",
        &[value("family")],
        "network.routes [FAMILY]: the routes of this machine; FAMILY is inet or inet6",
        |place, args| Ok(json!(routes(place, args.get(0, "family").and_then(Json::as_str))?)),
    ),
];

fn address(text: &str) -> Result<IpAddr, String> {
    text.trim().parse().map_err(|_| format!("`{text}` is no address"))
}

/// Private, of the loop, or of one link.
pub(super) fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_private() || address.is_loopback() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_unique_local() || address.is_loopback() || address.is_unicast_link_local()
        }
    }
}

/// First address, mask and last address of a network.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Network {
    first: IpAddr,
    mask: IpAddr,
    last: IpAddr,
}

impl Network {
    pub(super) fn parse(text: &str) -> Result<Network, String> {
        let (host, length) = text.split_once('/').unwrap_or((text, ""));
        let address = address(host)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length =
            if length.is_empty() { Some(most) } else { length.parse().ok().filter(|length| *length <= most) };
        let length = length.ok_or_else(|| format!("`{text}` is no network; write it like `10.0.0.0/24`"))?;
        Ok(Network::around(address, length))
    }

    fn around(address: IpAddr, length: u32) -> Network {
        match address {
            IpAddr::V4(address) => {
                let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
                let first = address.to_bits() & mask;
                let made = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
                Network { first: made(first), mask: made(mask), last: made(first | !mask) }
            }
            IpAddr::V6(address) => {
                let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
                let first = address.to_bits() & mask;
                let made = |bits| IpAddr::V6(Ipv6Addr::from_bits(bits));
                Network { first: made(first), mask: made(mask), last: made(first | !mask) }
            }
        }
    }

    pub(super) fn contains(self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && (self.first..=self.last).contains(&address)
    }
}

fn addresses(place: &CallContext<'_>) -> Vec<IpAddr> {
    let all = place.facts.get("ip_interfaces").and_then(Json::as_object);
    let texts = all.into_iter().flat_map(|all| all.values()).filter_map(Json::as_array).flatten();
    texts.filter_map(|text| text.as_str()?.parse().ok()).collect()
}

fn interfaces(place: &CallContext<'_>) -> Map<String, Json> {
    let of = |fact: &str, name: &str| place.facts.get(fact).and_then(|all| all.get(name)).cloned();
    let names =
        ["hwaddr_interfaces", "ip_interfaces"].iter().filter_map(|fact| place.facts.get(*fact)?.as_object());
    let mut found = Map::new();
    for name in names.flat_map(Map::keys) {
        let told = json!({
            "hwaddr": of("hwaddr_interfaces", name),
            "inet": of("ip4_interfaces", name).unwrap_or_else(|| json!([])),
            "inet6": of("ip6_interfaces", name).unwrap_or_else(|| json!([])),
        });
        found.insert(name.clone(), told);
    }
    found
}

/// As the kernel writes it: words of four bytes, each with its last byte first.
fn kernel_address(hex: &str) -> Option<IpAddr> {
    let words: Vec<u32> = (0..hex.len() / 8)
        .filter_map(|at| u32::from_str_radix(hex.get(at * 8..at * 8 + 8)?, 16).ok())
        .collect();
    match words.as_slice() {
        [one] => Some(IpAddr::V4(Ipv4Addr::from(one.to_ne_bytes()))),
        [a, b, c, d] => {
            let bytes: Vec<u8> = [a, b, c, d].iter().flat_map(|word| word.to_ne_bytes()).collect();
            Some(IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(bytes).ok()?)))
        }
        _ => None,
    }
}

/// Lines of `/proc/net/tcp` whose connection is established.
fn connections(text: &str) -> Vec<Json> {
    let end = |word: &str| {
        let (address, port) = word.split_once(':')?;
        Some((kernel_address(address)?.to_string(), u16::from_str_radix(port, 16).ok()?))
    };
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.get(3) != Some(&"01") {
            return None;
        }
        let ((local, local_port), (remote, remote_port)) = (end(words.get(1)?)?, end(words.get(2)?)?);
        Some(
            json!({ "local_addr": local, "local_port": local_port, "remote_addr": remote, "remote_port": remote_port }),
        )
    };
    text.lines().skip(1).filter_map(line).collect()
}

fn routes(place: &CallContext<'_>, family: Option<&str>) -> Result<Vec<Json>, String> {
    let mut found = Vec::new();
    if let Some(other) = family.filter(|family| !["inet", "inet6"].contains(family)) {
        return Err(format!("`family`: `{other}` is neither inet nor inet6"));
    }
    if family != Some("inet6") {
        for line in file_text(place, "/proc/net/route")?.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [interface, destination, gateway, _, _, _, metric, mask, ..] = words.as_slice() else {
                continue;
            };
            let shown = |hex: &str| kernel_address(hex).map(|address| address.to_string());
            found.push(json!({
                "addr_family": "inet", "interface": interface, "destination": shown(destination), "gateway": shown(gateway),
                "netmask": shown(mask), "metric": metric.parse::<u64>().ok(),
            }));
        }
    }
    if family != Some("inet") {
        // Without IPv6 the kernel has no such file.
        for line in file_text(place, "/proc/net/ipv6_route").unwrap_or_default().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [destination, length, _, _, gateway, metric, .., interface] = words.as_slice() else {
                continue;
            };
            let shown = |hex: &str| {
                u128::from_str_radix(hex, 16).ok().map(|bits| Ipv6Addr::from_bits(bits).to_string())
            };
            let length = u32::from_str_radix(length, 16).unwrap_or_default();
            found.push(json!({
                "addr_family": "inet6", "interface": interface, "gateway": shown(gateway),
                "destination": shown(destination).map(|address| format!("{address}/{length}")),
                "metric": u64::from_str_radix(metric, 16).ok(),
            }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use crate::functions::try_function::TestHost;
    use serde_json::json;

    #[tokio::test(flavor = "multi_thread")]
    async fn addresses_routes_and_connections_are_read() {
        let mut machine = TestHost::with(&[
            (
                "/proc/net/route",
                "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\n\
                eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\neth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\n",
            ),
            (
                "/proc/net/tcp",
                "  sl  local_address rem_address   st\n   0: 0500000A:0016 0700000A:C350 01 0\n   1: 00000000:0016 00000000:0000 0A 0\n",
            ),
        ]);
        machine.facts = json!({
            "ip_interfaces": { "eth0": ["10.0.0.5"], "lo": ["127.0.0.1"] }, "ip4_interfaces": { "eth0": ["10.0.0.5"] },
            "hwaddr_interfaces": { "eth0": "52:54:00:00:00:01" },
        });
        for (function, words, wanted) in [
            (
                "network.convert_cidr",
                &["10.0.5.7/22"][..],
                json!({ "network": "10.0.4.0", "netmask": "255.255.252.0", "broadcast": "10.0.7.255" }),
            ),
            ("network.in_subnet", &["10.0.0.0/24"], json!(true)),
            ("network.in_subnet", &["fe80::/10"], json!(false)),
            ("network.in_subnet", &["0.0.0.0/0"], json!(true)),
            ("network.is_loopback", &["::1"], json!(true)),
            ("network.is_private", &["192.168.3.4"], json!(true)),
            ("network.is_private", &["8.8.8.8"], json!(false)),
            ("network.hw_addr", &["eth0"], json!("52:54:00:00:00:01")),
            ("network.interface_ip", &["eth0"], json!("10.0.0.5")),
            (
                "network.active_tcp",
                &[],
                json!([{ "local_addr": "10.0.0.5", "local_port": 22, "remote_addr": "10.0.0.7", "remote_port": 50000 }]),
            ),
            (
                "network.default_route",
                &["inet"],
                json!([{ "addr_family": "inet", "interface": "eth0", "destination": "0.0.0.0", "gateway": "10.0.0.1", "netmask": "0.0.0.0", "metric": 100 }]),
            ),
        ] {
            assert_eq!(machine.call(function, words), Ok(wanted), "{function} {words:?}");
        }
        assert_eq!(machine.call("network.interfaces", &[]).unwrap()["eth0"]["inet"], json!(["10.0.0.5"]));
        assert_eq!(
            machine.call("network.routes", &["x"]),
            Err("`family`: `x` is neither inet nor inet6".into())
        );
        assert!(machine.call("network.convert_cidr", &["10.0.0.0/40"]).is_err());
        assert_eq!(
            machine.call("network.connect", &["localhost", "0"]),
            Err("`port`: `0` is no port".into())
        );
    }
}
