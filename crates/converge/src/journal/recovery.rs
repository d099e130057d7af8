//! What the lists say and the logs of runs that were cut off add to them.

use super::damage::Damage;
use super::lists::DamagedList;
use super::log::LogFile;
use super::pending_refresh::Pending;
use super::unconfirmed::Unconfirmed;
use crate::disk::Disk;
use crate::error::Error;
use std::path::Path;

pub struct Recovered {
    pub pending: Pending,
    pub unconfirmed: Unconfirmed,
    /// Whether the lists on disk say less.
    pending_is_new: bool,
    unconfirmed_is_new: bool,
    damaged: Vec<DamagedList>,
    /// Of logs that were open.
    damage: Vec<Damage>,
}

impl Recovered {
    /// Changes nothing. A list that cannot be read is made again from all logs, oldest first: what a refresh is pending for, and
    /// who ran since. A refresh that was given later without a record of its own is given once more.
    pub fn read(journal: &Path, logs: &[LogFile]) -> Result<Recovered, Error> {
        let (mut pending, bad_pending) = Pending::read(journal)?;
        let (mut unconfirmed, bad_unconfirmed) = Unconfirmed::read(journal)?;
        let (mut pending_is_new, mut unconfirmed_is_new) = (bad_pending.is_some(), bad_unconfirmed.is_some());
        let mut damage = Vec::new();
        for log in logs {
            if bad_pending.is_some() {
                for state in log.ended()? {
                    pending.clear(&state);
                }
            }
            if log.open || bad_pending.is_some() {
                pending_is_new |= pending.recover(log)?;
            }
            if log.open || bad_unconfirmed.is_some() {
                unconfirmed_is_new |= unconfirmed.learn(log.unconfirmed()?);
            }
            if log.open {
                damage.extend(log.damage()?);
            }
        }
        let damaged = bad_pending.into_iter().chain(bad_unconfirmed).collect();
        Ok(Recovered { pending, unconfirmed, pending_is_new, unconfirmed_is_new, damaged, damage })
    }

    /// Brings the lists on disk up to it. Says what is to be told.
    pub fn keep(&self, disk: &Disk) -> Result<Vec<String>, Error> {
        let mut notices: Vec<String> = self.damage.iter().map(Damage::to_string).collect();
        for list in &self.damaged {
            let aside = list.set_aside(disk)?;
            notices.push(format!("{}: kept as {}", rebuilt(list), aside.display()));
        }
        if self.unconfirmed_is_new {
            self.unconfirmed.save(disk)?;
        }
        if self.pending_is_new {
            self.pending.save(disk)?;
        }
        Ok(notices)
    }

    /// What is to be told by those who only look.
    pub fn notices(&self) -> Vec<String> {
        self.damaged.iter().map(rebuilt).collect()
    }
}

fn rebuilt(list: &DamagedList) -> String {
    format!(
        "{list}; it is made again from the logs of earlier runs, which may ask for a refresh once too often"
    )
}
