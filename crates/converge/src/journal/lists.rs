//! The small lists beside the logs. One that cannot be read stops nothing: it is set aside under another name and made again
//! from what the logs still say.

use crate::disk::Disk;
use crate::error::Error;
use serde::de::DeserializeOwned;
use std::fmt;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A list that cannot be read.
#[derive(Clone, Debug)]
pub struct DamagedList {
    path: PathBuf,
    bytes: Vec<u8>,
    why: String,
}

impl fmt::Display for DamagedList {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} is damaged ({})", self.path.display(), self.why)
    }
}

impl DamagedList {
    /// Keeps what it holds under a name that is free; returns that name. The list itself is still there: it is replaced whole,
    /// so that a crash in between leaves one or the other.
    pub fn set_aside(&self, disk: &Disk) -> Result<PathBuf, Error> {
        let name = self.path.file_name().unwrap_or_default().to_string_lossy();
        let mut numbered =
            (1_u32..).map(|number| self.path.with_file_name(format!("{name}.damaged-{number}")));
        let aside =
            numbered.find(|path| !path.exists()).unwrap_or_else(|| self.path.with_extension("damaged"));
        disk.replace(&aside, &self.bytes)?;
        Ok(aside)
    }
}

/// A list of the journal, empty where there is none.
pub fn read<T: DeserializeOwned + Default>(
    journal: &Path,
    name: &str,
) -> Result<(T, Option<DamagedList>), Error> {
    let path = journal.join(name);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok((T::default(), None)),
        Err(error) => return Err(Error::io("read", &path, error)),
    };
    Ok(match serde_json::from_slice(&bytes) {
        Ok(list) => (list, None),
        Err(error) => (T::default(), Some(DamagedList { path, bytes, why: error.to_string() })),
    })
}
