//! `zester.admin.<verb>`: cancel a job (J-11), repeat a part of one (J-18).

use super::dispatch;
use crate::core::Core;
use crate::job::{Asker, Mail};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use zester_bus::Message;
use zester_jobs::intake::may_cancel;
use zester_jobs::{messages, retry};
use zester_link::Error;
use zester_wire::{
    AdminReply, AdminRequest, DispatchRequest, Jid, Job, Key, PeelCommand, Refusal, RefusalKind, RetryPart,
    Subject, VERSION,
};

/// Verbs that are granted, for those who ask for another.
const KNOWN: &str = "known are kill and retry";

pub async fn handle(core: Arc<Core>, message: Message) {
    let Some(subject) = core.link.subject_of(&message) else { return };
    let opened = core.link.open::<AdminRequest>(&message.subject, &message.payload);
    let Some(opened) = opened else { return };
    let reply = message.reply;
    if matches!(opened.message, AdminRequest::Unknown) {
        return refuse(&core, reply.as_deref(), not_built(&subject)).await;
    }
    // The verb inside is what was signed; it must be that of the subject.
    let Some(opened) = core.link.open_addressed::<AdminRequest>(&subject, &message.payload) else { return };
    match opened.message {
        AdminRequest::Kill { jid, user, .. } => {
            let (message, error) = match kill(&core, &jid, user).await {
                Ok(sentence) => (sentence, None),
                Err(refusal) => (String::new(), Some(refusal)),
            };
            let message = AdminReply { v: VERSION, message, jid: Some(jid), error };
            core.answer(reply.as_deref(), &message).await;
        }
        AdminRequest::Retry { jid, new_jid, part, user } => {
            match again(&core, &jid, new_jid, part, user).await {
                Ok(request) => {
                    let count = request.targets.len();
                    let peels = if count == 1 { "peel" } else { "peels" };
                    let sentence = format!("asked {count} {peels} again");
                    dispatch::begin(&core, Asker::retry(request, reply, sentence), opened.envelope).await;
                }
                Err(refusal) => refuse(&core, reply.as_deref(), refusal).await,
            }
        }
        AdminRequest::Publish { .. } | AdminRequest::Unknown => {
            refuse(&core, reply.as_deref(), not_built(&subject)).await;
        }
    }
}

async fn refuse(core: &Core, reply: Option<&str>, refusal: Refusal) {
    let message = AdminReply { v: VERSION, message: String::new(), jid: None, error: Some(refusal) };
    core.answer(reply, &message).await;
}

fn not_built(subject: &Subject) -> Refusal {
    let verb = match subject {
        Subject::Admin { verb } => verb.as_str(),
        _ => "that",
    };
    Refusal::new(RefusalKind::Invalid, format!("this master cannot {verb} yet; {KNOWN}"))
}

fn unavailable(error: &Error) -> Refusal {
    Refusal::new(RefusalKind::Unavailable, format!("the bus failed: {error}; ask again"))
}

/// What was done, in a sentence.
async fn kill(core: &Core, jid: &Jid, by: String) -> Result<String, Refusal> {
    let found = core.link.get::<Job>(&Key::Job(jid.clone())).await.map_err(|error| unavailable(&error))?;
    let job = found.map(|found| found.value);
    if let Some(job) = &job {
        may_cancel(job).map_err(|refusal| Refusal {
            message: format!("{}; nothing was changed", refusal.message),
            ..refusal
        })?;
    }
    if let Some(handle) = core.roster.get(jid) {
        let count = handle.target_count();
        if handle.hand(Mail::Cancel { by: by.clone(), seen: false }).await.is_ok() {
            return Ok(told(count));
        }
    }
    match job {
        Some(job) => kill_for_another(core, &job, &by).await,
        None => Err(Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {jid}"))),
    }
}

/// The owner sees the event, also one that adopts the job later; the peels need not wait for it.
async fn kill_for_another(core: &Core, job: &Job, by: &str) -> Result<String, Refusal> {
    let event = messages::cancel_event(job, by, core.link.now());
    let id = core.link.new_message_id().map_err(|error| unavailable(&error))?;
    let subject = Subject::JobCancel { jid: job.jid.clone() };
    core.link.publish_stored(&subject, &id, &event).await.map_err(|error| unavailable(&error))?;
    let command = PeelCommand::Cancel(messages::cancel(job));
    let mut count = 0;
    for peel in &job.targets {
        let sent = core.link.publish(&Subject::Command { peel: peel.clone() }, &command).await;
        count += usize::from(sent.is_ok());
    }
    Ok(told(count))
}

fn told(count: usize) -> String {
    let peels = if count == 1 { "peel" } else { "peels" };
    format!("told {count} {peels} to stop")
}

/// The same work for a part of the targets, as a request for a new job.
async fn again(
    core: &Core,
    jid: &Jid,
    new_jid: Jid,
    part: RetryPart,
    user: String,
) -> Result<DispatchRequest, Refusal> {
    let found = core.link.get::<Job>(&Key::Job(jid.clone())).await.map_err(|error| unavailable(&error))?;
    let Some(found) = found else {
        return Err(Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {jid}")));
    };
    let job = found.value;
    let returns = core.link.returns_of(jid).await.map_err(|error| unavailable(&error))?;
    let returns: BTreeMap<_, _> = returns.into_iter().map(|ret| (ret.peel.clone(), ret)).collect();
    let targets = retry::targets(&job, &returns, part);
    if targets.is_empty() {
        let what = match part {
            RetryPart::Missing => "every peel has returned; nothing is missing",
            RetryPart::Failed => "no peel has failed",
            RetryPart::All => "the job has no targets",
            RetryPart::Unknown => "this master does not know that part; known are all, missing and failed",
        };
        return Err(Refusal::new(RefusalKind::NoTargets, what));
    }
    let mut metadata = job.metadata;
    metadata.insert("retry_of".into(), json!(jid.as_str()));
    Ok(DispatchRequest {
        v: VERSION,
        jid: new_jid,
        function: job.function,
        args: job.args,
        state_id: job.state_id,
        targets,
        target_expr: job.target_expr,
        timeout: job.timeout,
        user,
        metadata,
        positionals: job.positionals,
        test: job.test,
    })
}
