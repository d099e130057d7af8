//! Guards that ask a function instead of the shell (S-47): `onlyif: [{fun: file.file_exists, args: [/etc/x]}]`.

use super::StateHands;
use crate::functions::{self, Access, Arguments, Place};
use crate::settings::walk;
use serde_json::Value as Json;
use std::time::Duration;
use zester_engine::NodeId;
use zester_host::{Fault, FaultKind};
use zester_model::program::FunctionGuard;

impl StateHands {
    /// Whether every function answers what its guard wants.
    pub(super) fn answers_fit(&self, asks: &[FunctionGuard]) -> Result<bool, Fault> {
        for ask in asks {
            if truth(&self.answer(ask)?) != ask.wanted {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn answer(&self, ask: &FunctionGuard) -> Result<Json, Fault> {
        let name = &ask.function;
        let fault = |why: String| Fault::new(FaultKind::Unsupported, format!("the guard `{name}`: {why}"));
        let function = functions::find(name).filter(|function| function.access <= Access::Command);
        let function = function.ok_or_else(|| fault("there is no such function".into()))?;
        let place = Place {
            look: self.machine.files.as_ref(),
            processes: self.machine.processes.as_ref(),
            handle: &self.machine.handle,
            facts: &self.plan.inputs.facts,
            settings: &self.plan.inputs.settings,
            cancel: &self.cancel,
        };
        let arguments = Arguments { positional: ask.args.clone(), named: ask.named.clone() };
        // A function may run a command, which waits on the runtime we stand on.
        let answer = tokio::task::block_in_place(|| function.answer(&place, &arguments)).map_err(fault)?;
        Ok(match &ask.part {
            Some(part) => walk(&answer, part).cloned().unwrap_or(Json::Null),
            None => answer,
        })
    }

    /// What chance adds to the pause before another try.
    pub(crate) fn splay(&self, node: NodeId) -> Duration {
        use std::hash::{BuildHasher, Hasher};
        let most =
            self.plan.state(node.0 as usize).map_or(Duration::ZERO, |state| state.attributes.retry_splay);
        let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
        most.mul_f64(chance as f64 / u64::MAX as f64)
    }
}

/// What counts as yes, as Python would say.
fn truth(value: &Json) -> bool {
    match value {
        Json::Null => false,
        Json::Bool(value) => *value,
        Json::Number(number) => number.as_f64() != Some(0.0),
        Json::String(text) => !text.is_empty(),
        Json::Array(items) => !items.is_empty(),
        Json::Object(map) => !map.is_empty(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_rule::rule;

    #[test]
    #[rule("S-47")]
    fn s47_an_answer_counts_as_python_would_count_it() {
        for (value, expected) in [
            (json!(null), false),
            (json!(false), false),
            (json!(true), true),
            (json!(0), false),
            (json!(0.0), false),
            (json!(-1), true),
            (json!(""), false),
            (json!("no"), true),
            (json!([]), false),
            (json!({}), false),
            (json!([0]), true),
        ] {
            assert_eq!(truth(&value), expected, "{value}");
        }
    }
}
