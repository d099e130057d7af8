//! `file`: files that are made, changed or removed.
//!
//! The kernel says when to look (inotify); what has changed is seen by comparing, so that nothing is missed where it cannot
//! say so: on a network mount, or with too many watches.

use crate::level::When;
use crate::limits::{CHANGES_MAX, FILES_MAX};
use crate::params::Names;
use crate::{Data, Eyes, Kind, Moment, Seen, blocking, plain, shown};
use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The files to watch; of a directory, everything in it.
    files: Names,
    /// Everything below a directory.
    #[serde(default)]
    recurse: bool,
}

/// How a file looked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    content: (u64, u64, i64, i64),
    attributes: (u32, u32, u32),
}

/// All files that were seen.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Stamps {
    files: usize,
    #[serde(skip)]
    stamps: BTreeMap<PathBuf, Stamp>,
    /// Below these nobody could look: what was there counts as still there.
    #[serde(skip)]
    unseen: BTreeSet<PathBuf>,
}

pub(crate) struct Files {
    files: Vec<PathBuf>,
    recurse: bool,
    changes: Changes,
    wake: Arc<Notify>,
    /// None before the first look, and where the kernel does not take it.
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Kind for Files {
    const NAME: &'static str = "file";
    const ALIASES: &'static [&'static str] = &["inotify"];
    const INTERVAL: Duration = Duration::from_secs(10);
    type Config = Config;
    type Sample = Stamps;

    fn new(config: Config, when: When) -> Result<Files, String> {
        if !when.onchange {
            return Err("`onchange: false` means nothing to files; leave it out".into());
        }
        Ok(Files {
            files: config.files.paths()?,
            recurse: config.recurse,
            changes: Changes { when, known: None, otherwise_since: BTreeMap::new() },
            wake: Arc::new(Notify::new()),
            watcher: None,
            watched: BTreeSet::new(),
        })
    }

    async fn look(&mut self, _: &Eyes) -> Result<Seen<Stamps>, String> {
        self.watch();
        let (files, recurse) = (self.files.clone(), self.recurse);
        blocking(move || Ok(stamps(&files, recurse))).await
    }

    fn decide(&mut self, sample: &Stamps, now: Moment) -> Vec<Data> {
        self.changes.observe(sample, now.run)
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Some(self.wake.clone())
    }
}

impl Files {
    /// Watches the directories around the files, because a file that is replaced is another one. What cannot be watched
    /// is looked at when it is time.
    fn watch(&mut self) {
        if self.watcher.is_none() {
            let wake = self.wake.clone();
            self.watcher = notify::recommended_watcher(move |_| wake.notify_one()).ok();
        }
        let Some(watcher) = &mut self.watcher else { return };
        for path in self.files.iter().flat_map(|path| path.parent().into_iter().chain([path.as_path()])) {
            let deep = self.recurse && self.files.iter().any(|file| file == path);
            let mode = if deep { RecursiveMode::Recursive } else { RecursiveMode::NonRecursive };
            if !self.watched.contains(path) && watcher.watch(path, mode).is_ok() {
                self.watched.insert(path.to_path_buf());
            }
        }
    }
}

fn stamps(files: &[PathBuf], recurse: bool) -> Seen<Stamps> {
    let mut seen = Seen::all(Stamps::default());
    for path in files {
        add(path, if recurse { usize::MAX } else { 1 }, &mut seen);
    }
    if seen.sample.stamps.len() > FILES_MAX {
        seen.problems.push(format!("there are more than {FILES_MAX} files; the rest is not watched"));
    }
    seen.sample.files = seen.sample.stamps.len();
    seen
}

fn add(path: &Path, deeper: usize, seen: &mut Seen<Stamps>) {
    if seen.sample.stamps.len() > FILES_MAX {
        return;
    }
    let mut wrong = |error: std::io::Error| {
        if error.kind() != std::io::ErrorKind::NotFound {
            seen.problems.push(format!("cannot see {}: {}", path.display(), plain(&error)));
            seen.sample.unseen.insert(path.to_path_buf());
        }
    };
    let found = match std::fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) => return wrong(error),
    };
    if found.is_dir() && deeper > 0 {
        let entries: Vec<PathBuf> = match std::fs::read_dir(path) {
            Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
            Err(error) => return wrong(error),
        };
        entries.iter().for_each(|entry| add(entry, deeper.saturating_sub(1), seen));
        return;
    }
    let stamp = Stamp {
        content: (found.ino(), found.size(), found.mtime(), found.mtime_nsec()),
        attributes: (found.mode(), found.uid(), found.gid()),
    };
    // A directory's own content is what is in it.
    let stamp = if found.is_dir() { Stamp { content: (found.ino(), 0, 0, 0), ..stamp } } else { stamp };
    seen.sample.stamps.insert(path.to_path_buf(), stamp);
}

/// What has changed since it was last told. Pure.
struct Changes {
    when: When,
    /// What was told of, or seen first.
    known: Option<BTreeMap<PathBuf, Stamp>>,
    otherwise_since: BTreeMap<PathBuf, Duration>,
}

impl Changes {
    fn observe(&mut self, sample: &Stamps, now: Duration) -> Vec<Data> {
        let Some(known) = &mut self.known else {
            self.known = Some(sample.stamps.clone());
            let first = sample.stamps.keys().filter(|_| self.when.emit_at_start);
            return told(first.map(|path| (path.clone(), "found")).collect());
        };
        let is_seen = |path: &Path| !sample.unseen.iter().any(|unseen| path.starts_with(unseen));
        let all: BTreeSet<PathBuf> = known.keys().chain(sample.stamps.keys()).cloned().collect();
        let mut changes = Vec::new();
        for path in all.into_iter().filter(|path| is_seen(path)) {
            let (before, after) = (known.get(&path), sample.stamps.get(&path));
            let Some(change) = change(before, after) else {
                self.otherwise_since.remove(&path);
                continue;
            };
            let since = *self.otherwise_since.entry(path.clone()).or_insert(now);
            if now.saturating_sub(since) < self.when.hold {
                continue;
            }
            self.otherwise_since.remove(&path);
            match after.cloned() {
                Some(stamp) => drop(known.insert(path.clone(), stamp)),
                None => drop(known.remove(&path)),
            }
            changes.push((path, change));
        }
        told(changes)
    }
}

fn change(before: Option<&Stamp>, after: Option<&Stamp>) -> Option<&'static str> {
    match (before, after) {
        (None, Some(_)) => Some("created"),
        (Some(_), None) => Some("deleted"),
        (Some(before), Some(after)) if before.content != after.content => Some("modified"),
        (Some(before), Some(after)) if before != after => Some("attributes"),
        _ => None,
    }
}

fn told(mut changes: Vec<(PathBuf, &'static str)>) -> Vec<Data> {
    let more = changes.len().saturating_sub(CHANGES_MAX);
    changes.truncate(CHANGES_MAX);
    let event = |(path, change): (PathBuf, &str)| {
        Data::from_iter([("path".to_string(), json!(shown(&path))), ("change".to_string(), json!(change))])
    };
    let mut events: Vec<Data> = changes.into_iter().map(event).collect();
    if let Some(last) = events.last_mut().filter(|_| more > 0) {
        last.insert("more".into(), json!(more));
    }
    events
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;
    use zester_rule::rule;

    fn stamp(number: u64, mode: u32) -> Stamp {
        Stamp { content: (1, number, 0, 0), attributes: (mode, 0, 0) }
    }

    fn sample(files: &[(&str, Stamp)], unseen: &[&str]) -> Stamps {
        Stamps {
            files: files.len(),
            stamps: files.iter().map(|(path, stamp)| (path.into(), stamp.clone())).collect(),
            unseen: unseen.iter().map(PathBuf::from).collect(),
        }
    }

    fn changes(hold: u64, emit_at_start: bool) -> Changes {
        let when = When { hold: Duration::from_secs(hold), onchange: true, emit_at_start };
        Changes { when, known: None, otherwise_since: BTreeMap::new() }
    }

    fn words(events: Vec<Data>) -> Vec<String> {
        events.iter().map(|event| format!("{} {}", event["path"], event["change"]).replace('"', "")).collect()
    }

    #[test]
    #[rule("R-21")]
    fn r21_what_changed_is_told_once_and_the_first_look_is_the_baseline() {
        let mut changes = changes(0, false);
        let at = Duration::from_secs;
        let first = [("/a", stamp(1, 1)), ("/b", stamp(1, 1)), ("/c", stamp(1, 1))];
        assert!(words(changes.observe(&sample(&first, &[]), at(0))).is_empty());
        let second = [("/a", stamp(2, 1)), ("/b", stamp(1, 2)), ("/d", stamp(1, 1))];
        let told = words(changes.observe(&sample(&second, &[]), at(1)));
        assert_eq!(told, ["/a modified", "/b attributes", "/c deleted", "/d created"]);
        assert!(words(changes.observe(&sample(&second, &[]), at(2))).is_empty());
        let mut all = self::changes(0, true);
        assert_eq!(words(all.observe(&sample(&first[..1], &[]), at(0))), ["/a found"]);
    }

    #[test]
    fn what_nobody_could_look_at_is_not_gone() {
        let mut changes = changes(0, false);
        let first = [("/d/a", stamp(1, 1)), ("/e", stamp(1, 1))];
        changes.observe(&sample(&first, &[]), Duration::ZERO);
        let told = words(changes.observe(&sample(&[], &["/d"]), Duration::ZERO));
        assert_eq!(told, ["/e deleted"]);
    }

    #[test]
    fn what_is_as_it_was_within_the_time_is_nothing() {
        let mut changes = changes(10, false);
        let (one, other) = ([("/a", stamp(1, 1))], [("/a", stamp(2, 1))]);
        let mut told = Vec::new();
        for (second, files) in [(0, &one), (1, &other), (5, &one), (6, &other), (15, &other), (16, &other)] {
            told.extend(words(changes.observe(&sample(files, &[]), Duration::from_secs(second))));
        }
        assert_eq!(told, ["/a modified"]);
    }

    #[test]
    fn many_changes_are_told_as_so_many() {
        let many =
            |count: usize| (0..count).map(|number| (PathBuf::from(number.to_string()), "created")).collect();
        assert_eq!(told(many(CHANGES_MAX)).last().unwrap().get("more"), None);
        let events = told(many(CHANGES_MAX + 7));
        assert_eq!((events.len(), &events[CHANGES_MAX - 1]["more"]), (CHANGES_MAX, &json!(7)));
    }

    #[tokio::test]
    async fn a_real_file_wakes_the_beacon_and_is_seen() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("motd");
        let config = Config { files: Names(vec![shown(&path)]), recurse: false };
        let mut files = Files::new(config, When::default()).ok().unwrap();
        let eyes = Eyes {
            files: Arc::new(zester_host::overlay::Overlay::empty()),
            processes: Arc::new(zester_host::process::fake::Scripted::new()),
            root: "/".into(),
        };
        let look = async |files: &mut Files| {
            let sample = files.look(&eyes).await.unwrap().sample;
            words(files.decide(&sample, Moment::default()))
        };
        assert!(look(&mut files).await.is_empty());
        let wake = Kind::wake(&files).unwrap();
        std::fs::write(&path, "hello").unwrap();
        tokio::time::timeout(Duration::from_secs(60), wake.notified()).await.unwrap();
        assert_eq!(look(&mut files).await, [format!("{} created", path.display())]);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(look(&mut files).await, [format!("{} attributes", path.display())]);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(look(&mut files).await, [format!("{} deleted", path.display())]);
    }
}
