//! Who must have signed what stands on a subject or under a key (I-8, I-12). A new subject or key without a line here does not
//! compile.

use std::fmt;
use zester_wire::{EventSubject, Key, PeelId, Subject};

/// What a member of the fleet is.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    Peel,
    Master,
    Admin,
    /// An operator who may do what its roles allow, and nothing else (I-14).
    Operator,
}

impl fmt::Display for Role {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Role::Peel => "peel",
            Role::Master => "master",
            Role::Admin => "admin",
            Role::Operator => "operator",
        })
    }
}

/// Who signed a message: what comes out of every one that is opened.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Principal {
    pub role: Role,
    pub name: String,
    /// Its public key: names are labels.
    pub key: String,
}

impl fmt::Display for Principal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.role, self.name)
    }
}

/// Who may speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Speaker {
    /// This one and no other.
    Peel(PeelId),
    Master,
    /// Admins and operators: what these may do, whoever acts on it asks their roles.
    Admin,
    /// Masters, and admins for what they do past the masters.
    Command,
    /// Whoever is a member.
    Anybody,
}

impl Speaker {
    pub fn of_subject(subject: &Subject) -> Speaker {
        match subject {
            Subject::Dispatch | Subject::Admin { .. } | Subject::ReactorTest => Speaker::Admin,
            Subject::Command { .. } => Speaker::Command,
            Subject::JobDispatch { .. }
            | Subject::JobStatus { .. }
            | Subject::JobCancel { .. }
            | Subject::Holder { .. }
            | Subject::Ledger { .. }
            | Subject::Audit { .. } => Speaker::Master,
            Subject::JobAck { peel, .. }
            | Subject::JobReturn { peel, .. }
            | Subject::JobProgress { peel, .. }
            | Subject::JobSchedule { peel, .. }
            | Subject::Heartbeat { peel } => Speaker::Peel(peel.clone()),
            Subject::Event(event) => match event {
                EventSubject::Send { peel, .. } | EventSubject::Beacon { peel, .. } => {
                    Speaker::Peel(peel.clone())
                }
                EventSubject::Master { .. } => Speaker::Master,
                EventSubject::Admin { .. } => Speaker::Admin,
            },
            // A notice only says where to look, and what is found there is proven by itself.
            Subject::Notify { .. } | Subject::TargetResolve | Subject::PeelList => Speaker::Anybody,
        }
    }

    /// Who writes the record of a key. Contents are proven by their hash, the roster by the anchor: neither is in an envelope.
    pub fn of_key(key: &Key) -> Speaker {
        match key {
            Key::Job(_)
            | Key::Active(_)
            | Key::Return(..)
            | Key::TargetPage(..)
            | Key::Master(_)
            | Key::Lease(_)
            | Key::Content(..)
            | Key::Manifest(_)
            | Key::ManifestOf(..)
            | Key::Revision(_)
            | Key::Roster
            | Key::Enrollment(_)
            | Key::JoinToken(_) => Speaker::Master,
            Key::Peel(peel) | Key::Facts(peel) => Speaker::Peel(peel.clone()),
        }
    }

    pub fn is(&self, who: &Principal) -> bool {
        match self {
            Speaker::Peel(peel) => who.role == Role::Peel && who.name == peel.as_str(),
            Speaker::Master => who.role == Role::Master,
            Speaker::Admin => matches!(who.role, Role::Admin | Role::Operator),
            Speaker::Command => who.role != Role::Peel,
            Speaker::Anybody => true,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use crate::grants::{self, Act};
    use zester_rule::rule;

    fn who(role: Role, name: &str) -> Principal {
        Principal { role, name: name.into(), key: String::new() }
    }

    const JID: &str = "2hPx2Kd8VnR7YmWqTz4PLsCfNjA";

    fn everybody() -> [Principal; 5] {
        [
            who(Role::Peel, "web-1"),
            who(Role::Peel, "web-2"),
            who(Role::Master, "m1"),
            who(Role::Admin, "ann"),
            who(Role::Operator, "bob"),
        ]
    }

    /// One subject of every shape, about the peel web-1.
    fn subjects() -> Vec<String> {
        let of_jobs =
            ["dispatch", "status", "cancel", "ack.web-1", "return.web-1", "progress.web-1", "schedule.web-1"];
        let mut all: Vec<String> = of_jobs.iter().map(|what| format!("zester.job.{JID}.{what}")).collect();
        all.extend(
            [
                "zester.dispatch",
                "zester.cmd.web-1",
                "zester.admin.kill",
                "zester.holder.publisher.publish",
                "zester.target.resolve",
                "zester.peel.list",
                "zester.heartbeat.web-1",
                "zester.reactor.test",
                "zester.ledger.web-1.x",
                "zester.audit.m1.boot",
                "zester.event.web-1.send.x",
                "zester.event.web-1.beacon.load",
                "zester.event._master.x",
                "zester.event._admin.send.x",
            ]
            .map(String::from),
        );
        all
    }

    #[test]
    #[rule("I-8")]
    fn i8_who_may_be_believed_on_a_subject_is_who_the_server_lets_publish_there() {
        for text in subjects() {
            let speaker = Speaker::of_subject(&Subject::parse(&text).unwrap());
            for who in everybody() {
                let granted = grants::allows(who.role, Act::Publish, &who.name, &text);
                // Whoever may publish is believed, and nobody else, but that anybody may ask what anybody may know.
                assert!(!granted || speaker.is(&who), "{who} may publish {text} and is not believed");
                assert!(granted || !speaker.is(&who) || speaker == Speaker::Anybody, "{who} {text}");
            }
        }
    }

    #[test]
    #[rule("I-12")]
    fn i12_who_may_be_believed_in_a_bucket_may_write_there() {
        let (peel, jid) = (PeelId::parse("web-1").unwrap(), zester_wire::Jid::parse(JID).unwrap());
        let keys = [
            Key::Job(jid.clone()),
            Key::Active(jid.clone()),
            Key::Return(jid, peel.clone()),
            Key::Peel(peel.clone()),
            Key::Facts(peel.clone()),
            Key::Enrollment(peel),
            Key::JoinToken(zester_wire::Token::parse("x").unwrap()),
            Key::Revision(zester_wire::Published::States),
        ];
        for key in keys {
            let speaker = Speaker::of_key(&key);
            for who in everybody() {
                let granted = grants::allows(who.role, Act::Publish, &who.name, &key.subject());
                assert!(granted || !speaker.is(&who), "{who} is believed at {key} and may not write there");
            }
            assert!(!speaker.is(&who(Role::Peel, "web-2")) && !speaker.is(&who(Role::Admin, "ann")));
        }
    }
}
