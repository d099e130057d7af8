//! What an operator may ask of masters (I-14): asked wherever a request is accepted.

use crate::core::Core;
use zester_identity::{Principal, Role};
use zester_policy::{Rights, RoleVerdict, Wanted};
use zester_wire::{PeelId, Refusal, RefusalKind};

/// What to do about it.
const HINT: &str = "`zester auth can` explains a decision; whoever holds the keys of the fleet changes roles";

/// Refuses what the roles of who asks do not allow, of any of these peels; without peels, at all. Admins may do everything, and
/// where nobody signs nobody has roles.
pub fn must_be_allowed(
    core: &Core,
    who: Option<&Principal>,
    wanted: &Wanted<'_>,
    peels: &[PeelId],
) -> Result<(), Refusal> {
    let (Some(who), Some(trust)) = (who.filter(|who| who.role == Role::Operator), core.link.trust()) else {
        return Ok(());
    };
    let rights = Rights::new(&trust.roles());
    if peels.is_empty() {
        return granted(core, rights.judge(&who.name, wanted, None));
    }
    // A line may deny by facts: of whom none are known, nobody can say that it does not.
    super::index_is_ready(core)?;
    let known = core.index.snapshot();
    for peel in peels {
        let Some(known) = known.get(peel) else {
            let why = format!("{peel} is not known, so nobody can tell what {} may do there", who.name);
            return Err(Refusal { hint: HINT.into(), ..Refusal::new(RefusalKind::Denied, why) });
        };
        let facts = known.facts.as_ref();
        granted(core, rights.judge(&who.name, wanted, Some((peel.as_str(), facts))))?;
    }
    Ok(())
}

fn granted(core: &Core, verdict: RoleVerdict) -> Result<(), Refusal> {
    if verdict.allowed {
        return Ok(());
    }
    core.metrics.denied.inc();
    let line = verdict.by.map_or_else(String::new, |(_, line)| format!(" ({line})"));
    let message = format!("{}{line}", verdict.why);
    tracing::warn!("refused: {message}");
    Err(Refusal { hint: HINT.into(), ..Refusal::new(RefusalKind::Denied, message) })
}
