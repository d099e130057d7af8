//! `zester.job.<jid>.dispatch|status|cancel`: what happened to a job, kept in the stream `job-events`.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::job::JobStatus;
use crate::name::{Jid, MasterId};
use crate::subject::Subject;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

/// What a cancel says when nobody gives other words (J-11).
pub const CANCELED_BY_USER: &str = "cancelled by user";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobEvent {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub jid: Jid,
    #[serde(default)]
    pub ts: UnixMillis,
    pub event: JobEventKind,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum JobEventKind {
    /// On `.dispatch`: the work is about to go out.
    Dispatched {
        owner: MasterId,
        epoch: u64,
        dispatch_epoch: u64,
        #[serde(default)]
        function: String,
        #[serde(default)]
        target_count: u64,
        #[serde(default)]
        deadline: UnixMillis,
    },
    /// On `.status`.
    Status {
        status: JobStatus,
        #[serde(default)]
        epoch: u64,
        #[serde(default)]
        return_count: u64,
        #[serde(default)]
        success_count: u64,
        #[serde(default)]
        target_count: u64,
        #[serde(default)]
        reason: String,
    },
    /// On `.cancel`.
    Canceled {
        #[serde(default)]
        data: String,
        #[serde(default)]
        by: String,
    },
    #[serde(other)]
    Unknown,
}

impl Message for JobEvent {
    const NAME: &'static str = "job event";
}

impl Addressed for JobEvent {
    fn fits(&self, subject: &Subject) -> bool {
        match (subject, &self.event) {
            (Subject::JobDispatch { jid }, JobEventKind::Dispatched { .. } | JobEventKind::Unknown)
            | (Subject::JobStatus { jid }, JobEventKind::Status { .. } | JobEventKind::Unknown)
            | (Subject::JobCancel { jid }, JobEventKind::Canceled { .. } | JobEventKind::Unknown) => {
                *jid == self.jid
            }
            _ => false,
        }
    }
}
