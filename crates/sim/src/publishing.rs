//! What simulated masters publish, and what simulated peels hold of it (D-1 … D-4, D-14).
//!
//! Every file of a version names it, and each version has a file that no other has, so that what is no version, but pieces of
//! two, is seen for what it is.

use crate::Mutation;
use crate::dice::Dice;
use crate::judge::Invariant;
use crate::node::{Environment, Node};
use crate::observed::Observed;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use zester_bus::Bytes;
use zester_link::Link;
use zester_master::{Checkout, OriginTree, TreeOrigin};
use zester_publish::{BadPath, Cache, Error, MemoryCache, Pages, Tree, TreePath, file_of};
use zester_wire::{ContentHash, Key, Lease, Manifest, Published, Revision, Token};

pub const WHAT: Published = Published::States;

/// How often a simulated master looks at its directory.
const LOOKED_AT_EVERY: Duration = Duration::from_secs(4);
/// How long each step of a swap in place takes.
const STEP: Duration = Duration::from_millis(20);

type Files = BTreeMap<TreePath, Vec<u8>>;
type Work<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

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

/// The cache of a peel, which outlives its process. What a run would see is looked at after every step of a swap, because one
/// may begin then.
pub struct PeelCache {
    peel: String,
    cache: MemoryCache,
    /// What a run would see.
    live: Mutex<Files>,
    /// Contents that the disk spoiled, where nobody noticed.
    spoiled: Mutex<BTreeSet<ContentHash>>,
    dice: Dice,
    mutation: Mutation,
    observed: Observed,
}

impl PeelCache {
    pub fn new(peel: &str, environment: &Environment) -> PeelCache {
        PeelCache {
            peel: peel.into(),
            cache: MemoryCache::default(),
            live: Mutex::default(),
            spoiled: Mutex::default(),
            dice: Dice::new(environment.seed, &format!("cache {peel}")),
            mutation: environment.mutation,
            observed: environment.observed.clone(),
        }
    }

    /// Whether a run that began now would see one version and nothing else.
    fn look(&self) {
        let live = lock(&self.live);
        let versions: BTreeSet<String> = live
            .values()
            .map(|bytes| String::from_utf8_lossy(bytes).rsplit(' ').next().unwrap_or_default().to_string())
            .collect();
        let version = versions.first().and_then(|version| version.parse().ok()).unwrap_or(0);
        if files_of(version).ok().as_ref() != Some(&*live) {
            let names: Vec<String> = live.keys().map(ToString::to_string).collect();
            let what = format!("a run on {} would see pieces of {versions:?}: {names:?}", self.peel);
            self.observed.wrong(Invariant::NoMixedTree, what);
        }
    }

    /// File after file, with a moment in between.
    async fn swap_in_place(&self, files: Files) {
        let gone: Vec<TreePath> =
            lock(&self.live).keys().filter(|path| !files.contains_key(*path)).cloned().collect();
        for (path, bytes) in files {
            lock(&self.live).insert(path, bytes);
            self.look();
            tokio::time::sleep(STEP).await;
        }
        for path in gone {
            lock(&self.live).remove(&path);
        }
        self.look();
    }

    fn root(&self) -> Option<ContentHash> {
        Pages::of(&tree_of(&lock(&self.live))).ok().map(|pages| pages.root)
    }
}

impl Cache for PeelCache {
    fn current(&self) -> Option<Revision> {
        self.cache.current()
    }

    fn lacks<'a>(&'a self, tree: &'a Tree) -> Work<'a, Vec<ContentHash>> {
        self.cache.lacks(tree)
    }

    /// A disk gives back something else now and then; whoever checks what it reads notices.
    fn keep<'a>(&'a self, hash: &'a ContentHash, content: Bytes) -> Work<'a, ()> {
        Box::pin(async move {
            if self.dice.happens(50) {
                self.observed.count("spoiled content");
                if self.mutation != Mutation::NoHashCheck {
                    return Err(Error::tampered(hash));
                }
                lock(&self.spoiled).insert(hash.clone());
            }
            self.cache.keep(hash, content).await
        })
    }

    fn swap<'a>(&'a self, revision: &'a Revision, manifest: &'a Manifest, tree: &'a Tree) -> Work<'a, ()> {
        Box::pin(async move {
            self.cache.swap(revision, manifest, tree).await?;
            self.observed.count("new tree in place");
            let mut files = self.cache.files();
            for (path, file) in &tree.files {
                if file.contents().iter().any(|hash| lock(&self.spoiled).contains(hash)) {
                    files.insert(path.clone(), b"spoiled".to_vec());
                }
            }
            if self.mutation == Mutation::SwapInPlace {
                self.swap_in_place(files).await;
            } else {
                *lock(&self.live) = files;
                self.look();
            }
            Ok(())
        })
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
