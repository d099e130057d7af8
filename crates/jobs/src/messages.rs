//! The messages that speak of a job, made from its record. What they say is decided here once, for drivers and simulators
//! alike.

use crate::limits::DISPATCHED_TOLD;
use serde_json::{Map, Value, json};
use std::time::Duration;
use zester_wire::lifecycle::CANCELED_BY_USER;
use zester_wire::{
    BadName, Cancel, Event, EventSubject, ExecRequest, Jid, Job, JobEvent, JobEventKind, JobStatus, Return,
    Subject, Tag, UnixMillis, VERSION,
};

/// What the peels get. `budget` is what [`crate::Command::SendExec`] says.
pub fn exec_request(job: &Job, budget: Duration) -> ExecRequest {
    ExecRequest {
        v: VERSION,
        jid: job.jid.clone(),
        function: job.function.clone(),
        args: job.args.clone(),
        state_id: job.state_id.clone(),
        dispatch_epoch: job.dispatch_epoch,
        budget,
        user: job.user.clone(),
        rdepth: job.reactor_depth(),
        positionals: job.positionals.clone(),
        test: job.test,
        direct: false,
        request: job.request.clone(),
        proof: None,
    }
}

pub fn cancel(job: &Job) -> Cancel {
    let (jid, dispatch_epoch) = (job.jid.clone(), job.dispatch_epoch);
    Cancel { v: VERSION, jid, dispatch_epoch, reason: CANCELED_BY_USER.into() }
}

pub fn dispatch_event(job: &Job, now: UnixMillis) -> JobEvent {
    let event = JobEventKind::Dispatched {
        owner: job.owner.clone(),
        epoch: job.epoch,
        dispatch_epoch: job.dispatch_epoch,
        function: job.function.clone(),
        target_count: job.targets.len() as u64,
        deadline: job.deadline(),
    };
    JobEvent { v: VERSION, jid: job.jid.clone(), ts: now, event }
}

pub fn status_event(job: &Job, now: UnixMillis) -> JobEvent {
    let event = JobEventKind::Status {
        status: job.status,
        epoch: job.epoch,
        return_count: job.return_count,
        success_count: job.success_count,
        target_count: job.targets.len() as u64,
        reason: job.reason.clone(),
    };
    JobEvent { v: VERSION, jid: job.jid.clone(), ts: now, event }
}

pub fn cancel_event(jid: &Jid, by: &str, now: UnixMillis) -> JobEvent {
    let event = JobEventKind::Canceled { data: CANCELED_BY_USER.into(), by: by.into() };
    JobEvent { v: VERSION, jid: jid.clone(), ts: now, event }
}

/// `job/<jid>/dispatched` of origin `_master`, for a job that runs. An adopter tells it again while the job is young, because its
/// first owner may have died before it did; later, none: the stream would not know any more that it is the same.
pub fn dispatched_event(job: &Job, now: UnixMillis) -> Result<Option<(Subject, Event)>, BadName> {
    if job.status != JobStatus::Running || now.since(job.created) >= DISPATCHED_TOLD {
        return Ok(None);
    }
    let mut data = about(job);
    data.insert("user".into(), json!(job.user));
    data.insert("target_expr".into(), json!(job.target_expr));
    event_of(job, "dispatched", data, now).map(Some)
}

/// `job/<jid>/finalized` of origin `_master` (J-19). The id follows from the job, so that whoever hears it twice knows.
pub fn finalized_event(job: &Job, now: UnixMillis) -> Result<(Subject, Event), BadName> {
    let mut data = about(job);
    data.insert("status".into(), json!(job.status.as_str()));
    data.insert("return_count".into(), json!(job.return_count));
    data.insert("success_count".into(), json!(job.success_count));
    event_of(job, "finalized", data, now)
}

/// What every event of a job says of it. Of one that a reaction started, which reaction to what.
fn about(job: &Job) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("jid".into(), json!(job.jid.as_str()));
    data.insert("function".into(), json!(job.function));
    data.insert("target_count".into(), json!(job.targets.len()));
    for key in ["rule", "event_id"] {
        if let Some(value) = job.metadata.get(key).filter(|value| value.is_string()) {
            data.insert(key.into(), value.clone());
        }
    }
    data
}

fn event_of(
    job: &Job,
    what: &str,
    data: Map<String, Value>,
    now: UnixMillis,
) -> Result<(Subject, Event), BadName> {
    let tag = Tag::parse(&format!("job/{}/{what}", job.jid))?;
    let event = Event {
        id: format!("job-{}-{what}", job.jid),
        tag: tag.clone(),
        data,
        ts: now,
        v: VERSION,
        origin: "_master".into(),
        depth: job.reactor_depth(),
    };
    Ok((Subject::Event(EventSubject::Master { tag }), event))
}

/// What is stored of a return that comes when nobody watches the job any more (J-9): none for a job that is not over, does
/// not target that peel, or speaks of another dispatch.
pub fn late_return(job: &Job, ret: Return) -> Option<Return> {
    let ours =
        ret.jid == job.jid && ret.dispatch_epoch == job.dispatch_epoch && job.targets.contains(&ret.peel);
    (ours && job.status.is_terminal()).then_some(Return { late: true, ..ret })
}
