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
        // Who was told to ask again is not told so for ever: only an end is an answer to the next question.
        known.retain(|(id, answer)| request.id.as_ref() != Some(id) || !is_passing(&answer.borrow()));
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

/// Whether it says that the same request may succeed a moment later.
fn is_passing(answer: &Option<AdminReply>) -> bool {
    let refusal = answer.as_ref().and_then(|reply| reply.error.as_ref());
    refusal.is_some_and(|refusal| refusal.kind.is_retryable())
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

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    /// Asks, answers what comes to be worked on, and tells what the one who asked got, and whether anybody worked on it.
    async fn ask(
        orders: &Orders,
        work: &mut mpsc::Receiver<Order>,
        request: &PublishRequest,
        with: &AdminReply,
    ) -> (AdminReply, bool) {
        let mut worked = false;
        let answering = async {
            if let Some(order) = work.recv().await {
                worked = true;
                order.done.send_replace(Some(with.clone()));
            }
            std::future::pending::<()>().await;
        };
        let reply = tokio::select! {
            biased;
            () = answering => AdminReply::done(""),
            reply = orders.take(request.clone()) => reply,
        };
        (reply, worked)
    }

    #[tokio::test(start_paused = true)]
    #[rule("D-2")]
    async fn d2_only_how_it_ended_is_remembered_for_who_asks_again() {
        let (orders, mut work) = Orders::new(true);
        let id = Some(Token::parse("one").unwrap());
        let request = PublishRequest { id, ..PublishRequest::default() };
        let refuses = |kind| AdminReply::refusing(Refusal::new(kind, "no"));
        let away = refuses(RefusalKind::Unavailable);
        assert_eq!(ask(&orders, &mut work, &request, &away).await, (away.clone(), true));
        assert_eq!(ask(&orders, &mut work, &request, &away).await, (away, true), "it is tried again");
        let done = AdminReply::done("published");
        assert_eq!(ask(&orders, &mut work, &request, &done).await, (done.clone(), true));
        let other = AdminReply::done("another answer");
        assert_eq!(ask(&orders, &mut work, &request, &other).await, (done, false), "it is done once");
        let id = Some(Token::parse("two").unwrap());
        let request = PublishRequest { id, ..PublishRequest::default() };
        let torn = refuses(RefusalKind::Conflict);
        assert_eq!(ask(&orders, &mut work, &request, &torn).await, (torn.clone(), true));
        assert_eq!(ask(&orders, &mut work, &request, &other).await, (torn, false), "that is an end too");
    }
}
