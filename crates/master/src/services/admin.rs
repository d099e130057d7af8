//! `zester.admin.<verb>`: cancel a job (J-11), repeat a part of one (J-18), forget peels (J-25).

use super::dispatch::AskedBy;
use super::rights::must_be_allowed;
use super::{dispatch, must_be_fresh};
use crate::audit;
use crate::core::Core;
use crate::job::{Handle, JobMessage, Requester};
use crate::limits::{KILL_WAIT, RETRY_READS_IN_FLIGHT};
use futures_util::stream::{self, StreamExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::timeout;
use zester_bus::Message;
use zester_bus::storage::JOB_EVENTS;
use zester_identity::audit::Decided;
use zester_identity::{Principal, Role};
use zester_jobs::intake::may_cancel;
use zester_jobs::{CancelEffect, messages, retry};
use zester_link::Error;
use zester_policy::{VERBS, Wanted};
use zester_wire::{
    AdminReply, AdminRequest, DispatchRequest, Jid, Job, Key, PeelCommand, PeelId, PublishRequest, Refusal,
    RefusalKind, RetryPart, Return, Subject, UnixMillis, UploadedTree, VERSION,
};

/// Verbs that are granted, for those who ask for another.
const KNOWN: &str = "known are kill, retry, publish, forget, enroll, reactor_rules and breaker_close";

pub async fn handle(core: Arc<Core>, message: Message, received: UnixMillis) {
    let Some(subject) = core.link.subject_of(&message) else { return };
    let opened = core.link.open::<AdminRequest>(&message.subject, &message.payload);
    let Some(opened) = opened else { return };
    let reply = message.reply;
    let room = || core.shares.take(opened.principal.as_ref(), core.link.dropped());
    if let Err(refusal) = must_be_fresh(&opened, received).and_then(|()| room()) {
        return refuse(&core, reply.as_deref(), refusal).await;
    }
    if matches!(opened.message, AdminRequest::Unknown) {
        return refuse(&core, reply.as_deref(), not_built(&subject)).await;
    }
    // The verb inside is what was signed; it must be that of the subject.
    let Some(opened) = core.link.open_addressed::<AdminRequest>(&subject, &message.payload) else { return };
    let request = match &opened.principal {
        Some(who) => opened.message.by(&who.name),
        None => opened.message,
    };
    let asked = Asked { who: opened.principal, request: opened.id.to_string() };
    match asked.must_be_allowed(&core, &request).await {
        Ok(()) => {}
        Err(refusal) => return refuse(&core, reply.as_deref(), refusal).await,
    }
    match request {
        AdminRequest::Kill { jid, user, .. } => {
            let (message, error) = match kill(&core, &jid, user.clone()).await {
                Ok(sentence) => (sentence, None),
                Err(refusal) => (String::new(), Some(refusal)),
            };
            asked.note(&core, "kill", &user, jid.to_string(), error.as_ref());
            let message = AdminReply { jid: Some(jid), error, ..AdminReply::done(message) };
            core.answer(reply.as_deref(), &message).await;
        }
        AdminRequest::Retry { jid, new_jid, part, user, wait, timeout } => {
            match again(&core, &jid, new_jid, part, user).await {
                Ok((request, unknown)) => {
                    let timeout = timeout.unwrap_or(request.timeout);
                    let request = DispatchRequest { wait, timeout, ..request };
                    let count = request.targets.len();
                    let peels = if count == 1 { "peel" } else { "peels" };
                    let sentence = format!("asked {count} {peels} again");
                    let requester = Requester::retry(request, reply, received, sentence);
                    let Asked { who, request } = asked;
                    let asked = AskedBy { act: "retry", who, rule: None, request };
                    dispatch::begin(&core, requester, opened.envelope, unknown, asked).await;
                }
                Err(refusal) => refuse(&core, reply.as_deref(), refusal).await,
            }
        }
        AdminRequest::Forget { peels, user } => {
            let (message, error) = match super::peels::forget_all(&core, &peels, &user).await {
                Ok(sentence) => (sentence, None),
                Err(refusal) => (String::new(), Some(refusal)),
            };
            let names: Vec<&str> = peels.iter().map(PeelId::as_str).collect();
            asked.note(&core, "forget", &user, names.join(", "), error.as_ref());
            core.answer(reply.as_deref(), &AdminReply { error, ..AdminReply::done(message) }).await;
        }
        request @ (AdminRequest::ReactorRules | AdminRequest::BreakerClose { .. }) => {
            if let AdminRequest::BreakerClose { rule, user } = &request {
                asked.note(&core, "breaker_close", user, rule.clone(), None);
            }
            crate::reactor::handle_admin(core, request, reply).await;
        }
        AdminRequest::Enroll { order, user } => crate::enroll::handle(core, order, user, reply).await,
        AdminRequest::Publish(request) => {
            if !request.dry_run {
                let (act, about) = published(&request);
                asked.note(&core, act, &request.user, about, None);
            }
            super::publish::handle(core, request, reply).await;
        }
        AdminRequest::Unknown => {
            refuse(&core, reply.as_deref(), not_built(&subject)).await;
        }
    }
}

/// Who asked, for what they may and for the log.
struct Asked {
    who: Option<Principal>,
    /// The id of the message that asked.
    request: String,
}

impl Asked {
    /// What the roles of who asks say. A verb is about peels where the request names them, or a job that does.
    async fn must_be_allowed(&self, core: &Core, request: &AdminRequest) -> Result<(), Refusal> {
        let Some(verb) = request.verb().filter(|verb| VERBS.contains(verb)) else { return Ok(()) };
        if self.who.as_ref().is_none_or(|who| who.role != Role::Operator) {
            return Ok(());
        }
        let peels = match request {
            AdminRequest::Kill { jid, .. } | AdminRequest::Retry { jid, .. } => {
                record(core, jid).await?.map(|job| job.targets).unwrap_or_default()
            }
            AdminRequest::Forget { peels, .. } => peels.clone(),
            _ => Vec::new(),
        };
        let allowed = must_be_allowed(core, self.who.as_ref(), &Wanted::Verb(verb), &peels);
        if let Err(refusal) = &allowed {
            self.note(core, verb, "", String::new(), Some(refusal));
        }
        allowed
    }

    fn note(&self, core: &Core, act: &'static str, user: &str, about: String, refused: Option<&Refusal>) {
        let (who, key) = audit::by(self.who.as_ref(), user);
        let refused = refused.map(|refusal| refusal.message.clone()).unwrap_or_default();
        core.audit.note(Decided { act, who, key, about, refused, request: self.request.clone() });
    }
}

/// What is published, for the log.
fn published(request: &PublishRequest) -> (&'static str, String) {
    let one = |tree: &UploadedTree| format!("{} from {}", tree.published.as_str(), tree.source);
    let trees: Vec<String> = request.trees.iter().map(one).collect();
    match &request.rollback {
        Some(rollback) => ("rollback", format!("{rollback:?}")),
        None if trees.is_empty() => ("publish", "what the masters publish".into()),
        None => ("publish", trees.join(", ")),
    }
}

async fn refuse(core: &Core, reply: Option<&str>, refusal: Refusal) {
    core.answer(reply, &AdminReply::refusing(refusal)).await;
}

fn not_built(subject: &Subject) -> Refusal {
    let verb = match subject {
        Subject::Admin { verb } => verb.as_str(),
        _ => "that",
    };
    Refusal::new(RefusalKind::Invalid, format!("this master cannot {verb} yet; {KNOWN}"))
}

pub(super) fn unavailable(error: &Error) -> Refusal {
    Refusal::new(RefusalKind::Unavailable, format!("the bus failed: {error}; ask again"))
}

/// Cancels a job, and says in a sentence what is true once the stream has the cancel (J-11): whoever owns the job then, or adopts
/// it later, hears of it, also if this master dies on the answer.
async fn kill(core: &Core, jid: &Jid, by: String) -> Result<String, Refusal> {
    let job = record(core, jid).await?;
    if let Some(job) = &job {
        must_not_be_over(job)?;
    } else if !core.running.contains(jid) {
        return Err(Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {jid}")));
    }
    let event = messages::cancel_event(jid, &by, core.link.now());
    let id = core.link.new_message_id().map_err(|error| unavailable(&error))?;
    let subject = Subject::JobCancel { jid: jid.clone() };
    core.link.publish_stored(&subject, &id, &event).await.map_err(|error| {
        let refused = core.stores.refused(JOB_EVENTS, &error).unwrap_or_else(|| unavailable(&error));
        let message = format!("the cancel is not stored, but whoever heard it stops: {}", refused.message);
        Refusal { message, ..refused }
    })?;
    let effect = match core.running.get(jid) {
        Some(handle) => heard_by(&handle, by).await,
        None => None,
    };
    match effect {
        Some(CancelEffect::Stopping { peels }) => Ok(told(peels)),
        Some(CancelEffect::Ending) => Ok("the job is ending already; nobody waits for more returns".into()),
        // Another master owns it, or it ended here a moment ago: the record says which.
        Some(CancelEffect::Over) | None => match record(core, jid).await? {
            Some(job) => {
                must_not_be_over(&job)?;
                tell_peels(core, &job).await
            }
            None => Err(Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {jid}"))),
        },
    }
}

/// As the leader has it: whether a job is over decides what its operator is told.
async fn record(core: &Core, jid: &Jid) -> Result<Option<Job>, Refusal> {
    let found = core.link.job_latest(jid).await;
    Ok(found.map_err(|error| unavailable(&error))?.map(|found| found.value))
}

fn must_not_be_over(job: &Job) -> Result<(), Refusal> {
    may_cancel(job).map_err(|refusal| Refusal {
        message: format!("{}; nothing was changed", refusal.message),
        ..refusal
    })
}

/// What the job itself says; none if its task here has gone, or is too busy to answer.
async fn heard_by(handle: &Handle, by: String) -> Option<CancelEffect> {
    let (answer, effect) = oneshot::channel();
    let heard = async {
        handle.hand(JobMessage::Cancel { by, answer: Some(answer) }).await.ok()?;
        effect.await.ok()
    };
    timeout(KILL_WAIT, heard).await.ok().flatten()
}

/// The owner sees the event; the peels need not wait for it.
async fn tell_peels(core: &Core, job: &Job) -> Result<String, Refusal> {
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

/// The same work for a part of the targets, as a request for a new job, and the names that still no peel has.
async fn again(
    core: &Core,
    jid: &Jid,
    new_jid: Jid,
    part: RetryPart,
    user: String,
) -> Result<(DispatchRequest, Vec<PeelId>), Refusal> {
    let Some(job) = record(core, jid).await? else {
        return Err(Refusal::new(RefusalKind::NoSuchJob, format!("there is no job {jid}")));
    };
    retry::may_retry(&job)?;
    if !job.has_targets() {
        let message = format!("the list of the {} targets of job {jid} is gone", job.target_count());
        let hint = "dispatch it anew with a target".to_string();
        return Err(Refusal { hint, ..Refusal::new(RefusalKind::NoTargets, message) });
    }
    let returns = returns(core, &job).await.map_err(|error| unavailable(&error))?;
    let mut targets = retry::targets(&job, &returns, part);
    let forgotten = retry::forgotten(&job, &returns);
    // Names that no peel had are missing, and asked once one has.
    let names = match part {
        RetryPart::Missing | RetryPart::All => job.unknown_peels.clone(),
        RetryPart::Failed | RetryPart::Unknown => Vec::new(),
    };
    let unknown = dispatch::unknown(core, names.iter().cloned());
    targets.extend(names.into_iter().filter(|name| !unknown.contains(name)));
    if targets.is_empty() {
        let what = match part {
            RetryPart::Missing if !unknown.is_empty() => {
                let names: Vec<&str> = unknown.iter().map(PeelId::as_str).collect();
                format!("nothing is missing but names that no peel has: {}", names.join(", "))
            }
            RetryPart::Missing => "every peel has returned; nothing is missing".into(),
            RetryPart::Failed if forgotten > 0 => forgotten_words(forgotten),
            RetryPart::Failed => "no peel has failed".into(),
            RetryPart::All => "the job has no targets".into(),
            RetryPart::Unknown => {
                "this master does not know that part; known are all, missing and failed".into()
            }
        };
        return Err(Refusal::new(RefusalKind::NoTargets, what));
    }
    let mut metadata = job.metadata;
    metadata.insert("retry_of".into(), json!(jid.as_str()));
    let request = DispatchRequest {
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
        wait: None,
        target_digest: None,
    };
    Ok((request, unknown))
}

fn forgotten_words(count: usize) -> String {
    let peels = if count == 1 { "1 peel".to_string() } else { format!("{count} peels") };
    format!("what {peels} returned is not kept any more, and of the others none has failed")
}

/// The stored returns of a job that is over. A server that lags may not have one yet, so that there is none is for the leader to
/// say: whoever is asked again does the work twice.
async fn returns(core: &Core, job: &Job) -> Result<BTreeMap<PeelId, Return>, Error> {
    let stored = core.link.returns_of(&job.jid).await?;
    let mut returns: BTreeMap<_, _> = stored.into_iter().map(|ret| (ret.peel.clone(), ret)).collect();
    let unread: Vec<Key> = job
        .targets
        .iter()
        .filter(|peel| !returns.contains_key(*peel))
        .map(|peel| Key::Return(job.jid.clone(), peel.clone()))
        .collect();
    let reads = unread.into_iter().map(|key| async move { core.link.get_latest::<Return>(&key).await });
    let mut reads = stream::iter(reads).buffer_unordered(RETRY_READS_IN_FLIGHT);
    while let Some(found) = reads.next().await {
        let ret = found?.map(|found| found.value).filter(|ret| ret.jid == job.jid);
        returns.extend(ret.map(|ret| (ret.peel.clone(), ret)));
    }
    Ok(returns)
}
