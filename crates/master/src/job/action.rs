//! Carrying out one command of the machine. Each is a future of its own, so that messages are taken meanwhile.

use super::history::replay;
use crate::core::Core;
use crate::limits::SENDS_AT_A_TIME;
use std::collections::HashSet;
use std::sync::Arc;
use zester_bus::Kind;
use zester_jobs::{Event, Failed, Written};
use zester_link::{Error, Found, Link};
use zester_wire::{
    Bucket, ExecRequest, Job, JobEvent, Key, PeelCommand, PeelId, Refusal, RefusalKind, Subject, TargetTree,
    VERSION,
};
use zester_wire::{Jid, UnixMillis};

/// A command with everything it needs from the job, taken when the machine asked for it.
#[derive(Debug)]
pub enum Action {
    Create(Box<Job>),
    Write { job: Box<Job>, revision: u64 },
    MarkActive(JobEvent),
    Announce(JobEvent),
    Exec { request: Box<ExecRequest>, peels: Vec<PeelId>, tree: Option<Arc<TargetTree>> },
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
}

pub async fn carry_out(core: Arc<Core>, step: Action) -> Ended {
    let link = core.link.clone();
    match step {
        Action::Create(job) => Ended::Answer(Event::Record(create(&core, &job).await)),
        Action::Write { job, revision } => Ended::Answer(Event::Record(write(&core, *job, revision).await)),
        Action::MarkActive(mark) => {
            let marked = link.create(&Key::Active(mark.jid.clone()), &mark).await;
            let marked = match marked {
                Err(error) if error.is_conflict() => Ok(()),
                other => other.map(|_| ()),
            };
            Ended::Answer(Event::Marked(settled(marked)))
        }
        Action::Announce(event) => Ended::Answer(Event::Announced(settled(announce(&link, event).await))),
        Action::Exec { request, peels, tree } => {
            let mut command = PeelCommand::Exec(*request);
            let prove = |command: &mut PeelCommand, peel: &PeelId| {
                if let PeelCommand::Exec(request) = command {
                    request.proof = tree.as_ref().and_then(|tree| tree.proof(peel));
                }
            };
            let unsent = send(&link, &mut command, prove, &peels).await;
            // Only who was asked can be missed for not answering.
            let not_asked: HashSet<&PeelId> = unsent.iter().collect();
            core.index.presence().expect_answers(peels.iter().filter(|peel| !not_asked.contains(peel)));
            Ended::Sent { unsent }
        }
        Action::Cancel { cancel, peels } => {
            // Who misses it is told again when it connects.
            send(&link, &mut PeelCommand::Cancel(cancel), |_, _| {}, &peels).await;
            Ended::Sent { unsent: Vec::new() }
        }
        Action::Load(jid) => {
            let loaded = link.returns_of(&jid).await.map_err(|error| log("read the returns", &error));
            Ended::Answer(Event::Loaded(loaded))
        }
        Action::Replay { jid, dispatch_epoch } => {
            let history = replay(&link, &jid, dispatch_epoch).await;
            Ended::Answer(Event::Replayed(history.map_err(|error| log("read the events", &error))))
        }
        Action::Emit { subject, event } => {
            // Not by its id, which the stream forgets after a while: an adopter may come later than that (J-19).
            let emitted = match link.publish_first(&subject, &*event).await {
                Err(error) if error.is_conflict() => Ok(()),
                other => other.map(|_| ()),
            };
            Ended::Answer(Event::Emitted(settled(emitted)))
        }
        Action::Purge(jid) => Ended::Answer(Event::Purged(settled(link.purge(&Key::Active(jid)).await))),
    }
}

pub(super) fn log(what: &str, error: &Error) -> Failed {
    tracing::debug!("could not {what}, will try again: {error}");
    Failed
}

fn settled(result: Result<(), Error>) -> Result<(), Failed> {
    result.map_err(|error| log("take a step of a job", &error))
}

async fn create(core: &Core, job: &Job) -> Written {
    let key = Key::Job(job.jid.clone());
    if let Some(list) = &job.target_list
        && let Err(error) = core.link.store_targets(job, list).await
    {
        return match core.stores.refused(Bucket::JobTargets.as_str(), &error) {
            Some(refusal) => Written::Refused(refusal),
            None => failed(&error),
        };
    }
    let job = &job.recorded();
    written(core, &key, core.link.create(&key, job).await).await
}

async fn write(core: &Core, job: Job, revision: u64) -> Written {
    let key = Key::Job(job.jid.clone());
    let job = job.recorded();
    let mut result = core.link.update(&key, &job, revision).await;
    if result.as_ref().is_err_and(Error::is_conflict)
        && let Err(Error::Older { revision, .. }) = core.link.get_latest::<Job>(&key).await
        && core.link.is_newest(&key, &job)
    {
        tracing::warn!(%key, "an older record of a job was put back; it is written over");
        result = core.link.update(&key, &job, revision).await;
    }
    if result.as_ref().is_err_and(is_too_large) {
        // Who is missing can be told from the returns; that the job ended cannot be told otherwise.
        let shorter = Job { missing: Default::default(), ..job };
        result = core.link.update(&key, &shorter, revision).await;
    }
    written(core, &key, result).await
}

/// How a write of a record ended. Only what certainly was not written is refused; silence is no answer.
async fn written(core: &Core, key: &Key, result: Result<u64, Error>) -> Written {
    let error = match result {
        Ok(revision) => return Written::Done { revision },
        Err(error) => error,
    };
    if error.is_conflict() {
        // From the leader: a stale value here would have an owner take its own job for another's (J-13).
        return match latest(core, key).await {
            Ok(found) => {
                Written::Conflict { found: found.map(|found| (Box::new(found.value), found.revision)) }
            }
            Err(error) => failed(&error),
        };
    }
    if is_too_large(&error) {
        let why = format!("the job cannot be recorded: {error}");
        return Written::Refused(Refusal::new(RefusalKind::Invalid, why));
    }
    match core.stores.refused(key.bucket().as_str(), &error) {
        Some(refusal) => Written::Refused(refusal),
        None => failed(&error),
    }
}

async fn latest(core: &Core, key: &Key) -> Result<Option<Found<Job>>, Error> {
    match key {
        Key::Job(jid) => core.link.job_latest(jid).await,
        _ => Ok(None),
    }
}

fn failed(error: &Error) -> Written {
    log("write the record", error);
    Written::Failed
}

pub(super) fn is_too_large(error: &Error) -> bool {
    matches!(error, Error::Encode(_)) || error.bus_kind() == Some(Kind::TooLarge)
}

async fn announce(link: &Link, event: JobEvent) -> Result<(), Error> {
    let subject = Subject::JobDispatch { jid: event.jid.clone() };
    link.publish_stored(&subject, &link.new_message_id()?, &event).await.map(|_| ())
}

/// Sends to each, in turn with other work. Gives back whom it could not be sent to.
async fn send(
    link: &Link,
    command: &mut PeelCommand,
    address: impl Fn(&mut PeelCommand, &PeelId),
    peels: &[PeelId],
) -> Vec<PeelId> {
    let mut unsent = Vec::new();
    for (count, peel) in peels.iter().enumerate() {
        address(command, peel);
        if let Err(error) = link.publish(&Subject::Command { peel: peel.clone() }, command).await {
            tracing::debug!(%peel, "a command was not sent: {error}");
            unsent.push(peel.clone());
        }
        if count % SENDS_AT_A_TIME == SENDS_AT_A_TIME - 1 {
            tokio::task::yield_now().await;
        }
    }
    unsent
}

/// What `active.<jid>` holds: who marked it, for whoever looks. Only the key matters.
pub fn mark(job: &Job, now: UnixMillis) -> JobEvent {
    JobEvent { v: VERSION, ..zester_jobs::messages::dispatch_event(job, now) }
}
