//! `zester.job.<jid>.progress.<peel>`: one state's result as it ends, for the live view. Not kept by any stream.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::name::{Jid, PeelId};
use crate::subject::Subject;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub jid: Jid,
    pub peel: PeelId,
    #[serde(default)]
    pub dispatch_epoch: u64,
    /// How many states have ended, this one included: what comes out of order is known as such. A state that changed nothing need
    /// not be told.
    pub seq: u64,
    /// States of the run, where that is known.
    #[serde(default)]
    pub total: u64,
    /// The state's document of C-2.
    #[serde(default)]
    pub state: Value,
}

impl Message for Progress {
    const NAME: &'static str = "progress";
}

impl Addressed for Progress {
    fn fits(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::JobProgress { jid, peel } if *jid == self.jid && *peel == self.peel)
    }
}
