//! Work that holds its thread for a while.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Does what waits for a disk. Where it is called from a task, another thread goes on with the others meanwhile, so that
/// many can wait for their disk at once; how many, the runtime says (`max_blocking_threads`).
pub fn in_place<T>(work: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(work),
        _ => work(),
    }
}
