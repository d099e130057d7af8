//! `zester.admin.publish`: whoever gets it and does not publish passes it on to the master that does (D-2).

use super::admin::unavailable;
use super::must_be_fresh;
use crate::core::Core;
use crate::limits::PASS_WAIT;
use crate::publisher::LEASE;
use std::sync::Arc;
use zester_bus::Message;
use zester_wire::{
    AdminReply, AdminRequest, BadName, Key, Lease, PublishRequest, Refusal, RefusalKind, Subject, Token,
    UnixMillis,
};

/// Where the master listens that publishes.
pub fn holder_subject() -> Result<Subject, BadName> {
    Ok(Subject::Holder { lease: Token::parse(LEASE)?, verb: Token::parse("publish")? })
}

pub async fn handle(core: Arc<Core>, request: PublishRequest, reply: Option<String>) {
    let answer = match core.orders.lease().is_held() {
        true => core.orders.take(request).await,
        false => pass_on(&core, request).await.unwrap_or_else(AdminReply::refusing),
    };
    core.answer(reply.as_deref(), &answer).await;
}

/// What another master passed on. All masters hear it; who does not publish stays silent.
pub async fn handle_passed(core: Arc<Core>, message: Message, received: UnixMillis) {
    if !core.orders.lease().is_held() {
        return;
    }
    let Some(subject) = core.link.subject_of(&message) else { return };
    let Some(opened) = core.link.open_addressed::<AdminRequest>(&subject, &message.payload) else { return };
    let fresh = must_be_fresh(&opened, received);
    if let AdminRequest::Publish(request) = opened.message {
        let answer = match fresh {
            Ok(()) => core.orders.take(request).await,
            Err(refusal) => AdminReply::refusing(refusal),
        };
        core.answer(message.reply.as_deref(), &answer).await;
    }
}

async fn pass_on(core: &Core, request: PublishRequest) -> Result<AdminReply, Refusal> {
    let ask_again = |why: String| Refusal::new(RefusalKind::Unavailable, format!("{why}; ask again"));
    let name = Token::parse(LEASE).map_err(|bad| ask_again(bad.to_string()))?;
    let found =
        core.link.get_latest::<Lease>(&Key::Lease(name)).await.map_err(|error| unavailable(&error))?;
    let Some(holder) = found.map(|found| found.value.holder).filter(|holder| *holder != core.id) else {
        core.orders.want_lease();
        return Err(ask_again(format!("no master holds the lease `{LEASE}` yet")));
    };
    let subject = holder_subject().map_err(|bad| ask_again(bad.to_string()))?;
    let request = AdminRequest::Publish(request);
    let passed = core.link.request::<AdminRequest, AdminReply>(&subject, &request, PASS_WAIT).await;
    passed.map_err(|error| {
        let name = holder.name();
        ask_again(format!("the master {name} holds the lease `{LEASE}` and does not answer ({error})"))
    })
}
