//! A small `firewall-cmd` for tests: what it keeps lies in a file on the machine in memory.

use crate::laws::{furnish, put_text};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, exit};
use zester_host::{Exit, HostRead, Launch, Program};

const FILE: &str = "/books/firewalld";

/// Sets of words by their names.
type Sets = BTreeMap<String, BTreeSet<String>>;

#[derive(Default, Serialize, Deserialize)]
struct Kept {
    zones: BTreeMap<String, Sets>,
    services: BTreeMap<String, Sets>,
    default: String,
}

fn listed(name: &str, sets: &Sets) -> String {
    let words = |key: &str| {
        sets.get(key).map(|set| set.iter().cloned().collect::<Vec<_>>().join(" ")).unwrap_or_default()
    };
    let lines =
        |key: &str| sets.get(key).into_iter().flatten().map(|line| format!("\t{line}\n")).collect::<String>();
    let masquerade = if sets.contains_key("masquerade") { "yes" } else { "no" };
    format!(
        "{name}\n  interfaces: {}\n  sources: {}\n  services: {}\n  ports: {}\n  protocols: {}\n  masquerade: {masquerade}\n  \
         forward-ports: \n{}  icmp-blocks: {}\n  rich rules: \n{}",
        words("interface"),
        words("source"),
        words("service"),
        words("port"),
        words("protocol"),
        lines("forward-port"),
        words("icmp-block"),
        lines("rich-rule")
    )
}

fn answer(host: &Arc<Overlay>, launch: &Launch) -> Option<Exit> {
    let Program::Argv(words) = &launch.program else { return None };
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| *word != "--permanent").collect();
    let mut kept: Kept = serde_json::from_slice(&host.read(FILE.as_ref(), 1 << 20).unwrap()).unwrap();
    let value = |word: &str, name: &str| word.strip_prefix(name).map(str::to_string);
    match words[1..] {
        ["--get-default-zone"] => return Some(exit(0, &format!("{}\n", kept.default), "")),
        ["--reload"] => return Some(exit(0, "success\n", "")),
        ["--list-all", zone] => {
            let zone = value(zone, "--zone=")?;
            return Some(match kept.zones.get(&zone) {
                Some(sets) => exit(0, &listed(&zone, sets), ""),
                None => exit(112, "", "Error: INVALID_ZONE\n"),
            });
        }
        ["--info-service", service] => {
            return Some(match kept.services.get(service) {
                Some(sets) => exit(0, &listed(service, sets), ""),
                None => exit(101, "", "Error: INVALID_SERVICE\n"),
            });
        }
        [order] => {
            let (verb, name) = order.split_once('=')?;
            match verb {
                "--new-zone" => drop(kept.zones.insert(name.into(), Sets::new())),
                "--delete-zone" => drop(kept.zones.remove(name)),
                "--new-service" => drop(kept.services.insert(name.into(), Sets::new())),
                "--delete-service" => drop(kept.services.remove(name)),
                "--set-default-zone" => kept.default = name.into(),
                _ => return None,
            }
        }
        [place, ref orders @ ..] => {
            let sets = match value(place, "--zone=") {
                Some(zone) => kept.zones.get_mut(&zone)?,
                None => kept.services.get_mut(&value(place, "--service=")?)?,
            };
            for order in orders {
                let (verb, item) = order.split_once('=').unwrap_or((order, ""));
                if let Some(noun) = verb.strip_prefix("--add-") {
                    sets.entry(noun.into()).or_default().insert(item.into());
                    continue;
                }
                let noun = verb.strip_prefix("--remove-")?;
                let set = sets.get_mut(noun)?;
                set.remove(item);
                if set.is_empty() {
                    sets.remove(noun);
                }
            }
        }
        _ => return None,
    }
    put_text(host, FILE, &serde_json::to_string(&kept).unwrap());
    Some(exit(0, "success\n", ""))
}

/// A machine with the zone `public`, which lets `ssh` in and is the default one.
pub(super) fn fake_firewalld(host: &Arc<Overlay>) -> Arc<Scripted> {
    furnish(host, "d /books 0755");
    let sets = |noun: &str, item: &str| Sets::from([(noun.to_string(), BTreeSet::from([item.to_string()]))]);
    let kept = Kept {
        zones: BTreeMap::from([("public".to_string(), sets("service", "ssh"))]),
        services: BTreeMap::from([("ssh".to_string(), sets("port", "22/tcp"))]),
        default: "public".to_string(),
    };
    put_text(host, FILE, &serde_json::to_string(&kept).unwrap());
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| answer(&host.upgrade()?, launch).map(Ok)))
}
