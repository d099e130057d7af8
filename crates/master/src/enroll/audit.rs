//! The one place where a decision about who may be a peel is told (I-6).

use crate::core::Core;
use zester_identity::audit;
use zester_wire::Token;

/// Something was decided, and is written.
pub struct Decided<'a> {
    /// Who: an operator, `reactor:<rule>`, `token:<id>`, or the door itself.
    pub who: &'a str,
    /// What: `enroll.approve`, `enroll.token`, …
    pub what: &'static str,
    /// Of which record or token.
    pub id: &'a Token,
    pub reason: &'a str,
}

pub fn record(core: &Core, decided: &Decided<'_>) {
    let Decided { who, what, id, reason } = *decided;
    tracing::info!(%id, who, reason, "{what}");
    let about = if reason.is_empty() { id.to_string() } else { format!("{id} ({reason})") };
    core.audit.note(audit::Decided { act: what, who: who.to_string(), about, ..audit::Decided::default() });
}
