//! The record of a job: bucket `jobs`, key `<jid>`.

use crate::codec::{Message, Serial};
use crate::key::Key;
use crate::limits::{TARGETS_INLINE_MAX, TARGETS_PAGE};
use crate::name::{BadName, Jid, MasterId, PeelId, Token};
use crate::target_digest::TargetDigest;
use crate::time::{UnixMillis, millis};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a job may take when nobody says (J-4).
pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(60);

/// Where a job stands (J-1).
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobStatus {
    #[default]
    Pending,
    /// Recorded, and provably never published.
    Claimed,
    /// Perhaps published.
    Running,
    Complete,
    Failed,
    Partial,
    Timeout,
    Canceled,
    /// A word of a newer release. Whoever reads it leaves the job alone.
    #[serde(other)]
    Unknown,
}

impl JobStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            JobStatus::Pending => "pending",
            JobStatus::Claimed => "claimed",
            JobStatus::Running => "running",
            JobStatus::Complete => "complete",
            JobStatus::Failed => "failed",
            JobStatus::Partial => "partial",
            JobStatus::Timeout => "timeout",
            JobStatus::Canceled => "canceled",
            JobStatus::Unknown => "unknown",
        }
    }

    /// A status that never changes again.
    pub fn is_terminal(self) -> bool {
        match self {
            JobStatus::Pending | JobStatus::Claimed | JobStatus::Running | JobStatus::Unknown => false,
            JobStatus::Complete
            | JobStatus::Failed
            | JobStatus::Partial
            | JobStatus::Timeout
            | JobStatus::Canceled => true,
        }
    }
}

/// Why a target has no usable return (J-17).
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Missing {
    NeverAcked,
    /// It acked, and had not ended when the job did.
    Running,
    /// Without a heartbeat, ack or return (J-8).
    Unreachable,
    /// The peel restarted under it: what became of the work is unknown.
    Interrupted,
    /// It was listed by name, and no peel has that name. Never in the record's `missing`: it is no target.
    UnknownPeel,
    #[serde(other)]
    Unknown,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub jid: Jid,
    pub function: String,
    #[serde(default)]
    pub args: Map<String, Value>,
    /// The bare positional: the function's primary parameter.
    #[serde(default)]
    pub state_id: String,
    #[serde(default)]
    pub targets: Vec<PeelId>,
    #[serde(default)]
    pub target_expr: String,
    /// Zero: nobody said.
    #[serde(default, with = "millis")]
    pub timeout: Duration,
    /// On the dispatching master's clock.
    #[serde(default)]
    pub deadline: UnixMillis,
    #[serde(default)]
    pub status: JobStatus,
    #[serde(default)]
    pub created: UnixMillis,
    #[serde(default)]
    pub updated: UnixMillis,
    #[serde(default)]
    pub user: String,
    pub owner: MasterId,
    /// Fences owners: every adoption raises it.
    #[serde(default)]
    pub epoch: u64,
    /// What peels deduplicate by: unchanged by adoption.
    #[serde(default)]
    pub dispatch_epoch: u64,
    #[serde(default)]
    pub reclaim_count: u32,
    #[serde(default)]
    pub return_count: u64,
    #[serde(default)]
    pub success_count: u64,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Further positionals, of reactions that give a list.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub positionals: Vec<Value>,
    /// A dry run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub test: bool,
    /// Why it ended as it did, where the status alone does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Targets without a usable return, as they stood at the end (J-17).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<PeelId, Missing>,
    /// Names in a list of the target expression that no peel had at dispatch. They are no targets and change no status.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown_peels: Vec<PeelId>,
    /// The operator's request as it came, envelope and all: peels may demand it (I-8), and adopters must have it too.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "serde_bytes")]
    pub request: Vec<u8>,
    /// Of the targets that the operator named one by one: what the peels are given a proof for (J-24).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_digest: Option<TargetDigest>,
    /// Where the targets stand that are too many for the record (J-23). They are in `targets` all the same once it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_list: Option<TargetList>,
    /// Until when its client waits to hear that it runs, on the claiming master's clock. One that is still `claimed` after that
    /// is ended as never run, whoever finds it (J-28). Zero: nobody said.
    #[serde(default, skip_serializing_if = "UnixMillis::is_zero_ref")]
    pub claim_until: UnixMillis,
    /// Keys of newer releases. Masters of two releases write one record by turns; the older must not lose what it does
    /// not know.
    #[serde(flatten)]
    pub rest: BTreeMap<String, rmpv::Value>,
}

/// A list of targets on pages of their own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetList {
    pub digest: TargetDigest,
    pub pages: u32,
}

impl TargetList {
    /// None for a list that the record can hold.
    pub fn of(targets: &[PeelId]) -> Option<TargetList> {
        if targets.len() <= TARGETS_INLINE_MAX {
            return None;
        }
        let pages = u32::try_from(targets.len().div_ceil(TARGETS_PAGE)).unwrap_or(u32::MAX);
        Some(TargetList { digest: TargetDigest::of_names(targets), pages })
    }

    /// The keys of the pages, in order. They name the list: two masters that claim one job never write over each other's.
    pub fn keys(&self, jid: &Jid) -> Result<Vec<Key>, BadName> {
        let name: String = self.digest.root.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let name = Token::parse(&name)?;
        Ok((0..self.pages).map(|page| Key::TargetPage(jid.clone(), name.clone(), page)).collect())
    }
}

/// Some of the targets of a large job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TargetPage {
    #[serde(default = "crate::version")]
    pub v: u32,
    #[serde(default)]
    pub peels: Vec<PeelId>,
}

impl Message for TargetPage {
    const NAME: &'static str = "page of targets";
}

impl Message for Job {
    const NAME: &'static str = "job record";

    /// A job goes from owner to owner and from status to status, and never back.
    fn serial(&self) -> Option<Serial> {
        let rank = match self.status {
            JobStatus::Pending => 0,
            JobStatus::Claimed => 1,
            JobStatus::Running | JobStatus::Unknown => 2,
            over if over.is_terminal() => 3,
            _ => 2,
        };
        Some(Serial::of([self.created.0, u64::from(self.status.is_terminal()), self.epoch, rank]))
    }
}

pub(crate) fn is_false(value: &bool) -> bool {
    !*value
}

pub(crate) fn is_zero(value: &u64) -> bool {
    *value == 0
}

impl Job {
    /// The end of a job of which nothing can be told any more but its name and why.
    pub fn untold(jid: Jid, owner: MasterId, reason: String, now: UnixMillis) -> Job {
        Job {
            v: crate::VERSION,
            jid,
            function: "unknown".into(),
            args: Map::new(),
            state_id: String::new(),
            targets: Vec::new(),
            target_expr: String::new(),
            timeout: Duration::ZERO,
            deadline: now,
            status: JobStatus::Failed,
            created: now,
            updated: now,
            user: String::new(),
            owner,
            epoch: 0,
            dispatch_epoch: 0,
            reclaim_count: 0,
            return_count: 0,
            success_count: 0,
            metadata: Map::new(),
            positionals: Vec::new(),
            test: false,
            reason,
            missing: BTreeMap::new(),
            unknown_peels: Vec::new(),
            request: Vec::new(),
            target_digest: None,
            target_list: None,
            claim_until: UnixMillis(0),
            rest: BTreeMap::new(),
        }
    }

    pub fn target_count(&self) -> u64 {
        self.target_list.as_ref().map_or(self.targets.len() as u64, |list| list.digest.count)
    }

    /// Whether all its targets were read.
    pub fn has_targets(&self) -> bool {
        self.targets.len() as u64 == self.target_count()
    }

    /// What the record says: not the targets that have pages of their own.
    pub fn recorded(&self) -> Job {
        let mut job = self.clone();
        if job.target_list.is_some() {
            job.targets.clear();
        }
        job
    }

    /// The time allowed: what was asked, else the default (J-4).
    pub fn timeout(&self) -> Duration {
        if self.timeout.is_zero() { TIMEOUT_DEFAULT } else { self.timeout }
    }

    /// A zero deadline is read as created + timeout (J-4).
    pub fn deadline(&self) -> UnixMillis {
        if self.deadline.is_zero() { self.created.plus(self.timeout()) } else { self.deadline }
    }

    /// How deep in a chain of reactions the job stands; 0 for what no reaction caused (J-19).
    pub fn reactor_depth(&self) -> u32 {
        let depth = self.metadata.get("reactor_depth").and_then(Value::as_u64).unwrap_or(0);
        u32::try_from(depth).unwrap_or(u32::MAX)
    }
}
