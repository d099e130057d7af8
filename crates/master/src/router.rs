//! Takes acks, returns and cancels of all jobs, and hands each to its job.
//!
//! Three subscriptions stand from the start of a master to its end, so no job ever listens too late. The subject says whose a
//! message is: what belongs to the jobs of other masters is not even opened. What may have been lost (a full queue, a lost
//! connection) is read again from the stream.

use crate::core::Core;
use crate::job::{Handle, JobMessage};
use crate::limits::{BUS_PAUSE, ROUTER_QUEUE};
use crate::outage::Outage;
use std::sync::Arc;
use tokio::time::sleep;
use zester_bus::{Delivery, Event, Events, Listen, Message, Subscription};
use zester_health::State;
use zester_identity::audit::Decided;
use zester_wire::returns::BY_POLICY;
use zester_wire::{Ack, Cause, JobEvent, JobEventKind, Return, Subject, subject};

pub struct Router {
    core: Arc<Core>,
    acks: Subscription,
    returns: Subscription,
    cancels: Subscription,
    events: Events,
    outage: Outage,
}

impl Router {
    pub async fn listen(core: Arc<Core>) -> Router {
        let events = core.link.bus().events();
        let router = Router {
            acks: subscribe(&core, subject::ALL_ACKS, &Listen::alone(ROUTER_QUEUE)).await,
            returns: subscribe(&core, subject::ALL_RETURNS, &Listen::alone(ROUTER_QUEUE)).await,
            cancels: subscribe(&core, subject::ALL_CANCELS, &Listen::alone(ROUTER_QUEUE)).await,
            events,
            outage: Outage::default(),
            core,
        };
        // Jobs begin once the server has all three.
        while let Err(error) = router.core.link.bus().flush().await {
            tracing::warn!("cannot listen to the peels: {error}");
            sleep(BUS_PAUSE).await;
        }
        router
    }

    /// Ends when the bus is closed.
    pub async fn run(mut self) {
        loop {
            tokio::select! {
                biased;
                event = self.events.next() => match event {
                    Some(event) => self.connection(event),
                    None => return,
                },
                delivery = self.cancels.next() => match delivery {
                    Some(delivery) => self.cancel(delivery),
                    None => return,
                },
                delivery = self.acks.next() => match delivery {
                    Some(delivery) => self.ack(delivery),
                    None => return,
                },
                delivery = self.returns.next() => match delivery {
                    Some(delivery) => self.returned(delivery),
                    None => return,
                },
            }
        }
    }

    fn connection(&mut self, event: Event) {
        let core = &self.core;
        match event {
            Event::Connected | Event::Reconnected => {
                self.outage.over();
                core.health.set("bus", State::Up);
                core.losses.disconnected();
            }
            Event::Disconnected => {
                self.outage.begins();
                core.health.set("bus", State::Down("there is no connection to the bus".into()));
            }
            Event::Missed(_) => {
                if core.link.bus().info().connected {
                    self.outage.over();
                    core.health.set("bus", State::Up);
                }
                // A lost connection may be among them.
                core.losses.disconnected();
            }
            Event::SlowConsumer => core.losses.dropped(),
            // What a server has against us is told by who made the connection, and that there is none was told.
            Event::ServerSaid(words) => tracing::debug!("heard about the connection: {words}"),
            Event::Closed => core.health.set("bus", State::Down("the bus is closed".into())),
        }
    }

    /// A message for a job that has its task here; none for any other, and where messages were lost.
    fn for_a_job(&self, delivery: Delivery) -> Option<(Handle, Subject, Message)> {
        let Some(message) = self.core.link.delivered(delivery) else {
            self.core.losses.dropped();
            return None;
        };
        let subject = self.core.link.subject_of(&message)?;
        let (jid, peel) = match &subject {
            Subject::JobAck { jid, peel } | Subject::JobReturn { jid, peel } => (jid, Some(peel)),
            Subject::JobCancel { jid } => (jid, None),
            _ => return None,
        };
        let handle = self.core.running.get(jid)?;
        // What a peel says beyond its share the stream keeps, and it is read there.
        let has_room = peel.is_none_or(|peel| self.core.link.has_room_for(peel));
        has_room.then_some((handle, subject, message))
    }

    fn ack(&self, delivery: Delivery) {
        let Some((handle, subject, message)) = self.for_a_job(delivery) else { return };
        let Some(opened) = self.core.link.open_addressed::<Ack>(&subject, &message.payload) else { return };
        let Ack { peel, dispatch_epoch, .. } = opened.message;
        handle.leave(JobMessage::Ack { peel, dispatch_epoch });
    }

    fn returned(&self, delivery: Delivery) {
        let Some((handle, subject, message)) = self.for_a_job(delivery) else { return };
        let Some(ret) = self.core.link.open_return(&subject, &message.payload) else { return };
        self.note_refusal(&ret);
        handle.leave_return(ret, message.payload.len());
    }

    /// What the policy of a machine refused stands in the log of who asked for it (I-6).
    fn note_refusal(&self, ret: &Return) {
        if ret.cause == Cause::Refused && ret.error.starts_with(BY_POLICY) {
            self.core.audit.note(Decided {
                act: "policy",
                who: format!("peel {}", ret.peel),
                about: ret.jid.to_string(),
                refused: ret.error.clone(),
                ..Decided::default()
            });
        }
    }

    fn cancel(&self, delivery: Delivery) {
        let Some((handle, subject, message)) = self.for_a_job(delivery) else { return };
        let opened = self.core.link.open_addressed::<JobEvent>(&subject, &message.payload);
        let Some(opened) = opened else { return };
        if let JobEventKind::Canceled { by, .. } = opened.message.event {
            handle.leave(JobMessage::Cancel { by, answer: None });
        }
    }
}

/// Listens; tries until it does.
pub async fn subscribe(core: &Core, pattern: &str, listen: &Listen) -> Subscription {
    loop {
        match core.link.bus().subscribe(pattern, listen.clone()).await {
            Ok(subscription) => return subscription,
            Err(error) => tracing::warn!("cannot listen to {pattern}: {error}"),
        }
        sleep(BUS_PAUSE).await;
    }
}
