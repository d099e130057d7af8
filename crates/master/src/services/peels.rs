//! `zester.peel.list` and the verb `forget`: which peels there are, and that some are gone for good (J-25).

use super::index_is_ready;
use crate::core::Core;
use crate::index::{self, forget};
use std::sync::Arc;
use zester_bus::Message;
use zester_link::Error;
use zester_wire::limits::{FORGET_MAX, PEELS_PAGE_MAX};
use zester_wire::{
    FactsRecord, Key, PeelHeartbeat, PeelId, PeelsReply, PeelsRequest, Refusal, RefusalKind, VERSION,
};

pub async fn list(core: Arc<Core>, message: Message) {
    let Some(opened) = core.link.open::<PeelsRequest>(&message.subject, &message.payload) else { return };
    let PeelsRequest { target_expr, after, .. } = opened.message;
    let room = || core.shares.take(opened.principal.as_ref(), core.link.dropped());
    let page = match index_is_ready(&core).and_then(|()| room()) {
        Ok(()) => core.index.page(&target_expr, after.as_ref(), PEELS_PAGE_MAX).await,
        Err(refusal) => Err(refusal),
    };
    let reply = match page {
        Ok((peels, more)) => PeelsReply { v: VERSION, peels, more, error: None },
        Err(refusal) => PeelsReply { v: VERSION, peels: Vec::new(), more: false, error: Some(refusal) },
    };
    core.answer(message.reply.as_deref(), &reply).await;
}

/// Forgets all of these or, if one of them is there or unknown, none. What was done, in a sentence.
pub async fn forget_all(core: &Core, peels: &[PeelId], by: &str) -> Result<String, Refusal> {
    let invalid = |message: String| Err(Refusal::new(RefusalKind::Invalid, message));
    if peels.len() > FORGET_MAX {
        return invalid(format!("{} peels are named; one request forgets at most {FORGET_MAX}", peels.len()));
    }
    index_is_ready(core)?;
    for peel in peels {
        if core.index.is_online(peel) {
            let message = format!("{peel} is online; stop its peel first, or it comes back at once");
            return invalid(message);
        }
        if core.index.presence().is_unsure(peel) {
            let message = format!(
                "{peel} was there lately, and this master has just begun and cannot say yet that it is gone; ask again in half a minute"
            );
            return invalid(message);
        }
        if !is_known(core, peel).await.map_err(|error| super::admin::unavailable(&error))? {
            let hint = "`zester peel list` shows those there are".to_string();
            let refusal = Refusal::new(RefusalKind::NoTargets, format!("there is no peel `{peel}`"));
            return Err(Refusal { hint, ..refusal });
        }
    }
    for peel in peels {
        forget(core, peel, by).await.map_err(|error| super::admin::unavailable(&error))?;
    }
    index::tell_others(core).await;
    let count = peels.len();
    Ok(format!("forgot {count} {}", if count == 1 { "peel" } else { "peels" }))
}

async fn is_known(core: &Core, peel: &PeelId) -> Result<bool, Error> {
    let facts = core.link.get::<FactsRecord>(&Key::Facts(peel.clone())).await;
    let seen = core.link.get::<PeelHeartbeat>(&Key::Peel(peel.clone())).await;
    // A record that cannot be read or believed is there, and can be removed.
    let is_there = |found: Result<bool, Error>| match found {
        Err(error) if error.is_of_record() => Ok(true),
        found => found,
    };
    Ok(is_there(facts.map(|found| found.is_some()))? || is_there(seen.map(|found| found.is_some()))?)
}
