//! The records of a run's log, one JSON object a line.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "snake_case")]
pub enum Record {
    Started(Started),
    Intent(Intent),
    Ended(Ended),
    /// The undo value of this state was used up by a revert.
    Reverted {
        state: String,
    },
}

/// "This is the run that follows." The first line of a log; logs of earlier versions have none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// The command that it was started with; logs of earlier versions do not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// What was asked for, and of which states dir.
    pub scope: String,
    /// The object that holds the graph of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub graph: Option<String>,
}

/// "I am about to apply this state."
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Intent {
    pub state: String,
    /// The kind whose revert understands `undo`.
    pub kind: String,
    /// What it takes to undo it; `None` for actions.
    pub undo: Option<serde_json::Value>,
    /// States it depends on directly: the order of a revert where the graph of the run was not kept.
    pub depends_on: Vec<String>,
    /// States that need a refresh if this one changed.
    pub watchers: Vec<String>,
    /// Before-images that the undo value names.
    pub objects: Vec<String>,
    /// It is in place only once its `check_cmd` has passed (S-43).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub confirms: bool,
    /// It was not in place before either: what a revert leads back to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unconfirmed: bool,
}

/// "It ended like this."
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ended {
    pub state: String,
    pub changed: bool,
    pub failed: bool,
    /// It failed after it had altered the machine: a change to its watchers (S-43).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub touched: bool,
    /// Whether its `check_cmd` did not pass; unset where none was asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unconfirmed: Option<bool>,
    /// Replaces the undo value of the intent where acting revealed more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<serde_json::Value>,
}
