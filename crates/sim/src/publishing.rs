//! What simulated masters publish, and what simulated peels hold of it (D-1 … D-4, D-14).
//!
//! Every file of a version names it, and each version has a file that no other has, so that what is no version, but pieces of
//! two, is seen for what it is.

use crate::dice::Dice;
use crate::judge::Invariant;
use crate::node::{Environment, Node};
use crate::observed::Observed;
use crate::tree_disk::MemoryDisk;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zester_link::Link;
use zester_master::{Checkout, OriginTree, TreeOrigin};
use zester_peel::published::DiskCache;
use zester_publish::{BadPath, Error, Pages, Tree, TreePath, file_of};
use zester_wire::{ContentHash, Key, Lease, Published, Revision, Token};

pub const WHAT: Published = Published::States;

/// How often a simulated master looks at its directory.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(4);
/// Where a simulated peel has its states.
const LIVE: &str = "/states";

type Files = BTreeMap<TreePath, Vec<u8>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The files of a version; none of version 0.
fn files_of(version: u64) -> Result<Files, BadPath> {
    let names = ["top.zy".to_string(), "web/init.zy".into(), "a file".into(), format!("only-{version}.zy")];
    let names = names.into_iter().filter(|_| version > 0);
    names.map(|name| Ok((TreePath::parse(&name)?, format!("{name} of {version}").into_bytes()))).collect()
}

fn tree_of(files: &Files) -> Tree {
    Tree { files: files.iter().map(|(path, bytes)| (path.clone(), file_of(bytes, 0o644))).collect() }
}

/// The directory of a master, which outlives its process. Holds a version.
#[derive(Clone, Default)]
pub struct MasterTree(Arc<Mutex<u64>>);

impl MasterTree {
    pub fn set(&self, version: u64) {
        *lock(&self.0) = version;
    }

    fn root(&self) -> Option<ContentHash> {
        let files = files_of(*lock(&self.0)).ok()?;
        Pages::of(&tree_of(&files)).ok().map(|pages| pages.root)
    }
}

impl TreeOrigin for MasterTree {
    fn checkout(&self) -> futures_util::future::BoxFuture<'_, Result<Checkout, String>> {
        let checkout = Checkout { directory: PathBuf::from("states"), commit: String::new() };
        Box::pin(std::future::ready(Ok(checkout)))
    }

    fn read(&self) -> futures_util::future::BoxFuture<'_, Result<OriginTree, String>> {
        Box::pin(async move {
            let files = files_of(*lock(&self.0)).map_err(|bad| bad.to_string())?;
            let checkout = self.checkout().await?;
            Ok(OriginTree { checkout, tree: tree_of(&files), content: Arc::new(files) })
        })
    }

    fn words(&self) -> String {
        "states".into()
    }

    fn watched(&self) -> Option<&Path> {
        None
    }

    fn every(&self) -> Duration {
        LOOKED_AT_EVERY
    }
}

/// The cache of a peel: the product's, on a disk that outlives its process.
pub struct PeelCache {
    disk: Arc<MemoryDisk>,
}

impl PeelCache {
    pub fn new(peel: &str, environment: &Environment) -> PeelCache {
        let dice = Dice::new(environment.seed, &format!("cache {peel}"));
        let (name, observed) = (peel.to_string(), environment.observed.clone());
        let look = move |live| look(&name, &live, &observed);
        let taken = (environment.mutation, environment.observed.clone());
        PeelCache { disk: Arc::new(MemoryDisk::new(Path::new(LIVE), dice, taken, look)) }
    }

    /// What a process that starts finds of it.
    pub fn open(&self) -> Result<DiskCache, Error> {
        DiskCache::open_on(self.disk.clone(), Path::new(LIVE))
    }

    fn root(&self) -> Option<ContentHash> {
        Pages::of(&tree_of(&by_path(&self.disk.live())?)).ok().map(|pages| pages.root)
    }
}

fn by_path(live: &BTreeMap<String, Vec<u8>>) -> Option<Files> {
    live.iter().map(|(path, bytes)| Some((TreePath::parse(path).ok()?, bytes.clone()))).collect()
}

/// Whether a run that began now would see one version and nothing else.
fn look(peel: &str, live: &BTreeMap<String, Vec<u8>>, observed: &Observed) {
    let versions: BTreeSet<String> = live
        .values()
        .map(|bytes| String::from_utf8_lossy(bytes).rsplit(' ').next().unwrap_or_default().to_string())
        .collect();
    let version = versions.first().and_then(|version| version.parse().ok()).unwrap_or(0);
    if files_of(version).ok() != by_path(live) {
        let names: Vec<&String> = live.keys().collect();
        let what = format!("a run on {peel} would see pieces of {versions:?}: {names:?}");
        observed.wrong(Invariant::NoMixedTree, what);
    }
}

/// Where the fleet stands when all faults are over.
pub enum TreesAre {
    /// Everybody has what the master wants that publishes.
    Settled,
    Not(Invariant, String),
}

/// Looks whether the tree of the master that holds the lease counts, and whether every peel has it.
pub async fn trees_are(link: &Link, masters: &[Node], peels: &[Node]) -> Result<TreesAre, zester_bus::Error> {
    let not = |invariant, what: String| Ok(TreesAre::Not(invariant, what));
    let Ok(name) = Token::parse("publisher") else {
        return not(Invariant::SimulatorWorks, "no such lease".into());
    };
    let holder = link.get_latest::<Lease>(&Key::Lease(name)).await.map_err(bus)?;
    let Some(holder) = holder.map(|found| found.value.holder) else {
        return not(Invariant::HolderDecides, "nobody holds the lease".into());
    };
    let wanted = masters.iter().find(|node| node.name == holder.name()).and_then(|node| node.tree.root());
    let published = link.get_latest::<Revision>(&Key::Revision(WHAT)).await.map_err(bus)?;
    let Some(published) = published.map(|found| found.value) else {
        // Whoever has an empty directory wipes nothing, and publishes nothing.
        return Ok(TreesAre::Settled);
    };
    let empty = Pages::of(&Tree::default()).ok().map(|pages| pages.root);
    if wanted.as_ref() != Some(&published.root) && wanted != empty {
        let what = format!("revision {} is not what {holder} has", published.revision);
        return not(Invariant::HolderDecides, what);
    }
    for peel in peels {
        if peel.cache.root().as_ref() != Some(&published.root) {
            let what = format!("{} does not have revision {}", peel.name, published.revision);
            return not(Invariant::PeelsGetTheTree, what);
        }
    }
    Ok(TreesAre::Settled)
}

fn bus(error: zester_link::Error) -> zester_bus::Error {
    zester_bus::Error::new(zester_bus::Kind::Timeout, error.to_string())
}
