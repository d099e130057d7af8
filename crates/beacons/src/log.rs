//! `log`: lines of a file, or of the journal, that match a pattern.

use crate::level::When;
use crate::limits::{JOURNAL_ENTRIES_MAX, LINE_BYTES_MAX, LOG_BYTES_MAX, MATCHES_MAX, PATTERN_BYTES_MAX};
use crate::{Data, Eyes, Kind, Moment, Seen, blocking, plain};
use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_host::{Query, Question};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The file to follow, also when it is rotated.
    file: Option<PathBuf>,
    /// Follows the journal instead.
    #[serde(default)]
    journal: bool,
    /// Only what this unit says, of the journal.
    unit: Option<String>,
    /// The pattern of a line that is told. Its named groups are told with it.
    #[serde(alias = "regex")]
    r#match: String,
}

enum Source {
    File(Option<Box<Tail>>),
    Journal(Journal),
}

/// The lines that one look found.
#[derive(Debug, Default, PartialEq, Serialize)]
pub(crate) struct Lines {
    lines: usize,
    #[serde(skip)]
    texts: Vec<String>,
}

impl Lines {
    fn of(texts: Vec<String>) -> Lines {
        Lines { lines: texts.len(), texts }
    }
}

pub(crate) struct Log {
    source: Source,
    /// What an event says of where the line was.
    place: (&'static str, String),
    pattern: Regex,
}

impl Kind for Log {
    const NAME: &'static str = "log";
    const INTERVAL: Duration = Duration::from_secs(5);
    /// What was read is not read again.
    const DISCARDS: bool = false;
    type Config = Config;
    type Sample = Lines;

    fn new(config: Config, when: When) -> Result<Log, String> {
        if when != When::default() {
            return Err(
                "a line is told at once and once; leave out `for`, `onchange` and `emit_at_start`".into()
            );
        }
        let pattern = regex::RegexBuilder::new(&config.r#match).size_limit(PATTERN_BYTES_MAX).build();
        let pattern = pattern.map_err(|error| {
            let told = error.to_string();
            let last = told.lines().last().unwrap_or_default().trim_start_matches("error: ").to_string();
            format!("`{}` is no pattern: {last}", config.r#match)
        })?;
        let (source, place) = match (config.file, config.journal) {
            (Some(path), false) if !path.is_absolute() => {
                return Err(format!("`{}` is no absolute path; begin it with `/`", path.display()));
            }
            (Some(_), false) if config.unit.is_some() => {
                return Err("`unit` is of the journal; write `journal: true`, or leave it out".into());
            }
            (Some(path), false) => {
                let place = ("file", path.display().to_string());
                (Source::File(Some(Box::new(Tail::new(path)))), place)
            }
            (None, true) => {
                let unit = config.unit;
                if let Some(unit) = &unit {
                    zester_host::services::check_name(unit)?;
                }
                let place = ("unit", unit.clone().unwrap_or_default());
                (Source::Journal(Journal { unit, ..Journal::default() }), place)
            }
            _ => return Err("it follows one of both; write `file: PATH` or `journal: true`".into()),
        };
        Ok(Log { source, place, pattern })
    }

    async fn look(&mut self, eyes: &Eyes) -> Result<Seen<Lines>, String> {
        match &mut self.source {
            Source::File(held) => {
                let mut tail = held.take().ok_or("the last look has not ended")?;
                let (tail, read) = blocking(move || {
                    let read = tail.read();
                    Ok((tail, read))
                })
                .await?;
                *held = Some(tail);
                let (texts, problems) = read?;
                Ok(Seen { sample: Lines::of(texts), problems })
            }
            Source::Journal(journal) => {
                let texts = journal.read(Query::through(eyes.processes.as_ref())).await?;
                Ok(Seen::all(Lines::of(texts)))
            }
        }
    }

    fn decide(&mut self, sample: &Lines, _: Moment) -> Vec<Data> {
        matches(&self.pattern, &self.place, &sample.texts)
    }
}

/// The events of lines. Pure.
fn matches(pattern: &Regex, place: &(&'static str, String), texts: &[String]) -> Vec<Data> {
    let mut events: Vec<Data> = Vec::new();
    let mut more = 0u64;
    for line in texts {
        let Some(found) = pattern.captures(line) else { continue };
        if events.len() == MATCHES_MAX {
            more += 1;
            continue;
        }
        let groups = pattern.capture_names().flatten();
        let groups = groups.filter_map(|name| Some((name.to_string(), json!(found.name(name)?.as_str()))));
        events.push(Data::from_iter([
            (place.0.to_string(), json!(place.1)),
            ("line".to_string(), json!(line)),
            ("groups".to_string(), Value::Object(groups.collect())),
        ]));
    }
    if let Some(last) = events.last_mut().filter(|_| more > 0) {
        last.insert("more".into(), json!(more));
    }
    events
}

/// A file that is followed from its end on, and over its rotation.
struct Tail {
    path: PathBuf,
    file: Option<(File, u64)>,
    /// How far it was read.
    offset: u64,
    /// The begin of a line whose end is not there yet.
    begun: Vec<u8>,
    /// It was looked at before: a file that comes now is read from its begin.
    started: bool,
}

impl Tail {
    fn new(path: PathBuf) -> Tail {
        Tail { path, file: None, offset: 0, begun: Vec::new(), started: false }
    }

    /// The whole lines since the last look, and what went wrong beside. Lines that were read are given: nobody reads them again.
    fn read(&mut self) -> Result<(Vec<String>, Vec<String>), String> {
        let (mut lines, mut problems) = (Vec::new(), Vec::new());
        match self.read_all(&mut lines, &mut problems) {
            Ok(()) => {}
            Err(error) => {
                let wrong = format!("cannot read {}: {}", self.path.display(), plain(&error));
                if lines.is_empty() {
                    return Err(wrong);
                }
                problems.push(wrong);
            }
        }
        Ok((lines, problems))
    }

    fn read_all(&mut self, lines: &mut Vec<String>, problems: &mut Vec<String>) -> std::io::Result<()> {
        // What was written to the old one before it was rotated comes first.
        self.read_on(lines, problems)?;
        let inode = match std::fs::metadata(&self.path) {
            Ok(found) => Some(found.ino()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if inode.is_none() && self.file.is_none() {
            problems.push(format!("{} is not there", self.path.display()));
        }
        if let Some(inode) = inode.filter(|inode| self.file.as_ref().is_none_or(|(_, known)| known != inode))
        {
            let mut file = File::open(&self.path)?;
            let end = if self.started { SeekFrom::Start(0) } else { SeekFrom::End(0) };
            self.offset = file.seek(end)?;
            self.file = Some((file, inode));
            self.begun.clear();
            self.read_on(lines, problems)?;
        }
        self.started = true;
        Ok(())
    }

    fn read_on(&mut self, lines: &mut Vec<String>, problems: &mut Vec<String>) -> std::io::Result<()> {
        let Some((file, _)) = &mut self.file else { return Ok(()) };
        let size = file.metadata()?.len();
        if size < self.offset {
            // Emptied in its place.
            self.offset = 0;
            self.begun.clear();
        }
        let waiting = size - self.offset;
        if waiting > LOG_BYTES_MAX {
            let skipped = waiting - LOG_BYTES_MAX;
            problems
                .push(format!("{skipped} bytes of {} came too fast and were not read", self.path.display()));
            self.offset += skipped;
            self.begun.clear();
        }
        file.seek(SeekFrom::Start(self.offset))?;
        let mut bytes = Vec::new();
        self.offset += file.take(LOG_BYTES_MAX).read_to_end(&mut bytes)? as u64;
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let room = LINE_BYTES_MAX.saturating_sub(self.begun.len());
            let (text, ended) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            self.begun.extend_from_slice(&text[..text.len().min(room)]);
            if ended {
                lines.push(String::from_utf8_lossy(&std::mem::take(&mut self.begun)).into_owned());
            }
        }
        Ok(())
    }
}

/// The journal of systemd, or what one unit says in it, from its end on.
#[derive(Default)]
struct Journal {
    unit: Option<String>,
    /// The last entry that was read; none where there was none.
    cursor: Option<String>,
    /// It was looked at before: what comes now is new.
    started: bool,
}

impl Journal {
    /// What is behind the last entry. The first look only finds out which that is.
    async fn read(&mut self, query: Query<'_>) -> Result<Vec<String>, String> {
        let mut words = vec!["--output=json".to_string()];
        words.extend(self.unit.as_ref().map(|unit| format!("--unit={unit}")));
        words.extend(self.cursor.as_ref().map(|cursor| format!("--after-cursor={cursor}")));
        let count = if self.started { JOURNAL_ENTRIES_MAX } else { 1 };
        words.push(format!("--lines={count}"));
        let exit = query.ask(Question::Journal { words: &words }, &CancellationToken::new()).await;
        let exit = exit.map_err(|fault| fault.to_string())?;
        if exit.code != Some(0) {
            let told = exit.stderr.text.trim().lines().next_back().unwrap_or_default().to_string();
            return Err(format!("journalctl failed: {told}"));
        }
        let entries = exit.stdout.text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let mut lines = Vec::new();
        for entry in entries {
            if let Some(text) = entry["MESSAGE"].as_str() {
                lines.push(text.chars().take(LINE_BYTES_MAX).collect());
            }
            if let Some(last) = entry["__CURSOR"].as_str() {
                self.cursor = Some(last.to_string());
            }
        }
        let is_first = !std::mem::replace(&mut self.started, true);
        Ok(if is_first { Vec::new() } else { lines })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::path::Path;
    use std::sync::Arc;
    use zester_host::overlay::Overlay;
    use zester_host::process::fake::{Scripted, command_line, exit};
    use zester_rule::rule;

    fn append(path: &Path, text: &str) {
        let mut file = File::options().append(true).create(true).open(path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn lines(tail: &mut Tail) -> Vec<String> {
        tail.read().unwrap().0
    }

    #[test]
    #[rule("R-21")]
    fn r21_a_line_that_matches_is_told_with_its_groups() {
        let config = Config {
            file: Some("/var/log/auth.log".into()),
            journal: false,
            unit: None,
            r#match: "Failed password for (?P<user>\\w+)".into(),
        };
        let mut log = Log::new(config, When::default()).ok().unwrap();
        let texts = ["Accepted", "sshd: Failed password for root from x"].map(String::from).to_vec();
        let told = log.decide(&Lines::of(texts), Moment::default());
        let wanted = json!([{
            "file": "/var/log/auth.log", "line": "sshd: Failed password for root from x", "groups": {"user": "root"}
        }]);
        assert_eq!(json!(told), wanted);
    }

    #[test]
    fn a_flood_of_lines_is_told_as_so_many() {
        let texts: Vec<String> = (0..MATCHES_MAX + 5).map(|number| format!("x{number}")).collect();
        let told = matches(&Regex::new("x").unwrap(), &("file", "/f".into()), &texts);
        assert_eq!((told.len(), &told[MATCHES_MAX - 1]["more"]), (MATCHES_MAX, &json!(5)));
    }

    #[test]
    fn a_file_is_followed_from_its_end_on_in_whole_lines() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        append(&path, "old\n");
        let mut tail = Tail::new(path.clone());
        assert!(lines(&mut tail).is_empty());
        append(&path, "one\ntw");
        assert_eq!(lines(&mut tail), ["one"]);
        append(&path, "o\n");
        assert_eq!(lines(&mut tail), ["two"]);
        assert!(lines(&mut tail).is_empty());
        append(&path, &format!("{}\nshort\n", "y".repeat(3 * LINE_BYTES_MAX)));
        let read = lines(&mut tail);
        assert_eq!((read[0].len(), read[1].as_str()), (LINE_BYTES_MAX, "short"));
    }

    #[test]
    #[rule("R-21")]
    fn r21_lines_that_were_read_are_told_though_the_new_file_cannot_be() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        append(&path, "");
        let mut tail = Tail::new(path.clone());
        lines(&mut tail);
        append(&path, "last of the old\n");
        std::fs::rename(&path, temp.path().join("log.1")).unwrap();
        // Nobody can look through a link to itself, root neither.
        std::os::unix::fs::symlink(&path, &path).unwrap();
        let (texts, problems) = tail.read().unwrap();
        assert_eq!(texts, ["last of the old"]);
        assert!(problems[0].starts_with("cannot read "), "{problems:?}");
        assert!(tail.read().is_err(), "there is nothing to tell but that");
        std::fs::remove_file(&path).unwrap();
        append(&path, "first of the new\n");
        assert_eq!(lines(&mut tail), ["first of the new"]);
    }

    #[test]
    fn a_rotated_file_is_followed_to_its_end_and_then_the_new_one() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        append(&path, "");
        let mut tail = Tail::new(path.clone());
        lines(&mut tail);
        append(&path, "last of the old\n");
        std::fs::rename(&path, temp.path().join("log.1")).unwrap();
        append(&path, "first of the new\n");
        assert_eq!(lines(&mut tail), ["last of the old", "first of the new"]);
        // Copied and emptied.
        std::fs::write(&path, "").unwrap();
        assert!(lines(&mut tail).is_empty());
        append(&path, "after\n");
        assert_eq!(lines(&mut tail), ["after"]);
        // Gone for a while.
        std::fs::remove_file(&path).unwrap();
        assert!(lines(&mut tail).is_empty());
        append(&path, "again\n");
        assert_eq!(lines(&mut tail), ["again"]);
    }

    #[test]
    fn a_file_that_comes_later_is_read_from_its_begin_and_that_it_is_missing_is_told() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("log");
        let mut tail = Tail::new(path.clone());
        let (none, problems) = tail.read().unwrap();
        assert!(none.is_empty() && problems[0].ends_with("log is not there"), "{problems:?}");
        append(&path, "first\n");
        assert_eq!(lines(&mut tail), ["first"]);
    }

    #[tokio::test]
    async fn the_journal_is_followed_from_its_end_on() {
        let processes = Scripted::new().with(|launch| {
            let line = command_line(launch);
            let entry =
                |cursor: &str, text: &str| format!("{{\"__CURSOR\":\"{cursor}\",\"MESSAGE\":\"{text}\"}}\n");
            let told = match line.as_str() {
                "journalctl --no-pager --quiet --output=json --unit=web --lines=1" => entry("c1", "old"),
                "journalctl --no-pager --quiet --output=json --unit=web --after-cursor=c1 --lines=1000" => {
                    entry("c2", "boom one") + &entry("c3", "fine") + &entry("c4", "boom two")
                }
                "journalctl --no-pager --quiet --output=json --unit=web --after-cursor=c4 --lines=1000" => {
                    String::new()
                }
                other => panic!("{other}"),
            };
            Some(Ok(exit(0, &told, "")))
        });
        let config = Config { file: None, journal: true, unit: Some("web".into()), r#match: "^boom".into() };
        let mut log = Log::new(config, When::default()).ok().unwrap();
        let eyes =
            Eyes { files: Arc::new(Overlay::empty()), processes: Arc::new(processes), root: "/".into() };
        let mut told = Vec::new();
        for _ in 0..3 {
            let sample = log.look(&eyes).await.unwrap().sample;
            let events = log.decide(&sample, Moment::default());
            told.push(
                events.iter().map(|event| event["line"].as_str().unwrap().to_string()).collect::<Vec<_>>(),
            );
        }
        assert_eq!(told, [vec![], vec!["boom one".to_string(), "boom two".into()], vec![]]);
    }

    #[test]
    fn what_cannot_be_followed_is_refused() {
        let config = |file: Option<&str>, journal, unit: Option<&str>| Config {
            file: file.map(Into::into),
            journal,
            unit: unit.map(Into::into),
            r#match: "x".into(),
        };
        for wrong in [
            config(None, false, None),
            config(Some("/x"), true, None),
            config(Some("x"), false, None),
            config(Some("/x"), false, Some("u")),
        ] {
            assert!(Log::new(wrong, When::default()).is_err());
        }
        let held = When { hold: Duration::from_secs(1), ..When::default() };
        assert!(Log::new(config(Some("/x"), false, None), held).is_err());
    }
}
