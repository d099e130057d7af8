//! What the actor has done for it: one future a task, and what each reports when it ends.

use super::limits::{ACK_TRIES, ANSWER_NESTING_MAX, ENVELOPE_ROOM, PROGRESS_DRAIN, PROGRESS_WAITING_MAX};
use super::schedule::Saved;
use crate::store::{Store, StoreError};
use crate::work::{Outcome, StateEnded, Tell, Work};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_bus::limits::{MESSAGE_BYTES_MAX, PAYLOAD_DEFAULT};
use zester_health::prometheus_client::metrics::counter::Counter;
use zester_jobs::dedup::{Dispatch, Entry};
use zester_link::Link;
use zester_wire::{
    Ack, Cause, ExecRequest, MessageId, PeelId, Progress, Return, Subject, UnixMillis, VERSION, time,
};

/// How a task ended.
pub(super) enum Done {
    Wrote {
        write: Write,
        result: Result<(), StoreError>,
    },
    Forgot(Result<(), StoreError>),
    Acked(Dispatch),
    /// `delivered`: a stream has it, or why not.
    Sent {
        dispatch: Dispatch,
        delivered: Result<(), String>,
    },
    /// The disk does not give a stored return back; it is tried again.
    Unread {
        dispatch: Dispatch,
        error: StoreError,
    },
    /// A return that is not stored; the machine hears of it only where it still wants to store it.
    SentUnstored {
        dispatch: Dispatch,
        delivered: Result<(), String>,
        awaited: bool,
    },
    Ran {
        dispatch: Dispatch,
        ret: Box<Return>,
    },
    Replied,
    StartupNoted,
    ScheduleSaved(Saved),
}

/// Something for the disk.
pub(super) enum Write {
    Entry(Entry),
    Return { ret: Box<Return>, pause: Duration },
}

impl Write {
    pub(super) fn dispatch(&self) -> Dispatch {
        match self {
            Write::Entry(entry) => entry.dispatch.clone(),
            Write::Return { ret, .. } => dispatch_of(ret),
        }
    }
}

pub(super) fn dispatch_of(ret: &Return) -> Dispatch {
    Dispatch { jid: ret.jid.clone(), epoch: ret.dispatch_epoch }
}

pub(super) async fn write(store: Arc<dyn Store>, write: Write) -> Done {
    let result = match &write {
        Write::Entry(entry) => store.put_entry(entry.clone()).await,
        Write::Return { ret, pause } => {
            tokio::time::sleep(*pause).await;
            store.put_return((**ret).clone()).await
        }
    };
    Done::Wrote { write, result }
}

pub(super) async fn ack(link: Link, peel: PeelId, dispatch: Dispatch, ahead: u32, pause: Duration) -> Done {
    let subject = Subject::JobAck { jid: dispatch.jid.clone(), peel: peel.clone() };
    let ack = Ack {
        v: VERSION,
        jid: dispatch.jid.clone(),
        peel,
        dispatch_epoch: dispatch.epoch,
        ts: link.now(),
        ahead,
    };
    let Ok(id) = link.new_message_id() else { return Done::Acked(dispatch) };
    for left in (0..ACK_TRIES).rev() {
        match link.publish_stored(&subject, &id, &ack).await {
            Ok(_) => break,
            Err(error) if left == 0 || !link.bus().info().connected => {
                tracing::debug!(jid = %dispatch.jid, "the ack was not sent: {error}");
                break;
            }
            Err(_) => tokio::time::sleep(pause).await,
        }
    }
    Done::Acked(dispatch)
}

/// Sends the return that the store has. The same return keeps its message id while it waits, so that a stream keeps one.
pub(super) async fn send(
    link: Link,
    store: Arc<dyn Store>,
    peel: PeelId,
    dispatch: Dispatch,
    id: MessageId,
) -> Done {
    let ret = match store.get_return(dispatch.clone()).await {
        Ok(Some(ret)) => ret,
        // Nobody can say any more what it was; that it is lost must be said.
        Ok(None) => {
            let words = "interrupted: the return was lost from the peel's disk";
            let (jid, epoch) = (dispatch.jid.clone(), dispatch.epoch);
            Return { ts: link.now(), ..Return::refusing(jid, peel, epoch, Cause::Interrupted, words) }
        }
        Err(error) => {
            tracing::error!(jid = %dispatch.jid, "a stored return cannot be read: {error}");
            return Done::Unread { dispatch, error };
        }
    };
    // What the schedule did is told once, also by a peel that restarts before it knows that it was heard.
    let own = ret.schedule.as_ref().and_then(|_| MessageId::parse(ret.jid.as_str()).ok());
    let delivered = deliver(&link, ret, own.as_ref().unwrap_or(&id)).await;
    Done::Sent { dispatch, delivered }
}

pub(super) async fn send_unstored(link: Link, ret: Return, awaited: bool) -> Done {
    let dispatch = dispatch_of(&ret);
    let delivered = match link.new_message_id() {
        Ok(id) => deliver(&link, ret, &id).await,
        Err(error) => Err(error.to_string()),
    };
    Done::SentUnstored { dispatch, delivered, awaited }
}

async fn deliver(link: &Link, ret: Return, id: &MessageId) -> Result<(), String> {
    let subject = ret.subject();
    let ret = ret.fit(room(link));
    match link.publish_stored(&subject, id, &ret).await {
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::debug!(jid = %ret.jid, "the return was not delivered, it waits: {error}");
            Err(error.to_string())
        }
    }
}

pub(super) async fn reply(link: Link, reply: Option<String>, ret: Return) -> Done {
    let jid = ret.jid.clone();
    if let Err(error) = link.answer(reply.as_deref(), &ret.fit(room(&link))).await {
        tracing::warn!(%jid, "a direct request could not be answered: {error}");
    }
    Done::Replied
}

/// What fits both the server and the stream.
fn room(link: &Link) -> usize {
    let server = match link.bus().info().max_payload {
        0 => PAYLOAD_DEFAULT,
        bytes => bytes,
    };
    server.min(stream_room()).saturating_sub(ENVELOPE_ROOM)
}

fn stream_room() -> usize {
    usize::try_from(MESSAGE_BYTES_MAX).unwrap_or(usize::MAX)
}

/// One execution, with its progress.
pub(super) struct Execution {
    pub(super) link: Link,
    pub(super) work: Arc<dyn Work>,
    pub(super) peel: PeelId,
    pub(super) request: Box<ExecRequest>,
    pub(super) cancel: CancellationToken,
    pub(super) dropped: Counter,
}

impl Execution {
    pub(super) async fn run(self) -> Done {
        let Execution { link, work, peel, request, cancel, dropped } = self;
        let dispatch = Dispatch { jid: request.jid.clone(), epoch: request.dispatch_epoch };
        let began = Instant::now();
        let (tell, told) = progress(&peel, &dispatch, dropped);
        let executed = work.execute(*request, tell, cancel);
        let forward = forward(&link, told);
        tokio::pin!(executed, forward);
        let (outcome, all_told) = tokio::select! {
            biased;
            outcome = &mut executed => (outcome, false),
            () = &mut forward => (executed.as_mut().await, true),
        };
        // What was told last is sent before the return, if there is a bus to take it.
        if !all_told && link.bus().info().connected {
            let _too_slow = tokio::time::timeout(PROGRESS_DRAIN, forward).await;
        }
        let ret = returned(outcome, &dispatch, peel, began.elapsed(), link.now());
        Done::Ran { dispatch, ret: Box::new(ret) }
    }
}

/// The telling side never waits: what finds no room is dropped and counted.
fn progress(peel: &PeelId, dispatch: &Dispatch, dropped: Counter) -> (Tell, mpsc::Receiver<Progress>) {
    let (sender, told) = mpsc::channel(PROGRESS_WAITING_MAX);
    let (peel, dispatch) = (peel.clone(), dispatch.clone());
    let tell = move |StateEnded { ended: seq, total, state }| {
        let (jid, dispatch_epoch) = (dispatch.jid.clone(), dispatch.epoch);
        let progress = Progress { v: VERSION, jid, peel: peel.clone(), dispatch_epoch, seq, total, state };
        if sender.try_send(progress).is_err() {
            dropped.inc();
        }
    };
    (Arc::new(tell), told)
}

async fn forward(link: &Link, mut told: mpsc::Receiver<Progress>) {
    while let Some(progress) = told.recv().await {
        let subject = Subject::JobProgress { jid: progress.jid.clone(), peel: progress.peel.clone() };
        // For the moment only: whoever does not hear it sees it in the return.
        let _unheard = link.publish(&subject, &progress).await;
    }
}

/// The return of an execution that ended. What an abort means for it, the machine adds.
pub(super) fn returned(
    outcome: Outcome,
    dispatch: &Dispatch,
    peel: PeelId,
    took: Duration,
    now: UnixMillis,
) -> Return {
    let Outcome { success, error, answer, canceled, revision } = outcome;
    let deep = depth_exceeds(&answer, ANSWER_NESTING_MAX);
    let words = || format!("[truncated: the answer nests deeper than {ANSWER_NESTING_MAX} levels]");
    let ret = Return {
        v: VERSION,
        jid: dispatch.jid.clone(),
        peel,
        dispatch_epoch: dispatch.epoch,
        success,
        error,
        duration_ms: time::as_millis(took),
        ts: now,
        answer: if deep { Value::String(words()) } else { answer },
        cause: Cause::Finished,
        canceled,
        late: false,
        truncated: deep,
        schedule: None,
        revision,
        own: Vec::new(),
    };
    // Not larger on disk than the stream takes: what nobody could ever read need not be kept.
    ret.fit(stream_room() - ENVELOPE_ROOM)
}

fn depth_exceeds(value: &Value, left: usize) -> bool {
    let deeper = |value: &Value| left == 0 || depth_exceeds(value, left - 1);
    match value {
        Value::Array(items) => items.iter().any(deeper),
        Value::Object(fields) => fields.values().any(deeper),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The return of an execution that panicked: its failure, not the peel's.
pub(super) fn panicked(dispatch: &Dispatch, peel: PeelId, words: &str) -> Return {
    let error = format!("the function crashed: {words}");
    Return {
        cause: Cause::Finished,
        ..Return::refusing(dispatch.jid.clone(), peel, dispatch.epoch, Cause::Finished, &error)
    }
}
