//! What a block asks of the fleet: a job, or an event. Both follow from the cause alone, so that asking again is asking once.

use crate::actions::Dispatch;
use crate::gates::Passed;
use crate::ids::Cause;
use serde_json::{Map, Value, json};
use zester_wire::{BadName, DispatchRequest, Event, EventSubject, Subject, Tag, UnixMillis, VERSION};

/// Under what events of rules are sent.
const SENT_UNDER: &str = "reaction";

/// The job of a block.
pub fn dispatch_request(
    dispatch: &Dispatch,
    of: &Passed,
    rule: &str,
    block: &str,
) -> Result<DispatchRequest, BadName> {
    let cause = Cause { origin: &of.origin, event_id: &of.event.id, rule, block };
    let metadata = json!({
        "source": "reactor",
        "rule": rule,
        "block": block,
        "event_id": of.event.id,
        "event_tag": of.event.tag.as_str(),
        "event_origin": of.origin.to_string(),
        "reactor_depth": of.event.depth.saturating_add(1),
    });
    let metadata = match metadata {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    Ok(DispatchRequest {
        v: VERSION,
        jid: cause.jid()?,
        function: dispatch.function.clone(),
        args: dispatch.args.clone(),
        state_id: dispatch.state_id.clone(),
        targets: Vec::new(),
        target_expr: dispatch.target.clone(),
        timeout: dispatch.timeout,
        user: format!("reactor:{rule}"),
        metadata,
        positionals: dispatch.positionals.clone(),
        test: dispatch.test,
        wait: None,
        target_digest: None,
    })
}

/// The event of a block.
pub fn sent_event(
    tag: &Tag,
    data: &Map<String, Value>,
    of: &Passed,
    rule: &str,
    block: &str,
    now: UnixMillis,
) -> Result<(Subject, Event), BadName> {
    let cause = Cause { origin: &of.origin, event_id: &of.event.id, rule, block };
    let tag = Tag::parse(&format!("{SENT_UNDER}/{tag}"))?;
    let event = Event {
        id: cause.event(),
        tag: tag.clone(),
        data: data.clone(),
        ts: now,
        v: VERSION,
        origin: format!("reaction:{rule}"),
        depth: of.event.depth.saturating_add(1),
    };
    Ok((Subject::Event(EventSubject::Master { tag }), event))
}
