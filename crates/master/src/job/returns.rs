//! Writing returns to their bucket: each once, and marked late exactly when the end of its job does not count it (J-9).

use super::action::{is_too_large, log};
use std::time::Duration;
use zester_jobs::Event;
use zester_link::{Error, Link};
use zester_wire::{Job, Key, Return, UnixMillis};

/// What is kept of a return whose record is larger than its bucket takes: far below what any bucket takes.
const SHORT_RETURN_BYTES: usize = 64 * 1024;

/// Stores a return, once (J-9): the first stands, except that one in time takes the place of one that stands there as late. That
/// one was stored by an owner that had decided the end of the job and lost it before that was written. Whether it was this one.
pub async fn store_return(link: &Link, ret: &Return) -> Result<bool, Error> {
    let key = Key::Return(ret.jid.clone(), ret.peel.clone());
    match put_return(link, &key, ret, None).await {
        Err(error) if error.is_conflict() => {}
        other => return other.map(|()| true),
    }
    if ret.late {
        return Ok(false);
    }
    let Some(standing) = link.get_standing::<Return>(&key).await? else { return Ok(false) };
    let Ok(found) = &standing.value else {
        // Of a master whose key was revoked: its word for this return counts no more, and this one does.
        return put_return(link, &key, ret, Some(standing.revision)).await.map(|()| true);
    };
    if !found.late || found.dispatch_epoch != ret.dispatch_epoch || is_over(link, ret).await? {
        return Ok(false);
    }
    put_return(link, &key, ret, Some(standing.revision)).await.map(|()| true)
}

/// Whether another owner has ended the job, which this one does not know yet.
async fn is_over(link: &Link, ret: &Return) -> Result<bool, Error> {
    let job = link.get_latest::<Job>(&Key::Job(ret.jid.clone())).await?;
    Ok(job.is_none_or(|job| job.value.status.is_terminal()))
}

/// Marks a stored return as late: an owner that did not know yet that another had ended the job stored it as in time. Only what
/// the end does not count: `uncounted` says whether the record names its peel as missing, and `ended` when that was written.
pub async fn mark_late(link: &Link, ret: &Return, uncounted: bool, ended: UnixMillis) -> Result<(), Error> {
    let key = Key::Return(ret.jid.clone(), ret.peel.clone());
    let Some(found) = link.get_latest::<Return>(&key).await? else { return Ok(()) };
    let stored = &found.value;
    // What does not count may be missing and in time: then it was stored before the end was written.
    let came_late = uncounted && (stored.counts() || found.stored > ended);
    if stored.late || stored.dispatch_epoch != ret.dispatch_epoch || !came_late {
        return Ok(());
    }
    let marked = Return { late: true, ..found.value };
    put_return(link, &key, &marked, Some(found.revision)).await
}

async fn put_return(link: &Link, key: &Key, ret: &Return, replaced: Option<u64>) -> Result<(), Error> {
    // Its envelope as a record is larger than it was as a message. What it says matters less than that it is there: a return
    // that can never be stored would keep its job from ending.
    let shorter = [|ret: &Return| Return { own: Vec::new(), ..ret.clone() }.fit(SHORT_RETURN_BYTES), bare];
    let mut result = write_return(link, key, ret, replaced).await;
    for shorten in shorter {
        let Err(error) = &result else { break };
        if !is_too_large(error) {
            break;
        }
        tracing::warn!(%key, "a return does not fit into its bucket and is kept shorter: {error}");
        result = write_return(link, key, &shorten(ret), replaced).await;
    }
    result
}

/// How it ended, and nothing that a peel could make any longer.
fn bare(ret: &Return) -> Return {
    const WORDS: &str = "[truncated: what the peel returned does not fit into its bucket]";
    Return {
        success: ret.success,
        late: ret.late,
        duration_ms: ret.duration_ms,
        ts: ret.ts,
        truncated: true,
        ..Return::refusing(ret.jid.clone(), ret.peel.clone(), ret.dispatch_epoch, ret.cause, WORDS)
    }
}

async fn write_return(link: &Link, key: &Key, ret: &Return, replaced: Option<u64>) -> Result<(), Error> {
    let kept = ret.kept();
    let written = match replaced {
        Some(revision) => link.update(key, &kept, revision).await,
        None => link.create(key, &kept).await,
    };
    written.map(|_| ())
}

pub async fn persist(link: Link, ret: Box<Return>, pause: Duration) -> Event {
    if !pause.is_zero() {
        tokio::time::sleep(pause).await;
    }
    match store_return(&link, &ret).await {
        Ok(_) => Event::Persisted { peel: ret.peel },
        Err(error) => {
            log("store a return", &error);
            Event::PersistFailed { ret }
        }
    }
}
