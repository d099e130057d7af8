//! One mutating run per data dir (S-42): a lock that dies with its holder.
//!
//! The lock is an advisory `flock`: the kernel drops it when the process ends, however it ends, so no stale lock can
//! keep a machine from converging. What stands in the file only says who holds it: a note of the run, written when it
//! begins and taken out when it ends. A note in a file that nobody has locked is therefore of a run that was killed: whoever
//! takes the lock ends what is left of it first.

use crate::data_dir::DataDir;
use crate::error::Error;
use crate::history;
use crate::leftovers;
use crate::run_loop::mode_word;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use zester_model::outcome::Mode;

/// How often a waiting run asks again.
const POLL: Duration = Duration::from_millis(50);
/// How long the holder must have waited for the command that we belong to: a command that leaves us in the background is over in a
/// moment.
const AWAITED_FOR: Duration = Duration::from_secs(2);
/// Processes above one another that are looked at.
const ANCESTORS_MAX: usize = 1000;
/// Bytes of a note that are read.
const NOTE_BYTES_MAX: u64 = 64 * 1024;
/// Runs that were killed and wait for a place in the history.
const UNLISTED_MAX: usize = 16;
/// The variable that marks the commands of a run (`zester_host::process`).
const COMMAND_MARK: &str = "ZESTER_EXEC";

/// What a run says of itself while it lasts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Note {
    pub run_id: String,
    pub mode: Mode,
    /// What was asked for: references, `highstate`, or a function with its words.
    pub asked: String,
    /// It is a call of one function.
    #[serde(default)]
    pub call: bool,
    /// Runs that were killed before it and could not be added to the history yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Note>,
    pub pid: u32,
    /// The name that the commands of its process carry, for whoever finds that it was killed.
    #[serde(default)]
    pub life: String,
    /// Seconds since the epoch.
    pub started_at: u64,
}

impl Note {
    /// Whether it speaks of a run; what only mends the journal takes the lock too.
    pub fn is_of_a_run(&self) -> bool {
        !self.run_id.is_empty()
    }

    /// What was typed, without the name of the program.
    pub fn command(&self) -> String {
        match self.is_of_a_run() {
            true => format!("{} {}", command_word(self.mode, self.call), self.asked),
            false => self.asked.clone(),
        }
    }

    fn words(&self) -> String {
        format!("pid {} (zester {})", self.pid, self.command())
    }
}

/// The command that a run was started with.
pub fn command_word(mode: Mode, call: bool) -> &'static str {
    if call { "call" } else { mode_word(mode) }
}

/// Held for the length of a mutating run.
#[derive(Debug)]
pub struct RunLock {
    file: File,
    path: PathBuf,
    /// Of the last holder, which did not get to take it out.
    pub killed: Option<Note>,
    /// Processes of that one that could not be ended.
    pub survivors: Vec<u32>,
    /// What could not be written: no reason not to run, for the lock is not the note.
    pub notices: Vec<String>,
    data_dir: DataDir,
    /// Runs that were killed and that the history does not know of yet: they stand in our note until it does.
    unlisted: Mutex<Vec<Note>>,
}

impl RunLock {
    /// Takes the lock; waits for another holder, whom it names to `waiting` once, unless `no_wait`.
    pub async fn take(
        data_dir: &DataDir,
        note: &Note,
        no_wait: bool,
        cancel: &CancellationToken,
        waiting: impl Fn(&str),
    ) -> Result<RunLock, Error> {
        let path = data_dir.path("lock");
        let mut file = open(&path, true).map_err(|error| Error::io("open the run lock", &path, error))?;
        let (mut told, mut awaited_since) = (false, None::<Instant>);
        for asked in 1.. {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => break,
                Err(Errno::WOULDBLOCK) => {}
                Err(error) => return Err(Error::io("take the run lock", &path, error.into())),
            }
            let awaiting = awaiting_us(&mut file);
            match &awaiting {
                None => awaited_since = None,
                Some(holder) => {
                    if awaited_since.get_or_insert_with(Instant::now).elapsed() >= AWAITED_FOR {
                        let why = "whose own command this is: it would wait for itself";
                        return Err(Error::Locked { holder: format!("{holder}, {why}") });
                    }
                }
            }
            // Asked twice: `zester status` holds it for a moment to see whether anybody does.
            if no_wait && asked > 1 {
                return Err(Error::Locked { holder: holder_of(&mut file) });
            }
            if !told && !no_wait && awaiting.is_none() {
                waiting(&holder_of(&mut file));
                told = true;
            }
            tokio::select! {
                _ = cancel.cancelled() => return Err(Error::Canceled),
                _ = tokio::time::sleep(POLL) => {}
            }
        }
        let killed =
            read(&mut file).and_then(|text| serde_json::from_str(&text).ok()).filter(Note::is_of_a_run);
        // Before the note is overwritten: if we are killed meanwhile, the next one does it.
        let survivors = match &killed {
            Some(killed) => leftovers::end(&killed.life, &note.life).await,
            None => Vec::new(),
        };
        let (unlisted, data_dir) = (Mutex::default(), data_dir.clone());
        let mut lock = RunLock { file, path, killed, survivors, notices: Vec::new(), data_dir, unlisted };
        if let Some(killed) = &lock.killed {
            let mut all = killed.before.clone();
            all.push(Note { before: Vec::new(), ..killed.clone() });
            *lock.unlisted() = all;
            let listed = lock.list_killed();
            lock.notices.extend(listed.err().map(|error| {
                format!("`zester {}` could not be added to the history: {error}", killed.command())
            }));
        }
        let noted = lock.note(note);
        lock.notices.extend(noted.err().map(|error| error.to_string()));
        Ok(lock)
    }

    /// Says who holds it.
    pub fn note(&self, note: &Note) -> Result<(), Error> {
        let note = Note { before: self.unlisted().clone(), ..note.clone() };
        let text = serde_json::to_string(&note).map_err(|error| Error::other(error.to_string()))?;
        let why = |error| Error::io("write who holds the run lock to", &self.path, error);
        self.write(&text).map_err(why)
    }

    fn unlisted(&self) -> MutexGuard<'_, Vec<Note>> {
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the runs that were killed to the history, as far as it can be written.
    fn list_killed(&self) -> Result<(), Error> {
        let mut unlisted = self.unlisted();
        while let Some(first) = unlisted.first() {
            if let Err(error) = history::add_killed(&self.data_dir, first.clone()) {
                let surplus = unlisted.len().saturating_sub(UNLISTED_MAX);
                unlisted.drain(..surplus);
                return Err(error);
            }
            unlisted.remove(0);
        }
        Ok(())
    }

    /// Ends a run that came to its end. A note that could not be taken out makes it look killed, no more.
    pub fn release(self) {
        self.end();
    }

    /// Takes the note out; the lock is free once nobody holds it any more. What the history still cannot be told of stays as a
    /// note of a run that was killed.
    pub fn end(&self) {
        let _later = self.list_killed();
        let mut left = self.unlisted().clone();
        let text = left.pop().and_then(|last| serde_json::to_string(&Note { before: left, ..last }).ok());
        let _stays = self.write(&text.unwrap_or_default());
    }

    /// Ends a run of which somebody still hangs and holds the lock: whoever waits learns for whom, and the run, which is
    /// in the history, was not killed.
    pub fn leave(&self, note: &Note) {
        let _stays =
            self.write(&format!("{}, which was canceled and hangs in a call to the system", note.words()));
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut file = &self.file;
        // Over what stands there, and only then cut to its length: where the disk is full this takes no more of it, and what
        // cannot be written leaves the note of before. Blanks mean nothing behind a note.
        let before = usize::try_from(file.metadata()?.len()).unwrap_or(0);
        let blanks = before.saturating_sub(text.len()).min(NOTE_BYTES_MAX as usize);
        file.seek(SeekFrom::Start(0))?;
        if !text.is_empty() {
            file.write_all(format!("{text}{}", " ".repeat(blanks)).as_bytes())?;
        }
        file.set_len(text.len() as u64)
    }
}

/// The run that the note in the lock speaks of, and whether it is still under way. Changes nothing.
pub fn last_holder(data_dir: &DataDir) -> Result<Option<(Note, bool)>, Error> {
    let path = data_dir.path("lock");
    let fail = |error| Error::io("read the run lock", &path, error);
    let mut file = match open(&path, false) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(fail(error)),
    };
    let free = match flock(&file, FlockOperation::NonBlockingLockShared) {
        Ok(()) => true,
        Err(Errno::WOULDBLOCK) => false,
        Err(error) => return Err(fail(error.into())),
    };
    let note: Option<Note> = read(&mut file).and_then(|text| serde_json::from_str(&text).ok());
    Ok(note.filter(Note::is_of_a_run).map(|note| (note, !free)))
}

fn open(path: &Path, write: bool) -> std::io::Result<File> {
    File::options().create(write).truncate(false).read(true).write(write).mode(0o600).open(path)
}

fn read(file: &mut File) -> Option<String> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(NOTE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text).filter(|text| !text.trim().is_empty())
}

/// The holder, if it waits for the command that this process belongs to: whoever waits for it would wait for ever.
fn awaiting_us(file: &mut File) -> Option<String> {
    let note: Note = serde_json::from_str(&read(file)?).ok()?;
    let marks = std::env::var(COMMAND_MARK).unwrap_or_default();
    let me = std::process::id();
    is_awaited_by(&note.life, &marks, me, family_of).then(|| note.words())
}

/// Marks are `<life>-<number>`, those of nested runs after a colon. They are inherited by what a command leaves running, and
/// `su -` takes them away, so they only say which of the processes above us are runs. Whoever stands between, `timeout`, `setsid`
/// or a shell, waits for what it started; a run waits for the leader of the group that it gave to its command, and not for
/// what it adopted. Services that it adopted, once their command was over, have a session of their own.
fn is_awaited_by(life: &str, marks: &str, me: u32, family_of: impl Fn(u32) -> Option<Family>) -> bool {
    let run_of = |life: &str| life.split_once('-').and_then(|(pid, _)| pid.parse::<u32>().ok());
    let lives = || marks.split(':').filter_map(|mark| mark.rsplit_once('-')).map(|(life, _)| life);
    let Some(holder) = run_of(life) else { return false };
    // A run before it had the same number.
    if lives().any(|other| run_of(other) == Some(holder) && other != life) {
        return false;
    }
    let mut pid = me;
    for _ in 0..ANCESTORS_MAX {
        let Some(own) = family_of(pid) else { return false };
        // A leader that ended, or that somebody else started, was nobody's command.
        let leader = family_of(own.group);
        let above = match leader {
            Some(leader) if is_run(leader.parent, holder, lives().filter_map(run_of)) => leader.parent,
            _ => own.parent,
        };
        if is_run(above, holder, lives().filter_map(run_of)) {
            let session = family_of(above).map(|run| run.session);
            if leader.is_none_or(|leader| leader.parent != above || Some(leader.session) != session) {
                return false;
            }
        }
        if above == holder {
            return true;
        }
        if above <= 1 {
            return false;
        }
        pid = above;
    }
    false
}

fn is_run(pid: u32, holder: u32, mut marked: impl Iterator<Item = u32>) -> bool {
    pid == holder || marked.any(|run| run == pid)
}

/// Whom a process belongs to.
#[derive(Clone, Copy)]
struct Family {
    parent: u32,
    group: u32,
    session: u32,
}

/// `None` for one that has ended. `stat` is `pid (comm) state ppid pgrp session …`, and the name may hold anything.
fn family_of(pid: u32) -> Option<Family> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut rest = std::str::from_utf8(stat.get(end + 2..)?).ok()?.split(' ');
    let is_over = matches!(rest.next()?, "Z" | "X" | "x");
    let mut number = || rest.next()?.parse().ok();
    let (parent, group, session) = (number()?, number()?, number()?);
    (!is_over).then_some(Family { parent, group, session })
}

fn holder_of(file: &mut File) -> String {
    match read(file) {
        Some(text) => serde_json::from_str(&text).map_or(text, |note: Note| note.words()),
        None => "an unknown process".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    fn note(asked: &str) -> Note {
        Note {
            run_id: asked.into(),
            mode: Mode::Apply,
            asked: asked.into(),
            call: false,
            before: Vec::new(),
            pid: 7,
            life: String::new(),
            started_at: 1,
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
    }

    #[test]
    #[rule("S-42")]
    fn s42_a_second_run_is_refused_or_waits_and_learns_for_whom() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        runtime().block_on(async {
            let never = CancellationToken::new();
            let first = RunLock::take(&dir, &note("web"), false, &never, |_| panic!("nobody holds it"))
                .await
                .unwrap();
            let refused = RunLock::take(&dir, &note("second"), true, &never, |_| {}).await;
            assert!(matches!(refused, Err(Error::Locked { holder }) if holder.contains("zester apply web")));
            let told = std::cell::RefCell::new(String::new());
            let mut first = Some(first);
            let next = note("second");
            let second = RunLock::take(&dir, &next, false, &never, |holder| {
                *told.borrow_mut() = holder.to_string();
            });
            tokio::pin!(second);
            // The waiter has been polled once it has told us; then the holder goes.
            let taken = std::future::poll_fn(|cx| {
                let polled = second.as_mut().poll(cx);
                if !told.borrow().is_empty() {
                    first.take();
                }
                polled
            })
            .await;
            assert!(taken.is_ok());
            assert!(told.borrow().contains("zester apply web"));
        });
    }

    #[test]
    #[rule("S-42")]
    fn s42_waiting_ends_at_once_when_cancelled() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        runtime().block_on(async {
            let cancel = CancellationToken::new();
            let _first = RunLock::take(&dir, &note("first"), false, &cancel, |_| {}).await.unwrap();
            cancel.cancel();
            let second = RunLock::take(&dir, &note("second"), false, &cancel, |_| {}).await;
            assert!(matches!(second, Err(Error::Canceled)));
        });
    }

    #[test]
    #[rule("C-14", "S-42")]
    fn c14_a_killed_run_is_in_the_history_or_in_the_note_until_it_is() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        runtime().block_on(async {
            let never = CancellationToken::new();
            let take = |asked| {
                let (dir, note, never) = (dir.clone(), note(asked), never.clone());
                async move { RunLock::take(&dir, &note, true, &never, |_| {}).await.unwrap() }
            };
            let known = || -> Vec<String> {
                history::with_current(&dir, 9).unwrap().into_iter().map(|run| run.run_id).collect()
            };
            drop(take("killed").await);
            // Nothing can be appended to a directory, as to a disk that is full.
            std::fs::create_dir(dir.path("history")).unwrap();
            let second = take("second").await;
            assert!(second.notices[0].contains("killed"), "{:?}", second.notices);
            drop(second);
            take("third").await.release();
            std::fs::remove_dir(dir.path("history")).unwrap();
            assert_eq!(known(), ["second", "killed"], "the third ended by itself");
            take("fourth").await.release();
            assert_eq!(known(), ["second", "killed"]);
            assert_eq!(last_holder(&dir).unwrap(), None);
        });
    }

    #[test]
    #[rule("S-42")]
    fn s42_a_note_that_cannot_be_written_is_no_reason_not_to_run() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        let path = dir.path("lock");
        // Where it may be read and locked, and not written: as on a disk that is full.
        std::os::unix::fs::symlink("/dev/full", &path).unwrap();
        runtime().block_on(async {
            let never = CancellationToken::new();
            let taken = RunLock::take(&dir, &note("web"), true, &never, |_| {}).await.unwrap();
            assert!(taken.notices[0].contains("who holds the run lock"), "{:?}", taken.notices);
        });
    }

    #[test]
    #[rule("S-42")]
    fn s42_a_run_knows_the_run_that_waits_for_the_command_it_belongs_to() {
        // 17 runs 20, whose group holds 21; 9 runs 16, whose group holds 17. The leader 40 of 41 has ended, and 50 is a
        // service that 17 adopted, with a child of its own. 21 runs 60, a `timeout` in a group of its own, and that runs 61; 62 is what
        // `setsid` made of a child of 21.
        let family_of = |pid| {
            let (parent, group, session) = match pid {
                9 => (1, 9, 9),
                17 => (16, 16, 9),
                16 => (9, 16, 9),
                20 => (17, 20, 9),
                21 => (20, 20, 9),
                31 => (17, 30, 9),
                30 => (1, 30, 9),
                41 => (17, 40, 9),
                50 => (17, 50, 50),
                51 => (50, 51, 50),
                60 => (21, 60, 9),
                61 => (60, 60, 9),
                62 => (21, 62, 62),
                _ => return None,
            };
            Some(Family { parent, group, session })
        };
        let awaited = |life, marks, me| is_awaited_by(life, marks, me, family_of);
        assert!(awaited("17-4242", "17-4242-3", 21) && awaited("17-4242", "9-1-1:17-4242-3!", 20));
        assert!(awaited("9-1", "9-1-1:17-4242-3", 21), "the run around it");
        assert!(!awaited("17-4242", "17-4242-3", 31), "a group that somebody else leads");
        assert!(!awaited("17-4242", "17-4242-3", 41), "its command is over");
        assert!(!awaited("17-4242", "17-4242-3", 50), "a service");
        for inside in [21, 61, 62] {
            assert!(awaited("17-4242", "17-4242-3", inside), "{inside}");
            assert!(awaited("9-1", "9-1-1:17-4242-3", inside), "{inside}: the run around it");
            assert!(awaited("17-4242", "", inside), "{inside}: `su -` clears the environment");
        }
        for marks in ["17-4242-3", "9-1-1:17-4242-3", ""] {
            assert!(!awaited("17-4242", marks, 51), "a service has children: {marks}");
        }
        assert!(!awaited("9-1", "9-1-1:17-4242-3", 51), "nor does the run around it wait for them");
        for (marks, life) in [("17-4242-3", ""), ("17-4242-3", "17-424"), ("117-4242-3", "7-4242")] {
            assert!(!awaited(life, marks, 21), "{marks} {life}");
        }
        let own = super::family_of(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
    }

    #[test]
    #[rule("C-14")]
    fn c14_a_note_tells_a_run_under_way_from_one_that_was_killed() {
        let temp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(temp.path()).unwrap();
        runtime().block_on(async {
            let never = CancellationToken::new();
            let take = |asked| {
                let (dir, note, never) = (dir.clone(), note(asked), never.clone());
                async move { RunLock::take(&dir, &note, true, &never, |_| {}).await.unwrap() }
            };
            assert_eq!(last_holder(&dir).unwrap(), None);
            let first = take("first").await;
            assert_eq!(last_holder(&dir).unwrap(), Some((note("first"), true)));
            drop(first);
            assert_eq!(last_holder(&dir).unwrap(), Some((note("first"), false)));
            let second = take("second").await;
            assert_eq!(second.killed, Some(note("first")));
            second.release();
            assert_eq!(last_holder(&dir).unwrap(), None);
            assert_eq!(take("third").await.killed, None);
        });
    }
}
