//! A small `iptables` for tests: one table, whose saved text lies in a file on the machine in memory.

use crate::laws::{furnish, put_text};
use std::path::Path;
use std::sync::Arc;
use zester_host::overlay::Overlay;
use zester_host::process::fake::{Scripted, exit};
use zester_host::{Exit, HostRead, Launch, Program};

pub(crate) const RULES: &str = "/books";
pub(crate) const FILE: &str = "/books/iptables";

/// Chains first, then the rules of each, in the order of the chains: as it is saved.
fn put(host: &Arc<Overlay>, lines: &[String]) {
    let chains: Vec<String> = lines
        .iter()
        .filter_map(|line| Some(line.strip_prefix(':')?.split(' ').next()?.to_string()))
        .collect();
    let place = |line: &String| match line.strip_prefix("-A ").and_then(|rule| rule.split(' ').next()) {
        Some(chain) => chains.iter().position(|own| own == chain).unwrap_or_default() + 1,
        None if line == "COMMIT" => usize::MAX,
        None => 0,
    };
    let mut lines = lines.to_vec();
    lines.sort_by_key(place);
    put_text(host, FILE, &(lines.join("\n") + "\n"));
}

fn answer(host: &Arc<Overlay>, launch: &Launch) -> Option<Exit> {
    let Program::Argv(words) = &launch.program else { return None };
    let saved = String::from_utf8(host.read(Path::new(FILE), 1 << 20).unwrap()).unwrap();
    if words[0] == "iptables-save" {
        return Some(exit(0, &saved, ""));
    }
    let mut lines: Vec<String> = saved.lines().map(str::to_string).collect();
    if words[..3] == ["iptables", "--wait", "--check"] {
        let rule = words[3..words.len() - 2].join(" ");
        let there = lines.contains(&format!("-A {rule}"));
        return Some(match there {
            true => exit(0, "", ""),
            false => exit(1, "", "iptables: Bad rule (does a matching rule exist in that chain?).\n"),
        });
    }
    if words[..4] != ["iptables", "--wait", "-t", "filter"] {
        return None;
    }
    let (order, chain, rest) = (words[4].as_str(), words[5].as_str(), &words[6..]);
    let end = lines.len() - 1;
    let is_rule = |line: &String| line.starts_with(&format!("-A {chain} "));
    let Some(head) = lines.iter().position(|line| line.starts_with(&format!(":{chain} "))) else {
        if order == "-N" {
            let at = lines.iter().position(|line| line.starts_with("-A ")).unwrap_or(end);
            lines.insert(at, format!(":{chain} - [0:0]"));
            put(host, &lines);
            return Some(exit(0, "", ""));
        }
        return Some(exit(1, "", "iptables: No chain/target/match by that name.\n"));
    };
    match order {
        "-A" => {
            let last = lines.iter().rposition(is_rule).map_or(end, |last| last + 1);
            lines.insert(last, format!("-A {chain} {}", rest.join(" ")));
        }
        "-I" => {
            let number: usize = rest[0].parse().unwrap();
            let first = lines.iter().position(is_rule).unwrap_or(end);
            lines.insert(first + number - 1, format!("-A {chain} {}", rest[1..].join(" ")));
        }
        "-D" => {
            let at = lines.iter().position(|line| *line == format!("-A {chain} {}", rest.join(" ")))?;
            lines.remove(at);
        }
        "-F" => lines.retain(|line| !is_rule(line)),
        "-X" => drop(lines.remove(head)),
        "-P" => lines[head] = format!(":{chain} {} [0:0]", rest[0]),
        _ => return None,
    }
    put(host, &lines);
    Some(exit(0, "", ""))
}

/// A machine with two rules in `INPUT` and one in the chain `web`.
pub(crate) fn fake_iptables(host: &Arc<Overlay>) -> Arc<Scripted> {
    furnish(host, "d /books 0755");
    let saved = "*filter\n:INPUT ACCEPT [0:0]\n:OUTPUT ACCEPT [0:0]\n:web - [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\n\
        -A INPUT -s 10.0.0.0/8 -j DROP\n-A web -j RETURN\nCOMMIT\n";
    put_text(host, FILE, saved);
    let host = Arc::downgrade(host);
    Arc::new(Scripted::new().with(move |launch| answer(&host.upgrade()?, launch).map(Ok)))
}
