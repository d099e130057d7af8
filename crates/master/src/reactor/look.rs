//! Looks at the lag, and closes breakers that were open long enough, also where no event comes.

use super::Reactor;
use crate::core::Core;
use crate::limits::REACTOR_LOOK;
use std::sync::Arc;
use tokio::time::sleep;

/// Never ends by itself.
pub async fn run(core: Arc<Core>, reactor: Arc<Reactor>) {
    let reader = reactor.reader();
    loop {
        sleep(REACTOR_LOOK).await;
        match core.link.bus().pending(&reader).await {
            Ok(pending) => {
                reactor.set_lag(pending.total());
                reactor.reader_is_at(pending.reached);
            }
            Err(error) => tracing::debug!("the lag of the reactor is not known now: {error}"),
        }
        let closed = reactor.guards().breakers.sweep(reactor.now());
        for rule in &closed {
            tracing::info!(%rule, "the rule may fire again");
        }
        reactor.tell_unread();
        // Those that waited for another try may be over too.
        reactor.tell();
    }
}
