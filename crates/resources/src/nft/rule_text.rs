//! A rule in the words of `nft`, and a form in which two ways to write it look alike.

use super::Family;
use crate::netfilter::rule_params::{RuleParts, denied};

/// Transport protocols that have ports, and others that a rule may name.
const WITH_PORTS: [&str; 4] = ["tcp", "udp", "sctp", "dccp"];
/// Verdicts that need nothing more.
const VERDICTS: [&str; 6] = ["accept", "drop", "return", "queue", "continue", "masquerade"];
/// What `meta` may be left out before.
const PLAIN_META: [&str; 4] = ["iif", "oif", "iifname", "oifname"];

/// What a rule does besides matching.
#[derive(Copy, Clone, Default)]
pub(crate) struct Extras {
    pub(crate) counter: bool,
    pub(crate) log: bool,
}

/// The rule that a state says, or the parameter that makes it impossible, and why.
pub(crate) fn of_parts(
    rule: RuleParts<'_>,
    family: Family,
    extras: Extras,
) -> Result<String, (&'static str, String)> {
    let mut words = Vec::new();
    interface(&mut words, "iifname", "in_interface", rule.in_interface)?;
    interface(&mut words, "oifname", "out_interface", rule.out_interface)?;
    address(&mut words, "saddr", rule.source);
    address(&mut words, "daddr", rule.destination);
    let (not_proto, proto) = rule.proto.map(denied).unzip();
    let proto = proto.map(str::to_ascii_lowercase);
    for (parameter, side, one, many) in
        [("sport", "sport", rule.sport, rule.sports), ("dport", "dport", rule.dport, rule.dports)]
    {
        if one.is_none() && many.is_empty() {
            continue;
        }
        let with_ports =
            proto.as_deref().filter(|proto| WITH_PORTS.contains(proto) && not_proto != Some(true));
        let Some(proto) = with_ports else {
            return Err((
                parameter,
                "a port is one of a protocol: say `proto: tcp` or `proto: udp`".to_string(),
            ));
        };
        let (not, one) = one.map(denied).unzip();
        let ports: Vec<String> = one
            .into_iter()
            .chain(many.iter().map(String::as_str))
            .map(|port| port.replace(':', "-"))
            .collect();
        words.push(format!("{proto} {side} {}{}", not_sign(not == Some(true)), one_or_set(&ports.join(","))));
    }
    let icmp = if family == Family::Ip6 || proto.as_deref() == Some("ipv6-icmp") { "icmpv6" } else { "icmp" };
    if let Some(sort) = rule.icmp_type {
        let (not, sort) = denied(sort);
        words.push(format!("{icmp} type {}{sort}", not_sign(not)));
    } else if let Some(proto) = proto.filter(|_| !words.iter().any(|word| word.contains("port "))) {
        words.push(format!("meta l4proto {}{proto}", not_sign(not_proto == Some(true))));
    }
    for state in [rule.connstate, rule.ctstate].into_iter().flatten() {
        let (not, states) = denied(state);
        let states: Vec<String> = states.split(',').map(|state| state.trim().to_ascii_lowercase()).collect();
        words.push(format!("ct state {}{}", not_sign(not), states.join(",")));
    }
    if let Some(limit) = rule.limit {
        words.push(format!("limit rate {}", rate(limit)));
    }
    words.extend(rule.arguments.iter().cloned());
    words.extend(extras.counter.then(|| "counter".to_string()));
    let jump = rule.jump.unwrap_or_default();
    if extras.log || rule.log_prefix.is_some() || jump.eq_ignore_ascii_case("log") {
        let prefix = rule.log_prefix.map(|prefix| quoted("log_prefix", prefix)).transpose()?;
        words.push(prefix.map_or("log".to_string(), |prefix| format!("log prefix {prefix}")));
    }
    words.extend(verdict(&rule, family)?);
    if let Some(comment) = rule.comment {
        words.push(format!("comment {}", quoted("comment", comment)?));
    }
    Ok(words.join(" "))
}

fn not_sign(not: bool) -> &'static str {
    if not { "!= " } else { "" }
}

fn one_or_set(list: &str) -> String {
    if list.contains(',') { format!("{{ {} }}", list.replace(',', ", ")) } else { list.to_string() }
}

/// `nft` has no way to write a quote inside a text.
fn quoted(parameter: &'static str, text: &str) -> Result<String, (&'static str, String)> {
    if text.contains(['"', '\n', '\0']) {
        return Err((parameter, "`nft` takes no quote and no line end in a text".to_string()));
    }
    Ok(format!("\"{text}\""))
}

fn interface(
    words: &mut Vec<String>,
    key: &str,
    parameter: &'static str,
    name: Option<&str>,
) -> Result<(), (&'static str, String)> {
    let Some(name) = name else { return Ok(()) };
    let (not, name) = denied(name);
    // A trailing `+` is how iptables writes "whatever begins so".
    let name = name.strip_suffix('+').map_or_else(|| name.to_string(), |begin| format!("{begin}*"));
    words.push(format!("{key} {}{}", not_sign(not), quoted(parameter, &name)?));
    Ok(())
}

fn address(words: &mut Vec<String>, side: &str, address: Option<&str>) {
    let Some(address) = address else { return };
    let (not, address) = denied(address);
    let family = if address.contains(':') { "ip6" } else { "ip" };
    words.push(format!("{family} {side} {}{}", not_sign(not), one_or_set(address)));
}

/// `5/min` of iptables is `5/minute` here.
fn rate(limit: &str) -> String {
    let Some((number, unit)) = limit.split_once('/') else { return limit.to_string() };
    let unit =
        ["second", "minute", "hour", "day"].into_iter().find(|whole| whole.starts_with(unit)).unwrap_or(unit);
    format!("{number}/{unit}")
}

/// Where a packet goes, last of all.
fn verdict(rule: &RuleParts<'_>, family: Family) -> Result<Option<String>, (&'static str, String)> {
    let Some(jump) = rule.jump else { return Ok(None) };
    let small = jump.to_ascii_lowercase();
    let to = |parameter: &'static str, address: Option<&str>| match address {
        Some(address) if family == Family::Inet => {
            let sort =
                if address.starts_with('[') || address.matches(':').count() > 1 { "ip6" } else { "ip" };
            Ok(format!("{small} {sort} to {address}"))
        }
        Some(address) => Ok(format!("{small} to {address}")),
        None => Err((parameter, format!("`jump: {jump}` needs it"))),
    };
    Ok(Some(match small.as_str() {
        "log" => return Ok(None),
        "dnat" => to("to_destination", rule.to_destination)?,
        "snat" => to("to_source", rule.to_source)?,
        "redirect" => rule.to_ports.map_or(small.clone(), |port| format!("redirect to :{port}")),
        "reject" => {
            rule.reject_with.map_or(small.clone(), |how| format!("reject with {}", reject_words(how)))
        }
        plain if VERDICTS.contains(&plain) => small,
        _ => format!("jump {jump}"),
    }))
}

/// `icmp-host-prohibited` of iptables is `icmp host-prohibited` here.
fn reject_words(how: &str) -> String {
    match how.split_once('-') {
        Some(("tcp", "reset")) => "tcp reset".to_string(),
        Some(("icmp", what)) => format!("icmp {what}"),
        Some(("icmp6", what)) => format!("icmpv6 {what}"),
        _ => how.to_string(),
    }
}

/// Words without what may be written otherwise: quotes, the order of a set, what one match implies of another.
pub(crate) fn canonical(text: &str) -> Vec<String> {
    let words = in_lists(words(text));
    let mut plain: Vec<String> = Vec::new();
    let mut rest = words.as_slice();
    while let [first, behind @ ..] = rest {
        let next = behind.first().map_or("", String::as_str);
        rest = behind;
        match (first.as_str(), next) {
            ("==", _) => {}
            ("meta", key) if PLAIN_META.contains(&key) => {}
            ("ip", "protocol") | ("ip6", "nexthdr") => {
                plain.extend(["meta".to_string(), "l4proto".to_string()]);
                rest = &behind[1..];
            }
            ("with", "icmp" | "icmpv6" | "icmpx") => {
                plain.extend([first.clone(), next.to_string()]);
                let skipped = 1 + usize::from(behind.get(1).is_some_and(|word| word == "type"));
                rest = &behind[skipped..];
            }
            ("packets" | "bytes", number) if number.parse::<u64>().is_ok() => rest = &behind[1..],
            (word, _) => plain.push(one_host(word)),
        }
    }
    without_implied(plain)
}

/// A set and a list hold the same in any order; a set of one is that one.
fn in_lists(words: Vec<String>) -> Vec<String> {
    let mut found = Vec::new();
    let mut set: Option<Vec<String>> = None;
    for word in words {
        match (word.as_str(), &mut set) {
            ("{", None) => set = Some(Vec::new()),
            ("}", Some(_)) => {
                let mut items = set.take().unwrap_or_default();
                items.sort();
                found.push(items.join(","));
            }
            (_, Some(items)) => items.extend(list(&word).map(one_host)),
            (_, None) if word.contains(',') => {
                let mut items: Vec<&str> = list(&word).collect();
                items.sort_unstable();
                found.push(items.join(","));
            }
            (_, None) => found.push(word),
        }
    }
    found
}

fn list(word: &str) -> impl Iterator<Item = &str> {
    word.split(',').filter(|item| !item.is_empty())
}

/// One address is a network of one.
fn one_host(word: &str) -> String {
    let whole = if word.contains(':') { word.strip_suffix("/128") } else { word.strip_suffix("/32") };
    whole.unwrap_or(word).to_string()
}

/// `meta l4proto tcp` before `tcp dport 22` says nothing more, and is not listed.
fn without_implied(words: Vec<String>) -> Vec<String> {
    let implied = |at: usize| {
        let [meta, key, proto] = &words[at..(at + 3).min(words.len())] else { return false };
        let again = words[at + 3..]
            .windows(2)
            .any(|pair| pair[0] == *proto && ["sport", "dport", "type", "flags"].contains(&pair[1].as_str()));
        meta == "meta" && key == "l4proto" && again
    };
    let skipped: Vec<usize> = (0..words.len()).filter(|at| implied(*at)).collect();
    let keeps = |at: usize| !skipped.iter().any(|start| (*start..start + 3).contains(&at));
    words.iter().enumerate().filter(|(at, _)| keeps(*at)).map(|(_, word)| word.clone()).collect()
}

/// A text in quotes is one word; braces are words of their own.
fn words(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut word = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => {
                word.extend(letters.by_ref().take_while(|letter| *letter != '"'));
                found.push(std::mem::take(&mut word));
            }
            '{' | '}' => {
                found.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                found.push(letter.to_string());
            }
            letter if letter.is_whitespace() => {
                found.extend((!word.is_empty()).then(|| std::mem::take(&mut word)))
            }
            letter => word.push(letter),
        }
    }
    found.extend((!word.is_empty()).then_some(word));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ways_to_write_a_rule_look_alike() {
        let same = |one: &str, other: &str| canonical(one) == canonical(other);
        for (one, other) in [
            ("tcp dport { 443, 80 } accept", "tcp dport { 80,443 } accept"),
            ("ip protocol tcp tcp dport 22 accept", "tcp dport 22 accept"),
            ("meta iifname eth0 accept", "iifname \"eth0\" accept"),
            ("ip saddr 10.0.0.1/32 drop", "ip saddr == 10.0.0.1 drop"),
            ("ct state new,established accept", "ct state established,new accept"),
            ("ct state { new, established } accept", "ct state established,new accept"),
            ("counter packets 3 bytes 180 accept", "counter accept"),
            ("tcp dport { 22 } accept", "tcp dport 22 accept"),
            ("reject with icmp type host-prohibited", "reject with icmp host-prohibited"),
            ("ip protocol tcp accept", "meta l4proto tcp accept"),
            ("accept comment \"two words\"", "accept comment  \"two words\""),
        ] {
            assert!(same(one, other), "{:?} {:?}", canonical(one), canonical(other));
        }
        for (one, other) in [
            ("tcp dport 22 accept", "udp dport 22 accept"),
            ("ip saddr != 10.0.0.1 drop", "ip saddr 10.0.0.1 drop"),
            ("meta l4proto tcp accept", "accept"),
            ("accept comment \"a b\"", "accept comment \"ab\""),
        ] {
            assert!(!same(one, other), "{one} {other}");
        }
    }

    #[test]
    fn parts_become_the_words_of_nft() {
        let dports = ["80".to_string(), "443".to_string()];
        let parts = |family, parts: RuleParts<'_>| of_parts(parts, family, Extras::default());
        let tcp = RuleParts { proto: Some("tcp"), jump: Some("ACCEPT"), ..RuleParts::default() };
        for (family, rule, wanted) in [
            (Family::Ip, RuleParts { dport: Some("22"), ..tcp }, "tcp dport 22 accept"),
            (Family::Ip, RuleParts { dports: &dports, ..tcp }, "tcp dport { 80, 443 } accept"),
            (Family::Ip, RuleParts { dport: Some("1000:2000"), ..tcp }, "tcp dport 1000-2000 accept"),
            (
                Family::Ip,
                RuleParts { connstate: Some("NEW,ESTABLISHED"), in_interface: Some("eth+"), ..tcp },
                "iifname \"eth*\" meta l4proto tcp ct state new,established accept",
            ),
            (
                Family::Inet,
                RuleParts {
                    source: Some("! ::1"),
                    jump: Some("web"),
                    limit: Some("5/min"),
                    ..RuleParts::default()
                },
                "ip6 saddr != ::1 limit rate 5/minute jump web",
            ),
            (
                Family::Inet,
                RuleParts {
                    jump: Some("DNAT"),
                    to_destination: Some("10.0.0.2:80"),
                    dport: Some("80"),
                    ..tcp
                },
                "tcp dport 80 dnat ip to 10.0.0.2:80",
            ),
            (
                Family::Ip,
                RuleParts {
                    jump: Some("REJECT"),
                    reject_with: Some("icmp-host-prohibited"),
                    comment: Some("no"),
                    ..RuleParts::default()
                },
                "reject with icmp host-prohibited comment \"no\"",
            ),
            (
                Family::Ip6,
                RuleParts {
                    jump: Some("LOG"),
                    icmp_type: Some("echo-request"),
                    log_prefix: Some("in: "),
                    ..RuleParts::default()
                },
                "icmpv6 type echo-request log prefix \"in: \"",
            ),
        ] {
            assert_eq!(parts(family, rule).as_deref(), Ok(wanted));
        }
        let wrong = |rule| parts(Family::Ip, rule).unwrap_err().0;
        assert_eq!(wrong(RuleParts { dport: Some("22"), ..RuleParts::default() }), "dport");
        assert_eq!(wrong(RuleParts { jump: Some("SNAT"), ..RuleParts::default() }), "to_source");
        assert_eq!(wrong(RuleParts { comment: Some("a\"b"), ..RuleParts::default() }), "comment");
    }
}
