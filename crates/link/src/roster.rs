//! Keeping up with the roster: who counts may change while we run (I-8, I-5).

use crate::error::Error;
use crate::link::Link;
use std::time::Duration;
use zester_bus::{Event, Listen};
use zester_wire::{Bucket, Key, Subject, Token};

/// How often to look where no notice came: notices may be lost.
const LOOK_PAUSE: Duration = Duration::from_secs(60);
/// How long one look may take, and when to look again where it failed: a server that is told of changed accounts loses what it was asked
/// at that moment, and who was revoked must not count for a minute more.
const LOOK_LIMIT: Duration = Duration::from_secs(1);
const AGAIN_PAUSE: Duration = Duration::from_millis(500);
const AGAIN_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How long to wait where the bus does not let us listen yet.
const RETRY_PAUSE: Duration = Duration::from_secs(2);
/// Notices that may wait: one is as good as many.
const NOTICES: usize = 8;

impl Link {
    /// Takes the newest roster of the bus, if there is one. The bytes, where it is another than before; what is older, or not of
    /// our anchor, is refused, counted and told.
    pub async fn refresh_trust(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.newest_roster().await?.and_then(|(bytes, is_new)| is_new.then_some(bytes)))
    }

    /// The roster of the bus that counts now, and whether it did not before.
    async fn newest_roster(&self) -> Result<Option<(Vec<u8>, bool)>, Error> {
        let Some(trust) = self.trust() else { return Ok(None) };
        let entry = self.bus().get(Bucket::Trust.as_str(), &Key::Roster.to_string()).await?;
        let Some(entry) = entry else { return Ok(None) };
        match trust.take(&entry.value) {
            Ok(is_new) => {
                if is_new {
                    tracing::info!(serial = trust.serial(), "a new roster counts");
                }
                Ok(Some((entry.value.to_vec(), is_new)))
            }
            Err(bad) => {
                self.dropped().one(crate::Reason::Spoof, &Key::Roster.subject(), &bad);
                Ok(None)
            }
        }
    }

    /// Takes every new roster as it comes, and gives it to `keep`, so that no older one counts after a restart. Never ends; a
    /// link without credentials waits for ever.
    pub async fn follow_trust(self, keep: impl Fn(&[u8])) {
        if self.trust().is_none() {
            return std::future::pending().await;
        }
        let Ok(what) = Token::parse(Bucket::Trust.as_str()) else { return std::future::pending().await };
        let subject = Subject::Notify { what }.to_string();
        let mut events = self.bus().events();
        let mut notices = loop {
            match self.bus().subscribe(&subject, Listen::alone(NOTICES)).await {
                Ok(notices) => break notices,
                Err(error) => {
                    tracing::debug!("cannot listen for new rosters yet: {error}");
                    tokio::time::sleep(RETRY_PAUSE).await;
                }
            }
        };
        // The first that is read is kept in any case: somebody else of this daemon may have taken it up already.
        let (mut is_first, mut again) = (true, AGAIN_PAUSE);
        loop {
            let looked = tokio::time::timeout(LOOK_LIMIT, self.newest_roster()).await;
            let pause = match looked {
                Ok(Ok(found)) => {
                    if let Some((bytes, is_new)) = found {
                        if is_new || is_first {
                            keep(&bytes);
                        }
                        is_first = false;
                    }
                    again = AGAIN_PAUSE;
                    LOOK_PAUSE
                }
                Ok(Err(error)) => {
                    tracing::debug!("the roster cannot be read now: {error}");
                    next_pause(&mut again)
                }
                Err(_) => {
                    tracing::debug!("the roster cannot be read now: there is no answer");
                    next_pause(&mut again)
                }
            };
            tokio::select! {
                notice = notices.next() => if notice.is_none() {
                    return std::future::pending().await;
                },
                () = reconnected(&mut events) => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

fn next_pause(again: &mut Duration) -> Duration {
    std::mem::replace(again, (*again * 2).min(AGAIN_PAUSE_MAX))
}

/// Waits until the connection is there again: what was told meanwhile was not heard.
async fn reconnected(events: &mut zester_bus::Events) {
    while let Some(event) = events.next().await {
        if matches!(event, Event::Connected | Event::Reconnected) {
            return;
        }
    }
    std::future::pending().await
}
