//! What a daemon tells of itself (D-11): `/healthz` while it lives, `/readyz` whether its checks hold, `/metrics`.
//!
//! Each part of a daemon reports its own [`State`] under a name, and registers its own metrics; this crate only collects and
//! serves them. It knows nothing of masters or peels.

mod checks;
mod serve;

pub use checks::{Health, State};
pub use prometheus_client;
pub use serve::{Serving, serve};
