//! A table as a whole.

use super::{Table, listing, script};
use crate::claims::ManagedItem;
use crate::context::Explanation;
use crate::state::{Read, State, Step, Write};
use serde::{Deserialize, Serialize};
use serde_json::json;
use zester_host::Fault;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum TableState {
    Absent,
    Present {
        /// All of it, as it is listed: what brings it back.
        text: String,
    },
}

impl TableState {
    /// One that holds nothing, as it is listed.
    pub(crate) fn empty(table: &Table) -> TableState {
        TableState::Present { text: format!("table {table} {{\n}}\n") }
    }

    pub(super) fn text(self) -> Option<String> {
        match self {
            TableState::Absent => None,
            TableState::Present { text } => Some(text),
        }
    }
}

impl State for TableState {
    type Key = Table;
    type How = ();

    fn item(table: &Table) -> ManagedItem {
        ManagedItem::Named("nftables table", table.to_string())
    }

    async fn current(table: &Table, cx: &Read<'_>) -> Result<TableState, Fault> {
        Ok(match table.listed(cx).await? {
            None => TableState::Absent,
            Some(text) => TableState::Present { text: listing::without_handles(&text) },
        })
    }

    async fn enforce(step: &Step<'_, TableState>, cx: &Write<'_, TableState>) -> Result<(), Fault> {
        let table = step.key;
        let mut orders = String::new();
        if let TableState::Present { .. } = step.from {
            orders.push_str(&format!("delete table {table}\n"));
        }
        if let TableState::Present { text } = step.to {
            orders.push_str(text);
        }
        script(orders, cx).await
    }

    fn describe(step: &Step<'_, TableState>, _: bool) -> Explanation {
        let mut told = Explanation::default();
        let word = |state: &TableState| if *state == TableState::Absent { "absent" } else { "present" };
        let (old, new) = (word(step.from), word(step.to));
        told.diff = format!("the table {}: {old} → {new}\n", step.key);
        if let TableState::Present { text } = step.from {
            told.diff.extend(text.lines().map(|line| format!("-{line}\n")));
        }
        told.details.insert("table".into(), json!({ "old": old, "new": new }));
        told
    }
}
