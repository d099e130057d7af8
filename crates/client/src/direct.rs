//! Past the masters (J-21): exact ids, or targets from the facts; a request to each peel, the reply is the return. No record, no ack.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{DIRECT_GRACE, DIRECT_IN_FLIGHT};
use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use serde_json::{Map, Value};
use std::time::Duration;
use zester_bus::Kind;
use zester_model::target::{Subject as Matched, Target};
use zester_wire::{ExecRequest, Jid, PeelCommand, PeelId, Return, Subject, VERSION};

/// What a direct request has for a dispatch epoch: there is one dispatch, and no master that could make another.
const EPOCH: u64 = 1;

/// What to do, without saying where.
#[derive(Clone, Debug, PartialEq)]
pub struct FunctionCall {
    pub function: String,
    pub state_id: String,
    pub positionals: Vec<Value>,
    pub args: Map<String, Value>,
    pub test: bool,
    pub timeout: Duration,
    pub user: String,
}

/// What became of one request.
#[derive(Clone, Debug, PartialEq)]
pub enum DirectReply {
    Return(Box<Return>),
    /// Nobody listens there.
    Unreachable(PeelId),
    /// It got the request, perhaps, and did not answer. In words.
    NoReply(PeelId, String),
}

/// Requests under way. Dropping it stops listening, not the peels.
pub struct Direct {
    pub jid: Jid,
    pub targets: Vec<PeelId>,
    answers: BoxStream<'static, DirectReply>,
}

impl Direct {
    /// The next answer, as they come; none when all have answered or are given up.
    pub async fn next(&mut self) -> Option<DirectReply> {
        self.answers.next().await
    }
}

impl Client {
    /// Which peels an expression names, without a master. Ids that are written out are taken at their word, so they need
    /// no JetStream; anything else is looked up in the facts.
    pub async fn resolve_direct(&self, expression: &str) -> Result<Vec<PeelId>, Error> {
        let target = Target::parse(expression).map_err(Error::Target)?;
        if target.needs_settings() {
            return Err(Error::NeedsMaster);
        }
        if let Some(ids) = target.exact_ids() {
            let ids = ids.into_iter().map(|id| PeelId::parse(id).map_err(|_| Error::NoSuchPeel(id.into())));
            return ids.collect();
        }
        let nothing = Value::Object(Map::new());
        let fits = |id: &PeelId, facts: &Value| {
            target.matches(&Matched { id: id.as_str(), facts, settings: &nothing })
        };
        let peels = self.recorded_peels().await.map_err(|why| Error::NeedsFacts(Box::new(why)))?;
        let peels = peels.into_values().map(|peel| (peel.id, Value::Object(peel.facts)));
        Ok(peels.filter(|(id, facts)| fits(id, facts)).map(|(id, _)| id).collect())
    }

    pub async fn direct(&self, expression: &str, work: &FunctionCall) -> Result<Direct, Error> {
        let targets = self.resolve_direct(expression).await?;
        Ok(self.direct_to(targets, work))
    }

    /// The same for peels that are known already.
    pub fn direct_to(&self, targets: Vec<PeelId>, work: &FunctionCall) -> Direct {
        let jid = self.link.new_jid();
        let request = ExecRequest {
            v: VERSION,
            jid: jid.clone(),
            function: work.function.clone(),
            args: work.args.clone(),
            state_id: work.state_id.clone(),
            dispatch_epoch: EPOCH,
            budget: work.timeout,
            user: work.user.clone(),
            rdepth: 0,
            positionals: work.positionals.clone(),
            test: work.test,
            direct: true,
            request: Vec::new(),
            proof: None,
        };
        let (client, patience) = (self.clone(), work.timeout + DIRECT_GRACE);
        let asked = targets.clone();
        let answers = futures_util::stream::iter(asked).map(move |peel| {
            let (client, command) = (client.clone(), PeelCommand::Exec(request.clone()));
            async move { client.ask_peel(peel, &command, patience).await }
        });
        Direct { jid, targets, answers: answers.buffer_unordered(DIRECT_IN_FLIGHT).boxed() }
    }

    async fn ask_peel(&self, peel: PeelId, command: &PeelCommand, patience: Duration) -> DirectReply {
        let subject = Subject::Command { peel: peel.clone() };
        match self.link.request::<PeelCommand, Return>(&subject, command, patience).await {
            Ok(ret) if ret.peel == peel => DirectReply::Return(Box::new(ret)),
            Ok(_) => DirectReply::NoReply(peel, "the answer names another peel".to_string()),
            Err(error) if error.bus_kind() == Some(Kind::NoResponders) => DirectReply::Unreachable(peel),
            Err(error) => DirectReply::NoReply(peel, error.to_string()),
        }
    }
}
