//! Secrets of a run: the machine's key, the pass that opens settings, and everything that keeps what is opened from being
//! shown (D-6, D-15).
//!
//! From the settings on there are only placeholders. [`zester_host::Launch`] and the content of files get the secrets; what
//! a run tells (results, live view, diagnostics, answers) goes through the functions here.

pub(crate) mod by_name;

use crate::data_dir::DataDir;
use crate::error::Error;
use crate::local_host::LocalHost;
use crate::run_loop::Observer;
use serde_json::Value as Json;
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use zester_host::{BoxFuture, Exit, Fault, FaultKind, Launch, OutputSink, Processes};
use zester_model::diagnostic::{Diagnostic, Kind};
use zester_model::limits;
use zester_model::name::StateName;
use zester_model::outcome::{RunResult, StateResult};
use zester_model::program::{Program, State};
use zester_model::secret::holds_placeholder;
use zester_model::source::{Sources, Span};
use zester_resources::context::BlobStore;
use zester_secret::{PrivateKey, Secrets, Unopened, free_name, open_settings};

/// Where the key of a machine is, in its data dir.
pub const KEY_FILE: &str = "secret.key";
const OTHERS: u32 = 0o077;

/// Chance of the machine, and whether it was to be had.
#[derive(Default)]
pub struct Random {
    failed: bool,
}

impl Random {
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.failed |= getrandom::fill(bytes).is_err();
    }

    /// To be asked before anything that was made with it is used.
    pub fn check(&self) -> Result<(), Error> {
        match self.failed {
            true => Err(Error::other("this machine gives no random numbers")),
            false => Ok(()),
        }
    }
}

/// Reads a key file. One that others can read is refused: it is no secret any more.
pub fn read_key(path: &Path) -> Result<PrivateKey, Error> {
    let fail = |error| Error::io("read the key", path, error);
    let mode = std::fs::metadata(path).map_err(fail)?.permissions().mode();
    if mode & OTHERS != 0 {
        let path = path.display();
        return Err(Error::other(format!("others can read the key {path}; `chmod 600 {path}` ends that")));
    }
    let text = zeroize::Zeroizing::new(std::fs::read_to_string(path).map_err(fail)?);
    PrivateKey::parse(&text).map_err(|why| Error::other(format!("{}: {why}", path.display())))
}

/// The key of a machine, if it has one.
pub fn key(data_dir: &Path) -> Result<Option<PrivateKey>, Error> {
    let path = data_dir.join(KEY_FILE);
    match path.symlink_metadata() {
        Ok(_) => read_key(&path).map(Some),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("read the key", &path, error)),
    }
}

/// The key of a machine, made where there is none yet. Of two who make one at once, both get the first.
pub fn key_or_new(data_dir: &DataDir) -> Result<PrivateKey, Error> {
    if let Some(key) = key(data_dir.root())? {
        return Ok(key);
    }
    let path = data_dir.path(KEY_FILE);
    let fail = |error| Error::io("write the key", &path, error);
    let mut random = Random::default();
    let made = PrivateKey::make(&mut |bytes| random.fill(bytes));
    random.check()?;
    // Readable for its owner alone, as every file that is made like this.
    let mut file = tempfile::NamedTempFile::new_in(data_dir.root()).map_err(fail)?;
    file.write_all(made.to_file_text().as_bytes()).map_err(fail)?;
    file.as_file().sync_all().map_err(fail)?;
    match file.persist_noclobber(&path) {
        Ok(_) => std::fs::File::open(data_dir.root()).and_then(|dir| dir.sync_all()).map_err(fail)?,
        Err(error) if error.error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(fail(error.error)),
    }
    read_key(&path)
}

/// Opens the secrets of finished settings. Without a data dir they stay closed, and what stands for them means nothing:
/// for those who only look at files (`lint`).
pub fn open(
    settings: &mut Json,
    data_dir: Option<&Path>,
    gpg: zester_secret::Gpg<'_>,
) -> Result<Secrets, Error> {
    let (mut secrets, mut random) = (Secrets::default(), Random::default());
    let sealed = zester_secret::sealed_in(settings);
    if sealed.is_empty() {
        return Ok(secrets);
    }
    let opened = match data_dir {
        Some(data_dir) => {
            let key = key(data_dir)?;
            open_settings(settings, key.as_ref(), gpg, &mut secrets, &mut |bytes| random.fill(bytes))
        }
        None => {
            zester_secret::close_settings(settings, &mut secrets, &mut |bytes| random.fill(bytes));
            Ok(())
        }
    };
    random.check()?;
    opened.map(|()| secrets).map_err(unopened)
}

/// Each at the place where the user wrote it.
fn unopened(found: Vec<Unopened>) -> Error {
    let mut sources = Sources::default();
    let mut diagnostics = Vec::new();
    for Unopened { place, message, hint, .. } in found {
        let span = place.as_deref().and_then(|place| span_of(place, &mut sources));
        let message = match (&span, place) {
            (None, Some(place)) => format!("{place}: {message}"),
            _ => message,
        };
        let diagnostic = Diagnostic::new(Kind::Settings, message).hint(hint);
        diagnostics.push(Diagnostic { span, ..diagnostic });
    }
    Error::Diagnostics { diagnostics, sources: Box::new(sources) }
}

/// `settings/db.zy:3:13`, if the file is still there.
fn span_of(place: &str, sources: &mut Sources) -> Option<Span> {
    let mut parts = place.rsplitn(3, ':');
    let (column, line) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    let path = parts.next()?;
    let size = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?.len();
    if size > limits::SOURCE_BYTES_MAX as u64 {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let file = sources.add(path, text.as_str());
    Some(Span::new(file, line, column, 1))
}

impl LocalHost {
    /// The same machine, whose commands get the secrets that are meant for them. `hides`: what they print goes to people,
    /// so no secret is left in it; a template gets placeholders again, which it may go on with as with any other.
    pub fn with_secrets(&self, secrets: &Arc<Secrets>, hides: bool) -> LocalHost {
        let mut host = self.clone();
        if !secrets.is_empty() {
            let (inner, secrets) = (host.processes, secrets.clone());
            host.processes = Arc::new(SecretProcesses { inner, secrets, hides });
        }
        host
    }
}

struct SecretProcesses {
    inner: Arc<dyn Processes>,
    secrets: Arc<Secrets>,
    hides: bool,
}

impl Processes for SecretProcesses {
    fn run<'a>(
        &'a self,
        launch: &'a Launch,
        live: Option<OutputSink>,
        cancel: &'a CancellationToken,
    ) -> BoxFuture<'a, Result<Exit, Fault>> {
        if launch.secrets.is_some() {
            return self.inner.run(launch, live, cancel);
        }
        let launch =
            Launch { secrets: Some(self.secrets.clone()), hides_secrets: self.hides, ..launch.clone() };
        Box::pin(async move { self.inner.run(&launch, live, cancel).await })
    }

    fn kill_everything(&self) -> BoxFuture<'_, Vec<u32>> {
        self.inner.kill_everything()
    }
}

/// Shows nobody a secret who watches a run.
pub(crate) struct HidingObserver {
    pub(crate) inner: Arc<dyn Observer>,
    pub(crate) secrets: Arc<Secrets>,
}

impl Observer for HidingObserver {
    fn level(&self, level: usize, states: usize) {
        self.inner.level(level, states);
    }

    fn started(&self, name: &str, doing: &'static str) {
        self.inner.started(&self.secrets.hide(name), doing);
    }

    fn ended(&self, result: &StateResult) {
        let mut result = result.clone();
        hide_in_state(&mut result, &self.secrets);
        self.inner.ended(&result);
    }

    fn output(&self, name: &str, line: &str) {
        self.inner.output(&self.secrets.hide(name), &self.secrets.hide(line));
    }

    fn notice(&self, text: &str) {
        self.inner.notice(&self.secrets.hide(text));
    }
}

fn hide_in_state(result: &mut StateResult, secrets: &Secrets) {
    for text in [&mut result.name, &mut result.diff, &mut result.error, &mut result.skip_reason] {
        secrets.hide_in(text);
    }
    result.details.values_mut().for_each(|value| secrets.hide_in_json(value));
}

/// The result of a run, as anybody may see it.
pub(crate) fn hide_in_result(result: &mut RunResult, secrets: &Secrets) {
    if secrets.is_empty() {
        return;
    }
    secrets.hide_in(&mut result.error);
    let states = std::mem::take(&mut result.states);
    for (name, mut state) in states {
        hide_in_state(&mut state, secrets);
        let shown = secrets.hide(&name).into_owned();
        let name = free_name(shown, |name| result.states.contains_key(name));
        result.states.insert(name, state);
    }
}

/// What a state is called from here on, in the journal and wherever it is shown. A placeholder in a name is refused; what is
/// meant here is the secret itself, in the clear. Its requisites know each other by number.
pub(crate) fn hide_in_names(program: &mut Program, secrets: &Secrets) {
    let hidden = |state: &State| match secrets.hide(state.name.id()) {
        Cow::Owned(shown) if !holds_placeholder(state.name.id()) => Some(shown),
        _ => None,
    };
    let clear = program.states.iter().filter(|state| hidden(state).is_none());
    let mut taken: BTreeSet<StateName> = clear.map(|state| state.name.clone()).collect();
    for state in &mut program.states {
        let Some(shown) = hidden(state) else { continue };
        let kind = state.name.kind();
        let id = free_name(shown, |id| taken.contains(&StateName::new(kind, id)));
        state.name = StateName::new(kind, &id);
        taken.insert(state.name.clone());
    }
}

pub(crate) fn hide_in_diagnostic(diagnostic: &mut Diagnostic, secrets: &Secrets) {
    secrets.hide_in(&mut diagnostic.message);
    let labels = diagnostic.labels.iter_mut().map(|label| &mut label.text);
    for text in diagnostic.hint.iter_mut().chain(labels).chain(diagnostic.notes.iter_mut()) {
        secrets.hide_in(text);
    }
}

/// An error, as anybody may see it.
pub(crate) fn hidden(error: Error, secrets: &Secrets) -> Error {
    match error {
        Error::Diagnostics { mut diagnostics, sources } => {
            diagnostics.iter_mut().for_each(|diagnostic| hide_in_diagnostic(diagnostic, secrets));
            Error::Diagnostics { diagnostics, sources }
        }
        Error::Other(message) => Error::Other(secrets.hide(&message).into_owned()),
        other => other,
    }
}

/// Before-images under the key of the machine, where it has one: what a file held may be the secret of yesterday.
pub(crate) struct SealedImages<'a> {
    pub(crate) store: &'a dyn BlobStore,
    pub(crate) key: Option<&'a PrivateKey>,
}

impl BlobStore for SealedImages<'_> {
    fn keep(&self, content: &[u8]) -> Result<String, Fault> {
        let Some(key) = self.key else { return self.store.keep(content) };
        let unsealed = || Fault::new(FaultKind::Io, "a before-image could not be encrypted");
        self.store.keep(&key.seal_image(content).ok_or_else(unsealed)?)
    }

    fn fetch(&self, name: &str) -> Result<Vec<u8>, Fault> {
        let content = self.store.fetch(name)?;
        if !PrivateKey::is_image(&content) {
            return Ok(content);
        }
        let closed = || {
            let message = format!("the before-image {name} cannot be opened: it was kept under another key");
            Fault::new(FaultKind::Io, message)
                .hint(format!("put the {KEY_FILE} of that time back into the data directory"))
        };
        self.key.and_then(|key| key.open_image(&content)).ok_or_else(closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("D-15")]
    fn d15_a_machine_makes_its_key_once_and_refuses_one_that_others_can_read() {
        let temp = tempfile::tempdir().unwrap();
        assert!(key(temp.path()).unwrap().is_none());
        let data_dir = DataDir::open(temp.path()).unwrap();
        let first = key_or_new(&data_dir).unwrap().public();
        assert_eq!(key_or_new(&data_dir).unwrap().public(), first);
        let path = temp.path().join(KEY_FILE);
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
        let told = key(temp.path()).err().unwrap().to_string();
        assert!(told.contains("others can read the key"), "{told}");
    }

    #[test]
    #[rule("D-15")]
    fn d15_a_secret_in_the_name_of_a_state_is_not_shown_and_no_state_is_lost() {
        let (mut secrets, mut random) = (Secrets::default(), Random::default());
        for value in ["hunter2", "hunter3"] {
            secrets.add(value.to_string().into(), &mut |bytes| random.fill(bytes));
        }
        let states = ["x-hunter2", "x-hunter3", "y"]
            .map(|name| StateResult { name: name.into(), ..StateResult::default() });
        let mode = zester_model::outcome::Mode::Apply;
        let mut result = RunResult::new(mode, "r".into(), false, 0, states.to_vec());
        hide_in_result(&mut result, &secrets);
        let names: Vec<&String> = result.states.keys().collect();
        assert_eq!(names, ["x-<secret>", "x-<secret> (2)", "y"]);
        assert!(!serde_json::to_string(&result).unwrap().contains("hunter"));
    }
}
