//! What comes of events.

use super::evidence::{Evidence, JobEvidence};
use super::{Invariant, Violation, Violations};
use crate::reactions::{SENDING_RULE, SENT_TAG, rule_of};
use std::collections::{BTreeMap, BTreeSet};
use zester_reactor::Guards;
use zester_wire::{Event, EventSubject, Jid, Origin};

/// An event by what makes it this one.
type EventKey = (String, String);
/// One block of one rule, for one event.
type ReactionKey = (EventKey, String, String);

/// An event that the stream keeps.
pub struct StoredEvent {
    pub subject: EventSubject,
    pub event: Event,
}

impl StoredEvent {
    fn key(&self) -> EventKey {
        (self.subject.origin().to_string(), self.event.id.clone())
    }

    /// Whether the gates let it pass.
    fn is_sound(&self) -> bool {
        self.event.tag == self.subject.tag() && !Guards::default().is_too_deep(self.event.depth)
    }

    fn rule(&self) -> Option<&'static str> {
        rule_of(&self.subject.origin(), self.subject.tag().as_str())
    }

    /// What sent it, where a rule did.
    fn parent(&self) -> Option<EventKey> {
        let is_sent = self.subject.origin() == Origin::Master && self.subject.tag().as_str() == SENT_TAG;
        let word = |key: &str| Some(self.event.data.get(key)?.as_str()?.to_string());
        is_sent.then(|| Some((word("parent_origin")?, word("parent")?)))?
    }
}

/// The reaction that started a job.
fn reaction_of(job: &JobEvidence) -> Option<ReactionKey> {
    let metadata = &job.versions.last()?.record.metadata;
    let word = |key: &str| Some(metadata.get(key)?.as_str()?.to_string());
    let block = word("block")?;
    let block = block.split('-').next().unwrap_or_default().to_string();
    Some(((word("event_origin")?, word("event_id")?), word("rule")?, block))
}

impl Evidence {
    fn jobs_of_reactions(&self) -> BTreeMap<ReactionKey, BTreeSet<Jid>> {
        let mut all: BTreeMap<ReactionKey, BTreeSet<Jid>> = BTreeMap::new();
        for (jid, job) in &self.jobs {
            if let Some(reaction) = reaction_of(job) {
                all.entry(reaction).or_default().insert(jid.clone());
            }
        }
        all
    }

    /// The ids of the events that rules sent, by the event that made them.
    fn sent(&self) -> BTreeMap<EventKey, BTreeSet<String>> {
        let mut all: BTreeMap<EventKey, BTreeSet<String>> = BTreeMap::new();
        for stored in &self.events {
            if let Some(parent) = stored.parent() {
                all.entry(parent).or_default().insert(stored.event.id.clone());
            }
        }
        all
    }

    /// What should have come of events, and has not.
    fn lost(&self) -> Vec<(Invariant, String)> {
        let (jobs, sent) = (self.jobs_of_reactions(), self.sent());
        let mut lost = Vec::new();
        for stored in self.events.iter().filter(|stored| stored.is_sound()) {
            let Some(rule) = stored.rule() else { continue };
            let key = stored.key();
            if !jobs.contains_key(&(key.clone(), rule.to_string(), "do".to_string())) {
                lost.push((Invariant::NoEventLost, format!("{key:?} has no job of {rule}")));
            }
            if rule == SENDING_RULE && !sent.contains_key(&key) {
                lost.push((Invariant::NoSentEventLost, format!("{key:?} has no event of {rule}")));
            }
        }
        lost
    }

    /// Whether every event has met its rules.
    pub fn are_reactions_settled(&self) -> bool {
        self.pending.total() == 0 && self.lost().is_empty()
    }

    pub fn check_reactions(&self, violations: &mut Violations) {
        let jobs = self.jobs_of_reactions();
        for (reaction, jids) in jobs.iter().filter(|(_, jids)| jids.len() > 1) {
            violations.push(Violation::new(Invariant::OneJobPerReaction, format!("{reaction:?}: {jids:?}")));
        }
        for (parent, ids) in self.sent().iter().filter(|(_, ids)| ids.len() > 1) {
            violations.push(Violation::new(Invariant::OneSentEvent, format!("{parent:?}: {ids:?}")));
        }
        let sound: BTreeSet<EventKey> =
            self.events.iter().filter(|stored| stored.is_sound()).map(StoredEvent::key).collect();
        for (reaction, _) in jobs.iter().filter(|((event, _, _), _)| !sound.contains(event)) {
            violations.push(Violation::new(Invariant::DroppedDoesNothing, format!("{reaction:?}")));
        }
        // What the bus keeps is far less than its streams hold, so they drop nothing. One that was made again has lost what it had.
        let made_again = self.environment.observed.lock().faults.contains_key("store made again");
        if !made_again {
            let called = |what: &String| Violation::new(Invariant::NothingCalledUnread, what.clone());
            violations.extend(self.unread.iter().map(called));
        }
        self.check_reacting_executions(violations);
        if self.pending.total() > 0 {
            let what =
                format!("{} wait, {} are not acknowledged", self.pending.waiting, self.pending.unacked);
            violations.push(Violation::new(Invariant::EventsAreDoneWith, what));
        }
        // A clock that jumped makes events old, or come from the future, and without facts nobody is meant.
        if !self.clocks_jumped() && !made_again {
            violations
                .extend(self.lost().into_iter().map(|(invariant, what)| Violation::new(invariant, what)));
        }
    }

    /// However many jobs there were.
    fn check_reacting_executions(&self, violations: &mut Violations) {
        let mut ran: BTreeMap<(ReactionKey, String), u64> = BTreeMap::new();
        let seen = self.environment.observed.lock();
        for execution in &seen.executions {
            let job = self.jobs.get(&execution.dispatch.jid);
            if let Some(reaction) = job.and_then(reaction_of) {
                *ran.entry((reaction, execution.peel.to_string())).or_default() += 1;
            }
        }
        for ((reaction, peel), count) in ran.into_iter().filter(|(_, count)| *count > 1) {
            let what = format!("{reaction:?} ran {count} times on {peel}");
            violations.push(Violation::new(Invariant::ReactionRunsOnce, what));
        }
    }
}
