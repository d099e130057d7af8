//! What comes in by `zester.cmd.<peel>`. Requests may have to wait; cancels never do.

use super::Error;
use super::actor::Actor;
use super::limits::REQUESTS_WAITING_MAX;
use zester_bus::{Delivery, Message};
use zester_identity::{Principal, Role};
use zester_jobs::dedup::Dispatch;
use zester_jobs::peel::Event;
use zester_link::{Opened, Reason};
use zester_wire::{ExecRequest, PeelCommand, UnixMillis};

/// A request that was read.
pub(super) struct Request {
    request: Box<ExecRequest>,
    signed: UnixMillis,
    reply: Option<String>,
    principal: Option<Principal>,
}

impl Actor {
    pub(super) fn delivered(&mut self, delivery: Option<Delivery>) -> Result<(), Error> {
        let Some(delivery) = delivery else { return Err(Error("the bus was closed".into())) };
        match self.link.delivered(delivery) {
            Some(raw) => self.command(raw),
            None => self.missed_commands(),
        }
        Ok(())
    }

    fn command(&mut self, raw: Message) {
        let Some(opened) = self.link.open::<PeelCommand>(&raw.subject, &raw.payload) else { return };
        let Opened { message, signed, principal, .. } = opened;
        if let Some(who) = &principal
            && !may_command(who, &message)
        {
            self.link.dropped().add(Reason::Spoof, 1);
            return tracing::warn!(%who, "a command was dropped: it is not theirs to give");
        }
        match message {
            PeelCommand::Pace(pace) => return self.pace(&pace),
            PeelCommand::Exec(mut request) if self.requests.len() < REQUESTS_WAITING_MAX => {
                if let Some(who) = principal.as_ref().filter(|_| request.direct) {
                    // Whose request it is, the key says.
                    request.user.clone_from(&who.name);
                }
                let request = Box::new(request);
                self.requests.push_back(Request { request, signed, reply: raw.reply, principal });
            }
            PeelCommand::Exec(request) => {
                self.link.dropped().add(Reason::Missed, 1);
                self.missed_requests();
                tracing::warn!(jid = %request.jid, "a request was dropped: too many wait; its master asks again");
            }
            PeelCommand::Cancel(cancel) => {
                tracing::info!(jid = %cancel.jid, reason = cancel.reason, "a job is canceled");
                self.feed(Event::Cancel { jid: cancel.jid, dispatch_epoch: cancel.dispatch_epoch });
            }
            PeelCommand::SharedId(shared) => self.shares_its_id(shared.boot),
            PeelCommand::PublishFacts(_) => self.publish_facts(),
            PeelCommand::Unknown => tracing::debug!("a command of a later version was ignored"),
        }
        self.show_itself();
    }

    /// Takes the requests that there is room for.
    pub(super) fn take_requests(&mut self) {
        while self.has_room()
            && let Some(next) = self.requests.front()
            && !self.judging_needs_facts(next.principal.as_ref())
            && let Some(request) = self.requests.pop_front()
        {
            self.request(request);
        }
    }

    fn request(&mut self, request: Request) {
        let Request { request, signed, reply, principal } = request;
        let terms = self.terms(&request, principal.as_ref());
        if request.direct {
            let (jid, function) = (&request.jid, request.function.as_str());
            tracing::info!(%jid, function, user = request.user, "a direct request");
            let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
            self.asking = Some((dispatch, reply));
        }
        self.feed(Event::Exec { request, signed, terms });
        // Not answered yet: the answer comes with its return, to whoever asked first.
        if let Some((dispatch, Some(inbox))) = self.asking.take() {
            self.inboxes.entry(dispatch).or_insert(inbox);
        }
    }
}

/// An admin asks past the masters and in no other way; everything else is a master's to say (I-8, J-21).
fn may_command(who: &Principal, command: &PeelCommand) -> bool {
    let is_direct = matches!(command, PeelCommand::Exec(request) if request.direct);
    match who.role {
        Role::Admin | Role::Operator => is_direct,
        Role::Master => !is_direct,
        Role::Peel => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;
    use std::time::Duration;
    use zester_rule::rule;
    use zester_wire::{Cancel, Jid, VERSION};

    #[test]
    #[rule("I-8", "J-21")]
    fn i8_an_admin_commands_past_the_masters_only_and_a_master_never_so() {
        let jid = Jid::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap();
        let exec = |direct| {
            PeelCommand::Exec(ExecRequest {
                v: VERSION,
                jid: jid.clone(),
                function: "test.ping".into(),
                args: serde_json::Map::new(),
                state_id: String::new(),
                dispatch_epoch: 1,
                budget: Duration::from_secs(1),
                user: String::new(),
                rdepth: 0,
                positionals: Vec::new(),
                test: false,
                direct,
                request: Vec::new(),
                proof: None,
            })
        };
        let cancel = PeelCommand::Cancel(Cancel {
            v: VERSION,
            jid: jid.clone(),
            dispatch_epoch: 1,
            reason: String::new(),
        });
        for (role, direct, through, canceled) in [
            (Role::Admin, true, false, false),
            (Role::Operator, true, false, false),
            (Role::Master, false, true, true),
            (Role::Peel, false, false, false),
        ] {
            let who = Principal { role, name: "x".into(), key: String::new() };
            let may = [exec(true), exec(false), cancel.clone()].map(|command| may_command(&who, &command));
            assert_eq!(may, [direct, through, canceled], "{role}");
        }
    }
}
