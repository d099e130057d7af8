//! Signs of life. A peel sends its heartbeat on `zester.heartbeat.<peel>`, which no stream keeps, and writes it now and then to
//! the bucket `peel-seen`, which says when it was last there. A master writes its own to `master-heartbeat`, whose keys expire.

use crate::audit::AuditHead;
use crate::codec::Message;
use crate::envelope::Addressed;
use crate::job::is_false;
use crate::limits::{HEARTBEAT_EVERY_MAX, HEARTBEATS_A_RECORD, HEARTBEATS_MISSED, SEEN_EVERY};
use crate::name::{Jid, MasterId, PeelId, Token};
use crate::subject::Subject;
use crate::time::{UnixMillis, optional_millis};
use serde::{Deserialize, Serialize};
use std::time::Duration;

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
    /// The next one comes within this time; none of a release before peels said so.
    #[serde(default, with = "optional_millis", skip_serializing_if = "Option::is_none")]
    pub next: Option<Duration>,
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
            next: None,
        }
    }

    /// How long its peel counts as there after it, where `ttl` is what is configured: whoever beats more seldom, as it was told, may be
    /// late in proportion.
    pub fn lasts(&self, ttl: Duration) -> Duration {
        let next = self.next.unwrap_or_default().min(HEARTBEAT_EVERY_MAX);
        ttl.max(next.saturating_mul(HEARTBEATS_MISSED))
    }

    /// How often a peel writes down that it is there, which sends the next heartbeat within this time.
    pub fn recorded_every(next: Duration) -> Duration {
        SEEN_EVERY.max(next.min(HEARTBEAT_EVERY_MAX).saturating_mul(HEARTBEATS_A_RECORD))
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
    /// How far its chain of the audit log is (I-6).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub audit: Option<AuditHead>,
}

impl Message for MasterHeartbeat {
    const NAME: &'static str = "master heartbeat";
}
