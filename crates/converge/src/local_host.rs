//! This machine, as a run uses it: files, processes and the runtime that waits for them.

use std::sync::Arc;
use tokio::runtime::Handle;
use zester_host::{HostWrite, Processes};
use zester_resources::context::EventSender;

#[derive(Clone)]
pub struct LocalHost {
    pub files: Arc<dyn HostWrite>,
    pub processes: Arc<dyn Processes>,
    pub handle: Handle,
    /// Where the events of states go; none where nobody takes them.
    pub events: Option<Arc<dyn EventSender>>,
}
