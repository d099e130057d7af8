//! `nftables.chain_present`, `chain_absent`, `set_policy`, `flush`, `table_present` and `table_absent`: chains and tables of nftables.

use crate::claims::{Claim, Claims, ManagedItem};
use crate::context::Checking;
use crate::netfilter::Save;
use crate::netfilter::rule_params::odd_name;
use crate::nft::{Base, Chain, ChainState, Family, Table, TableState, save_path};
use crate::params::{Invalid, params};
use crate::resource::{Resource, Want};
use crate::state::State;
use zester_host::{Fault, FaultKind};

/// Priorities that have a name.
const PRIORITIES: [(&str, i32); 6] =
    [("raw", -300), ("mangle", -150), ("dstnat", -100), ("filter", 0), ("security", 50), ("srcnat", 100)];
/// What a chain that packets come to may be for.
const TYPES: [&str; 3] = ["filter", "nat", "route"];
/// Where packets come from to a chain.
const HOOKS: [&str; 7] = ["prerouting", "input", "forward", "output", "postrouting", "ingress", "egress"];

fn claims_of(chain: &Chain, claim: impl FnOnce(ManagedItem) -> Claim) -> Claims {
    Claims::of(claim(ChainState::item(chain))).edits(&chain.table.place())
}

fn odd(words: &[(&'static str, &String)]) -> Vec<Invalid> {
    let odd = words.iter().filter(|(_, word)| odd_name(word));
    odd.map(|(parameter, word)| Invalid::new(parameter, format!("`{word}` is no name there"))).collect()
}

/// A chain that is there.
#[params(kind = "nftables.chain_present", primary = "name", manual = "nftables_chain_present.md")]
pub struct Present {
    /// The chain.
    name: String,
    /// The table, which must be there.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ip` (`ipv4`), `ip6` (`ipv6`), `inet`, `arp`, `bridge` or `netdev`.
    #[param(default)]
    family: Family,
    /// What a chain is for that packets come to by themselves: `filter`, `nat` or `route`. Needs `hook`.
    table_type: Option<String>,
    /// Where packets come to it: `prerouting`, `input`, `forward`, `output`, `postrouting`, `ingress`.
    hook: Option<String>,
    /// Its turn among the chains of that hook: a number, or `raw`, `mangle`, `dstnat`, `filter`, `security`, `srcnat`.
    /// Default: 0.
    priority: Option<String>,
}

impl Present {
    fn priority(&self) -> Option<i32> {
        let Some(word) = self.priority.as_deref() else { return Some(0) };
        let named = PRIORITIES.iter().find(|(name, _)| *name == word).map(|(_, number)| *number);
        named.or_else(|| word.parse().ok())
    }

    fn base(&self) -> Option<Base> {
        let (sort, hook, priority) = (self.table_type.as_ref()?, self.hook.as_ref()?, self.priority()?);
        let hook = format!("type {sort} hook {hook} priority {priority}");
        Some(Base { hook, policy: "accept".to_string() })
    }
}

impl Resource for Present {
    type State = ChainState;

    fn key(&self) -> Chain {
        let table = Table { family: self.family, table: self.table.clone() };
        Chain { table, chain: self.name.clone(), save: None }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        match (now, self.base()) {
            (ChainState::NoTable, _) => Err(self.key().table.missing()),
            (ChainState::Absent, base) => Ok(Want::Be(ChainState::Present { base, rules: Vec::new() })),
            (ChainState::Present { .. }, None) => Ok(Want::Same),
            (ChainState::Present { base: Some(now), .. }, Some(base)) if now.hook == base.hook => {
                Ok(Want::Same)
            }
            (ChainState::Present { base: now, .. }, Some(base)) => {
                let now = now.as_ref().map_or("no hook", |now| now.hook.as_str());
                let message = format!("the chain {} is there with {now}, not {}", self.key(), base.hook);
                Err(Fault::new(FaultKind::InTheWay, message)
                    .hint("a chain keeps its hook: remove it in an `nftables.chain_absent` state first"))
            }
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = odd(&[("table", &self.table), ("name", &self.name)]);
        for (parameter, word, known) in
            [("table_type", &self.table_type, &TYPES[..]), ("hook", &self.hook, &HOOKS[..])]
        {
            if let Some(word) = word.as_ref().filter(|word| !known.contains(&word.as_str())) {
                invalid.push(Invalid::new(parameter, format!("`{word}` is none of {}", known.join(", "))));
            }
        }
        if self.table_type.is_some() != self.hook.is_some() {
            let (has, lacks) =
                if self.hook.is_some() { ("hook", "table_type") } else { ("table_type", "hook") };
            invalid.push(Invalid::new(has, format!("it means nothing without `{lacks}`")));
        }
        match (&self.priority, self.priority()) {
            (Some(word), None) => invalid.push(Invalid::new("priority", format!("`{word}` is no priority"))),
            (Some(_), Some(_)) if self.hook.is_none() => {
                invalid.push(Invalid::new("priority", "it means nothing without `hook`"));
            }
            _ => {}
        }
        invalid
    }

    fn claims(&self) -> Claims {
        claims_of(&self.key(), |item| Claim::new(item, "present"))
    }
}

/// A chain that is not there.
#[params(kind = "nftables.chain_absent", primary = "name", manual = "nftables_chain_absent.md")]
pub struct Absent {
    /// The chain.
    name: String,
    /// The table.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ip` (`ipv4`), `ip6` (`ipv6`), `inet`, `arp`, `bridge` or `netdev`.
    #[param(default)]
    family: Family,
}

impl Resource for Absent {
    type State = ChainState;

    fn key(&self) -> Chain {
        let table = Table { family: self.family, table: self.table.clone() };
        Chain { table, chain: self.name.clone(), save: None }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        Ok(match now {
            ChainState::NoTable => Want::Same,
            _ => Want::Be(ChainState::Absent),
        })
    }

    fn validate(&self) -> Vec<Invalid> {
        odd(&[("table", &self.table), ("name", &self.name)])
    }

    fn claims(&self) -> Claims {
        claims_of(&self.key(), |item| Claim::new(item, "absent"))
    }
}

/// What becomes of packets that no rule of a chain matches.
#[params(kind = "nftables.set_policy", primary = "name", manual = "nftables_set_policy.md")]
pub struct Policy {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// The table.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ip` (`ipv4`), `ip6` (`ipv6`), `inet`, `arp`, `bridge` or `netdev`.
    #[param(default)]
    family: Family,
    /// The chain, one that has a hook.
    chain: String,
    /// `accept` or `drop`.
    policy: String,
    /// `true` saves all tables for the next start in `/etc/nftables.conf`, a path saves them there.
    save: Option<Save>,
}

impl Resource for Policy {
    type State = ChainState;

    fn key(&self) -> Chain {
        let table = Table { family: self.family, table: self.table.clone() };
        Chain { table, chain: self.chain.clone(), save: save_path(self.save.as_ref()) }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        match now {
            ChainState::NoTable | ChainState::Absent => Err(self.key().missing()),
            ChainState::Present { base: None, .. } => {
                let message = format!("the chain {} has no hook, and so no policy", self.key());
                Err(Fault::new(FaultKind::Unsupported, message)
                    .hint("only a chain made with `hook` and `table_type` has one"))
            }
            ChainState::Present { base: Some(base), rules } => {
                let base = Base { policy: self.policy.to_ascii_lowercase(), ..base.clone() };
                Ok(Want::Be(ChainState::Present { base: Some(base), rules: rules.clone() }))
            }
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        let mut invalid = odd(&[("table", &self.table), ("chain", &self.chain)]);
        if !["accept", "drop"].contains(&self.policy.to_ascii_lowercase().as_str()) {
            invalid.push(Invalid::new("policy", format!("`{}` is neither accept nor drop", self.policy)));
        }
        invalid
    }

    fn claims(&self) -> Claims {
        let policy = self.policy.to_ascii_lowercase();
        claims_of(&self.key(), |item| Claim::about(item).with("policy", Some(policy)))
    }
}

/// A chain without rules.
#[params(kind = "nftables.flush", primary = "name", manual = "nftables_flush.md")]
pub struct Flush {
    /// What the state is called; means nothing.
    #[param(default)]
    #[allow(dead_code, reason = "accepted because every state has a name")]
    name: String,
    /// The table.
    #[param(default = "filter".to_string())]
    table: String,
    /// `ip` (`ipv4`), `ip6` (`ipv6`), `inet`, `arp`, `bridge` or `netdev`.
    #[param(default)]
    family: Family,
    /// The chain.
    chain: String,
    /// Where there is no such chain there is nothing to do.
    #[param(default)]
    ignore_absence: bool,
}

impl Resource for Flush {
    type State = ChainState;

    fn key(&self) -> Chain {
        let table = Table { family: self.family, table: self.table.clone() };
        Chain { table, chain: self.chain.clone(), save: None }
    }

    async fn desired(&self, now: &ChainState, _: &Checking<'_>) -> Result<Want<ChainState>, Fault> {
        match now {
            ChainState::NoTable | ChainState::Absent if self.ignore_absence => Ok(Want::Same),
            ChainState::NoTable | ChainState::Absent => Err(self.key().missing()),
            ChainState::Present { base, .. } => {
                Ok(Want::Be(ChainState::Present { base: base.clone(), rules: Vec::new() }))
            }
        }
    }

    fn validate(&self) -> Vec<Invalid> {
        odd(&[("table", &self.table), ("chain", &self.chain)])
    }

    fn claims(&self) -> Claims {
        claims_of(&self.key(), |item| Claim::about(item).with("flushed", Some(true)))
    }
}

/// A table that is there.
#[params(kind = "nftables.table_present", primary = "name", manual = "nftables_table_present.md")]
pub struct TablePresent {
    /// The table.
    name: String,
    /// `ip` (`ipv4`), `ip6` (`ipv6`), `inet`, `arp`, `bridge` or `netdev`.
    #[param(default)]
    family: Family,
}

impl Resource for TablePresent {
    type State = TableState;

    fn key(&self) -> Table {
        Table { family: self.family, table: self.name.clone() }
    }

    async fn desired(&self, now: &TableState, _: &Checking<'_>) -> Result<Want<TableState>, Fault> {
        Ok(match now {
            TableState::Absent => Want::Be(TableState::empty(&self.key())),
            TableState::Present { .. } => Want::Same,
        })
    }

    fn validate(&self) -> Vec<Invalid> {
        odd(&[("name", &self.name)])
    }

    fn claims(&self) -> Claims {
        let key = self.key();
        Claims::of(Claim::new(TableState::item(&key), "present")).edits(&key.place())
    }
}

/// A table that is not there.
#[params(kind = "nftables.table_absent", primary = "name", manual = "nftables_table_absent.md")]
pub struct TableAbsent {
    /// The table.
    name: String,
    /// `ip` (`ipv4`), `ip6` (`ipv6`), `inet`, `arp`, `bridge` or `netdev`.
    #[param(default)]
    family: Family,
}

impl Resource for TableAbsent {
    type State = TableState;

    fn key(&self) -> Table {
        Table { family: self.family, table: self.name.clone() }
    }

    async fn desired(&self, _: &TableState, _: &Checking<'_>) -> Result<Want<TableState>, Fault> {
        Ok(Want::Be(TableState::Absent))
    }

    fn validate(&self) -> Vec<Invalid> {
        odd(&[("name", &self.name)])
    }

    fn claims(&self) -> Claims {
        let key = self.key();
        Claims::of(Claim::new(TableState::item(&key), "absent")).edits(&key.place())
    }
}

#[cfg(test)]
pub(crate) fn cases() -> Vec<crate::laws::Case> {
    use crate::laws::{Case, Promise};
    use crate::nft::fake_nft::{BOOKS, fake_nft};
    use serde_json::json;
    let case =
        |kind, params, promise| Case::new(kind, params, promise, |host| fake_nft(host)).with_books(&[BOOKS]);
    let hooked = |priority: i32| json!({ "name": "input", "table_type": "filter", "hook": "input", "priority": priority });
    vec![
        case("nftables.chain_present", json!({ "name": "web" }), Promise::Clean),
        case("nftables.chain_present", json!({ "name": "new" }), Promise::Converges),
        case(
            "nftables.chain_present",
            json!({ "name": "out", "table_type": "nat", "hook": "postrouting", "priority": "srcnat" }),
            Promise::Converges,
        ),
        case("nftables.chain_present", hooked(0), Promise::Clean),
        case("nftables.chain_present", hooked(5), Promise::Fails),
        case("nftables.chain_present", json!({ "name": "new", "table": "none" }), Promise::Fails),
        case("nftables.chain_absent", json!({ "name": "web" }), Promise::Converges),
        case("nftables.chain_absent", json!({ "name": "input" }), Promise::Converges),
        case("nftables.chain_absent", json!({ "name": "new" }), Promise::Clean),
        case("nftables.chain_absent", json!({ "name": "new", "table": "none" }), Promise::Clean),
        case("nftables.set_policy", json!({ "chain": "input", "policy": "DROP" }), Promise::Converges),
        case("nftables.set_policy", json!({ "chain": "input", "policy": "accept" }), Promise::Clean),
        case("nftables.set_policy", json!({ "chain": "web", "policy": "drop" }), Promise::Fails),
        case("nftables.flush", json!({ "chain": "input" }), Promise::Converges),
        case("nftables.flush", json!({ "chain": "none" }), Promise::Fails),
        case("nftables.flush", json!({ "chain": "none", "ignore_absence": true }), Promise::Clean),
        case("nftables.table_present", json!({ "name": "filter" }), Promise::Clean),
        case("nftables.table_present", json!({ "name": "filter", "family": "inet" }), Promise::Converges),
        case("nftables.table_absent", json!({ "name": "filter", "family": "ipv4" }), Promise::Converges),
        case("nftables.table_absent", json!({ "name": "filter", "family": "ip6" }), Promise::Clean),
    ]
}
