//! `zester.job.<jid>.ack.<peel>`: the peel has it, and it is on disk there.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::name::{Jid, PeelId};
use crate::subject::Subject;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ack {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub jid: Jid,
    pub peel: PeelId,
    pub dispatch_epoch: u64,
    #[serde(default)]
    pub ts: UnixMillis,
    /// How many executions stand before it.
    #[serde(default)]
    pub ahead: u32,
}

impl Message for Ack {
    const NAME: &'static str = "ack";
}

impl Addressed for Ack {
    fn fits(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::JobAck { jid, peel } if *jid == self.jid && *peel == self.peel)
    }
}
