//! What a rendered reaction file asks for: blocks of one action each, validated before anything of them is done.

mod read;
mod whom;

pub use read::read;

use serde_json::{Map, Value, json};
use std::time::Duration;
use zester_wire::Tag;

/// A block with its id.
#[derive(Clone, Debug, PartialEq)]
pub struct Block {
    pub id: String,
    pub action: Action,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `dispatch.module`, `dispatch.state`, `local.<mod.fn>`.
    Dispatch(Dispatch),
    /// `enroll.approve|reject|revoke`.
    Enroll(Enroll),
    /// `event.send`.
    Send { tag: Tag, data: Map<String, Value> },
    /// `log`.
    Log { level: LogLevel, message: String },
}

/// A job to start.
#[derive(Clone, Debug, PartialEq)]
pub struct Dispatch {
    /// As the file calls it, for people: `local.cmd.run`.
    pub word: String,
    /// A target expression; it parses.
    pub target: String,
    pub function: String,
    pub args: Map<String, Value>,
    /// The first positional.
    pub state_id: String,
    /// Further positionals.
    pub positionals: Vec<Value>,
    /// Zero: as long as jobs have when nobody says.
    pub timeout: Duration,
    /// With more targets than this nothing is done.
    pub max_targets: Option<u64>,
    /// A dry run.
    pub test: bool,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum EnrollVerb {
    Approve,
    Reject,
    Revoke,
}

impl EnrollVerb {
    pub fn as_str(self) -> &'static str {
        match self {
            EnrollVerb::Approve => "enroll.approve",
            EnrollVerb::Reject => "enroll.reject",
            EnrollVerb::Revoke => "enroll.revoke",
        }
    }
}

/// A change to who may be a peel.
#[derive(Clone, Debug, PartialEq)]
pub struct Enroll {
    pub verb: EnrollVerb,
    /// Of the enrollment record.
    pub id: String,
    /// A glob that the record's peel id must match.
    pub require_peel: String,
    pub require_token: Option<String>,
    pub require_ip: Option<String>,
    pub reason: String,
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    Debug,
    #[default]
    Info,
    Warning,
    Error,
}

impl LogLevel {
    pub const WORDS: [(&'static str, LogLevel); 5] = [
        ("debug", LogLevel::Debug),
        ("info", LogLevel::Info),
        ("warning", LogLevel::Warning),
        ("warn", LogLevel::Warning),
        ("error", LogLevel::Error),
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            LogLevel::Debug => "debug",
            LogLevel::Info => "info",
            LogLevel::Warning => "warning",
            LogLevel::Error => "error",
        }
    }
}

impl Action {
    /// As the file calls it.
    pub fn word(&self) -> &str {
        match self {
            Action::Dispatch(dispatch) => &dispatch.word,
            Action::Enroll(enroll) => enroll.verb.as_str(),
            Action::Send { .. } => "event.send",
            Action::Log { .. } => "log",
        }
    }

    /// All of it, for people who test a rule.
    pub fn shown(&self) -> Map<String, Value> {
        let shown = match self {
            Action::Dispatch(dispatch) => json!({
                "target": dispatch.target,
                "function": dispatch.function,
                "state_id": dispatch.state_id,
                "positionals": dispatch.positionals,
                "args": dispatch.args,
                "timeout": dispatch.timeout.as_secs_f64(),
                "max_targets": dispatch.max_targets,
                "test": dispatch.test,
            }),
            Action::Enroll(enroll) => json!({
                "id": enroll.id,
                "require_peel": enroll.require_peel,
                "require_token": enroll.require_token.is_some(),
                "require_ip": enroll.require_ip,
                "reason": enroll.reason,
            }),
            Action::Send { tag, data } => json!({"tag": tag.as_str(), "data": data}),
            Action::Log { level, message } => json!({"level": level.as_str(), "message": message}),
        };
        let said = |value: &Value| match value {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            Value::Object(map) => !map.is_empty(),
            Value::Number(number) => number.as_f64() != Some(0.0),
            Value::Bool(true) => true,
        };
        match shown {
            Value::Object(map) => map.into_iter().filter(|(_, value)| said(value)).collect(),
            _ => Map::new(),
        }
    }
}
