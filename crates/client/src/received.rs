//! What peels have sent of a job, read peel by peel and without a consumer (J-30): thousands may look at once.
//!
//! A read is answered by any server that has the stream, which may lag. Whoever knows that there is more asks again.

use crate::client::Client;
use crate::error::Error;
use crate::limits::{LAG_PAUSE, LAG_READS, READS_IN_FLIGHT};
use futures_util::StreamExt;
use std::collections::BTreeMap;
use std::sync::Arc;
use zester_bus::storage::JOB_EVENTS;
use zester_wire::envelope::Addressed;
use zester_wire::{Ack, Jid, Job, Key, Missing, PeelId, Return, Subject};

/// The returns of a job by peel.
pub type Returns = BTreeMap<PeelId, Arc<Return>>;

/// How far a peel is with a job, by what it sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Received {
    Nothing,
    Ack(Ack),
    Return(Box<Return>),
}

impl Client {
    /// Every stored return of a job.
    pub async fn returns(&self, job: &Job) -> Result<Returns, Error> {
        let mut returns = Returns::new();
        if !job.has_targets() {
            // Nobody knows any more whom to ask for: whatever is stored is shown.
            let stored = self.link.returns_of(&job.jid).await?;
            let shown = |ret: Return| Arc::new(Return { own: Vec::new(), ..ret });
            returns.extend(stored.into_iter().map(|ret| (ret.peel.clone(), shown(ret))));
            return Ok(returns);
        }
        self.read_returns(job, &job.targets, &mut returns).await?;
        Ok(returns)
    }

    /// Adds the stored returns of these peels. The record says how many there are, so a server that lags is asked again.
    pub(crate) async fn read_returns(
        &self,
        job: &Job,
        peels: &[PeelId],
        returns: &mut Returns,
    ) -> Result<(), Error> {
        for reads in 1..=LAG_READS {
            let unread = peels.iter().filter(|peel| !returns.contains_key(*peel)).cloned();
            let unread: Vec<PeelId> = unread.collect();
            let found = self.each(unread, |peel| self.stored_return(&job.jid, peel)).await?;
            returns.extend(found.into_iter().filter_map(|(peel, ret)| Some((peel, Arc::new(ret?)))));
            let counted = returns.values().filter(|ret| !ret.late).count() as u64;
            if !job.status.is_terminal() || counted >= job.return_count || reads == LAG_READS {
                break;
            }
            tokio::time::sleep(LAG_PAUSE).await;
        }
        Ok(())
    }

    async fn stored_return(&self, jid: &Jid, peel: PeelId) -> Result<Option<Return>, Error> {
        let found = self.link.get::<Return>(&Key::Return(jid.clone(), peel.clone())).await?;
        // The key decides whose it is.
        let found = found.map(|found| Return { own: Vec::new(), ..found.value });
        Ok(found.filter(|ret| ret.jid == *jid && ret.peel == peel))
    }

    /// What these peels have sent so far, whether or not a master has stored it yet.
    pub(crate) async fn received(
        &self,
        jid: &Jid,
        peels: Vec<PeelId>,
    ) -> Result<Vec<(PeelId, Received)>, Error> {
        self.each(peels, |peel| self.received_of(jid, peel)).await
    }

    async fn received_of(&self, jid: &Jid, peel: PeelId) -> Result<Received, Error> {
        let returned = Subject::JobReturn { jid: jid.clone(), peel: peel.clone() };
        if let Some(ret) = self.newest::<Return>(&returned).await? {
            return Ok(Received::Return(Box::new(ret)));
        }
        let acked = Subject::JobAck { jid: jid.clone(), peel };
        Ok(self.newest::<Ack>(&acked).await?.map_or(Received::Nothing, Received::Ack))
    }

    async fn newest<T: Addressed>(&self, subject: &Subject) -> Result<Option<T>, Error> {
        let record = self.link.bus().last(JOB_EVENTS, &subject.to_string()).await?;
        let opened = record.and_then(|record| self.link.open_addressed::<T>(subject, &record));
        Ok(opened.map(|opened| opened.message))
    }

    /// Why each target has no usable return. Of a job that is over the record says so, unless they are too many for it; else it
    /// is found out.
    pub async fn missing(&self, job: &Job, returns: &Returns) -> Result<BTreeMap<PeelId, Missing>, Error> {
        let mut missing: BTreeMap<PeelId, Missing> =
            job.unknown_peels.iter().map(|name| (name.clone(), Missing::UnknownPeel)).collect();
        if !job.status.is_terminal() {
            missing.extend(self.silent(job, returns).await?);
            return Ok(missing);
        }
        // A success that came late corrects the record; another that came late leaves its peel missing.
        let late = |peel: &PeelId| returns.get(peel).is_some_and(|ret| ret.late && ret.settles());
        let recorded = job.missing.iter().filter(|(peel, _)| !late(peel));
        missing.extend(recorded.map(|(peel, why)| (peel.clone(), *why)));
        if job.return_count + (job.missing.len() as u64) < job.target_count() {
            let cut_off = returns.values().filter(|ret| !ret.counts());
            missing.extend(cut_off.map(|ret| (ret.peel.clone(), Missing::Running)));
            missing.extend(self.silent(job, returns).await?);
        }
        Ok(missing)
    }

    /// Why each target that has not returned has not, by what it sent and whether it is there.
    async fn silent(&self, job: &Job, returns: &Returns) -> Result<BTreeMap<PeelId, Missing>, Error> {
        let silent: Vec<PeelId> =
            job.targets.iter().filter(|peel| !returns.contains_key(*peel)).cloned().collect();
        let found = self.received(&job.jid, silent).await?;
        let unreturned = found.iter().filter(|(_, received)| !matches!(received, Received::Return(_)));
        let offline = self.offline(&unreturned.map(|(peel, _)| peel.clone()).collect::<Vec<_>>()).await?;
        let why = |peel: &PeelId, received: &Received| match received {
            Received::Return(_) => None,
            _ if offline.contains(peel) => Some(Missing::Unreachable),
            Received::Ack(_) => Some(Missing::Running),
            Received::Nothing => Some(Missing::NeverAcked),
        };
        let missing = found.iter().filter_map(|(peel, it)| Some((peel.clone(), why(peel, it)?)));
        Ok(missing.collect())
    }

    /// Reads something of each peel, so many at once.
    pub(crate) async fn each<T, Read>(
        &self,
        peels: Vec<PeelId>,
        read: impl Fn(PeelId) -> Read,
    ) -> Result<Vec<(PeelId, T)>, Error>
    where
        Read: Future<Output = Result<T, Error>>,
    {
        let reads = peels.into_iter().map(|peel| {
            let reading = read(peel.clone());
            async move { Ok::<_, Error>((peel, reading.await?)) }
        });
        let mut reads = futures_util::stream::iter(reads).buffer_unordered(READS_IN_FLIGHT);
        let mut found = Vec::new();
        while let Some(read) = reads.next().await {
            found.push(read?);
        }
        Ok(found)
    }
}
