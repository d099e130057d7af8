//! What a peel can do: the trait that executes.

mod life;
mod local;
mod progress;
mod settings;
mod startup;
mod startup_failure;

pub use local::{Local, Options, PUBLIC_KEY};
pub use startup::{FunctionAsked, StartupStates};
pub use startup_failure::StartupFailure;

use crate::store::BoxFuture;
use serde_json::{Map, Value};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_wire::{ExecRequest, RunRevision};

/// How an execution ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    pub success: bool,
    /// Empty when it succeeded.
    pub error: String,
    /// The answer; of a state run, the run document of C-2.
    pub answer: Value,
    /// It was cut short.
    pub canceled: bool,
    /// The published trees that it saw (D-13); none where it saw none.
    pub revision: Option<RunRevision>,
}

/// Told while an execution runs, as states end.
pub type Tell = Arc<dyn Fn(StateEnded) + Send + Sync>;

/// A state that ended. Not each of them is told.
#[derive(Clone, Debug, PartialEq)]
pub struct StateEnded {
    /// How many have ended, this one included.
    pub ended: u64,
    /// How many there are, where that is known.
    pub total: u64,
    /// Its document of C-2.
    pub state: Value,
}

pub trait Work: Send + Sync {
    /// Executes. When `cancel` fires it stops what it started (S-32) and still answers with what it has.
    fn execute(&self, request: ExecRequest, tell: Tell, cancel: CancellationToken) -> BoxFuture<'_, Outcome>;
    /// Kills what an earlier life of this peel left running (J-22).
    fn kill_leftovers(&self) -> BoxFuture<'_, ()>;
    /// What it is to do once, at its start, as soon as there are states.
    fn startup(&self) -> Option<FunctionAsked> {
        None
    }
    /// That failed: it is written down for whoever asks.
    fn startup_failed(&self, _failure: StartupFailure) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    /// Waits until there are states.
    fn states_appear(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }

    /// The settings of this machine as they are now (D-6). In place of a secret of the schedule stands its name.
    fn settings(&self) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(std::future::ready(Ok(Value::Object(Map::new()))))
    }
    /// Whether anybody has said which settings this machine has: not so at its very first start, before a master has.
    fn settings_are_known(&self) -> bool {
        true
    }
    /// What the machine says of itself now (D-7).
    fn facts(&self) -> BoxFuture<'_, Map<String, Value>>;
}
