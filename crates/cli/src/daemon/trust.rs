//! Whom a daemon believes: what it says at its start, and what it keeps of it over a restart.

use crate::answer::Failure;
use std::path::{Path, PathBuf};
use std::time::Duration;
use zester_link::Link;

const ROSTER_FILE: &str = "roster";
/// Who reads a log should have time to act.
const ENDS_SOON: Duration = Duration::from_secs(30 * 86_400);

/// Says whether messages are signed, and takes up the newest roster that this daemon has seen: none that is older counts
/// again, whoever brings it (I-8).
pub fn begin(link: &Link, data_dir: &Path) -> Result<(), Failure> {
    let Some(trust) = link.trust() else {
        tracing::warn!("messages are not signed: whoever reaches the bus can give orders");
        return Ok(());
    };
    let path = data_dir.join(ROSTER_FILE);
    match std::fs::read(&path) {
        // Newer credentials may bring a newer one along.
        Ok(kept) => match trust.take(&kept) {
            Ok(_) | Err(zester_identity::roster::BadRoster::Older { .. }) => {}
            // Credentials of another fleet: nobody takes a member over by changing them alone.
            Err(bad @ zester_identity::roster::BadRoster::NotOfAnchor) => {
                let why = format!("{}: {bad}; remove it where this is to join another fleet", path.display());
                return Err(Failure::usage(why));
            }
            Err(bad) => tracing::warn!("{} is left alone: {bad}", path.display()),
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(zester_converge::Error::io("read the roster", &path, error).into()),
    }
    let left = trust.expires().since(link.now());
    if left < ENDS_SOON {
        let days = left.as_secs() / 86_400;
        tracing::warn!(
            "the roster ends in {days} days, and then nobody is believed: `zester auth rotate`, `zester auth push`"
        );
    }
    tracing::info!(serial = trust.serial(), "messages are signed, and only those of members are believed");
    Ok(())
}

/// Takes new rosters while the daemon lives. Never ends.
pub async fn follow(link: Link, data_dir: PathBuf) {
    let keep = |bytes: &[u8]| {
        let path = data_dir.join(ROSTER_FILE);
        let fresh = path.with_extension("new");
        let kept = std::fs::write(&fresh, bytes).and_then(|()| std::fs::rename(&fresh, &path));
        if let Err(error) = kept {
            tracing::warn!("the new roster counts, but cannot be kept in {}: {error}", path.display());
        }
    };
    link.follow_trust(keep).await;
}
