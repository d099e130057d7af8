//! Rules and chains of the kernel's packet filter, through `iptables` and `ip6tables`.
//!
//! Whether a rule is there `iptables --check` says, which knows all the ways to write one. Where in its chain it stands is found
//! by comparing words, as far as that goes: a revert puts a rule back where it was, or at the end of its chain.

#[cfg(test)]
pub(crate) mod fake_iptables;
pub(crate) mod rule_params;
mod rule_words;

pub(crate) use rule_words::RuleWords;

use crate::claims::ManagedItem;
use crate::config_text;
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::PathBuf;
use zester_host::process::read_tools::{
    IP6TABLES_CHECK, IP6TABLES_SAVE, IPTABLES_CHECK, IPTABLES_SAVE, ReadTool,
};
use zester_host::{Fault, Launch};

/// Which of the two filters.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Family {
    #[default]
    Ipv4,
    Ipv6,
}

impl Family {
    fn program(self) -> &'static str {
        match self {
            Family::Ipv4 => "iptables",
            Family::Ipv6 => "ip6tables",
        }
    }

    fn check(self) -> ReadTool {
        match self {
            Family::Ipv4 => IPTABLES_CHECK,
            Family::Ipv6 => IP6TABLES_CHECK,
        }
    }

    fn save(self) -> ReadTool {
        match self {
            Family::Ipv4 => IPTABLES_SAVE,
            Family::Ipv6 => IP6TABLES_SAVE,
        }
    }

    /// Where Debian's `netfilter-persistent` reads the rules at the start.
    fn saved_at(self) -> &'static str {
        match self {
            Family::Ipv4 => "/etc/iptables/rules.v4",
            Family::Ipv6 => "/etc/iptables/rules.v6",
        }
    }
}

/// Whether and where rules are saved for the next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Save {
    No,
    Usual,
    At(PathBuf),
}

crate::params::from_text!(Save, "true, false or a path", |text| match text {
    "true" | "True" | "yes" | "on" => Ok(Save::Usual),
    "false" | "False" | "no" | "off" => Ok(Save::No),
    path if path.starts_with('/') => Ok(Save::At(path.into())),
    other => Err(format!("`{other}` is not a path; write `true`, `false` or where to save")),
});

impl Save {
    pub(crate) fn path(save: Option<&Save>, family: Family) -> Option<PathBuf> {
        match save? {
            Save::No => None,
            Save::Usual => Some(family.saved_at().into()),
            Save::At(path) => Some(path.clone()),
        }
    }
}

/// A chain of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Chain {
    pub(crate) family: Family,
    pub(crate) table: String,
    pub(crate) chain: String,
    /// Where the rules are saved when something was changed.
    pub(crate) save: Option<PathBuf>,
}

impl Chain {
    fn words(&self) -> String {
        format!("{} of {} ({})", self.chain, self.table, self.family.program())
    }

    /// The chains and rules of the table, as they are saved.
    async fn saved(&self, cx: &Read<'_>) -> Result<String, Fault> {
        let exit =
            cx.ask_for_text("what the packet filter holds", self.family.save(), &["-t", &self.table]).await?;
        match exit.code {
            Some(0) => Ok(exit.stdout.text),
            _ => Err(exit.failure(&format!("`{}-save -t {}`", self.family.program(), self.table))),
        }
    }

    async fn tell<S>(&self, words: &[&str], cx: &Write<'_, S>) -> Result<(), Fault> {
        let head = [self.family.program(), "--wait", "-t", &self.table];
        cx.launch(Launch::argv(head.iter().chain(words).map(ToString::to_string))).await.map(drop)
    }

    /// Saves all tables, where that is wanted.
    async fn keep<S>(&self, cx: &Write<'_, S>) -> Result<(), Fault> {
        let Some(path) = &self.save else { return Ok(()) };
        let exit = cx
            .read()
            .ask_for_text("what the packet filter holds", self.family.save(), &[])
            .await
            .map_err(Fault::touched)?;
        if exit.code != Some(0) {
            return Err(exit.failure(&format!("`{}-save`", self.family.program())).touched());
        }
        let from = config_text::read(cx.host, path)?;
        config_text::write(path, &from, &Some(exit.stdout.text), cx)
    }
}

/// The rules of a chain in saved text, without `-A CHAIN`.
fn rules_of<'a>(saved: &'a str, chain: &str) -> Vec<&'a str> {
    let head = format!("-A {chain}");
    let rule = |line: &'a str| {
        let line =
            line.strip_prefix('[').and_then(|line| line.split_once("] ")).map_or(line, |(_, line)| line);
        line.strip_prefix(&head).filter(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::trim)
    };
    saved.lines().filter_map(rule).collect()
}

/// The policy of a chain in saved text: `-` of one that somebody made; none where there is no such chain.
fn policy_of(saved: &str, chain: &str) -> Option<String> {
    let line =
        saved.lines().find_map(|line| line.strip_prefix(':')?.strip_prefix(chain)?.strip_prefix(' '))?;
    line.split_whitespace().next().map(str::to_string)
}

/// A rule of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RuleState {
    Absent,
    /// Its number in the chain, where that is known; none also for the end.
    Present {
        position: Option<usize>,
    },
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RuleKey {
    pub(crate) chain: Chain,
    pub(crate) rule: Vec<String>,
}

impl State for RuleState {
    type Key = RuleKey;
    type How = ();

    fn item(key: &RuleKey) -> ManagedItem {
        ManagedItem::Named("rule", format!("`{}` in {}", key.rule.join(" "), key.chain.words()))
    }

    async fn current(key: &RuleKey, cx: &Read<'_>) -> Result<RuleState, Fault> {
        let chain = &key.chain;
        let mut words = vec![chain.chain.as_str()];
        words.extend(key.rule.iter().map(String::as_str));
        words.extend(["-t", chain.table.as_str()]);
        let exit = cx.ask(chain.family.check(), &words).await?;
        let absent = exit.stderr.text.contains("matching rule exist")
            || exit.stderr.text.contains("No chain/target/match")
            || exit.stderr.text.contains("does not exist");
        match exit.code {
            Some(0) => {
                let saved = chain.saved(cx).await?;
                let own = RuleWords::of(&key.rule);
                let at =
                    rules_of(&saved, &chain.chain).iter().position(|line| RuleWords::of_line(line) == own);
                Ok(RuleState::Present { position: at.map(|at| at + 1) })
            }
            Some(1 | 2) if absent => Ok(RuleState::Absent),
            _ => Err(exit.failure(&format!("`{} --check {}`", chain.family.program(), words.join(" ")))),
        }
    }

    async fn enforce(step: &Step<'_, RuleState>, cx: &Write<'_, RuleState>) -> Result<(), Fault> {
        let chain = &step.key.chain;
        let number;
        let mut words: Vec<&str> = match (step.from, step.to) {
            (RuleState::Absent, RuleState::Present { position }) => {
                let there = rules_of(&chain.saved(&cx.read()).await?, &chain.chain).len();
                match position.filter(|position| *position <= there + 1) {
                    Some(position) => {
                        number = position.to_string();
                        vec!["-I", &chain.chain, &number]
                    }
                    None => vec!["-A", &chain.chain],
                }
            }
            (RuleState::Present { .. }, RuleState::Absent) => vec!["-D", &chain.chain],
            _ => return Ok(()),
        };
        words.extend(step.key.rule.iter().map(String::as_str));
        chain.tell(&words, cx).await?;
        chain.keep(cx).await
    }

    fn describe(step: &Step<'_, RuleState>, _: bool) -> Explanation {
        let (rule, chain) = (step.key.rule.join(" "), step.key.chain.words());
        let mut told = Explanation::default();
        let sign = match (step.from, step.to) {
            (RuleState::Absent, RuleState::Present { .. }) => "+",
            (RuleState::Present { .. }, RuleState::Absent) => "-",
            _ => return told,
        };
        told.diff = format!("{chain}:\n{sign}{rule}\n");
        told.details.insert("rule".into(), json!(rule));
        told
    }

    /// Its number may have changed by what others did.
    fn is_between(&self, before: &RuleState, after: &RuleState) -> bool {
        [before, after].iter().any(|other| std::mem::discriminant(*other) == std::mem::discriminant(self))
    }
}

/// A chain as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ChainState {
    Absent,
    Present {
        /// `-` of a chain that somebody made.
        policy: String,
        /// As they are saved.
        rules: Vec<String>,
    },
}

impl State for ChainState {
    type Key = Chain;
    type How = ();

    fn item(chain: &Chain) -> ManagedItem {
        ManagedItem::Named("chain", chain.words())
    }

    async fn current(chain: &Chain, cx: &Read<'_>) -> Result<ChainState, Fault> {
        let saved = chain.saved(cx).await?;
        Ok(match policy_of(&saved, &chain.chain) {
            None => ChainState::Absent,
            Some(policy) => {
                let rules = rules_of(&saved, &chain.chain).into_iter().map(str::to_string).collect();
                ChainState::Present { policy, rules }
            }
        })
    }

    async fn enforce(step: &Step<'_, ChainState>, cx: &Write<'_, ChainState>) -> Result<(), Fault> {
        let chain = step.key;
        let none = (String::from("-"), Vec::new());
        let parts = |state: &ChainState| match state {
            ChainState::Absent => none.clone(),
            ChainState::Present { policy, rules } => (policy.clone(), rules.clone()),
        };
        let ((old_policy, old_rules), (policy, rules)) = (parts(step.from), parts(step.to));
        if matches!((step.from, step.to), (ChainState::Absent, ChainState::Present { .. })) {
            chain.tell(&["-N", &chain.chain], cx).await?;
        }
        if old_rules != rules {
            if !old_rules.is_empty() {
                chain.tell(&["-F", &chain.chain], cx).await?;
            }
            for rule in &rules {
                let words = shlex::split(rule).unwrap_or_default();
                let words: Vec<&str> =
                    ["-A", &chain.chain].into_iter().chain(words.iter().map(String::as_str)).collect();
                chain.tell(&words, cx).await?;
            }
        }
        if old_policy != policy && policy != "-" {
            chain.tell(&["-P", &chain.chain, &policy], cx).await?;
        }
        if matches!((step.from, step.to), (ChainState::Present { .. }, ChainState::Absent)) {
            chain.tell(&["-X", &chain.chain], cx).await?;
        }
        chain.keep(cx).await
    }

    fn describe(step: &Step<'_, ChainState>, _: bool) -> Explanation {
        let mut told = Explanation::default();
        let words = |state: &ChainState| match state {
            ChainState::Absent => "absent".to_string(),
            ChainState::Present { policy, .. } if policy == "-" => "present".to_string(),
            ChainState::Present { policy, .. } => format!("policy {policy}"),
        };
        let (old, new) = (words(step.from), words(step.to));
        if old != new {
            told.diff = format!("the chain {}: {old} → {new}\n", step.key.words());
            told.details.insert("chain".into(), json!({ "old": old, "new": new }));
        }
        if let ChainState::Present { rules, .. } = step.from
            && !matches!(step.to, ChainState::Present { rules: kept, .. } if kept == rules)
        {
            told.diff.extend(rules.iter().map(|rule| format!("-{rule}\n")));
        }
        told
    }

    /// Emptied and not removed yet, or made and not filled yet.
    fn is_between(&self, before: &ChainState, after: &ChainState) -> bool {
        let begins = |all: &ChainState| match (self, all) {
            (ChainState::Present { rules, .. }, ChainState::Present { rules: all, .. }) => {
                all.starts_with(rules)
            }
            _ => false,
        };
        begins(before)
            || begins(after)
            || matches!(self, ChainState::Present { rules, .. } if rules.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `iptables-save` of Debian 12 printed.
    const SAVED: &str = "# Generated by iptables-save v1.8.9 on Wed Nov 18 04:08:16 2026\n*filter\n:INPUT DROP [0:0]\n\
        :FORWARD ACCEPT [0:0]\n:OUTPUT ACCEPT [12:720]\n:web - [0:0]\n-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT\n\
        -A INPUT -m comment --comment \"two words\" -j web\nCOMMIT\n";

    #[test]
    fn chains_policies_and_rules_are_read_from_what_is_saved() {
        assert_eq!(policy_of(SAVED, "INPUT").as_deref(), Some("DROP"));
        assert_eq!(policy_of(SAVED, "web").as_deref(), Some("-"));
        assert_eq!(policy_of(SAVED, "IN"), None);
        assert_eq!(rules_of(SAVED, "INPUT").len(), 2);
        assert!(rules_of(SAVED, "web").is_empty());
    }
}
