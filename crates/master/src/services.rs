//! What clients ask of any master: dispatch, admin, resolve, list. One loop takes the requests, and works on a few at a time.

mod admin;
mod dispatch;
mod peels;

use crate::core::Core;
use crate::limits::{REQUEST_QUEUE, REQUESTS_END_LIMIT, REQUESTS_IN_FLIGHT};
use crate::router::subscribe;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_bus::{Delivery, Listen, Message, Subscription};
use zester_wire::subject::{ALL_ADMIN, MASTERS};
use zester_wire::{Refusal, RefusalKind, ResolveReply, ResolveRequest, Subject, VERSION};

pub struct Services {
    core: Arc<Core>,
    dispatches: Subscription,
    admin: Subscription,
    resolves: Subscription,
    lists: Subscription,
}

impl Services {
    pub async fn listen(core: Arc<Core>) -> Services {
        let shared = Listen::shared(MASTERS, REQUEST_QUEUE);
        Services {
            dispatches: subscribe(&core, &Subject::Dispatch.to_string(), &shared).await,
            admin: subscribe(&core, ALL_ADMIN, &shared).await,
            resolves: subscribe(&core, &Subject::TargetResolve.to_string(), &shared).await,
            lists: subscribe(&core, &Subject::PeelList.to_string(), &shared).await,
            core,
        }
    }

    /// Until `end`; then it stops listening, and lets what was begun end.
    pub async fn run(self, end: CancellationToken) {
        let Services { core, mut dispatches, mut admin, mut resolves, mut lists } = self;
        let mut under_way: FuturesUnordered<BoxFuture<'static, ()>> = FuturesUnordered::new();
        loop {
            let room = under_way.len() < REQUESTS_IN_FLIGHT;
            let (kind, delivery) = tokio::select! {
                biased;
                () = end.cancelled() => break,
                Some(()) = under_way.next() => continue,
                delivery = admin.next(), if room => (Kind::Admin, delivery),
                delivery = dispatches.next(), if room => (Kind::Dispatch, delivery),
                delivery = resolves.next(), if room => (Kind::Resolve, delivery),
                delivery = lists.next(), if room => (Kind::List, delivery),
            };
            match delivery {
                Some(delivery) => take(&core, kind, delivery, &under_way),
                // The bus is closed.
                None => break,
            }
        }
        drop((dispatches, admin, resolves, lists));
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
}

fn take(
    core: &Arc<Core>,
    kind: Kind,
    delivery: Delivery,
    under_way: &FuturesUnordered<BoxFuture<'static, ()>>,
) {
    let Some(message) = core.link.delivered(delivery) else { return };
    let core = core.clone();
    under_way.push(match kind {
        Kind::Dispatch => Box::pin(dispatch::handle(core, message)),
        Kind::Admin => Box::pin(admin::handle(core, message)),
        Kind::Resolve => Box::pin(resolve(core, message)),
        Kind::List => Box::pin(peels::list(core, message)),
    });
}

async fn resolve(core: Arc<Core>, message: Message) {
    let Some(opened) = core.link.open::<ResolveRequest>(&message.subject, &message.payload) else { return };
    let resolved = match index_is_ready(&core) {
        Ok(()) => core.index.resolve_aside(&opened.message.target_expr).await,
        Err(refusal) => Err(refusal),
    };
    let (peels, error) = match resolved {
        Ok(peels) => (peels, None),
        Err(refusal) => (Vec::new(), Some(refusal)),
    };
    let reply = ResolveReply { v: VERSION, peels, error };
    core.answer(message.reply.as_deref(), &reply).await;
}

/// Half an index would name half of the peels.
fn index_is_ready(core: &Core) -> Result<(), Refusal> {
    if core.index.is_current() {
        return Ok(());
    }
    let why = "this master has just begun and does not know all peels yet; ask again";
    Err(Refusal::new(RefusalKind::Unavailable, why))
}
