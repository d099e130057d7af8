//! What a peel watches on its machine: one file a beacon.
//!
//! A beacon has two halves. `look` reads a sample from the machine; `decide` takes the sample and the time and says what is
//! worth an event. The second does no IO and reads no clock, so that it is tested by tables. Everything that is on or off
//! (a service, a full disk, an interface) decides by one machine, [`level::Levels`], which knows `for`, `onchange` and
//! `emit_at_start`. A line in the list below registers a file.
//!
//! When to look, and where events go, is the business of whoever runs them.

pub mod level;
pub mod limits;
mod params;
mod settings;

pub use settings::{BeaconError, Entry, read};

use level::When;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use zester_host::{BoxFuture, HostRead, Processes};
use zester_model::node::{Mismatch, Node};

/// The data of an event.
pub type Data = serde_json::Map<String, serde_json::Value>;

/// What a beacon looks with.
#[derive(Clone)]
pub struct Eyes {
    pub files: Arc<dyn HostRead>,
    pub processes: Arc<dyn Processes>,
    /// Where `/proc` and `/sys` are: `/`, but for tests.
    pub root: PathBuf,
}

impl Eyes {
    /// The text of a small file of the system.
    async fn text(&self, path: &str) -> Result<String, String> {
        let path = self.root.join(path.trim_start_matches('/'));
        blocking(move || {
            let text = std::fs::read_to_string(&path);
            text.map_err(|error| format!("cannot read {}: {}", path.display(), plain(&error)))
        })
        .await
    }
}

/// When a sample was taken.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// Since some beginning, on a clock that only goes forward.
    pub run: Duration,
    /// Seconds since 1970.
    pub wall: u64,
}

/// A sample, and what could not be seen.
#[derive(Debug)]
pub struct Seen<S> {
    pub sample: S,
    /// In words. What is named here is neither on nor off.
    pub problems: Vec<String>,
}

impl<S> Seen<S> {
    fn all(sample: S) -> Seen<S> {
        Seen { sample, problems: Vec::new() }
    }
}

/// One kind of beacon.
pub trait Kind: Send + Sized + 'static {
    /// What `beacons:` calls it.
    const NAME: &'static str;
    /// What Salt calls it.
    const ALIASES: &'static [&'static str] = &[];
    /// How often it looks where nobody says.
    const INTERVAL: Duration;
    /// A sample that was taken while the machine was being changed is none. Not so where a look takes something away.
    const DISCARDS: bool = true;
    type Config: DeserializeOwned;
    type Sample: Serialize + Send + Sync;

    fn new(config: Self::Config, when: When) -> Result<Self, String>;
    /// Reads what there is. That nothing can be said is an error.
    fn look(&mut self, eyes: &Eyes) -> impl Future<Output = Result<Seen<Self::Sample>, String>> + Send;
    /// The events of a sample. Pure.
    fn decide(&mut self, sample: &Self::Sample, now: Moment) -> Vec<Data>;
    /// Told when there may be something to see before the next look is due.
    fn wake(&self) -> Option<Arc<Notify>> {
        None
    }
}

/// What one look came to.
#[derive(Debug, PartialEq)]
pub enum Looked {
    Sampled {
        sample: serde_json::Value,
        problems: Vec<String>,
        events: Vec<Data>,
    },
    /// The machine was being changed meanwhile.
    Discarded,
}

/// A beacon of any kind.
pub trait Beacon: Send {
    /// Looks once. `now` is asked, and `counts` whether the sample counts, when it was taken.
    fn poll<'a>(
        &'a mut self,
        eyes: &'a Eyes,
        now: &'a (dyn Fn() -> Moment + Send + Sync),
        counts: &'a (dyn Fn() -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<Looked, String>>;
    fn wake(&self) -> Option<Arc<Notify>>;
}

impl<K: Kind> Beacon for K {
    fn poll<'a>(
        &'a mut self,
        eyes: &'a Eyes,
        now: &'a (dyn Fn() -> Moment + Send + Sync),
        counts: &'a (dyn Fn() -> bool + Send + Sync),
    ) -> BoxFuture<'a, Result<Looked, String>> {
        Box::pin(async move {
            let Seen { sample, problems } = self.look(eyes).await?;
            if K::DISCARDS && !counts() {
                return Ok(Looked::Discarded);
            }
            let events = self.decide(&sample, now());
            let sample = serde_json::to_value(&sample).unwrap_or_default();
            Ok(Looked::Sampled { sample, problems, events })
        })
    }

    fn wake(&self) -> Option<Arc<Notify>> {
        Kind::wake(self)
    }
}

/// A kind without its type.
pub(crate) struct KindEntry {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) interval: Duration,
    pub(crate) build: Build,
}

type Build = fn(&Node, When) -> Result<Box<dyn Beacon>, Mismatch>;

impl KindEntry {
    const fn of<K: Kind>() -> KindEntry {
        KindEntry { name: K::NAME, aliases: K::ALIASES, interval: K::INTERVAL, build: build::<K> }
    }
}

fn build<K: Kind>(node: &Node, when: When) -> Result<Box<dyn Beacon>, Mismatch> {
    let beacon = K::new(node.read()?, when).map_err(|why| Mismatch::with_advice(&why))?;
    Ok(Box::new(beacon))
}

/// One line a file.
macro_rules! beacons {
    ($($file:ident: $kind:ident;)+) => {
        $(mod $file;)+

        pub(crate) static KINDS: &[KindEntry] = &[$(KindEntry::of::<$file::$kind>()),+];

        #[cfg(test)]
        const FILES: &[&str] = &[$(stringify!($file)),+];
    };
}

beacons! {
    service: Service;
    disk: Disk;
    memory: Memory;
    load: Load;
    file: Files;
    process: Process;
    log: Log;
    network: Network;
    certificate: Certificate;
}

/// The names of all kinds.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// Looks at files where a dead file server holds up nobody else.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, String> + Send + 'static,
) -> Result<T, String> {
    let ended = tokio::task::spawn_blocking(work).await;
    ended.unwrap_or_else(|error| Err(format!("the look ended unexpectedly: {error}")))
}

/// The system's words without the `(os error 2)`.
fn plain(error: &std::io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_lowercase()
}

/// A path as a key of samples and events.
fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use zester_rule::rule;

    #[test]
    #[rule("R-21")]
    fn r21_every_beacon_is_one_file_and_one_line() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let shared = ["lib", "level", "limits", "params", "settings"];
        let mut files: Vec<String> = std::fs::read_dir(source)
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
            .filter(|name| !shared.contains(&name.as_str()))
            .collect();
        files.sort();
        let mut registered = FILES.to_vec();
        registered.sort_unstable();
        assert_eq!(files, registered);
        assert_eq!(kinds().collect::<Vec<_>>(), FILES);
    }
}
