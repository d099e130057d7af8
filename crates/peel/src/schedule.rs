//! The schedule of a peel (D-10): where it is written, and what of it is kept on disk.
//!
//! Two sources make one schedule: a file of the machine, and the key `schedule` of its settings; of two entries of one name
//! that of the settings counts. Each is looked at again and again, by itself: settings that hang do not hold up the file. One
//! that is broken changes nothing: what it last said well stays in force, also over a restart.

mod kept;
mod looks;
mod sources;
mod zone;

pub(crate) use kept::{Document, Kept};
pub(crate) use looks::{Looker, SETTINGS_SOURCE, SourceUpdate};
pub(crate) use sources::{Joined, Sources};
pub use zone::local_zone;

use crate::published::DiskCache;
use std::path::PathBuf;
use std::sync::Arc;

/// Where a schedule comes from and where it is kept.
#[derive(Clone)]
pub struct Options {
    pub file: Option<PathBuf>,
    /// Somebody named the file: that it is missing is an error.
    pub file_named: bool,
    /// Published settings, to notice that they are others.
    pub settings_cache: Option<Arc<DiskCache>>,
    /// Where what must be remembered is kept.
    pub dir: PathBuf,
    /// The time zone of this machine.
    pub local_zone: String,
}
