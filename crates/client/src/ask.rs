//! Asking any master, again with the same words until one answers. Every question that goes through here is safe to repeat.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{ANSWER_WAIT, ASK_PAUSE};
use tokio::time::Instant;
use zester_bus::Kind;
use zester_wire::{AdminReply, AdminRequest, Bucket, DispatchReply, PeelId};
use zester_wire::{Message, Refusal, ResolveReply, ResolveRequest, Subject, VERSION};

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
    fn refusal(&self) -> Option<&Refusal> {
        self.error.as_ref()
    }
}

impl Reply for AdminReply {
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
    async fn why_no_master(&self) -> Result<String, Error> {
        let jobs = zester_bus::storage::table().into_iter().find(|store| store.name == Bucket::Jobs.as_str());
        let Some(jobs) = jobs else { return Ok(NONE_CONNECTED.to_string()) };
        match self.link.bus().usage(&jobs).await {
            Err(error) if error.kind() == Kind::Off => Err(error.into()),
            Err(error) if error.kind().retryable() => Ok(format!("the bucket `jobs` does not work: {error}")),
            _ => Ok(NONE_CONNECTED.to_string()),
        }
    }

    pub(crate) async fn ask_admin(&self, request: &AdminRequest) -> Result<AdminReply, Error> {
        let verb = request.verb().unwrap_or_default();
        let verb = zester_wire::Token::parse(verb)
            .map_err(|bad| zester_bus::Error::new(Kind::Invalid, bad.to_string()))?;
        self.ask(&Subject::Admin { verb }, request).await
    }

    /// Which peels an expression names now, as a master knows them.
    pub async fn resolve(&self, expression: &str) -> Result<Vec<PeelId>, Error> {
        let request = ResolveRequest { v: VERSION, target_expr: expression.to_string() };
        let reply: ResolveReply = self.ask(&Subject::TargetResolve, &request).await?;
        Ok(reply.peels)
    }
}
