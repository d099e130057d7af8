//! One file a command: its words, its help and what it does.

pub mod apply;
pub mod call;
pub mod check;
pub mod completions;
pub mod doc;
pub mod graph;
pub mod lint;
pub mod man;
pub mod revert;
pub mod schema;
pub mod status;
pub mod version;
