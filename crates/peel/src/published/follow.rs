//! Keeps a cache up to date: at the start, after every connect, when a master says that there is something new, and every few
//! minutes in case nobody heard it. Costs the server a direct get each time, and no consumer.

use super::freshness::{Freshness, Learned};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};
use zester_bus::{Delivery, Event, Listen};
use zester_health::{Health, State};
use zester_link::Link;
use zester_publish::{Cache, Change, Error, Reader};
use zester_wire::published::notice_token;
use zester_wire::{Published, Subject};

/// How often it looks by itself, about.
const LOOK_EVERY: Duration = Duration::from_secs(300);
/// The pause after a look that failed; it doubles up to the longest.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// A fleet that hears of a new revision at once does not ask at once.
const SPREAD: Duration = Duration::from_millis(500);
/// Notices that wait; each says the same.
const NOTICES: usize = 16;

/// Ends only with its task, or with the bus.
pub async fn follow(link: Link, published: Published, cache: Arc<dyn Cache>, health: Arc<Health>) {
    Freshness::new(link.bus().clone()).follow(link, published, published.as_str(), cache, health).await;
}

impl Freshness {
    /// The follower that this asks; `check` is its name in `/readyz`. Ends only with its task, or with the bus.
    pub async fn follow(
        self,
        link: Link,
        published: Published,
        check: &'static str,
        cache: Arc<dyn Cache>,
        health: Arc<Health>,
    ) {
        let Ok(what) = notice_token(published) else { return };
        let mut events = link.bus().events();
        let subject = Subject::Notify { what }.to_string();
        let mut notices = loop {
            match link.bus().subscribe(&subject, Listen::alone(NOTICES)).await {
                Ok(notices) => break notices,
                Err(error) => {
                    tracing::debug!("notices of new {} cannot be heard: {error}", published.as_str());
                }
            }
            tokio::time::sleep(PAUSE_MIN).await;
        };
        let mut pause = PAUSE_MIN;
        loop {
            self.begins();
            let learned = look(&link, published, check, cache.as_ref(), &health).await;
            let next = match &learned {
                Some(Learned::Nothing | Learned::InPlace) => {
                    pause = PAUSE_MIN;
                    link.jittered(LOOK_EVERY)
                }
                Some(Learned::Failed(_)) | None => {
                    let waited = link.jittered(pause);
                    pause = (pause * 2).min(PAUSE_MAX);
                    waited
                }
            };
            self.ends(learned);
            let wake = Instant::now() + next;
            loop {
                tokio::select! {
                    biased;
                    event = events.next() => match event {
                        Some(Event::Connected | Event::Reconnected) => break,
                        Some(_) => {}
                        None => return,
                    },
                    () = self.asked() => break,
                    notice = notices.next() => match notice {
                        Some(Delivery::Message(_) | Delivery::Missed(_)) => {
                            // Who asks has no time for it.
                            let spread = tokio::time::sleep(link.jittered(SPREAD / 2));
                            tokio::select! { () = spread => {}, () = self.asked() => {} }
                            break;
                        }
                        None => return,
                    },
                    () = sleep_until(wake) => break,
                }
            }
        }
    }
}

/// What a look came to; none where there was no bus to look at.
async fn look(
    link: &Link,
    published: Published,
    check: &'static str,
    cache: &dyn Cache,
    health: &Health,
) -> Option<Learned> {
    let what = published.as_str();
    if !link.bus().info().connected {
        return None;
    }
    match (Reader { link, published, cache }).look().await {
        Ok(change) => {
            if let Change::Now { revision, files, fetched, bytes } = change {
                tracing::info!(revision, files, fetched, bytes, "new {what} are in place");
            }
            health.set(check, State::Up);
            Some(if change == Change::Nothing { Learned::Nothing } else { Learned::InPlace })
        }
        Err(error) => {
            let why = format!("{what} cannot be brought up to date: {error}");
            match error {
                Error::Bus(_) => tracing::debug!("{why}"),
                _ => tracing::warn!("{why}"),
            }
            health.set(check, State::Degraded(why.clone()));
            Some(Learned::Failed(why))
        }
    }
}
