//! The returns of one job on their way to the disk, beside its steps (J-9).

use super::held::Held;
use super::returns::persist;
use crate::limits::PERSISTS_IN_FLIGHT;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use std::collections::VecDeque;
use std::time::Duration;
use zester_jobs::Event;
use zester_link::Link;
use zester_wire::Return;

#[derive(Default)]
pub struct Persists {
    waiting: VecDeque<(Box<Return>, Duration, Held)>,
    under_way: FuturesUnordered<BoxFuture<'static, (Event, Held)>>,
}

impl Persists {
    pub fn add(&mut self, ret: Box<Return>, pause: Duration, held: Held) {
        self.waiting.push_back((ret, pause, held));
    }

    pub fn start(&mut self, link: &Link) {
        while self.under_way.len() < PERSISTS_IN_FLIGHT
            && let Some((ret, pause, held)) = self.waiting.pop_front()
        {
            let persist = persist(link.clone(), ret, pause);
            self.under_way.push(Box::pin(async move { (persist.await, held) }));
        }
    }

    /// Whether nothing is under way.
    pub fn is_empty(&self) -> bool {
        self.under_way.is_empty()
    }

    /// How the next one ended; none if nothing is under way.
    pub async fn next(&mut self) -> Option<(Event, Held)> {
        self.under_way.next().await
    }
}
