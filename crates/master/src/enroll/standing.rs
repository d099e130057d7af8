//! Records whose master was revoked since: a master that stands puts its own word in their place (I-12). Until then who was revoked
//! would come back with the next start of a master, and nobody could renew.

use super::audit;
use super::decide::numbered;
use crate::core::Core;
use zester_identity::enrollment::signed_anew;
use zester_link::Error;
use zester_wire::{Bucket, Enrollment, Key, PeelHeartbeat, PeelId};

/// Puts the record of a name right, if it needs that. Of several masters that do so at once one wins, and all mean the same.
pub async fn put_right(core: &Core, peel: &PeelId) -> Result<(), Error> {
    let key = Key::Enrollment(peel.clone());
    let Some(standing) = core.link.get_standing::<Enrollment>(&key).await? else { return Ok(()) };
    match &standing.value {
        Ok(_) => return Ok(()),
        Err(error) if error.is_disowned() => {}
        Err(_) => return Ok(()),
    }
    let Some(revoked) = core.link.get_revoked::<Enrollment>(&key).await? else { return Ok(()) };
    let done = match revoked.value {
        Ok(record) if record.peel == *peel => {
            let next = signed_anew(&record, is_vouched(core, &record).await?, core.link.now());
            let next = numbered(core, next);
            let written = core.link.update(&key, &next, revoked.revision).await;
            written.map(|_| {
                core.enrollments.take(core, &next);
                let who = core.id.name();
                let reason = format!("its master was revoked; it is {} now", next.status.as_str());
                let what = "enroll.sign_anew";
                audit::record(core, &audit::Decided { who, what, id: &next.id, reason: &reason });
            })
        }
        // No member ever signed that: a key that can never be written again would be worse than none.
        _ => {
            tracing::warn!(%peel, "removes an enrollment that nobody signed");
            // The revision that was found void, and not what another may have written since.
            let (bucket, key, revision) = (Bucket::Enrollments.as_str(), key.to_string(), standing.revision);
            core.link.bus().purge(bucket, &key, Some(revision)).await.map_err(Error::from)
        }
    };
    match done {
        Err(error) if error.is_conflict() => Ok(()),
        done => done,
    }
}

/// Whether an issuer that stands vouches for this key under this name: with what the peel itself said when it was last here.
async fn is_vouched(core: &Core, record: &Enrollment) -> Result<bool, Error> {
    match core.link.signer::<PeelHeartbeat>(&Key::Peel(record.peel.clone())).await {
        Ok(signer) => Ok(signer.is_some_and(|signer| signer.key == record.key)),
        Err(error) if error.is_of_record() => Ok(false),
        Err(error) => Err(error),
    }
}
