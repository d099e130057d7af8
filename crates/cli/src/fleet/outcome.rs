//! What became of a call on the fleet: the document of C-2 and the exit code of C-3.

use crate::exit::Exit;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::time::Duration;
use zester_client::{Ended, Returns};
use zester_jobs::status::{self, Tally};
use zester_wire::{Cause, Jid, JobStatus, Missing, PeelId, Return};

/// Why a name in a list is missing.
pub const NO_SUCH_PEEL: &str = "there is no peel of this name";

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum PeelStatus {
    Success,
    Failed,
    Unreachable,
    Missing,
    Canceled,
}

impl PeelStatus {
    pub fn as_str(self) -> &'static str {
        match self {
            PeelStatus::Success => "success",
            PeelStatus::Failed => "failed",
            PeelStatus::Unreachable => "unreachable",
            PeelStatus::Missing => "missing",
            PeelStatus::Canceled => "canceled",
        }
    }
}

/// What became of it on one peel.
#[derive(Clone, Debug, PartialEq)]
pub struct PeelResult {
    pub status: PeelStatus,
    pub duration_ms: Option<u64>,
    pub error: String,
    pub answer: Json,
    /// Why the return is not the function's own answer.
    pub cause: Cause,
    /// Of one that is unreachable: when it last gave a sign of life, in words. Empty: that is not known.
    pub last_seen: String,
}

impl PeelResult {
    pub fn of_return(ret: &Return) -> PeelResult {
        let status = match ret.cause {
            // It counts as not returned (J-5), but what it has is shown.
            Cause::Deadline => PeelStatus::Missing,
            _ if ret.success => PeelStatus::Success,
            Cause::Canceled => PeelStatus::Canceled,
            _ if ret.canceled => PeelStatus::Canceled,
            _ => PeelStatus::Failed,
        };
        PeelResult {
            duration_ms: Some(ret.duration_ms),
            answer: ret.answer.clone(),
            cause: ret.cause,
            ..PeelResult::without(status, ret.error.clone())
        }
    }

    /// The same, where it is known how the job ended. Whoever a master tells to stop because the time is over says that he was
    /// canceled: nobody canceled the job, so the deadline did.
    pub fn of_return_in(ret: &Return, job: JobStatus) -> PeelResult {
        let at_the_end = ret.late && ret.cause == Cause::Canceled && !ret.success;
        match at_the_end && job.is_terminal() && job != JobStatus::Canceled {
            true => PeelResult::of_return(&Return { cause: Cause::Deadline, ..ret.clone() }),
            false => PeelResult::of_return(ret),
        }
    }

    /// No return, and why not.
    pub fn without(status: PeelStatus, error: impl Into<String>) -> PeelResult {
        let (cause, last_seen) = (Cause::Finished, String::new());
        PeelResult { status, duration_ms: None, error: error.into(), answer: Json::Null, cause, last_seen }
    }

    /// It had the work and not enough time for it.
    pub fn is_late(&self) -> bool {
        self.cause == Cause::Deadline || self.error == missing_words(Missing::Running)
    }

    fn of_missing(why: Missing) -> PeelResult {
        let status = if why == Missing::Unreachable { PeelStatus::Unreachable } else { PeelStatus::Missing };
        PeelResult::without(status, missing_words(why))
    }

    pub fn document(&self) -> Json {
        let error = if self.error.is_empty() { Json::Null } else { json!(self.error) };
        json!({
            "status": self.status.as_str(), "duration_ms": self.duration_ms,
            "error": error, "return": self.answer,
        })
    }
}

/// Why a peel has no usable return, for people (J-17).
pub fn missing_words(why: Missing) -> &'static str {
    match why {
        Missing::NeverAcked => "never acknowledged the job",
        Missing::Running => "took the job and did not return in time",
        Missing::Unreachable => "unreachable",
        Missing::Interrupted => "interrupted: the peel restarted",
        Missing::UnknownPeel => NO_SUCH_PEEL,
        Missing::Unknown => "missing for a reason that this release does not know",
    }
}

/// All of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// In order; several only for batches.
    pub jids: Vec<Jid>,
    pub status: String,
    pub reason: String,
    pub peels: BTreeMap<PeelId, PeelResult>,
    /// Somebody killed it.
    pub killed: bool,
    /// The job itself failed, whatever its peels say.
    pub failed: bool,
    /// A master keeps a record of it.
    pub recorded: bool,
    /// The user left before the end: nothing is known of the rest.
    pub left: bool,
    /// Targets of batches that never began.
    pub not_asked: Vec<PeelId>,
    /// Why they never began.
    pub not_asked_why: String,
    /// Targets that have neither returned nor can be named: the list of a large job is gone.
    pub unnamed: usize,
    /// A dry run.
    pub test: bool,
    /// How long all of it might take.
    pub timeout: Duration,
    /// How long the job took, by its record; none where there is none, or it is not over.
    pub took: Option<Duration>,
}

impl Outcome {
    /// What the buckets say, with why each missing peel is missing.
    pub fn of_job(ended: &Ended, missing: &BTreeMap<PeelId, Missing>) -> Outcome {
        let job = &ended.job;
        let killed = job.status == JobStatus::Canceled;
        let result = |peel: &PeelId| match (ended.returns.get(peel), missing.get(peel)) {
            (Some(ret), _) => PeelResult::of_return_in(ret, job.status),
            (None, Some(Missing::Unreachable)) => PeelResult::of_missing(Missing::Unreachable),
            (None, _) if killed => PeelResult::without(PeelStatus::Canceled, "the job was canceled"),
            (None, why) => PeelResult::of_missing(why.copied().unwrap_or(Missing::NeverAcked)),
        };
        let reason = match ended.finished {
            true => job.reason.clone(),
            false => "no master finished the job".to_string(),
        };
        let peels: BTreeMap<PeelId, PeelResult> = if job.has_targets() {
            job.targets.iter().map(|peel| (peel.clone(), result(peel))).collect()
        } else {
            // Names that no peel has are no targets.
            let missing = missing.keys().filter(|peel| !job.unknown_peels.contains(peel));
            ended.returns.keys().chain(missing).map(|peel| (peel.clone(), result(peel))).collect()
        };
        let targets = usize::try_from(job.target_count()).unwrap_or(usize::MAX);
        Outcome {
            jids: vec![job.jid.clone()],
            status: job.status.as_str().to_string(),
            reason,
            unnamed: targets.saturating_sub(peels.len()),
            peels,
            killed,
            failed: job.status == JobStatus::Failed,
            recorded: true,
            left: false,
            not_asked: Vec::new(),
            not_asked_why: String::new(),
            test: job.test,
            timeout: job.timeout(),
            took: job.status.is_terminal().then(|| job.updated.since(job.created)),
        }
    }

    /// Of a call past the masters, where nobody else judges.
    pub fn of_direct(jid: Jid, peels: BTreeMap<PeelId, PeelResult>) -> Outcome {
        let mut outcome = Outcome {
            jids: vec![jid],
            status: String::new(),
            reason: String::new(),
            peels,
            killed: false,
            failed: false,
            recorded: false,
            left: false,
            not_asked: Vec::new(),
            not_asked_why: String::new(),
            unnamed: 0,
            test: false,
            timeout: Duration::ZERO,
            took: None,
        };
        outcome.judge();
        outcome
    }

    /// What is known so far of a job whose view was left.
    pub fn so_far(jid: Jid, targets: &[PeelId], returns: &Returns) -> Outcome {
        let result = |peel: &PeelId| match returns.get(peel) {
            Some(ret) => PeelResult::of_return(ret),
            None => PeelResult::without(PeelStatus::Missing, "not awaited: the view was left"),
        };
        Outcome {
            jids: vec![jid],
            status: JobStatus::Running.as_str().to_string(),
            reason: String::new(),
            peels: targets.iter().map(|peel| (peel.clone(), result(peel))).collect(),
            killed: false,
            failed: false,
            recorded: true,
            left: true,
            not_asked: Vec::new(),
            not_asked_why: String::new(),
            unnamed: 0,
            test: false,
            timeout: Duration::ZERO,
            took: None,
        }
    }

    /// Lays the next batch to those before.
    pub fn join(&mut self, next: Outcome) {
        self.jids.extend(next.jids);
        self.peels.extend(next.peels);
        self.killed |= next.killed;
        self.failed |= next.failed;
        self.left |= next.left;
        self.unnamed += next.unnamed;
        self.reason = next.reason;
        self.judge();
    }

    /// A later batch could not be run, and those behind it are not begun. What ran before stands, so the exit code is never the
    /// one that says that nothing did (J-28).
    pub fn cut_short(&mut self, batch: Vec<PeelId>, rest: Vec<PeelId>, why: &str, exit: Exit) -> Exit {
        self.not_asked = rest;
        self.not_asked_why = why.lines().next().unwrap_or_default().to_string();
        if exit == Exit::Usage {
            // Nothing of this batch runs.
            self.not_asked.splice(0..0, batch);
        } else {
            let unknown = batch.into_iter().map(|peel| (peel, PeelResult::without(PeelStatus::Missing, why)));
            self.peels.extend(unknown);
        }
        self.judge();
        match (exit, self.exit()) {
            (Exit::Interrupted | Exit::Terminated, _) => exit,
            (_, Exit::Good) => Exit::Missing,
            (_, Exit::Failed) => Exit::FailedAndMissing,
            (_, exit) => exit,
        }
    }

    /// Names that were listed and that no peel has: nobody could be asked, so they are missing (C-3).
    pub fn add_unknown(&mut self, names: Vec<PeelId>) {
        if names.is_empty() {
            return;
        }
        let unknown =
            names.into_iter().map(|name| (name, PeelResult::without(PeelStatus::Missing, NO_SUCH_PEEL)));
        self.peels.extend(unknown);
        if self.status != JobStatus::Running.as_str() {
            self.judge();
        }
    }

    /// The status that follows from the peels, by the rules of a job.
    pub fn judge(&mut self) {
        let returned = self.count(PeelStatus::Success) + self.count(PeelStatus::Failed);
        let tally = Tally {
            targets: (self.peels.len() + self.unnamed) as u64,
            returned: returned as u64,
            succeeded: self.count(PeelStatus::Success) as u64,
            cut_short: self.killed,
        };
        self.status = status::conclude(tally).as_str().to_string();
    }

    pub fn count(&self, status: PeelStatus) -> usize {
        self.peels.values().filter(|result| result.status == status).count()
    }

    /// Those who did not succeed, whatever the reason.
    pub fn unsuccessful(&self) -> usize {
        self.unnamed + self.peels.len() - self.count(PeelStatus::Success)
    }

    /// The document of C-2; `jids` only where there were batches, `not_asked` and why only where some never began.
    pub fn document(&self, batched: bool) -> Json {
        let peels: Map<String, Json> =
            self.peels.iter().map(|(peel, result)| (peel.to_string(), result.document())).collect();
        let jid = self.jids.last().map(Jid::as_str);
        let mut document = json!({ "jid": jid, "status": self.status, "peels": peels });
        if self.unnamed > 0
            && let Some(map) = document.as_object_mut()
        {
            map.insert("unnamed".into(), json!(self.unnamed));
        }
        if batched && let Some(map) = document.as_object_mut() {
            let jids: Vec<&str> = self.jids.iter().map(Jid::as_str).collect();
            map.insert("jids".into(), json!(jids));
            if !self.not_asked.is_empty() {
                map.insert("not_asked".into(), json!(self.not_asked));
                map.insert("not_asked_why".into(), json!(self.not_asked_why));
            }
        }
        document
    }

    pub fn exit(&self) -> Exit {
        if self.killed {
            return Exit::Failed;
        }
        let failed = self.failed || self.count(PeelStatus::Failed) + self.count(PeelStatus::Canceled) > 0;
        let missing =
            self.unnamed + self.count(PeelStatus::Missing) + self.count(PeelStatus::Unreachable) > 0;
        Exit::of_fleet(failed, missing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn peel(name: &str) -> PeelId {
        PeelId::parse(name).unwrap()
    }

    fn jid() -> Jid {
        Jid::parse("2hPx2Kd8VnR7YmWqTz4PLsCfNjA").unwrap()
    }

    fn ret(name: &str, success: bool, cause: Cause) -> Return {
        let mut ret = Return::refusing(jid(), peel(name), 1, cause, if success { "" } else { "why" });
        (ret.success, ret.duration_ms) = (success, 7);
        ret
    }

    fn outcome(statuses: &[PeelStatus]) -> Outcome {
        let results = statuses.iter().enumerate();
        let peels = results.map(|(at, status)| (peel(&format!("p{at}")), PeelResult::without(*status, "")));
        Outcome::of_direct(jid(), peels.collect())
    }

    #[test]
    #[rule("C-3")]
    fn c3_the_exit_code_says_failed_missing_or_both() {
        use PeelStatus::{Canceled, Failed, Missing, Success, Unreachable};
        for (statuses, code) in [
            (&[Success, Success][..], 0),
            (&[Success, Failed], 2),
            (&[Canceled], 2),
            (&[Success, Missing], 3),
            (&[Unreachable], 3),
            (&[Failed, Unreachable], 4),
        ] {
            assert_eq!(outcome(statuses).exit().code(), code, "{statuses:?}");
        }
        // The record says so: it ended for a reason that no peel has.
        let given_up = Outcome { failed: true, ..outcome(&[Success]) };
        assert_eq!(given_up.exit().code(), 2);
        let given_up = Outcome { failed: true, ..outcome(&[Missing]) };
        assert_eq!(given_up.exit().code(), 4);
        let killed = Outcome { killed: true, ..outcome(&[Success, Missing]) };
        assert_eq!(killed.exit().code(), 2, "a job killed by somebody else");
    }

    #[test]
    #[rule("C-2")]
    fn c2_the_fleet_document_has_exactly_these_keys() {
        let mut outcome = Outcome::of_direct(jid(), BTreeMap::new());
        outcome.peels.insert(peel("a"), PeelResult::of_return(&ret("a", true, Cause::Finished)));
        outcome.peels.insert(peel("b"), PeelResult::of_return(&ret("b", false, Cause::Finished)));
        outcome.judge();
        let wanted = json!({
            "jid": jid().as_str(), "status": "failed",
            "peels": {
                "a": { "status": "success", "duration_ms": 7, "error": null, "return": null },
                "b": { "status": "failed", "duration_ms": 7, "error": "why", "return": null },
            },
        });
        assert_eq!(outcome.document(false), wanted);
        assert_eq!(outcome.document(true)["jids"], json!([jid().as_str()]));
    }

    #[test]
    #[rule("J-5")]
    fn j5_a_return_cut_off_by_the_deadline_counts_as_missing() {
        let status = |success, cause| PeelResult::of_return(&ret("a", success, cause)).status;
        assert_eq!(status(false, Cause::Deadline), PeelStatus::Missing);
        assert_eq!(status(false, Cause::Canceled), PeelStatus::Canceled);
        assert_eq!(status(false, Cause::Interrupted), PeelStatus::Failed);
        assert_eq!(status(true, Cause::Finished), PeelStatus::Success);
        // Told to stop by the master, when the time was over.
        let late = Return { late: true, ..ret("a", false, Cause::Canceled) };
        let cause = |job| PeelResult::of_return_in(&late, job).cause;
        assert_eq!(cause(JobStatus::Partial), Cause::Deadline);
        assert_eq!(cause(JobStatus::Canceled), Cause::Canceled, "somebody killed it");
    }

    #[test]
    #[rule("C-3")]
    fn c3_a_listed_name_that_nobody_has_is_missing() {
        let mut outcome = outcome(&[PeelStatus::Success]);
        outcome.add_unknown(Vec::new());
        assert_eq!((outcome.status.as_str(), outcome.exit().code()), ("complete", 0));
        outcome.add_unknown(vec![peel("nosuch")]);
        assert_eq!((outcome.status.as_str(), outcome.exit().code()), ("partial", 3));
        assert_eq!(outcome.document(false)["peels"]["nosuch"]["status"], "missing");
    }

    #[test]
    #[rule("C-3")]
    fn c3_a_peel_that_was_never_asked_is_not_missing() {
        let not_asked_why = "--max-fail was reached".to_string();
        let stopped =
            Outcome { not_asked: vec![peel("later")], not_asked_why, ..outcome(&[PeelStatus::Failed]) };
        assert_eq!((stopped.status.as_str(), stopped.exit().code()), ("failed", 2));
        let document = stopped.document(true);
        assert_eq!(
            (&document["not_asked"], document["peels"].as_object().unwrap().len()),
            (&json!(["later"]), 1)
        );
        assert_eq!(document["not_asked_why"], "--max-fail was reached");
    }

    #[test]
    fn batches_are_judged_together() {
        let mut first = outcome(&[PeelStatus::Success]);
        let mut second = Outcome::of_direct(jid(), BTreeMap::new());
        second.peels.insert(peel("later"), PeelResult::without(PeelStatus::Missing, ""));
        first.join(second);
        assert_eq!((first.status.as_str(), first.jids.len(), first.exit().code()), ("partial", 2, 3));
    }

    fn large(returned: usize) -> Outcome {
        let names: Vec<PeelId> = (0..1_000).map(|at| peel(&format!("web-{at:04}"))).collect();
        let mut job = crate::output::job_text::tests::job(&names);
        (job.status, job.return_count, job.success_count) =
            (JobStatus::Partial, returned as u64, returned as u64);
        let returns = names.iter().take(returned);
        let returns: Returns =
            returns.map(|name| (name.clone(), ret(name.as_str(), true, Cause::Finished).into())).collect();
        // Its pages are gone.
        let ended = Ended { job: job.recorded(), returns, finished: true };
        Outcome::of_job(&ended, &BTreeMap::new())
    }

    #[test]
    #[rule("C-3")]
    fn c3_targets_whose_names_are_gone_are_missing_all_the_same() {
        let some = large(990);
        assert_eq!((some.peels.len(), some.unnamed, some.exit().code()), (990, 10, 3));
        assert_eq!((some.unsuccessful(), &some.document(false)["unnamed"]), (10, &json!(10)));
        assert_eq!((large(0).exit().code(), large(1_000).exit().code()), (3, 0));
    }

    #[test]
    #[rule("J-28")]
    fn j28_what_ran_before_a_batch_that_could_not_is_kept_and_never_exits_1() {
        let batch = || vec![peel("second")];
        let cut = |statuses: &[PeelStatus], exit| {
            let mut all = outcome(statuses);
            let exit = all.cut_short(batch(), vec![peel("third")], "no master answered", exit);
            (exit.code(), all.not_asked.len(), all.peels.len())
        };
        use PeelStatus::{Failed, Success};
        assert_eq!(cut(&[Success], Exit::Usage), (3, 2, 1), "the batch was not asked");
        assert_eq!(cut(&[Failed], Exit::Usage), (4, 2, 1));
        assert_eq!(cut(&[Success], Exit::Missing), (3, 1, 2), "what became of the batch is not known");
        assert_eq!(cut(&[Success], Exit::Interrupted), (130, 1, 2));
    }
}
