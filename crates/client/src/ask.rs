//! Asking any master, again with the same words until one answers. Every question that goes through here is safe to repeat.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{ANSWER_WAIT, ASK_PAUSE};
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::Kind;
use zester_wire::{
    AdminReply, AdminRequest, Bucket, DispatchReply, ExplainedPeel, Jid, Job, Key, PeelId, PeelsReply,
    PeelsRequest, ReactorTestReply,
};
use zester_wire::{Message, Refusal, RefusalKind, ResolveReply, ResolveRequest, Subject, VERSION};

/// What is said where the stores work and nobody listens.
pub(crate) const NONE_CONNECTED: &str = "none is connected";

/// Replies that may say no.
pub(crate) trait Reply: Message {
    fn refusal(&self) -> Option<&Refusal>;
}

impl Reply for DispatchReply {
    fn refusal(&self) -> Option<&Refusal> {
        self.error.as_ref()
    }
}

impl Reply for ResolveReply {
    /// Too many names are no refusal for whoever can read them page by page.
    fn refusal(&self) -> Option<&Refusal> {
        self.error.as_ref().filter(|_| !self.too_many)
    }
}

impl Reply for AdminReply {
    fn refusal(&self) -> Option<&Refusal> {
        self.error.as_ref()
    }
}

impl Reply for ReactorTestReply {
    fn refusal(&self) -> Option<&Refusal> {
        self.error.as_ref()
    }
}

impl Client {
    /// Asks until a master grants or finally refuses, or the patience ends.
    pub(crate) async fn ask<Q: Message, A: Reply>(
        &self,
        subject: &Subject,
        question: &Q,
    ) -> Result<A, Error> {
        let end = Instant::now() + self.patience;
        loop {
            let last = match self.link.request::<Q, A>(subject, question, ANSWER_WAIT).await {
                Ok(reply) => match reply.refusal() {
                    None => return Ok(reply),
                    Some(refusal) if !refusal.kind.is_retryable() => {
                        return Err(Error::Refused(refusal.clone()));
                    }
                    Some(refusal) => refusal.message.clone(),
                },
                Err(error) if error.bus_kind() == Some(Kind::NoResponders) => self.why_no_master().await?,
                Err(error) if error.retryable() => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            if Instant::now() + ASK_PAUSE >= end {
                return Err(Error::NoMaster { waited: self.patience, last });
            }
            tokio::time::sleep(ASK_PAUSE).await;
        }
    }

    /// Why nobody answers for the masters. One that cannot keep anything is connected and yet does not listen.
    pub(crate) async fn why_no_master(&self) -> Result<String, Error> {
        let jobs = zester_bus::storage::table().into_iter().find(|store| store.name == Bucket::Jobs.as_str());
        let Some(jobs) = jobs else { return Ok(NONE_CONNECTED.to_string()) };
        match self.link.bus().end(&jobs).await {
            Err(error) if error.kind() == Kind::Off => Err(error.into()),
            Err(error) if error.kind().retryable() => Ok(format!("the bucket `jobs` does not work: {error}")),
            _ => Ok(NONE_CONNECTED.to_string()),
        }
    }

    /// Asks for a job, with how long this client still waits (J-28). Some when a master grants it; none when the record shows that
    /// one has it although its answer never came. An error but [`Error::InDoubt`] means that nothing runs and nothing will.
    pub(crate) async fn ask_for_job<Q: Message, A: Reply>(
        &self,
        subject: &Subject,
        jid: &Jid,
        question: impl Fn(Duration) -> Q,
    ) -> Result<Option<A>, Error> {
        let end = Instant::now() + self.patience;
        // Whether some master may have the request, or a claim, and has not said what became of it.
        let mut in_doubt = false;
        let mut silent = true;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let asked = question(left);
            let last = match self.link.request::<Q, A>(subject, &asked, ANSWER_WAIT.min(left)).await {
                Ok(reply) => match reply.refusal() {
                    None => return Ok(Some(reply)),
                    // Its end is recorded, whoever else was asked.
                    Some(refusal) if refusal.kind == RefusalKind::NeverRan => {
                        return Err(Error::Refused(refusal.clone()));
                    }
                    Some(refusal) if !refusal.kind.is_retryable() && !in_doubt => {
                        return Err(Error::Refused(refusal.clone()));
                    }
                    Some(refusal) => {
                        silent = false;
                        in_doubt |= refusal.kind == RefusalKind::ClaimPending;
                        refusal.message.clone()
                    }
                },
                // Nobody got it this time.
                Err(error) if error.bus_kind() == Some(Kind::NoResponders) => {
                    match self.why_no_master().await {
                        Ok(why) => why,
                        Err(error) if in_doubt => error.to_string(),
                        Err(error) => return Err(error),
                    }
                }
                // It never left, and never will.
                Err(error) if is_unsendable(&error) && !in_doubt => return Err(error.into()),
                Err(error) => {
                    in_doubt = true;
                    silent &= error.bus_kind() == Some(Kind::Timeout);
                    error.to_string()
                }
            };
            if Instant::now() + ASK_PAUSE < end {
                tokio::time::sleep(ASK_PAUSE).await;
                continue;
            }
            if !in_doubt {
                return Err(Error::NoMaster { waited: self.patience, last });
            }
            // By now no master claims it any more. What was claimed in time stands in the record, as its leader has it.
            tokio::time::sleep_until(end).await;
            return match self.link.get_latest::<Job>(&Key::Job(jid.clone())).await {
                Ok(Some(_)) => Ok(None),
                Ok(None) | Err(_) => Err(Error::InDoubt { jid: jid.clone(), last, silent }),
            };
        }
    }

    pub(crate) async fn ask_admin(&self, request: &AdminRequest) -> Result<AdminReply, Error> {
        self.ask(&admin_subject(request)?, request).await
    }

    /// Which peels an expression names now, as a master knows them.
    pub async fn resolve(&self, expression: &str) -> Result<Vec<PeelId>, Error> {
        let request = ResolveRequest::of(expression);
        let reply: ResolveReply = self.ask(&Subject::TargetResolve, &request).await?;
        if !reply.too_many {
            return Ok(reply.peels);
        }
        let (mut peels, mut after): (Vec<PeelId>, Option<PeelId>) = (Vec::new(), None);
        loop {
            let request = PeelsRequest { v: VERSION, target_expr: expression.to_string(), after };
            let page: PeelsReply = self.ask(&Subject::PeelList, &request).await?;
            after = page.peels.last().map(|last| last.peel.clone());
            peels.extend(page.peels.into_iter().map(|status| status.peel));
            if !page.more || after.is_none() {
                return Ok(peels);
            }
        }
    }
}

impl Client {
    /// Of every peel whether an expression means it, and which part of it said no, as a master knows them.
    pub async fn explain(&self, expression: &str) -> Result<Vec<ExplainedPeel>, Error> {
        let (mut peels, mut after): (Vec<ExplainedPeel>, Option<PeelId>) = (Vec::new(), None);
        loop {
            let request = ResolveRequest { explain: true, after, ..ResolveRequest::of(expression) };
            let reply: ResolveReply = self.ask(&Subject::TargetResolve, &request).await?;
            let Some(page) = reply.explained else {
                let why = "the master that answered is of an earlier release, and cannot say why a peel does not match";
                return Err(Error::Refused(Refusal::new(RefusalKind::Invalid, why)));
            };
            after = page.peels.last().map(|last| last.peel.clone());
            peels.extend(page.peels);
            if !page.more || after.is_none() {
                return Ok(peels);
            }
        }
    }
}

/// Whether a question could not be sent at all, by what it is: nobody can have it, and asking again changes nothing.
fn is_unsendable(error: &zester_link::Error) -> bool {
    match error {
        zester_link::Error::Encode(_) => true,
        _ => matches!(error.bus_kind(), Some(Kind::TooLarge | Kind::Invalid)),
    }
}

pub(crate) fn admin_subject(request: &AdminRequest) -> Result<Subject, Error> {
    let verb = zester_wire::Token::parse(request.verb().unwrap_or_default())
        .map_err(|bad| zester_bus::Error::new(Kind::Invalid, bad.to_string()))?;
    Ok(Subject::Admin { verb })
}
