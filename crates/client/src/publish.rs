//! What an operator asks of the master that publishes (D-2, D-12).

use crate::ask::admin_subject;
use crate::client::Client;
use crate::error::Error;
use crate::limits::{ANSWER_WAIT, ASK_PAUSE, PUBLISH_LIMIT, PUBLISH_PATIENCE, UPLOAD_TRIES};
use tokio::time::{Instant, sleep};
use zester_bus::Kind;
use zester_publish::{Directory, PastRevision, history, upload};
use zester_wire::{
    AdminReply, AdminRequest, PublishReport, PublishRequest, Published, RefusalKind, UploadedTree,
};

/// A tree that an operator brings.
pub struct Brought {
    pub published: Published,
    pub directory: Directory,
    /// Where it is, in words.
    pub source: String,
}

impl Client {
    /// Has the master that publishes do so: what it has itself, what is brought, or what the request takes back.
    pub async fn publish(
        &self,
        request: PublishRequest,
        brought: &[Brought],
    ) -> Result<Vec<PublishReport>, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let mut trees = Vec::new();
            for Brought { published, directory, source } in brought {
                let uploaded = upload(&self.link, *published, directory).await.map_err(Error::Publish)?;
                let (published, source) = (*published, source.clone());
                trees.push(UploadedTree { published, pages: uploaded.pages, source });
            }
            let request = PublishRequest { trees, id: Some(self.link.new_token()?), ..request.clone() };
            match self.ask_to_publish(request).await {
                // Somebody removed what was brought before it was listed.
                Err(Error::Refused(refusal))
                    if refusal.kind == RefusalKind::Conflict
                        && !brought.is_empty()
                        && tries < UPLOAD_TRIES => {}
                done => return done,
            }
        }
    }

    /// Asks until it is done. It may take long, and whoever works on it says so.
    async fn ask_to_publish(&self, request: PublishRequest) -> Result<Vec<PublishReport>, Error> {
        let request = AdminRequest::Publish(request);
        let subject = admin_subject(&request)?;
        let (limit, mut end) = (Instant::now() + PUBLISH_LIMIT, Instant::now() + PUBLISH_PATIENCE);
        loop {
            let last = match self.link.request::<_, AdminReply>(&subject, &request, ANSWER_WAIT).await {
                Ok(AdminReply { error: None, published, .. }) => return Ok(published),
                Ok(AdminReply { error: Some(refusal), .. }) => match refusal.kind {
                    RefusalKind::UnderWay => {
                        end = (Instant::now() + PUBLISH_PATIENCE).min(limit);
                        refusal.message
                    }
                    kind if kind.is_retryable() => refusal.message,
                    _ => return Err(Error::Refused(refusal)),
                },
                Err(error) if error.bus_kind() == Some(Kind::NoResponders) => self.why_no_master().await?,
                Err(error) if error.retryable() => error.to_string(),
                Err(error) => return Err(error.into()),
            };
            if Instant::now() + ASK_PAUSE >= end {
                return Err(Error::NoMaster { waited: PUBLISH_PATIENCE, last });
            }
            sleep(ASK_PAUSE).await;
        }
    }

    /// The revisions that are kept, newest first, with what each changed. Needs no master.
    pub async fn published(&self, published: Published) -> Result<Vec<PastRevision>, Error> {
        let history = history(&self.link, published).await.map_err(Error::Publish)?;
        Ok(history.with_changes(&self.link, published).await)
    }
}
