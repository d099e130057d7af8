//! How the publish of one tree is told.

use super::source::Ready;
use crate::limits::CHANGES_NAMED;
use zester_publish::{TreeDiff, TreePath};
use zester_wire::{FileChanges, Problems, PublishReport, PublishStatus, Published};

pub fn report(ready: &Ready, status: PublishStatus, revision: u64) -> PublishReport {
    PublishReport {
        files: ready.tree().files.len() as u64,
        source: ready.source.clone(),
        commit: ready.origin.checkout.commit.clone(),
        ..bare(ready.published, status, revision)
    }
}

pub fn bare(published: Published, status: PublishStatus, revision: u64) -> PublishReport {
    PublishReport {
        published,
        status,
        revision,
        files: 0,
        moved: 0,
        bytes: 0,
        source: String::new(),
        commit: String::new(),
        reason: String::new(),
        changes: FileChanges::default(),
        problems: None,
    }
}

pub fn changes(diff: &TreeDiff) -> FileChanges {
    let names = |paths: &[TreePath]| paths.iter().take(CHANGES_NAMED).map(TreePath::to_string).collect();
    FileChanges {
        added_count: diff.added.len() as u64,
        changed_count: diff.changed.len() as u64,
        removed_count: diff.removed.len() as u64,
        added: names(&diff.added),
        changed: names(&diff.changed),
        removed: names(&diff.removed),
    }
}

/// In one line, for a log and for `/readyz`: the first with its place.
pub fn first_words(problems: &Problems) -> String {
    let first: Vec<&str> = problems.text.lines().take(2).map(str::trim).collect();
    format!("the first is {}", first.join(" "))
}

pub fn errors_words(problems: &Problems) -> String {
    format!("{} {}", problems.errors, if problems.errors == 1 { "error" } else { "errors" })
}
