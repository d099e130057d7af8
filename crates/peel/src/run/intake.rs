//! What comes in by `zester.cmd.<peel>`. Requests may have to wait; cancels never do.

use super::Error;
use super::actor::Actor;
use super::limits::REQUESTS_WAITING_MAX;
use zester_bus::{Delivery, Message};
use zester_jobs::dedup::Dispatch;
use zester_jobs::peel::Event;
use zester_link::Opened;
use zester_wire::{ExecRequest, PeelCommand, UnixMillis};

/// A request that was read.
pub(super) struct Request {
    request: Box<ExecRequest>,
    signed: UnixMillis,
    reply: Option<String>,
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
        let Opened { message, signed, .. } = opened;
        match message {
            PeelCommand::Pace(pace) => return self.pace(&pace),
            PeelCommand::Exec(request) if self.requests.len() < REQUESTS_WAITING_MAX => {
                self.requests.push_back(Request { request: Box::new(request), signed, reply: raw.reply });
            }
            PeelCommand::Exec(request) => {
                self.link.dropped().add(zester_link::Reason::Missed, 1);
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
            && let Some(request) = self.requests.pop_front()
        {
            self.request(request);
        }
    }

    fn request(&mut self, request: Request) {
        let Request { request, signed, reply } = request;
        if request.direct {
            let (jid, function) = (&request.jid, request.function.as_str());
            tracing::info!(%jid, function, user = request.user, "a direct request");
            let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
            self.asking = Some((dispatch, reply));
        }
        self.feed(Event::Exec { request, signed });
        // Not answered yet: the answer comes with its return, to whoever asked first.
        if let Some((dispatch, Some(inbox))) = self.asking.take() {
            self.inboxes.entry(dispatch).or_insert(inbox);
        }
    }
}
