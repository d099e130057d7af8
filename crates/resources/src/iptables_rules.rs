//! `iptables.append`, `iptables.insert`, `iptables.delete`: a rule of the packet filter.

use crate::claims::{Claim, Claims};
use crate::context::Checking;
use crate::netfilter::rule_params::{self, RuleParts, denied, rule_params};
use crate::netfilter::{Chain, Family, RuleKey, RuleState, Save};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::State;
use std::path::Path;
use zester_host::Fault;

/// All three kinds take the words of one rule.
macro_rules! rule_kind {
    ($type:ident, $kind:literal, $manual:literal, $doc:literal, $is:literal, $desired:expr) => {
        rule_params!($type, $kind, $manual, $doc, Family, "`ipv4` or `ipv6`.");

        impl Resource for $type {
            type State = RuleState;

            fn key(&self) -> RuleKey {
                let save = Save::path(self.save.as_ref(), self.family);
                let (table, chain) = (self.table.clone(), self.chain.clone());
                RuleKey {
                    chain: Chain { family: self.family, table, chain, save },
                    rule: words_of(self.parts(), self.family),
                }
            }

            async fn desired(&self, now: &RuleState, _: &Checking<'_>) -> Result<Want<RuleState>, Fault> {
                let desired: fn(&$type, &RuleState) -> Want<RuleState> = $desired;
                Ok(desired(self, now))
            }

            fn validate(&self) -> Vec<Invalid> {
                let key = self.key();
                rule_params::invalid(&self.table, &self.chain, self.position, key.rule.is_empty())
            }

            fn claims(&self) -> Claims {
                // Rules of one table come as declared: their order counts.
                let table = Path::new("/proc/net").join(self.key().chain.table);
                Claims::of(Claim::new(RuleState::item(&self.key()), $is)).edits(&table)
            }
        }
    };
}

/// The words of `iptables` for a rule.
fn words_of(rule: RuleParts<'_>, family: Family) -> Vec<String> {
    let mut words = Vec::new();
    option(&mut words, "-p", rule.proto);
    option(&mut words, "-s", rule.source);
    option(&mut words, "-d", rule.destination);
    option(&mut words, "-i", rule.in_interface);
    option(&mut words, "-o", rule.out_interface);
    let own = ["state", "conntrack", "multiport", "comment", "limit"];
    for module in rule.modules.iter().filter(|module| !own.contains(&module.as_str())) {
        option(&mut words, "-m", Some(module));
    }
    module(&mut words, "state", "--state", rule.connstate);
    module(&mut words, "conntrack", "--ctstate", rule.ctstate);
    option(&mut words, "--sport", rule.sport);
    option(&mut words, "--dport", rule.dport);
    module(&mut words, "multiport", "--sports", joined(rule.sports).as_deref());
    module(&mut words, "multiport", "--dports", joined(rule.dports).as_deref());
    let icmp = match family {
        Family::Ipv4 => "--icmp-type",
        Family::Ipv6 => "--icmpv6-type",
    };
    option(&mut words, icmp, rule.icmp_type);
    module(&mut words, "limit", "--limit", rule.limit);
    module(&mut words, "comment", "--comment", rule.comment);
    words.extend(rule.arguments.iter().cloned());
    option(&mut words, "-j", rule.jump);
    option(&mut words, "--log-prefix", rule.log_prefix);
    option(&mut words, "--reject-with", rule.reject_with);
    option(&mut words, "--to-destination", rule.to_destination);
    option(&mut words, "--to-source", rule.to_source);
    option(&mut words, "--to-ports", rule.to_ports);
    words
}

fn joined(ports: &[String]) -> Option<String> {
    (!ports.is_empty()).then(|| ports.join(","))
}

/// An option with its value, or with its contrary.
fn option(words: &mut Vec<String>, name: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    let (denied, value) = denied(value);
    if denied {
        words.push("!".to_string());
    }
    words.extend([name.to_string(), value.to_string()]);
}

/// An option of a module.
fn module(words: &mut Vec<String>, module: &str, name: &str, value: Option<&str>) {
    if value.is_some() {
        words.extend(["-m".to_string(), module.to_string()]);
        option(words, name, value);
    }
}

rule_kind!(
    Append,
    "iptables.append",
    "iptables_append.md",
    "A rule at the end of its chain.",
    "present",
    |_, now| match now {
        RuleState::Absent => Want::Be(RuleState::Present { position: None }),
        RuleState::Present { .. } => Want::Same,
    }
);
rule_kind!(
    Insert,
    "iptables.insert",
    "iptables_insert.md",
    "A rule at a place in its chain.",
    "present",
    |rule, now| match now {
        RuleState::Absent => Want::Be(RuleState::Present { position: Some(rule.position.unwrap_or(1)) }),
        RuleState::Present { .. } => Want::Same,
    }
);
rule_kind!(
    Delete,
    "iptables.delete",
    "iptables_delete.md",
    "A rule that is not in its chain.",
    "absent",
    |_, _| Want::Be(RuleState::Absent)
);

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::netfilter::fake_iptables::{FILE, RULES, fake_iptables};
    use serde_json::json;
    /// As they are saved.
    const SSH: &str = "-A INPUT -p tcp --dport 22 -j ACCEPT";
    const NET: &str = "-A INPUT -s 10.0.0.0/8 -j DROP";
    const WEB: &str = "-A INPUT -p tcp -m multiport --dports 80,443 -m comment --comment pages -j web";
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, |host| fake_iptables(host)).with_books(&[RULES])
    };
    let ssh = json!({ "chain": "INPUT", "proto": "tcp", "dport": 22, "jump": "ACCEPT" });
    let web =
        json!({ "chain": "INPUT", "proto": "tcp", "dports": [80, 443], "jump": "web", "comment": "pages" });
    vec![
        case("iptables.append", ssh.clone(), Promise::Clean),
        case("iptables.append", web.clone(), Promise::Converges)
            .leaving(FILE, &format!("{SSH}\n{NET}\n{WEB}\n-A web")),
        case("iptables.append", json!({ "chain": "none", "jump": "DROP" }), Promise::Fails),
        case("iptables.insert", ssh.clone(), Promise::Clean),
        case("iptables.insert", web.clone(), Promise::Converges)
            .leaving(FILE, &format!("{WEB}\n{SSH}\n{NET}\n-A web")),
        case(
            "iptables.insert",
            json!({ "chain": "INPUT", "position": 2, "source": "! 10.0.0.1", "jump": "DROP" }),
            Promise::Converges,
        )
        .leaving(FILE, &format!("{SSH}\n-A INPUT ! -s 10.0.0.1 -j DROP\n{NET}\n-A web")),
        case("iptables.delete", ssh, Promise::Converges),
        case("iptables.delete", web, Promise::Clean),
    ]
}
