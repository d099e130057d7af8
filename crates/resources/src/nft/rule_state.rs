//! A rule of a chain.

use super::rule_text::canonical;
use super::{Chain, ChainState, listing};
use crate::claims::ManagedItem;
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use serde_json::json;
use zester_host::{Exit, Fault, FaultKind};

/// Whether a rule is there, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuleState {
    /// There is no chain that it could be in.
    NoChain,
    Absent,
    /// Its number in the chain; none for the end.
    Present {
        position: Option<usize>,
    },
}

/// A rule, in words of `nft`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RuleKey {
    pub(crate) chain: Chain,
    pub(crate) rule: String,
}

/// The rules of a chain with their handles; none where there is no such chain.
async fn rules_of(chain: &Chain, cx: &Read<'_>) -> Result<Option<Vec<listing::ListedRule>>, Fault> {
    let Some(text) = chain.table.listed(cx).await? else { return Ok(None) };
    Ok(listing::chains(&text).remove(&chain.chain).map(|chain| chain.rules))
}

fn place_of<'a>(rule: &str, mut rules: impl Iterator<Item = &'a str>) -> Option<usize> {
    let own = canonical(rule);
    rules.position(|text| canonical(text) == own)
}

impl State for RuleState {
    type Key = RuleKey;
    type How = ();

    fn item(key: &RuleKey) -> ManagedItem {
        ManagedItem::Named("rule", format!("`{}` in {}", key.rule, key.chain))
    }

    async fn current(key: &RuleKey, cx: &Read<'_>) -> Result<RuleState, Fault> {
        let place = match ChainState::predicted(&key.chain, cx.host) {
            Some(ChainState::Absent | ChainState::NoTable) => return Ok(RuleState::NoChain),
            Some(ChainState::Present { rules, .. }) => place_of(&key.rule, rules.iter().map(String::as_str)),
            None => match rules_of(&key.chain, cx).await? {
                None => return Ok(RuleState::NoChain),
                Some(rules) => place_of(&key.rule, rules.iter().map(|rule| rule.text.as_str())),
            },
        };
        Ok(place.map_or(RuleState::Absent, |at| RuleState::Present { position: Some(at + 1) }))
    }

    async fn enforce(step: &Step<'_, RuleState>, cx: &Write<'_, RuleState>) -> Result<(), Fault> {
        let RuleKey { chain, rule } = step.key;
        let rules = rules_of(chain, &cx.read()).await?.ok_or_else(|| chain.missing())?;
        match step.to {
            RuleState::Present { position } => {
                put(chain, rule, position.filter(|at| *at <= rules.len()), cx).await?
            }
            RuleState::Absent | RuleState::NoChain => {
                let place = place_of(rule, rules.iter().map(|rule| rule.text.as_str()));
                let Some(found) = place.and_then(|at| rules.get(at)) else { return Ok(()) };
                delete(chain, found.handle, cx).await?;
            }
        }
        chain.keep(cx).await
    }

    fn describe(step: &Step<'_, RuleState>, _: bool) -> Explanation {
        let RuleKey { rule, chain } = step.key;
        let mut told = Explanation::default();
        let sign = match step.to {
            RuleState::Present { .. } => "+",
            RuleState::Absent | RuleState::NoChain => "-",
        };
        told.diff = format!("{chain}:\n{sign}{rule}\n");
        told.details.insert("rule".into(), json!(rule));
        told
    }

    fn is_gone(&self) -> bool {
        *self == RuleState::NoChain
    }

    /// Its number may have changed by what others did.
    fn is_between(&self, before: &RuleState, after: &RuleState) -> bool {
        [before, after].iter().any(|other| std::mem::discriminant(*other) == std::mem::discriminant(self))
    }
}

/// Puts a rule at a place, or at the end. One that would be listed in words that nobody finds again is taken out at once: it
/// would come once more with every run.
async fn put<S>(chain: &Chain, rule: &str, position: Option<usize>, cx: &Write<'_, S>) -> Result<(), Fault> {
    let index = position.map(|position| (position.max(1) - 1).to_string());
    let (family, table) = (chain.table.family.word(), chain.table.table.as_str());
    let mut words = vec!["nft", "--stateless", "--handle", "--echo"];
    words.push(if index.is_some() { "insert" } else { "add" });
    words.extend(["rule", family, table, &chain.chain]);
    words.extend(index.iter().flat_map(|index| ["index", index.as_str()]));
    words.push(rule);
    let exit = cx.run(&words).await?;
    let Some((listed, handle)) = echoed(&exit, chain) else { return Ok(()) };
    if canonical(&listed) == canonical(rule) {
        return Ok(());
    }
    delete(chain, handle, cx).await?;
    let message = format!("nft writes the rule `{rule}` as `{listed}`, and would not find it again");
    Err(Fault::new(FaultKind::Unsupported, message).hint("write it in those words"))
}

async fn delete<S>(chain: &Chain, handle: u64, cx: &Write<'_, S>) -> Result<(), Fault> {
    let (family, table) = (chain.table.family.word(), chain.table.table.as_str());
    cx.run(&["nft", "delete", "rule", family, table, &chain.chain, "handle", &handle.to_string()])
        .await
        .map(drop)
}

/// The rule that was added, as it is listed from now on, and its handle.
fn echoed(exit: &Exit, chain: &Chain) -> Option<(String, u64)> {
    let head = format!("rule {chain} ");
    exit.stdout.text.lines().find_map(|line| {
        let rest = line.split_once(&head)?.1;
        let (rule, handle) = rest.rsplit_once(" # handle ")?;
        // Of a rule that was put before another, `nft` tells which other.
        let before = rule.strip_prefix("handle ").and_then(|rest| rest.split_once(' '));
        let rule = before.filter(|(other, _)| other.parse::<u64>().is_ok()).map_or(rule, |(_, rule)| rule);
        Some((rule.to_string(), handle.trim().parse().ok()?))
    })
}
