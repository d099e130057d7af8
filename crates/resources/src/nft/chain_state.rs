//! A chain as a whole.

use super::{Chain, listing, script};
use crate::claims::ManagedItem;
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use serde_json::json;
use zester_host::Fault;

/// What makes packets come to a chain by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    /// `type filter hook input priority 0`
    pub(crate) hook: String,
    pub(crate) policy: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChainState {
    /// There is no table that it could be in.
    NoTable,
    Absent,
    Present {
        base: Option<Base>,
        /// As they are listed.
        rules: Vec<String>,
    },
}

impl State for ChainState {
    type Key = Chain;
    type How = ();

    fn item(chain: &Chain) -> ManagedItem {
        ManagedItem::Named("nftables chain", chain.to_string())
    }

    async fn current(chain: &Chain, cx: &Read<'_>) -> Result<ChainState, Fault> {
        let Some(text) = chain.table.listed(cx).await? else { return Ok(ChainState::NoTable) };
        Ok(match listing::chains(&text).remove(&chain.chain) {
            None => ChainState::Absent,
            Some(listed) => {
                let policy = listed.policy.unwrap_or_else(|| "accept".to_string());
                let base = listed.base.map(|hook| Base { hook, policy });
                ChainState::Present { base, rules: listed.rules.into_iter().map(|rule| rule.text).collect() }
            }
        })
    }

    async fn enforce(step: &Step<'_, ChainState>, cx: &Write<'_, ChainState>) -> Result<(), Fault> {
        script(orders(step.key, step.from, step.to), cx).await?;
        step.key.keep(cx).await
    }

    fn describe(step: &Step<'_, ChainState>, _: bool) -> Explanation {
        let mut told = Explanation::default();
        let hook = |state: &ChainState| match state {
            ChainState::Present { base: Some(base), .. } => Some(base.hook.clone()),
            _ => None,
        };
        let same_hook = hook(step.from) == hook(step.to);
        let words = |state: &ChainState| match state {
            ChainState::Present { base: Some(base), .. } if same_hook => format!("policy {}", base.policy),
            ChainState::NoTable | ChainState::Absent => "absent".to_string(),
            ChainState::Present { base: None, .. } => "present".to_string(),
            ChainState::Present { base: Some(base), .. } => format!("{}, policy {}", base.hook, base.policy),
        };
        let (old, new) = (words(step.from), words(step.to));
        if old != new {
            told.diff = format!("the chain {}: {old} → {new}\n", step.key);
            told.details.insert("chain".into(), json!({ "old": old, "new": new }));
        }
        let (gone, come) = (rules(step.from), rules(step.to));
        if gone != come {
            told.diff.extend(gone.iter().map(|rule| format!("-{rule}\n")));
            told.diff.extend(come.iter().map(|rule| format!("+{rule}\n")));
        }
        told
    }

    fn is_gone(&self) -> bool {
        *self == ChainState::NoTable
    }
}

fn rules(state: &ChainState) -> &[String] {
    match state {
        ChainState::Present { rules, .. } => rules,
        ChainState::NoTable | ChainState::Absent => &[],
    }
}

fn orders(chain: &Chain, from: &ChainState, to: &ChainState) -> String {
    let mut lines = Vec::new();
    match (from, to) {
        (ChainState::Present { base: old, .. }, ChainState::Present { base: Some(base), .. })
            if old.as_ref() != Some(base) =>
        {
            lines.push(format!("add chain {chain} {{ policy {}; }}", base.policy));
        }
        (ChainState::Absent, ChainState::Present { base: Some(base), .. }) => {
            lines.push(format!("add chain {chain} {{ {}; policy {}; }}", base.hook, base.policy));
        }
        (ChainState::Absent, ChainState::Present { base: None, .. }) => {
            lines.push(format!("add chain {chain}"))
        }
        _ => {}
    }
    let (old, new) = (rules(from), rules(to));
    if old != new && !old.is_empty() {
        lines.push(format!("flush chain {chain}"));
    }
    if old != new {
        lines.extend(new.iter().map(|rule| format!("add rule {chain} {rule}")));
    }
    if matches!((from, to), (ChainState::Present { .. }, ChainState::Absent)) {
        lines.push(format!("delete chain {chain}"));
    }
    lines.iter().flat_map(|line| [line.as_str(), "\n"]).collect()
}
