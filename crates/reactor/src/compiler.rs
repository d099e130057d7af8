//! What the reactor needs of a compiler. It comes in from outside, so that this crate stays without one.

use crate::gates::Passed;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use zester_model::diagnostic::Diagnostic;
use zester_model::node::Node;
use zester_wire::Origin;

pub trait RuleCompiler: Send + Sync {
    /// Reads plain YAML (`top.zy`), or says what is wrong with it: file, line, column, the line and a caret.
    fn yaml(&self, path: &str, text: &str) -> Result<Node, Vec<String>>;

    /// Reads a reaction file. Done once when rules are loaded; it is rendered for each event.
    fn template(
        &self,
        path: &str,
        text: &str,
        files: &BTreeMap<String, String>,
    ) -> Result<Arc<dyn ReactionTemplate>, Vec<String>>;

    /// Whether it may be asked on the thread that serves everything else, because it does next to nothing.
    fn is_quick(&self) -> bool {
        false
    }

    /// Shows what was found wrong in a file as it shows its own findings.
    fn explain(&self, path: &str, text: &str, diagnostics: &[Diagnostic]) -> Vec<String>;
}

pub trait ReactionTemplate: Send + Sync {
    /// Whether it is the same for every event, and costs next to nothing.
    fn is_plain(&self) -> bool {
        false
    }

    /// A map of blocks by their ids, or nothing. Bounded in time and size by the compiler itself.
    fn render(&self, context: &EventContext) -> Result<Node, Vec<String>>;
}

/// What a template sees.
#[derive(Clone, Debug, PartialEq)]
pub struct EventContext {
    /// `id`, `tag`, `peel`, `origin`, `depth`, `ts`, `data`.
    pub event: Value,
    /// The facts of the peel that sent the event; null for others.
    pub origin_facts: Value,
}

impl EventContext {
    /// Of no event at all, for what is the same for all of them.
    pub fn none() -> EventContext {
        EventContext { event: Value::Null, origin_facts: Value::Null }
    }

    pub fn new(passed: &Passed, origin_facts: Value) -> EventContext {
        let peel = match &passed.origin {
            Origin::Peel(peel) => peel.as_str(),
            Origin::Master | Origin::Admin => "",
        };
        let event = &passed.event;
        let event = json!({
            "id": event.id,
            "tag": event.tag.as_str(),
            "peel": peel,
            "origin": passed.origin.to_string(),
            "depth": event.depth,
            "ts": event.ts.0,
            "data": event.data,
        });
        EventContext { event, origin_facts }
    }
}
