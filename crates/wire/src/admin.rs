//! `zester.admin.<verb>`: what an operator asks of any master.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::name::{Jid, PeelId};
use crate::refusal::Refusal;
use crate::subject::Subject;
use serde::{Deserialize, Serialize};

/// The verb stands in the subject and, signed, in the payload; they must agree. More verbs come as more words.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verb", rename_all = "snake_case")]
pub enum AdminRequest {
    /// J-11.
    Kill {
        jid: Jid,
        #[serde(default)]
        user: String,
        #[serde(default)]
        reason: String,
    },
    /// J-18: the same again, to a part of the targets, as a new job whose id the client makes.
    Retry {
        jid: Jid,
        new_jid: Jid,
        #[serde(default)]
        part: RetryPart,
        #[serde(default)]
        user: String,
        /// As in a dispatch: how long the client still waits (J-28).
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::optional_millis")]
        wait: Option<std::time::Duration>,
        /// How long the new job may take. None: as long as the old.
        #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::time::optional_millis")]
        timeout: Option<std::time::Duration>,
    },
    /// D-2: the holder of the lease publishes its directories.
    Publish {
        #[serde(default)]
        allow_empty: bool,
        #[serde(default)]
        user: String,
    },
    /// J-25: machines that are gone for good.
    Forget {
        peels: Vec<PeelId>,
        #[serde(default)]
        user: String,
    },
    #[serde(other)]
    Unknown,
}

/// Which targets a retry is for.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryPart {
    #[default]
    All,
    Missing,
    Failed,
    #[serde(other)]
    Unknown,
}

impl AdminRequest {
    /// The token of the subject; none for what a newer release asks.
    pub fn verb(&self) -> Option<&'static str> {
        match self {
            AdminRequest::Kill { .. } => Some("kill"),
            AdminRequest::Retry { .. } => Some("retry"),
            AdminRequest::Publish { .. } => Some("publish"),
            AdminRequest::Forget { .. } => Some("forget"),
            AdminRequest::Unknown => None,
        }
    }
}

impl Message for AdminRequest {
    const NAME: &'static str = "admin request";
}

impl Addressed for AdminRequest {
    fn fits(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Admin { verb } if Some(verb.as_str()) == self.verb())
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AdminReply {
    #[serde(default = "crate::version")]
    pub v: u32,
    /// What was done, in a sentence.
    #[serde(default)]
    pub message: String,
    /// The job that came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jid: Option<Jid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Refusal>,
}

impl Message for AdminReply {
    const NAME: &'static str = "admin reply";
}
