//! What the bus keeps of one job: its events and its returns.

use zester_bus::Record;
use zester_bus::storage::JOB_EVENTS;
use zester_jobs::History;
use zester_link::{Error, Link};
use zester_wire::{Ack, Bucket, Jid, JobEvent, JobEventKind, Key, Return, Subject, subject};

/// Reads the stream of a job: the acks and returns of one dispatch, and whether it was canceled.
pub async fn replay(link: &Link, jid: &Jid, dispatch_epoch: u64) -> Result<History, Error> {
    let pattern = subject::all_of_job(jid);
    let mut history = History::default();
    let mut from = Some(0);
    while let Some(start) = from {
        let page = link.bus().replay(JOB_EVENTS, &pattern, start).await?;
        for record in &page.items {
            take(link, record, dispatch_epoch, &mut history);
        }
        from = page.next;
    }
    Ok(history)
}

fn take(link: &Link, record: &Record, dispatch_epoch: u64, history: &mut History) {
    let Ok(subject) = Subject::parse(&record.subject) else { return };
    match subject {
        Subject::JobAck { .. } => {
            if let Some(ack) = link.open_addressed::<Ack>(&subject, &record.payload)
                && ack.message.dispatch_epoch == dispatch_epoch
            {
                history.acks.push(ack.message.peel);
            }
        }
        Subject::JobReturn { .. } => {
            if let Some(ret) = link.open_addressed::<Return>(&subject, &record.payload)
                && ret.message.dispatch_epoch == dispatch_epoch
            {
                history.returns.push(ret.message);
            }
        }
        Subject::JobCancel { .. } => {
            if let Some(event) = link.open_addressed::<JobEvent>(&subject, &record.payload)
                && let JobEventKind::Canceled { by, .. } = event.message.event
            {
                history.canceled.get_or_insert(by);
            }
        }
        _ => {}
    }
}

/// Reads what is stored of the returns of a job. One that cannot be read is counted and left out.
pub async fn read_returns(link: &Link, jid: &Jid) -> Result<Vec<Return>, Error> {
    let pattern = Key::all_returns(jid);
    let mut returns = Vec::new();
    let mut from = Some(0);
    while let Some(start) = from {
        let page = link.bus().scan(Bucket::JobReturns.as_str(), &pattern, start).await?;
        for entry in &page.items {
            match link.record::<Return>(entry) {
                Ok(found) if is_of(&found.value, &entry.key) => returns.push(found.value),
                Ok(_) => link.dropped().add(zester_link::Reason::Mismatched, 1),
                Err(_) => link.dropped().add(zester_link::Reason::Malformed, 1),
            }
        }
        from = page.next;
    }
    Ok(returns)
}

fn is_of(ret: &Return, key: &str) -> bool {
    matches!(Key::parse(Bucket::JobReturns, key), Ok(Key::Return(jid, peel)) if jid == ret.jid && peel == ret.peel)
}
