//! `nftables.append`, `nftables.insert`, `nftables.delete`: a rule of nftables.

use crate::claims::{Claim, Claims};
use crate::context::Checking;
use crate::netfilter::Save;
use crate::netfilter::rule_params::{self, rule_params};
use crate::nft::rule_text::{self, Extras};
use crate::nft::{Chain, Family, RuleKey, RuleState, Table, save_path};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::State;
use zester_host::Fault;

/// All three kinds take the words of one rule.
macro_rules! rule_kind {
    ($type:ident, $kind:literal, $manual:literal, $doc:literal, $is:literal, $desired:expr) => {
        rule_params!(
            $type, $kind, $manual, $doc, Family, "`ip` (`ipv4`), `ip6` (`ipv6`), `inet`, `arp`, `bridge` or `netdev`.";
            /// Counts the packets that it matches.
            #[param(default)]
            counter: bool,
            /// Tells the log of each packet that it matches.
            #[param(default)]
            log: bool,
        );

        impl $type {
            fn rule(&self) -> Result<String, (&'static str, String)> {
                rule_text::of_parts(self.parts(), self.family, Extras { counter: self.counter, log: self.log })
            }
        }

        impl Resource for $type {
            type State = RuleState;

            fn key(&self) -> RuleKey {
                let table = Table { family: self.family, table: self.table.clone() };
                let chain = Chain { table, chain: self.chain.clone(), save: save_path(self.save.as_ref()) };
                RuleKey { chain, rule: self.rule().unwrap_or_default() }
            }

            async fn desired(&self, now: &RuleState, _: &Checking<'_>) -> Result<Want<RuleState>, Fault> {
                let desired: fn(&$type, &RuleState) -> Result<Want<RuleState>, Fault> = $desired;
                desired(self, now)
            }

            fn validate(&self) -> Vec<Invalid> {
                let rule = self.rule();
                let empty = rule.as_ref().is_ok_and(String::is_empty);
                let mut invalid = rule_params::invalid(&self.table, &self.chain, self.position, empty);
                invalid.extend(rule.err().map(|(parameter, why)| Invalid::new(parameter, why)));
                invalid
            }

            fn claims(&self) -> Claims {
                let key = self.key();
                Claims::of(Claim::new(RuleState::item(&key), $is)).edits(&key.chain.table.place())
            }
        }
    };
}

rule_kind!(
    Append,
    "nftables.append",
    "nftables_append.md",
    "A rule at the end of its chain.",
    "present",
    |kind, now| match now {
        RuleState::NoChain => Err(kind.key().chain.missing()),
        RuleState::Absent => Ok(Want::Be(RuleState::Present { position: None })),
        RuleState::Present { .. } => Ok(Want::Same),
    }
);
rule_kind!(
    Insert,
    "nftables.insert",
    "nftables_insert.md",
    "A rule at a place in its chain.",
    "present",
    |kind, now| match now {
        RuleState::NoChain => Err(kind.key().chain.missing()),
        RuleState::Absent => Ok(Want::Be(RuleState::Present { position: Some(kind.position.unwrap_or(1)) })),
        RuleState::Present { .. } => Ok(Want::Same),
    }
);
rule_kind!(
    Delete,
    "nftables.delete",
    "nftables_delete.md",
    "A rule that is not in its chain.",
    "absent",
    |_, now| match now {
        RuleState::NoChain | RuleState::Absent => Ok(Want::Same),
        RuleState::Present { .. } => Ok(Want::Be(RuleState::Absent)),
    }
);

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::nft::fake_nft::{BOOKS, FILE, fake_nft};
    use serde_json::json;
    let case =
        |kind, params, promise| Case::new(kind, params, promise, |host| fake_nft(host)).with_books(&[BOOKS]);
    let ssh = json!({ "chain": "input", "proto": "tcp", "dport": 22, "jump": "accept" });
    let web =
        json!({ "chain": "input", "proto": "tcp", "dports": [80, 443], "jump": "web", "comment": "pages" });
    let rules = |rules: &[&str]| format!("\"rules\":{}}}", serde_json::to_string(rules).unwrap());
    let (own, first, second) = (
        "tcp dport { 80, 443 } jump web comment \"pages\"",
        "tcp dport 22 accept",
        "ip saddr 10.0.0.0/8 drop",
    );
    vec![
        case("nftables.append", ssh.clone(), Promise::Clean),
        case("nftables.append", web.clone(), Promise::Converges).leaving(FILE, &rules(&[first, second, own])),
        case("nftables.append", json!({ "chain": "none", "jump": "drop" }), Promise::Fails),
        case("nftables.append", json!({ "chain": "input", "table": "none", "jump": "drop" }), Promise::Fails),
        case("nftables.insert", ssh.clone(), Promise::Clean),
        case("nftables.insert", web.clone(), Promise::Converges).leaving(FILE, &rules(&[own, first, second])),
        case(
            "nftables.insert",
            json!({ "chain": "input", "position": 2, "source": "! 10.0.0.1", "counter": true, "jump": "DROP" }),
            Promise::Converges,
        )
        .leaving(FILE, &rules(&[first, "ip saddr != 10.0.0.1 counter drop", second])),
        case("nftables.insert", json!({ "chain": "none", "jump": "drop" }), Promise::Fails),
        case("nftables.delete", ssh, Promise::Converges),
        case("nftables.delete", web, Promise::Clean),
        case("nftables.delete", json!({ "chain": "none", "jump": "drop" }), Promise::Clean),
    ]
}
