//! What clients ask of any master: dispatch, admin, resolve, list. One loop takes the requests, and works on a few at a time.

mod admin;
pub mod dispatch;
mod peels;
mod publish;
pub mod rights;

use crate::core::Core;
use crate::limits::{
    ANSWER_EXTRA_BYTES, NAME_EXTRA_BYTES, REQUEST_QUEUE, REQUESTS_END_LIMIT, REQUESTS_IN_FLIGHT,
};
use crate::reactor;
use crate::router::subscribe;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_bus::{Delivery, Listen, Message, Subscription};
use zester_identity::limits::REQUEST_AGE_MAX;
use zester_link::Opened;
use zester_wire::limits::EXPLAINED_PAGE_MAX;
use zester_wire::subject::{ALL_ADMIN, MASTERS};
use zester_wire::{PeelId, Refusal, RefusalKind, ResolveReply, ResolveRequest, Subject, UnixMillis, VERSION};

pub struct Services {
    core: Arc<Core>,
    dispatches: Subscription,
    admin: Subscription,
    resolves: Subscription,
    lists: Subscription,
    /// What other masters pass on to the one that publishes.
    passed: Option<Subscription>,
    /// What other masters pass on to those that react.
    reactor: Option<Subscription>,
}

impl Services {
    pub async fn listen(core: Arc<Core>) -> Services {
        let shared = Listen::shared(MASTERS, REQUEST_QUEUE);
        let passed = match publish::holder_subject() {
            Ok(subject) => Some(subscribe(&core, &subject.to_string(), &Listen::alone(REQUEST_QUEUE)).await),
            Err(_) => None,
        };
        let reactor = match (&core.reactor, reactor::admin_subjects()) {
            (Some(_), Ok(subjects)) => Some(subscribe(&core, &subjects, &Listen::alone(REQUEST_QUEUE)).await),
            _ => None,
        };
        Services {
            passed,
            reactor,
            dispatches: subscribe(&core, &Subject::Dispatch.to_string(), &shared).await,
            admin: subscribe(&core, ALL_ADMIN, &shared).await,
            resolves: subscribe(&core, &Subject::TargetResolve.to_string(), &shared).await,
            lists: subscribe(&core, &Subject::PeelList.to_string(), &shared).await,
            core,
        }
    }

    /// Until `end`; then it stops listening, and lets what was begun end.
    pub async fn run(self, end: CancellationToken) {
        let Services { core, mut dispatches, mut admin, mut resolves, mut lists, mut passed, mut reactor } =
            self;
        let mut under_way: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        loop {
            let room = under_way.len() < REQUESTS_IN_FLIGHT;
            let (kind, taken) = tokio::select! {
                biased;
                () = end.cancelled() => break,
                Some(()) = under_way.next() => continue,
                taken = admin.next_waited(), if room => (Kind::Admin, taken),
                taken = dispatches.next_waited(), if room => (Kind::Dispatch, taken),
                taken = resolves.next_waited(), if room => (Kind::Resolve, taken),
                taken = lists.next_waited(), if room => (Kind::List, taken),
                taken = next_passed(&mut passed), if room => (Kind::Passed, taken),
                taken = next_passed(&mut reactor), if room => (Kind::Reactor, taken),
            };
            match taken {
                Some((delivery, waited)) => take(&core, kind, delivery, waited, &under_way),
                // The bus is closed.
                None => break,
            }
        }
        drop((dispatches, admin, resolves, lists, passed, reactor));
        let rest = async { while under_way.next().await.is_some() {} };
        let _out_of_time = tokio::time::timeout(REQUESTS_END_LIMIT, rest).await;
    }
}

#[derive(Copy, Clone)]
enum Kind {
    Dispatch,
    Admin,
    Resolve,
    List,
    Passed,
    Reactor,
}

async fn next_passed(passed: &mut Option<Subscription>) -> Option<(Delivery, Duration)> {
    match passed {
        Some(passed) => passed.next_waited().await,
        None => std::future::pending().await,
    }
}

fn take(
    core: &Arc<Core>,
    kind: Kind,
    delivery: Delivery,
    waited: Duration,
    under_way: &FuturesUnordered<BoxFuture<'static, ()>>,
) {
    let Some(message) = core.link.delivered(delivery) else { return };
    let core = core.clone();
    let received = received(core.link.now(), waited);
    under_way.push(match kind {
        Kind::Dispatch => Box::pin(dispatch::handle(core, message, received)),
        Kind::Admin => Box::pin(admin::handle(core, message, received)),
        Kind::Resolve => Box::pin(resolve(core, message)),
        Kind::List => Box::pin(peels::list(core, message)),
        Kind::Passed => Box::pin(publish::handle_passed(core, message, received)),
        Kind::Reactor => Box::pin(reactor::handle_passed(core, message, received)),
    });
}

/// When a request came that waited here for so long: its client has been waiting since then (J-28).
fn received(now: UnixMillis, waited: Duration) -> UnixMillis {
    UnixMillis(now.0.saturating_sub(u64::try_from(waited.as_millis()).unwrap_or(u64::MAX)))
}

/// Refuses a request that was signed too long ago: whoever kept it could have it done once more (I-8).
pub(crate) fn must_be_fresh<T>(opened: &Opened<T>, received: UnixMillis) -> Result<(), Refusal> {
    let Some(age) = opened.is_stale(received) else { return Ok(()) };
    let (age, limit) = (age.as_secs(), REQUEST_AGE_MAX.as_secs());
    let why =
        format!("the request was signed {age} s ago, and one that is older than {limit} s is not taken");
    let hint = "is the clock of this machine or of the master wrong? nothing was done".into();
    Err(Refusal { hint, ..Refusal::new(RefusalKind::Invalid, why) })
}

async fn resolve(core: Arc<Core>, message: Message) {
    let Some(opened) = core.link.open::<ResolveRequest>(&message.subject, &message.payload) else { return };
    let room = core.shares.take(opened.principal.as_ref(), core.link.dropped());
    if opened.message.explain {
        return explain(core, opened.message, message.reply, room).await;
    }
    let resolved = match room.and_then(|()| index_is_ready(&core)) {
        Ok(()) => core.index.resolve_aside(&opened.message.target_expr).await.map(|found| found.peels),
        Err(refusal) => Err(refusal),
    };
    let (fits, is_resolved) = (|peels| fitting(peels, core.link.bus().info().max_payload), resolved.is_ok());
    let (peels, error) = match resolved.and_then(fits) {
        Ok(peels) => (peels, None),
        Err(refusal) => (Vec::new(), Some(refusal)),
    };
    let too_many = is_resolved && error.is_some();
    let reply = ResolveReply { v: VERSION, peels, too_many, explained: None, error };
    core.answer(message.reply.as_deref(), &reply).await;
}

async fn explain(core: Arc<Core>, asked: ResolveRequest, reply: Option<String>, room: Result<(), Refusal>) {
    let page = match room.and_then(|()| index_is_ready(&core)) {
        Ok(()) => core.index.explain(&asked.target_expr, asked.after, EXPLAINED_PAGE_MAX).await,
        Err(refusal) => Err(refusal),
    };
    let (explained, error) = match page {
        Ok(page) => (Some(page), None),
        Err(refusal) => (None, Some(refusal)),
    };
    let answer = ResolveReply { v: VERSION, peels: Vec::new(), too_many: false, explained, error };
    core.answer(reply.as_deref(), &answer).await;
}

/// All names, or none where they are more than one message can carry: silence would look like a master that is not there.
fn fitting(peels: Vec<PeelId>, payload_max: usize) -> Result<Vec<PeelId>, Refusal> {
    let bytes: usize = peels.iter().map(|peel| peel.as_str().len() + NAME_EXTRA_BYTES).sum();
    if bytes + ANSWER_EXTRA_BYTES <= payload_max {
        return Ok(peels);
    }
    let count = peels.len();
    let why =
        format!("{count} peels match, and one answer of the server's {payload_max} bytes cannot name them");
    let hint = "`zester peel list` shows any number of peels; a job to them needs no list".into();
    Err(Refusal { hint, ..Refusal::new(RefusalKind::Invalid, why) })
}

/// Half an index would name half of the peels.
pub fn index_is_ready(core: &Core) -> Result<(), Refusal> {
    if core.index.is_current() {
        return Ok(());
    }
    let why = "this master has just begun and does not know all peels yet; ask again";
    Err(Refusal::new(RefusalKind::Unavailable, why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("J-28")]
    fn j28_a_client_has_waited_since_its_request_came_not_since_it_was_taken() {
        let now = UnixMillis(100_000);
        assert_eq!(received(now, Duration::ZERO), now);
        assert_eq!(received(now, Duration::from_secs(9)), UnixMillis(91_000));
        assert_eq!(received(now, Duration::MAX), UnixMillis(0));
    }

    #[test]
    #[rule("J-27")]
    fn j27_names_that_do_not_fit_one_answer_are_refused_with_the_limit() {
        let peels = |count: usize| -> Vec<PeelId> {
            (0..count).filter_map(|number| PeelId::parse(&format!("web-{number:06}")).ok()).collect()
        };
        assert_eq!(fitting(peels(50_000), 1 << 20).map(|peels| peels.len()), Ok(50_000));
        let refusal = fitting(peels(100_000), 1 << 20).unwrap_err();
        assert!(refusal.message.starts_with("100000 peels match"), "{refusal}");
        assert!(!refusal.kind.is_retryable());
    }
}
