//! Bucket `leases`: who may do what only one master does at a time.

use crate::codec::Message;
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
}

impl Message for Lease {
    const NAME: &'static str = "lease";
}
