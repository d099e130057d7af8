//! How the publish of one tree is told.

use super::source::Ready;
use crate::events::Tell;
use crate::limits::CHANGES_NAMED;
use serde_json::{Map, json};
use zester_publish::{About, TreeDiff, TreePath};
use zester_wire::{
    BadName, Event, EventSubject, FileChanges, Problems, PublishReport, PublishStatus, Published, Subject,
    Tag, UnixMillis, VERSION,
};

/// `publish/<what>/<revision>`: the tree counts from now on. Only who made it count tells, and a bucket that was made again counts
/// from one, so the id names the moment too.
pub fn published_event(
    published: Published,
    revision: u64,
    about: &About,
    now: UnixMillis,
) -> Result<Tell, BadName> {
    let what = published.as_str();
    let tag = Tag::parse(&format!("publish/{what}/{revision}"))?;
    let mut data = Map::new();
    data.insert("published".into(), json!(what));
    data.insert("revision".into(), json!(revision));
    for (key, value) in [("user", &about.user), ("source", &about.source), ("commit", &about.commit)] {
        if !value.is_empty() {
            data.insert(key.into(), json!(value));
        }
    }
    let id = format!("publish-{what}-{revision}-{}", now.0);
    let origin = "_master".to_string();
    let event = Event { id, tag: tag.clone(), data, ts: now, v: VERSION, origin, depth: 0 };
    Ok((Subject::Event(EventSubject::Master { tag }), event))
}

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
