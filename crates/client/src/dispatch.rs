//! Handing a job to the masters.

use crate::client::Client;
use crate::error::Error;
use crate::follow::Follow;
use crate::limits::{LAG_PAUSE, LAG_READS};
use std::collections::BTreeSet;
use zester_wire::{DispatchReply, DispatchRequest, Jid, Offline, PeelId, Subject};

/// A job that a master has.
pub struct Dispatched {
    pub jid: Jid,
    /// Empty where they cannot be read.
    pub targets: Vec<PeelId>,
    /// Those among them that were offline, where the master says so (J-25).
    pub offline: Option<Offline>,
    /// What happens to it, from before the first peel heard of it.
    pub follow: Follow,
}

impl Client {
    /// A list of names is asked for by name: so it can be signed once and proven to each peel, instead of being sent to all (J-24).
    async fn by_name(&self, request: DispatchRequest) -> Result<DispatchRequest, Error> {
        let is_list = request.target_expr.starts_with("L@") && !request.target_expr.contains([' ', '(']);
        if !is_list || !request.targets.is_empty() {
            return Ok(request);
        }
        // Where none is known, the master says so.
        let targets = self.resolve(&request.target_expr).await?;
        Ok(DispatchRequest { targets, ..request })
    }

    /// Listens first, then asks: a peel may return before the master's own answer is here.
    pub async fn dispatch(&self, request: DispatchRequest) -> Result<Dispatched, Error> {
        let request = self.by_name(request).await?;
        let mut follow = Follow::begin(self, &request.jid).await?;
        let timeout =
            if request.timeout.is_zero() { zester_wire::job::TIMEOUT_DEFAULT } else { request.timeout };
        let question = |wait| DispatchRequest { wait: Some(wait), ..request.clone() };
        let reply: Option<DispatchReply> =
            self.ask_for_job(&Subject::Dispatch, &request.jid, question).await?;
        let (targets, offline) = reply.map(|reply| (reply.targets, reply.offline)).unwrap_or_default();
        let targets = match targets.is_empty() {
            false => targets,
            // Names by the ten thousand do not fit the answer, nor does some master repeat those of a jid that it knows.
            true => self.targets_of(&request.jid).await,
        };
        let known = Some(BTreeSet::from_iter(targets.iter().cloned())).filter(|known| !known.is_empty());
        follow.expect(known, timeout);
        Ok(Dispatched { jid: request.jid, targets, offline, follow })
    }

    /// Whom a job that a master has is for. None where that cannot be read now: the job runs all the same, so it is no error.
    async fn targets_of(&self, jid: &Jid) -> Vec<PeelId> {
        for _ in 0..LAG_READS {
            match self.job_of(jid).await {
                Ok(Some(job)) if job.has_targets() => return job.targets,
                Ok(_) => {}
                Err(error) => tracing::debug!(%jid, "the targets cannot be read: {error}"),
            }
            tokio::time::sleep(LAG_PAUSE).await;
        }
        Vec::new()
    }
}
