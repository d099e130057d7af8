//! A zone, as firewalld keeps it for good.

use crate::claims::ManagedItem;
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use zester_host::process::read_tools::{FIREWALLD_DEFAULT, FIREWALLD_ZONE};
use zester_host::{Exit, Fault, FaultKind};

/// What firewalld answers where there is no such zone, and where it does not run.
const INVALID_ZONE: i32 = 112;
const NOT_RUNNING: i32 = 252;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ZoneState {
    pub(super) exists: bool,
    /// The zone of whatever no zone is said of.
    pub(super) default_zone: String,
    pub(super) masquerade: bool,
    pub(super) services: BTreeSet<String>,
    pub(super) ports: BTreeSet<String>,
    pub(super) forward_ports: BTreeSet<String>,
    pub(super) icmp_blocks: BTreeSet<String>,
    pub(super) interfaces: BTreeSet<String>,
    pub(super) sources: BTreeSet<String>,
    pub(super) rich_rules: BTreeSet<String>,
}

/// Without quotes that mean nothing, and with one space between words.
pub(super) fn plain_rule(rule: &str) -> String {
    let words = shlex::split(rule).unwrap_or_else(|| rule.split_whitespace().map(str::to_string).collect());
    let plain = |word: String| match word.split_once('=') {
        Some((key, value)) if value.contains(char::is_whitespace) => format!("{key}=\"{value}\""),
        _ => word,
    };
    words.into_iter().map(plain).collect::<Vec<_>>().join(" ")
}

/// That it does not run is told apart from all that can go wrong.
pub(super) fn failure(exit: &Exit, what: &str) -> Fault {
    match exit.code {
        Some(NOT_RUNNING) => Fault::new(FaultKind::NotFound, "firewalld does not run")
            .hint("a `service.running` state for `firewalld` starts it"),
        _ => exit.failure(what),
    }
}

/// Takes away and adds what differs, of one sort: one call for each of the two.
pub(super) async fn change<S>(
    place: &str,
    noun: &str,
    old: &BTreeSet<String>,
    new: &BTreeSet<String>,
    cx: &Write<'_, S>,
) -> Result<(), Fault> {
    for (verb, items) in [("remove", old.difference(new)), ("add", new.difference(old))] {
        let words: Vec<String> = items.map(|item| format!("--{verb}-{noun}={item}")).collect();
        if !words.is_empty() {
            let head = ["firewall-cmd", "--permanent", place];
            let all: Vec<&str> = head.into_iter().chain(words.iter().map(String::as_str)).collect();
            cx.run(&all).await?;
        }
    }
    Ok(())
}

/// Whether everything in it was there before, or is to be there.
pub(super) fn between(own: &BTreeSet<String>, old: &BTreeSet<String>, new: &BTreeSet<String>) -> bool {
    own.iter().all(|item| old.contains(item) || new.contains(item))
}

/// The lines of `--list-all`: a name and words, or a name and a line for each.
pub(super) fn parse(text: &str) -> ZoneState {
    let mut zone = ZoneState { exists: true, ..ZoneState::default() };
    let mut name = String::new();
    for line in text.lines().skip(1) {
        if let Some(item) = line.strip_prefix('\t') {
            match name.as_str() {
                "rich rules" => drop(zone.rich_rules.insert(plain_rule(item))),
                "forward-ports" => drop(zone.forward_ports.insert(item.trim().to_string())),
                _ => {}
            }
            continue;
        }
        let Some((key, words)) = line.split_once(':') else { continue };
        name = key.trim().to_string();
        let words = || words.split_whitespace().map(str::to_string).collect::<BTreeSet<_>>();
        match name.as_str() {
            "masquerade" => zone.masquerade = words().contains("yes"),
            "services" => zone.services = words(),
            "ports" => zone.ports = words(),
            "icmp-blocks" => zone.icmp_blocks = words(),
            "interfaces" => zone.interfaces = words(),
            "sources" => zone.sources = words(),
            // Newer ones have the first of them on this line.
            "forward-ports" => zone.forward_ports = words(),
            _ => {}
        }
    }
    zone
}

impl State for ZoneState {
    type Key = String;
    type How = ();

    fn item(zone: &String) -> ManagedItem {
        ManagedItem::Named("firewalld zone", zone.clone())
    }

    async fn current(zone: &String, cx: &Read<'_>) -> Result<ZoneState, Fault> {
        let exit = cx.ask(FIREWALLD_ZONE, &[&format!("--zone={zone}")]).await?;
        let mut state = match exit.code {
            Some(0) => parse(&exit.stdout.text),
            Some(INVALID_ZONE) => ZoneState::default(),
            _ => return Err(failure(&exit, &format!("`firewall-cmd --zone={zone} --list-all`"))),
        };
        let exit = cx.ask(FIREWALLD_DEFAULT, &[]).await?;
        if exit.code != Some(0) {
            return Err(failure(&exit, "`firewall-cmd --get-default-zone`"));
        }
        state.default_zone = exit.stdout.text.trim().to_string();
        Ok(state)
    }

    async fn enforce(step: &Step<'_, ZoneState>, cx: &Write<'_, ZoneState>) -> Result<(), Fault> {
        let Step { key: zone, from, to, .. } = step;
        let tell = async |words: &[&str]| cx.run(&[&["firewall-cmd"], words].concat()).await.map(drop);
        let named = format!("--zone={zone}");
        if to.exists && !from.exists {
            tell(&["--permanent", &format!("--new-zone={zone}")]).await?;
        }
        if to.exists {
            for (noun, old, new) in [
                ("service", &from.services, &to.services),
                ("port", &from.ports, &to.ports),
                ("forward-port", &from.forward_ports, &to.forward_ports),
                ("icmp-block", &from.icmp_blocks, &to.icmp_blocks),
                ("interface", &from.interfaces, &to.interfaces),
                ("source", &from.sources, &to.sources),
                ("rich-rule", &from.rich_rules, &to.rich_rules),
            ] {
                change(&named, noun, old, new, cx).await?;
            }
            if from.masquerade != to.masquerade {
                let verb = if to.masquerade { "--add-masquerade" } else { "--remove-masquerade" };
                tell(&["--permanent", &named, verb]).await?;
            }
        }
        // The default zone has to be loaded before it is one, and is none any more before it goes.
        let default = format!("--set-default-zone={}", to.default_zone);
        let other_default = from.default_zone != to.default_zone;
        if !to.exists && from.exists {
            if other_default {
                tell(&[&default]).await?;
            }
            tell(&["--permanent", &format!("--delete-zone={zone}")]).await?;
            return tell(&["--reload"]).await;
        }
        tell(&["--reload"]).await?;
        if other_default { tell(&[&default]).await } else { Ok(()) }
    }

    /// Everything comes one at a time.
    fn is_between(&self, before: &ZoneState, after: &ZoneState) -> bool {
        between(&self.services, &before.services, &after.services)
            && between(&self.ports, &before.ports, &after.ports)
            && between(&self.forward_ports, &before.forward_ports, &after.forward_ports)
            && between(&self.icmp_blocks, &before.icmp_blocks, &after.icmp_blocks)
            && between(&self.interfaces, &before.interfaces, &after.interfaces)
            && between(&self.sources, &before.sources, &after.sources)
            && between(&self.rich_rules, &before.rich_rules, &after.rich_rules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `firewall-cmd --permanent --zone=web --list-all` 1.3.3 printed.
    const LISTED: &str = "web (active)\n  target: DROP\n  icmp-block-inversion: no\n  interfaces: dummy0\n  sources: 10.1.0.0/16\n  \
        services: http ssh\n  ports: 8080/tcp\n  protocols: icmp\n  forward: no\n  masquerade: yes\n  forward-ports: \n\t\
        port=80:proto=tcp:toport=8080:toaddr=10.0.0.5\n  source-ports: 1000-2000/udp\n  icmp-blocks: echo-reply\n  rich rules: \n\t\
        rule family=\"ipv4\" source address=\"10.0.0.0/8\" accept\n\trule service name=\"http\" log prefix=\"web in\" level=\"info\" accept\n";

    #[test]
    fn a_zone_is_read_as_it_is_listed() {
        let zone = parse(LISTED);
        let only = |items: &BTreeSet<String>| items.iter().cloned().collect::<Vec<_>>().join(" | ");
        assert!(zone.exists && zone.masquerade);
        assert_eq!(only(&zone.services), "http | ssh");
        assert_eq!(only(&zone.ports), "8080/tcp");
        assert_eq!((only(&zone.interfaces), only(&zone.sources)), ("dummy0".into(), "10.1.0.0/16".into()));
        assert_eq!(only(&zone.forward_ports), "port=80:proto=tcp:toport=8080:toaddr=10.0.0.5");
        assert_eq!(only(&zone.icmp_blocks), "echo-reply");
        assert_eq!(
            only(&zone.rich_rules),
            "rule family=ipv4 source address=10.0.0.0/8 accept | rule service name=http log prefix=\"web in\" level=info accept"
        );
    }
}
