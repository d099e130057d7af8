//! YAML as Salt files are written: text to [`Node`](zester_model::node::Node)s that know where they stand.

mod compose;
mod scalar;

pub use compose::{compose, compose_all};
pub(crate) use scalar::meaning;
