//! Tables, chains and rules of nftables, through `nft`.
//!
//! What is there is read from its listing. A rule is compared in the words of that listing ([`rule_text`]); what `nft` writes in
//! yet other words is not left in place, because every run would add it again. Whole chains and tables are changed by one
//! script, which `nft` carries out wholly or not at all.

mod chain_state;
#[cfg(test)]
pub(crate) mod fake_nft;
mod listing;
mod rule_state;
pub(crate) mod rule_text;
mod table_state;

pub(crate) use chain_state::{Base, ChainState};
pub(crate) use rule_state::{RuleKey, RuleState};
pub(crate) use table_state::TableState;

use crate::config_text;
use crate::netfilter::Save;
use crate::state::{Read, State, Write};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use zester_host::process::read_tools::NFT_LIST;
use zester_host::{Fault, FaultKind, Launch};

/// Where Debian's service `nftables` reads the rules at the start.
const SAVED_AT: &str = "/etc/nftables.conf";
/// What such a file begins with.
const SAVED_HEAD: &str = "#!/usr/sbin/nft -f\n\nflush ruleset\n\n";

/// Which packets a table is about.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Family {
    #[default]
    Ip,
    Ip6,
    Inet,
    Arp,
    Bridge,
    Netdev,
}

crate::params::from_text!(Family, "ip, ip6, inet, arp, bridge or netdev", |text| Ok(match text {
    "ip" | "ipv4" => Family::Ip,
    "ip6" | "ipv6" => Family::Ip6,
    "inet" => Family::Inet,
    "arp" => Family::Arp,
    "bridge" => Family::Bridge,
    "netdev" => Family::Netdev,
    other =>
        return Err(format!("`{other}` is no family; write `ip`, `ip6`, `inet`, `arp`, `bridge` or `netdev`")),
}));

impl Family {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Family::Ip => "ip",
            Family::Ip6 => "ip6",
            Family::Inet => "inet",
            Family::Arp => "arp",
            Family::Bridge => "bridge",
            Family::Netdev => "netdev",
        }
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(crate) struct Table {
    pub(crate) family: Family,
    pub(crate) table: String,
}

impl fmt::Display for Table {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.family.word(), self.table)
    }
}

impl Table {
    /// Stands for what its rules are in the order of states: those of one table come as declared.
    pub(crate) fn place(&self) -> PathBuf {
        Path::new("/proc/net/nftables").join(self.family.word()).join(&self.table)
    }

    /// As `nft` lists it, with handles; none where there is no such table. What a dry run would have made of it counts.
    async fn listed(&self, cx: &Read<'_>) -> Result<Option<String>, Fault> {
        if let Some(predicted) = TableState::predicted(self, cx.host) {
            return Ok(predicted.text());
        }
        let words = ["table", self.family.word(), self.table.as_str()];
        let exit = cx.ask_for_text("what nftables holds", NFT_LIST, &words).await?;
        match exit.code {
            Some(0) => Ok(Some(exit.stdout.text)),
            Some(1) if exit.stderr.text.contains("No such file or directory") => Ok(None),
            _ => Err(exit.failure(&format!("`nft list table {self}`"))),
        }
    }

    pub(crate) fn missing(&self) -> Fault {
        let message = format!("there is no table `{self}`");
        Fault::new(FaultKind::NotFound, message).hint("an `nftables.table_present` state makes it")
    }
}

/// A chain of a table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, serde::Deserialize)]
pub(crate) struct Chain {
    pub(crate) table: Table,
    pub(crate) chain: String,
    /// Where all tables are saved when something was changed.
    pub(crate) save: Option<PathBuf>,
}

impl fmt::Display for Chain {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.table, self.chain)
    }
}

impl Chain {
    pub(crate) fn missing(&self) -> Fault {
        let message = format!("there is no chain `{}` in the table `{}`", self.chain, self.table);
        Fault::new(FaultKind::NotFound, message).hint("an `nftables.chain_present` state makes it")
    }

    /// Saves all tables, where that is wanted.
    async fn keep<S>(&self, cx: &Write<'_, S>) -> Result<(), Fault> {
        let Some(path) = &self.save else { return Ok(()) };
        let asked = cx.read().ask_for_text("what nftables holds", NFT_LIST, &["ruleset"]).await;
        let exit = asked.map_err(Fault::touched)?;
        if exit.code != Some(0) {
            return Err(exit.failure("`nft list ruleset`").touched());
        }
        let from = config_text::read(cx.host, path)?;
        let text = format!("{SAVED_HEAD}{}", listing::without_handles(&exit.stdout.text));
        config_text::write(path, &from, &Some(text), cx)
    }
}

/// Where a `save` leads to.
pub(crate) fn save_path(save: Option<&Save>) -> Option<PathBuf> {
    match save? {
        Save::No => None,
        Save::Usual => Some(SAVED_AT.into()),
        Save::At(path) => Some(path.clone()),
    }
}

/// Carries out several orders, all or none of them.
async fn script<S>(orders: String, cx: &Write<'_, S>) -> Result<(), Fault> {
    let mut launch = Launch::argv(["nft", "-f", "-"]);
    launch.stdin = Some(orders.into_bytes());
    cx.launch(launch).await.map(drop)
}
