//! Looking whether a schedule is another one: the file by its stamp, the settings by their revision and now and then.

use super::Options;
use crate::work::Work;
use serde_json::Value;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;
use tokio::time::Instant;
use zester_converge::own_work::check_scheduled;
use zester_model::node::Node;
use zester_model::secret::without_placeholders;
use zester_model::source::{FileId, Sources, Span};
use zester_schedule::{Entry, Reading, ScheduleError, read};

/// How often it is looked whether the file or the published settings are others.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// How often the settings are rendered although nobody published others: facts may have changed, and files without a master.
const SETTINGS_EVERY: Duration = Duration::from_secs(300);
/// How soon after they could not be read.
const FAILED_AGAIN: Duration = Duration::from_secs(30);
/// How long rendering the settings may take: a command of a template has a minute.
const SETTINGS_LIMIT: Duration = Duration::from_secs(120);
/// The largest file of a schedule.
const FILE_BYTES_MAX: u64 = 1024 * 1024;
/// Problems of one source that are told.
const PROBLEMS_TOLD: usize = 5;

/// What a source says.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    pub(crate) entries: Vec<Entry>,
    /// As data, to be kept.
    pub(crate) value: Value,
}

/// What entries of the settings name as their source.
pub(crate) const SETTINGS_SOURCE: &str = "settings";

/// Which of the two.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum SourceName {
    File,
    Settings,
}

impl SourceName {
    pub(crate) fn word(self) -> &'static str {
        match self {
            SourceName::File => "file",
            SourceName::Settings => SETTINGS_SOURCE,
        }
    }
}

/// What a look at a source found.
#[derive(Debug)]
pub(crate) struct SourceUpdate {
    pub(crate) source: SourceName,
    pub(crate) found: Result<Given, String>,
    /// It is known to be all: not so of settings before a master has said which there are.
    pub(crate) complete: bool,
}

/// How a file looked: another stamp, another content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    bytes: u64,
    changed: (i64, i64),
}

/// What the last look at one source saw.
pub(crate) struct Looker {
    options: Options,
    source: Seen,
    next: Option<Instant>,
}

enum Seen {
    File { stamp: Option<Option<Stamp>> },
    Settings { revision: Option<u64>, complete: bool, due: Option<Instant> },
}

impl Looker {
    /// One for each source.
    pub(crate) fn both(options: &Options) -> [Looker; 2] {
        let settings = Seen::Settings { revision: None, complete: false, due: None };
        [Seen::File { stamp: None }, settings].map(|source| Looker {
            options: options.clone(),
            source,
            next: None,
        })
    }

    /// Looks when it is time to; none where nothing is new.
    pub(crate) async fn look(mut self, work: &dyn Work) -> (Looker, Option<SourceUpdate>) {
        if let Some(next) = self.next {
            tokio::time::sleep_until(next).await;
        }
        let found = match &mut self.source {
            Seen::File { stamp } => look_at_file(&self.options, stamp).await,
            Seen::Settings { revision, complete, due } => {
                look_at_settings(&self.options, revision, complete, due, work).await
            }
        };
        self.next = Some(Instant::now() + LOOK_EVERY);
        (self, found)
    }
}

async fn look_at_file(options: &Options, stamp: &mut Option<Option<Stamp>>) -> Option<SourceUpdate> {
    let path = options.file.clone()?;
    let (named, zone, before) = (options.file_named, options.local_zone.clone(), stamp.clone());
    let looked = tokio::task::spawn_blocking(move || {
        let stamp = stamp_of(&path);
        if before.as_ref() == Some(&stamp) {
            return None;
        }
        Some((stamp, read_file(&path, named, &zone)))
    });
    let (now, found) = looked.await.ok().flatten()?;
    *stamp = Some(now);
    Some(SourceUpdate { source: SourceName::File, found, complete: true })
}

async fn look_at_settings(
    options: &Options,
    seen: &mut Option<u64>,
    known: &mut bool,
    due: &mut Option<Instant>,
    work: &dyn Work,
) -> Option<SourceUpdate> {
    let revision = options.settings_cache.as_ref().and_then(|cache| cache.pin()).map(|pin| pin.revision);
    // Before they are read: what arrives meanwhile is seen by the next look.
    let complete = work.settings_are_known();
    let is_due = due.is_none_or(|due| Instant::now() >= due);
    if !is_due && revision == *seen && complete == *known {
        return None;
    }
    (*seen, *known, *due) = (revision, complete, Some(Instant::now() + SETTINGS_EVERY));
    let found = match tokio::time::timeout(SETTINGS_LIMIT, work.settings()).await {
        Ok(Ok(settings)) => {
            let value = settings.get("schedule").cloned().unwrap_or_default();
            given_again(&value, SourceName::Settings.word(), &options.local_zone)
        }
        Ok(Err(why)) => Err(format!("the settings cannot be read: {why}")),
        Err(_) => {
            let seconds = SETTINGS_LIMIT.as_secs();
            Err(format!(
                "the settings were not rendered in {seconds} s; see which command their templates wait for"
            ))
        }
    };
    if found.is_err() {
        *due = Some(Instant::now() + FAILED_AGAIN);
    }
    Some(SourceUpdate { source: SourceName::Settings, found, complete })
}

fn stamp_of(path: &Path) -> Option<Stamp> {
    let found = std::fs::metadata(path).ok()?;
    Some(Stamp { inode: found.ino(), bytes: found.len(), changed: (found.mtime(), found.mtime_nsec()) })
}

fn read_file(path: &Path, named: bool, zone: &str) -> Result<Given, String> {
    let shown = path.display().to_string();
    let text = match std::fs::metadata(path) {
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            return Err(format!("{shown} is larger than {FILE_BYTES_MAX} bytes"));
        }
        Ok(_) => std::fs::read_to_string(path),
        Err(error) => Err(error),
    };
    let text = match text {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound && !named => return Ok(Given::default()),
        Err(error) => return Err(format!("cannot read {shown}: {error}")),
    };
    let mut sources = Sources::default();
    let file = sources.add(&shown, text.as_str());
    let node = zester_compile::parse_yaml(file, &text).map_err(|diagnostics| {
        let told = diagnostics.iter().map(|one| {
            let place = one.span.map_or(shown.clone(), |span| sources.place(span));
            format!("{place}: {}", one.report(&sources).message)
        });
        told.take(PROBLEMS_TOLD).collect::<Vec<_>>().join("; ")
    })?;
    let node = inner(&node);
    let entries = read(node, &reading(&shown, zone)).map_err(|problems| {
        all(&problems, |problem| format!("{}: {}", sources.place(problem.span), problem.sentence()))
    })?;
    Ok(Given { entries, value: node.to_json() })
}

/// The file may be written as the key of the settings is, under `schedule:`.
fn inner(node: &Node) -> &Node {
    match node.as_map() {
        Some([(key, value)]) if key.as_text() == Some("schedule") && !has_function(value) => value,
        _ => node,
    }
}

fn has_function(node: &Node) -> bool {
    node.as_map().is_some_and(|map| {
        map.iter().any(|(key, value)| key.as_text() == Some("function") && value.as_map().is_none())
    })
}

/// A schedule that has no places, from the settings or from what was kept.
pub(crate) fn given_again(value: &Value, source: &str, zone: &str) -> Result<Given, String> {
    let node = Node::from_json(Span::start_of(FileId(0)), value);
    let entries = read(&node, &reading(source, zone)).map_err(|problems| {
        all(&problems, |problem| {
            let path: Vec<&str> =
                std::iter::once("schedule").chain(problem.path.iter().map(String::as_str)).collect();
            let told = format!("{source}: `{}`: {}", path.join(":"), problem.sentence());
            without_placeholders(&told).into_owned()
        })
    })?;
    Ok(Given { entries, value: value.clone() })
}

fn all(problems: &[ScheduleError], tell: impl Fn(&ScheduleError) -> String) -> String {
    let mut told: Vec<String> = problems.iter().take(PROBLEMS_TOLD).map(tell).collect();
    if problems.len() > PROBLEMS_TOLD {
        told.push(format!("and {} more", problems.len() - PROBLEMS_TOLD));
    }
    told.join("; ")
}

fn reading<'a>(source: &'a str, zone: &'a str) -> Reading<'a> {
    Reading { source, local_zone: zone, check: &check_scheduled }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use zester_converge::call;
    use zester_rule::rule;

    fn told(text: &str) -> String {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("schedule.yaml");
        std::fs::write(&path, text).unwrap();
        let why = read_file(&path, true, "UTC").unwrap_err();
        why.replace(&temp.path().display().to_string(), "")
    }

    #[test]
    #[rule("D-10")]
    fn d10_what_is_wrong_with_the_file_is_told_with_its_place() {
        assert_eq!(
            told("a:\n  function: test.pign\n  interval: 5m\n"),
            format!("/schedule.yaml:2:13: {}", call::unknown("test.pign"))
        );
        assert!(told("a: [\n").starts_with("/schedule.yaml:1:4: "), "{}", told("a: [\n"));
        let word = told("a:\n  function: file.managed\n  interval: 5m\n");
        assert!(word.starts_with("/schedule.yaml:2:13: file.managed: its path is missing"), "{word}");
    }

    #[test]
    #[rule("D-10")]
    fn d10_the_file_may_begin_with_the_key_of_the_settings() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("schedule.yaml");
        for text in
            ["a: {function: test.ping, interval: 5m}", "schedule:\n  a: {function: test.ping, interval: 5m}"]
        {
            std::fs::write(&path, text).unwrap();
            let given = read_file(&path, true, "UTC").unwrap();
            assert_eq!((given.entries.len(), given.entries[0].name.as_str()), (1, "a"));
            assert!(
                given_again(&given.value, "kept", "UTC").unwrap().entries[0].when == given.entries[0].when
            );
        }
        std::fs::remove_file(&path).unwrap();
        assert!(read_file(&path, true, "UTC").is_err());
        assert!(read_file(&path, false, "UTC").unwrap().entries.is_empty());
    }

    #[test]
    #[rule("D-10")]
    fn d10_what_is_wrong_with_the_settings_is_told_with_its_keys() {
        let why = given_again(&json!({"a": {"function": "test.ping", "cron": "x"}}), "settings", "UTC")
            .unwrap_err();
        assert!(why.starts_with("settings: `schedule:a:cron`: `x` is not a cron expression"), "{why}");
    }
}
