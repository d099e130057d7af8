//! What came of one event: the rules that it met, the jobs that they started, what peels returned, the events that came of
//! those, and so on.
//!
//! The ledger says what was decided. Where it has nothing (it is best effort), the jobs of reactions name their event, and
//! events that came of a job or a rule name that: the tree of effects is the same.

use crate::client::Client;
use crate::error::Error;
use crate::events::{SeenEvent, event_of};
use crate::limits::{CHAIN_EVENTS_READ, REACTIONS_LISTED, READS_IN_FLIGHT, TREE_NODES_MAX};
use crate::received::Returns;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use std::collections::{BTreeMap, BTreeSet};
use zester_bus::storage::EVENTS;
use zester_wire::{Bucket, EventSubject, Jid, Job, Key, LedgerEntry, subject};

/// How an event that came of a job or of a rule says so.
const OF_JOB: &str = "job:";

/// One event and what came of it.
#[derive(Clone, Debug)]
pub struct EventTree {
    pub id: String,
    /// None: the stream has it no more, or never had.
    pub event: Option<SeenEvent>,
    /// In the order they were decided.
    pub reactions: Vec<ReactionTree>,
    /// It stands further up already, or the tree is too large to go on.
    pub cut: bool,
}

/// What one block of one rule did, or why nothing.
#[derive(Clone, Debug)]
pub struct ReactionTree {
    pub entry: LedgerEntry,
    /// The same rule reacted further up: this is a loop.
    pub again: bool,
    pub job: Option<JobTree>,
    pub sent: Option<EventTree>,
}

/// A job that a reaction started.
#[derive(Clone, Debug)]
pub struct JobTree {
    pub job: Job,
    pub returns: Returns,
    pub events: Vec<EventTree>,
}

/// What is read once for the whole tree.
struct Found {
    /// By id, from the place of the first event on.
    events: BTreeMap<String, SeenEvent>,
    /// Those that came of a job, by its id.
    of_jobs: BTreeMap<String, Vec<String>>,
    /// Jobs of reactions by the event that they are of.
    jobs: BTreeMap<String, Vec<Job>>,
    left: usize,
}

impl Client {
    /// The tree of an event, by its id or the beginning of it; none if nobody knows the event.
    pub async fn reaction_tree(&self, event_id: &str) -> Result<Option<EventTree>, Error> {
        let entries = self.ledger_of_event(event_id).await?;
        let from = entries.iter().map(|entry| entry.sequence).filter(|place| *place > 0).min();
        let mut found = self.found(from.unwrap_or(0)).await?;
        let id = match entries.is_empty() && !found.events.contains_key(event_id) {
            false => event_id.to_string(),
            true => {
                let mut fits = found.events.keys().filter(|id| id.starts_with(event_id));
                match (fits.next(), fits.next()) {
                    (Some(id), None) => id.clone(),
                    (Some(id), Some(other)) => {
                        let what = format!("several events begin with `{event_id}`: {id}, {other}");
                        return Err(zester_bus::Error::new(zester_bus::Kind::Invalid, what).into());
                    }
                    (None, _) => return Ok(None),
                }
            }
        };
        let path = Path::default();
        self.event_tree(id, &path, &mut found).await.map(Some)
    }

    async fn found(&self, from: u64) -> Result<Found, Error> {
        let (mut events, mut of_jobs) = (BTreeMap::new(), BTreeMap::<String, Vec<String>>::new());
        let mut next = Some(from);
        while let Some(start) = next.filter(|_| events.len() < CHAIN_EVENTS_READ) {
            let page = self.link().bus().replay(EVENTS, subject::EVENTS, start).await?;
            for seen in page.items.iter().filter_map(|record| event_of(self, record)) {
                let jid = seen.event.origin.strip_prefix(OF_JOB).map(str::to_string);
                for jid in jid.into_iter().chain(job_of_tag(&seen)) {
                    of_jobs.entry(jid).or_default().push(seen.event.id.clone());
                }
                // Ids can be guessed: the first of two is the one that was meant.
                events.entry(seen.event.id.clone()).or_insert(seen);
            }
            next = page.next;
        }
        let jobs = self.jobs_of_reactions().await?;
        Ok(Found { events, of_jobs, jobs, left: TREE_NODES_MAX })
    }

    /// Jobs of reactions by the event that they are of.
    async fn jobs_of_reactions(&self) -> Result<BTreeMap<String, Vec<Job>>, Error> {
        let keys = self.link().bus().keys(Bucket::Jobs.as_str(), "*").await?;
        let jids = keys.iter().filter_map(|key| Jid::parse(key).ok());
        let jids = jids.filter(|jid| jid.as_str().starts_with("rxn-")).take(REACTIONS_LISTED);
        let reads = jids.map(|jid| async move { self.link().get::<Job>(&Key::Job(jid)).await });
        let mut reads = futures_util::stream::iter(reads.collect::<Vec<_>>()).buffered(READS_IN_FLIGHT);
        let mut jobs: BTreeMap<String, Vec<Job>> = BTreeMap::new();
        while let Some(read) = reads.next().await {
            let Some(job) = read?.map(|found| found.value) else { continue };
            jobs.entry(word(&job, "event_id")).or_default().push(job);
        }
        Ok(jobs)
    }

    fn event_tree<'a>(
        &'a self,
        id: String,
        path: &'a Path,
        found: &'a mut Found,
    ) -> BoxFuture<'a, Result<EventTree, Error>> {
        Box::pin(async move {
            let event = found.events.get(&id).cloned();
            let mut tree = EventTree { id: id.clone(), event, reactions: Vec::new(), cut: false };
            if path.events.contains(&id) || found.left == 0 {
                tree.cut = true;
                return Ok(tree);
            }
            let mut entries = self.ledger_of_event(&id).await?;
            for job in found.jobs.get(&id).into_iter().flatten() {
                if !entries.iter().any(|entry| entry.jid.as_ref() == Some(&job.jid)) {
                    entries.push(entry_of(job));
                }
            }
            for entry in once_each(entries) {
                found.left = found.left.saturating_sub(1);
                let inner = path.with(&id, &entry.rule);
                let again = !entry.rule.is_empty() && path.rules.contains(&entry.rule);
                let job = match &entry.jid {
                    Some(jid) => self.job_tree(jid, &inner, found).await?,
                    None => None,
                };
                let sent = match entry.event_sent.as_str() {
                    "" => None,
                    sent => Some(self.event_tree(sent.to_string(), &inner, found).await?),
                };
                tree.reactions.push(ReactionTree { entry, again, job, sent });
            }
            Ok(tree)
        })
    }

    async fn job_tree(&self, jid: &Jid, path: &Path, found: &mut Found) -> Result<Option<JobTree>, Error> {
        let Some(job) = self.job_of(jid).await? else { return Ok(None) };
        let returns = self.returns(&job).await?;
        let mut events = Vec::new();
        for id in found.of_jobs.get(jid.as_str()).cloned().unwrap_or_default() {
            found.left = found.left.saturating_sub(1);
            events.push(self.event_tree(id, path, found).await?);
        }
        Ok(Some(JobTree { job, returns, events }))
    }
}

/// What stands between the root and here.
#[derive(Clone, Default)]
struct Path {
    events: BTreeSet<String>,
    rules: BTreeSet<String>,
}

impl Path {
    fn with(&self, event: &str, rule: &str) -> Path {
        let mut path = self.clone();
        path.events.insert(event.to_string());
        path.rules.insert(rule.to_string());
        path
    }
}

fn word(job: &Job, key: &str) -> String {
    job.metadata.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_string()
}

/// `job/<jid>/finalized` of a master is of that job.
fn job_of_tag(seen: &SeenEvent) -> Option<String> {
    let EventSubject::Master { tag } = &seen.subject else { return None };
    let mut segments = tag.as_str().split('/');
    (segments.next() == Some("job")).then(|| segments.next().unwrap_or_default().to_string())
}

/// What the ledger would say of a job that it does not know.
fn entry_of(job: &Job) -> LedgerEntry {
    LedgerEntry {
        at: job.created,
        origin: word(job, "event_origin"),
        tag: word(job, "event_tag"),
        event_id: word(job, "event_id"),
        rule: word(job, "rule"),
        block: word(job, "block"),
        decision: "dispatched".to_string(),
        reason: format!("{} to {}", job.function, job.target_expr),
        jid: Some(job.jid.clone()),
        ..LedgerEntry::default()
    }
}

/// A redelivery tells of `duplicate` what an earlier delivery did: that is one line.
fn once_each(entries: Vec<LedgerEntry>) -> Vec<LedgerEntry> {
    let mut kept: Vec<LedgerEntry> = Vec::new();
    for entry in entries {
        let same = |other: &LedgerEntry| (&other.rule, &other.block) == (&entry.rule, &entry.block);
        match kept.iter_mut().find(|other| same(other)) {
            Some(first) if first.decision == "duplicate" => *first = entry,
            Some(_) if entry.decision == "duplicate" => {}
            Some(first) if *first == entry => {}
            _ => kept.push(entry),
        }
    }
    kept
}
