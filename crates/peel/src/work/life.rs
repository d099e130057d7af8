//! Which lives of this peel may have left processes behind (J-22).
//!
//! The name of a life is on disk before its first command, and leaves the file when a later life has ended what was left.

use crate::store::StoreError;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use zester_converge::data_dir::replace_file;

/// Lives that are looked after. A peel that crashes again and again before it can clean up forgets the oldest.
const LIVES_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct Lives {
    path: PathBuf,
    now: String,
    earlier: Vec<String>,
}

impl Lives {
    pub(super) fn begin(data_dir: &Path, now: String) -> Result<Lives, StoreError> {
        let path = data_dir.join("life");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            Err(error) => return Err(StoreError(format!("cannot read {}: {error}", path.display()))),
        };
        let mut earlier: Vec<String> =
            text.lines().filter(|life| !life.is_empty() && *life != now).map(str::to_string).collect();
        earlier.drain(..earlier.len().saturating_sub(LIVES_MAX - 1));
        let lives = Lives { path, now, earlier };
        lives.write(&lives.earlier)?;
        Ok(lives)
    }

    pub(super) fn earlier(&self) -> &[String] {
        &self.earlier
    }

    /// Nothing is left of the earlier ones.
    pub(super) fn settled(&self) {
        if let Err(error) = self.write(&[]) {
            tracing::warn!("{error}; the next start looks for the same leftovers again");
        }
    }

    fn write(&self, earlier: &[String]) -> Result<(), StoreError> {
        let mut text = earlier.join("\n");
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&self.now);
        text.push('\n');
        replace_file(&self.path, text.as_bytes()).map_err(|error| StoreError(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("J-22")]
    fn j22_a_life_is_remembered_until_a_later_one_has_cleaned_up() {
        let dir = tempfile::tempdir().unwrap();
        let begin = |now: &str| Lives::begin(dir.path(), now.into()).unwrap();
        assert!(begin("1-1").earlier().is_empty());
        assert_eq!(begin("2-2").earlier(), ["1-1"]);
        let third = begin("3-3");
        assert_eq!(third.earlier(), ["1-1", "2-2"]);
        third.settled();
        assert_eq!(begin("4-4").earlier(), ["3-3"]);
        for life in 5..50 {
            assert!(begin(&format!("{life}-{life}")).earlier().len() < LIVES_MAX);
        }
    }
}
