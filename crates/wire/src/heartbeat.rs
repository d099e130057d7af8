//! Signs of life: buckets `peel-heartbeat` and `master-heartbeat`, whose keys expire.

use crate::codec::Message;
use crate::name::{MasterId, PeelId, Token};
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// A peel lives. It is also how a peel announces that it (re)connected (J-6): `boot` or `connects` differs from the
/// heartbeat before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeelHeartbeat {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub peel: PeelId,
    #[serde(default)]
    pub ts: UnixMillis,
    /// New at every start.
    pub boot: Token,
    /// Connections to the bus since then.
    #[serde(default)]
    pub connects: u64,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub os: String,
    /// Executions that run or wait.
    #[serde(default)]
    pub busy: u32,
    /// Returns that no master has yet.
    #[serde(default)]
    pub outbox: u32,
}

impl Message for PeelHeartbeat {
    const NAME: &'static str = "peel heartbeat";
}

impl PeelHeartbeat {
    /// Whether the peel came (back) between the heartbeat before, if there was one, and this.
    pub fn announces_connect(&self, before: Option<&PeelHeartbeat>) -> bool {
        before.is_none_or(|before| (&before.boot, before.connects) != (&self.boot, self.connects))
    }
}

/// A master lives. The key is the owner of its jobs (J-13).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MasterHeartbeat {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub master: MasterId,
    #[serde(default)]
    pub ts: UnixMillis,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub active_jobs: u64,
}

impl Message for MasterHeartbeat {
    const NAME: &'static str = "master heartbeat";
}
