//! `zester.notify.<what>`: there is a new revision of files or settings. A hint; the bucket is the truth.

use crate::codec::Message;
use crate::name::Token;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    #[serde(default = "crate::version")]
    pub v: u32,
    pub bucket: Token,
    pub revision: u64,
}

impl Message for Notice {
    const NAME: &'static str = "notice";
}
