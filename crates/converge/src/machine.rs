//! This machine, as a run uses it: files, processes and the runtime that waits for them.

use std::sync::Arc;
use tokio::runtime::Handle;
use zester_host::{Processes, Touch};

#[derive(Clone)]
pub struct Machine {
    pub files: Arc<dyn Touch>,
    pub processes: Arc<dyn Processes>,
    pub handle: Handle,
}
