//! What `nft list table` prints.

use std::collections::BTreeMap;

/// What ends the line of a rule where handles are asked for.
const HANDLE: &str = " # handle ";

/// A rule as it is listed, and the number that names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedRule {
    pub(super) text: String,
    pub(super) handle: u64,
}

/// A chain as it is listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ListedChain {
    /// `type filter hook input priority 0`, of a chain that packets come to by themselves.
    pub(super) base: Option<String>,
    pub(super) policy: Option<String>,
    pub(super) rules: Vec<ListedRule>,
}

/// A line without the handle at its end.
fn split_handle(line: &str) -> (&str, Option<u64>) {
    match line.rsplit_once(HANDLE).map(|(text, handle)| (text, handle.parse())) {
        Some((text, Ok(handle))) => (text, Some(handle)),
        _ => (line, None),
    }
}

pub(super) fn without_handles(text: &str) -> String {
    text.lines().flat_map(|line| [split_handle(line).0, "\n"]).collect()
}

/// The chains of one table. A long rule takes several lines; its handle stands at the end of the last.
pub(super) fn chains(text: &str) -> BTreeMap<String, ListedChain> {
    let mut found = BTreeMap::new();
    let mut inside: Option<(String, ListedChain)> = None;
    let mut rule = String::new();
    for line in text.lines() {
        let (words, handle) = split_handle(line);
        let words = words.trim();
        let Some((_, chain)) = &mut inside else {
            let name = words.strip_prefix("chain ").and_then(|rest| rest.strip_suffix(" {"));
            inside = name.map(|name| (name.to_string(), ListedChain::default()));
            continue;
        };
        match words {
            "}" if rule.is_empty() => found.extend(inside.take()),
            _ if rule.is_empty() && handle.is_none() && words.starts_with("type ") => {
                let mut parts = words.split(';').map(str::trim);
                chain.base = parts.next().map(str::to_string);
                chain.policy = parts.find_map(|part| part.strip_prefix("policy ")).map(str::to_string);
            }
            // A remark about the chain itself.
            _ if rule.is_empty() && handle.is_none() && words.starts_with("comment ") => {}
            _ => {
                if !rule.is_empty() {
                    rule.push(' ');
                }
                rule.push_str(words);
                if let Some(handle) = handle {
                    chain.rules.push(ListedRule { text: std::mem::take(&mut rule), handle });
                }
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `nft --stateless --numeric-priority --handle list table` 1.0.6 printed.
    const LISTED: &str = include_str!("listed.txt");

    #[test]
    fn chains_rules_and_handles_are_read_from_a_listing() {
        let chains = chains(LISTED);
        assert_eq!(chains.keys().collect::<Vec<_>>(), ["input", "web"]);
        let input = &chains["input"];
        assert_eq!(input.base.as_deref(), Some("type filter hook input priority 0"));
        assert_eq!(input.policy.as_deref(), Some("drop"));
        let first = &input.rules[0];
        assert_eq!(first.text, "ip saddr 10.0.0.1 iifname \"eth0\" tcp dport { 80, 443 } counter jump web");
        assert_eq!(input.rules.iter().map(|rule| rule.handle).collect::<Vec<_>>(), [7, 5, 8, 9, 11]);
        assert_eq!(
            input.rules[1].text,
            "tcp dport 22 ct state established,new accept comment \"let # handle 7\""
        );
        assert!(input.rules[4].text.starts_with("ip saddr { 10.0.0.1, 10.0.0.2,"), "{:?}", input.rules[4]);
        assert!(input.rules[4].text.ends_with("10.0.0.30 } accept"), "{:?}", input.rules[4]);
        assert_eq!(chains["web"], ListedChain::default());
        assert!(!without_handles(LISTED).contains("# handle 8"));
    }
}
