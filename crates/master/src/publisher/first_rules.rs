//! A reactor takes no event before it knows its rules. Where nobody ever published any, the holder of the lease says so:
//! it publishes a tree without files.

use super::{PublisherTask, usable};
use crate::limits::{FIRST_RULES_LOOK, PUBLISH_EVERY};
use std::time::Duration;
use tokio::time::Instant;
use zester_publish::{About, Content, Error, Outcome, Tree, TreePath};
use zester_wire::Published;

/// Whether rules are known to be there.
#[derive(Default)]
pub struct FirstRules {
    known: bool,
    next: Option<Instant>,
}

impl FirstRules {
    /// How long a task that has nothing else to look at may wait.
    pub fn pause(&self) -> Duration {
        if self.known { PUBLISH_EVERY } else { FIRST_RULES_LOOK }
    }

    fn is_due(&mut self) -> bool {
        let due = !self.known && self.next.is_none_or(|next| Instant::now() >= next);
        if due {
            self.next = Some(Instant::now() + FIRST_RULES_LOOK);
        }
        due
    }
}

/// There is nothing to read.
struct NoFiles;

impl Content for NoFiles {
    fn read<'a>(&'a self, path: &'a TreePath) -> zester_publish::Reading<'a> {
        Box::pin(std::future::ready(Err(Error::Torn(format!("{path} is in no tree")))))
    }
}

impl PublisherTask {
    pub(super) async fn name_rules(&mut self, holds: bool) {
        if !self.rules.is_due() {
            return;
        }
        match self.publisher(Published::Reactor).manifest().await {
            Ok(Some(_)) => self.rules.known = true,
            // Rules of this master that do not compile are waited for: without them every event would be done with.
            Ok(None) if holds && self.brings_rules().await => {}
            Ok(None) if holds => self.publish_no_rules().await,
            Ok(None) if self.core.reactor.is_some() => self.core.orders.want_lease(),
            Ok(None) => {}
            // Rules were published, and are not whole: that is no reason to say that there are none.
            Err(error) => tracing::debug!("whether there are rules is not known now: {error}"),
        }
    }

    async fn brings_rules(&self) -> bool {
        let of_rules = self.sources.iter().find(|tracked| tracked.source.published == Published::Reactor);
        match of_rules {
            Some(tracked) => match tracked.source.origin.read().await {
                Ok(origin) => usable::holds_anything(Published::Reactor, &origin.tree),
                // What cannot be read now may hold rules: a mount that is not there yet.
                Err(_) => true,
            },
            None => false,
        }
    }

    async fn publish_no_rules(&mut self) {
        let about = About {
            master: self.core.id.clone(),
            user: String::new(),
            source: String::new(),
            commit: String::new(),
            allow_empty: true,
            uploaded: false,
        };
        match self.publisher(Published::Reactor).publish(&Tree::default(), &NoFiles, &about).await {
            Ok(Outcome::Published { .. } | Outcome::Unchanged { .. }) => self.rules.known = true,
            Ok(Outcome::Nothing) | Err(Error::Superseded) => {}
            Err(error) => tracing::debug!("that there are no rules cannot be told now: {error}"),
        }
    }
}
