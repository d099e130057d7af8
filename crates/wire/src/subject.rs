//! Subjects: built here, parsed here, and nowhere else. Every variable part is a parsed name, so no value can add a token,
//! a wildcard or a `$` to a subject.

use crate::limits::SUBJECT_BYTES_MAX;
use crate::name::{BadName, Jid, MasterId, PeelId, Tag, Token};
use std::fmt;

/// The queue group of the masters.
pub const MASTERS: &str = "zester.masters";
/// The queue group that answers `zester.reactor.test`.
pub const REACTOR_TESTERS: &str = "zester-reactor-testers";

/// What the stream `job-events` keeps. Progress is for the moment only.
pub const JOB_EVENTS: &[&str] = &[
    "zester.job.*.dispatch",
    "zester.job.*.status",
    "zester.job.*.cancel",
    "zester.job.*.ack.*",
    "zester.job.*.return.*",
    "zester.job.*.schedule.*",
];
/// What the stream `events` keeps.
pub const EVENTS: &str = "zester.event.>";
/// What the stream `reactor-ledger` keeps.
pub const LEDGER: &str = "zester.ledger.>";
pub const AUDIT: &str = "zester.audit.>";

/// What all starts of one master wrote.
pub fn audit_of(master: &str) -> String {
    format!("zester.audit.{master}.*")
}
/// Every admin verb.
pub const ALL_ADMIN: &str = "zester.admin.*";
/// Every notice.
pub const ALL_NOTICES: &str = "zester.notify.*";
/// The acks of every job.
pub const ALL_ACKS: &str = "zester.job.*.ack.*";
/// The returns of every job.
pub const ALL_RETURNS: &str = "zester.job.*.return.*";
/// The results of every schedule.
pub const ALL_SCHEDULED: &str = "zester.job.*.schedule.*";
/// The heartbeats of every peel.
pub const ALL_HEARTBEATS: &str = "zester.heartbeat.*";
/// The cancels of every job.
pub const ALL_CANCELS: &str = "zester.job.*.cancel";

/// What the reactor decided about the events of one origin.
pub fn ledger_of(origin: &Token) -> String {
    format!("zester.ledger.{origin}.*")
}

/// What the reactor decided about one event, whoever sent it.
pub fn ledger_of_event(event_id: &str) -> Result<String, BadName> {
    Ok(format!("zester.ledger.*.{}", crate::ledger::token_of(event_id)?))
}

/// Every request that is for the holder of a lease.
pub fn all_of_holder(lease: &Token) -> String {
    format!("zester.holder.{lease}.*")
}

/// Everything about one job.
pub fn all_of_job(jid: &Jid) -> String {
    format!("zester.job.{jid}.>")
}

/// The live view of one job.
pub fn all_progress(jid: &Jid) -> String {
    format!("zester.job.{jid}.progress.*")
}

/// The result of one scheduled run.
pub fn all_scheduled(jid: &Jid) -> String {
    format!("zester.job.{jid}.schedule.*")
}

/// The returns of one job.
pub fn all_returns(jid: &Jid) -> String {
    format!("zester.job.{jid}.return.*")
}

/// A subject that is none of ours, or not well-formed.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct BadSubject {
    pub why: &'static str,
}

impl fmt::Display for BadSubject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "malformed subject: {}", self.why)
    }
}

impl std::error::Error for BadSubject {}

impl From<BadName> for BadSubject {
    fn from(bad: BadName) -> BadSubject {
        BadSubject { why: bad.why }
    }
}

/// Where a message goes, or came from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Subject {
    Dispatch,
    Command {
        peel: PeelId,
    },
    JobDispatch {
        jid: Jid,
    },
    JobStatus {
        jid: Jid,
    },
    JobCancel {
        jid: Jid,
    },
    JobAck {
        jid: Jid,
        peel: PeelId,
    },
    JobReturn {
        jid: Jid,
        peel: PeelId,
    },
    JobProgress {
        jid: Jid,
        peel: PeelId,
    },
    /// The return of a job that the peel's own schedule started (D-10).
    JobSchedule {
        jid: Jid,
        peel: PeelId,
    },
    Admin {
        verb: Token,
    },
    /// An admin request on its way to the master that holds a lease.
    Holder {
        lease: Token,
        verb: Token,
    },
    TargetResolve,
    /// Which peels there are, and how they are.
    PeelList,
    Heartbeat {
        peel: PeelId,
    },
    Notify {
        what: Token,
    },
    ReactorTest,
    /// What was decided about one event.
    Ledger {
        origin: Token,
        /// Of the event id.
        token: Token,
    },
    /// What one start of a master decided (I-6).
    Audit {
        master: MasterId,
    },
    Event(EventSubject),
}

/// The four shapes of R-1.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum EventSubject {
    Send { peel: PeelId, tag: Tag },
    Beacon { peel: PeelId, name: Token },
    Master { tag: Tag },
    Admin { tag: Tag },
}

/// Who sent an event, by its subject.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    Peel(PeelId),
    Master,
    Admin,
}

impl fmt::Display for Origin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Peel(peel) => out.write_str(peel.as_str()),
            Origin::Master => out.write_str("_master"),
            Origin::Admin => out.write_str("_admin"),
        }
    }
}

impl EventSubject {
    pub fn origin(&self) -> Origin {
        match self {
            EventSubject::Send { peel, .. } | EventSubject::Beacon { peel, .. } => Origin::Peel(peel.clone()),
            EventSubject::Master { .. } => Origin::Master,
            EventSubject::Admin { .. } => Origin::Admin,
        }
    }

    /// The tag that the payload must repeat.
    pub fn tag(&self) -> Tag {
        match self {
            EventSubject::Send { tag, .. } | EventSubject::Master { tag } | EventSubject::Admin { tag } => {
                tag.clone()
            }
            EventSubject::Beacon { peel, name } => Tag::beacon(peel, name),
        }
    }

    /// What the globs of rules are matched against: `<origin>/<tag>`.
    pub fn match_key(&self) -> String {
        format!("{}/{}", self.origin(), self.tag())
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Dispatch => out.write_str("zester.dispatch"),
            Subject::Command { peel } => write!(out, "zester.cmd.{peel}"),
            Subject::JobDispatch { jid } => write!(out, "zester.job.{jid}.dispatch"),
            Subject::JobStatus { jid } => write!(out, "zester.job.{jid}.status"),
            Subject::JobCancel { jid } => write!(out, "zester.job.{jid}.cancel"),
            Subject::JobAck { jid, peel } => write!(out, "zester.job.{jid}.ack.{peel}"),
            Subject::JobReturn { jid, peel } => write!(out, "zester.job.{jid}.return.{peel}"),
            Subject::JobProgress { jid, peel } => write!(out, "zester.job.{jid}.progress.{peel}"),
            Subject::JobSchedule { jid, peel } => write!(out, "zester.job.{jid}.schedule.{peel}"),
            Subject::Admin { verb } => write!(out, "zester.admin.{verb}"),
            Subject::Holder { lease, verb } => write!(out, "zester.holder.{lease}.{verb}"),
            Subject::TargetResolve => out.write_str("zester.target.resolve"),
            Subject::PeelList => out.write_str("zester.peel.list"),
            Subject::Heartbeat { peel } => write!(out, "zester.heartbeat.{peel}"),
            Subject::Notify { what } => write!(out, "zester.notify.{what}"),
            Subject::ReactorTest => out.write_str("zester.reactor.test"),
            Subject::Ledger { origin, token } => write!(out, "zester.ledger.{origin}.{token}"),
            Subject::Audit { master } => write!(out, "zester.audit.{master}"),
            Subject::Event(event) => write!(out, "zester.event.{event}"),
        }
    }
}

impl fmt::Display for EventSubject {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventSubject::Send { peel, tag } => write!(out, "{peel}.send.{}", tag.dotted()),
            EventSubject::Beacon { peel, name } => write!(out, "{peel}.beacon.{name}"),
            EventSubject::Master { tag } => write!(out, "_master.{}", tag.dotted()),
            EventSubject::Admin { tag } => write!(out, "_admin.send.{}", tag.dotted()),
        }
    }
}

impl Subject {
    pub fn parse(text: &str) -> Result<Subject, BadSubject> {
        if text.len() > SUBJECT_BYTES_MAX {
            return Err(BadSubject { why: "it is longer than 1024 characters" });
        }
        let tokens: Vec<&str> = text.split('.').collect();
        let subject = match tokens.as_slice() {
            ["zester", "dispatch"] => Subject::Dispatch,
            ["zester", "cmd", peel] => Subject::Command { peel: PeelId::parse(peel)? },
            ["zester", "job", jid, "dispatch"] => Subject::JobDispatch { jid: Jid::parse(jid)? },
            ["zester", "job", jid, "status"] => Subject::JobStatus { jid: Jid::parse(jid)? },
            ["zester", "job", jid, "cancel"] => Subject::JobCancel { jid: Jid::parse(jid)? },
            ["zester", "job", jid, verb, peel] => {
                parse_of_peel(verb, Jid::parse(jid)?, PeelId::parse(peel)?)?
            }
            ["zester", "admin", verb] => Subject::Admin { verb: Token::parse(verb)? },
            ["zester", "holder", lease, verb] => {
                Subject::Holder { lease: Token::parse(lease)?, verb: Token::parse(verb)? }
            }
            ["zester", "target", "resolve"] => Subject::TargetResolve,
            ["zester", "peel", "list"] => Subject::PeelList,
            ["zester", "heartbeat", peel] => Subject::Heartbeat { peel: PeelId::parse(peel)? },
            ["zester", "notify", what] => Subject::Notify { what: Token::parse(what)? },
            ["zester", "reactor", "test"] => Subject::ReactorTest,
            ["zester", "ledger", origin, token] => {
                Subject::Ledger { origin: Token::parse(origin)?, token: Token::parse(token)? }
            }
            ["zester", "audit", name, boot] => Subject::Audit { master: MasterId::new(name, boot)? },
            ["zester", "event", rest @ ..] => Subject::Event(parse_event(rest)?),
            _ => return Err(BadSubject { why: "it has none of our shapes" }),
        };
        Ok(subject)
    }
}

fn parse_of_peel(verb: &str, jid: Jid, peel: PeelId) -> Result<Subject, BadSubject> {
    match verb {
        "ack" => Ok(Subject::JobAck { jid, peel }),
        "return" => Ok(Subject::JobReturn { jid, peel }),
        "progress" => Ok(Subject::JobProgress { jid, peel }),
        "schedule" => Ok(Subject::JobSchedule { jid, peel }),
        _ => Err(BadSubject { why: "a job has no such message" }),
    }
}

fn parse_event(tokens: &[&str]) -> Result<EventSubject, BadSubject> {
    match tokens {
        ["_master", tag @ ..] => Ok(EventSubject::Master { tag: Tag::of_segments(tag)? }),
        ["_admin", "send", tag @ ..] => Ok(EventSubject::Admin { tag: Tag::of_segments(tag)? }),
        [peel, "send", tag @ ..] => {
            Ok(EventSubject::Send { peel: PeelId::parse(peel)?, tag: Tag::of_segments(tag)? })
        }
        [peel, "beacon", name] => {
            Ok(EventSubject::Beacon { peel: PeelId::parse(peel)?, name: Token::parse(name)? })
        }
        _ => Err(BadSubject { why: "no event has this shape" }),
    }
}
