//! The store of a real peel: a directory with a ledger that only grows and one file for each return.
//!
//! ```text
//! <data-dir>/peel.lock           one peel a directory; the kernel frees it with its holder
//! <data-dir>/ledger              what was taken on and what became of it, a line for each batch of news
//! <data-dir>/outbox/<jid>.<n>    the return of one dispatch
//! ```
//!
//! A return and that its dispatch has returned are one step: the file appears whole, by its rename, and a dispatch whose
//! file is there has returned, whatever its line says.

mod ledger;
mod outbox;
mod syncs;

use self::ledger::{Ledger, Record};
use self::outbox::{OUTBOX_BYTES_MAX, Outbox};
use self::syncs::RealSyncs;
pub use self::syncs::SyncCalls;
use super::{BoxFuture, Store, StoreError, returned};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;
use zester_jobs::dedup::{Dispatch, DispatchState, Entry};
use zester_wire::Return;

/// Cheap to clone; all clones write the same files.
#[derive(Clone)]
pub struct FileStore {
    shared: Arc<Shared>,
}

struct Shared {
    ledger: Mutex<Ledger>,
    outbox: Outbox,
    news: Mutex<News>,
    _lock: File,
}

/// What waits to be written: everything that comes during one sync shares the next.
#[derive(Default)]
struct News {
    records: Vec<Record>,
    told: Vec<oneshot::Sender<Result<(), String>>>,
    /// A writer is on its way and will take everything that is here.
    scheduled: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The sentence for a file that could not be used.
fn io_error(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError(format!("cannot {doing} {}: {error}", path.display()))
}

impl FileStore {
    /// Opens the directory, or makes it. Fails when another peel uses it, or when its ledger is damaged.
    pub fn open(dir: &Path) -> Result<FileStore, StoreError> {
        FileStore::open_within(dir, OUTBOX_BYTES_MAX)
    }

    /// The same for a peel whose returns may take so many bytes of the disk.
    pub fn open_within(dir: &Path, outbox_bytes_max: u64) -> Result<FileStore, StoreError> {
        FileStore::open_on(Arc::new(RealSyncs), dir, outbox_bytes_max)
    }

    /// The same on a disk that may refuse to keep what was written.
    pub fn open_on(
        disk: Arc<dyn SyncCalls>,
        dir: &Path,
        outbox_bytes_max: u64,
    ) -> Result<FileStore, StoreError> {
        make_private(dir)?;
        let lock = take_lock(&dir.join("peel.lock"))?;
        let shared = Shared {
            ledger: Mutex::new(Ledger::open(&dir.join("ledger"), disk.clone())?),
            outbox: Outbox::open(&dir.join("outbox"), outbox_bytes_max, disk)?,
            news: Mutex::default(),
            _lock: lock,
        };
        Ok(FileStore { shared: Arc::new(shared) })
    }

    /// In the order of the calls; done when it is synced.
    fn record(&self, records: Vec<Record>) -> BoxFuture<'_, Result<(), StoreError>> {
        let (tell, told) = oneshot::channel();
        let mut news = locked(&self.shared.news);
        news.records.extend(records);
        news.told.push(tell);
        if !std::mem::replace(&mut news.scheduled, true) {
            let shared = self.shared.clone();
            tokio::task::spawn_blocking(move || write_news(shared));
        }
        drop(news);
        Box::pin(async move {
            match told.await {
                Ok(result) => result.map_err(StoreError),
                Err(_) => Err(StoreError("the writer of the ledger ended".into())),
            }
        })
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let shared = self.shared.clone();
        match tokio::task::spawn_blocking(move || work(&shared)).await {
            Ok(result) => result,
            Err(error) => Err(StoreError(format!("the store ended unexpectedly: {error}"))),
        }
    }
}

/// Whoever waits for the ledger takes what came meanwhile along.
fn write_news(shared: Arc<Shared>) {
    let mut ledger = locked(&shared.ledger);
    let mut news = locked(&shared.news);
    news.scheduled = false;
    let (records, told) = (std::mem::take(&mut news.records), std::mem::take(&mut news.told));
    drop(news);
    let result = ledger.append(records).map_err(|error| error.0);
    drop(ledger);
    // Before anybody is told: whoever closes the store then may open it again at once.
    drop(shared);
    for tell in told {
        // Nobody waits any more: a peel that was dropped.
        let _gone = tell.send(result.clone());
    }
}

impl Shared {
    fn load(&self) -> Result<Vec<Entry>, StoreError> {
        let mut entries = locked(&self.ledger).entries();
        for dispatch in self.outbox.list()? {
            match entries.get_mut(&dispatch) {
                Some(entry) if entry.state == DispatchState::Accepted => {
                    entry.state = DispatchState::Returned { delivered: false };
                }
                Some(_) => {}
                None => match self.outbox.read(&dispatch) {
                    Ok(Some(ret)) => {
                        entries.insert(dispatch.clone(), returned(&dispatch, None, &ret));
                    }
                    Ok(None) => {}
                    // Without its line nobody asks for it; the file stays for whoever looks into it.
                    Err(error) => tracing::error!("a stored return is left aside: {error}"),
                },
            }
        }
        Ok(entries.into_values().collect())
    }
}

impl Store for FileStore {
    fn load(&self) -> BoxFuture<'_, Result<Vec<Entry>, StoreError>> {
        Box::pin(self.blocking(Shared::load))
    }

    fn put_entry(&self, entry: Entry) -> BoxFuture<'_, Result<(), StoreError>> {
        self.record(vec![Record::put(&entry)])
    }

    fn put_return(&self, ret: Return) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.blocking(move |shared| shared.outbox.write(&ret)))
    }

    fn get_return(&self, dispatch: Dispatch) -> BoxFuture<'_, Result<Option<Return>, StoreError>> {
        Box::pin(self.blocking(move |shared| shared.outbox.read(&dispatch)))
    }

    fn check(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(self.blocking(|shared| shared.outbox.check()))
    }

    /// The files first: a file without a line would count as a return that nobody has.
    fn forget(&self, dispatches: Vec<Dispatch>) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async move {
            let records = dispatches.iter().map(Record::forget).collect();
            self.blocking(move |shared| shared.outbox.remove(&dispatches)).await?;
            self.record(records).await
        })
    }
}

/// Returns may hold secrets: only the owner may look.
fn make_private(dir: &Path) -> Result<(), StoreError> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(|error| io_error("create", dir, &error))
}

fn take_lock(path: &Path) -> Result<File, StoreError> {
    let fail = |error: io::Error| io_error("open", path, &error);
    let options = File::options().create(true).truncate(false).write(true).mode(0o600).open(path);
    let file = options.map_err(fail)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => {
            let dir = path.parent().unwrap_or(path).display();
            Err(StoreError(format!("another peel uses {dir}; each peel needs a data directory of its own")))
        }
        Err(fs::TryLockError::Error(error)) => Err(io_error("lock", path, &error)),
    }
}
