//! `zester.job.<jid>.return.<peel>`: what became of the work on one peel. Also bucket `job-returns`, and the reply of
//! `--direct`.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::job::is_false;
use crate::name::{Jid, PeelId};
use crate::subject::Subject;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a return is not the function's own answer.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// It is the function's own answer.
    #[default]
    Finished,
    /// Canceled by somebody (J-11).
    Canceled,
    /// Canceled by the deadline: counts as not returned (J-5).
    Deadline,
    /// The peel restarted under it (J-22).
    Interrupted,
    /// The execution queue was full (J-15).
    Busy,
    /// The request was out of time when it came (J-7).
    Expired,
    /// The peel would not do it.
    Refused,
    #[serde(other)]
    Unknown,
}

/// How the words of a return begin where the policy of the machine refused.
pub const BY_POLICY: &str = "refused by the policy of this machine";

/// Which entry of a peel's own schedule a run was of (D-10).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScheduledRun {
    pub name: String,
    #[serde(default)]
    pub function: String,
    /// When it was due, on the peel's clock.
    #[serde(default)]
    pub due: UnixMillis,
}

/// Which published trees an execution saw (D-13).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRevision {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<u64>,
    /// The commit of the states, where they came from a repository.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Return {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub jid: Jid,
    pub peel: PeelId,
    pub dispatch_epoch: u64,
    pub success: bool,
    #[serde(default)]
    pub error: String,
    #[serde(default)]
    pub duration_ms: u64,
    /// When it ended, on the peel's clock.
    #[serde(default)]
    pub ts: UnixMillis,
    /// The answer; of a state run, the run document of C-2.
    #[serde(default, rename = "return")]
    pub answer: Value,
    #[serde(default)]
    pub cause: Cause,
    #[serde(default, skip_serializing_if = "is_false")]
    pub canceled: bool,
    /// It came after the job had ended (J-9).
    #[serde(default, skip_serializing_if = "is_false")]
    pub late: bool,
    /// Something was cut to fit the bus (J-16).
    #[serde(default, skip_serializing_if = "is_false")]
    pub truncated: bool,
    /// Set where no master asked for it: the peel's schedule did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<ScheduledRun>,
    /// Of a state run: what was published of it (D-13). None where it ran from this machine's own files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<RunRevision>,
    /// The envelope in which its peel sent it. A record keeps it, so that what a peel said is proven by the peel and not by the
    /// master that stored it (I-12).
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "serde_bytes")]
    pub own: Vec<u8>,
}

impl Message for Return {
    const NAME: &'static str = "return";
    const OWN_WORDS: bool = true;

    fn own_words(&self) -> Option<(Subject, Vec<u8>)> {
        let subject = Subject::JobReturn { jid: self.jid.clone(), peel: self.peel.clone() };
        (!self.own.is_empty()).then(|| (subject, self.own.clone()))
    }

    /// Whether it came late, only the master that stored it knows.
    fn in_own_words(self, own: Return) -> Option<Return> {
        let same = self.jid == own.jid && self.peel == own.peel && self.dispatch_epoch == own.dispatch_epoch;
        same.then(|| Return { late: self.late, own: self.own, ..own })
    }
}

impl Addressed for Return {
    fn fits(&self, subject: &Subject) -> bool {
        match subject {
            Subject::JobReturn { jid, peel } | Subject::JobSchedule { jid, peel } => {
                *jid == self.jid && *peel == self.peel
            }
            _ => false,
        }
    }
}

impl Return {
    /// Whether the peel has answered as far as the job's status is concerned (J-5).
    pub fn counts(&self) -> bool {
        self.cause != Cause::Deadline
    }

    /// Whether the peel need not be asked again as missing (J-18): it returned in time, or later and with success. What failed
    /// or was cut short after the end is no answer to the job that named its peel as missing.
    pub fn settles(&self) -> bool {
        self.success || (self.counts() && !self.late)
    }

    /// A return that is not the function's own answer.
    pub fn refusing(jid: Jid, peel: PeelId, dispatch_epoch: u64, cause: Cause, error: &str) -> Return {
        let canceled = matches!(cause, Cause::Canceled | Cause::Deadline);
        Return {
            v: crate::VERSION,
            jid,
            peel,
            dispatch_epoch,
            success: false,
            error: error.to_string(),
            duration_ms: 0,
            ts: UnixMillis(0),
            answer: Value::Null,
            cause,
            canceled,
            late: false,
            truncated: false,
            schedule: None,
            revision: None,
            own: Vec::new(),
        }
    }

    /// As a record keeps it: in the words of its peel, and those once.
    pub fn kept(&self) -> Return {
        match self.own.is_empty() {
            true => self.clone(),
            false => Return { answer: Value::Null, error: String::new(), ..self.clone() },
        }
    }

    /// Where it travels.
    pub fn subject(&self) -> Subject {
        let (jid, peel) = (self.jid.clone(), self.peel.clone());
        match self.schedule {
            Some(_) => Subject::JobSchedule { jid, peel },
            None => Subject::JobReturn { jid, peel },
        }
    }
}
