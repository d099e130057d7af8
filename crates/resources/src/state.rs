//! The state of a thing: how it is read, changed and put into words.
//!
//! Kinds share it: `service.running`, `service.dead` and `service.enabled` are three wishes about one [`State`]. It needs
//! nothing but the key of the thing, so that a revert can use it with nothing but a record of the journal.

use crate::claims::ManagedItem;
use crate::context::{Applying, Checking, Explanation, Reverting};
use crate::tree;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use std::future::Future;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;
use zester_host::files::Slot;
use zester_host::overlay::Overlay;
use zester_host::process::read_tools::ReadTool;
use zester_host::{
    BoxFuture, Exit, Fault, FaultKind, HostRead, HostWrite, Launch, NewFile, OutputSink, Owner, Processes,
    Query, Question,
};
use zester_model::limits::FILE_BYTES_MAX;

/// How long a command that changes a thing may take.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(300);
/// What a new file gets that a state writes by the way.
const FILE_MODE: u32 = 0o644;

/// All there is to know about a thing that a state manages: a service, an account, an entry of a table.
///
/// Two states are the same where they serialize alike: what only explains (the words of a manager) is skipped there.
/// Written as a struct, each field is an aspect of its own: a revert takes back those that were changed, and leaves alone
/// what somebody did to the others.
pub trait State: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// What names the thing. It stands in the record, and must be enough to find it again.
    type Key: Serialize + DeserializeOwned + Clone + Send + Sync + 'static;
    /// The manner of a change, which is no part of the state: how long to wait. A revert has the default.
    type How: Default + Clone + Send + Sync + 'static;

    /// The thing as users know it: what claims, messages and the slot of a dry run are about.
    fn item(key: &Self::Key) -> ManagedItem;

    /// How it is now. That it is not there is a state like others; that it cannot be said is a fault.
    fn current(key: &Self::Key, cx: &Read<'_>) -> impl Future<Output = Result<Self, Fault>> + Send;

    /// Changes it from one state to the other. Starts nothing once cancelled.
    fn enforce(step: &Step<'_, Self>, cx: &Write<'_, Self>)
    -> impl Future<Output = Result<(), Fault>> + Send;

    /// The change in words. `done` tells whether it was made or would be.
    fn describe(step: &Step<'_, Self>, _done: bool) -> Explanation {
        step.fields()
    }

    /// How an earlier state of this dry run would have left it.
    fn predicted(key: &Self::Key, host: &dyn HostRead) -> Option<Self> {
        let predicted = host.predicted_state(&slot::<Self>(key))?;
        predicted.downcast_ref::<Self>().cloned()
    }

    /// Notes for a dry run what others look up elsewhere: a user, by its name. The state itself is noted already.
    fn predict(_key: &Self::Key, _to: &Self, _overlay: &Overlay) -> Result<(), Fault> {
        Ok(())
    }

    /// Nothing is left of it that a revert could put back.
    fn is_gone(&self) -> bool {
        false
    }

    /// Whether it may be what a change between these two left that stopped half-way, although it is neither.
    fn is_between(&self, _before: &Self, _after: &Self) -> bool {
        false
    }
}

/// Where a dry run keeps what would become of a thing.
pub(crate) fn slot<S: State>(key: &S::Key) -> Slot {
    Slot::of::<S>(S::item(key).to_string())
}

/// One change of one thing.
pub struct Step<'a, S: State> {
    pub key: &'a S::Key,
    pub from: &'a S,
    pub to: &'a S,
    pub how: &'a S::How,
    /// To be acted on even where both are the same: [`Want::Act`](crate::resource::Want::Act).
    pub acts: bool,
}

impl<S: State> Step<'_, S> {
    /// The words for most: each field that differs, `old → new`.
    pub fn fields(&self) -> Explanation {
        let (from, to) = (as_json(self.from), as_json(self.to));
        let mut explanation = Explanation::default();
        let item = S::item(self.key);
        match (&from, &to) {
            (Json::Object(old), Json::Object(new)) => {
                let names = old.keys().chain(new.keys().filter(|name| !old.contains_key(*name)));
                for name in names {
                    let (old, new) = (old.get(name), new.get(name));
                    if old != new {
                        explanation.tell(&item, name, old.unwrap_or(&Json::Null), new.unwrap_or(&Json::Null));
                    }
                }
            }
            (old, new) if old != new => explanation.tell(&item, "", old, new),
            _ => {}
        }
        explanation
    }
}

impl Explanation {
    /// One line of a diff, and its detail.
    pub(crate) fn tell(&mut self, item: &ManagedItem, field: &str, old: &Json, new: &Json) {
        let name = if field.is_empty() { String::new() } else { format!(" {field}:") };
        self.diff.push_str(&format!("{item}:{name} {} → {}\n", shown(old), shown(new)));
        let key = if field.is_empty() { "state" } else { field };
        self.details.insert(key.to_string(), json!({ "old": old, "new": new }));
    }
}

fn shown(value: &Json) -> String {
    match value {
        Json::Null => "none".to_string(),
        Json::String(text) => text.clone(),
        Json::Array(items) => items.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// What of a state counts: what of it is serialized.
pub(crate) fn as_json<S: State>(state: &S) -> Json {
    serde_json::to_value(state).unwrap_or_default()
}

/// What a look at a thing may use. Nothing in it can change the machine.
#[derive(Copy, Clone)]
pub struct Read<'a> {
    pub host: &'a dyn HostRead,
    /// For what only a program can tell, and for nothing else.
    pub query: Query<'a>,
    pub cancel: &'a CancellationToken,
}

impl<'a> Read<'a> {
    pub(crate) fn of_check(cx: &'a Checking<'_>) -> Read<'a> {
        Read { host: cx.host, query: cx.query, cancel: cx.cancel }
    }

    pub(crate) fn of_revert(cx: &'a Reverting<'_>) -> Read<'a> {
        Read { host: cx.host, query: Query::through(cx.processes), cancel: cx.cancel }
    }

    /// A text of the system, wherever the links inside its path lead; none where there is no such file.
    pub fn text(&self, path: &str) -> Result<Option<String>, Fault> {
        Ok(file_text(self.host, path)?.map(|(text, ..)| text))
    }

    /// What a program tells, whatever its exit code.
    pub async fn ask(&self, tool: ReadTool, words: &[&str]) -> Result<Exit, Fault> {
        let words: Vec<String> = words.iter().map(ToString::to_string).collect();
        self.query.ask(Question::Read { tool, words: &words }, self.cancel).await
    }

    /// The same for an answer that is written back: one that is no UTF-8 would come back damaged.
    pub async fn ask_for_text(&self, what: &str, tool: ReadTool, words: &[&str]) -> Result<Exit, Fault> {
        let exit = self.ask(tool, words).await?;
        if exit.stdout.lossy {
            let message = format!("{what} is not UTF-8 text, and would be written back damaged");
            return Err(Fault::new(FaultKind::Unsupported, message));
        }
        Ok(exit)
    }
}

fn file_text(host: &dyn HostRead, path: &str) -> Result<Option<(String, u32, Owner)>, Fault> {
    let real = tree::behind_links(host, &tree::resolve_again(host, Path::new(path))?)?;
    let Some(meta) = host.stat(&real)? else { return Ok(None) };
    let content = host.read(&real, FILE_BYTES_MAX)?;
    let text = String::from_utf8(content)
        .map_err(|_| Fault::new(FaultKind::Unsupported, format!("{path} is not UTF-8 text")))?;
    Ok(Some((text, meta.mode, Owner { uid: meta.uid, gid: meta.gid })))
}

/// What a change of a thing may use.
pub struct Write<'a, S> {
    pub host: &'a dyn HostWrite,
    pub processes: Launches<'a>,
    pub cancel: &'a CancellationToken,
    /// Takes each line of output of a command, for whoever watches.
    pub live: Option<OutputSink>,
    reached: Mutex<Option<S>>,
}

impl<'a, S> Write<'a, S> {
    pub(crate) fn new(cx: &'a Applying<'_>) -> Write<'a, S> {
        Write {
            host: cx.host,
            processes: Launches { processes: cx.processes, begun: AtomicBool::new(false) },
            cancel: cx.cancel,
            live: cx.live.clone(),
            reached: Mutex::new(None),
        }
    }

    /// Where it really got, if that is not what was wanted: takes its place in the record, however it ends.
    pub fn reached(&self, state: S) {
        *self.reached.lock().unwrap_or_else(PoisonError::into_inner) = Some(state);
    }

    pub(crate) fn take_reached(&self) -> Option<S> {
        self.reached.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Looks again, in the midst of it.
    pub fn read(&self) -> Read<'_> {
        Read { host: self.host, query: Query::through(self.processes.processes), cancel: self.cancel }
    }

    /// Runs a command that changes something; that it does not succeed is a fault.
    pub async fn run(&self, words: &[&str]) -> Result<Exit, Fault> {
        self.launch(Launch::argv(words.iter().copied())).await
    }

    /// The same, with input or environment.
    pub async fn launch(&self, mut launch: Launch) -> Result<Exit, Fault> {
        if self.cancel.is_cancelled() {
            return Err(Fault::canceled());
        }
        launch.environment.push(("LC_ALL".into(), "C".into()));
        launch.timeout.get_or_insert(COMMAND_TIMEOUT);
        let command = match &launch.program {
            zester_host::Program::Shell(text) => text.clone(),
            zester_host::Program::Argv(words) => words.join(" "),
        };
        let exit = self.processes.run(&launch, self.live.clone(), self.cancel).await?;
        match exit.code {
            _ if exit.canceled => Err(Fault::canceled().touched()),
            _ if exit.timed_out => {
                let message = format!("`{command}` did not end in time");
                Err(Fault::new(FaultKind::TimedOut, message).touched())
            }
            Some(0) => Ok(exit),
            _ => Err(exit.failure(&format!("`{command}`"))),
        }
    }

    /// Writes a text of the system in one step, as the file that is there: mode and owner stay.
    pub fn put_text(&self, path: &str, text: &str) -> Result<(), Fault> {
        let present = file_text(self.host, path)?;
        let real = tree::behind_links(self.host, &tree::resolve_again(self.host, Path::new(path))?)?;
        let (mode, owner) = present.map_or((FILE_MODE, self.host.me()), |(_, mode, owner)| (mode, owner));
        self.host.put_file(&real, &NewFile { content: text.as_bytes(), mode, owner })
    }
}

/// Processes that remember whether one was started: how far it got only it knows (S-43).
pub struct Launches<'a> {
    processes: &'a dyn Processes,
    begun: AtomicBool,
}

impl Launches<'_> {
    pub(crate) fn begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }
}

impl Processes for Launches<'_> {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        Box::pin(async move {
            let ended = self.processes.run(launch, live, cancel).await;
            let never = matches!(&ended, Err(Fault { kind: FaultKind::NotFound | FaultKind::Canceled, .. }));
            self.begun.fetch_or(!never, Ordering::Relaxed);
            ended
        })
    }
}

/// What a record of the journal holds of a change.
#[derive(Serialize, serde::Deserialize)]
#[serde(bound = "")]
pub(crate) struct Record<S: State> {
    pub(crate) key: S::Key,
    pub(crate) from: S,
    pub(crate) to: S,
}
