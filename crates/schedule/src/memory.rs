//! What a schedule remembers over a restart: what is due, what ran last, what was running.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zester_wire::{Jid, UnixMillis};

/// The document. Unknown keys are ignored, missing ones have no value.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    #[serde(default)]
    pub entries: BTreeMap<String, Remembered>,
}

/// Of one entry.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Remembered {
    /// How its times were written when `due` was found.
    #[serde(default)]
    pub when: String,
    /// The occurrence that comes next, and by how much its run is put off.
    #[serde(default)]
    pub due: Option<UnixMillis>,
    #[serde(default)]
    pub delay_ms: u64,
    /// The occurrence that was looked at last.
    #[serde(default)]
    pub last_due: Option<UnixMillis>,
    #[serde(default)]
    pub running: Vec<Running>,
    #[serde(default)]
    pub last: Option<Last>,
    /// How many occurrences were missed, and when the last of them was.
    #[serde(default)]
    pub missed: u64,
    #[serde(default)]
    pub last_missed: Option<UnixMillis>,
}

/// A run that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Running {
    pub jid: Jid,
    pub due: UnixMillis,
    pub started: UnixMillis,
}

/// The last run that ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Last {
    pub jid: Jid,
    pub due: UnixMillis,
    pub started: UnixMillis,
    pub ended: UnixMillis,
    pub success: bool,
    #[serde(default)]
    pub error: String,
}
