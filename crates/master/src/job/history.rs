//! What the stream keeps of one job.

use zester_bus::Record;
use zester_bus::storage::JOB_EVENTS;
use zester_jobs::History;
use zester_link::{Error, Link};
use zester_wire::{Ack, Jid, JobEvent, JobEventKind, Subject, subject};

/// Reads the stream of a job: the acks and returns of one dispatch, and whether it was canceled.
pub async fn replay(link: &Link, jid: &Jid, dispatch_epoch: u64) -> Result<History, Error> {
    let mut history = History::default();
    let take = |record: &Record| take(link, record, dispatch_epoch, &mut history);
    link.each_message(JOB_EVENTS, &subject::all_of_job(jid), take).await?;
    Ok(history)
}

fn take(link: &Link, record: &Record, dispatch_epoch: u64, history: &mut History) {
    let Ok(subject) = Subject::parse(&record.subject) else { return };
    match subject {
        Subject::JobAck { .. } => {
            if let Some(ack) = link.open_addressed::<Ack>(&subject, record)
                && ack.message.dispatch_epoch == dispatch_epoch
            {
                history.acks.push(ack.message.peel);
            }
        }
        Subject::JobReturn { .. } => {
            if let Some(ret) = link.open_return(&subject, record)
                && ret.dispatch_epoch == dispatch_epoch
            {
                history.returns.push(ret);
            }
        }
        Subject::JobCancel { .. } => {
            if let Some(event) = link.open_addressed::<JobEvent>(&subject, record)
                && let JobEventKind::Canceled { by, .. } = event.message.event
            {
                history.canceled.get_or_insert(by);
            }
        }
        _ => {}
    }
}
