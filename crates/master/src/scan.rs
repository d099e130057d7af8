//! Looks for jobs whose owner is dead, and adopts them (J-13, J-14).

use crate::core::Core;
use crate::job;
use crate::limits::{SCAN_IN_FLIGHT, UNMARKED_MAX};
use futures_util::stream::{self, StreamExt};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::time::{MissedTickBehavior, interval};
use zester_bus::Entry;
use zester_health::State;
use zester_jobs::Owner;
use zester_jobs::scan::Scan;
use zester_link::{Error, Found, Standing};
use zester_wire::{Bucket, Jid, Job, JobEvent, JobEventKind, JobStatus, Key, MasterId};

const ALL_MASTERS: &str = ">";
/// Keys of one token: `<jid>`, not `active.<jid>`.
const ALL_RECORDS: &str = "*";

pub struct Scanner {
    core: Arc<Core>,
    scan: Scan,
    /// Keys `active.<jid>` that had no record when they were last seen.
    bare: BTreeSet<Jid>,
    /// Marked jobs whose record counted for nobody when it was last seen.
    void: BTreeSet<Jid>,
    /// Masters that had a heartbeat at the last look.
    masters: BTreeSet<MasterId>,
    /// Whether all claims without a mark are known as such.
    all_known: bool,
    /// Claims that the last look through all records had no room for.
    left_out: usize,
}

/// One complete look.
#[derive(Default)]
struct View {
    jobs: BTreeMap<Jid, Found<Job>>,
    marked: BTreeSet<Jid>,
    bare: BTreeSet<Jid>,
    /// Marked jobs whose record counts for nobody any more.
    void: BTreeSet<Jid>,
    heartbeats: BTreeSet<MasterId>,
}

impl Scanner {
    pub fn new(core: Arc<Core>) -> Scanner {
        Scanner {
            core,
            scan: Scan::default(),
            bare: BTreeSet::new(),
            void: BTreeSet::new(),
            masters: BTreeSet::new(),
            all_known: false,
            left_out: 0,
        }
    }

    /// Ends only with its task.
    pub async fn run(mut self) {
        // Looks are counted from one beginning to the next, however long each takes.
        let mut looks = interval(self.core.timing.orphan_scan);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            looks.tick().await;
            if !self.all_known {
                self.find_unmarked().await;
            }
            match self.look().await {
                // A bus on which nobody could write a heartbeat: everybody looks dead.
                Ok(_) if !self.core.beats.are_steady(self.core.timing.master_ttl) => self.skip(),
                Ok(view) => {
                    self.core.health.set("jobs", State::Up);
                    self.act(view).await;
                }
                // It counts for nothing: a bus that answers half of a question must not kill a master.
                Err(error) => {
                    self.skip();
                    self.core.metrics.scan_failures.inc();
                    let why = format!("jobs of dead masters cannot be looked for: {error}");
                    tracing::warn!("{why}");
                    self.core.health.set("jobs", State::Degraded(why));
                }
            }
        }
    }

    /// A claim whose owner died before it was marked active is found by no scan, and by nobody once its client has gone. So
    /// every master looks through all records when it starts, and when another has gone.
    async fn find_unmarked(&mut self) {
        let (link, orphans) = (&self.core.link, &self.core.orphans);
        let mut left_out = 0_usize;
        let note = |entry: &Entry| {
            let Ok(found) = link.record::<Job>(Bucket::Jobs, entry) else { return };
            let is_claim = matches!(found.value.status, JobStatus::Pending | JobStatus::Claimed);
            if is_claim && !orphans.look_at(&found.value.jid) {
                left_out += 1;
            }
        };
        let looked = link.each_entry(Bucket::Jobs, ALL_RECORDS, note).await;
        self.all_known = looked.is_ok() && left_out == 0;
        if left_out > 0 && self.left_out == 0 {
            tracing::warn!(
                "{left_out} claims are left for later looks: {UNMARKED_MAX} are looked at already"
            );
        }
        self.left_out = left_out;
    }

    /// This look counts for nothing, and nobody is taken for dead by an earlier one.
    fn skip(&mut self) {
        self.scan.skip();
        self.core.orphans.skip();
    }

    async fn look(&self) -> Result<View, Error> {
        let core = &self.core;
        let keys = core.link.bus().keys(Bucket::Jobs.as_str(), Key::ALL_ACTIVE).await?;
        let marked: BTreeSet<Jid> = keys
            .iter()
            .filter_map(|key| match Key::parse(Bucket::Jobs, key) {
                Ok(Key::Active(jid)) => Some(jid),
                _ => None,
            })
            .collect();
        let unmarked = core.orphans.unmarked();
        let wanted = marked.iter().cloned().chain(unmarked).collect::<BTreeSet<Jid>>();
        let wanted = wanted.into_iter().filter(|jid| !core.running.contains(jid));
        let reads = wanted.map(|jid| async move {
            let found = core.link.get_latest::<Job>(&Key::Job(jid.clone())).await;
            (jid, found)
        });
        let mut reads = stream::iter(reads).buffered(SCAN_IN_FLIGHT);
        let mut view = View::default();
        while let Some((jid, found)) = reads.next().await {
            match found {
                Ok(Some(found)) => {
                    view.jobs.insert(jid, found);
                }
                Ok(None) if marked.contains(&jid) => {
                    view.bare.insert(jid);
                }
                Ok(None) => core.orphans.forget(&jid),
                // One record that nobody can read or believe must not keep all others from being adopted.
                Err(error) if error.is_of_record() => {
                    tracing::warn!(%jid, "a job record cannot be read: {error}");
                    if error.is_void() && marked.contains(&jid) {
                        view.void.insert(jid);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        // Last: a master that began after the jobs were listed is not missing.
        let heartbeats = core.link.bus().keys(Bucket::MasterHeartbeat.as_str(), ALL_MASTERS).await?;
        view.marked = marked;
        view.heartbeats = heartbeats.iter().filter_map(|key| MasterId::parse(key).ok()).collect();
        Ok(view)
    }

    async fn act(&mut self, mut view: View) {
        let core = self.core.clone();
        self.all_known &= self.masters.is_subset(&view.heartbeats);
        self.masters = view.heartbeats.clone();
        let elsewhere = view.marked.iter().filter(|jid| !core.running.contains(jid)).count();
        core.jobs_elsewhere.store(elsewhere, Ordering::Relaxed);
        let owners: Vec<(Jid, MasterId)> =
            view.jobs.iter().map(|(jid, found)| (jid.clone(), found.value.owner.clone())).collect();
        let mut orphans = self.scan.observe(&core.id, &owners, &view.heartbeats, &core.timing);
        orphans.extend(core.orphans.take_broken());
        let dead =
            owners.iter().map(|(_, owner)| owner).filter(|owner| self.scan.is_dead(owner, &core.timing));
        core.orphans.set_dead(dead.cloned().collect());
        for (jid, found) in &view.jobs {
            let job = &found.value;
            // What is marked is found by every scan from here on.
            if job.status.is_terminal() || view.marked.contains(jid) {
                core.orphans.forget(jid);
            }
        }
        for jid in orphans {
            let Some(found) = view.jobs.remove(&jid) else { continue };
            core.orphans.forget(&jid);
            let found = match core.link.with_targets(found).await {
                Ok(found) => found,
                // The next scan finds it again.
                Err(error) => {
                    tracing::debug!(%jid, "the targets of an orphan could not be read: {error}");
                    continue;
                }
            };
            match Owner::adopt(found.value, found.revision, core.id.clone(), core.timing.clone()) {
                Ok(owner) => {
                    if let Err(unstarted) = job::start(&core, owner, true, None).await {
                        tracing::debug!(%jid, "an orphan is left for the next scan: {unstarted:?}");
                    }
                }
                Err(_) => tracing::warn!(%jid, "a newer release wrote this job; it is left alone"),
            }
        }
        self.purge_bare(view.bare).await;
        self.end_void(view.void, &view.heartbeats).await;
    }

    /// A job whose record counts for nobody, as when the key of its master was revoked, is ended by whoever finds it so twice:
    /// nobody can go on with it, and whoever waits for it must hear that.
    async fn end_void(&mut self, void: BTreeSet<Jid>, alive: &BTreeSet<MasterId>) {
        for jid in void.intersection(&self.void) {
            if let Err(error) = self.end_void_one(jid, alive).await {
                tracing::debug!(%jid, "a job that nobody can go on with was not ended: {error}");
            }
        }
        self.void = void;
    }

    async fn end_void_one(&self, jid: &Jid, alive: &BTreeSet<MasterId>) -> Result<(), Error> {
        let (link, key) = (&self.core.link, Key::Job(jid.clone()));
        let Some(Standing { value: Err(why), revision }) = link.get_standing::<Job>(&key).await? else {
            return Ok(());
        };
        // What this release cannot read a newer one may be working on.
        if !why.is_disowned() {
            let mark = link.get_latest::<JobEvent>(&Key::Active(jid.clone())).await?;
            let owner = mark.and_then(|mark| match mark.value.event {
                JobEventKind::Dispatched { owner, .. } => Some(owner),
                _ => None,
            });
            if owner.is_some_and(|owner| alive.contains(&owner)) {
                return Ok(());
            }
        }
        tracing::warn!(%jid, "ended a job that nobody can go on with: {why}");
        let end = Job::untold(jid.clone(), self.core.id.clone(), why.to_string(), link.now());
        link.update(&key, &end, revision).await?;
        link.purge(&Key::Active(jid.clone())).await
    }

    /// A mark without a record for two scans belongs to nothing.
    async fn purge_bare(&mut self, bare: BTreeSet<Jid>) {
        for jid in bare.intersection(&self.bare) {
            tracing::info!(%jid, "removed the mark of a job that has no record");
            if let Err(error) = self.core.link.purge(&Key::Active(jid.clone())).await {
                tracing::debug!(%jid, "the mark was not removed: {error}");
            }
        }
        self.bare = bare;
    }
}
