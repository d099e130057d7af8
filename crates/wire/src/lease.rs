//! Bucket `leases`: who may do what only one master does at a time.

use crate::codec::{Message, Serial};
use crate::job::is_zero;
use crate::name::{MasterId, Token};
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub name: Token,
    pub holder: MasterId,
    #[serde(default)]
    pub since: UnixMillis,
    /// How often this holder has written it: one that comes back later is told from the newest (I-12). Zero: an older release.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub serial: u64,
}

impl Message for Lease {
    const NAME: &'static str = "lease";

    fn serial(&self) -> Option<Serial> {
        (self.serial > 0).then(|| Serial {
            line: self.holder.to_string(),
            number: [self.serial, 0, 0, 0],
            is_unique: true,
        })
    }
}
