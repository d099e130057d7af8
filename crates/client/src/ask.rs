//! Asking any master, again with the same words until one answers. Every question that goes through here is safe to repeat.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{ANSWER_WAIT, ASK_PAUSE};
use tokio::time::Instant;
use zester_bus::Kind;
use zester_wire::{AdminReply, AdminRequest, DispatchReply, PeelId};
use zester_wire::{Message, Refusal, ResolveReply, ResolveRequest, Subject, VERSION};

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
                Err(error) if error.bus_kind() == Some(Kind::NoResponders) => "none is connected".to_string(),
                Err(error) if error.retryable() => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            if Instant::now() + ASK_PAUSE >= end {
                return Err(Error::NoMaster { waited: self.patience, last });
            }
            tokio::time::sleep(ASK_PAUSE).await;
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
