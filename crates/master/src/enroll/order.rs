//! `zester.admin.enroll`: what operators want done.

use super::audit;
use super::decide::{Declined, Who, decide, transient};
use crate::core::Core;
use crate::limits::JOIN_TOKENS_MAX;
use std::sync::Arc;
use zester_bus::Kind;
use zester_identity::join_token;
use zester_model::target::glob::Glob;
use zester_wire::{
    AdminReply, Bucket, EnrollDecision, EnrollOrder, EnrollmentStatus, Key, NewToken, Refusal, RefusalKind,
    Token,
};

pub async fn handle(core: Arc<Core>, order: EnrollOrder, user: String, reply: Option<String>) {
    let done = match order {
        EnrollOrder::Decide { id, decision, reason } => decided(&core, &id, decision, &user, &reason).await,
        EnrollOrder::Token(new) => make(&core, &new, &user).await,
        EnrollOrder::DropToken { id } => drop_token(&core, &id, &user).await,
        EnrollOrder::Unknown => Err(Declined::Refused("this master does not know that order yet".into())),
    };
    let answer = match done {
        Ok(sentence) => AdminReply::done(sentence),
        Err(declined) => {
            let kind = match &declined {
                Declined::NoSuch(_) | Declined::Refused(_) => RefusalKind::Invalid,
                Declined::Duplicate(_) => RefusalKind::AlreadyOver,
                Declined::Transient(_) => RefusalKind::Unavailable,
            };
            AdminReply::refusing(Refusal::new(kind, declined.words()))
        }
    };
    core.answer(reply.as_deref(), &answer).await;
}

async fn decided(
    core: &Core,
    id: &Token,
    decision: EnrollDecision,
    user: &str,
    reason: &str,
) -> Result<String, Declined> {
    let who = Who { by: user, audited: user, reason, is_operator: true };
    let record = decide(core, id, decision, who, |_| Ok(())).await?;
    let peel = &record.peel;
    Ok(match record.status {
        EnrollmentStatus::Approved => {
            format!("{peel} is approved; it gets its credentials when it asks again")
        }
        EnrollmentStatus::Rejected => format!("{peel} is rejected"),
        EnrollmentStatus::Revoked => match core.enrollments.is_kept_out(core.link.now()).await {
            Some(Ok(())) => {
                format!("{peel} is revoked: nothing it says counts, and the server ends its connection")
            }
            Some(Err(why)) => format!(
                "{peel} is revoked: nothing it says counts, and it gets no new credentials; but the server was not told, and its connection stays until it is: {why}; or end it now with `zester enroll revoke {peel} --dir KEYS`"
            ),
            None => format!(
                "{peel} is revoked: nothing it says counts, and it gets no new credentials; its connection stays until they end: this master has no --revoker; end it with `zester enroll revoke {peel} --dir KEYS`"
            ),
        },
        other => format!("{peel} is {}", other.as_str()),
    })
}

async fn make(core: &Core, new: &NewToken, user: &str) -> Result<String, Declined> {
    if let Err(mistake) = Glob::parse(&new.names) {
        return Err(Declined::Refused(format!("`{}` is not a glob: {}", new.names, mistake.message)));
    }
    let token =
        join_token::make(new, user, core.link.now()).map_err(|bad| Declined::Refused(bad.to_string()))?;
    let id =
        join_token::id_of(&token.digest).ok_or_else(|| Declined::Refused("the digest is none".into()))?;
    let bus = core.link.bus();
    let keys = bus.keys(Bucket::Enrollments.as_str(), Key::ALL_JOIN_TOKENS).await;
    if keys.map_err(|error| transient(&error.into()))?.len() >= JOIN_TOKENS_MAX {
        let why = format!("there are {JOIN_TOKENS_MAX} join tokens already; drop some");
        return Err(Declined::Refused(why));
    }
    match core.link.create(&Key::JoinToken(id.clone()), &token).await {
        Ok(_) => {}
        // Asked again, because the answer was lost.
        Err(error) if error.bus_kind() == Some(Kind::Conflict) => {}
        Err(error) => return Err(transient(&error)),
    }
    audit::record(core, &audit::Decided { who: user, what: "enroll.token", id: &id, reason: &token.names });
    Ok(format!("token {id} lets one machine in as {}", token.names))
}

async fn drop_token(core: &Core, id: &Token, user: &str) -> Result<String, Declined> {
    let key = Key::JoinToken(id.clone());
    let found =
        core.link.get_standing::<zester_wire::JoinToken>(&key).await.map_err(|error| transient(&error))?;
    if found.is_none() {
        return Err(Declined::NoSuch(format!("there is no join token {id}")));
    }
    core.link.purge(&key).await.map_err(|error| transient(&error))?;
    audit::record(core, &audit::Decided { who: user, what: "enroll.token.drop", id, reason: "" });
    Ok(format!("token {id} lets nobody in any more"))
}
