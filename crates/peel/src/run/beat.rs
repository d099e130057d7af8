//! One heartbeat on its way. It also finds out, at no cost while all is well, when two peels have one id: each writes over
//! what the other wrote.

use zester_bus::Sequence;
use zester_link::{Error, Link};
use zester_wire::{Key, PeelHeartbeat, Token};

/// What became of it.
pub(super) struct Beaten {
    /// The revision that is ours; none where that is not known.
    pub(super) revision: Option<Sequence>,
    /// The boot of another peel that writes under our id.
    pub(super) other: Option<Token>,
}

/// Writes over our own last one. Where that is not what stands there, it looks who wrote it.
pub(super) async fn beat(link: Link, heartbeat: PeelHeartbeat, last: Option<Sequence>) -> Beaten {
    let key = Key::Peel(heartbeat.peel.clone());
    let Some(last) = last else {
        return Beaten { revision: written(link.put(&key, &heartbeat).await), other: None };
    };
    match link.update(&key, &heartbeat, last).await {
        Err(error) if error.is_conflict() => {
            let there = link.get::<PeelHeartbeat>(&key).await.ok().flatten();
            // Expired, or a write of ours whose answer was lost, is nobody else.
            let other = there.map(|found| found.value.boot).filter(|boot| *boot != heartbeat.boot);
            Beaten { revision: written(link.put(&key, &heartbeat).await), other }
        }
        result => Beaten { revision: written(result), other: None },
    }
}

fn written(result: Result<Sequence, Error>) -> Option<Sequence> {
    result.inspect_err(|error| tracing::debug!("the heartbeat was not written: {error}")).ok()
}
