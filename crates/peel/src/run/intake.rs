//! What comes in by `zester.cmd.<peel>`.

use super::Error;
use super::actor::Actor;
use zester_bus::{Delivery, Message};
use zester_jobs::dedup::Dispatch;
use zester_jobs::peel::Event;
use zester_link::Opened;
use zester_wire::PeelCommand;

impl Actor {
    pub(super) fn delivered(&mut self, delivery: Option<Delivery>) -> Result<(), Error> {
        let Some(delivery) = delivery else { return Err(Error("the bus was closed".into())) };
        if let Some(raw) = self.link.delivered(delivery) {
            self.command(raw);
        }
        Ok(())
    }

    fn command(&mut self, raw: Message) {
        let Some(opened) = self.link.open::<PeelCommand>(&raw.subject, &raw.payload) else { return };
        let Opened { message, signed, .. } = opened;
        match message {
            PeelCommand::Exec(request) => {
                let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
                let direct = request.direct;
                if direct {
                    let (jid, function) = (&request.jid, request.function.as_str());
                    tracing::info!(%jid, function, user = request.user, "a direct request");
                    self.asking = Some((dispatch, raw.reply));
                }
                self.feed(Event::Exec { request: Box::new(request), signed });
                // Not answered yet: the answer comes with its return, to whoever asked first.
                if let Some((dispatch, Some(inbox))) = self.asking.take() {
                    self.inboxes.entry(dispatch).or_insert(inbox);
                }
            }
            PeelCommand::Cancel(cancel) => {
                tracing::info!(jid = %cancel.jid, reason = cancel.reason, "a job is canceled");
                self.feed(Event::Cancel { jid: cancel.jid, dispatch_epoch: cancel.dispatch_epoch });
            }
            PeelCommand::Unknown => tracing::debug!("a command of a later version was ignored"),
        }
    }
}
