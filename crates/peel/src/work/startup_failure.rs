//! That `startup_states` failed, for whoever asks the machine (`zester status`): nobody waited for the answer.

use serde::{Deserialize, Serialize};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use zester_converge::Error;
use zester_converge::data_dir::replace_file;
use zester_wire::{Jid, UnixMillis};

/// Below the data directory of the peel; there only while the last start failed.
const FILE: &str = "startup.failed";
/// Letters of the reason that are kept.
const REASON_LETTERS_MAX: usize = 1_024;

/// When and why they failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartupFailure {
    pub function: String,
    #[serde(default)]
    pub jid: Option<Jid>,
    pub ended: UnixMillis,
    pub error: String,
}

impl StartupFailure {
    /// What the last start left, if it failed.
    pub fn read(data_dir: &Path) -> Result<Option<StartupFailure>, Error> {
        let path = path(data_dir);
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("read how the startup states ended", &path, error)),
        };
        let damaged = |error| Error::other(format!("{} is damaged: {error}; remove it", path.display()));
        serde_json::from_slice(&text).map(Some).map_err(damaged)
    }

    pub(super) fn write(mut self, data_dir: &Path) -> Result<(), Error> {
        if let Some((end, _)) = self.error.char_indices().nth(REASON_LETTERS_MAX) {
            self.error.truncate(end);
            self.error.push('…');
        }
        let text = serde_json::to_vec(&self).map_err(|error| Error::other(error.to_string()))?;
        replace_file(&path(data_dir), &text)
    }

    /// The next start has not failed yet.
    pub(super) fn forget(data_dir: &Path) {
        let path = path(data_dir);
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                tracing::warn!("cannot remove {}: {error}", path.display());
            }
            _ => {}
        }
    }
}

fn path(data_dir: &Path) -> PathBuf {
    data_dir.join(FILE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("S-37")]
    fn s37_a_failed_start_is_written_down_until_the_next() {
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(StartupFailure::read(temp.path()).unwrap(), None);
        let failure = StartupFailure {
            function: "state.sls".into(),
            jid: None,
            ended: UnixMillis(1_700_000_000_000),
            error: "ä".repeat(2_000),
        };
        failure.clone().write(temp.path()).unwrap();
        let read = StartupFailure::read(temp.path()).unwrap().unwrap();
        assert_eq!((read.function, read.ended), (failure.function, failure.ended));
        assert_eq!(read.error, format!("{}…", "ä".repeat(1_024)));
        StartupFailure::forget(temp.path());
        assert_eq!(StartupFailure::read(temp.path()).unwrap(), None);
        std::fs::write(temp.path().join(FILE), "{").unwrap();
        assert!(StartupFailure::read(temp.path()).unwrap_err().to_string().contains("is damaged"));
    }
}
