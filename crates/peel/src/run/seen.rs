//! The record of when this peel was last there. It also finds out when two peels have one id, because each writes over what
//! the other wrote, and when the store is another than before.

use zester_bus::Sequence;
use zester_link::{Error, Link};
use zester_wire::{Key, PeelHeartbeat, Token};

/// What became of one record.
pub(super) struct Seen {
    /// The revision that is ours, or why there is none.
    pub(super) revision: Result<Sequence, String>,
    /// The boot of another peel that writes under our id.
    pub(super) other: Option<Token>,
    /// Our last record is not there any more.
    pub(super) vanished: bool,
}

/// Writes over our own last one. Where that is not what stands there, it looks who wrote it.
pub(super) async fn write(link: Link, heartbeat: PeelHeartbeat, last: Option<Sequence>) -> Seen {
    let key = Key::Peel(heartbeat.peel.clone());
    let Some(last) = last else {
        return Seen { revision: written(link.put(&key, &heartbeat).await), other: None, vanished: false };
    };
    match link.update(&key, &heartbeat, last).await {
        Err(error) if error.is_conflict() => {
            let there = link.get::<PeelHeartbeat>(&key).await;
            let vanished = matches!(there, Ok(None));
            // A write of ours whose answer was lost is nobody else.
            let other =
                there.ok().flatten().map(|found| found.value.boot).filter(|boot| *boot != heartbeat.boot);
            Seen { revision: written(link.put(&key, &heartbeat).await), other, vanished }
        }
        result => Seen { revision: written(result), other: None, vanished: false },
    }
}

fn written(result: Result<Sequence, Error>) -> Result<Sequence, String> {
    result.map_err(|error| {
        tracing::debug!("that this peel is there was not recorded: {error}");
        error.to_string()
    })
}
