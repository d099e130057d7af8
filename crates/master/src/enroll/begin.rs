//! What a master must know before it believes anybody: who was revoked (I-5).

use super::decide::read;
use crate::core::Core;
use crate::limits::BUS_PAUSE;
use tokio::time::sleep;
use zester_bus::{Entry, Kind};
use zester_link::Error;
use zester_wire::{Bucket, Enrollment, Key, PeelId};

/// Reads the newest roster and every enrollment, again until that succeeds: a master that cannot read them would take the word of
/// somebody whom another has revoked. Ends early only with the bus.
pub async fn know_who_was_revoked(core: &Core) {
    let mut complaint = String::new();
    while let Err(error) = read_all(core).await {
        if error.bus_kind() == Some(Kind::Closed) {
            return;
        }
        // Once, however long it takes.
        if complaint != error.to_string() {
            complaint = error.to_string();
            tracing::warn!("waits, because nobody can tell who was revoked: {complaint}");
        }
        sleep(BUS_PAUSE).await;
    }
}

async fn read_all(core: &Core) -> Result<(), Error> {
    // Without credentials nobody is believed for a key.
    if core.link.trust().is_none() {
        return Ok(());
    }
    core.link.refresh_trust().await?;
    let mut disowned: Vec<PeelId> = Vec::new();
    let take = |entry: &Entry| {
        let Ok(Key::Enrollment(peel)) = Key::parse(Bucket::Enrollments, &entry.key) else { return };
        match core.link.record::<Enrollment>(Bucket::Enrollments, entry) {
            Ok(found) if found.value.peel == peel => core.enrollments.take(core, &found.value),
            Err(error) if error.is_disowned() => disowned.push(peel),
            // Counted and told by who follows the bucket.
            _ => {}
        }
    };
    core.link.each_entry(Bucket::Enrollments, Key::ALL_ENROLLMENTS, take).await?;
    for peel in disowned {
        // Whoever wrote first, what stands there now counts.
        if let Some(found) = read(core, &peel).await? {
            core.enrollments.take(core, &found.value);
        }
    }
    Ok(())
}
