//! Whether an operator's own request stands behind what a master asks of a peel (I-8, J-24).

use serde_json::{Map, Value};
use std::fmt;
use zester_model::target::{Subject, Target};
use zester_wire::{DispatchRequest, ExecRequest, PeelId};

/// Why it does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uncovered(pub String);

impl fmt::Display for Uncovered {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Uncovered {}

/// What the operator signed must be what the master asks, word for word, and mean this very peel. `facts` are what the peel knows of
/// itself, not what anybody says of it.
pub fn covers(
    signed: &DispatchRequest,
    asked: &ExecRequest,
    me: &PeelId,
    facts: &Value,
) -> Result<(), Uncovered> {
    let no = |why: &str| Err(Uncovered(why.to_string()));
    if signed.jid != asked.jid {
        return no("what its operator signed is another job");
    }
    let what =
        signed.function == asked.function && signed.state_id == asked.state_id && signed.test == asked.test;
    if !what || signed.args != asked.args || signed.positionals != asked.positionals {
        return no("its operator signed other words");
    }
    let timeout = if signed.timeout.is_zero() { zester_wire::job::TIMEOUT_DEFAULT } else { signed.timeout };
    if asked.budget > timeout {
        return no("it is given more time than its operator gave");
    }
    match (&signed.target_digest, &asked.proof) {
        (Some(digest), Some(proof)) if digest.count > 0 => match digest.names(me, proof) {
            true => Ok(()),
            false => no("its operator's list does not name this peel"),
        },
        (Some(digest), None) if digest.count > 0 => {
            no("nothing proves that its operator's list names this peel")
        }
        (Some(_), _) => {
            no("its operator's target is too long to travel along; name the peels as a list (L@)")
        }
        (None, _) => expression(&signed.target_expr, me, facts),
    }
}

fn expression(text: &str, me: &PeelId, facts: &Value) -> Result<(), Uncovered> {
    let Ok(target) = Target::parse(text) else {
        return Err(Uncovered(format!("its operator's target `{text}` cannot be read")));
    };
    if target.needs_settings() {
        let why = "its operator's target asks for settings, which masters publish; name peels, or facts (G@)";
        return Err(Uncovered(why.into()));
    }
    let settings = Value::Object(Map::new());
    match target.matches(&Subject { id: me.as_str(), facts, settings: &settings }) {
        true => Ok(()),
        false => Err(Uncovered(format!("its operator's target `{text}` does not mean this peel"))),
    }
}
