//! Takes acks, returns and cancels of all jobs, and hands each to its job.
//!
//! Three subscriptions stand from the start of a master to its end, so no job ever listens too late. What may have been lost
//! (a full queue, a lost connection) every job reads again from the stream.

use crate::core::Core;
use crate::job::Mail;
use crate::limits::{BUS_PAUSE, ROUTER_QUEUE};
use crate::strays::Strays;
use std::sync::Arc;
use tokio::time::sleep;
use zester_bus::{Delivery, Event, Events, Listen, Message, Subscription};
use zester_health::State;
use zester_wire::{Ack, JobEvent, JobEventKind, Return, Subject, subject};

pub struct Router {
    core: Arc<Core>,
    acks: Subscription,
    returns: Subscription,
    cancels: Subscription,
    events: Events,
    strays: Strays,
}

impl Router {
    pub async fn listen(core: Arc<Core>) -> Router {
        let events = core.link.bus().events();
        let router = Router {
            acks: subscribe(&core, subject::ALL_ACKS, &Listen::alone(ROUTER_QUEUE)).await,
            returns: subscribe(&core, subject::ALL_RETURNS, &Listen::alone(ROUTER_QUEUE)).await,
            cancels: subscribe(&core, subject::ALL_CANCELS, &Listen::alone(ROUTER_QUEUE)).await,
            events,
            strays: Strays::new(core.clone()),
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
                () = self.strays.next() => {}
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
                core.health.set("bus", State::Up);
                core.roster.missed();
                self.strays.catch_up();
            }
            Event::Disconnected => {
                core.health.set("bus", State::Down("there is no connection to the bus".into()));
            }
            Event::Missed(_) => {
                if core.link.bus().info().connected {
                    core.health.set("bus", State::Up);
                }
                core.roster.missed();
            }
            Event::SlowConsumer => core.roster.missed(),
            Event::ServerSaid(words) => tracing::warn!("the server said: {words}"),
            Event::Closed => core.health.set("bus", State::Down("the bus is closed".into())),
        }
    }

    /// None where messages were lost, which every job is told.
    fn message(&self, delivery: Delivery) -> Option<(Subject, Message)> {
        let message = self.core.link.delivered(delivery);
        let Some(message) = message else {
            self.core.roster.missed();
            return None;
        };
        Some((self.core.link.subject_of(&message)?, message))
    }

    fn ack(&mut self, delivery: Delivery) {
        let Some((subject, message)) = self.message(delivery) else { return };
        let Some(opened) = self.core.link.open_addressed::<Ack>(&subject, &message.payload) else { return };
        let Ack { jid, peel, dispatch_epoch, .. } = opened.message;
        // An ack for a job of another master is no concern of ours.
        let _of_another = self.core.roster.leave(&jid, Mail::Ack { peel, dispatch_epoch });
    }

    fn returned(&mut self, delivery: Delivery) {
        let Some((subject, message)) = self.message(delivery) else { return };
        let Some(opened) = self.core.link.open_addressed::<Return>(&subject, &message.payload) else {
            return;
        };
        let jid = opened.message.jid.clone();
        if let Err(Mail::Return(ret)) = self.core.roster.leave(&jid, Mail::Return(Box::new(opened.message))) {
            self.strays.take(*ret);
        }
    }

    fn cancel(&mut self, delivery: Delivery) {
        let Some((subject, message)) = self.message(delivery) else { return };
        let Some(opened) = self.core.link.open_addressed::<JobEvent>(&subject, &message.payload) else {
            return;
        };
        if let JobEventKind::Canceled { by, .. } = opened.message.event {
            let _of_another = self.core.roster.leave(&opened.message.jid, Mail::Cancel { by, answer: None });
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
