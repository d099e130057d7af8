//! How the publish of one tree is told.

use super::source::{Ready, Source};
use crate::events::Tell;
use crate::limits::CHANGES_NAMED;
use serde_json::{Map, json};
use zester_publish::{About, Error, Outcome, TreeDiff, TreePath};
use zester_wire::{
    BadName, Event, EventSubject, FileChanges, Manifest, Problems, PublishReport, PublishStatus, Published,
    Refusal, RefusalKind, Subject, Tag, UnixMillis, VERSION,
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

pub fn told(ready: &Ready, outcome: &Outcome) -> PublishReport {
    match *outcome {
        Outcome::Published { revision, moved, bytes } => {
            let (what, files) = (ready.published.as_str(), ready.tree().files.len());
            tracing::info!(revision, files, moved, bytes, "published {what}");
            PublishReport { moved: moved as u64, bytes, ..report(ready, PublishStatus::Published, revision) }
        }
        Outcome::Unchanged { revision } => report(ready, PublishStatus::Unchanged, revision),
        Outcome::Nothing => report(ready, PublishStatus::Nothing, 0),
    }
}

/// Why the files of this master are not what the peels have.
pub fn by_hand_words(what: &str, manifest: &Manifest) -> String {
    let by = if manifest.user.is_empty() { "an operator" } else { manifest.user.as_str() };
    let did = if manifest.uploaded { "uploaded" } else { "went back to" };
    format!(
        "{what} differ from revision {}, which {by} {did}; it stays until they change or `zester publish` asks for them",
        manifest.revision
    )
}

/// The report of one tree of several. An error hides nothing that is published already; where nothing is, and another try may help,
/// whoever asked asks again.
pub fn told_with(
    earlier: &[PublishReport],
    ready: &Ready,
    published: Result<PublishReport, Error>,
) -> Result<PublishReport, Refusal> {
    published.or_else(|error| {
        let done = earlier.iter().any(|report| report.status == PublishStatus::Published);
        let reason = error.to_string();
        let refusal = refusal(error);
        if !done && (refusal.kind.is_retryable() || refusal.kind == RefusalKind::Conflict) {
            return Err(refusal);
        }
        Ok(PublishReport { reason, ..report(ready, PublishStatus::Refused, 0) })
    })
}

pub fn changes_now(source: &Source) -> Refusal {
    let why = format!("files of {} change just now; ask again", source.origin.words());
    Refusal::new(RefusalKind::Unavailable, why)
}

pub fn refusal(error: Error) -> Refusal {
    let kind = match &error {
        // Whoever brought it brings it again.
        Error::Torn(_) | Error::Older { .. } => RefusalKind::Conflict,
        Error::Bus(_) | Error::Superseded | Error::Changed(_) => RefusalKind::Unavailable,
        Error::Disk(_) | Error::Empty | Error::NoSuchRevision(_) => RefusalKind::Invalid,
    };
    let hint = match &error {
        Error::NoSuchRevision(_) => "`zester publish --history` shows those that are".to_string(),
        _ => String::new(),
    };
    Refusal { hint, ..Refusal::new(kind, error.to_string()) }
}
