//! The last good settings of a peel, on its disk (D-6).
//!
//! One line with the checksum of what follows, then JSON, mode 0600, put in place whole. It holds what the files hold: a value
//! that is sealed there is sealed here.

use super::origin::Origin;
use crate::data_dir::replace_file;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::io::ErrorKind;
use std::path::Path;

/// Its name below the data directory.
pub const SNAPSHOT: &str = "settings.snapshot";

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    /// Whose settings they are.
    pub id: String,
    /// They were made of published files, not of the peel's own.
    pub published: bool,
    pub settings: Json,
    pub origins: Vec<Origin>,
}

impl Snapshot {
    /// What an earlier run left. A file that is there and cannot be read is an error: nobody may run as if it were not.
    pub(super) fn read(path: &Path, id: &str) -> Result<Option<Snapshot>, Error> {
        let content = match std::fs::read(path) {
            Ok(content) => content,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read the last good settings", path, error)),
        };
        let damaged = || {
            Error::other(format!(
                "there are no settings files, and the last good settings in {} are damaged; nothing runs until settings are \
                 published again, or that file is removed",
                path.display()
            ))
        };
        let (sum, json) = split(&content).ok_or_else(damaged)?;
        if crc32fast::hash(json) != sum {
            return Err(damaged());
        }
        let snapshot: Snapshot = serde_json::from_slice(json).map_err(|_| damaged())?;
        Ok(Some(snapshot).filter(|snapshot| snapshot.id == id))
    }

    /// Writes it down, unless it stands there already.
    pub(super) fn write(&self, path: &Path) -> Result<(), Error> {
        let json = serde_json::to_vec(self).map_err(|error| Error::other(error.to_string()))?;
        let mut content = format!("{:08x}\n", crc32fast::hash(&json)).into_bytes();
        content.extend(json);
        if std::fs::read(path).is_ok_and(|held| held == content) {
            return Ok(());
        }
        replace_file(path, &content)
    }
}

fn split(content: &[u8]) -> Option<(u32, &[u8])> {
    let (sum, json) = (content.get(..8)?, content.get(9..)?);
    Some((u32::from_str_radix(std::str::from_utf8(sum).ok()?, 16).ok()?, json))
}
