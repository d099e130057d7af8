//! Decisions about one record: read, ask the machine, write by comparing.

use super::{audit, standing};
use crate::core::Core;
use zester_bus::Kind;
use zester_identity::enrollment::{self, Decider, NotDone, Transition};
use zester_link::{Error, Found};
use zester_wire::{EnrollDecision, Enrollment, Key, PeelId, Token};

/// Why nothing was decided.
#[derive(Debug)]
pub enum Declined {
    /// There is no such record, or another key has the name by now.
    NoSuch(String),
    /// It is like that already.
    Duplicate(String),
    /// It cannot become that, or the condition does not hold.
    Refused(String),
    /// Somebody else wrote it at the same time, or the bus failed; it may work later.
    Transient(String),
}

impl Declined {
    pub fn words(&self) -> &str {
        match self {
            Declined::NoSuch(words)
            | Declined::Duplicate(words)
            | Declined::Refused(words)
            | Declined::Transient(words) => words,
        }
    }
}

pub fn transient(error: &Error) -> Declined {
    match error.bus_kind() {
        Some(Kind::Conflict) => Declined::Transient("somebody else changed it at the same moment".into()),
        _ => Declined::Transient(error.to_string()),
    }
}

/// The record of a name, as the leader of the bucket has it. One that counts for nobody is put right first: else its peel could
/// never be renewed, and nobody could decide about it.
pub async fn read(core: &Core, peel: &PeelId) -> Result<Option<Found<Enrollment>>, Error> {
    let key = Key::Enrollment(peel.clone());
    let found = core.link.get_latest::<Enrollment>(&key).await;
    match found {
        Err(error) if error.is_disowned() => {
            standing::put_right(core, peel).await?;
            core.link.get_latest::<Enrollment>(&key).await
        }
        found => found,
    }
}

/// A record with a number above all that was seen under its key, whatever our clock says: else it would look like one that was put back.
pub fn numbered(core: &Core, record: Enrollment) -> Enrollment {
    let seen = core.link.newest_number(&Key::Enrollment(record.peel.clone()));
    let least = seen.map_or(0, |seen| seen.saturating_add(1));
    Enrollment { serial: record.serial.max(least), ..record }
}

/// A record that somebody is to decide about, and whether it is older than what was seen before.
struct Asked {
    found: Found<Enrollment>,
    is_older: bool,
}

/// The record of an id: of this key, and not of whoever has the name now. What was put back counts for nobody, and would stand for ever:
/// only an operator's word goes over it.
async fn of_id(core: &Core, id: &Token, who: Who<'_>) -> Result<Asked, Declined> {
    let nobody = || Declined::NoSuch(format!("there is no enrollment {id}"));
    let peel = enrollment::peel_of_id(id.as_str()).ok_or_else(nobody)?;
    let (found, is_older) = match read(core, &peel).await {
        Err(Error::Older { .. }) if who.is_operator => {
            (core.link.get_however_old(&Key::Enrollment(peel.clone())).await, true)
        }
        found => (found, false),
    };
    let found = found.map_err(|error| transient(&error))?.ok_or_else(nobody)?;
    match found.value.id == *id && found.value.peel == peel {
        true => Ok(Asked { found, is_older }),
        false => {
            let now = &found.value.id;
            Err(Declined::NoSuch(format!("{id} is gone: another key asks for that name as {now}")))
        }
    }
}

/// Who decides: by which name the record knows them, and by which the log does.
#[derive(Copy, Clone)]
pub struct Who<'a> {
    pub by: &'a str,
    pub audited: &'a str,
    pub reason: &'a str,
    /// Somebody saw the record and says so, and no rule.
    pub is_operator: bool,
}

/// Takes a decision, if `allowed` lets it: that one sees the very record that is written.
pub async fn decide(
    core: &Core,
    id: &Token,
    decision: EnrollDecision,
    who: Who<'_>,
    allowed: impl FnOnce(&Enrollment) -> Result<(), String>,
) -> Result<Enrollment, Declined> {
    let (what, word) = match decision {
        EnrollDecision::Approve => (Transition::Approve, "enroll.approve"),
        EnrollDecision::Reject => (Transition::Reject, "enroll.reject"),
        EnrollDecision::Revoke => (Transition::Revoke, "enroll.revoke"),
        EnrollDecision::Unknown => {
            return Err(Declined::Refused("this master does not know that decision".into()));
        }
    };
    let Asked { found, is_older } = of_id(core, id, who).await?;
    allowed(&found.value).map_err(Declined::Refused)?;
    let decider = Decider { by: who.by, reason: who.reason };
    let next = match enrollment::step(&found.value, what, decider, core.link.now()) {
        Ok(next) => next,
        // It says so, and nobody believes it: by this word it counts again.
        Err(NotDone::Duplicate(_)) if is_older => found.value.clone(),
        Err(not) => {
            let words = format!("{}: {not}", found.value.peel);
            return Err(match not {
                NotDone::Duplicate(_) => Declined::Duplicate(words),
                NotDone::Unfit { .. } => Declined::Refused(words),
            });
        }
    };
    let next = numbered(core, next);
    let key = Key::Enrollment(next.peel.clone());
    core.link.update(&key, &next, found.revision).await.map_err(|error| transient(&error))?;
    core.enrollments.take(core, &next);
    audit::record(core, &audit::Decided { who: who.audited, what: word, id, reason: who.reason });
    Ok(next)
}
