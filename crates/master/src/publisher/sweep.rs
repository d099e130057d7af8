//! Takes out of the buckets what was brought and never published: contents of dry runs, of refused uploads and of publishers
//! that died. Only once it is older than any upload that may still need it, by the clock of the server that stored it.

use super::{LEASE, PublisherTask};
use crate::limits::{LEFTOVERS_REST, PUBLISH_EVERY, PUBLISH_LOOK};
use std::time::Duration;
use tokio::time::Instant;
use zester_publish::Error;
use zester_wire::{Key, Lease, Published, Token, UnixMillis};

/// When the buckets are swept.
#[derive(Default)]
pub struct Sweeping {
    due: Option<Instant>,
    /// It was due while another held the lease, or nobody.
    missed: bool,
}

impl Sweeping {
    /// Something may be left behind.
    pub fn expect(&mut self) {
        self.due.get_or_insert_with(|| Instant::now() + LEFTOVERS_REST);
    }

    /// Who gets the lease does not know what the one before left.
    pub fn lease_came(&mut self) {
        if std::mem::take(&mut self.missed) {
            self.due = Some(Instant::now());
        }
        self.expect();
    }

    fn is_due(&self) -> bool {
        self.due.is_some_and(|due| Instant::now() >= due)
    }

    /// How long a task that has nothing else to look at may wait.
    pub fn pause(&self) -> Duration {
        if self.missed {
            return PUBLISH_LOOK;
        }
        let left = self.due.map(|due| due.saturating_duration_since(Instant::now()));
        left.map_or(PUBLISH_EVERY, |left| left.clamp(PUBLISH_LOOK, PUBLISH_EVERY))
    }
}

impl PublisherTask {
    pub(super) async fn sweep_if_due(&mut self, holds: bool) {
        if !self.sweeping.is_due() {
            return;
        }
        self.sweeping.due = None;
        if !holds {
            // A master without files of its own has the lease only when it asks for it.
            self.sweeping.missed = true;
            self.core.orders.want_lease();
            return;
        }
        match self.sweep().await {
            Ok(false) => {}
            Ok(true) => self.sweeping.expect(),
            Err(error) => {
                tracing::debug!("what nobody published could not be removed: {error}");
                self.sweeping.expect();
            }
        }
    }

    /// Whether there is more.
    async fn sweep(&self) -> Result<bool, Error> {
        let Some(now) = self.time_of_the_server().await? else { return Ok(true) };
        let before = UnixMillis(now.0.saturating_sub(LEFTOVERS_REST.as_millis() as u64));
        let mut more = false;
        for published in Published::ALL {
            more |= self.publisher(published).sweep(before).await?;
        }
        Ok(more)
    }

    /// As it was when our lease was last renewed: at most a little too early, whatever the clock of this machine says.
    async fn time_of_the_server(&self) -> Result<Option<UnixMillis>, Error> {
        let Ok(name) = Token::parse(LEASE) else { return Ok(None) };
        let found = self.core.link.get_latest::<Lease>(&Key::Lease(name)).await?;
        Ok(found.filter(|found| found.value.holder == self.core.id).map(|found| found.stored))
    }
}
