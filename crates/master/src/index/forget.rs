//! Machines that are gone for good (J-25): forgotten because an operator says so, or because nobody saw them for long enough.

use crate::core::Core;
use crate::limits::FORGET_EVERY;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::sleep;
use zester_bus::Entry;
use zester_link::Error;
use zester_wire::{Bucket, Key, Notice, PeelId, Subject, Token, UnixMillis, VERSION};

const ALL: &str = "*";

/// Removes everything that stands of a peel. The line in the log says who wanted it.
pub(crate) async fn forget(core: &Core, peel: &PeelId, by: &str) -> Result<(), Error> {
    core.link.purge(&Key::Facts(peel.clone())).await?;
    core.link.purge(&Key::Peel(peel.clone())).await?;
    core.index.forget(peel);
    tracing::info!(%peel, by, "a peel was forgotten");
    Ok(())
}

/// The other masters look at once who is left.
pub(crate) async fn tell_others(core: &Core) {
    let Ok(bucket) = Token::parse(Bucket::Facts.as_str()) else { return };
    let notice = Notice { v: VERSION, bucket: bucket.clone(), revision: 0 };
    if let Err(error) = core.link.publish(&Subject::Notify { what: bucket }, &notice).await {
        tracing::debug!("other masters hear later who was forgotten: {error}");
    }
}

/// Forgets by age (`timing.forget_peels`).
pub(crate) struct ForgetByAge {
    core: Arc<Core>,
}

impl ForgetByAge {
    pub fn new(core: Arc<Core>) -> ForgetByAge {
        ForgetByAge { core }
    }

    /// Ends only with its task.
    pub async fn run(self) {
        loop {
            // First the pause: a master that has just begun has not heard everybody.
            sleep(FORGET_EVERY).await;
            if self.core.timing.forget_peels.is_zero() {
                continue;
            }
            if let Err(error) = self.look().await {
                tracing::warn!("peels that are gone were not looked for: {error}");
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        let mut seen: BTreeMap<PeelId, UnixMillis> = BTreeMap::new();
        let mut take = |bucket: Bucket, entry: &Entry| {
            if let Ok(Key::Facts(peel) | Key::Peel(peel)) = Key::parse(bucket, &entry.key) {
                let at = seen.entry(peel).or_default();
                *at = (*at).max(UnixMillis(entry.at));
            }
        };
        self.core.link.each_entry(Bucket::Facts, ALL, |entry| take(Bucket::Facts, entry)).await?;
        self.core.link.each_entry(Bucket::PeelSeen, ALL, |entry| take(Bucket::PeelSeen, entry)).await?;
        let (now, keep) = (self.core.link.now(), self.core.timing.forget_peels);
        let mut forgotten = 0;
        for (peel, at) in gone(seen, now, keep) {
            if self.core.index.is_online(&peel) || !self.is_still(&peel, at).await? {
                continue;
            }
            forget(&self.core, &peel, "timing.forget_peels").await?;
            forgotten += 1;
        }
        if forgotten > 0 {
            tell_others(&self.core).await;
        }
        Ok(())
    }

    /// Whether nothing was written of it since.
    async fn is_still(&self, peel: &PeelId, at: UnixMillis) -> Result<bool, Error> {
        // Whatever it says and whoever signed it: when it was written is what counts.
        let key = Key::Peel(peel.clone());
        let found = self.core.link.bus().get(key.bucket().as_str(), &key.to_string()).await?;
        Ok(found.is_none_or(|entry| UnixMillis(entry.at) <= at))
    }
}

/// Those that nobody saw for longer than they are kept. A clock that is behind keeps them.
fn gone(
    seen: BTreeMap<PeelId, UnixMillis>,
    now: UnixMillis,
    keep: Duration,
) -> impl Iterator<Item = (PeelId, UnixMillis)> {
    seen.into_iter().filter(move |(_, at)| !keep.is_zero() && now.since(*at) > keep)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("J-25")]
    fn j25_a_peel_is_forgotten_once_nobody_saw_it_for_longer_than_it_is_kept() {
        const DAY: u64 = 86_400_000;
        let now = UnixMillis(100 * DAY);
        let seen = [("old", 69 * DAY), ("just", 70 * DAY), ("new", 99 * DAY), ("ahead", 101 * DAY)];
        let seen: BTreeMap<PeelId, UnixMillis> =
            seen.into_iter().map(|(name, at)| (PeelId::parse(name).unwrap(), UnixMillis(at))).collect();
        let names =
            |now, keep| gone(seen.clone(), now, keep).map(|(peel, _)| peel.to_string()).collect::<Vec<_>>();
        let month = Duration::from_secs(30 * 86_400);
        assert_eq!(names(now, month), ["old"]);
        assert_eq!(names(UnixMillis(now.0 + 1), month), ["just", "old"]);
        assert_eq!(names(UnixMillis(0), month), Vec::<String>::new());
        assert_eq!(names(now, Duration::ZERO), Vec::<String>::new(), "never");
    }
}
