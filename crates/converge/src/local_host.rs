//! This machine, as a run uses it: files, processes and the runtime that waits for them.

use std::sync::Arc;
use tokio::runtime::Handle;
use zester_host::{HostWrite, Processes};

#[derive(Clone)]
pub struct LocalHost {
    pub files: Arc<dyn HostWrite>,
    pub processes: Arc<dyn Processes>,
    pub handle: Handle,
}
