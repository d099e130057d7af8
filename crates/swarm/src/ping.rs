//! All that a peel of a swarm can do.

use serde_json::{Map, Value, json};
use tokio_util::sync::CancellationToken;
use zester_peel::store::BoxFuture;
use zester_peel::work::{Outcome, Tell, Work};
use zester_wire::{ExecRequest, PeelId};

pub struct Ping {
    pub id: PeelId,
}

impl Work for Ping {
    fn execute(&self, request: ExecRequest, _: Tell, _: CancellationToken) -> BoxFuture<'_, Outcome> {
        let known = request.function == "test.ping";
        let error = if known { String::new() } else { "a peel of a swarm only answers test.ping".into() };
        let answer = if known { json!(true) } else { Value::Null };
        Box::pin(std::future::ready(Outcome {
            success: known,
            error,
            answer,
            canceled: false,
            revision: None,
        }))
    }

    fn kill_leftovers(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn facts(&self) -> BoxFuture<'_, Map<String, Value>> {
        let mut facts = Map::new();
        facts.insert("id".into(), json!(self.id.as_str()));
        facts.insert("os".into(), json!("swarm"));
        Box::pin(std::future::ready(facts))
    }
}
