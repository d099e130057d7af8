//! A lease of this master: kept by whoever works under it, or by a task of its own where work lasts longer than a renewal.

use crate::core::Core;
use crate::limits::LEASE_LOOK;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, sleep};
use zester_lease::{Answer, Command, LeaseClient, LeaseTiming};
use zester_wire::{BadName, Key, Lease as LeaseRecord, Token, VERSION};

/// Takes, renews and loses one lease.
pub struct LeaseKeeper {
    core: Arc<Core>,
    lease: LeaseClient,
    key: Key,
    name: Token,
    start: Instant,
    /// How often this process has written it.
    serial: u64,
    held: HeldLease,
}

/// Until when the lease is ours, as its keeper last heard. Cheap to clone.
#[derive(Clone, Default)]
pub struct HeldLease(Arc<Mutex<Option<Instant>>>);

impl HeldLease {
    pub fn is_held(&self) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn set(&self, until: Option<Instant>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
}

impl LeaseKeeper {
    pub fn new(core: Arc<Core>, name: &str) -> Result<LeaseKeeper, BadName> {
        let name = Token::parse(name)?;
        let timing = LeaseTiming { ttl: core.timing.lease_ttl, renew: core.timing.lease_ttl / 3 };
        let lease = LeaseClient::new(core.id.clone(), timing);
        let (key, start) = (Key::Lease(name.clone()), Instant::now());
        Ok(LeaseKeeper { core, lease, key, name, start, serial: 0, held: HeldLease::default() })
    }

    /// Tells somebody who was there before it.
    pub fn telling(self, held: HeldLease) -> LeaseKeeper {
        LeaseKeeper { held, ..self }
    }

    pub fn is_held(&self) -> bool {
        self.held.is_held()
    }

    /// Keeps the lease of the publisher, while it is wanted. Ends only with its task.
    pub async fn run(mut self) {
        loop {
            self.core.orders.lease_wanted().await;
            self.keep().await;
            sleep(LEASE_LOOK).await;
        }
    }

    /// Takes or renews the lease, where that is due.
    pub async fn keep(&mut self) {
        while let Some(command) = self.lease.tick(self.now()) {
            let answer = self.carry_out(command).await;
            let again =
                matches!(&answer, Answer::Conflict { found: Some((holder, _)) } if *holder == self.core.id);
            self.lease.answer(answer, self.now());
            self.held.set(self.lease.until().map(|until| self.start + until));
            if !again {
                return;
            }
        }
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    async fn carry_out(&mut self, command: Command) -> Answer {
        self.serial += 1;
        let (name, holder, since) = (self.name.clone(), self.core.id.clone(), self.core.link.now());
        let record = LeaseRecord { v: VERSION, name, holder, since, serial: self.serial };
        let written = match command {
            Command::Create => self.core.link.create(&self.key, &record).await,
            Command::Renew { revision } => self.core.link.update(&self.key, &record, revision).await,
        };
        match written {
            Ok(revision) => Answer::Written { revision },
            Err(error) if error.is_conflict() => {
                match self.core.link.get_latest::<LeaseRecord>(&self.key).await {
                    Ok(found) => {
                        Answer::Conflict { found: found.map(|found| (found.value.holder, found.revision)) }
                    }
                    Err(_) => Answer::Failed,
                }
            }
            Err(error) => {
                tracing::debug!("the lease {} was not written: {error}", self.name);
                Answer::Failed
            }
        }
    }
}
