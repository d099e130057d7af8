//! `zester.admin.<verb>`: what an operator asks of any master.

use crate::codec::Message;
use crate::enroll::EnrollOrder;
use crate::envelope::Addressed;
use crate::job::is_false;
use crate::name::{Jid, PeelId, Token};
use crate::publish_report::PublishReport;
use crate::published::{ContentHash, Published};
use crate::reactor::RuleList;
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
    /// D-2: the holder of the lease publishes its directories, what was uploaded, or an earlier revision.
    Publish(PublishRequest),
    /// J-25: machines that are gone for good.
    Forget {
        peels: Vec<PeelId>,
        #[serde(default)]
        user: String,
    },
    /// The rules that the reactor of a master reacts by.
    ReactorRules,
    /// a rule that was stopped may react again, at every master.
    BreakerClose {
        rule: String,
        #[serde(default)]
        user: String,
    },
    /// I-4: who may be a peel.
    Enroll {
        order: EnrollOrder,
        #[serde(default)]
        user: String,
    },
    #[serde(other)]
    Unknown,
}

/// What is to be published. Without trees and without a rollback: what the holder of the lease has.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PublishRequest {
    #[serde(default)]
    pub allow_empty: bool,
    #[serde(default)]
    pub user: String,
    /// Made by the client: whoever asks again with it gets the answer to the first question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<Token>,
    /// Trees whose contents are in their buckets already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trees: Vec<UploadedTree>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Rollback>,
    /// Publish what does not compile (D-12).
    #[serde(default, skip_serializing_if = "is_false")]
    pub force: bool,
    /// Only say what would happen.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dry_run: bool,
}

/// A tree by the pages that list it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UploadedTree {
    pub published: Published,
    pub pages: Vec<ContentHash>,
    /// Where it came from, in words.
    #[serde(default)]
    pub source: String,
}

/// D-12: an earlier revision that is to count again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rollback {
    pub published: Published,
    pub revision: u64,
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
    /// The same, asked by this one: whose request it is, the key that signed it says.
    pub fn by(mut self, name: &str) -> AdminRequest {
        match &mut self {
            AdminRequest::Kill { user, .. }
            | AdminRequest::Retry { user, .. }
            | AdminRequest::Publish(PublishRequest { user, .. })
            | AdminRequest::Forget { user, .. }
            | AdminRequest::Enroll { user, .. }
            | AdminRequest::BreakerClose { user, .. } => *user = name.to_string(),
            AdminRequest::ReactorRules | AdminRequest::Unknown => {}
        }
        self
    }

    /// The token of the subject; none for what a newer release asks.
    pub fn verb(&self) -> Option<&'static str> {
        match self {
            AdminRequest::Kill { .. } => Some("kill"),
            AdminRequest::Retry { .. } => Some("retry"),
            AdminRequest::Publish(_) => Some("publish"),
            AdminRequest::Forget { .. } => Some("forget"),
            AdminRequest::ReactorRules => Some("reactor_rules"),
            AdminRequest::BreakerClose { .. } => Some("breaker_close"),
            AdminRequest::Enroll { .. } => Some("enroll"),
            AdminRequest::Unknown => None,
        }
    }
}

impl Message for AdminRequest {
    const NAME: &'static str = "admin request";
}

impl Addressed for AdminRequest {
    fn fits(&self, subject: &Subject) -> bool {
        // What is for the holder of a lease is passed on to it as it came.
        matches!(subject, Subject::Admin { verb } | Subject::Holder { verb, .. } if Some(verb.as_str()) == self.verb())
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
    /// What became of each tree that was to be published.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<PublishReport>,
    /// The rules of the reactor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reactor: Option<RuleList>,
}

impl AdminReply {
    /// What was done, in a sentence.
    pub fn done(message: impl Into<String>) -> AdminReply {
        AdminReply {
            v: crate::VERSION,
            message: message.into(),
            jid: None,
            error: None,
            published: Vec::new(),
            reactor: None,
        }
    }

    pub fn refusing(refusal: Refusal) -> AdminReply {
        AdminReply { error: Some(refusal), ..AdminReply::done("") }
    }
}

impl Message for AdminReply {
    const NAME: &'static str = "admin reply";
}
