//! `iptables.append`, `iptables.insert`, `iptables.delete`: a rule of the packet filter.

use crate::claims::{Claim, Claims};
use crate::context::Checking;
use crate::netfilter::{Chain, Family, RuleKey, RuleState, Save};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::State;
use std::path::Path;
use zester_host::Fault;

/// What stands before a value that is not to match.
const NOT: [&str; 2] = ["!", "not "];

/// All three kinds take the words of one rule.
macro_rules! rule_kind {
    ($type:ident, $kind:literal, $manual:literal, $doc:literal, $is:literal, $desired:expr) => {
        #[doc = $doc]
        #[params(kind = $kind, primary = "name", manual = $manual)]
        pub struct $type {
            /// What the state is called; means nothing.
            #[param(default)]
            #[allow(dead_code, reason = "accepted because every state has a name")]
            name: String,
            /// The table.
            #[param(default = "filter".to_string())]
            table: String,
            /// The chain.
            chain: String,
            /// `ipv4` or `ipv6`.
            #[param(default)]
            family: Family,
            /// The number that it gets in its chain.
            position: Option<usize>,
            /// Where a packet goes that it matches: `ACCEPT`, `DROP`, a chain.
            jump: Option<String>,
            /// The protocol.
            #[param(alias = "protocol")]
            proto: Option<String>,
            /// Where a packet comes from. `!` before it: anywhere else.
            source: Option<String>,
            /// Where it goes to.
            destination: Option<String>,
            /// The interface that it came in by.
            #[param(alias = "in-interface", alias = "if")]
            in_interface: Option<String>,
            /// The interface that it goes out by.
            #[param(alias = "out-interface", alias = "of")]
            out_interface: Option<String>,
            /// Modules that match.
            #[param(list, default)]
            r#match: Vec<String>,
            /// The state of its connection: `NEW,ESTABLISHED`.
            connstate: Option<String>,
            /// The same, by the module `conntrack`.
            ctstate: Option<String>,
            /// The port that it goes to.
            #[param(alias = "destination-port")]
            dport: Option<String>,
            /// The port that it comes from.
            #[param(alias = "source-port")]
            sport: Option<String>,
            /// Ports that it may go to.
            #[param(list, default)]
            dports: Vec<String>,
            /// Ports that it may come from.
            #[param(list, default)]
            sports: Vec<String>,
            /// The sort of ICMP message.
            #[param(alias = "icmp-type")]
            icmp_type: Option<String>,
            /// What is written beside it.
            comment: Option<String>,
            /// How often it matches at most: `5/min`.
            limit: Option<String>,
            /// What a log line begins with.
            #[param(alias = "log-prefix")]
            log_prefix: Option<String>,
            /// How whoever is refused is told.
            #[param(alias = "reject-with")]
            reject_with: Option<String>,
            /// Where `DNAT` leads to.
            #[param(alias = "to-destination")]
            to_destination: Option<String>,
            /// What `SNAT` puts in place of the source.
            #[param(alias = "to-source")]
            to_source: Option<String>,
            /// The port that `REDIRECT` leads to.
            #[param(alias = "to-port", alias = "to-ports")]
            to_ports: Option<String>,
            /// Any other words, as `iptables` takes them.
            #[param(list, default)]
            arguments: Vec<String>,
            /// `true` saves all rules for the next start where Debian has them, a path saves them there.
            save: Option<Save>,
        }

        impl $type {
            fn rule(&self) -> Vec<String> {
                let mut words = Vec::new();
                option(&mut words, "-p", self.proto.as_deref());
                option(&mut words, "-s", self.source.as_deref());
                option(&mut words, "-d", self.destination.as_deref());
                option(&mut words, "-i", self.in_interface.as_deref());
                option(&mut words, "-o", self.out_interface.as_deref());
                let own = ["state", "conntrack", "multiport", "comment", "limit"];
                for module in self.r#match.iter().filter(|module| !own.contains(&module.as_str())) {
                    option(&mut words, "-m", Some(module));
                }
                module(&mut words, "state", "--state", self.connstate.as_deref());
                module(&mut words, "conntrack", "--ctstate", self.ctstate.as_deref());
                option(&mut words, "--sport", self.sport.as_deref());
                option(&mut words, "--dport", self.dport.as_deref());
                module(&mut words, "multiport", "--sports", joined(&self.sports).as_deref());
                module(&mut words, "multiport", "--dports", joined(&self.dports).as_deref());
                let icmp = match self.family {
                    Family::Ipv4 => "--icmp-type",
                    Family::Ipv6 => "--icmpv6-type",
                };
                option(&mut words, icmp, self.icmp_type.as_deref());
                module(&mut words, "limit", "--limit", self.limit.as_deref());
                module(&mut words, "comment", "--comment", self.comment.as_deref());
                words.extend(self.arguments.iter().cloned());
                option(&mut words, "-j", self.jump.as_deref());
                option(&mut words, "--log-prefix", self.log_prefix.as_deref());
                option(&mut words, "--reject-with", self.reject_with.as_deref());
                option(&mut words, "--to-destination", self.to_destination.as_deref());
                option(&mut words, "--to-source", self.to_source.as_deref());
                option(&mut words, "--to-ports", self.to_ports.as_deref());
                words
            }
        }

        impl Resource for $type {
            type State = RuleState;

            fn key(&self) -> RuleKey {
                let save = Save::path(self.save.as_ref(), self.family);
                let (table, chain) = (self.table.clone(), self.chain.clone());
                RuleKey { chain: Chain { family: self.family, table, chain, save }, rule: self.rule() }
            }

            async fn desired(&self, now: &RuleState, _: &Checking<'_>) -> Result<Want<RuleState>, Fault> {
                let desired: fn(&$type, &RuleState) -> Want<RuleState> = $desired;
                Ok(desired(self, now))
            }

            fn validate(&self) -> Vec<Invalid> {
                let mut invalid = Vec::new();
                for (parameter, word) in [("table", &self.table), ("chain", &self.chain)] {
                    if odd_name(word) {
                        invalid.push(Invalid::new(parameter, format!("`{word}` is no {parameter}")));
                    }
                }
                if self.rule().is_empty() {
                    invalid.push(Invalid::new("jump", "a rule says where a packet goes"));
                }
                if self.position == Some(0) {
                    invalid.push(Invalid::new("position", "the first rule has the number 1"));
                }
                invalid
            }

            fn claims(&self) -> Claims {
                // Rules of one table come as declared: their order counts.
                let table = Path::new("/proc/net").join(self.key().chain.table);
                Claims::of(Claim::new(RuleState::item(&self.key()), $is)).edits(&table)
            }
        }
    };
}

pub(crate) fn odd_name(name: &str) -> bool {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    name.is_empty() || name.starts_with('-') || name.len() > 28 || !name.chars().all(plain)
}

fn joined(ports: &[String]) -> Option<String> {
    (!ports.is_empty()).then(|| ports.join(","))
}

/// An option with its value, or with its contrary.
fn option(words: &mut Vec<String>, name: &str, value: Option<&str>) {
    let Some(value) = value else { return };
    let denied = NOT.iter().find_map(|not| value.strip_prefix(not));
    if denied.is_some() {
        words.push("!".to_string());
    }
    words.extend([name.to_string(), denied.unwrap_or(value).trim().to_string()]);
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
