//! `iptables.chain_present`, `iptables.chain_absent`, `iptables.set_policy`, `iptables.flush`: chains of the packet filter.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::netfilter::rule_params::odd_name;
use crate::netfilter::{Chain, ChainState, Family, Save};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::State;
use std::path::Path;
use zester_host::{Fault, FaultKind};

fn claims_of(chain: &Chain, claim: impl FnOnce(ManagedItem) -> Claim) -> Claims {
    Claims::of(claim(ChainState::item(chain))).edits(&Path::new("/proc/net").join(&chain.table))
}

fn missing(chain: &Chain) -> Fault {
    let message = format!("there is no chain `{}` in the table `{}`", chain.chain, chain.table);
    Fault::new(FaultKind::NotFound, message).hint("an `iptables.chain_present` state makes it")
}

fn odd(parameter: &'static str, words: [&String; 2]) -> Vec<Invalid> {
    let odd = ["table", parameter].into_iter().zip(words).filter(|(_, word)| odd_name(word));
    odd.map(|(parameter, word)| Invalid::new(parameter, format!("`{word}` is no name there"))).collect()
}

/// A chain that is there.
#[params(kind = "iptables.chain_present", primary = "name", manual = "iptables_chain_present.md")]
pub struct Present {
    /// The chain.
    name: String,
    /// The table.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ipv4` or `ipv6`.
    #[param(default)]
    family: Family,
}

impl Resource for Present {
    type State = ChainState;

    fn key(&self) -> Chain {
        Chain { family: self.family, table: self.table.clone(), chain: self.name.clone(), save: None }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        Ok(match now {
            ChainState::Absent => Want::Be(ChainState::Present { policy: "-".into(), rules: Vec::new() }),
            ChainState::Present { .. } => Want::Same,
        })
    }

    fn validate(&self) -> Vec<Invalid> {
        odd("name", [&self.table, &self.name])
    }

    fn claims(&self) -> Claims {
        claims_of(&self.key(), |item| Claim::new(item, "present"))
    }
}

/// A chain that is not there.
#[params(kind = "iptables.chain_absent", primary = "name", manual = "iptables_chain_absent.md")]
pub struct Absent {
    /// The chain.
    name: String,
    /// The table.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ipv4` or `ipv6`.
    #[param(default)]
    family: Family,
}

impl Resource for Absent {
    type State = ChainState;

    fn key(&self) -> Chain {
        Chain { family: self.family, table: self.table.clone(), chain: self.name.clone(), save: None }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        match now {
            ChainState::Present { policy, .. } if policy != "-" => {
                let message = format!("`{}` is built in, and stays", self.name);
                Err(Fault::new(FaultKind::Unsupported, message).hint("`iptables.flush` empties it"))
            }
            _ => Ok(Want::Be(ChainState::Absent)),
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        odd("name", [&self.table, &self.name])
    }

    fn claims(&self) -> Claims {
        claims_of(&self.key(), |item| Claim::new(item, "absent"))
    }
}

/// What becomes of packets that no rule of a chain matches.
#[params(kind = "iptables.set_policy", primary = "name", manual = "iptables_set_policy.md")]
pub struct Policy {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// The table.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ipv4` or `ipv6`.
    #[param(default)]
    family: Family,
    /// The chain, one that is built in.
    chain: String,
    /// `ACCEPT` or `DROP`.
    policy: String,
    /// `true` saves all rules for the next start where Debian has them, a path saves them there.
    save: Option<Save>,
}

impl Resource for Policy {
    type State = ChainState;

    fn key(&self) -> Chain {
        let save = Save::path(self.save.as_ref(), self.family);
        Chain { family: self.family, table: self.table.clone(), chain: self.chain.clone(), save }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        match now {
            ChainState::Absent => Err(missing(&self.key())),
            ChainState::Present { policy, .. } if policy == "-" => {
                let message = format!("`{}` is no chain that has a policy", self.chain);
                Err(Fault::new(FaultKind::Unsupported, message)
                    .hint("only chains that are built in have one"))
            }
            ChainState::Present { rules, .. } => {
                Ok(Want::Be(ChainState::Present { policy: self.policy.clone(), rules: rules.clone() }))
            }
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = odd("chain", [&self.table, &self.chain]);
        if self.policy != "ACCEPT" && self.policy != "DROP" {
            invalid.push(Invalid::new("policy", format!("`{}` is neither ACCEPT nor DROP", self.policy)));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        claims_of(&self.key(), |item| Claim::about(item).with("policy", Some(&self.policy)))
    }
}

/// A chain without rules.
#[params(kind = "iptables.flush", primary = "name", manual = "iptables_flush.md")]
pub struct Flush {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// The table.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ipv4` or `ipv6`.
    #[param(default)]
    family: Family,
    /// The chain.
    chain: String,
}

impl Resource for Flush {
    type State = ChainState;

    fn key(&self) -> Chain {
        Chain { family: self.family, table: self.table.clone(), chain: self.chain.clone(), save: None }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        match now {
            ChainState::Absent => Err(missing(&self.key())),
            ChainState::Present { policy, .. } => {
                Ok(Want::Be(ChainState::Present { policy: policy.clone(), rules: Vec::new() }))
            }
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        odd("chain", [&self.table, &self.chain])
    }

    fn claims(&self) -> Claims {
        claims_of(&self.key(), |item| Claim::about(item).with("flushed", Some(true)))
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::netfilter::fake_iptables::{RULES, fake_iptables};
    use serde_json::json;
    let case = |kind, params, promise| {
        Case::new(kind, params, promise, |host| fake_iptables(host)).with_books(&[RULES])
    };
    vec![
        case("iptables.chain_present", json!({ "name": "web" }), Promise::Clean),
        case("iptables.chain_present", json!({ "name": "new" }), Promise::Converges),
        case("iptables.chain_absent", json!({ "name": "web" }), Promise::Converges),
        case("iptables.chain_absent", json!({ "name": "new" }), Promise::Clean),
        case("iptables.chain_absent", json!({ "name": "INPUT" }), Promise::Fails),
        case("iptables.set_policy", json!({ "chain": "INPUT", "policy": "DROP" }), Promise::Converges),
        case("iptables.set_policy", json!({ "chain": "INPUT", "policy": "ACCEPT" }), Promise::Clean),
        case("iptables.set_policy", json!({ "chain": "web", "policy": "DROP" }), Promise::Fails),
        case("iptables.flush", json!({ "chain": "INPUT" }), Promise::Converges),
        case("iptables.flush", json!({ "chain": "OUTPUT" }), Promise::Clean),
        case("iptables.flush", json!({ "chain": "none" }), Promise::Fails),
    ]
}
