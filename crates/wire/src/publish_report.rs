//! What became of a tree that was to be published, in the reply of `zester.admin.publish`.

use crate::name::PeelId;
use crate::published::Published;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// How it ended.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PublishStatus {
    /// A new revision counts, or would with a dry run.
    Published,
    /// This very tree counted already.
    Unchanged,
    /// There is nothing to publish, and nothing is published.
    Nothing,
    /// It was not published; the revision before counts.
    Refused,
    #[serde(other)]
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishReport {
    pub published: Published,
    pub status: PublishStatus,
    /// The revision that counts now; 0 where none does.
    #[serde(default)]
    pub revision: u64,
    /// Files of the tree.
    #[serde(default)]
    pub files: u64,
    /// Contents that were moved, the list of files included, and their bytes.
    #[serde(default)]
    pub moved: u64,
    #[serde(default)]
    pub bytes: u64,
    /// Where the tree came from.
    #[serde(default)]
    pub source: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// Why it was refused, or what was published all the same because somebody forced it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default)]
    pub changes: FileChanges,
    /// What does not compile (D-12).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problems: Option<Problems>,
}

/// How the tree differs from the one that counted, by path. Long lists are cut; the numbers are not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FileChanges {
    #[serde(default)]
    pub added_count: u64,
    #[serde(default)]
    pub changed_count: u64,
    #[serde(default)]
    pub removed_count: u64,
    #[serde(default)]
    pub added: Vec<String>,
    #[serde(default)]
    pub changed: Vec<String>,
    #[serde(default)]
    pub removed: Vec<String>,
}

/// What a lint of the tree found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Problems {
    /// Problems that keep a tree from being published.
    #[serde(default)]
    pub errors: u64,
    /// As `zester lint` prints them.
    #[serde(default)]
    pub text: String,
    /// The same for machines.
    #[serde(default)]
    pub diagnostics: Vec<Value>,
    /// Peels whose states would not compile; long lists are cut.
    #[serde(default)]
    pub peels: Vec<PeelId>,
    #[serde(default)]
    pub peels_count: u64,
    /// For how many peels it was compiled, of how many that are known.
    #[serde(default)]
    pub checked: u64,
    #[serde(default)]
    pub known: u64,
    /// What somebody should know and keeps no tree from being published; long lists are cut.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}
