//! Job records, whose targets may stand on pages of their own (J-23).

use crate::error::Error;
use crate::link::Link;
use crate::records::Found;
use futures_util::stream::{self, StreamExt};
use zester_bus::Kind;
use zester_wire::limits::TARGETS_PAGE;
use zester_wire::{BadName, Jid, Job, Key, TargetDigest, TargetList, TargetPage, VERSION};

/// Pages that are read at once.
const PAGES_IN_FLIGHT: usize = 16;

impl Link {
    /// A job with all its targets.
    pub async fn job(&self, jid: &Jid) -> Result<Option<Found<Job>>, Error> {
        match self.get::<Job>(&Key::Job(jid.clone())).await? {
            Some(found) => Ok(Some(self.with_targets(found).await?)),
            None => Ok(None),
        }
    }

    /// The same, as the leader of the bucket has it.
    pub async fn job_latest(&self, jid: &Jid) -> Result<Option<Found<Job>>, Error> {
        match self.get_latest::<Job>(&Key::Job(jid.clone())).await? {
            Some(found) => Ok(Some(self.with_targets(found).await?)),
            None => Ok(None),
        }
    }

    /// Reads the targets that the record leaves to pages. A list that the leader does not have whole any more is left out:
    /// [`Job::has_targets`] tells.
    pub async fn with_targets(&self, found: Found<Job>) -> Result<Found<Job>, Error> {
        let Some(list) = found.value.target_list.clone() else { return Ok(found) };
        let reads = list.keys(&found.value.jid).map_err(bad)?.into_iter();
        let mut reads = stream::iter(reads.map(|key| async move { self.target_page(&key).await }))
            .buffered(PAGES_IN_FLIGHT);
        let mut targets = Vec::new();
        while let Some(page) = reads.next().await {
            match page? {
                Some(page) => targets.extend(page.value.peels),
                None => return Ok(found),
            }
        }
        if TargetDigest::of_names(&targets) != list.digest {
            return Ok(found);
        }
        Ok(Found { value: Job { targets, ..found.value }, ..found })
    }

    /// A page that the server which was asked does not have may be on its way there: its leader knows. What a page says never
    /// changes, because its key names the list.
    async fn target_page(&self, key: &Key) -> Result<Option<Found<TargetPage>>, Error> {
        match self.get::<TargetPage>(key).await? {
            None => self.get_latest(key).await,
            found => Ok(found),
        }
    }

    /// Writes the pages, before the record that speaks of them.
    pub async fn store_targets(&self, job: &Job, list: &TargetList) -> Result<(), Error> {
        let keys = list.keys(&job.jid).map_err(bad)?;
        for (key, peels) in keys.iter().zip(job.targets.chunks(TARGETS_PAGE)) {
            match self.create(key, &TargetPage { v: VERSION, peels: peels.to_vec() }).await {
                // The same list again.
                Err(error) if error.is_conflict() => {}
                other => {
                    other?;
                }
            }
        }
        Ok(())
    }
}

fn bad(bad: BadName) -> Error {
    zester_bus::Error::new(Kind::Invalid, bad.to_string()).into()
}
