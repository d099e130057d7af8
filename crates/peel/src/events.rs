//! `event.send`: what a job tells the masters, under the name of this peel.

use crate::run::limits::EVENT_TRIES;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::time::Duration;
use zester_host::{BoxFuture, Fault, FaultKind};
use zester_link::Link;
use zester_resources::context::EventSender;
use zester_wire::{Event, EventSubject, Jid, PeelId, Subject, Tag, VERSION};

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(500);

/// Where the events of this peel go.
#[derive(Clone)]
pub struct EventOutlet {
    pub link: Link,
    pub peel: PeelId,
}

impl EventOutlet {
    /// For one job. What it sends is as deep in a chain of reactions as the job says.
    pub fn of_job(&self, jid: Jid, depth: u32) -> Arc<dyn EventSender> {
        Arc::new(OfJob { outlet: self.clone(), jid, depth })
    }
}

struct OfJob {
    outlet: EventOutlet,
    jid: Jid,
    depth: u32,
}

impl EventSender for OfJob {
    fn send<'a>(
        &'a self,
        tag: &'a str,
        data: &'a Map<String, Value>,
    ) -> BoxFuture<'a, Result<String, Fault>> {
        Box::pin(async move {
            let EventOutlet { link, peel } = &self.outlet;
            let wrong = |why: String| Fault::new(FaultKind::Unsupported, why);
            let tag = Tag::parse(tag).map_err(|bad| wrong(format!("`{tag}` is {bad}")))?;
            let id = link.new_message_id().map_err(|error| wrong(error.to_string()))?;
            let subject = Subject::Event(EventSubject::Send { peel: peel.clone(), tag: tag.clone() });
            let event = Event {
                id: id.to_string(),
                tag,
                data: data.clone(),
                ts: link.now(),
                v: VERSION,
                origin: format!("job:{}", self.jid),
                depth: self.depth,
            };
            let mut left = EVENT_TRIES;
            loop {
                left -= 1;
                // With the same id a stream keeps it once, however often it is tried.
                let error = match link.publish_stored(&subject, &id, &event).await {
                    Ok(_) => return Ok(event.id),
                    Err(error) => error,
                };
                let is_connected = link.bus().info().connected;
                if left == 0 || !is_connected || !error.retryable() {
                    let message = format!("the event `{}` was not sent: {error}", event.tag);
                    let hint = "it is not kept for later; run it again when the bus is there";
                    return Err(Fault::new(FaultKind::CommandFailed, message).hint(hint));
                }
                tokio::time::sleep(PAUSE).await;
            }
        })
    }
}
