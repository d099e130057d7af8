//! What must hold, whatever happened.

mod cancels;
mod clients;
mod delivery;
mod early;
mod ends;
mod evidence;
mod invariant;
mod owners;
mod reactions;
mod returns;
mod story;

pub use evidence::{Evidence, Outcome};
pub use invariant::Invariant;

use evidence::JobEvidence;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;
use zester_wire::Jid;

/// When nothing is wrong, whoever is there hears of everything within this time: a heartbeat that announces, a retry, a pause.
const HEARD_WITHIN: Duration = Duration::from_secs(12);
/// How far two clocks may be apart, and a little more.
const CLOCKS_APART: Duration = Duration::from_secs(5);
/// How long it may take from the owner's last look at the stream to the end that is written: a few trips in a storm.
const END_TAKES: Duration = Duration::from_secs(5);

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    pub invariant: Invariant,
    pub what: String,
}

impl Violation {
    pub fn new(invariant: Invariant, what: String) -> Violation {
        Violation { invariant, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.invariant.text(), self.what)
    }
}

/// What happened, so that it can be seen that something did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub statuses: BTreeMap<&'static str, u64>,
    pub faults: BTreeMap<&'static str, u64>,
    pub executions: u64,
    pub adoptions: u64,
    pub late_returns: u64,
    /// Jobs that events started.
    pub reactions: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_insert(0) += count;
        }
        for (fault, count) in other.faults {
            *self.faults.entry(fault).or_insert(0) += count;
        }
        self.executions += other.executions;
        self.adoptions += other.adoptions;
        self.late_returns += other.late_returns;
        self.reactions += other.reactions;
    }
}

/// Where the checks put what does not hold.
type Violations = Vec<Violation>;

impl Evidence {
    /// What happened, and everything that does not hold.
    pub fn judge(&self) -> (Tally, Vec<Violation>) {
        let mut violations = Violations::new();
        let mut tally = Tally::default();
        {
            let seen = self.environment.observed.lock();
            for (invariant, what) in &seen.wrongs {
                violations.push(Violation::new(*invariant, what.clone()));
            }
            tally.faults = seen.faults.clone();
            for (name, _, _) in &seen.disturbed {
                *tally.faults.entry(name).or_insert(0) += 1;
            }
            tally.executions = seen.executions.len() as u64;
            tally.reactions = self.jobs.keys().filter(|jid| jid.as_str().starts_with("rxn-")).count() as u64;
        }
        self.check_executions(&mut violations);
        self.check_clients(&mut violations);
        self.check_outboxes(&mut violations);
        if self.environment.reacts {
            self.check_reactions(&mut violations);
        }
        for (jid, job) in &self.jobs {
            self.judge_job(jid, job, &mut violations, &mut tally);
        }
        (tally, violations)
    }

    fn judge_job(&self, jid: &Jid, job: &JobEvidence, violations: &mut Violations, tally: &mut Tally) {
        let Some(last) = job.versions.last() else { return };
        self.check_records(jid, job, violations);
        self.check_owners(jid, job, violations);
        self.check_delivery(jid, job, violations);
        self.check_cancels(jid, job, violations);
        self.check_early(jid, job, violations);
        if self.check_end(jid, job, violations) {
            self.check_returns(jid, job, violations);
        }
        *tally.statuses.entry(last.record.status.as_str()).or_insert(0) += 1;
        tally.adoptions += u64::from(last.record.reclaim_count);
        tally.late_returns += job.stored.values().filter(|(ret, _)| ret.late).count() as u64;
    }
}
