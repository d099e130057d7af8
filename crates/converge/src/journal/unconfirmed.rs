//! States whose last `check_cmd` did not pass (S-43): a small file, replaced whole.

use super::lists::{self, DamagedList};
use crate::disk::Disk;
use crate::error::Error;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

pub struct Unconfirmed {
    path: PathBuf,
    states: BTreeSet<String>,
}

impl Unconfirmed {
    /// What the list says, and why it cannot be read if that is so: nothing is known of it then.
    pub fn read(journal: &Path) -> Result<(Unconfirmed, Option<DamagedList>), Error> {
        let (states, damaged) = lists::read(journal, "unconfirmed")?;
        Ok((Unconfirmed { path: journal.join("unconfirmed"), states }, damaged))
    }

    pub fn all(&self) -> &BTreeSet<String> {
        &self.states
    }

    /// Whether that was news.
    pub fn set(&mut self, state: &str, unconfirmed: bool) -> bool {
        match unconfirmed {
            true => self.states.insert(state.to_string()),
            false => self.states.remove(state),
        }
    }

    /// Takes over what a log knows. Whether that was news.
    pub fn learn(&mut self, known: BTreeMap<String, bool>) -> bool {
        known.into_iter().fold(false, |news, (state, unconfirmed)| self.set(&state, unconfirmed) | news)
    }

    pub fn save(&self, disk: &Disk) -> Result<(), Error> {
        let text =
            serde_json::to_vec_pretty(&self.states).map_err(|error| Error::other(error.to_string()))?;
        disk.replace(&self.path, &text)
    }
}
