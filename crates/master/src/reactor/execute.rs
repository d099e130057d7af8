//! Does what a block says. Everything is named after its cause, so that doing it again is doing it once.

use super::Reactor;
use crate::core::Core;
use crate::enroll::{Declined, react};
use crate::events::{is_stored, publish_event};
use crate::index::Resolved;
use crate::job::{Begun, Requester};
use crate::limits::{LOOK_BEFORE_SENDING, TARGETS_MAX, UNKNOWN_PEELS_MAX};
use crate::services::dispatch::AskedBy;
use crate::services::{dispatch, index_is_ready};
use serde_json::{Map, Value};
use std::sync::Arc;
use zester_bus::Kind;
use zester_identity::audit;
use zester_jobs::never_ran;
use zester_link::Error;
use zester_reactor::actions::{Dispatch, Enroll, LogLevel};
use zester_reactor::{
    Action, Block, Decided, Decision, Executed, Passed, dispatch_request, may_be_handed_back, sent_event,
};
use zester_wire::{DispatchRequest, Job, JobStatus, Refusal, RefusalKind, Tag};

/// One rule of one event.
pub struct Executor<'a> {
    pub core: &'a Arc<Core>,
    pub reactor: &'a Reactor,
    pub passed: &'a Passed,
    /// As the rules write it.
    pub rule: &'a str,
    /// This master knows whoever is there.
    pub has_listened: bool,
}

impl Executor<'_> {
    pub async fn execute(&self, block: &Block) -> Executed {
        match &block.action {
            Action::Dispatch(dispatch) => self.dispatch(block, dispatch).await,
            Action::Send { tag, data } => self.send(block, tag, data).await,
            Action::Log { level, message } => {
                // A rule that is tried again, because another of its blocks failed, has said it.
                if self.reactor.logs_now(self.passed.place(), self.rule, &block.id) {
                    self.log(*level, message);
                }
                self.done(block, Decision::Logged, message.as_str())
            }
            Action::Enroll(enroll) => self.enroll(block, enroll).await,
        }
    }

    /// A decision that was taken before is a duplicate; who wrote the record at the same moment may have taken it.
    async fn enroll(&self, block: &Block, enroll: &Enroll) -> Executed {
        match react(self.core, self.rule, enroll).await {
            Ok(record) => {
                let words = format!("{} is {}", record.peel, record.status.as_str());
                self.done(block, Decision::Enrolled, words)
            }
            Err(Declined::Duplicate(words)) => self.done(block, Decision::Duplicate, words),
            Err(Declined::NoSuch(words) | Declined::Refused(words)) => {
                self.done(block, Decision::Refused, words)
            }
            Err(Declined::Transient(words)) => Executed::Transient(words),
        }
    }

    fn done(&self, block: &Block, decision: Decision, why: impl Into<String>) -> Executed {
        Executed::Done(Box::new(Decided::new(self.rule, &block.id, decision, why)))
    }

    async fn dispatch(&self, block: &Block, dispatch: &Dispatch) -> Executed {
        let request = match dispatch_request(dispatch, self.passed, self.rule, &block.id) {
            Ok(request) => request,
            Err(bad) => return self.done(block, Decision::Error, bad.to_string()),
        };
        let jid = request.jid.clone();
        let executed = self.begin(block, dispatch, request).await;
        match executed {
            Executed::Done(mut decided) => {
                let named = [Decision::Dispatched, Decision::Duplicate, Decision::Exhausted];
                if named.contains(&decided.decision) {
                    decided.jid = Some(jid);
                }
                Executed::Done(decided)
            }
            transient => transient,
        }
    }

    async fn begin(&self, block: &Block, dispatch: &Dispatch, request: DispatchRequest) -> Executed {
        let jid = request.jid.clone();
        // What was done before is found before anybody asks who would be meant now.
        if self.passed.deliveries > 1 && self.core.running.get(&jid).is_none() {
            match self.core.link.job_latest(&jid).await {
                Ok(None) => {}
                Ok(Some(found)) if is_decided(&found.value) => {
                    return self.known(block, &found.value, &request);
                }
                Ok(Some(_)) => {}
                Err(error) => return Executed::Transient(error.to_string()),
            }
        }
        // An event is done with once its rule found nobody: who would match must be known.
        if let Some(why) = self.core.index.unresolvable(&dispatch.target) {
            return Executed::Transient(why);
        }
        // Half an index would name half of the peels.
        let resolved = match index_is_ready(self.core) {
            Ok(()) => self.core.index.resolve_aside(&dispatch.target).await,
            Err(refusal) => Err(refusal),
        };
        let resolved = match resolved {
            Ok(resolved) => resolved,
            Err(refusal) => return self.refused(block, &refusal, &request).await,
        };
        let undecided = resolved.undecided_words();
        let Resolved { peels: targets, undecided: unknown } = resolved;
        // Settings that do not render now may do so in a moment. Those who are meant for certain do not wait for ever for one whose
        // settings are broken: then the job goes to them, and its record names the others.
        if let Some(why) = &undecided
            && (targets.is_empty() || may_be_handed_back(self.passed.deliveries))
        {
            return Executed::Transient(why.clone());
        }
        let count = targets.len();
        if count == 0 && !self.has_listened {
            let why = format!("no peel matches `{}`, and this master has just begun", dispatch.target);
            return Executed::Transient(why);
        }
        if count == 0 {
            return self.done(block, Decision::NoTargets, format!("no peel matches `{}`", dispatch.target));
        }
        let most = dispatch.max_targets.unwrap_or(TARGETS_MAX as u64).min(TARGETS_MAX as u64);
        if count as u64 > most {
            let why = format!("{count} peels match `{}`, of at most {most}", dispatch.target);
            return self.done(block, Decision::Aborted, why);
        }
        let (requester, answer) = Requester::reaction(request.clone());
        let asked = AskedBy {
            act: "reaction",
            who: None,
            rule: Some(self.rule.to_string()),
            request: self.passed.event.id.clone(),
        };
        let unknown = unknown.into_iter().take(UNKNOWN_PEELS_MAX).collect();
        dispatch::begin_on(self.core, requester, Vec::new(), unknown, targets, asked).await;
        match answer.await {
            Ok(Begun::Now) => {
                let peels = if count == 1 { "peel" } else { "peels" };
                let words = format!("{} to {count} {peels}", dispatch.function);
                let words = undecided.map_or_else(|| words.clone(), |more| format!("{words}; {more}"));
                self.done(block, Decision::Dispatched, words)
            }
            Ok(Begun::Before) => self.look_up(block, &request).await,
            Ok(Begun::Refused(refusal)) => self.refused(block, &refusal, &request).await,
            Err(_) => Executed::Transient("this master let the job go before it ran".into()),
        }
    }

    async fn refused(&self, block: &Block, refusal: &Refusal, request: &DispatchRequest) -> Executed {
        match refusal.kind {
            RefusalKind::ClaimPending
            | RefusalKind::Unavailable
            | RefusalKind::UnderWay
            | RefusalKind::CannotWrite => Executed::Transient(refusal.message.clone()),
            RefusalKind::NoTargets => self.done(block, Decision::NoTargets, refusal.message.as_str()),
            // The same reaction with other rules, or other facts, is the same reaction all the same.
            RefusalKind::Conflict => self.look_up(block, request).await,
            // Its id is used up: nobody may do it under another, and nobody must take it for done.
            RefusalKind::NeverRan => self.done(block, Decision::Exhausted, refusal.message.as_str()),
            _ => self.done(block, Decision::Error, refusal.message.as_str()),
        }
    }

    async fn look_up(&self, block: &Block, request: &DispatchRequest) -> Executed {
        match self.core.link.job_latest(&request.jid).await {
            Ok(Some(found)) => self.known(block, &found.value, request),
            Ok(None) => Executed::Transient("its job was just removed".into()),
            Err(error) => Executed::Transient(error.to_string()),
        }
    }

    /// A job of this id is there.
    fn known(&self, block: &Block, job: &Job, request: &DispatchRequest) -> Executed {
        let same = |key: &str| job.metadata.get(key) == request.metadata.get(key);
        let ours =
            job.user == request.user && ["event_id", "event_origin", "rule", "block"].into_iter().all(same);
        match (ours, is_decided(job)) {
            (false, _) => self.done(block, Decision::Error, "its job id is taken by another job"),
            (true, true) if never_ran(job) => {
                self.done(block, Decision::Exhausted, format!("its job is over: {}", job.reason))
            }
            (true, true) => self.done(block, Decision::Duplicate, "its job was there already"),
            (true, false) => Executed::Transient("another master is about to dispatch its job".into()),
        }
    }

    async fn send(&self, block: &Block, tag: &Tag, data: &Map<String, Value>) -> Executed {
        let now = self.core.link.now();
        let sent = sent_event(tag, data, self.passed, self.rule, &block.id, now);
        let (subject, event) = match sent {
            Ok(sent) => sent,
            Err(bad) => return self.done(block, Decision::Error, bad.to_string()),
        };
        let link = &self.core.link;
        // The first try has nothing to look for, unless it was long in coming.
        if self.passed.deliveries > 1 || now.since(self.passed.stored) > LOOK_BEFORE_SENDING {
            match is_stored(link, &subject, &event.id, self.passed.sequence).await {
                Ok(true) => return self.sent(block, Decision::Duplicate, tag.as_str(), event.id),
                Ok(false) => {}
                Err(error) => return Executed::Transient(error.to_string()),
            }
        }
        match publish_event(link, &subject, &event).await {
            Ok(stored) if stored.duplicate => self.sent(block, Decision::Duplicate, tag.as_str(), event.id),
            Ok(_) => {
                self.core.audit.note(audit::Decided {
                    act: "reaction",
                    who: format!("rule {}", self.rule),
                    about: format!("event {tag}"),
                    request: self.passed.event.id.clone(),
                    ..audit::Decided::default()
                });
                self.sent(block, Decision::Sent, tag.as_str(), event.id)
            }
            Err(error) if is_hopeless(&error) => {
                self.sent(block, Decision::Error, &error.to_string(), event.id)
            }
            Err(error) => Executed::Transient(error.to_string()),
        }
    }

    fn sent(&self, block: &Block, decision: Decision, why: &str, id: String) -> Executed {
        match self.done(block, decision, why) {
            Executed::Done(decided) => Executed::Done(Box::new(Decided { event_sent: id, ..*decided })),
            transient => transient,
        }
    }

    fn log(&self, level: LogLevel, message: &str) {
        let (rule, event, source) = (self.rule, &self.passed.event.id, &self.passed.origin);
        match level {
            LogLevel::Debug => tracing::debug!(rule, %event, %source, "{message}"),
            LogLevel::Info => tracing::info!(rule, %event, %source, "{message}"),
            LogLevel::Warning => tracing::warn!(rule, %event, %source, "{message}"),
            LogLevel::Error => tracing::error!(rule, %event, %source, "{message}"),
        }
    }
}

/// Whether a job was sent out, or is over: nobody has to do that again.
fn is_decided(job: &Job) -> bool {
    !matches!(job.status, JobStatus::Pending | JobStatus::Claimed)
}

/// What no second try makes better.
fn is_hopeless(error: &Error) -> bool {
    match error {
        Error::Bus(error) => matches!(error.kind(), Kind::TooLarge | Kind::Invalid),
        _ => true,
    }
}
