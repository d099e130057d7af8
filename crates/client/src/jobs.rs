//! Jobs as the buckets have them, and what is asked about one.

use crate::ask::admin_subject;
use crate::client::Client;
use crate::error::Error;
use crate::limits::{CANDIDATES_NAMED, READS_IN_FLIGHT, WRITES_A_JOB};
use futures_util::StreamExt;
use std::cmp::Reverse;
use std::time::Duration;
use zester_bus::{Kind, Sequence, Store};
use zester_link::Found;
use zester_wire::{
    AdminReply, AdminRequest, Bucket, Jid, Job, JobStatus, Key, RefusalKind, RetryPart, UnixMillis,
};

/// Keys of one token: `<jid>`, not `active.<jid>`.
const ALL_RECORDS: &str = "*";
fn bucket_of_jobs() -> Result<Store, Error> {
    let of_jobs = |store: &Store| store.name == Bucket::Jobs.as_str();
    let found = zester_bus::storage::table().into_iter().find(of_jobs);
    Ok(found.ok_or_else(|| zester_bus::Error::new(Kind::Missing, "no bucket of jobs"))?)
}

/// When what was not found was written.
const NEVER: UnixMillis = UnixMillis(u64::MAX);

fn newest_first(jobs: &mut [Job]) {
    jobs.sort_by(|a, b| (Reverse(a.created), &b.jid).cmp(&(Reverse(b.created), &a.jid)));
}

/// What a kill did.
#[derive(Clone, Debug, PartialEq)]
pub enum Killed {
    /// A master told everybody to stop.
    Stopping { message: String },
    /// The job was over; nothing was changed (J-11).
    WasOver { job: Box<Job> },
}

/// The new job of a retry.
#[derive(Clone, Debug, PartialEq)]
pub struct Retried {
    pub jid: Jid,
    pub message: String,
}

impl Client {
    /// The job with all its targets; none if there is none.
    pub async fn job_of(&self, jid: &Jid) -> Result<Option<Job>, Error> {
        match self.record_of(jid).await? {
            Some(found) => Ok(Some(self.link.with_targets(found).await?.value)),
            None => Ok(None),
        }
    }

    /// Its record alone: that of many targets does not name them. A server that does not have it may lag, so that there is no
    /// such job is for the leader to say.
    pub(crate) async fn record_of(&self, jid: &Jid) -> Result<Option<Found<Job>>, Error> {
        let key = Key::Job(jid.clone());
        match self.link.get(&key).await? {
            None => Ok(self.link.get_latest(&key).await?),
            found => Ok(found),
        }
    }

    /// Where a job stands; none if there is none.
    pub async fn status_of_job(&self, jid: &Jid) -> Result<Option<JobStatus>, Error> {
        Ok(self.record_of(jid).await?.map(|found| found.value.status))
    }

    /// The job of an id, or of the beginning of one that only one job has.
    pub async fn job(&self, prefix: &str) -> Result<Job, Error> {
        let missing = || Error::NoSuchJob(prefix.to_string());
        let jid = match Jid::parse(prefix) {
            Ok(jid) => jid,
            Err(_) => self.jid_of_prefix(prefix).await?,
        };
        match self.job_of(&jid).await {
            Ok(job) => job.ok_or_else(missing),
            Err(error) => Err(self.why_unread(error).await),
        }
    }

    /// A read that nobody answers does not say why; a look at the store does.
    async fn why_unread(&self, error: Error) -> Error {
        let jobs = zester_bus::storage::table().into_iter().find(|store| store.name == Bucket::Jobs.as_str());
        match (&error, jobs) {
            (Error::Bus(read), Some(jobs)) if read.retryable() => match self.link.bus().end(&jobs).await {
                Err(why) if matches!(why.kind(), Kind::Off | Kind::Missing) => why.into(),
                _ => error,
            },
            _ => error,
        }
    }

    async fn jid_of_prefix(&self, prefix: &str) -> Result<Jid, Error> {
        let keys = self.link.bus().keys(Bucket::Jobs.as_str(), "*").await?;
        let fits = keys.iter().filter(|key| !prefix.is_empty() && key.starts_with(prefix));
        let mut found: Vec<Jid> = fits.filter_map(|key| Jid::parse(key).ok()).collect();
        match found.len() {
            0 => Err(Error::NoSuchJob(prefix.to_string())),
            1 => Ok(found.remove(0)),
            count => {
                // The newest, which are meant more often.
                found.drain(..count.saturating_sub(CANDIDATES_NAMED));
                Err(Error::Ambiguous { prefix: prefix.to_string(), some: found, count })
            }
        }
    }

    /// The last jobs, newest first. Those of many targets do not name them here.
    ///
    /// Ids do not tell: those of reactions say nothing of their time, and others only the second. So the bucket is read from
    /// its end, further and further back, until whatever is left was written before the oldest of those wanted was made.
    pub async fn jobs(&self, limit: usize) -> Result<Vec<Job>, Error> {
        let last = self.link.bus().end(&bucket_of_jobs()?).await?;
        let mut back = u64::try_from(limit).unwrap_or(u64::MAX).saturating_mul(WRITES_A_JOB);
        loop {
            let from = last.saturating_sub(back);
            let (mut jobs, oldest_write) = self.jobs_written_from(from).await?;
            let oldest_wanted = limit.checked_sub(1).and_then(|at| jobs.get(at)).map(|job| job.created);
            if from == 0 || oldest_wanted.is_some_and(|made| made >= oldest_write) || limit == 0 {
                jobs.truncate(limit);
                if jobs.is_empty() && limit > 0 {
                    self.must_be_empty().await?;
                }
                return Ok(jobs);
            }
            back = back.saturating_mul(4);
        }
    }

    /// The jobs whose record was last written there or later, newest first, and when the first of these was written.
    async fn jobs_written_from(&self, from: Sequence) -> Result<(Vec<Job>, UnixMillis), Error> {
        let (mut jobs, mut oldest, mut next) = (Vec::new(), NEVER, Some(from));
        while let Some(start) = next {
            let page = self.link.bus().scan(Bucket::Jobs.as_str(), ALL_RECORDS, start).await?;
            for entry in &page.items {
                oldest = oldest.min(UnixMillis(entry.at));
                match self.link.record::<Job>(Bucket::Jobs, entry) {
                    Ok(found) => jobs.push(found.value),
                    // One that nobody can read or believe must not hide the others.
                    Err(error) => tracing::warn!("a job is left out: {error}"),
                }
            }
            next = page.next;
        }
        newest_first(&mut jobs);
        Ok((jobs, oldest))
    }

    /// A server that lost the disk under a bucket goes on to count what was there, and says of each record that there is none.
    /// That is no empty bucket. Who reads message by message is not told what is counted, and cannot tell.
    async fn must_be_empty(&self) -> Result<(), Error> {
        let (bus, bucket) = (self.link.bus(), Bucket::Jobs.as_str());
        if bus.info().single_reads {
            return Ok(());
        }
        let listed = bus.keys(bucket, ALL_RECORDS).await?;
        let counted = bus.usage(&bucket_of_jobs()?).await?.messages;
        let keys = bus.keys(bucket, ">").await?;
        let unlisted = keys.is_empty() && counted > 0;
        // Those that came or expired meanwhile are listed in one of the two, or can be read.
        let unread =
            listed.iter().any(|key| keys.contains(key)) && self.jobs_written_from(0).await?.1 == NEVER;
        if !unlisted && !unread {
            return Ok(());
        }
        let what = format!(
            "the nats-server counts {counted} records in the bucket `{bucket}` and cannot read them; is its disk there?"
        );
        Err(zester_bus::Error::new(Kind::Other, what).into())
    }

    /// The jobs that are not over, newest first. Costs what there are active jobs, not what there were.
    pub async fn active(&self) -> Result<Vec<Job>, Error> {
        let keys = self.link.bus().keys(Bucket::Jobs.as_str(), Key::ALL_ACTIVE).await?;
        let jids = keys.iter().filter_map(|key| match Key::parse(Bucket::Jobs, key) {
            Ok(Key::Active(jid)) => Some(jid),
            _ => None,
        });
        let mut jobs = self.read_jobs(jids.collect()).await?;
        jobs.retain(|job| !job.status.is_terminal());
        Ok(jobs)
    }

    async fn read_jobs(&self, jids: Vec<Jid>) -> Result<Vec<Job>, Error> {
        let reads = futures_util::stream::iter(jids).map(|jid| async move {
            let found = self.link.get::<Job>(&Key::Job(jid)).await;
            found.map(|found| found.map(|found| found.value))
        });
        let mut reads = reads.buffered(READS_IN_FLIGHT);
        let mut jobs = Vec::new();
        while let Some(read) = reads.next().await {
            match read {
                // One that expired between the listing and now is no loss.
                Ok(job) => jobs.extend(job),
                // One that nobody can read or believe must not hide the others.
                Err(error) if error.is_of_record() => tracing::warn!("a job is left out: {error}"),
                Err(error) => return Err(error.into()),
            }
        }
        newest_first(&mut jobs);
        Ok(jobs)
    }

    /// Stops a job, wherever it runs (J-11).
    pub async fn kill(&self, jid: &Jid, user: &str) -> Result<Killed, Error> {
        let request = AdminRequest::Kill { jid: jid.clone(), user: user.to_string(), reason: String::new() };
        match self.ask_admin(&request).await {
            Ok(AdminReply { message, .. }) => Ok(Killed::Stopping { message }),
            Err(Error::Refused(refusal)) if refusal.kind == RefusalKind::AlreadyOver => {
                match self.job_of(jid).await? {
                    Some(job) => Ok(Killed::WasOver { job: Box::new(job) }),
                    None => Err(Error::NoSuchJob(jid.to_string())),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// The same work again, to a part of its targets, as a new job (J-18).
    /// May take so long; none: as long as the old.
    pub async fn retry(
        &self,
        jid: &Jid,
        part: RetryPart,
        timeout: Option<Duration>,
        user: &str,
    ) -> Result<Retried, Error> {
        let new_jid = self.link.new_jid();
        let request = |wait| AdminRequest::Retry {
            jid: jid.clone(),
            new_jid: new_jid.clone(),
            part,
            user: user.to_string(),
            wait: Some(wait),
            timeout,
        };
        let subject = admin_subject(&request(self.patience))?;
        let reply: Option<AdminReply> = self.ask_for_job(&subject, &new_jid, request).await?;
        let message = reply.map_or_else(|| "asked again".into(), |reply| reply.message);
        Ok(Retried { jid: new_jid, message })
    }
}
