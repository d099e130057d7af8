//! Signs of life. A peel sends its heartbeat on `zester.heartbeat.<peel>`, which no stream keeps, and writes it now and then to
//! the bucket `peel-seen`, which says when it was last there. A master writes its own to `master-heartbeat`, whose keys expire.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::job::is_false;
use crate::name::{Jid, MasterId, PeelId, Token};
use crate::subject::Subject;
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
    /// Jobs that run or wait there, at most [`HEARTBEAT_JOBS_MAX`](crate::limits::HEARTBEAT_JOBS_MAX). Where there are
    /// more, the next heartbeat names the next of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<JobAtPeel>,
    /// The last heartbeat of a peel that was told to stop.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stopped: bool,
}

/// One dispatch of a job that a peel runs or has queued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobAtPeel {
    pub jid: Jid,
    #[serde(default)]
    pub dispatch_epoch: u64,
}

impl Message for PeelHeartbeat {
    const NAME: &'static str = "peel heartbeat";
}

impl Addressed for PeelHeartbeat {
    fn fits(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Heartbeat { peel } if *peel == self.peel)
    }
}

impl PeelHeartbeat {
    /// Of a peel that does nothing and says nothing of itself.
    pub fn new(peel: PeelId, boot: Token, connects: u64, ts: UnixMillis) -> PeelHeartbeat {
        PeelHeartbeat {
            v: crate::VERSION,
            peel,
            ts,
            boot,
            connects,
            version: String::new(),
            os: String::new(),
            busy: 0,
            outbox: 0,
            jobs: Vec::new(),
            stopped: false,
        }
    }

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
