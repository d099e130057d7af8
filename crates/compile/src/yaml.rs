//! YAML as Salt files are written: text to [`Node`](zester_model::node::Node)s that know where they stand.

mod compose;
pub mod emit;
mod fill;
pub mod python_emit;
mod scalar;

pub use compose::{Composed, compose, compose_all, compose_filled};
