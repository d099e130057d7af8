//! A small `nft` for tests: its tables lie in a file on the machine in memory.

use crate::laws::{furnish, put_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, exit};
use zester_host::{Exit, HostRead, Launch, Program};

pub(crate) const BOOKS: &str = "/books";
pub(crate) const FILE: &str = "/books/nft";

#[derive(Clone, Default, Serialize, Deserialize)]
struct Chain {
    base: Option<String>,
    rules: Vec<String>,
}

type Tables = BTreeMap<String, BTreeMap<String, Chain>>;

fn tables(host: &Arc<Overlay>) -> Tables {
    serde_json::from_slice(&host.read(Path::new(FILE), 1 << 20).unwrap()).unwrap()
}

fn put(host: &Arc<Overlay>, tables: &Tables) {
    put_text(host, FILE, &serde_json::to_string(tables).unwrap());
}

/// The handle of a rule is its number.
fn listed(name: &str, chains: &BTreeMap<String, Chain>) -> String {
    let mut text = format!("table {name} {{ # handle 1\n");
    let mut between = "";
    for (chain, Chain { base, rules }) in chains {
        text.push_str(&format!("{between}\tchain {chain} {{ # handle 2\n"));
        text.extend(base.iter().map(|base| format!("\t\t{base}\n")));
        text.extend(rules.iter().enumerate().map(|(at, rule)| format!("\t\t{rule} # handle {}\n", at + 1)));
        text.push_str("\t}\n");
        between = "\n";
    }
    text + "}\n"
}

/// One order; false where it means nothing that is there.
fn obey(tables: &mut Tables, order: &str) -> bool {
    let words: Vec<&str> = order.split(' ').collect();
    let [verb, noun, family, table, rest @ ..] = words.as_slice() else { return false };
    let name = format!("{family} {table}");
    if *noun == "table" {
        return *verb == "delete" && tables.remove(&name).is_some();
    }
    let (Some(chains), [chain, rest @ ..]) = (tables.get_mut(&name), rest) else { return false };
    if (*verb, *noun) == ("add", "chain") {
        let own = chains.entry(chain.to_string()).or_default();
        let said = rest.join(" ").trim_matches(['{', '}', ' ']).to_string();
        match said.strip_prefix("policy ") {
            Some(policy) => {
                let hook = own.base.clone().unwrap_or_default();
                own.base = Some(format!("{}; policy {policy}", hook.split("; policy").next().unwrap()));
            }
            None if !said.is_empty() => own.base = Some(said),
            None => {}
        }
        return true;
    }
    let Some(own) = chains.get_mut(*chain) else { return false };
    match (*verb, *noun, rest) {
        ("flush", "chain", []) => own.rules.clear(),
        ("delete", "chain", []) => drop(chains.remove(*chain)),
        ("delete", "rule", ["handle", number]) => {
            drop(own.rules.remove(number.parse::<usize>().unwrap() - 1))
        }
        ("insert", "rule", ["index", at, rule @ ..]) => own.rules.insert(at.parse().unwrap(), rule.join(" ")),
        ("add", "rule", rule) => own.rules.push(rule.join(" ")),
        _ => return false,
    }
    true
}

/// Tables of a script, as they are listed.
fn load(tables: &mut Tables, text: &str) {
    for table in text.split("table ").filter(|table| table.contains('{')) {
        let name = table.split(" {").next().unwrap().to_string();
        let chains = super::listing::chains(&with_handles(table)).into_iter().map(|(chain, listed)| {
            let base = listed.base.map(|hook| format!("{hook}; policy {};", listed.policy.unwrap()));
            (chain, Chain { base, rules: listed.rules.into_iter().map(|rule| rule.text).collect() })
        });
        tables.insert(name, chains.collect());
    }
}

fn with_handles(text: &str) -> String {
    let line = |line: &str| match line.trim().starts_with("type ") || line.trim().ends_with(['{', '}']) {
        true => format!("{line}\n"),
        false => format!("{line} # handle 1\n"),
    };
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

fn answer(host: &Arc<Overlay>, launch: &Launch) -> Option<Exit> {
    let Program::Argv(words) = &launch.program else { return None };
    let words: Vec<&str> = words.iter().map(String::as_str).filter(|word| !word.starts_with("--")).collect();
    let mut now = tables(host);
    let failed = |why: &str| Some(exit(1, "", &format!("Error: {why}\n")));
    match words.as_slice() {
        ["nft", "list", "ruleset"] => {
            Some(exit(0, &now.iter().map(|(name, chains)| listed(name, chains)).collect::<String>(), ""))
        }
        ["nft", "list", "table", family, table] => {
            let name = format!("{family} {table}");
            match now.get(&name) {
                Some(chains) => Some(exit(0, &listed(&name, chains), "")),
                None => failed("No such file or directory"),
            }
        }
        ["nft", "-f", "-"] => {
            let text = String::from_utf8(launch.stdin.clone()?).unwrap();
            let starts = text.match_indices("table ").map(|(at, _)| at);
            let tables = starts.into_iter().find(|at| *at == 0 || text[..*at].ends_with('\n'));
            let (orders, tables) = text.split_at(tables.unwrap_or(text.len()));
            if !orders.lines().all(|order| obey(&mut now, order)) {
                return failed("No such file or directory");
            }
            load(&mut now, tables);
            put(host, &now);
            Some(exit(0, "", ""))
        }
        ["nft", order @ ..] => {
            let order = order.join(" ");
            if !obey(&mut now, &order) {
                return failed("No such file or directory");
            }
            put(host, &now);
            // It tells the rule, and not where it was put.
            let words: Vec<&str> = order.split(' ').collect();
            let place = if words.get(5) == Some(&"index") { 7 } else { 5 };
            let told = [&words[..words.len().min(5)], words.get(place..).unwrap_or_default()].concat();
            Some(exit(0, &format!("{} # handle 1\n", told.join(" ")), ""))
        }
        _ => None,
    }
}

/// A machine with the table `ip filter`, two rules in `input` and one in the chain `web`.
pub(crate) fn fake_nft(host: &Arc<Overlay>) -> Arc<Scripted> {
    furnish(host, "d /books 0755");
    let chain = |base: Option<&str>, rules: &[&str]| Chain {
        base: base.map(str::to_string),
        rules: rules.iter().map(ToString::to_string).collect(),
    };
    let chains = BTreeMap::from([
        (
            "input".to_string(),
            chain(
                Some("type filter hook input priority 0; policy accept;"),
                &["tcp dport 22 accept", "ip saddr 10.0.0.0/8 drop"],
            ),
        ),
        ("web".to_string(), chain(None, &["return"])),
    ]);
    put(host, &BTreeMap::from([("ip filter".to_string(), chains)]));
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| answer(&host.upgrade()?, launch).map(Ok)))
}
