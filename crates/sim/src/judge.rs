//! What must hold, whatever happened.

use crate::disk::Disk;
use crate::node::{BIRTH, Ground};
use crate::weather::Weather;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;
use zester_bus::storage::JOB_EVENTS;
use zester_link::Link;
use zester_wire::{
    Bucket, Cause, Envelope, Jid, Job, JobEvent, JobStatus, Key, PeelId, Return, Subject, UnixMillis, decode,
};

/// In calm weather, whoever is there hears of everything within this time: a heartbeat that announces, a retry, a pause.
const HEARD_WITHIN: Duration = Duration::from_secs(12);
/// How far two clocks may be apart, and a little more.
const CLOCKS_APART: Duration = Duration::from_secs(5);
/// How long it may take from the owner's last look at the stream to the end that is written: a few trips in a storm.
const END_TAKES: Duration = Duration::from_secs(5);
/// In calm weather an owner that is there ends its job this soon after the deadline.
const ENDED_WITHIN: Duration = Duration::from_secs(5);

/// An invariant that does not hold.
#[derive(Clone, Debug)]
pub struct Violation {
    pub rule: &'static str,
    pub what: String,
}

impl Violation {
    pub fn new(rule: &'static str, what: String) -> Violation {
        Violation { rule, what }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.rule, self.what)
    }
}

impl std::error::Error for Violation {}

/// What happened in one life, so that it can be seen that something did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub statuses: BTreeMap<&'static str, u64>,
    pub executions: u64,
    pub adoptions: u64,
    pub late_returns: u64,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_insert(0) += count;
        }
        self.executions += other.executions;
        self.adoptions += other.adoptions;
        self.late_returns += other.late_returns;
    }
}

/// How one job ended.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub job: Job,
    /// Every return that the bus kept, and how long after the beginning of the life that was.
    pub returns: Vec<(Return, Duration)>,
}

/// A version of a record, and when the server got it.
struct Version {
    job: Job,
    at: Instant,
}

/// What the bus keeps of one job.
#[derive(Default)]
struct Case {
    versions: Vec<Version>,
    returned: Vec<(Return, Instant)>,
    canceled_at: Option<Instant>,
    stored: BTreeMap<PeelId, Return>,
    active: bool,
}

pub struct Court {
    ground: Ground,
    weather: Weather,
    disks: BTreeMap<String, Disk>,
    cases: BTreeMap<Jid, Case>,
}

/// The life of the master that owns a job: the boot in its owner's name.
fn life_of(job: &Job) -> &str {
    job.owner.as_str().split_once('.').map_or("", |(_, boot)| boot)
}

impl Court {
    pub async fn convene(
        link: Link,
        ground: Ground,
        weather: Weather,
        disks: BTreeMap<String, Disk>,
    ) -> Result<Court, zester_link::Error> {
        let mut court = Court { ground, weather, disks, cases: BTreeMap::new() };
        let page = link.bus().scan(Bucket::Jobs.as_str(), ">", 0).await?;
        for entry in page.items {
            match Key::parse(Bucket::Jobs, &entry.key) {
                Ok(Key::Job(jid)) => {
                    let at = court.instant(entry.at);
                    let job = link.record::<Job>(&entry)?.value;
                    court.cases.entry(jid).or_default().versions.push(Version { job, at });
                }
                Ok(Key::Active(jid)) => court.cases.entry(jid).or_default().active = true,
                _ => {}
            }
        }
        for entry in link.bus().scan(Bucket::JobReturns.as_str(), ">", 0).await?.items {
            if let Ok(Key::Return(jid, peel)) = Key::parse(Bucket::JobReturns, &entry.key) {
                let ret = link.record::<Return>(&entry)?.value;
                court.cases.entry(jid).or_default().stored.insert(peel, ret);
            }
        }
        for record in link.bus().replay(JOB_EVENTS, "zester.job.>", 0).await?.items {
            court.hear(&record.subject, &record.payload, record.at);
        }
        Ok(court)
    }

    fn hear(&mut self, subject: &str, payload: &[u8], at: u64) {
        let at = self.instant(at);
        let Ok(envelope) = decode::<Envelope>(payload) else { return };
        match Subject::parse(subject) {
            Ok(Subject::JobReturn { jid, .. }) => {
                if let Ok(ret) = envelope.open::<Return>() {
                    self.cases.entry(jid).or_default().returned.push((ret, at));
                }
            }
            Ok(Subject::JobCancel { jid }) if envelope.open::<JobEvent>().is_ok() => {
                self.cases.entry(jid).or_default().canceled_at.get_or_insert(at);
            }
            _ => {}
        }
    }

    pub fn outcome(&self, jid: &Jid) -> Option<Outcome> {
        let case = self.cases.get(jid)?;
        let since = |at: &Instant| at.duration_since(self.ground.begin);
        let returns = case.returned.iter().map(|(ret, at)| (ret.clone(), since(at))).collect();
        Some(Outcome { job: case.versions.last()?.job.clone(), returns })
    }

    /// What the bus knows of each job, in order, for a person who looks for the reason.
    pub fn story(&self) -> String {
        let mut lines: Vec<(Instant, String)> = Vec::new();
        for (jid, case) in &self.cases {
            for version in &case.versions {
                let job = &version.job;
                let targets: Vec<&str> = job.targets.iter().map(PeelId::as_str).collect();
                let what = format!(
                    "{jid} record: {} owner {} epoch {} reclaims {} targets {} deadline {:.1} missing {:?}",
                    job.status.as_str(),
                    job.owner,
                    job.epoch,
                    job.reclaim_count,
                    targets.join(" "),
                    self.seconds(self.instant_of(job.deadline())),
                    job.missing,
                );
                lines.push((version.at, what));
            }
            for (ret, at) in &case.returned {
                let stored =
                    case.stored.get(&ret.peel).map(|stored| if stored.late { "late" } else { "in time" });
                let what = format!("{jid} return of {}: {:?}, stored {stored:?}", ret.peel, ret.cause);
                lines.push((*at, what));
            }
            if let Some(at) = case.canceled_at {
                lines.push((at, format!("{jid} cancel")));
            }
        }
        let seen = self.ground.journal.lock();
        for ((jid, boot), at) in &seen.sent_work {
            lines.push((*at, format!("{jid} work sent for the last time by {boot}")));
        }
        for (name, spans) in &seen.present {
            for (from, until) in spans {
                lines.push((*from, format!("{name} is there")));
                lines.extend(until.map(|until| (until, format!("{name} is gone"))));
            }
        }
        lines.sort();
        lines.into_iter().map(|(at, what)| format!("{:8.2}  {what}\n", self.seconds(at))).collect()
    }

    fn seconds(&self, at: Instant) -> f64 {
        at.duration_since(self.ground.begin).as_secs_f64()
    }

    /// The server's clock starts with the life.
    fn instant(&self, at_ms: u64) -> Instant {
        self.ground.begin + Duration::from_millis(at_ms)
    }

    fn instant_of(&self, wall: UnixMillis) -> Instant {
        self.ground.begin + wall.since(UnixMillis(BIRTH))
    }

    pub fn is_settled(&self) -> bool {
        let over = |case: &Case| {
            !case.active && case.versions.last().is_none_or(|last| last.job.status.is_terminal())
        };
        self.cases.values().all(over)
    }

    pub fn judge(self) -> Result<Tally, Violation> {
        let seen = self.ground.journal.lock();
        if let Some((rule, what)) = seen.wrongs.first() {
            return Err(Violation::new(rule, what.clone()));
        }
        for ((peel, dispatch), count) in &seen.starts {
            if *count > 1 {
                let what = format!("{peel} ran {} epoch {} {count} times", dispatch.jid, dispatch.epoch);
                return Err(Violation::new("J-7: a dispatch executes at most once", what));
            }
        }
        for jid in seen.accepted.keys() {
            if self.cases.get(jid).is_none_or(|case| case.versions.is_empty()) {
                return Err(Violation::new("J-2: what was accepted is recorded", jid.to_string()));
            }
        }
        drop(seen);
        let mut tally = Tally::default();
        for (jid, case) in &self.cases {
            self.judge_case(jid, case, &mut tally)?;
        }
        tally.executions = self.ground.journal.lock().starts.len() as u64;
        Ok(tally)
    }

    fn judge_case(&self, jid: &Jid, case: &Case, tally: &mut Tally) -> Result<(), Violation> {
        let Some(last) = case.versions.last() else { return Ok(()) };
        let status = last.job.status;
        if !status.is_terminal() || case.active {
            let what = format!("{jid} is {}, active key: {}", status.as_str(), case.active);
            return Err(Violation::new("J-5: every job ends", what));
        }
        if let Some(told) = self.ground.journal.lock().told.get(jid)
            && *told != status
        {
            let what = format!("{jid} is {}, and its client was told {}", status.as_str(), told.as_str());
            return Err(Violation::new("J-1: whoever follows a job learns how it ended", what));
        }
        self.records_only_move_on(jid, case)?;
        self.in_time(jid, case, last)?;
        self.everybody_got_it(jid, case, last)?;
        self.no_return_is_missing(jid, case, last)?;
        self.canceled_is_canceled(jid, case)?;
        *tally.statuses.entry(status.as_str()).or_insert(0) += 1;
        tally.adoptions += u64::from(last.job.reclaim_count);
        tally.late_returns += case.stored.values().filter(|ret| ret.late).count() as u64;
        Ok(())
    }

    /// A terminal status never changes, epochs never fall, and nobody writes for another epoch's owner.
    fn records_only_move_on(&self, jid: &Jid, case: &Case) -> Result<(), Violation> {
        for pair in case.versions.windows(2) {
            let [before, after] = pair else { continue };
            let (before, after) = (&before.job, &after.job);
            if before.status.is_terminal() && before.status != after.status {
                let what = format!("{jid} went from {} to {}", before.status.as_str(), after.status.as_str());
                return Err(Violation::new("J-1: a terminal status never changes", what));
            }
            let stolen = before.epoch == after.epoch && before.owner != after.owner;
            if after.epoch < before.epoch || stolen {
                let what = format!(
                    "{jid}: {} wrote epoch {} after {} had written epoch {}",
                    after.owner, after.epoch, before.owner, before.epoch
                );
                return Err(Violation::new("J-10: a superseded owner writes nothing", what));
            }
        }
        Ok(())
    }

    /// Whether a node, the server and the weather gave no excuse.
    fn no_excuse(&self, name: &str, from: Instant, until: Instant) -> bool {
        let seen = self.ground.journal.lock();
        seen.was_there(name, from, until)
            && seen.was_there("server", from, until)
            && self.weather.was_calm(from, until)
    }

    fn in_time(&self, jid: &Jid, case: &Case, last: &Version) -> Result<(), Violation> {
        // Not when the record was written: the server may have been away when the job began.
        let began = self.instant_of(last.job.created);
        let bound = self.instant_of(last.job.deadline()) + CLOCKS_APART + ENDED_WITHIN;
        let ended = case.versions.iter().find(|version| version.job.status.is_terminal());
        let Some(ended) = ended else { return Ok(()) };
        // An adopter may have come too late to the job.
        let adopted = last.job.reclaim_count > 0;
        if ended.at > bound && !adopted && self.no_excuse(life_of(&last.job), began, bound) {
            let late = ended.at.duration_since(bound).as_secs();
            let what =
                format!("{jid} ended {late} s too late although {} was there all the time", last.job.owner);
            return Err(Violation::new("J-5: a job ends by its deadline", what));
        }
        Ok(())
    }

    /// For each owner in turn: a target that was there with it for a while has got the job.
    fn everybody_got_it(&self, jid: &Jid, case: &Case, last: &Version) -> Result<(), Violation> {
        if case.canceled_at.is_some() || last.job.reclaim_count > 3 {
            return Ok(());
        }
        let deadline = self.instant_of(last.job.deadline()) - CLOCKS_APART;
        for (index, version) in case.versions.iter().enumerate() {
            let next = case.versions.get(index + 1).map_or(deadline, |next| next.at);
            let until = next.min(deadline);
            if version.job.status != JobStatus::Running || until < version.at {
                continue;
            }
            for peel in &version.job.targets {
                let had = self.disks.get(peel.as_str()).is_some_and(|disk| disk.ever_had(jid));
                let answered = case.returned.iter().any(|(ret, _)| ret.peel == *peel);
                let lost = self.weather.lost_a_command(peel.as_str(), self.ground.begin, deadline);
                if had || answered || lost {
                    continue;
                }
                if let Some(from) = self.together(peel.as_str(), life_of(&version.job), version.at, until) {
                    let what = format!(
                        "{peel} never got {jid} although it was connected with {} {} s into the life",
                        version.job.owner,
                        from.duration_since(self.ground.begin).as_secs()
                    );
                    return Err(Violation::new("J-6: a target that was connected gets the job", what));
                }
            }
        }
        Ok(())
    }

    /// The first stretch, long enough, in which both were there without an excuse.
    fn together(&self, peel: &str, master: &str, from: Instant, until: Instant) -> Option<Instant> {
        let step = Duration::from_secs(1);
        let mut start = from;
        while start + HEARD_WITHIN <= until {
            let end = start + HEARD_WITHIN;
            if self.no_excuse(peel, start, end) && self.no_excuse(master, start, end) {
                return Some(start);
            }
            start += step;
        }
        None
    }

    /// What a peel published before the deadline and the bus kept stands in the bucket of returns.
    fn no_return_is_missing(&self, jid: &Jid, case: &Case, last: &Version) -> Result<(), Violation> {
        if last.job.reclaim_count > 3 {
            return Ok(());
        }
        let deadline = self.instant_of(last.job.deadline()) - CLOCKS_APART;
        let ended = case.versions.iter().find(|version| version.job.status.is_terminal());
        let Some(ended) = ended else { return Ok(()) };
        let masters: BTreeSet<String> = (0..3).map(|number| format!("m{number}")).collect();
        for (ret, at) in &case.returned {
            let ours = last.job.targets.contains(&ret.peel) && ret.dispatch_epoch == last.job.dispatch_epoch;
            if !ours || *at > deadline {
                continue;
            }
            // After the end only a master that is there can hear of it.
            let heard = masters.iter().any(|master| self.no_excuse(master, *at, *at + HEARD_WITHIN));
            let after_the_end = *at + END_TAKES > ended.at;
            if !case.stored.contains_key(&ret.peel) && (!after_the_end || heard) {
                let what =
                    format!("{jid}: the return of {} was kept by the bus, and nobody stored it", ret.peel);
                return Err(Violation::new("J-9: no return is lost", what));
            }
            let usable = ret.counts() && ret.cause != Cause::Interrupted;
            if !after_the_end && usable && last.job.missing.contains_key(&ret.peel) {
                let what = format!("{jid}: {} returned in time, and the record calls it missing", ret.peel);
                if self.no_excuse(life_of(&last.job), *at, ended.at) {
                    return Err(Violation::new("J-9: no return is missing from the record", what));
                }
            }
        }
        Ok(())
    }

    /// No master sends work that it has canceled, or that it must have heard to be canceled.
    fn canceled_is_canceled(&self, jid: &Jid, case: &Case) -> Result<(), Violation> {
        let seen = self.ground.journal.lock();
        let sent: Vec<(&String, Instant)> = seen
            .sent_work
            .iter()
            .filter(|((of, _), _)| of == jid)
            .map(|((_, boot), at)| (boot, *at))
            .collect();
        for (boot, at) in sent {
            let canceled = seen.sent_cancel.get(&(jid.clone(), boot.clone()));
            if canceled.is_some_and(|canceled| *canceled < at) {
                let what = format!("{boot} sent work of {jid} after it had sent the cancel");
                return Err(Violation::new("J-11: a canceled job starts nothing new", what));
            }
        }
        if let Some(when) = case.canceled_at {
            for ((of, boot), at) in &seen.sent_work {
                let there = seen.was_there(boot, when, *at) && seen.was_there("server", when, *at);
                let calm = self.weather.was_calm(when, *at);
                if of == jid && *at > when + HEARD_WITHIN && there && calm {
                    let what = format!("{boot} sent work of {jid} long after its cancel was published");
                    return Err(Violation::new("J-11: a canceled job starts nothing new", what));
                }
            }
        }
        Ok(())
    }
}
