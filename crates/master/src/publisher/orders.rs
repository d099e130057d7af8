//! What operators ask the holder of the lease to publish: taken once, however often they ask.

use crate::held_lease::HeldLease;
use crate::limits::{LEASE_WANTED, ORDERS_KEPT, ORDERS_WAITING, PUBLISH_ANSWER_WAIT};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, timeout};
use zester_wire::{AdminReply, PublishRequest, Refusal, RefusalKind, Token};

/// One request, and where its answer goes.
pub struct Order {
    pub request: PublishRequest,
    pub done: watch::Sender<Option<AdminReply>>,
}

/// The way of requests to the task that publishes.
pub struct Orders {
    queue: mpsc::Sender<Order>,
    known: Mutex<VecDeque<(Token, watch::Receiver<Option<AdminReply>>)>>,
    lease: HeldLease,
    wanted: Wanted,
}

/// Until when a master that has nothing of its own to publish keeps the lease, because somebody asked.
#[derive(Default)]
struct Wanted {
    /// It has, and always wants it.
    always: bool,
    until: Mutex<Option<Instant>>,
    asked: Notify,
}

impl Orders {
    pub fn new(has_sources: bool) -> (Orders, mpsc::Receiver<Order>) {
        let (queue, orders) = mpsc::channel(ORDERS_WAITING);
        let wanted = Wanted { always: has_sources, ..Wanted::default() };
        (Orders { queue, known: Mutex::default(), lease: HeldLease::default(), wanted }, orders)
    }

    pub fn lease(&self) -> &HeldLease {
        &self.lease
    }

    /// Asks for the lease, for a while.
    pub fn want_lease(&self) {
        let until = Instant::now() + LEASE_WANTED;
        *self.wanted.until.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
        self.wanted.asked.notify_one();
    }

    /// Pending while nobody wants the lease: one that is kept without need keeps others from publishing.
    pub async fn lease_wanted(&self) {
        loop {
            let until = *self.wanted.until.lock().unwrap_or_else(PoisonError::into_inner);
            if self.wanted.always || until.is_some_and(|until| Instant::now() < until) {
                return;
            }
            self.wanted.asked.notified().await;
        }
    }

    /// The answer, or that it is being worked on.
    pub async fn take(&self, request: PublishRequest) -> AdminReply {
        match self.place(request) {
            Ok(answer) => answer_within(answer, PUBLISH_ANSWER_WAIT).await,
            Err(refusal) => AdminReply::refusing(refusal),
        }
    }

    fn place(&self, request: PublishRequest) -> Result<watch::Receiver<Option<AdminReply>>, Refusal> {
        let mut known = self.known();
        let asked =
            |id: &Token| known.iter().find(|(other, _)| other == id).map(|(_, answer)| answer.clone());
        if let Some(answer) = request.id.as_ref().and_then(asked) {
            return Ok(answer);
        }
        let (id, (done, answer)) = (request.id.clone(), watch::channel(None));
        self.queue.try_send(Order { request, done }).map_err(|_| {
            let why = "other requests to publish are waiting already; ask again";
            Refusal::new(RefusalKind::Unavailable, why)
        })?;
        if let Some(id) = id {
            known.push_back((id, answer.clone()));
            if known.len() > ORDERS_KEPT {
                known.pop_front();
            }
        }
        Ok(answer)
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<(Token, watch::Receiver<Option<AdminReply>>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn answer_within(mut answer: watch::Receiver<Option<AdminReply>>, wait: Duration) -> AdminReply {
    let done = timeout(wait, answer.wait_for(Option::is_some)).await;
    match done {
        Ok(Ok(reply)) => reply.clone().unwrap_or_else(|| AdminReply::done("")),
        Ok(Err(_)) => {
            AdminReply::refusing(Refusal::new(RefusalKind::Unavailable, "this master stops; ask again"))
        }
        Err(_) => AdminReply::refusing(Refusal::new(RefusalKind::UnderWay, "it is being published")),
    }
}
