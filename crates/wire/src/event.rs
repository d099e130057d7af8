//! `zester.event.>`: what the reactor reacts to.

use crate::codec::Message;
use crate::envelope::Addressed;
use crate::name::Tag;
use crate::subject::Subject;
use crate::time::UnixMillis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    pub id: String,
    pub tag: Tag,
    #[serde(default)]
    pub data: Map<String, Value>,
    #[serde(default)]
    pub ts: UnixMillis,
    #[serde(default = "crate::version")]
    pub v: u32,
    /// For people; who sent it is what the subject says.
    #[serde(default)]
    pub origin: String,
    #[serde(default)]
    pub depth: u32,
}

impl Message for Event {
    const NAME: &'static str = "event";
}

impl Addressed for Event {
    fn fits(&self, subject: &Subject) -> bool {
        matches!(subject, Subject::Event(event) if event.tag() == self.tag)
    }
}
