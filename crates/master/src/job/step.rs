//! Carrying out one command of the machine. Each is a future of its own, so that messages are taken meanwhile.

use super::history::replay;
use crate::limits::SENDS_AT_A_TIME;
use std::time::Duration;
use zester_bus::Kind;
use zester_jobs::{Event, Failed, Written};
use zester_link::{Error, Link};
use zester_wire::{
    ExecRequest, Job, JobEvent, Key, MessageId, PeelCommand, PeelId, Return, Subject, VERSION,
};
use zester_wire::{Jid, UnixMillis};

/// A command with everything it needs from the job, taken when the machine asked for it.
#[derive(Debug)]
pub enum Step {
    Create(Box<Job>),
    Write { job: Box<Job>, revision: u64 },
    MarkActive(JobEvent),
    Announce(JobEvent),
    Exec { request: Box<ExecRequest>, peels: Vec<PeelId> },
    Cancel { cancel: zester_wire::Cancel, peels: Vec<PeelId> },
    Load(Jid),
    Replay { jid: Jid, dispatch_epoch: u64 },
    Emit { subject: Subject, event: Box<zester_wire::Event> },
    Purge(Jid),
}

/// How a step ended.
#[derive(Debug)]
pub enum Ended {
    /// What the machine is to hear.
    Answer(Event),
    /// Sent to all but these.
    Sent { unsent: Vec<PeelId> },
    /// The record can never be written: too large. The words are for the client.
    Hopeless(String),
}

pub async fn carry_out(link: Link, step: Step) -> Ended {
    match step {
        Step::Create(job) => create(&link, &job).await,
        Step::Write { job, revision } => Ended::Answer(Event::Record(write(&link, *job, revision).await)),
        Step::MarkActive(mark) => {
            let marked = link.create(&Key::Active(mark.jid.clone()), &mark).await;
            let marked = match marked {
                Err(error) if error.is_conflict() => Ok(()),
                other => other.map(|_| ()),
            };
            Ended::Answer(Event::Marked(settled(marked)))
        }
        Step::Announce(event) => Ended::Answer(Event::Announced(settled(announce(&link, event).await))),
        Step::Exec { request, peels } => {
            let command = PeelCommand::Exec(*request);
            Ended::Sent { unsent: send(&link, &command, peels).await }
        }
        Step::Cancel { cancel, peels } => {
            // Who misses it is told again when it connects.
            send(&link, &PeelCommand::Cancel(cancel), peels).await;
            Ended::Sent { unsent: Vec::new() }
        }
        Step::Load(jid) => {
            let loaded = link.returns_of(&jid).await.map_err(|error| log("read the returns", &error));
            Ended::Answer(Event::Loaded(loaded))
        }
        Step::Replay { jid, dispatch_epoch } => {
            let history = replay(&link, &jid, dispatch_epoch).await;
            Ended::Answer(Event::Replayed(history.map_err(|error| log("read the events", &error))))
        }
        Step::Emit { subject, event } => {
            Ended::Answer(Event::Emitted(settled(emit(&link, &subject, &event).await)))
        }
        Step::Purge(jid) => Ended::Answer(Event::Purged(settled(link.purge(&Key::Active(jid)).await))),
    }
}

fn log(what: &str, error: &Error) -> Failed {
    tracing::debug!("could not {what}, will try again: {error}");
    Failed
}

fn settled(result: Result<(), Error>) -> Result<(), Failed> {
    result.map_err(|error| log("take a step of a job", &error))
}

async fn create(link: &Link, job: &Job) -> Ended {
    let key = Key::Job(job.jid.clone());
    let written = match link.create(&key, job).await {
        Ok(revision) => Written::Done { revision },
        Err(error) if error.is_conflict() => found(link, &key).await,
        Err(error) if is_too_large(&error) => return Ended::Hopeless(error.to_string()),
        Err(error) => failed(&error),
    };
    Ended::Answer(Event::Record(written))
}

async fn write(link: &Link, job: Job, revision: u64) -> Written {
    let key = Key::Job(job.jid.clone());
    let mut result = link.update(&key, &job, revision).await;
    if result.as_ref().is_err_and(is_too_large) {
        // Who is missing can be told from the returns; that the job ended cannot be told otherwise.
        let shorter = Job { missing: Default::default(), ..job };
        result = link.update(&key, &shorter, revision).await;
    }
    match result {
        Ok(revision) => Written::Done { revision },
        Err(error) if error.is_conflict() => found(link, &key).await,
        Err(error) => failed(&error),
    }
}

fn failed(error: &Error) -> Written {
    log("write the record", error);
    Written::Failed
}

/// What stands there instead. A record that cannot be read is no answer.
async fn found(link: &Link, key: &Key) -> Written {
    match link.get::<Job>(key).await {
        Ok(found) => Written::Conflict { found: found.map(|found| (Box::new(found.value), found.revision)) },
        Err(error) => failed(&error),
    }
}

fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::Encode(_)) || error.bus_kind() == Some(Kind::TooLarge)
}

async fn announce(link: &Link, event: JobEvent) -> Result<(), Error> {
    let subject = Subject::JobDispatch { jid: event.jid.clone() };
    link.publish_stored(&subject, &link.new_message_id()?, &event).await.map(|_| ())
}

async fn emit(link: &Link, subject: &Subject, event: &zester_wire::Event) -> Result<(), Error> {
    let bad = |bad: zester_wire::BadName| zester_bus::Error::new(Kind::Invalid, bad.to_string());
    let id = MessageId::parse(&event.id).map_err(bad)?;
    link.publish_stored(subject, &id, event).await.map(|_| ())
}

/// Sends to each, in turn with other work. Gives back whom it could not be sent to.
async fn send(link: &Link, command: &PeelCommand, peels: Vec<PeelId>) -> Vec<PeelId> {
    let mut unsent = Vec::new();
    for (count, peel) in peels.into_iter().enumerate() {
        if let Err(error) = link.publish(&Subject::Command { peel: peel.clone() }, command).await {
            tracing::debug!(%peel, "a command was not sent: {error}");
            unsent.push(peel);
        }
        if count % SENDS_AT_A_TIME == SENDS_AT_A_TIME - 1 {
            tokio::task::yield_now().await;
        }
    }
    unsent
}

/// Stores a return, once (J-9). The first stands.
pub async fn persist(link: Link, ret: Box<Return>, pause: Duration) -> Event {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    let key = Key::Return(ret.jid.clone(), ret.peel.clone());
    match link.create(&key, ret.as_ref()).await {
        Ok(_) => Event::Persisted { peel: ret.peel },
        Err(error) if error.is_conflict() => Event::Persisted { peel: ret.peel },
        Err(error) if is_too_large(&error) && !ret.answer.is_null() => {
            // Its envelope as a record is larger than it was as a message. What it says matters less than that it is there.
            tracing::warn!(%key, "a return does not fit into its bucket; only how it ended is kept: {error}");
            let short = Return { answer: serde_json::Value::Null, truncated: true, ..*ret };
            Event::PersistFailed { ret: Box::new(short) }
        }
        Err(error) => {
            log("store a return", &error);
            Event::PersistFailed { ret }
        }
    }
}

/// What `active.<jid>` holds: who marked it, for whoever looks. Only the key matters.
pub fn mark(job: &Job, now: UnixMillis) -> JobEvent {
    JobEvent { v: VERSION, ..zester_jobs::messages::dispatch_event(job, now) }
}
