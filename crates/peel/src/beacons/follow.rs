//! Looking whether the settings say other beacons: by their revision, and now and then.

use crate::published::DiskCache;
use crate::work::Work;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use zester_beacons::{Entry, read};
use zester_model::node::Node;
use zester_model::secret::without_placeholders;
use zester_model::source::{FileId, Span};

/// How often it is looked whether the published settings are others.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the settings are rendered although nobody published others: facts may have changed, and files without a master.
const SETTINGS_EVERY: Duration = Duration::from_secs(300);
/// The same after a look that failed.
const SETTINGS_AGAIN: Duration = Duration::from_secs(30);
/// How long rendering the settings may take: a command of a template has a minute.
const SETTINGS_LIMIT: Duration = Duration::from_secs(120);
/// Problems that are told.
const PROBLEMS_TOLD: usize = 5;

/// What the last look saw.
pub(super) struct Follower {
    cache: Option<Arc<DiskCache>>,
    next: Instant,
    due: Instant,
    seen: Option<(Option<u64>, bool)>,
}

impl Follower {
    pub(super) fn new(cache: Option<Arc<DiskCache>>) -> Follower {
        Follower { cache, next: Instant::now(), due: Instant::now(), seen: None }
    }

    /// Waits for a look that may have found other beacons. Nothing is lost where it is dropped.
    pub(super) async fn next(&mut self, work: &dyn Work) -> Result<Vec<Entry>, String> {
        loop {
            tokio::time::sleep_until(self.next).await;
            // Before they are read: what arrives meanwhile is seen by the next look.
            let revision = self.cache.as_ref().and_then(|cache| cache.pin()).map(|pin| pin.revision);
            let now = (revision, work.settings_are_known());
            if self.seen == Some(now) && Instant::now() < self.due {
                self.next = Instant::now() + LOOK_EVERY;
                continue;
            }
            let found = entries(work).await;
            self.seen = Some(now);
            self.next = Instant::now() + LOOK_EVERY;
            self.due = Instant::now() + if found.is_ok() { SETTINGS_EVERY } else { SETTINGS_AGAIN };
            return found;
        }
    }
}

async fn entries(work: &dyn Work) -> Result<Vec<Entry>, String> {
    let settings = match tokio::time::timeout(SETTINGS_LIMIT, work.settings()).await {
        Ok(found) => found.map_err(|why| format!("the settings cannot be read: {why}"))?,
        Err(_) => {
            let seconds = SETTINGS_LIMIT.as_secs();
            return Err(format!(
                "the settings were not rendered in {seconds} s; see which command their templates wait for"
            ));
        }
    };
    of_value(settings.get("beacons").unwrap_or(&Value::Null))
}

fn of_value(value: &Value) -> Result<Vec<Entry>, String> {
    let node = Node::from_json(Span::start_of(FileId(0)), value);
    read(&node).map_err(|problems| {
        let mut told: Vec<String> = problems.iter().take(PROBLEMS_TOLD).map(|one| one.sentence()).collect();
        if problems.len() > PROBLEMS_TOLD {
            told.push(format!("and {} more", problems.len() - PROBLEMS_TOLD));
        }
        without_placeholders(&told.join("; ")).into_owned()
    })
}
