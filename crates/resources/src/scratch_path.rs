//! Where something is put for as long as a program reads it.

use std::hash::{BuildHasher, Hasher};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use zester_host::process::scratch_name;
use zester_host::{Fault, HostRead};

/// A path among other temp files whose name nobody can guess: their directory is open to all. What is left there by a
/// process that was killed goes with the rest of its leftovers.
pub(crate) fn unused_path(host: &dyn HostRead, name: &str) -> Result<PathBuf, Fault> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let chance = std::collections::hash_map::RandomState::new().build_hasher().finish();
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    host.real_path(&host.temp_dir().join(scratch_name(&format!("{chance:016x}-{count}-{name}"))))
}
